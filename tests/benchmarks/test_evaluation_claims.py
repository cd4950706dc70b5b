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
    """The committed sweeps, and rows of what is no sweep."""
    return replace(committed_tables(), exact=(ROW,), trained=tuple(trained()), beliefs=tuple(believed()))


def trained() -> Iterator[accuracy.Row]:
    """Parts by hand cost more than poet; the head costs least."""
    for task in accuracy.TASKS:
        yield accuracy.Row(task.name, accuracy.FULL, accuracy.IN_HALF, task.goals[1], "", 1, 9, *[2.0] * 4)
        for energy_j, what in zip((4.0, 3.0, 2.0, 1.0), accuracy.TRAINED, strict=True):
            yield accuracy.Row(task.name, what, accuracy.IN_PARTS, task.goals[1], "", 2, 9, *[energy_j] * 4)


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


def added(ours: float, capuchin: float) -> Change:
    """What poet and Capuchin, page first, add."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        changed = frame.copy()
        changed.loc[changed["method"] == OURS, "overhead"] = ours
        changed.loc[changed["method"] == "capuchin_page_first", "overhead"] = capuchin
        return changed

    return change


def techniques(computes_alone: bool, paging_j: float, rematerialization_j: float) -> Change:
    """Of the boards of either kind, the energy of each technique alone; not a number: no plan."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        changed = frame.copy()
        here = changed["board"].str.endswith("-computes") == computes_alone
        for method, energy_j in (("paging_only", paging_j), ("rematerialization_only", rematerialization_j)):
            changed.loc[here & (changed["method"] == method), "energy_j"] = energy_j
        return changed.assign(status="feasible")

    return change


def paged(values: int) -> Change:
    """A plan everywhere, that pages so many values in."""
    return lambda frame: frame.assign(energy_j=1.0, page_ins=values)


NO_PLAN = float("nan")
# By claim: of which table what is changed so that it holds, and so that it does not.
CHANGES: dict[str, tuple[tuple[str, Change], tuple[str, Change]]] = {
    "least energy": (("figure_3", scaled(ALONE, 0.5)), ("figure_3", scaled(ALONE, 2.0))),
    "the trend": (("figure_3", added(0.001, 0.9)), ("figure_3", added(0.001, 0.1))),
    "below DTR": (("below_dtr", scaled("dtr", 10.0)), ("below_dtr", scaled("dtr", 0.1))),
    "one technique": (("figure_3", scaled(OURS, 0.3)), ("figure_3", scaled(OURS, 3.0))),
    "Figure 4, as printed": (
        ("figure_4", techniques(True, 1.0, NO_PLAN)),
        ("figure_4", techniques(True, NO_PLAN, 1.0)),
    ),
    "Figure 4, with transfers": (
        ("figure_4", techniques(False, 1.0, NO_PLAN)),
        ("figure_4", techniques(False, NO_PLAN, 1.0)),
    ),
    "Figure 5": (("figure_5", added(0.001, 0.9)), ("figure_5", added(0.1, 0.9))),
    "Table 3": (("table_3", scaled(OURS, 0.1, "time_s")), ("table_3", scaled(OURS, 10.0, "time_s"))),
    "half the memory": (
        ("figure_3", scaled(OURS, 0.1, "ram_budget_bytes")),
        ("figure_3", scaled(OURS, 10.0, "ram_budget_bytes")),
    ),
    "on a Cortex-M": (
        ("figure_3", scaled(OURS, 1e-5, "ram_budget_bytes")),
        ("figure_3", scaled(OURS, 10.0, "ram_budget_bytes")),
    ),
    "both techniques": (("nrf52840", paged(1)), ("nrf52840", paged(0))),
}


def one_costlier(what: str, way: str) -> Tables:
    """Of the first task a step of a way, ten times as much."""
    rows = (
        replace(row, step_j=10 * row.step_j, mean_j=10 * row.mean_j)
        if (row.task, row.trained, row.way) == (accuracy.TASKS[0].name, what, way)
        else row
        for row in TABLES.trained
    )
    return replace(TABLES, trained=tuple(rows))


def by_hand_for_nothing() -> pd.DataFrame:
    plans = TABLES.by_hand.copy()
    plans.loc[plans["method"] == micro_batches.BY_HAND, "energy_j"] *= 0.1
    return plans


# Of what is no sweep: it holds in `tables`, and not after this.
OTHERS: dict[str, Callable[[], Tables]] = {
    "ten minutes": lambda: replace(TABLES, exact=(ROW, replace(ROW, model="vgg16_cifar", gap=0.01))),
    "micro-batches by hand": lambda: replace(TABLES, by_hand=by_hand_for_nothing()),
    "the whole batch": lambda: one_costlier(accuracy.FULL, accuracy.IN_HALF),
    "what to train": lambda: one_costlier(accuracy.HEAD, accuracy.IN_PARTS),
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
    if claim.name in CHANGES:
        yes, no = (changed(*change) for change in CHANGES[claim.name])
    else:
        yes, no = TABLES, OTHERS[claim.name]()
    assert holds(claim, yes) and not holds(claim, no)
    said, otherwise = claim.verdict(yes), claim.verdict(no)
    assert said != otherwise
    assert not {"{", "}"} & {*said, *otherwise}


def test_algorithm_1_is_asked_where_it_may_have_a_schedule() -> None:
    [claim] = (claim for claim in CLAIMS if claim.name == "ten minutes")
    rows = (ROW, replace(ROW, gap=0.01), replace(ROW, gap=None, status=NONE_EXISTS), replace(ROW, method="checkmate"))
    assert "at 1 of the 2 points" in claim.verdict(replace(TABLES, exact=rows))


def test_what_was_not_run_has_no_verdict_and_rows_that_were_not_are_counted() -> None:
    sweeps = {
        name: replace(one, frame=one.frame[(one.frame["method"] != ALONE) & ~one.frame["board"].str.contains("-")])
        for name, one in TABLES.sweeps.items()
    }
    without = Tables(sweeps)
    lacking = {claim.name for claim in CLAIMS if claim.verdict(without) == NOT_RUN}
    assert lacking >= {"least energy", "Figure 4, as printed", *OTHERS}
    assert facts(without)["table"].count("\n") == len(CLAIMS) + 1
    [claim] = (claim for claim in CLAIMS if claim.name == "half the memory")
    frame = TABLES.of("figure_3")
    some = frame.assign(status=frame["status"].where(frame["method"] != "lru", NOT_RUN))
    assert f" {(some['status'] == NOT_RUN).sum()} rows of the table were not run." in claim.verdict(
        replace(TABLES, sweeps={**TABLES.sweeps, "figure_3": replace(TABLES.sweeps["figure_3"], frame=some)})
    )


def test_the_figures_of_a_verdict_are_those_of_the_table() -> None:
    """Counted without the page's own code."""
    [least] = (claim for claim in CLAIMS if claim.name == "least energy")
    frame = TABLES.of("figure_3")
    gains = []
    for _, here in frame[frame["energy_j"].notna()].groupby(["model", "board", "ram_budget_bytes"]):
        energy = dict(zip(here["method"], here["energy_j"], strict=True))
        own = ("optimal", ALONE, "poet_ilp", "paging_only", "rematerialization_only", "store_all")
        others = [value for name, value in energy.items() if name not in own]
        gains += [1 - energy[ALONE] / min(others)] if others else []
    found = least.finding(TABLES)
    assert found is not None
    assert found.figures["points"] == str(len(gains))
    assert found.figures["much"] == str(sum(gain > 0.01 for gain in gains))
    assert found.figures["median"] == f"{100 * sorted(gains)[len(gains) // 2]:.3f}".rstrip("0")
