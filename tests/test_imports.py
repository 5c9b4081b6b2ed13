"""The rooms of the house import one way, and what is heavy is imported late."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "kdgraph"
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = [
    {"errors", "wording"},
    {"overrides", "config_files"},
    {"parameters", "messages"},
    {"smoothing"},
    {"distributions"},
    {"metrics", "data"},
    {"base"},
    {"parents"},
    {"geometry"},
    {"features"},
    {"density"},
    {"calibration", "detection", "recalibration"},
    {"persistence"},
    {"figures"},
    {"components"},
    {"run_config"},
    {"loader"},
    {"composer"},
    {"config"},
    {"runner"},
    {"results"},
    {"report"},
    {"verbs"},
    {"cli"},
    {"__main__"},
]
"""From the ground up: a module may import its own room and those below it."""
LIBRARY = set().union(*ROOMS[: ROOMS.index({"figures"}) + 1]) - {"messages"}
HYDRA = {"loader", "composer", "config", "verbs", "runner"}
TORCH = [
    "kdgraph.parents.networks",
    "kdgraph.geometry.activations",
    "kdgraph.persistence.tensors",
    "kdgraph.runner.checkup",
]
TRANSFORMERS = "kdgraph.parents.networks.image_models"
MADE = {"outputs/", "figures/", "tables/"}
"""Folders that runs make."""


def room(module: str) -> str:
    """``kdgraph.density.classifiers`` → ``density``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "kdgraph"


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path, *, at_run_time_only: bool = True) -> set[str]:
    """Every module that ``path`` imports, inside functions too; not what only a type checker
    reads.
    """
    tree, found = tree_of(path), set()
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if at_run_time_only
        and isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "kdgraph"
                else set()
            )
    return found


def imports_when_loaded(path: Path) -> set[str]:
    """What an import of ``path`` imports: not what waits inside functions."""
    tree, found = tree_of(path), set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def of_torch(module: str) -> bool:
    """Whether ``module``, or what has it, is one of ours that imports torch when it is imported."""
    return any(module == each or module.startswith(f"{each}.") for each in TORCH)


def rank(of: str) -> int:
    return next((i for i, rooms in enumerate(ROOMS) if of in rooms), -1)


def test_no_module_imports_itself_by_way_of_others():
    """Not even inside functions: what needs each other is one idea."""
    paths = {name_of(path): path for path in MODULES}
    graph = {
        name: {other for other in imports_of_names(path, paths) if other != name}
        for name, path in paths.items()
    }
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def imports_of_names(path: Path, known: Collection[str]) -> set[str]:
    """Modules that ``path`` imports names from, where they are its own and not a package's that
    passes them on.
    """
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {
                below if (below := f"{node.module}.{alias.name}") in known else str(node.module)
                for alias in node.names
            }
    return found & set(known)


def test_every_room_has_its_place():
    assert {room(name_of(path)) for path in MODULES} - {"kdgraph"} == set().union(*ROOMS)


def test_imports_point_one_way():
    wrong = []
    for path in MODULES:
        own = room(name_of(path))
        others = [
            module
            for module in imports(path)
            if module.startswith("kdgraph.") and own not in ("kdgraph", room(module))
        ]
        wrong += [
            f"{name_of(path)} imports {module}"
            for module in others
            if rank(room(module)) >= rank(own)
        ]
        wrong += [
            f"{name_of(path)} of the library imports {module}"
            for module in others
            if own in LIBRARY and room(module) not in LIBRARY
        ]
    assert not wrong


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("metrics", "data"),
        ("data", "metrics"),
        ("calibration", "density"),
        ("recalibration", "density"),
    ],
)
def test_neighbours_on_one_floor_do_not_know_each_other(own, other):
    for path in MODULES:
        if room(name_of(path)) == own:
            assert other not in {
                room(module) for module in imports(path) if module.startswith("kdgraph.")
            }, path


def test_public_names_of_the_library_are_defined_once():
    homes: dict[str, set[str]] = {}
    for path in MODULES:
        if room(name_of(path)) not in LIBRARY:
            continue
        for node in tree_of(path).body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            names += [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
            for name in names:
                if not name.startswith("_"):
                    homes.setdefault(name, set()).add(name_of(path))
    assert {name: sorted(paths) for name, paths in homes.items() if len(paths) > 1} == {}


def test_metrics_import_nothing_of_ours_but_what_knows_no_data():
    for path in (PACKAGE / "metrics").rglob("*.py"):
        assert {room(m) for m in imports(path) if m.startswith("kdgraph.")} <= {
            "metrics",
            "smoothing",
            "errors",
            "parameters",
        }, path


def test_only_the_command_line_knows_hydra():
    others = [path for path in MODULES if room(name_of(path)) not in HYDRA]
    known = {
        name_of(path): {module.split(".")[0] for module in imports(path, at_run_time_only=False)}
        for path in others
    }
    assert not [own for own, roots in known.items() if roots & {"hydra", "omegaconf"}]


def test_torch_is_imported_by_networks_alone():
    """So that who has only forests never waits for it: 2 s."""
    wrong = []
    for path in MODULES:
        own, roots = name_of(path), {module.split(".")[0] for module in imports(path)}
        wrong += [f"{own} imports torch"] if "torch" in roots and not of_torch(own) else []
        wrong += (
            [f"{own} imports transformers"]
            if "transformers" in roots and own != TRANSFORMERS
            else []
        )
        for module in imports_when_loaded(path):
            late = module.split(".")[0] == "transformers" or (
                of_torch(module) and not of_torch(own)
            )
            wrong += [f"{own} imports {module} at its top"] if late else []
    assert not wrong


FOREST = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from kdgraph import DensityGate, KernelDensityForest
X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
for estimator in (KernelDensityForest(RandomForestClassifier(5)), DensityGate(RandomForestClassifier(5))):
    estimator.fit(X, y).predict_proba(X)
"""
RUN = """
import contextlib, io
from kdgraph.cli import main
tiny = [*FIGURES, "dataset.n_train=60", "dataset.n_test=40", "parent.n_estimators=5", "ood.n=20", "n_jobs=1"]
for _ in range(2):  # the second time it is done before
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["run", "dataset=spiral", "method=kdf", *tiny]) == 0
"""


ALWAYS = {"matplotlib", "torch"}
COMMANDS = [
    (
        "import kdgraph; kdgraph.__version__",
        {"numpy", "sklearn", "scipy", "numba", "pandas", "hydra", *ALWAYS},
    ),
    ("import kdgraph.cli, kdgraph.config", {"sklearn", "scipy", "numba", "pandas", *ALWAYS}),
]
RUNS = [
    (RUN.replace("FIGURES", '["figures=none"]'), ALWAYS),
    (RUN.replace("FIGURES", '["figures=none", "+figures.draw.reliability_diagram={}"]'), {"torch"}),
]
FORESTS = [
    ("import kdgraph.metrics, kdgraph.data", {"sklearn", "numba", "hydra", *ALWAYS}),
    (
        "from kdgraph import KernelDensityForest, KernelDensityNetwork, DensityGate, partition_of",
        {"hydra", "omegaconf", *ALWAYS},
    ),
    (FOREST, {"hydra", "omegaconf", *ALWAYS}),
    ("import kdgraph.parents, kdgraph.geometry, kdgraph.runner.run", ALWAYS),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [
        [*COMMANDS, *RUNS],
        [*FORESTS, ("import kdgraph.parents.networks", {"hydra", "matplotlib", "transformers"})],
    ],
    ids=["commands", "library"],
)
def test_what_need_not_wait_for_it_does_not(steps, tmp_path):
    """One step after the other in one process: what none of them may import is not there after
    it.
    """
    parts = [
        f"{statement}\nprint('-', *sorted({absent!r} & sys.modules.keys()))"
        for statement, absent in steps
    ]
    code = "\n".join(["import sys", *parts])
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert done.stdout.split("\n") == ["-"] * len(steps) + [""]


def test_the_public_names_are_there_and_no_others():
    import kdgraph

    assert dir(kdgraph) == sorted(kdgraph.__all__)
    assert all(getattr(kdgraph, name) is not None for name in kdgraph.__all__)
    with pytest.raises(AttributeError) as caught:
        _ = kdgraph.KernelDensityTree
    assert str(caught.value) == "module 'kdgraph' has no attribute 'KernelDensityTree'"


def test_the_map_names_what_is_there():
    """Every folder and module that ARCHITECTURE.md names, relative to the checkout, to the package
    or to the room of its line.
    """
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for line in text.splitlines():
        rooms = [PACKAGE.parent, *PACKAGE.parent.iterdir(), *PACKAGE.iterdir()]
        rooms += [PACKAGE.parent / word for word in re.findall(r"`(kdgraph/[\w/]+/)`", line)]
        named = re.findall(r"(?<![\w/.])((?:[\w-]+/)*[\w-]+(?:\.py|\.md|/))(?![\w<*(])", line)
        missing += [
            word
            for word in named
            if word not in MADE and not any((there / word).exists() for there in rooms)
        ]
    assert not missing
