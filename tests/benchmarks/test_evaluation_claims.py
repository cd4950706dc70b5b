# SPDX-License-Identifier: Apache-2.0
"""Every verdict of the evaluation follows from its table: under a changed table it is the other one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from benchmarks.evaluation.claims import ALONE, CLAIMS, Claim, Tables, facts
from benchmarks.evaluation.exact import Row
from benchmarks.evaluation.page import committed_results
from benchmarks.evaluation.results import NOT_RUN, OURS

Change = Callable[[pd.DataFrame], pd.DataFrame]
ROW = Row("bert", "m4", 0.5, 9, "poet_ilp", "highs", "1", 600.0, 1.5, "feasible", 0.01, 0.01, 0.0, "c", "")


def tables() -> Tables:
    """The committed tables, with the rows that are not made yet: poet alone as poet, deadlines on computes alone."""
    sweeps = committed_results()

    def with_rows(name: str, rows: pd.DataFrame) -> None:
        sweeps[name] = replace(sweeps[name], frame=pd.concat([sweeps[name].frame, rows], ignore_index=True))

    three = sweeps["figure_3"].frame
    with_rows("figure_3", three[three["method"] == OURS].assign(method=ALONE))
    four = sweeps["figure_4"].frame
    computes = four[(four["board"] == "a72") & (four["deadline_of_plain"] > 1.5)].copy()
    again = computes["method"] == "rematerialization_only"
    computes.loc[again, "energy_j"] = float("nan")
    with_rows("figure_4", computes.assign(board="a72-computes"))
    return Tables(sweeps, (ROW,))


TABLES = tables()


def scaled(method: str, factor: float, column: str = "energy_j") -> Change:
    """A method's column, so many times as much."""

    def change(frame: pd.DataFrame) -> pd.DataFrame:
        changed = frame.copy()
        changed.loc[changed["method"] == method, column] *= factor
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
}


def holds(claim: Claim, of: Tables) -> bool:
    found = claim.finding(of)
    assert found is not None
    return found.holds


def changed(name: str, change: Change) -> Tables:
    result = TABLES.sweeps[name]
    return replace(TABLES, sweeps={**TABLES.sweeps, name: replace(result, frame=change(result.frame))})


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.name in CHANGES], ids=lambda claim: claim.name)
def test_a_verdict_flips_under_a_changed_table(claim: Claim) -> None:
    other = changed(*CHANGES[claim.name])
    assert holds(claim, TABLES) != holds(claim, other)
    before, after = claim.verdict(TABLES), claim.verdict(other)
    assert before != after
    assert not {"{", "}"} & {*before, *after}


def test_solved_in_ten_minutes_flips_with_an_open_gap() -> None:
    [claim] = (claim for claim in CLAIMS if claim.name == "ten minutes")
    open_too = replace(
        TABLES, exact=(ROW, replace(ROW, model="vgg16_cifar", gap=0.01), replace(ROW, method="checkmate"))
    )
    assert holds(claim, TABLES)
    assert not holds(claim, open_too)
    assert claim.verdict(open_too).endswith("at 1 of 2 points.")


def test_every_claim_is_changed_in_a_test() -> None:
    assert {claim.name for claim in CLAIMS} == {*CHANGES, "ten minutes"}


def test_what_was_not_run_has_no_verdict() -> None:
    committed = Tables(committed_results())
    verdicts = {claim.name: claim.verdict(committed) for claim in CLAIMS}
    lacking = {"least energy": ALONE, "Figure 4, as printed": "a72-computes"}
    for name, needed in lacking.items():
        made = any(needed in set(one.frame["method"]) | set(one.frame["board"]) for one in committed.sweeps.values())
        assert (verdicts[name] == NOT_RUN) == (not made)
    assert verdicts["ten minutes"] == NOT_RUN
    assert facts(committed)["table"].count("\n") == len(CLAIMS) + 1


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
