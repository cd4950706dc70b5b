# SPDX-License-Identifier: Apache-2.0
"""The paper's claims and what is said beyond them, each with a predicate over the tables and a sentence each way.

So no verdict stands on the page that the tables do not give. Where a table, or the rows that a claim asks for, were not
made, the verdict is "not run".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

import pandas as pd

from benchmarks.evaluation import (
    accuracy,
    beliefs,
    below_dtr,
    boards,
    figure_5,
    micro_batches,
    single_techniques,
    table_3,
)
from benchmarks.evaluation.exact import Row
from benchmarks.evaluation.markdown import percent, table
from benchmarks.evaluation.results import (
    LEAST,
    NONE_EXISTS,
    NOT_RUN,
    OURS,
    OWN,
    Results,
    below,
    beside_ours,
    planned,
)

ALONE = "optimal_alone"
SAME = 1 + 1e-9
LITTLE = 0.01  # the paper's "less than 1 %"
SOLVED = 1e-4  # the gap at which solvers stop by themselves
NOT_PRINTED = "not in the paper"


@dataclass(frozen=True)
class Tables:
    """The points of the sweeps by name, and the rows of what is no sweep."""

    sweeps: Mapping[str, Results]
    exact: tuple[Row, ...] = ()
    by_hand: pd.DataFrame = field(default_factory=pd.DataFrame)
    trained: tuple[accuracy.Row, ...] = ()
    beliefs: tuple[beliefs.Row, ...] = ()

    def of(self, name: str) -> pd.DataFrame:
        return self.sweeps[name].frame


@dataclass(frozen=True)
class Finding:
    """Whether a claim holds, and the figures that either sentence names."""

    holds: bool
    figures: Mapping[str, str]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper.

    Attributes
    ----------
    name : str
        Of the row.
    printed : str
        What the paper says.
    command : str
        The sweep that its table comes from.
    finding : callable
        Of the tables; None where what it asks for was not run.
    yes, no : str
        What is said where it holds, and where it does not; with the finding's figures in braces.
    """

    name: str
    printed: str
    command: str
    finding: Callable[[Tables], Finding | None]
    yes: str
    no: str

    def verdict(self, tables: Tables) -> str:
        """The sentence."""
        found = self.finding(tables)
        if found is None:
            return NOT_RUN
        said = (self.yes if found.holds else self.no).format(**found.figures)
        table_of = tables.sweeps.get(self.command.replace("-", "_"))
        left_out = 0 if table_of is None else int((table_of.frame["status"] == NOT_RUN).sum())
        return f"{said} {left_out} rows of the table were not run." if left_out else said


def _costs_least(tables: Tables) -> Finding | None:
    """poet planned alone beside the cheapest of the others at every point."""
    frame = planned(tables.of("figure_3"))
    place = ["model", "board", "ram_budget_bytes"]
    alone = frame[frame["method"] == ALONE].set_index(place)
    if alone.empty:
        return None
    others = frame[~frame["method"].isin([*OWN, "store_all"])].groupby(place)["energy_j"].min()
    both = alone.join(others.rename("other_j"), how="inner")
    gain = 1 - both["energy_j"] / both["other_j"]
    above = int((both["energy_j"] > both["other_j"] * SAME).sum())
    return Finding(
        above == 0,
        {
            "above": str(above),
            "points": str(len(both)),
            "median": percent(gain.median()),
            "much": str((gain > LITTLE).sum()),
            "unpaged": str(int((alone["page_ins"] == 0).sum())),
            "planned": str(len(alone)),
        },
    )


def _trend(tables: Tables) -> Finding:
    """poet below 1 % and Capuchin within or above the printed range, everywhere."""
    frame = planned(tables.of("figure_3"))
    ours = frame[frame["method"] == OURS]["overhead"]
    capuchin = frame[frame["method"] == "capuchin_page_first"]
    cheap = capuchin[capuchin["board"].isin(["m0", "a72"])]["overhead"]
    holds = bool((ours < LITTLE).all() and (capuchin["overhead"] >= figure_5.PRINTED[0]).all())
    figures = {
        "much": str((ours >= LITTLE).sum()),
        "points": str(len(ours)),
        "least": percent(cheap.min()),
        "most": percent(cheap.max()),
    }
    return Finding(holds, figures)


def _below_dtr(tables: Tables) -> Finding | None:
    rows = beside_ours(tables.of("below_dtr"))
    rows = rows[rows["method"] == "dtr"].assign(below=below).dropna(subset="below")
    if rows.empty:
        return None
    most = rows.groupby("board", sort=False)["below"].max()
    at = rows.loc[rows["below"].idxmax()]
    reached = [str(board) for board in most.index if most[board] >= below_dtr.PRINTED]
    figures = {
        "most": percent(most.max()),
        "dtr": percent(at["overhead"]),
        "boards": ", ".join(reached),
        "board": str(at["board"]),
    }
    return Finding(bool(reached), figures)


def _single(tables: Tables) -> Finding:
    """Against the better of the two techniques, which a user would take."""
    rows = beside_ours(tables.of("figure_3"))
    rows = rows[rows["method"].isin(["paging_only", "rematerialization_only"])].assign(below=below)
    both = (
        rows.groupby(["board", "model", "ram_budget_bytes"])["below"].agg(["count", "max", "min"]).query("count == 2")
    )
    better, worse = both["min"].max(), both["max"].max()
    return Finding(bool(better >= single_techniques.PRINTED), {"better": percent(better), "worse": percent(worse)})


def _order(frame: pd.DataFrame) -> Finding | None:
    """Somewhere paging has a plan and rematerialization none, and nowhere the other way round."""
    frame = frame[frame["status"] != NOT_RUN]
    if frame.empty:
        return None
    technique = frame.set_index(["board", "ram", "deadline_of_plain", "method"])["energy_j"].unstack("method").notna()
    paging, again = technique["paging_only"], technique["rematerialization_only"]
    printed, reversed_ = int((paging & ~again).sum()), int((again & ~paging).sum())
    return Finding(printed > 0 and reversed_ == 0, {"printed": str(printed), "reversed": str(reversed_)})


def _figure_4(computes_alone: bool) -> Callable[[Tables], Finding | None]:
    def finding(tables: Tables) -> Finding | None:
        frame = tables.of("figure_4")
        return _order(frame[frame["board"].str.endswith("-computes") == computes_alone])

    return finding


def _figure_5(tables: Tables) -> Finding:
    """Capuchin as POET describes it."""
    frame = planned(tables.of("figure_5"))
    ours, theirs = (frame[frame["method"] == method]["overhead"] for method in (OURS, "capuchin_page_first"))
    holds = bool(theirs.max() >= figure_5.PRINTED[0] and ours.max() < LITTLE)
    return Finding(holds, {"ours": percent(ours.max()), "theirs": percent(theirs.max())})


def _table_3(tables: Tables) -> Finding | None:
    rows = table_3.pairs(tables.sweeps["table_3"])
    if rows.empty:
        return None
    least, most = rows["less_time"].min(), rows["less_time"].max()
    figures = {
        "least": percent(least),
        "most": percent(most),
        "plans": str(len(rows)),
        "rotor": str((rows["pofo_pages"] == 0).sum()),
        "printed": percent(table_3.LESS_TIME),
    }
    return Finding(bool(least >= table_3.LESS_TIME), figures)


def _half(tables: Tables) -> Finding:
    ours = planned(tables.of("figure_3"))
    ours = ours[(ours["method"] == OURS) & (ours["ram"] == LEAST)]
    factor = ours["plain_peak_bytes"] / ours["ram_budget_bytes"]
    figures = {"least": f"{factor.min():.1f}", "most": f"{factor.max():.1f}", "adds": percent(ours["overhead"].max())}
    return Finding(bool(factor.min() >= 2), figures)


def _ten_minutes(tables: Tables) -> Finding | None:
    """Algorithm 1 itself, solved to the end by HiGHS, wherever it has a schedule."""
    rows = [row for row in tables.exact if row.method == "poet_ilp" and row.status != NONE_EXISTS]
    if not rows:
        return None
    solved = sum(row.gap is not None and row.gap <= SOLVED for row in rows)
    limits = " or ".join(f"{limit:g}" for limit in sorted({row.time_limit_s for row in rows}))
    return Finding(solved == len(rows), {"solved": str(solved), "rows": str(len(rows)), "limit": limits})


def _fits(tables: Tables) -> Finding:
    """The plans for m0 and m4 beside the RAM of these boards."""
    ours = planned(tables.of("figure_3"))
    ours = ours[(ours["method"] == OURS) & ours["board"].isin(["m0", "m4"])]
    fit = int((ours["ram_budget_bytes"] <= ours["board"].map(boards.ram_bytes)).sum())
    return Finding(fit == len(ours), {"fit": str(fit), "plans": str(len(ours))})


def _efficient_kernels(tables: Tables) -> Finding | None:
    """How many plans page for the same networks, by the emulated profile and by the published constants."""
    frames = (planned(tables.of(name)) for name in ("nrf52840", "m4_traced"))
    emulated, published = (frame[frame["method"] == OURS]["page_ins"] > 0 for frame in frames)
    if emulated.empty or published.empty:
        return None
    figures = {
        "plans": str(len(emulated)),
        "emulated": str(emulated.sum()),
        "published": str(published.sum()),
    }
    return Finding(bool(emulated.sum() >= published.sum()), figures)


def _by_hand(tables: Tables) -> Finding | None:
    if tables.by_hand.empty:
        return None
    plans = micro_batches.overheads(tables.by_hand)
    hand, ours = plans[micro_batches.BY_HAND], plans[micro_batches.OURS]
    ratio = (hand / ours).dropna()
    figures = {
        "below": str((hand < ours * (1 - 1e-9)).sum()),
        "rams": str(len(ours)),
        "least": f"{ratio.min():.1f}",
        "most": f"{ratio.max():.1f}",
        "without": " and ".join(hand.index[hand.isna()]) or "no budget",
    }
    return Finding(figures["below"] == "0", figures)


def _parts(tables: Tables) -> Finding | None:
    """Of full training in half of its RAM: poet's plan beside parts of the batch by hand."""
    of = {(row.task, row.way): row.step_j for row in tables.trained if row.trained == accuracy.FULL}
    if not {task.name for task in accuracy.TASKS} <= {task for task, _ in of}:
        return None
    costs = [[of[task.name, way] for way in (accuracy.IN_HALF, accuracy.IN_PARTS)] for task in accuracy.TASKS]
    figures = {
        "parts": str(sum(parts < ours * (1 - 1e-9) for ours, parts in costs)),
        "tasks": str(len(costs)),
        "neither": str(sum(parts == ours == inf for ours, parts in costs)),
    }
    return Finding(figures["parts"] == "0", figures)


def _one_way(tables: Tables) -> Finding | None:
    """What is trained for the fewest joules to the task's middle goal."""
    cheapest = accuracy.cheapest(tables.trained)
    if len(cheapest) < len(accuracy.TASKS):
        return None
    listed = "; ".join(f"{task}: {trained}" for task, trained in cheapest.items())
    return Finding(len(set(cheapest.values())) == 1, {"listed": listed})


def _wrong_costs(tables: Tables) -> Finding | None:
    """What the plan for the believed costs loses where others are the true ones."""
    rows = [row for row in tables.beliefs if row.plan == beliefs.RIGHT]
    if {row.case for row in rows} != set(beliefs.CASES):
        return None
    computes = max(row.regret for row in rows if not row.world.startswith("pages"))
    pages = max(rows, key=lambda row: row.regret if row.world.startswith("pages") else -1.0)
    figures = {
        "computes": percent(computes),
        "pages": percent(pages.regret),
        "model": pages.model,
        "board": pages.board,
    }
    return Finding(computes < LITTLE, figures)


CLAIMS = (
    Claim(
        "least energy",
        "POET costs less than every other method",
        "figure-3",
        _costs_least,
        "Alone, poet costs no more than any other method at {points} of {points} points: a median of {median} % less, "
        "more than 1 % at {much}. {unpaged} of its {planned} plans do not page.",
        "Alone, poet costs more than the cheapest other method at {above} of {points} points.",
    ),
    Claim(
        "the trend",
        "Capuchin adds 73 % and more, POET less than 1 %, on all architectures and platforms",
        "figure-3",
        _trend,
        "Holds at all {points} points.",
        "poet adds 1 % or more at {much} of {points} points; Capuchin, page first, {least} to {most} % on m0 and a72.",
    ),
    Claim(
        "below DTR",
        "up to 35 % less energy than DTR",
        "below-dtr",
        _below_dtr,
        "Up to {most} % less, where DTR adds {dtr} %; 35 % on {boards}.",
        "At most {most} % less, on {board}.",
    ),
    Claim(
        "one technique",
        "up to 40 % less energy than one technique alone",
        "figure-3",
        _single,
        "Up to {better} % less than the better of the two.",
        "Up to {worse} % less than the worse of the two, {better} % than the better.",
    ),
    Claim(
        "Figure 4, as printed",
        "at the tightest deadline rematerialization has no plan, and paging is preferable",
        "figure-4",
        _figure_4(computes_alone=True),
        "With the deadline on computes alone the order is the printed one, at {printed} points: it follows from "
        "equation (3), by which nothing can be computed twice and paging takes no time.",
        "With the deadline on computes alone the order is the printed one at {printed} points, reversed at {reversed}.",
    ),
    Claim(
        "Figure 4, with transfers",
        "the same",
        "figure-4",
        _figure_4(computes_alone=False),
        "With transfers in the time the order is the printed one, at {printed} points.",
        "With transfers in the time paging alone has a plan where rematerialization has none at {printed} points, and "
        "the other way round at {reversed}.",
    ),
    Claim(
        "Figure 5",
        "Capuchin adds 73 to 141 %, POET less than 1 %",
        "figure-5",
        _figure_5,
        "Capuchin, as POET describes it, adds up to {theirs} %, poet at most {ours} %.",
        "Capuchin, as POET describes it, adds at most {theirs} %, poet {ours} %.",
    ),
    Claim(
        "Table 3",
        "8.32 % less memory and 13.1 % less time than POFO",
        "table-3",
        _table_3,
        "{least} to {most} % less time at {plans} plans; POFO pages in none of {rotor} of them.",
        "{least} to {most} % less time at {plans} plans, not {printed} % at each; {rotor} of POFO's do not page.",
    ),
    Claim(
        "half the memory",
        "memory down by up to 2 times",
        "figure-3",
        _half,
        "Down by {least} to {most} times, for at most {adds} % of energy.",
        "Down by {least} times at least.",
    ),
    Claim(
        "ten minutes",
        "solved to optimality in less than ten minutes",
        "exact",
        _ten_minutes,
        "HiGHS, in the place of Gurobi, solves Algorithm 1 at all {rows} points that have a schedule, in {limit} s.",
        "HiGHS, in the place of Gurobi, solves Algorithm 1 in {limit} s to a gap of 1e-4 at {solved} of the {rows} "
        "points that may have a schedule.",
    ),
    Claim(
        "on a Cortex-M",
        "ResNet-18 and BERT train on a Cortex-M",
        "figure-3",
        _fits,
        "All {plans} plans for m0 and m4 are within the board's RAM.",
        "Within the board's RAM: {fit} of {plans} plans for m0 and m4. Networks that fit are in "
        "[parameters_on_the_card.md](../../docs/parameters_on_the_card.md).",
    ),
    Claim(
        "both techniques",
        "paging and rematerialization complement one another",
        "nrf52840",
        _efficient_kernels,
        "So do they by poet's kernels: {emulated} of {plans} plans page on the emulated nRF52840, {published} by the "
        "published m4.",
        "Less so by poet's kernels: {emulated} of {plans} plans page on the emulated nRF52840, {published} by the "
        "published m4.",
    ),
    Claim(
        "micro-batches by hand",
        NOT_PRINTED,
        "micro-batches",
        _by_hand,
        "Parts of a batch by hand add {least} to {most} times what poet does, and have no schedule in {without}.",
        "Parts of a batch by hand cost less than poet in {below} of {rams} budgets.",
    ),
    Claim(
        "the whole batch",
        NOT_PRINTED,
        "accuracy",
        _parts,
        "In half of the RAM poet costs no more than parts of the batch by hand in each of {tasks} tasks.",
        "In half of the RAM parts of the batch by hand cost less than poet in {parts} of {tasks} tasks; in {neither} "
        "neither has a schedule.",
    ),
    Claim(
        "what to train",
        NOT_PRINTED,
        "accuracy",
        _one_way,
        "One way takes the fewest joules to the middle goal everywhere: {listed}.",
        "No way takes the fewest joules to the middle goal everywhere: {listed}.",
    ),
    Claim(
        "wrong costs",
        NOT_PRINTED,
        "beliefs",
        _wrong_costs,
        "Computes off by a fifth cost at most {computes} % of energy; pages off by three times up to {pages} % "
        "({model}, {board}).",
        "Computes off by a fifth cost up to {computes} % of energy; pages off by three times up to {pages} % "
        "({model}, {board}).",
    ),
)


def facts(tables: Tables) -> dict[str, str]:
    """What the page says of it."""
    rows = [[claim.name, claim.printed, claim.verdict(tables), f"`{claim.command}`"] for claim in CLAIMS]
    return {"table": table(["claim", "printed", "here", "command"], rows)}


def verdicts(tables: Tables, *commands: str) -> str:
    """The claims of these commands, as a table: for notebooks."""
    rows = [[claim.printed, claim.verdict(tables)] for claim in CLAIMS if claim.command in commands]
    return table(["printed", "here"], rows)
