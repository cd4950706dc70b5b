#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: HiGHS's option time_limit means the same for every model: the seconds of this run, or those of the instance.
# Seen (highspy 1.16.0): for a mixed-integer model it is the seconds of this run. For an LP by the simplex method it is
# those of all runs of the instance: once they add up to the limit, a further run ends at once, without an iteration,
# as "time limit reached", however short it would have been. getRunTime() adds up in both cases.
# So who keeps an instance and changes its rows, as cuts and column generation do, sets the limit of an LP to
# getRunTime() plus what the run may take, and that of a mixed-integer model to that alone. poet does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet highspy==1.16.0 numpy==2.4.6

seen=$("$python" - <<'PROGRAM' | grep -v -e '^Running HiGHS' -e '^Includes third-party'
import highspy
import numpy as np


def model(columns, rows, is_whole):
    """Packing at random: an LP of about a tenth of a second, or a mixed-integer model of minutes."""
    draw = np.random.default_rng(0)
    highs = highspy.Highs()
    for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "simplex")):
        highs.setOptionValue(name, value)
    for column in range(columns):
        highs.addCol(-float(draw.integers(10, 100)), 0, 1, 0, [], [])
        if is_whole:
            highs.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    for _ in range(rows):
        weights = draw.integers(5, 100, columns).astype(float)
        highs.addRow(-highspy.kHighsInf, weights.sum() // 3, columns, np.arange(columns, dtype=np.int32), weights)
    return highs


def run(highs):
    before = highs.getRunTime()
    highs.clearSolver()
    highs.run()
    return highs.getRunTime() - before


lp = model(300, 150, is_whole=False)
once = run(lp)
while lp.getRunTime() < 20 * once:
    run(lp)
lp.setOptionValue("time_limit", 10 * once)  # ten times what a run takes, half of what all took
run(lp)
print("LP:", lp.modelStatusToString(lp.getModelStatus()), lp.getInfo().simplex_iteration_count, "iterations")
lp.setOptionValue("time_limit", lp.getRunTime() + 100 * once)
run(lp)
print("LP, a limit beyond its clock:", lp.modelStatusToString(lp.getModelStatus()))

mip = model(60, 30, is_whole=True)
mip.setOptionValue("time_limit", 1.0)
for _ in range(3):
    took = run(mip)
    print("MIP:", mip.modelStatusToString(mip.getModelStatus()), "after a second:", took > 0.9)
PROGRAM
)
echo "$seen"
known='LP: Time limit reached 0 iterations
LP, a limit beyond its clock: Optimal
MIP: Time limit reached after a second: True
MIP: Time limit reached after a second: True
MIP: Time limit reached after a second: True'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
