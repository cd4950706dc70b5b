# SPDX-License-Identifier: Apache-2.0
"""A request and its answer over a line that may lose, double or change bytes.

Each request carries the next sequence number. The device acknowledges it, works with the line quiet, and answers. A
request without an answer in time is sent again under the same number; the device then repeats its kept answer instead
of working twice. A repeated request starts with a line feed, so that what was left of a torn line ends there.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections import deque
from dataclasses import dataclass
from typing import NoReturn, Protocol

from poet_profiles.errors import NO_DEVICE, UserError
from poet_profiles.program.stopping import heed
from poet_profiles.protocol.frame import MAX_LINE, SEQUENCE_MODULUS, Frame, LineSplitter, decode, encode

RESET_ERROR = -4
RESET_TEXT = "reset"
SILENT_ATTEMPTS = 3
LONGEST_BACKOFF = 8
NOISY_ATTEMPTS = 50
# A USB block of a full-speed device: what a damaged long line is cut at.
USB_BLOCK = 64
LONG_LINES = (
    "long lines arrive damaged there. A Nordic DK does so at 1 Mbaud while its drive JLINK is on: JLinkExe, then "
    "MSDDisable, then unplug it (docs/boards.md)"
)
# Between two looks at the clock while the line is quiet.
READ_S = 0.02
ECHO_S = 1.0  # what repeats a request and is a device has acknowledged it by then
FOREIGN_S = 8.0  # an open line may bring noise until a board has started, which takes 3 s
SHOWN_BYTES = 60
OTHER_FIRMWARE = "another firmware than poet's is there, or a damaged one; flash that of this version"


class Stream(Protocol):
    """What a link needs of a port: the part of pyserial's interface that every transport here offers."""

    timeout: float | None

    @property
    def in_waiting(self) -> int: ...

    def read(self, size: int = 1, /) -> bytes: ...

    def write(self, data: bytes, /) -> int | None: ...

    def close(self) -> None: ...


class DeviceError(UserError):
    """The device answered a request with ``err``. Exit code 4.

    Parameters
    ----------
    number : int
        Its ``poet_status``.
    text : str
        Its words.
    """

    def __init__(self, number: int, text: str) -> None:
        super().__init__(f"the board answers: {text} (error {number})", NO_DEVICE)
        self.number = number
        self.text = text


class LostDeviceError(UserError):
    """A port or an instrument that answered until now is gone: pulled out, or without power. Exit code 4."""

    def __init__(self, what: str, error: Exception, cure: str = "plug it in") -> None:
        super().__init__(f"{what} ({error}); {cure}; repeat the command, with --resume if it has that", NO_DEVICE)


class EndedError(OSError):
    """The far end of a stream has hung up.

    Parameters
    ----------
    why : str
        What is known of that.
    cure : str
        What to do.
    """

    def __init__(self, why: str, cure: str) -> None:
        super().__init__(why)
        self.cure = cure


class SilentDeviceError(UserError):
    """No device answers at the port: nothing does, or something else."""


class DeviceResetError(UserError):
    """The device has started anew since the last ``hello``; what it held in RAM is lost. Exit code 4."""

    def __init__(self, why: str = "check its supply") -> None:
        super().__init__(f"the board was reset: {why}", NO_DEVICE)


class Values(dict[str, str]):
    """The pairs of an answer.

    Raises
    ------
    UserError
        With exit code 4, where what is asked for is missing, or is no such number.
    """

    def __missing__(self, name: str) -> NoReturn:
        raise UserError(f"the board's answer has no {name}=; {OTHER_FIRMWARE}", NO_DEVICE)

    def number(self, name: str, base: int = 10, *, least: int = 0, default: int | None = None) -> int:
        """A whole number; `default`, if there is one, where it is missing."""
        if default is not None and name not in self:
            return default
        return self._whole(name, self[name], base, least)

    def numbers(self, name: str) -> list[int]:
        """Whole numbers, with a comma between two."""
        return [self._whole(name, word) for word in self[name].split(",")]

    def data(self, name: str) -> bytes:
        """Bytes in hexadecimal."""
        try:
            return bytes.fromhex(self[name])
        except ValueError:
            raise self._unfit(name) from None

    def _whole(self, name: str, word: str, base: int = 10, least: int = 0) -> int:
        try:
            number = int(word, base)
        except ValueError:
            raise self._unfit(name) from None
        if number < least:
            raise self._unfit(name)
        return number

    def _unfit(self, name: str) -> UserError:
        return UserError(f"the board's answer has {name}={self[name]}; {OTHER_FIRMWARE}", NO_DEVICE)


@dataclass(frozen=True)
class TimedAnswer:
    """Values of an ``ok``, and the host's clock when the request was acknowledged and when it was answered.

    The former is NaN where the request was repeated before it was acknowledged: it may then have come after the work.
    """

    values: Values
    acknowledged_s: float
    answered_s: float


@dataclass(frozen=True)
class Patience:
    """How long a link waits before it sends a request again, and how often it does.

    Parameters
    ----------
    acknowledge_s : float
        Time for the ``ack``.
    answer_s : float
        Time from the ``ack`` to the answer, on top of twice the work that the caller expects.
    attempts : int
        Requests in a row that bring not a single byte back before the link gives up. A noisy line gets more.
    """

    acknowledge_s: float = 0.3
    answer_s: float = 1.0
    attempts: int = 12


class Link:
    """The host's end of the line.

    Parameters
    ----------
    stream : Stream
        An open port.
    name : str
        Its name in messages.
    patience : Patience
        When to repeat and when to give up.
    """

    def __init__(self, stream: Stream, name: str, patience: Patience | None = None) -> None:
        self.name = name
        self.repeated = 0
        self._stream = stream
        # Set once and for all: on rfc2217:// every change negotiates the line's settings anew.
        self._stream.timeout = READ_S
        self._patience = patience or Patience()
        self._lines = LineSplitter()
        self._received: deque[bytes] = deque()
        self.next_sequence = random.randrange(SEQUENCE_MODULUS)
        self._received_any = False
        self._request = b""
        self._echoed = False
        self._answered = False  # by a device, since the link was opened
        self._foreign = b""  # the beginning of what came before that

    def request(
        self, text: str, expected_s: float = 0.0, attempts: int | None = None, longest: int = MAX_LINE
    ) -> TimedAnswer:
        """Send a request and wait for its answer.

        Parameters
        ----------
        text : str
            Verb and arguments.
        expected_s : float
            How long the work is expected to take; during it the line stays quiet.
        attempts : int, optional
            Fewer or more silent requests than the link's patience allows.
        longest : int
            Characters of a line that the device takes.

        Raises
        ------
        DeviceError
            If the device answers ``err``.
        DeviceResetError
            If it says that it was reset.
        SilentDeviceError
            With exit code 4, if it does not answer.
        UserError
            With exit code 4, if the port is gone.
        """
        sequence, self.next_sequence = self.next_sequence, (self.next_sequence + 1) % SEQUENCE_MODULUS
        line = encode(">", sequence, text, longest)
        self._request = line.rstrip(b"\n")
        work_s = self._patience.answer_s + 2.0 * expected_s
        acknowledged_s: float | None = None
        most_silent = attempts or self._patience.attempts
        silent = foreign = 0
        begun_s = time.monotonic()
        for attempt in range(NOISY_ATTEMPTS * most_silent):
            self._write(b"\n" + line if attempt else line)
            self.repeated += attempt > 0
            sent_s = time.monotonic()
            # A device that is silent may be working, its ack lost: ask ever more seldom, so as not to disturb it.
            backoff = min(2**silent, LONGEST_BACKOFF)
            may_work = acknowledged_s is not None or silent >= SILENT_ATTEMPTS
            deadline_s = sent_s + (work_s if may_work else self._patience.acknowledge_s) * backoff
            self._received_any = bool(self._received)
            while (frame := self._receive(sequence, deadline_s)) is not None:
                if frame.text == "ack":
                    received_s = time.monotonic()
                    acknowledged_s = acknowledged_s or (math.nan if attempt else received_s)
                    deadline_s = received_s + work_s * backoff
                    continue
                return TimedAnswer(_values(frame.text), acknowledged_s or math.nan, time.monotonic())
            silent = 0 if self._received_any else silent + 1
            foreign += self._received_any and not self._answered
            if self._echoed and not self._answered:
                raise self._no_device(
                    "what is sent comes back: a loopback, a modem, a login or another console is there"
                )
            if foreign >= most_silent and time.monotonic() - begun_s > FOREIGN_S:
                shown = f"{_shown(self._foreign)}; is it the right port?"
                raise self._no_device(f"what answers does not speak the protocol, or at another baud rate: {shown}")
            if silent == most_silent:
                break
        hint = f"; if shorter requests are answered, {LONG_LINES}" if len(line) > USB_BLOCK else ""
        raise SilentDeviceError(
            f"{self.name}: no answer to {text.split()[0]!r}; is the board powered, flashed and at this port?{hint}",
            NO_DEVICE,
        )

    def close(self) -> None:
        self._stream.close()

    def _no_device(self, words: str) -> SilentDeviceError:
        return SilentDeviceError(f"{self.name}: {words}", NO_DEVICE)

    def _write(self, data: bytes) -> None:
        try:
            self._stream.write(data)
        except OSError as error:
            raise self._lost(error) from error

    def _receive(self, sequence: int, deadline_s: float) -> Frame | None:
        """The next answer to a request; None when the time is up, or at once when an answer is damaged."""
        while time.monotonic() < deadline_s:
            heed()
            if not self._received:
                self._received.extend(self._lines.feed(self._read()))
                continue
            line = self._received.popleft()
            frame = decode(line)
            if frame is None and line.startswith(b"<"):
                return None
            if line.endswith(self._request):  # perhaps after a prompt
                self._echoed = True
                deadline_s = min(deadline_s, time.monotonic() + ECHO_S)
            self._answered |= frame is not None and frame.direction == "<"
            if frame is not None and frame.direction == "<" and frame.sequence == sequence:
                return frame
        return None

    def _read(self) -> bytes:
        try:
            data = self._stream.read(max(1, self._stream.in_waiting))
        except OSError as error:
            raise self._lost(error) from error
        self._received_any |= bool(data)
        if not self._answered:
            self._foreign = (self._foreign + data)[:SHOWN_BYTES]
        return data

    def _lost(self, error: Exception) -> LostDeviceError:
        cure = "see that its server runs" if self.name.startswith(("socket:", "rfc2217:")) else "plug it in"
        return LostDeviceError(f"{self.name}: the port is gone", error, getattr(error, "cure", cure))


def _shown(data: bytes) -> str:
    """Text as text, and anything else in hexadecimal."""
    if sum(byte in b"\r\n\t" or 32 <= byte < 127 for byte in data) < 0.9 * len(data):
        return data.hex()
    return repr(" ".join(data.decode("ascii", "replace").split()))


def _values(text: str) -> Values:
    kind, _, rest = text.partition(" ")
    if kind == "ok":
        return Values(pair.partition("=")[::2] for pair in rest.split())
    number, _, words = rest.partition(" ")
    if kind == "err" and re.fullmatch("-?[0-9]{1,9}", number):
        if int(number) == RESET_ERROR and words.startswith(RESET_TEXT):
            raise DeviceResetError
        raise DeviceError(int(number), words)
    raise DeviceError(0, f"unknown answer {text!r}")
