#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: Pyomo raises, or warns, where HiGHS knows no such option or refuses its value.
# Seen (Pyomo 6.10.1, highspy 1.16.0): SolverFactory("highs") and SolverFactory("appsi_highs") solve with the default, and
# say "optimal". highspy's setOptionValue returns an error as a value, which nobody looks at; HiGHS's own line about it is
# seen with tee=True alone. So a gap, a limit or a number of threads that is misspelt, or a float where a whole number is
# wanted, is not there, and a comparison of solvers compares something else. setOptionValue of a highspy.Highs() tells
# beforehand. poet sets options through highspy.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"
"$python" -m pip install --quiet pyomo==6.10.1 highspy==1.16.0 numpy==2.4.6

seen=$("$python" - <<'PROGRAM' 2>&1 | grep -v -e '^Running HiGHS' -e '^Includes third-party'
import highspy
import pyomo.environ as pyo

OPTIONS = ({"mip_relgap": 0.5}, {"threads": 1.5}, {"mip_rel_gap": -1.0}, {"presolve": "maybe"})
model = pyo.ConcreteModel()
model.x = pyo.Var(range(3), domain=pyo.Binary)
model.most = pyo.Objective(expr=sum(model.x.values()), sense=pyo.maximize)
model.pair = pyo.Constraint(expr=model.x[0] + model.x[1] <= 1)
for options in OPTIONS:
    (name, value), = options.items()
    asked = highspy.Highs()
    asked.setOptionValue("output_flag", False)
    told = asked.setOptionValue(name, value)
    ends = [str(pyo.SolverFactory(solver).solve(model, options=options).solver.termination_condition)
            for solver in ("highs", "appsi_highs")]
    print(name, value, told == highspy.HighsStatus.kError, *ends)
PROGRAM
)
echo "$seen"
known='mip_relgap 0.5 True optimal optimal
threads 1.5 True optimal optimal
mip_rel_gap -1.0 True optimal optimal
presolve maybe True optimal optimal'
[[ $seen == "$known" ]] || { echo "has changed; was: $known"; exit 1; }
