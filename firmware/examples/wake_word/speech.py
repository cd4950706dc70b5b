# SPDX-License-Identifier: Apache-2.0
"""Speech of `espeak-ng` and `flite`, noise, and what a wake word network reads of it."""

from __future__ import annotations

import io
import subprocess
import wave
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pymicro_features import MicroFrontend
from scipy.signal import lfilter, resample_poly
from wake import UNIT

Sound = NDArray[np.float32]
RATE_HZ, FRAME, BINS = 16000, 160, 40
NOISES: dict[str, tuple[list[float], list[float]]] = {
    "white": ([1.0], [1.0]),
    "pink": ([0.0499, -0.0960, 0.0506, -0.0044], [1.0, -2.4950, 2.0173, -0.5222]),
    "brown": ([1.0], [1.0, -0.995]),
    "hum": ([1.0, -1.0], [1.0, -1.99, 0.99038]),
}


def _spoken(command: list[str]) -> Sound:
    told = subprocess.run(command, capture_output=True, check=True).stdout
    with wave.open(io.BytesIO(told)) as file:
        rate_hz = file.getframerate()
    # espeak-ng writes before it knows its length, so its header's is too large
    samples = np.frombuffer(told[44:][: (len(told) - 44) // 2 * 2], "<i2").astype(np.float32)
    return np.asarray(resample_poly(samples, RATE_HZ, rate_hz), np.float32)


@cache
def say(text: str, voice: str, pitch: int = 50, speed: int = 160) -> Sound:
    """A voice, `espeak:en-us+f2` or `flite:slt`, says it; without silence, its peak is 1."""
    engine, name = voice.split(":")
    if engine == "espeak":
        samples = _spoken(["espeak-ng", "-v", name, "-p", str(pitch), "-s", str(speed), "--stdout", text])
    else:
        tune = [f"duration_stretch={160 / speed:.3f}", f"int_f0_target_mean={60 + 1.4 * pitch:.0f}"]
        options = [word for each in tune for word in ("--setf", each)]
        samples = _spoken(["flite", "-voice", name, *options, "-t", text, "-o", "/dev/stdout"])
    loud = np.flatnonzero(np.abs(samples) > 0.02 * np.abs(samples).max())
    samples = samples[loud[0] : loud[-1] + 1]
    return samples / np.abs(samples).max()


def in_noise(draw: np.random.Generator, x: Sound, kinds: tuple[str, ...]) -> Sound:
    """Somewhere between near and far, in a noise that is 5 to 30 dB lower."""
    noise = lfilter(*NOISES[str(draw.choice(kinds))], draw.standard_normal(len(x)))
    noise *= 0.1 * 10 ** (draw.uniform(-30, -5) / 20) / np.sqrt(np.mean(noise**2))
    return np.asarray(10 ** (draw.uniform(-14, -2) / 20) * (x + noise), np.float32)


def features(x: Sound) -> NDArray[np.int16]:
    """What the network reads of samples in [-1, 1]: 40 numbers each 10 ms, in `UNIT`s."""
    frontend: Any = MicroFrontend()
    data = np.clip(np.round(x * 32767), -32768, 32767).astype("<i2").tobytes()
    parts = (data[start : start + 2 * FRAME] for start in range(0, len(data) - 2 * FRAME + 1, 2 * FRAME))
    rows = [row for part in parts if (row := frontend.process_samples(part).features)]
    return np.round(np.array(rows) / UNIT).astype(np.int16)
