# SPDX-License-Identifier: Apache-2.0
"""Many problems by many methods: models, boards, RAM budgets and deadlines (docs/baselines.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from poet_planner.comparison.code_version import code_version
from poet_planner.comparison.compare import Setting, Subject, answers, place_of, point_of
from poet_planner.comparison.sweep_table import FAILED, Point
from poet_planner.planning.method import Method
from poet_planner.solve import OptimiseOptions


def settings_of(subject: Subject, rams: Iterable[str], deadlines: Iterable[str]) -> list[Setting]:
    """Every pair of a RAM budget and a deadline, each once, as the user writes them.

    A RAM is as ``--ram``, or ``smallest``: the RAM without which there is no schedule; a deadline as ``--deadline``.

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
    seconds_of = {deadline_s(text, store_all.time_s): None for text in deadlines}
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


def sweep(asked: Iterable[Asked], options: OptimiseOptions, jobs: int) -> Iterator[list[Point]]:
    """The points of each problem, in the order in which problems finish.

    Runs on joblib's default backend; `joblib.parallel_config` around it puts it on a cluster (see `cluster.workers`).
    """
    from joblib import Parallel, delayed

    quiet = replace(options, progress=None)
    planned = [delayed(_planned)(one, quiet) for one in asked]
    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(planned)


def _planned(asked: Asked, options: OptimiseOptions) -> list[Point]:
    return [point_of(asked.setting, answer, options) for answer in answers(asked.setting, asked.methods, options)]
