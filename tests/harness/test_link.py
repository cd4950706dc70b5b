# SPDX-License-Identifier: Apache-2.0
"""The link and the typed verbs against a device that was written from the specification alone."""

from __future__ import annotations

import math
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from poet_harness.ports import open_port
from poet_harness.protocol import link as link_module
from poet_harness.protocol.device import Device
from poet_harness.protocol.link import DeviceError, DeviceResetError, Link, Patience, SilentDeviceError
from poet_profiles.errors import NO_DEVICE, UserError

from tests.support.harness.simulated_device import (
    TICKS_HZ,
    Noise,
    SerialServer,
    SimulatedDevice,
    serve,
    serve_rfc2217,
    serve_terminal,
)
from tests.support.harness.trained import EAGER, device_at


def test_hello_tells_what_the_device_is() -> None:
    with serve(SimulatedDevice(ram_bytes=4096)) as url:
        hello = device_at(url).hello
    assert (hello.board, hello.ram_bytes, hello.ticks_hz) == ("nrf52840", 4096, TICKS_HZ)


def test_residents_come_back_bit_for_bit() -> None:
    data = bytes(range(256)) * 5
    with serve(SimulatedDevice(resident_bytes=(4, len(data)))) as url:
        device = device_at(url)
        device.put(1, data)
        assert device.get(1, len(data)) == data


def test_noise_changes_neither_answers_nor_how_often_work_is_done() -> None:
    quiet, loud = SimulatedDevice(), SimulatedDevice()
    with serve(quiet) as url:
        device = device_at(url)
        expected = [device.bench(7, 3, [size]).work_s for size in range(1, 30)]
    to_device, to_host = Noise(0.01, seed=1), Noise(0.01, seed=2)
    with serve(loud, to_device, to_host) as url:
        device = device_at(url)
        observed = [device.bench(7, 3, [size]).work_s for size in range(1, 30)]
    assert observed == expected
    assert loud.carried_out[-29:] == quiet.carried_out[-29:]
    assert to_device.damaged > 5
    assert to_host.damaged > 5
    assert device.link.repeated > 5


def test_residents_come_back_over_a_noisy_line_too() -> None:
    data = bytes(range(256)) * 2
    with serve(SimulatedDevice(resident_bytes=(len(data),)), Noise(0.01, seed=5), Noise(0.01, seed=6)) as url:
        device = device_at(url)
        device.put(0, data)
        assert device.get(0, len(data)) == data
    assert device.link.repeated > 5


def cut_at_usb_blocks(data: bytes) -> bytes:
    """A DK whose drive JLINK is on: the rest of a block comes as something else."""
    return data if len(data) <= 64 else data[:56] + b"USBSP\0\0\0" + data[64:]


def test_lines_grow_until_they_arrive_damaged(capsys: pytest.CaptureFixture[str]) -> None:
    data = bytes(range(256)) * 2
    simulated = SimulatedDevice(resident_bytes=(len(data),))
    with serve(simulated, cut_at_usb_blocks) as url:
        device = device_at(url)
        device.put(0, data)
        repeated = device.link.repeated
        device.put(0, data)
        assert device.link.repeated == repeated, "what is too long is not tried again"
        assert device.get(0, len(data)) == data
        params = [1234567] * 8
        with pytest.raises(SilentDeviceError, match=r"no answer to 'bench'.*MSDDisable"):
            device.link.request("bench 7 3 " + " ".join(map(str, params)), attempts=1)
    (line,) = capsys.readouterr().err.splitlines()
    assert "going on with shorter lines" in line and "MSDDisable" in line


def test_a_sound_line_soon_carries_its_longest_lines() -> None:
    data = bytes(range(256)) * 8
    simulated = SimulatedDevice(resident_bytes=(len(data),))
    with serve(simulated) as url:
        device_at(url).put(0, data)
    lengths = [len(request.split()[-1]) // 2 for request in simulated.carried_out if request.startswith("put")]
    assert lengths[:6] == [14, 28, 56, 112, 224, 224]


def test_any_url_of_pyserial_will_do(tmp_path: Path) -> None:
    with serve_terminal(SimulatedDevice()) as terminal:
        device = device_at(f"spy://{terminal}?file={tmp_path / 'spy.txt'}")
        assert device.stack() == 512
        device.link.close()
    assert "hello" in (tmp_path / "spy.txt").read_text()


def test_a_serial_port_on_the_network_keeps_its_settings_while_it_is_read() -> None:
    """Each change of a setting costs an RFC 2217 client a tenth of a second, and may disturb the board's line."""
    data = bytes(range(256))
    with serve_rfc2217(SimulatedDevice(resident_bytes=(len(data),))) as (url, servers):
        device = device_at(url)
        device.put(0, data)
        assert device.get(0, len(data)) == data
        assert device.link.repeated == 0
        assert servers[0].port.baudrate == 115_200
        set_baud_rate = b"\xff\xfa\x2c\x01"
        assert 1 <= servers[0].received.count(set_baud_rate) <= 2
        device.link.close()


def test_a_serial_server_that_ends_is_a_port_that_is_gone() -> None:
    with serve_rfc2217(SimulatedDevice()) as (url, servers):
        device = device_at(url)
        servers[0].connection.shutdown(socket.SHUT_RDWR)
        with pytest.raises(UserError, match=r"rfc2217://.*(port is gone|no answer)") as caught:
            device.stack()
        device.link.close()
    assert caught.value.exit_code == NO_DEVICE


def test_a_reset_is_noticed_and_greeted() -> None:
    simulated = SimulatedDevice()
    with serve(simulated) as url:
        device = device_at(url)
        before = device.hello.boot
        simulated.reset()
        with pytest.raises(DeviceResetError):
            device.stack()
        assert device.hello.boot != before
        assert device.stack() == 512


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (" start=pin reset=00000001", "the board was reset: its reset button or line was used"),
        (" start=power reset=00000000", "its supply came up anew"),
        ("", "it does not say why .look at its supply"),
        (" start=stall reset=4 failures=1 waited_for=1", "it waited in vain for the crystal to start"),
        (" start=stack reset=4 failures=1", "its stack grew too far"),
    ],
)
def test_a_reset_is_told_with_its_cause(start: str, words: str) -> None:
    simulated = SimulatedDevice()
    with serve(simulated) as url:
        device = device_at(url)
        simulated.start = start
        simulated.reset()
        with pytest.raises(DeviceResetError, match=words):
            device.stack()


def test_a_fault_is_told_once_a_boot(capsys: pytest.CaptureFixture[str]) -> None:
    simulated = SimulatedDevice(start=" start=fault reset=4 failures=2 pc=00001234 lr=00005678 status=00010000")
    with serve(simulated) as url:
        device = device_at(url)
        device.greet()
        simulated.reset()
        with pytest.raises(DeviceResetError, match="a fault at PC 0x00001234"):
            device.stack()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2, "one for each boot"
    assert all("the board restarted: a fault at PC 0x00001234" in line and "2 times" in line for line in lines)


def test_an_error_carries_the_devices_number_and_words() -> None:
    with serve(SimulatedDevice(card=False)) as url, pytest.raises(DeviceError, match="no card") as caught:
        device_at(url).page("in", 512, 1, "sequential")
    assert caught.value.number == -9


def test_a_device_that_is_silent_ends_with_code_4() -> None:
    def swallow(_: bytes) -> bytes:
        return b""

    with serve(SimulatedDevice(), swallow) as url, pytest.raises(UserError, match="no answer") as caught:
        device_at(url)
    assert caught.value.exit_code == NO_DEVICE


class SleepyDevice(SimulatedDevice):
    """Really takes the time that it says it sleeps, and notes when it woke."""

    def _idle(self, ticks: str) -> str:
        time.sleep(int(ticks) / TICKS_HZ)
        self.woke_s = time.monotonic()
        return super()._idle(ticks)


class LosesLines:
    """Damages the first line with each of some words."""

    def __init__(self, *words: bytes) -> None:
        self.words = list(words)

    def __call__(self, line: bytes) -> bytes:
        for word in self.words:
            if word in line:
                self.words.remove(word)
                return line.replace(word, b"##")
        return line


@pytest.mark.parametrize("lost", [(), (b" ok ticks",), (b" ack",), (b" ack", b" ok ticks")])
def test_the_begin_of_the_work_is_known_or_known_not_to_be(lost: tuple[bytes, ...]) -> None:
    """A clocked meter cuts its window there."""
    simulated, slept_s = SleepyDevice(), 0.2
    line = LosesLines()
    with serve(simulated, to_host=line) as url:
        device = device_at(url)
        line.words = list(lost)
        timing = device.idle(slept_s)
        assert not line.words
        assert timing.work_s == pytest.approx(slept_s)
        if b" ack" in lost:
            assert math.isnan(timing.host_start_s)
        else:
            assert timing.host_start_s < simulated.woke_s
        device.link.close()


def test_a_kept_answer_of_an_earlier_session_is_not_taken_for_a_greeting() -> None:
    simulated = SimulatedDevice()
    with serve(simulated) as url:
        link = Link(open_port(url, 115_200), url, EAGER)
        simulated.greeted = True
        simulated.kept = (link.next_sequence, simulated._line(link.next_sequence, "ok bytes=512"))
        assert Device(link).hello.board == "nrf52840"


class Repeater(SimulatedDevice):
    """Something else than a device: it answers each line with others."""

    def __init__(self, *replies: bytes) -> None:
        super().__init__()
        self.replies = replies

    def receive(self, line: bytes) -> Iterator[bytes]:
        yield from (reply.replace(b"%", line) for reply in self.replies)


@pytest.mark.parametrize(
    "replies",
    [
        (b"%\n",),
        (b"%\r\n",),
        (b"%\r\r\n", b"Login incorrect\r\n\r\nboard login: "),
        (b"%\r\nERROR\r\n",),
        (b"\x1b[?2004hpi@pi:~$ %\r\n",),
        (b">>> %\r\n",),
    ],
)
def test_what_sends_requests_back_is_told_at_once(replies: tuple[bytes, ...]) -> None:
    """A loopback, a login, a modem: even if the link would wait for ten minutes."""
    with (
        serve(Repeater(*replies)) as url,
        pytest.raises(UserError, match="what is sent comes back: a loopback, a modem, a login") as caught,
    ):
        Device(Link(open_port(url, 115_200), url, Patience(acknowledge_s=600.0, answer_s=600.0)))
    assert caught.value.exit_code == NO_DEVICE
    with pytest.raises(UserError, match="loop://: what is sent comes back"):
        device_at("loop://")


def test_a_line_that_echoes_and_has_a_device_is_none_of_these() -> None:
    """As an RS-485 adapter does it."""

    class Echoing(SimulatedDevice):
        def receive(self, line: bytes) -> Iterator[bytes]:
            yield line + b"\n"
            yield from super().receive(line)

    with serve(Echoing()) as url:
        assert device_at(url).stack() == 512


def test_noise_before_a_board_has_started_is_waited_through() -> None:
    """An open pin on the line; more of it than the attempts of a request."""

    class Starting(SimulatedDevice):
        received = 0

        def receive(self, line: bytes) -> Iterator[bytes]:
            self.received += line.startswith(b">")
            yield from super().receive(line) if self.received > 20 else [b"\x00\xf0\n"]

    with serve(Starting()) as url:
        assert device_at(url).hello.board == "nrf52840"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"\r\nERROR\r\n", "not speak the protocol, or at another baud rate: 'ERROR ERROR"),
        (b"$GPGGA,123519,4807.038,N\r\n", r"'\$GPGGA,123519,4807\.038,N "),
        (b"\xf8\x00\x86\xfe\x9e", "baud rate: (f80086fe9e)+.*; is it the right port"),
        (b"\xff\xfe" * 9, "baud rate: fffe"),
        (b"<0001 ok protocol=2*0000\n", "'.*<0001 ok"),
    ],
)
def test_what_is_no_device_is_shown(reply: bytes, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_module, "FOREIGN_S", 0.0)
    with serve(Repeater(reply)) as url, pytest.raises(UserError, match=words) as caught:
        device_at(url)
    assert caught.value.exit_code == NO_DEVICE
    assert "powered" not in str(caught.value)


class OtherFirmware(SimulatedDevice):
    """Speaks the protocol, and says something else in an answer."""

    def __init__(self, said: str, instead: str) -> None:
        super().__init__(resident_bytes=(4, 4))
        self._said, self._instead = said, instead

    def _answer(self, words: list[str]) -> str:
        return re.sub(self._said, self._instead, super()._answer(words))


@pytest.mark.parametrize(
    ("said", "instead", "words"),
    [
        ("^ok protocol.*", "err", "unknown answer 'err'"),
        ("^ok protocol.*", "err x y", "unknown answer 'err x y'"),
        (r" board=\S+", "", "has no board=; "),
        (r" model=\S+", "", "has no model=; "),
        (r"ticks_hz=\S+", "ticks_hz=0", "has ticks_hz=0; "),
        (r"ram_bytes=\S+", "ram_bytes=64K", "has ram_bytes=64K; "),
        (r"ram_bytes=\S+", "ram_bytes=1 line=70", "has line=70; "),
        (r"ram_bytes=\S+", "ram_bytes=1 pc=zz", "has pc=zz; "),
        (r"ticks=\S+", "", "has no ticks=; "),
        (r"ticks=\S+", "ticks=-5", "has ticks=-5; "),
        (r"ticks=\S+", "ticks=1 cpu_khz=fast", "has cpu_khz=fast; "),
        (r"data=\S+", "data=0g", "has data=0g; "),
    ],
)
def test_an_answer_that_is_none_is_one_line(said: str, instead: str, words: str) -> None:
    with serve(OtherFirmware(said, instead)) as url, pytest.raises(UserError, match=words) as caught:
        device = Device(Link(open_port(url, 115_200), url))
        device.bench(7, 3, [1])
        device.get(1, 4)
    assert caught.value.exit_code == NO_DEVICE


def test_a_serial_server_without_modem_signals_is_told_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """ser2net before a pseudo-terminal: it never answers SET-CONTROL."""
    write, answered = SerialServer.write, b"\xff\xfa\x2c\x69"
    monkeypatch.setattr(SerialServer, "write", lambda self, data: data.startswith(answered) or write(self, data))
    with serve_rfc2217(SimulatedDevice()) as (url, _), pytest.raises(UserError, match="no modem signals") as caught:
        open_port(url, 115_200)
    assert str(caught.value).endswith(f"write {url}?ign_set_control")
    with serve_rfc2217(SimulatedDevice()) as (url, _):
        device = device_at(f"{url}?ign_set_control")
        assert device.stack() == 512
        device.link.close()


def test_an_expression_for_ports_that_is_none_is_one_line() -> None:
    with pytest.raises(UserError, match=r"hwgrep://\[: cannot be opened: unterminated character set"):
        open_port("hwgrep://[", 115_200)


def test_a_port_that_is_not_there_is_one_line() -> None:
    with pytest.raises(UserError, match=r"cannot be opened.*ports seen:.*--port.*--emulate") as caught:
        open_port("/dev/no-such-port", 115_200)
    assert caught.value.exit_code == NO_DEVICE
