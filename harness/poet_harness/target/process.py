# SPDX-License-Identifier: Apache-2.0
"""A device that is a program: it speaks the protocol on its standard streams, here or at the far end of ssh."""

from __future__ import annotations

import os
import re
import select
import shlex
import subprocess
from collections.abc import Sequence
from urllib.parse import unquote

from poet_profiles.errors import NO_DEVICE, UserError

from ..protocol.link import EndedError

REMOTE_COMMAND = "poet-agent"
SSH = "ssh://"
SSH_FAILED = 255
NOT_FOUND = 127  # of a shell
SSH_PLACE = re.compile(r"(?P<login>.*@)?(\[(?P<v6>[^][]*)\]|(?P<host>[^][:@]+))(:(?P<port>[0-9]+))?")
READ_BYTES = 4096


class ProcessStream:
    """The standard streams of a program, with the part of pyserial's interface that a link uses.

    Raises
    ------
    UserError
        With exit code 4, if the program cannot be started.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.timeout: float | None = None
        self._is_ssh = command[0] == "ssh"
        try:
            # In a session of its own: a terminal's Ctrl-C is for the harness, which ends it when it is done with it.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as error:
            raise UserError(f"{command[0]}: cannot be started: {error.strerror}", NO_DEVICE) from None
        assert self._process.stdin and self._process.stdout
        self._in = self._process.stdin.fileno()
        self._out = self._process.stdout.fileno()

    @property
    def in_waiting(self) -> int:
        return 0

    def read(self, size: int = 1, /) -> bytes:
        """What has come, up to a few thousand bytes; waits for the first, at most ``timeout`` seconds."""
        ready, _, _ = select.select([self._out], [], [], self.timeout)
        if not ready:
            return b""
        data = os.read(self._out, READ_BYTES)
        if not data:
            raise self._ended()
        return data

    def write(self, data: bytes, /) -> int:
        sent = 0
        try:
            while sent < len(data):
                sent += os.write(self._in, data[sent:])
        except BrokenPipeError:
            raise self._ended() from None
        return sent

    def _ended(self) -> EndedError:
        """Its own words went to standard error, which is the harness's."""
        code = self._process.wait()
        why = f"the program ended with code {code}" if code >= 0 else f"signal {-code} ended the program"
        if self._is_ssh and code == SSH_FAILED:
            return EndedError("ssh has no connection", "its words are above; try the same ssh by hand")
        if self._is_ssh and code == NOT_FOUND:
            return EndedError("no such command there", "give its whole path: ssh://host//home/user/venv/bin/poet-agent")
        return EndedError(why, "if it said why, that is above")

    def close(self) -> None:
        """Close its input, which ends it; make it end if it does not."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def ssh_command(url: str) -> list[str]:
    """Command for ``ssh://user@host:port/remote command``.

    User and host go to ssh as they are written: its configuration heeds capitals. So does the remote command, to
    the shell there; where a word has ``%20`` and the like, what they mean is quoted. Without a command the far end's
    ``poet-agent`` is started. Authentication is ssh's own: it never asks for a password here, since its input carries
    the protocol.
    """
    place, _, remote = url[len(SSH) :].partition("/")
    parts = SSH_PLACE.fullmatch(place)
    if not parts:
        raise UserError(f"{url}: no host, or none that ssh can take; write ssh://user@host[:port], IPv6 in brackets")
    login, host = (unquote(part or "") for part in (parts["login"], parts["host"] or parts["v6"]))
    for what in (login, host):
        if what.startswith("-") or not what.isprintable() or " " in what:
            raise UserError(f"{url}: {what!r} is no name of a user or a host")
    if ":" in login:
        raise UserError(f"ssh://…@{host}: a password has no place in it; let ssh use a key (ssh-copy-id), or ssh-agent")
    words = [shlex.quote(unquote(word)) if "%" in word else word for word in remote.split(" ")]
    return [
        *("ssh", "-T", "-o", "BatchMode=yes", *(("-p", parts["port"]) if parts["port"] else ()), "--"),
        f"{login}{host}",
        *(words if remote.strip() else [REMOTE_COMMAND]),
    ]
