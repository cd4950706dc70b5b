# SPDX-License-Identifier: Apache-2.0
"""The device's end of the line: each request is acknowledged, carried out once, and its answer kept.

A host that receives no answer asks again under the same number, and gets the kept one. An agent that was started anew
has lost what it held: it refuses every verb until the host has said `hello`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from poet_profiles.protocol.frame import LONG_LINE, LineSplitter, decode, encode
from poet_profiles.protocol.status import Status

HELLO = "hello"
Verb = Callable[[Sequence[str]], str]
"""Carries out a request, given its arguments, and returns the pairs of the answer."""


# How PyTorch, CUDA and C++ say that there is none.
_NO_MEMORY = re.compile("(can't|cannot|failed to) allocate|(out of|not enough) memory|bad_alloc", re.IGNORECASE)


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
        self._kept: tuple[int, bytes] | None = None
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
                send(self._answer(frame.sequence, frame.text))

    def _answer(self, sequence: int, text: str) -> bytes:
        """The line that answers a request. What goes wrong in a verb is an answer, and not the agent's end."""
        verb, *arguments = text.split() or [""]
        if verb != HELLO and self._kept is not None and self._kept[0] == sequence:
            return self._kept[1]
        try:
            answer = encode("<", sequence, self._carried_out(verb, arguments), LONG_LINE)
        except RefusedError as refusal:
            answer = _refused(sequence, refusal.status, refusal.words)
        except Exception as error:
            words = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
            answer = _refused(sequence, Status.E_MEMORY if lacks_memory(error) else Status.E_UNSUPPORTED, words)
        self._kept = sequence, answer
        return answer

    def _carried_out(self, verb: str, arguments: Sequence[str]) -> str:
        if verb == HELLO:
            self._greeted = True
        elif not self._greeted:
            raise RefusedError(Status.E_ORDER, "reset")
        if verb not in self._verbs:
            raise RefusedError(Status.E_UNSUPPORTED, "unknown verb")
        return f"ok {self._verbs[verb](arguments)}".rstrip()


def lacks_memory(error: Exception) -> bool:
    """Whether there is too little memory for what was tried."""
    return isinstance(error, MemoryError) or _NO_MEMORY.search(str(error)) is not None


def _refused(sequence: int, status: Status, words: str) -> bytes:
    return encode("<", sequence, f"err {status.value} {_printable(words)}".rstrip(), LONG_LINE)


def _printable(words: str) -> str:
    """In the line's alphabet, and short enough for it."""
    ascii_only = words.encode("ascii", "replace").decode()
    return " ".join("".join(char if char.isprintable() else " " for char in ascii_only).split())[:400]
