#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Guess: two wheels that each bring a HiGHS of their own can be imported in one process, in either order.
# Seen: with highspy 1.15.1 and OR-Tools 9.15 the second import ends in an ImportError, an undefined symbol of HiGHS,
# whichever comes second: both export HiGHS's C++ names, and the loader gives one's library the other's. With highspy
# 1.16.0 both orders work. So poet's constraints say 1.16. It matters where a process
# imports both, as Pyomo does when it looks for every solver there is.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
python="$folder/env/bin/python"

both() {  # FIRST SECOND: what the two imports end with
    "$python" - "$1" "$2" 2>&1 <<'PROGRAM' || true
import importlib.metadata
import sys

try:
    for name in sys.argv[1:]:
        importlib.import_module(name)
except ImportError as error:
    print("ImportError:", "undefined symbol" if "undefined symbol" in str(error) else error)
else:
    print("both,", importlib.metadata.version("highspy"))
PROGRAM
}

expected() {  # what is seen, what is known
    echo "$1"
    [[ $1 == "$2" ]] || { echo "has changed; was: $2"; exit 1; }
}

"$python" -m pip install --quiet ortools==9.15.6755 highspy==1.15.1
expected "$(both ortools.linear_solver.pywraplp highspy)" "ImportError: undefined symbol"
expected "$(both highspy ortools.linear_solver.pywraplp)" "ImportError: undefined symbol"
"$python" -m pip install --quiet highspy==1.16.0
expected "$(both ortools.linear_solver.pywraplp highspy)" "both, 1.16.0"
expected "$(both highspy ortools.linear_solver.pywraplp)" "both, 1.16.0"
