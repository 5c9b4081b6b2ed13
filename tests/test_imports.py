"""Packages import one way, and heavy libraries are imported only if they are needed."""

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

from kdgraph.extras import _INSTALLED_BY

PACKAGE = Path(__file__).parents[1] / "kdgraph"
MODULES = sorted(PACKAGE.rglob("*.py"))
# A module may import its own package, and the packages and modules of earlier layers.
LAYERS = [
    {"compilation", "docstrings", "errors", "extras", "wording"},
    {"containment", "quoting", "signing"},
    {"parameters"},
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
    {"fitted"},
    {"deployment"},
    {"figures"},
    {"config"},
    {"runner"},
    {"results"},
    {"report"},
    {"cli"},
    {"__main__"},
]
LIBRARY = set().union(*LAYERS[: LAYERS.index({"figures"})])
HYDRA_PACKAGES = {"config", "cli", "runner"}
TORCH_MODULES = [
    "kdgraph.parents.networks",
    "kdgraph.geometry.activations",
    "kdgraph.fitted.torch_models",
    "kdgraph.persistence.tensors",
    "kdgraph.runner.checkup",
]
TRANSFORMERS_MODULE = "kdgraph.parents.networks.image_models"
OUTPUT_FOLDERS = {"outputs/", "figures/", "tables/"}


def package_of(module: str) -> str:
    """Return ``density`` for ``kdgraph.density.classifiers``."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "kdgraph"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path, *, at_run_time_only: bool = True) -> set[str]:
    """Return every module that ``path`` imports, also inside functions.

    Imports under ``TYPE_CHECKING`` count if ``at_run_time_only`` is False.
    """
    tree, modules = syntax_tree(path), set()
    type_checking = {
        id(inner)
        for node in ast.walk(tree)
        if at_run_time_only
        and isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in type_checking:
            continue
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            modules |= {node.module} | (
                {f"{node.module}.{alias.name}" for alias in node.names}
                if node.module == "kdgraph"
                else set()
            )
    return modules


def top_level_imports(path: Path) -> set[str]:
    """Return the modules that ``path`` imports outside functions."""
    tree, modules = syntax_tree(path), set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


def may_import_torch(module: str) -> bool:
    """Return whether ``module`` is or belongs to one of ``TORCH_MODULES``."""
    return any(module == name or module.startswith(f"{name}.") for name in TORCH_MODULES)


def layer_of(package: str) -> int:
    return next((i for i, packages in enumerate(LAYERS) if package in packages), -1)


def test_modules_have_no_circular_imports():
    """Imports inside functions count, too."""
    paths = {module_name(path): path for path in MODULES}
    graph = {name: defining_modules(path, paths) - {name} for name, path in paths.items()}
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" → ".join(error.args[1]))


def defining_modules(path: Path, modules: Collection[str]) -> set[str]:
    """Return the ``modules`` that ``path`` imports, or imports names from.

    ``from package import module`` counts as an import of the module and not of the package.
    """
    imported = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                imported.add(name if name in modules else str(node.module))
    return imported & set(modules)


def test_every_package_has_a_layer():
    packages = {package_of(module_name(path)) for path in MODULES} - {"kdgraph"}
    assert packages == set().union(*LAYERS)


OF_THE_LIBRARY = {"numpy", "scipy", "sklearn", "numba", "joblib", "pandas"}
"""Packages that the library imports: all that it needs."""
BROUGHT = {"threadpoolctl", "llvmlite"}
"""Packages that scikit-learn and numba require."""
OF_THE_RUNNER = {"hydra", "omegaconf", "openml", "matplotlib", "pyarrow", "rich", "jinja2"} | {
    *("arff", "requests", "urllib3"),  # of openml
    *("yaml",),  # of omegaconf
    *("PIL", "packaging"),  # of matplotlib
}
"""Packages that the command imports too, with those that these require."""


def test_each_tier_imports_its_own_libraries():
    """Others, and those of the runner in the library, are imported where they are needed."""
    violations = []
    for path in MODULES:
        name = module_name(path)
        is_runner = package_of(name) not in LIBRARY
        allowed = {*sys.stdlib_module_names, "kdgraph", *OF_THE_LIBRARY, *BROUGHT}
        allowed |= OF_THE_RUNNER if is_runner else set()
        allowed |= {"torch", "rich"} if may_import_torch(name) else set()
        roots = {module.partition(".")[0] for module in run_time_imports(path)}
        violations += [f"{name} imports {root} at its top" for root in sorted(roots - allowed)]
    assert not violations


def test_every_library_is_required_optional_or_brought():
    known = {*sys.stdlib_module_names, "kdgraph", "experiments", "hydra_plugins", "dask"}
    known |= OF_THE_LIBRARY | BROUGHT | OF_THE_RUNNER | set(_INSTALLED_BY)
    roots = {module.partition(".")[0] for path in MODULES for module in imports(path)}
    assert roots <= known


def run_time_imports(path: Path) -> set[str]:
    """Return the modules that are imported with ``path``, in its ``try`` blocks, too."""
    tree, inner = syntax_tree(path), set()
    for node in ast.walk(tree):
        is_checking = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if is_checking or isinstance(node, ast.FunctionDef | ast.Lambda):
            inner |= {id(child) for child in ast.walk(node)} - {id(node)}
    modules = set()
    for node in (node for node in ast.walk(tree) if id(node) not in inner):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            modules.add(str(node.module))
    return modules


def test_imports_point_one_way():
    violations = []
    for path in MODULES:
        package = package_of(module_name(path))
        imported = [
            module
            for module in imports(path)
            if module.startswith("kdgraph.") and package not in ("kdgraph", package_of(module))
        ]
        violations += [
            f"{module_name(path)} imports {module}"
            for module in imported
            if layer_of(package_of(module)) >= layer_of(package)
        ]
        violations += [
            f"{module_name(path)} of the library imports {module}"
            for module in imported
            if package in LIBRARY and package_of(module) not in LIBRARY
        ]
    assert not violations


@pytest.mark.parametrize(
    ("package", "excluded"),
    [
        ("metrics", "data"),
        ("data", "metrics"),
        ("calibration", "density"),
        ("recalibration", "density"),
    ],
)
def test_independent_packages_do_not_import_each_other(package, excluded):
    for path in MODULES:
        if package_of(module_name(path)) == package:
            assert excluded not in {
                package_of(module) for module in imports(path) if module.startswith("kdgraph.")
            }, path


def test_public_names_are_defined_once():
    definitions: dict[str, set[str]] = {}
    for path in MODULES:
        for node in syntax_tree(path).body:
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            names += [node.name] if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
            for name in names:
                if not name.startswith("_"):
                    definitions.setdefault(name, set()).add(module_name(path))
    for name in ("main", "parser"):  # of each command
        del definitions[name]
    assert {name: sorted(paths) for name, paths in definitions.items() if len(paths) > 1} == {}


def test_metrics_import_packages_without_data_only():
    for path in (PACKAGE / "metrics").rglob("*.py"):
        packages = {package_of(name) for name in imports(path) if name.startswith("kdgraph.")}
        assert packages <= {"metrics", "smoothing", "docstrings", "errors", "extras", "parameters"}


def test_only_the_command_line_imports_hydra():
    libraries = {
        module_name(path): {
            module.split(".")[0] for module in imports(path, at_run_time_only=False)
        }
        for path in MODULES
        if package_of(module_name(path)) not in HYDRA_PACKAGES
    }
    assert not [name for name, roots in libraries.items() if roots & {"hydra", "omegaconf"}]


def test_hydra_is_used_through_its_public_api():
    root = PACKAGE.parent
    folders = [PACKAGE, *(root / name for name in ("docs", "experiments", "scripts", "tests"))]
    private = re.compile(r"^\s*(?:from|import) (?:hydra|omegaconf)\._", re.MULTILINE)
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert not [path for path in paths if private.search(path.read_text(encoding="utf-8"))]


def test_only_networks_import_torch():
    """The import takes 2 s, which users of forests do not wait for."""
    violations = []
    for path in MODULES:
        name, roots = module_name(path), {module.split(".")[0] for module in imports(path)}
        if "torch" in roots and not may_import_torch(name):
            violations.append(f"{name} imports torch")
        if "transformers" in roots and name != TRANSFORMERS_MODULE:
            violations.append(f"{name} imports transformers")
        violations += [
            f"{name} imports {module} at its top"
            for module in top_level_imports(path)
            if module.split(".")[0] == "transformers"
            or (may_import_torch(module) and not may_import_torch(name))
        ]
    assert not violations


FIT_FORESTS = """
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from kdgraph import DensityGate, KernelDensityForest
X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 2
for model in (KernelDensityForest, DensityGate):
    model(RandomForestClassifier(5)).fit(X, y).predict_proba(X)
"""
# The second run has results of the first.
RUN_TWICE = """
import contextlib, io
from kdgraph.cli.main import main
sizes = ["dataset.n_train=60", "dataset.n_test=40", "parent.n_estimators=5", "ood.n=20", "n_jobs=1"]
for _ in range(2):
    with contextlib.redirect_stdout(io.StringIO()):
        assert main(["run", "dataset=spiral", "method=kdf", *FIGURES, *sizes]) == 0
"""

# Statements, and the libraries that are not imported after them.
NEVER_IMPORTED = {"matplotlib", "torch"}
COMMANDS = [
    (
        "import kdgraph; kdgraph.__version__",
        {"numpy", "sklearn", "scipy", "numba", "pandas", "hydra", *NEVER_IMPORTED},
    ),
    (
        "import kdgraph.cli.main, kdgraph.config",
        {"sklearn", "scipy", "numba", "pandas", *NEVER_IMPORTED},
    ),
]
RUNS = [
    (RUN_TWICE.replace("FIGURES", '["figures=none"]'), NEVER_IMPORTED),
    (
        RUN_TWICE.replace("FIGURES", '["figures=none", "+figures.draw.reliability_diagram={}"]'),
        {"torch"},
    ),
]
FORESTS = [
    ("import kdgraph.metrics, kdgraph.data", {"sklearn", "numba", "hydra", *NEVER_IMPORTED}),
    (
        "from kdgraph import KernelDensityForest, KernelDensityNetwork, DensityGate, partition_of",
        {"hydra", "omegaconf", *NEVER_IMPORTED},
    ),
    (FIT_FORESTS, {"hydra", "omegaconf", *NEVER_IMPORTED}),
    ("import kdgraph.parents, kdgraph.geometry, kdgraph.runner.run", NEVER_IMPORTED),
]


SOURCES = """
from kdgraph.data import images, ood, openml, simulations, tables
simulations.Circle(), simulations.Blobs(), tables.SklearnTable("wine"), tables.TableFile("a", "y")
tables.ArrayFile("a.npz"), tables.TextFile("a.csv"), tables.Newsgroups(), tables.FriedmanTable()
openml.OpenmlTable(61)
"""


@pytest.mark.parametrize(
    ("statements", "absent"),
    [
        ("import kdgraph.figures", {"matplotlib.pyplot", "sklearn", "scipy", "pandas"}),
        (
            "import kdgraph.metrics",
            {"sklearn", "scipy", "pandas", "matplotlib", "numba", "hydra", "torch", "kdgraph.data"},
        ),
        (SOURCES, {"sklearn", "scipy", "pandas", "torch", "openml"}),
    ],
    ids=["figures", "metrics", "sources"],
)
def test_light_packages_import_no_heavy_ones(statements, absent):
    code = f"{statements}\nimport sys; print(*({absent!r} & sys.modules.keys()))"
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert process.stdout == "\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "steps",
    [
        [*COMMANDS, *RUNS],
        [*FORESTS, ("import kdgraph.parents.networks", {"hydra", "matplotlib", "transformers"})],
    ],
    ids=["commands", "library"],
)
def test_libraries_that_are_not_needed_are_not_imported(steps, tmp_path):
    """The statements run one after the other in one process."""
    checked_statements = [
        f"{statement}\nprint('-', *sorted({libraries!r} & sys.modules.keys()))"
        for statement, libraries in steps
    ]
    code = "\n".join(["import sys", *checked_statements])
    environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=True,
    )
    assert process.stdout.split("\n") == ["-"] * len(steps) + [""]


def test_package_has_its_public_names_and_no_others():
    import kdgraph

    assert dir(kdgraph) == sorted(kdgraph.__all__)
    assert all(getattr(kdgraph, name) is not None for name in kdgraph.__all__)
    with pytest.raises(AttributeError) as caught:
        _ = kdgraph.KernelDensityTree
    assert str(caught.value) == "module 'kdgraph' has no attribute 'KernelDensityTree'"


def test_paths_in_the_architecture_guide_exist():
    """Paths are relative to the checkout, to the package, or to a folder of either or the line."""
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    missing = []
    for line in text.splitlines():
        folders = [PACKAGE.parent, *PACKAGE.parent.iterdir(), *PACKAGE.iterdir()]
        folders += [PACKAGE.parent / path for path in re.findall(r"`(kdgraph/[\w/]+/)`", line)]
        paths = re.findall(r"(?<![\w/.])((?:[\w-]+/)*[\w-]+(?:\.py|\.md|/))(?![\w<*(])", line)
        missing += [
            path
            for path in paths
            if path not in OUTPUT_FOLDERS
            and not any((folder / path).exists() for folder in folders)
        ]
    assert not missing
