# SPDX-License-Identifier: Apache-2.0
"""What single seeds of the search find before any proof begins: `python -m benchmarks.planner.seeds`.

Moves are counted, not seconds: a busy machine gives the same figures. A plan begins with two seeds, an even one and an
odd one: "better of two" is the mean over all such pairs.
"""

from __future__ import annotations

import argparse
from itertools import product

from joblib import Parallel, delayed
from poet_planner.solve.instance import Problem
from poet_planner.solve.optimise import first_search_s
from poet_planner.solve.search.annealer import Annealer, moves_per_second

from benchmarks.planner.instances import Instance, load_problem

INSTANCES = (
    Instance("paper", "resnet18_cifar.m0", "20%", "2x", False),
    Instance("paper", "resnet18_cifar.m0", "20%", "2x", True),
    Instance("paper", "bert.m4", "60%", "2x", True),
    Instance("paper", "bert.m4", "20%", "2x", True),
    Instance("paper", "bert.m0", "20%", "2x", False),
    Instance("paper", "bert.m0", "40796161B", "2x", False),
    Instance("paper", "bert.m0", "36372480B", "2x", False),
    Instance("paper", "resnet18.a72", "smallest", "1.2x", True),
    Instance("paper", "resnet18.m0", "smallest", "1.2x", True),
    Instance("paper", "resnet50.m0", "50%", "2x", True),
    Instance("paper", "resnet50.a72", "30%", "1.2x", True),
    Instance("paper", "resnet50.a72", "smallest", "1.2x", True),
    Instance("paper", "bert.a72", "60%", "1.2x", True),
    Instance("paper", "bert.a72", "40%", "1.2x", True),
    Instance("paper", "bert.a72", "30%", "1.2x", True),
    Instance("prototypes", "resnet50.m4", "smallest", "1.5x", True),
    Instance("layered", "500-narrow", "80%", "none", True),
    Instance("layered", "500-wide", "80%", "none", True),
    Instance("layered", "500-wide", "60%", "none", True),
)


def first_run(problem: Problem, seed: int, effort: float) -> float:
    """Overhead in % of the store-all schedule's energy; infinite where no schedule turned up."""
    search = Annealer(problem, seed)
    search.run(int(effort * first_search_s(problem) * moves_per_second(problem)))
    found = search.incumbent
    return float("inf") if found is None else 100 * (found.energy / float(problem.node_energy.sum()) - 1)


def report(instance: Instance, seeds: int, effort: float, jobs: int) -> None:
    """Print one line."""
    problem = load_problem(instance)
    found = Parallel(n_jobs=jobs, prefer="threads")(
        delayed(first_run)(problem, seed, effort) for seed in range(2 * ((seeds + 1) // 2))
    )
    even, odd = found[::2], found[1::2]
    pairs = [min(pair) for pair in product(even, odd)]
    storage = "paging" if instance.paging else "no paging"
    print(
        f"{instance.graph:18} {instance.ram:>8} {instance.deadline:>4} {storage:9} "
        f"mean {sum(found) / len(found):9.4f}  better of two {sum(pairs) / len(pairs):9.4f}  best {min(found):9.4f}  "
        f"even {sum(even) / len(even):9.4f}  odd {sum(odd) / len(odd):9.4f}",
        flush=True,
    )


def main() -> None:
    """Read the command line, report every instance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=16, help="of each instance (default %(default)s)")
    parser.add_argument("--effort", type=float, default=1.0, help="times the moves of a plan (default %(default)s)")
    parser.add_argument("--only", default="", help="only graphs whose name holds this text")
    parser.add_argument("--jobs", type=int, default=2, help="seeds at a time (default %(default)s)")
    arguments = parser.parse_args()
    for instance in INSTANCES:
        if arguments.only in instance.graph:
            report(instance, arguments.seeds, arguments.effort, arguments.jobs)


if __name__ == "__main__":
    main()
