"""The rooms of the house import one way, and what is heavy is imported late."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kdgraph"
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = [
    {"errors"},
    {"parameters", "messages"},
    {"metrics", "data"},
    {"parents"},
    {"geometry"},
    {"density", "calibration"},
    {"figures"},
    {"components"},
    {"run_config"},
    {"config"},
    {"runner"},
    {"report", "completion"},
    {"cli"},
    {"__main__"},
]
"""From the ground up: a module may import its own room and those below it."""
LIBRARY = {"errors", "parameters", "metrics", "data", "parents", "geometry", "density", "calibration", "figures"}
HYDRA = {"config", "cli", "runner"}


def room(module: str) -> str:
    """``kdgraph.density.kdf`` → ``density``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "kdgraph"


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, at_run_time_only: bool = True) -> set[str]:
    """Every module that ``path`` imports, inside functions too; not what only a type checker reads."""
    tree, found = ast.parse(path.read_text(encoding="utf-8")), set()
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if at_run_time_only and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | ({f"{node.module}.{alias.name}" for alias in node.names} if node.module == "kdgraph" else set())
    return found


def rank(of: str) -> int:
    return next((i for i, rooms in enumerate(ROOMS) if of in rooms), -1)


def test_every_room_has_its_place():
    assert {room(name_of(path)) for path in MODULES} - {"kdgraph"} == set().union(*ROOMS)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_one_way(path):
    own = room(name_of(path))
    if own == "kdgraph":
        return
    for module in imports(path):
        other = room(module)
        if module.startswith("kdgraph.") and other != own:
            assert rank(other) < rank(own), f"{name_of(path)} imports {module}"
            assert own not in LIBRARY or other in LIBRARY, f"{name_of(path)} of the library imports {module}"


@pytest.mark.parametrize(
    ("own", "other"), [("metrics", "data"), ("data", "metrics"), ("density", "calibration"), ("calibration", "density")]
)
def test_neighbours_on_one_floor_do_not_know_each_other(own, other):
    for path in MODULES:
        if room(name_of(path)) == own:
            assert other not in {room(module) for module in imports(path) if module.startswith("kdgraph.")}, path


def test_metrics_import_nothing_of_ours_but_errors_and_parameters():
    for path in (PACKAGE / "metrics").rglob("*.py"):
        assert {room(m) for m in imports(path) if m.startswith("kdgraph.")} <= {"metrics", "errors", "parameters"}, path


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_the_command_line_knows_hydra_and_nobody_knows_torch(path):
    roots = {module.split(".")[0] for module in imports(path, at_run_time_only=False)}
    assert "torch" not in roots
    if room(name_of(path)) not in HYDRA:
        assert not roots & {"hydra", "omegaconf"}


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("import kdgraph; kdgraph.__version__", {"numpy", "sklearn", "scipy", "numba", "pandas", "matplotlib", "hydra", "torch"}),
        ("import kdgraph.cli, kdgraph.config", {"sklearn", "scipy", "numba", "pandas", "matplotlib", "torch"}),
        ("from kdgraph import KernelDensityForest, DensityGate, partition_of", {"hydra", "omegaconf", "matplotlib", "torch"}),
        ("import kdgraph.metrics, kdgraph.data", {"sklearn", "numba", "matplotlib", "hydra", "torch"}),
    ],
)
def test_what_an_import_does_not_wait_for(statement, absent):
    code = f"{statement}\nimport sys\nprint(*sorted({absent!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=PACKAGE.parent, check=True)
    assert done.stdout.split() == []


def test_the_public_names_are_there_and_no_others():
    import kdgraph

    assert dir(kdgraph) == sorted(kdgraph.__all__)
    assert all(getattr(kdgraph, name) is not None for name in kdgraph.__all__)
    with pytest.raises(AttributeError) as caught:
        _ = kdgraph.KernelDensityNetwork
    assert str(caught.value) == "module 'kdgraph' has no attribute 'KernelDensityNetwork'"
