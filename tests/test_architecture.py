# SPDX-License-Identifier: Apache-2.0
"""The arrows between packages and their parts, as CONTRIBUTING.md states them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.history import History

PACKAGES = {
    "poet_profiles": ROOT / "profiles" / "poet_profiles",
    "poet_harness": ROOT / "harness" / "poet_harness",
    "poet_runtime": ROOT / "planner" / "poet_runtime",
    "poet_planner": ROOT / "planner" / "poet_planner",
}
# Which packages of poet's each may import.
ALLOWED = {
    "poet_profiles": {"poet_profiles"},
    "poet_harness": {"poet_harness", "poet_profiles"},
    "poet_runtime": {"poet_runtime", "poet_profiles"},
    "poet_planner": {"poet_planner", "poet_profiles", "poet_runtime"},
}
LAYERED = ("harness/poet_harness", "planner/poet_planner", "planner/poet_planner/lowering")
# The ground of the optimiser, each part importing those after it; then its other parts, and which of them each imports.
GROUND = ("topology", "starts", "instance", "objective", "options", "statistics", "time_budget", "engine")
SOLVE = {
    "optimise": {"proof", "bounding", "feasibility", "relaxation", "placement", "statespace", "search", "milp"},
    "feasibility": {"proof", "bounding", "relaxation", "placement", "statespace", "search", "milp"},
    "proof": {"bounding", "relaxation", "placement", "statespace", "search", "milp"},
    "bounding": {"relaxation", "statespace", "search", "milp"},
    "relaxation": {"search", "milp"},
    "placement": {"statespace", "search", "milp"},
    "search": {"milp"},
    "statespace": set(),
    "milp": set(),
}
# What lies in the root; all else in the folders of CONTRIBUTING's tree.
ROOT_FILES = {
    *(".clang-format", ".editorconfig", ".gitignore", ".pre-commit-config.yaml"),
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "README.md"),
    *("Makefile", "constraints.txt", "debian-packages-demo.txt", "debian-packages-tests.txt"),
    *("install-debian-packages", "install-python-packages"),
    *("MANIFEST.in", "platformio.ini", "pyproject.toml", "setup.py"),
}
PLANNING = PACKAGES["poet_planner"] / "planning"
MOST_FLOORS = 9  # of planning/
# What families.py alone reads of what is asked for, and request.py refuses.
OF_FAMILIES = {"micro_batches", "gradients", "parameters", "card_above", "stream_above", "features"}
HEAVY = ("torch", "pyomo", "matplotlib", "unicorn", "pandas")


def imported(source: Path) -> Iterator[str]:
    """Dotted names of the modules that a file imports."""
    for node in ast.walk(ast.parse(source.read_text(), str(source))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = (*_package(source, node.level), *([node.module] if node.module else []))
            yield from (".".join((*module, alias.name)) for alias in node.names)


def _package(source: Path, dots: int) -> tuple[str, ...]:
    """Names of the package from which a file's import with so many dots goes on; none without dots."""
    if not dots:
        return ()
    folder = source.parents[dots - 1]
    return folder.relative_to(next(root.parent for root in PACKAGES.values() if root in source.parents)).parts


def layers(folder: str) -> dict[str, int]:
    """How far down in CONTRIBUTING's table of a package each part stands; parts of one row stand equally far down."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split(f"Inside `{folder}/`", 1)[1].split("\n| --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    cells = [row.split("|")[1] for row in table.splitlines()]
    return {
        part.removesuffix(".py"): number
        for number, cell in enumerate(cells)
        for part in re.findall(r"`(\w+(?:\.py|(?=/)))/?`", cell)
    }


def arrows(package: Path, dotted: str) -> set[tuple[str, str, str]]:
    """(file, its part of the package, another part that it imports); what stands beside the parts is left out."""
    found = set()
    for source in sorted(package.rglob("*.py")):
        part = source.relative_to(package).parts[0].removesuffix(".py")
        for name in imported(source):
            if name.startswith(f"{dotted}."):
                other = name.removeprefix(f"{dotted}.").split(".")[0]
                if other != part and part != "__init__":
                    found.add((str(source.relative_to(ROOT)), part, other))
    assert found
    return found


def strays(files: Iterable[str]) -> list[str]:
    """Files that are neither of the root's nor in a folder of CONTRIBUTING's tree."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.split("\n## The tree\n", 1)[1].split("\n| --- | --- |\n", 1)[1].split("\n\n", 1)[0]
    folders = {Path(link) for row in table.splitlines() for link in re.findall(r"\]\((.+?)\)", row.split("|")[1])}
    return [file for file in files if file not in ROOT_FILES and not folders & set(Path(file).parents)]


def changes_sys_path(text: str) -> bool:
    """Whether source text assigns to `sys.path` or calls a method of it."""
    targets = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    targets += [node for node in ast.walk(ast.parse(text)) if isinstance(getattr(node, "ctx", None), ast.Store)]
    return any(ast.unparse(target).startswith("sys.path") for target in targets)


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_follow_the_arrows(package: str) -> None:
    sources = sorted(PACKAGES[package].rglob("*.py"))
    assert sources
    wrong = {
        str(source.relative_to(ROOT)): crossing
        for source in sources
        if (crossing := {name.split(".")[0] for name in imported(source)} & set(PACKAGES) - ALLOWED[package])
    }
    assert not wrong


@pytest.mark.parametrize("package", LAYERED)
def test_parts_of_a_package_import_only_what_lies_below_in_contributing(package: str) -> None:
    rank, folder = layers(package), ROOT / package
    parts = {path.stem for path in folder.iterdir() if path.suffix == ".py" or [*path.glob("*.py")]}
    assert set(rank) == parts - {"__init__"}
    found = arrows(folder, package.partition("/")[2].replace("/", "."))
    assert not {arrow for arrow in found if rank[arrow[2]] <= rank[arrow[1]]}


def test_parts_of_the_optimiser_import_only_what_lies_below() -> None:
    rank = {part: number for number, part in enumerate(GROUND)}
    found = arrows(PACKAGES["poet_planner"] / "solve", "poet_planner.solve")
    assert {part for _, part, _ in found} <= {*SOLVE, *GROUND}
    upwards = {arrow for arrow in found if arrow[1] in SOLVE and arrow[2] not in {*SOLVE[arrow[1]], *GROUND}}
    upwards |= {arrow for arrow in found if arrow[1] in GROUND and rank.get(arrow[2], -1) <= rank[arrow[1]]}
    assert not upwards


def test_what_runs_on_a_board_needs_torch_and_numpy_alone() -> None:
    """And a serial line's package, where one is served; what it takes of poet_profiles is the standard library's."""
    ours = {*PACKAGES, "torch", "numpy"}
    needed = {
        (source.name, name.split(".")[0])
        for source in PACKAGES["poet_runtime"].rglob("*.py")
        for name in imported(source)
        if name.split(".")[0] not in {*ours, *sys.stdlib_module_names}
    }
    assert needed == {("streams.py", "serial")}
    code = "import sys, poet_runtime.agent.verbs; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pydantic", "pandas", "serial", "typer", "rich", "platformdirs"} & set(loaded)


def test_only_verbs_import_the_comparison() -> None:
    found = arrows(PACKAGES["poet_planner"], "poet_planner")
    assert {part for _, part, other in found if other == "comparison"} == {"cli"}
    code = "import sys, poet_planner.planning.pipeline, poet_planner.planning.method; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.startswith("poet_planner.comparison")]


def test_planning_stands_on_few_floors() -> None:
    """The longest chain of its modules, imports for types and within functions included."""
    dotted = "poet_planner.planning."
    modules = {source.stem: {*imported(source)} for source in PLANNING.glob("*.py")}
    below = {
        name: {one.removeprefix(dotted).split(".")[0] for one in found if one.startswith(dotted)} - {name}
        for name, found in modules.items()
    }

    def floors(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above, f"a circle: {' imports '.join((*above, name))}"
        return 1 + max((floors(one, (*above, name)) for one in below[name]), default=0)

    assert max(map(floors, below)) <= MOST_FLOORS


def test_options_that_ask_for_a_form_are_read_in_one_place() -> None:
    sources = [*PLANNING.glob("*.py"), *(PACKAGES["poet_planner"] / "comparison").rglob("*.py")]
    read = {
        (source.name, node.attr)
        for source in sources
        for node in ast.walk(ast.parse(source.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == "request"
    }
    assert {name for name, option in read if option in OF_FAMILIES} == {"families.py", "pipeline.py"}
    assert {option for name, option in read if name == "pipeline.py" and option in OF_FAMILIES} == {"features"}
    assert {option for name, option in read if name == "families.py"} >= OF_FAMILIES


def test_verifier_and_optimiser_share_no_code() -> None:
    verifier = PACKAGES["poet_planner"] / "schedule" / "verify.py"
    assert "solve" not in {part for name in imported(verifier) for part in name.split(".")}


def test_firmware_core_uses_no_heap_and_no_libc_io() -> None:
    forbidden = ("malloc(", "calloc(", "realloc(", "free(NULL", "printf(", "<stdio.h>", "<stdlib.h>", "<math.h>")
    sources = sorted((ROOT / "firmware" / "src").rglob("*.[ch]"))
    assert sources
    found = [(source.name, word) for source in sources for word in forbidden if word in source.read_text()]
    assert not found


def test_every_tracked_file_has_its_place() -> None:
    assert not strays(History().lines("ls-files"))
    assert strays(["plan/summary.json", "harness/notes.md", "todo.txt", "docs/SPEC.md", "Makefile"]) == [
        "plan/summary.json",
        "harness/notes.md",
        "todo.txt",
    ]


@pytest.mark.parametrize("package", ["poet_planner", "poet_profiles"])
def test_tests_lie_where_their_modules_do(package: str) -> None:
    tests = ROOT / "tests" / package.removeprefix("poet_")
    folders = {source.parent.relative_to(tests) for source in tests.rglob("test_*.py")}
    assert len(folders) > 2
    assert not {folder for folder in folders if not (PACKAGES[package] / folder).is_dir()}


def test_no_test_and_no_benchmark_changes_where_python_looks_for_modules() -> None:
    sources = [source for folder in ("tests", "benchmarks") for source in sorted((ROOT / folder).rglob("*.py"))]
    assert len(sources) > 100
    assert not [str(source.relative_to(ROOT)) for source in sources if changes_sys_path(source.read_text())]


@pytest.mark.parametrize("line", ["sys.path.insert(0, 'x')", "sys.path[:0] = ['x']", "sys.path += ['x']"])
def test_a_change_of_sys_path_is_noticed(line: str) -> None:
    assert changes_sys_path(f"import sys\n{line}")
    assert not changes_sys_path("import sys\nfound = [entry for entry in sys.path if entry]")


@pytest.mark.parametrize("cli", ["poet_harness.cli", "poet_planner.cli"])
def test_command_lines_start_without_heavy_imports(cli: str) -> None:
    code = f"import sys, {cli}; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not loaded
