# SPDX-License-Identifier: Apache-2.0
"""Many problems by many methods: models, boards, RAM budgets and deadlines (docs/baselines.md).

Problems whose costs are proportional differ for methods that page alone, so the others plan for one of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from poet_profiles.graph import Graph, Uses

from poet_planner.comparison.code_version import code_version
from poet_planner.comparison.compare import MethodResult, Setting, Subject, answers, place_of, point_of
from poet_planner.comparison.sweep_table import FAILED, Point
from poet_planner.planning.method import Method
from poet_planner.solve import OptimiseOptions
from poet_planner.solve.starts import cheapest_start

# Published costs have nine digits.
SAME_SHARE = 1e-6


def settings_of(subject: Subject, rams: Iterable[str], deadlines: Iterable[str]) -> list[Setting]:
    """Every pair of a RAM budget and a deadline, each once, as the user writes them.

    Parameters
    ----------
    rams : iterable of str
        As ``--ram``, or ``smallest``: the RAM without which there is no schedule.
    deadlines : iterable of str
        As ``--deadline``, or ``none``.

    Raises
    ------
    UserError
        If one is no such amount.
    """
    from poet_profiles.graph.sizes import smallest_ram_bytes

    from poet_planner.report.quantities import deadline_s, ram_bytes

    store_all = subject.store_all
    bytes_of = {
        smallest_ram_bytes(subject.graph) if text == "smallest" else ram_bytes(text, store_all.peak_bytes): None
        for text in rams
    }
    seconds_of = {None if text == "none" else deadline_s(text, store_all.time_s): None for text in deadlines}
    return [Setting(subject, ram, deadline) for ram, deadline in product(bytes_of, seconds_of)]


class Asked(NamedTuple):
    """A problem, and the methods that are to plan for it."""

    setting: Setting
    methods: tuple[Method, ...]


def missing(
    settings: Iterable[Setting], methods: Sequence[Method], options: OptimiseOptions, known: Iterable[Point]
) -> list[Asked]:
    """What has not been planned yet in this time limit, by this code."""
    limit_and_code = options.time_limit_s, code_version()
    done = {
        point.place
        for point in known
        if (point.time_limit_s, point.code_version) == limit_and_code and point.status != FAILED
    }
    asked = (
        Asked(setting, tuple(method for method in methods if place_of(setting, method, options) not in done))
        for setting in settings
    )
    return [one for one in asked if one.methods]


def tasks_of(asked: Iterable[Asked]) -> list[list[Asked]]:
    """What is planned together: problems that are the same to a method that does not page."""
    tasks: dict[tuple[str, int], list[list[Asked]]] = {}
    for one in asked:
        alike = tasks.setdefault((one.setting.subject.graph_hash, one.setting.ram_bytes), [])
        task = next((task for task in alike if _same_without_paging(task[0].setting, one.setting)), None)
        if task is None:
            alike.append([one])
        else:
            task.append(one)
    return [task for alike in tasks.values() for task in alike]


def sweep(tasks: Iterable[Sequence[Asked]], options: OptimiseOptions, jobs: int) -> Iterator[list[Point]]:
    """The points of each task, in the order in which tasks finish.

    Runs on joblib's default backend; `joblib.parallel_config` around it puts it on a cluster (see `cluster.workers`).
    """
    from joblib import Parallel, delayed

    quiet = replace(options, progress=None)
    planned = [delayed(_planned)(task, quiet) for task in tasks]
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(planned)


def _planned(task: Sequence[Asked], options: OptimiseOptions) -> list[Point]:
    points = []
    known: dict[str, MethodResult] = {}
    source = task[0].setting
    for setting, methods in task:
        found = list(answers(setting, methods, options, _carried_over(known, source, setting)))
        points += [point_of(setting, answer, options) for answer in found]
        if setting is source:
            alike = (answer for answer in found if not (answer.method.pages or answer.method.in_parts))
            known = {answer.method.name: answer for answer in alike}
    return points


def _carried_over(known: Mapping[str, MethodResult], source: Setting, setting: Setting) -> dict[str, MethodResult]:
    """The answers for the ``source`` as answers for the ``setting``; without those that rounding breaks."""
    note = f"as planned for {source.subject.board or source.subject.model}: the costs of computes are proportional"
    carried = {}
    for name, answer in known.items():
        if answer.schedule is None:
            carried[name] = answer
            continue
        limits = setting.ram_bytes, setting.deadline_s
        schedule = cheapest_start(setting.subject.graph, *limits, [answer.schedule], paging=False)
        if schedule is not None:
            carried[name] = replace(answer, schedule=schedule, note=note)
    return carried


def _same_without_paging(one: Setting, other: Setting) -> bool:
    """Of settings with the same structure and RAM."""
    if not _proportional(one.subject.graph, other.subject.graph):
        return False
    if one.deadline_s is None or other.deadline_s is None:
        return one.deadline_s is other.deadline_s
    stretched_s = one.deadline_s * other.subject.store_all.time_s
    return math.isclose(stretched_s, other.deadline_s * one.subject.store_all.time_s, rel_tol=SAME_SHARE)


def _proportional(one: Graph, other: Graph) -> bool:
    """Whether times and energies of computes are those of the other graph, but for a factor each."""
    if one.allocates != other.allocates:
        return False
    if [node.recomputable for node in one.nodes] != [node.recomputable for node in other.nodes]:
        return False
    if one.dma != other.dma and any(node.uses is not Uses.CPU for node in one.nodes):
        return False
    times = ([node.time_s for node in graph.nodes] for graph in (one, other))
    energies = ([node.energy_j for node in graph.nodes] for graph in (one, other))
    return _same_shares(*times) and _same_shares(*energies)


def _same_shares(one: Sequence[float], other: Sequence[float]) -> bool:
    if not sum(one) or not sum(other):
        return sum(one) == sum(other)
    return np.allclose(np.divide(one, sum(one)), np.divide(other, sum(other)), rtol=SAME_SHARE, atol=0)
