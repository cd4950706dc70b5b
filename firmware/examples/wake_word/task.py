# SPDX-License-Identifier: Apache-2.0
"""Two wearers say "hello sesame", all other sound is not it."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from speech import BINS, FRAME, RATE_HZ, features, in_noise, say
from wake import network

WORD = "hello sesame"
WEARERS = ("flite:slt", "espeak:en-gb-scotland+m4")
OTHERS = (
    "flite:kal16",
    *(f"espeak:en-us+{name}" for name in ("m1", "m3", "f1", "f3", "Andy", "linda", "steph", "max", "Gene", "quincy")),
    *(f"espeak:en-gb+{name}" for name in ("m2", "m7", "f2", "Mike", "grandma", "victor")),
)
STRANGERS = (
    *("flite:rms", "flite:awb"),
    *(f"espeak:en-gb-x-rp+{name}" for name in ("m6", "f4", "belinda", "rob", "anika", "paul")),
    *(f"espeak:en-us+{name}" for name in ("Annie", "david", "michael", "shelby", "sandro")),
)
NEAR, *PARTS = (
    words.split(",")
    for words in (
        "hello,sesame,open sesame,hello sarah,hello simon,yellow sea,hello everybody,hello there",
        "my brother,the old teacher,a neighbour,our driver,the doctor,her cousin,this farmer,the captain",
        "bought,was looking for,forgot,is painting,will carry,never liked,has repaired,wants",
        "two red apples,the broken window,a letter from london,his bicycle,some warm bread,the garden table",
        "yesterday,in the morning,before dinner,on monday,after the rain,without asking",
    )
)
HOP_S = 0.09
HOP = round(100 * HOP_S)
# A window has the word if it ends so many frames after it.
LATE = (4, 30)


class Speakers:
    """Who speaks when the device learns, or `later`: other people, words, pitches and noises."""

    def __init__(self, seed: int, later: bool) -> None:
        self.draw = np.random.default_rng([seed, later])
        self._later = later
        self._others = STRANGERS if later else OTHERS
        self._noises = ("pink", "brown", "hum") if later else ("white", "pink", "hum")

    def _said(self, text: str, voice: str) -> NDArray[np.float32]:
        pitch, speed = 2 * self.draw.integers(20, 32), 2 * self.draw.integers(70, 95)
        return say(text, voice, int(pitch) + (not self._later), int(speed) + (not self._later))

    def _sentence(self) -> str:
        if not self._later and self.draw.random() < 0.3:
            return str(self.draw.choice(NEAR))
        words = [str(self.draw.choice(part[self._later :: 2])) for part in PARTS]
        return " ".join(words[: self.draw.integers(2, 5)])

    def word(self, voice: str) -> tuple[NDArray[np.int16], int]:
        """Four seconds with the word in them, and the frame in which it ends."""
        x, said = np.zeros(4 * RATE_HZ, np.float32), self._said(WORD, voice)
        end = int(self.draw.uniform(2.8, 3.4) * RATE_HZ)
        x[end - len(said) : end] = said
        return features(in_noise(self.draw, x, self._noises)), end // FRAME

    def without(self, seconds: float) -> NDArray[np.int16]:
        """Speech of everybody, wearers, too, and pauses; another noise each half minute."""
        parts = []
        for _ in range(max(1, round(seconds / 30))):
            x, at = np.zeros(30 * RATE_HZ, np.float32), int(self.draw.uniform(0, RATE_HZ))
            while at < len(x) - 4 * RATE_HZ:
                voices = WEARERS if self.draw.random() < 0.4 else self._others
                said = self._said(self._sentence(), str(self.draw.choice(voices)))[: 4 * RATE_HZ]
                x[at : at + len(said)] = 10 ** (self.draw.uniform(-8, 0) / 20) * said
                at += len(said) + int(self.draw.exponential(0.9) * RATE_HZ)
            parts.append(features(in_noise(self.draw, x, self._noises)))
        return np.concatenate(parts)


Windows = tuple[NDArray[np.int16], NDArray[np.float32]]


def shown(frames: int, words: int, others: int, seed: int = 1) -> Windows:
    """What it learns from: so many words of each wearer at three places, and other windows."""
    speakers, found = Speakers(seed, later=False), []
    for voice in words * WEARERS:
        sound, end = speakers.word(voice)
        found += [sound[end + late - frames :][:frames] for late in speakers.draw.integers(*LATE, 3)]
    there, sound = len(found), speakers.without(2.0 * others)
    found += [sound[start:][:frames] for start in speakers.draw.choice(len(sound) - frames, others, replace=False)]
    order = speakers.draw.permutation(len(found))
    return np.stack(found).transpose(0, 2, 1)[order], (order < there).astype(np.float32)


def heard(frames: int, words: int, minutes: float, seed: int = 1) -> Windows:
    """What it hears later: so many words of each wearer, and minutes without the word."""
    speakers, found, there = Speakers(seed, later=True), list[NDArray[np.int16]](), list[bool]()
    for voice in words * WEARERS:
        sound, end = speakers.word(voice)
        ends = [frames, *range(end + LATE[0], min(end + 45, len(sound)), HOP)]
        found += [sound[last - frames : last] for last in ends]
        there += [last > end for last in ends]
    sound = speakers.without(60 * minutes)
    found += [sound[last - frames : last] for last in range(frames, len(sound), HOP)]
    return np.stack(found).transpose(0, 2, 1), np.array(there + [False] * (len(found) - len(there)), np.float32)


def write(folder: Path, words: int = 15, others: int = 270, minutes: float = 10, played: int = 40) -> None:
    """Both sets, and what fits into a device's flash: so many windows, and two more words."""
    folder.mkdir(parents=True, exist_ok=True)
    frames = network(1).inputs[0].shape[2]
    (x, y), (x_later, y_later) = shown(frames, words, others), heard(frames, words, minutes)
    np.savez(folder / "samples.npz", x_train=x, y_train=y, x_val=x_later[::4], y_val=y_later[::4])
    np.savez(folder / "heard.npz", x=x_later, y=y_later)
    speakers = Speakers(2, later=True)
    stream = np.concatenate([speakers.word(voice)[0] for voice in WEARERS])
    (folder / "shown.i16").write_bytes(x[:played].astype("<i2").tobytes())
    (folder / "there.f32").write_bytes(y[:played].astype("<f4").tobytes())
    (folder / "heard.i16").write_bytes(stream.reshape(-1, BINS).astype("<i2").tobytes())


if __name__ == "__main__":
    write(Path(sys.argv[1]))
