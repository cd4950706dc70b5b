# SPDX-License-Identifier: Apache-2.0
"""The agent in this process, behind a line that a test may damage, and which it may reset (see `simulated_device`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from poet_profiles.protocol.frame import decode
from poet_runtime.agent.server import Server
from poet_runtime.agent.verbs import Agent
from poet_runtime.agent.window import WindowLine


class ServedAgent:
    """A board that runs the agent.

    Before the requests of given numbers it is started anew, in the middle of them. When it has answered a request of
    another number, it sends this process SIGTERM.
    """

    def __init__(self, folder: Path, resets_before: tuple[int, ...] = (), terminates_at: int | None = None) -> None:
        self._terminates_at = terminates_at
        self.verbs: list[str] = []
        self.received_bytes = 0
        self._folder = folder
        self._resets = list(resets_before)
        self._last = -1
        self._start()

    def _start(self) -> None:
        agent = Agent(self._folder, WindowLine(None), self._folder / "sys")
        self._server = Server(agent.verbs)

    def receive(self, line: bytes) -> Iterator[bytes]:
        """Lines that a request brings back; an acknowledgement alone if the agent ends while it works."""
        self.received_bytes += len(line) + 1
        replies: list[bytes] = []
        frame = decode(line)
        if frame is not None and frame.sequence != self._last:
            self._last = frame.sequence
            self.verbs.append(frame.text.split()[0])
            if self._resets and len(self.verbs) > self._resets[0]:
                self._resets.pop(0)
                self._server.feed(line + b"\n", replies.append)
                self._start()
                yield replies[0]
                return
        self._server.feed(line + b"\n", replies.append)
        if len(self.verbs) == self._terminates_at:
            self._terminates_at = None
            os.kill(os.getpid(), signal.SIGTERM)
        yield from replies
