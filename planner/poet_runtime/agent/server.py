# SPDX-License-Identifier: Apache-2.0
"""The device's end of the line: each request is acknowledged, carried out once, and its answer kept.

A host that hears no answer asks again under the same number, and gets the kept one. An agent that was started anew
has lost what it held: it refuses every verb until the host has said `hello`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from poet_profiles.protocol.frame import LONG_LINE, LineSplitter, decode, encode
from poet_profiles.protocol.status import Status

HELLO = "hello"
Verb = Callable[[Sequence[str]], str]
"""Carries out a request, given its arguments, and returns the pairs of the answer."""


class RefusedError(Exception):
    """A request that the agent answers with ``err``.

    Parameters
    ----------
    status : Status
        Its number.
    words : str
        Why, in printable ASCII.
    """

    def __init__(self, status: Status, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


class Server:
    """Answers what a host sends.

    Parameters
    ----------
    verbs : mapping of str to callable
        By name; ``hello`` is among them.
    """

    def __init__(self, verbs: Mapping[str, Verb]) -> None:
        self._verbs = verbs
        self._greeted = False
        self._kept: tuple[int, str] | None = None
        self.begin()

    def begin(self) -> None:
        """A host connects: what was left of another one's line is forgotten."""
        self._lines = LineSplitter()

    def feed(self, data: bytes, send: Callable[[bytes], object]) -> None:
        """Take bytes of the line, and send what they ask for."""
        for line in self._lines.feed(data):
            frame = decode(line)
            if frame is not None and frame.direction == ">":
                send(encode("<", frame.sequence, "ack"))
                send(encode("<", frame.sequence, self._answer(frame.sequence, frame.text), LONG_LINE))

    def _answer(self, sequence: int, text: str) -> str:
        verb, *arguments = text.split() or [""]
        if verb != HELLO and self._kept is not None and self._kept[0] == sequence:
            return self._kept[1]
        answer = self._carried_out(verb, arguments)
        self._kept = sequence, answer
        return answer

    def _carried_out(self, verb: str, arguments: Sequence[str]) -> str:
        if verb == HELLO:
            self._greeted = True
        elif not self._greeted:
            return f"err {Status.E_ORDER.value} reset"
        if verb not in self._verbs:
            return f"err {Status.E_UNSUPPORTED.value} unknown verb"
        try:
            return f"ok {self._verbs[verb](arguments)}".rstrip()
        except RefusedError as refusal:
            return f"err {refusal.status.value} {_printable(refusal.words)}"


def _printable(words: str) -> str:
    """In the line's alphabet, and short enough for it."""
    ascii_only = words.encode("ascii", "replace").decode()
    return " ".join("".join(char if char.isprintable() else " " for char in ascii_only).split())[:400]
