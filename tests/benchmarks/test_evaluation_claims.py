# SPDX-License-Identifier: Apache-2.0
"""Every verdict of the evaluation follows from its table: under a changed table it is the other one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.evaluation import accuracy, beliefs, micro_batches
from benchmarks.evaluation.claims import ALONE, CLAIMS, Claim, Tables, facts
from benchmarks.evaluation.exact import Row
from benchmarks.evaluation.page import committed_tables
from benchmarks.evaluation.results import NONE_EXISTS, NOT_RUN, OURS

Change = Callable[[pd.DataFrame], pd.DataFrame]
ROW = Row("bert", "m4", 0.5, 9, "poet_ilp", "highs", "1", 600.0, 1.5, "feasible", 0.01, 0.01, 0.0, "c", "one core", "")


def tables() -> Tables:
    """The committed tables, with the rows that are not made yet: poet alone as poet, deadlines on computes alone."""
    committed = committed_tables()
    sweeps = dict(committed.sweeps)

    def with_rows(name: str, rows: pd.DataFrame) -> None:
        sweeps[name] = replace(sweeps[name], frame=pd.concat([sweeps[name].frame, rows], ignore_index=True))

    three = sweeps["figure_3"].frame
    with_rows("figure_3", three[three["method"] == OURS].assign(method=ALONE))
    four = sweeps["figure_4"].frame
    computes = four[(four["board"] == "a72") & (four["deadline_of_plain"] > 1.5)].copy()
    again = computes["method"] == "rematerialization_only"
    computes.loc[again, "energy_j"] = float("nan")
    with_rows("figure_4", computes.assign(board="a72-computes"))
    return replace(
        committed, sweeps=sweeps, exact=(ROW,), curves=curves(), steps=tuple(steps()), beliefs=tuple(believed())
    )


def curves() -> tuple[accuracy.Curve, ...]:
    """Everything is right from the first epoch on."""
    return tuple(
        accuracy.Curve(task.name, trained, 0.1, seed, epoch, float(epoch > 0))
        for task in accuracy.TASKS
        for trained in accuracy.TRAINED
        for seed in task.seeds
        for epoch in range(5)
    )


def steps() -> Iterator[accuracy.Step]:
    """Parts cost more than a plan of the whole batch; the head costs least."""
    for task in accuracy.TASKS:
        yield accuracy.Step(task.name, accuracy.FULL, "poet in half", "", 1, 9, 2.0, 8.0, "c")
        for energy_j, trained in zip((4.0, 3.0, 2.0, 1.0), accuracy.TRAINED, strict=True):
            yield accuracy.Step(task.name, trained, "parts in half", "", 2, 9, energy_j, 8.0, "c")


def believed() -> Iterator[beliefs.Row]:
    """Wrong computes cost little, wrong pages much."""
    for case in beliefs.CASES:
        for world, regret in (("right", 0.0), ("each node", 0.002), ("pages x 3", 0.1)):
            yield beliefs.Row(*case, beliefs.RIGHT, world, 0.3, regret, 8.0, "c")


TABLES = tables()


def scaled(method: str, factor: float, column: str = "energy_j") -> Change:
    """A method's column, so many times as much."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        changed = frame.copy()
        changed[column] = changed[column].where(changed["method"] != method, factor * changed[column])
        return changed

    return change


def little(frame: pd.DataFrame) -> pd.DataFrame:
    """poet adds next to nothing, Capuchin much."""
    changed = frame.copy()
    changed.loc[changed["method"] == OURS, "overhead"] = 0.001
    changed.loc[changed["method"] == "capuchin_page_first", "overhead"] = 0.9
    return changed


def swapped_techniques(frame: pd.DataFrame) -> pd.DataFrame:
    names = {"paging_only": "rematerialization_only", "rematerialization_only": "paging_only"}
    return frame.assign(method=frame["method"].replace(names))


def only_printed_order(frame: pd.DataFrame) -> pd.DataFrame:
    """With transfers: wherever paging has no plan, rematerialization has none, and at one point it alone has none."""
    changed = frame.copy()
    with_transfers = ~changed["board"].str.endswith("-computes")
    again = with_transfers & (changed["method"] == "rematerialization_only")
    changed.loc[again, "energy_j"] = float("nan")
    return changed


# By claim: of which table what is changed.
CHANGES: dict[str, tuple[str, Change]] = {
    "least energy": ("figure_3", scaled(ALONE, 2.0)),
    "the trend": ("figure_3", little),
    "below DTR": ("below_dtr", scaled("dtr", 0.5)),
    "one technique": ("figure_3", scaled(OURS, 0.3)),
    "Figure 4, as printed": ("figure_4", swapped_techniques),
    "Figure 4, with transfers": ("figure_4", only_printed_order),
    "Figure 5": ("figure_5", little),
    "Table 3": ("table_3", scaled(OURS, 0.5, "time_s")),
    "half the memory": ("figure_3", scaled(OURS, 4.0, "ram_budget_bytes")),
    "on a Cortex-M": ("figure_3", scaled(OURS, 1e-5, "ram_budget_bytes")),
    "both techniques": ("m4_traced", scaled(OURS, 0.0, "page_ins")),
}


def one_costlier(rows: tuple[accuracy.Step, ...], trained: str, way: str) -> tuple[accuracy.Step, ...]:
    """Of the first task a step of a way, ten times as much."""
    first = accuracy.TASKS[0].name
    return tuple(
        replace(row, energy_j=10 * row.energy_j) if (row.task, row.trained, row.way) == (first, trained, way) else row
        for row in rows
    )


def by_hand_for_nothing() -> pd.DataFrame:
    plans = TABLES.by_hand.copy()
    plans.loc[plans["method"] == micro_batches.BY_HAND, "energy_j"] *= 0.1
    return plans


# The same of what is no sweep.
OTHERS: dict[str, Callable[[], Tables]] = {
    "ten minutes": lambda: replace(TABLES, exact=(ROW, replace(ROW, model="vgg16_cifar", gap=0.01))),
    "micro-batches by hand": lambda: replace(TABLES, by_hand=by_hand_for_nothing()),
    "the whole batch": lambda: replace(TABLES, steps=one_costlier(TABLES.steps, accuracy.FULL, "poet in half")),
    "what to train": lambda: replace(TABLES, steps=one_costlier(TABLES.steps, accuracy.HEAD, "parts in half")),
    "wrong costs": lambda: replace(
        TABLES, beliefs=tuple(replace(row, regret=0.5 * (row.world == "each node")) for row in TABLES.beliefs)
    ),
}


def holds(claim: Claim, of: Tables) -> bool:
    found = claim.finding(of)
    assert found is not None
    return found.holds


def changed(name: str, change: Change) -> Tables:
    result = TABLES.sweeps[name]
    return replace(TABLES, sweeps={**TABLES.sweeps, name: replace(result, frame=change(result.frame))})


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_verdict_flips_under_a_changed_table(claim: Claim) -> None:
    other = changed(*CHANGES[claim.name]) if claim.name in CHANGES else OTHERS[claim.name]()
    assert holds(claim, TABLES) != holds(claim, other)
    before, after = claim.verdict(TABLES), claim.verdict(other)
    assert before != after
    assert not {"{", "}"} & {*before, *after}


def test_algorithm_1_is_asked_where_it_may_have_a_schedule() -> None:
    [claim] = (claim for claim in CLAIMS if claim.name == "ten minutes")
    rows = (ROW, replace(ROW, gap=0.01), replace(ROW, gap=None, status=NONE_EXISTS), replace(ROW, method="checkmate"))
    assert "at 1 of the 2 points" in claim.verdict(replace(TABLES, exact=rows))


def test_what_was_not_run_has_no_verdict() -> None:
    sweeps = {
        name: replace(one, frame=one.frame[(one.frame["method"] != ALONE) & (one.frame["board"] != "a72-computes")])
        for name, one in TABLES.sweeps.items()
    }
    without = Tables(sweeps)
    lacking = {claim.name for claim in CLAIMS if claim.verdict(without) == NOT_RUN}
    assert lacking == {"least energy", "Figure 4, as printed", *OTHERS}
    assert facts(without)["table"].count(NOT_RUN) == len(lacking)
    assert facts(without)["table"].count("\n") == len(CLAIMS) + 1


def test_the_figures_of_a_verdict_are_those_of_the_table() -> None:
    """Counted without the page's own code."""
    [least] = (claim for claim in CLAIMS if claim.name == "least energy")
    frame = TABLES.of("figure_3")
    gains = []
    for _, here in frame[frame["energy_j"].notna()].groupby(["model", "board", "ram_budget_bytes"]):
        energy = dict(zip(here["method"], here["energy_j"], strict=True))
        own = ("optimal", ALONE, "poet_ilp", "paging_only", "rematerialization_only", "store_all")
        gains.append(1 - energy[ALONE] / min(value for name, value in energy.items() if name not in own))
    found = least.finding(TABLES)
    assert found is not None
    assert found.figures["points"] == str(len(gains))
    assert found.figures["much"] == str(sum(gain > 0.01 for gain in gains))
    assert found.figures["median"] == f"{100 * sorted(gains)[len(gains) // 2]:.3f}".rstrip("0")
