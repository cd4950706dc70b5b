# SPDX-License-Identifier: Apache-2.0
"""Groups of elementwise operators, as steps in which each name is given once.

The firmware's places for the names are found when a group is written down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from poet_profiles.firmware.steps import (
    COPY,
    KINDS,
    MOST_INPUTS,
    MOST_OUTPUTS,
    MOST_WORDS,
    REGISTERS,
    SUM,
    Step,
    pointwise_params,
    steps_in,
    words_of,
)


@dataclass(frozen=True)
class Group:
    """What `pointwise` computes of tensors of ``size`` elements.

    Steps read inputs, ``x0`` and so on, and what earlier ones gave, by its name. A step that needs what its result was
    before reads that first. ``outputs`` are names of results.
    """

    size: int
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]

    def params(self) -> dict[str, int] | None:
        """Parameters of the firmware's operator; None if it has too few places, or words."""
        if len(self.inputs) > MOST_INPUTS or not 1 <= len(self.outputs) <= MOST_OUTPUTS:
            return None
        steps = _placed(self.steps, self.outputs)
        return pointwise_params(self.size, steps) if steps and len(words_of(steps)) <= MOST_WORDS else None


def group_of(params: Mapping[str, int], inputs: Sequence[str]) -> Group:
    """The group whose parameters these are."""
    now: dict[str, str] = {}
    steps = []
    for number, step in enumerate(steps_in(params)):
        read = (step.y, *step.sources) if KINDS[step.name].reads_y else step.sources
        name = f"s{number}"
        steps.append(replace(step, y=name, sources=tuple(now.get(place, place) for place in read)))
        now[step.y] = name
    outputs = sorted((place for place in now if place.startswith("y")), key=_number)
    return Group(params["size"], tuple(inputs), tuple(steps), tuple(now[place] for place in outputs))


def joined(first: Group, second: Group, results: Mapping[str, str], kept: Iterable[str]) -> Group:
    """Both groups as one.

    ``results`` says by an input of the second, as its tensor is called, which of the first's names it is; ``kept`` are
    those of the first that are results still, and stand after the second's.
    """
    inputs = list(dict.fromkeys((*first.inputs, *(id for id in second.inputs if id not in results))))
    before = {f"x{place}": f"x{inputs.index(id)}" for place, id in enumerate(first.inputs)}
    places = {f"x{place}": results.get(id) or f"x{inputs.index(id)}" for place, id in enumerate(second.inputs)}
    places |= {step.y: f"{step.y}'" for step in second.steps}
    steps = (*_with(first.steps, before), *_with(second.steps, places))
    return _renamed(Group(first.size, tuple(inputs), steps, (*(places[name] for name in second.outputs), *kept)))


def read_by(group: Group, input: str, step: Step) -> Group:
    """The group with one of its inputs made by a step from the tensor that is called the same."""
    place = f"x{group.inputs.index(input)}"
    made = replace(step, y="made", sources=(place,))
    return _renamed(replace(group, steps=(made, *_with(group.steps, {place: "made"}))))


def _with(steps: Iterable[Step], names: Mapping[str, str]) -> Iterator[Step]:
    for step in steps:
        sources = tuple(names.get(name, name) for name in step.sources)
        yield replace(step, y=names.get(step.y, step.y), sources=sources)


def _renamed(group: Group) -> Group:
    names = {step.y: f"s{number}" for number, step in enumerate(group.steps)}
    outputs = tuple(names[name] for name in group.outputs)
    return replace(group, steps=tuple(_with(group.steps, names)), outputs=outputs)


def _placed(steps: Sequence[Step], outputs: Sequence[str]) -> list[Step]:
    """Steps with places of the firmware's for names; empty if the registers do not suffice.

    A result goes to its output at once, if no step reads an input after it: the output may lie in an input's place.
    """
    last = {name: number for number, step in enumerate(steps) for name in step.sources}
    reads = max((number for number, step in enumerate(steps) for name in step.sources if name[0] == "x"), default=-1)
    at = {name: f"y{place}" for place, name in enumerate(outputs)}
    free = [f"r{number}" for number in range(REGISTERS)]
    places: dict[str, str] = {}
    found = []
    for number, step in enumerate(steps):
        sources = [places.get(name, name) for name in step.sources]
        over = ""
        if KINDS[step.name].reads_y:
            mask, *sources = sources
            dies = mask[0] == "r" and last[step.sources[0]] == number and step.sources[0] not in at
            over = mask if dies and mask not in sources else ""
        for name in set(step.sources):
            place = places.get(name, "")
            if place[:1] == "r" and last[name] == number and name not in at and place != over:
                free.append(place)
        free.sort()
        if step.y in at and (step.name == SUM or (number >= reads and not KINDS[step.name].reads_y)):
            place = at[step.y]
        elif over:
            place = over
        else:
            usable = [one for one in free if not KINDS[step.name].reads_y or one not in sources]
            if not usable:
                return []
            place = usable[0]
            free.remove(place)
            if KINDS[step.name].reads_y:
                found.append(Step(COPY, place, (mask,)))
        places[step.y] = place
        found.append(replace(step, y=place, sources=tuple(sources)))
    found += [Step(COPY, at[name], (places[name],)) for name in outputs if places[name] != at[name]]
    return found


def _number(place: str) -> int:
    return int(place[1:])
