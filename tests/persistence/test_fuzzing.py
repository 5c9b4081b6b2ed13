"""Mutated files whose digest and checksum fit: a model is read, or refused in one line.

Beside it an audit hook of Python watches what reading imports, starts, opens and deletes.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from kdgraph import KernelDensityForest
from kdgraph.base import FittedModel
from kdgraph.calibration.top_label import TemperatureScaling
from kdgraph.parents.networks import EncoderNetwork, MultilayerPerceptron
from kdgraph.parents.predictive import ProbabilisticRegressor
from kdgraph.persistence import LoadError, from_bytes, to_bytes
from kdgraph.persistence.archive import UNSIGNED_END, pack, sign, unpack

from .forging import signed_by_another_user

RNG = np.random.default_rng(0)
X, Y = RNG.random((40, 3)), np.arange(40) % 2
MUTATIONS = 120
"""Of each model."""


@cache
def files() -> dict[str, bytes]:
    """A small file of each kind of thing that a file holds."""
    forest = RandomForestClassifier(2, max_depth=3, random_state=0).fit(X[:30], Y[:30])
    graph = KernelDensityForest(FrozenEstimator(forest), random_state=0).fit(
        X[:30], Y[:30], X_calibration=X[30:], y_calibration=Y[30:]
    )
    network = MultilayerPerceptron(hidden=[3], max_epochs=1, random_state=0).fit(X, Y)
    boosted = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=5).fit(X, Y)
    piped = make_pipeline(
        FunctionTransformer(np.log1p), OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
    ).fit(X, Y)
    scaled = TemperatureScaling(FrozenEstimator(network)).fit(X, Y)
    regressor = ProbabilisticRegressor(EncoderNetwork(hidden=(2,)), method="predict")
    models = {
        "forest": FittedModel(forest, {"calibrator": graph}),
        "network": FittedModel(network, {"calibrator": scaled}),
        "boosted": FittedModel(boosted),
        "pipeline": FittedModel(piped),
        "unfitted": FittedModel(
            regressor,
            {
                "values": [
                    np.float32(1),
                    {1, 2},
                    (1, b"x"),
                    {1: 2.0},
                    float("inf"),
                    np.dtype("f8"),
                    float,
                ]
            },
        ),
    }
    return {name: to_bytes(model) for name, model in models.items()}


class Seen:
    """What the audit hook has seen while it looked."""

    def __init__(self) -> None:
        self.looking, self.events = False, []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.looking and event in WATCHED:
            self.events.append((event, *arguments[:3]))

    @contextmanager
    def look(self) -> Iterator[None]:
        before = set(sys.modules)
        self.looking = True
        try:
            yield
        finally:
            self.looking = False
            # importlib raises no event of its own.
            self.events += [("import", name) for name in sorted(set(sys.modules) - before)]

    @property
    def strange(self) -> list[tuple[Any, ...]]:
        """Events other than imports of the libraries, reading files, and caches of compiled
        modules.
        """
        return [
            event
            for event in self.events
            if not (is_known_import(event) or is_harmless_opening(event))
        ]


WATCHED = {
    "import",
    "open",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.fork",
    "os.remove",
    "os.rename",
    "os.mkdir",
    "os.rmdir",
}
WATCHED |= {
    "subprocess.Popen",
    "socket.connect",
    "socket.bind",
    "pty.spawn",
    "shutil.rmtree",
    "ctypes.dlopen",
    "code.__new__",
}
PACKAGES = {
    "kdgraph",
    "sklearn",
    "numpy",
    "scipy",
    "torch",
    "pyarrow",
    "joblib",
    "threadpoolctl",
    "numba",
    "llvmlite",
    "pandas",
}
HOSTILE = [
    "trap_module:Thing",
    "trap_module.inner:Thing",
    "antigravity:geohash",
    "os:system",
    "subprocess:Popen",
    "builtins:exec",
]
HOSTILE += [
    "kdgraph.cli:main",
    "sklearn.datasets._base:load_files",
    "torch.hub:load",
    "torch.nn.modules.module:_WrappedHook",
]
HOSTILE += [
    "sklearn.utils.fixes:trap",
    "kdgraph.verbs.run:main",
    "pickle:Unpickler",
    "functools:partial",
    "trap_module",
]
ATTRIBUTES = [
    "__class__",
    "__dict__",
    "gives",
    "predict_proba",
    "forward",
    "_forward_hooks",
    "method",
    "model",
    "fit",
    "get_params",
]
VALUES = [
    None,
    True,
    0,
    -1,
    2**40,
    1.5,
    "",
    "fit",
    "trap_module:make",
    "é\n",
    [],
    {},
    ["ref", 0],
    ["ref", 10**6],
    ["class", "eval"],
]
VALUES += [
    ["object", 0],
    ["function", 0],
    ["float", "nan"],
    ["list"],
    ["shared", "parent"],
    ["tensor"],
    ["ufunc", "numpy", "load"],
]
VALUES += [["set", {}], [[]], ["pattern", "(", 0]]


def is_known_import(event: tuple[Any, ...]) -> bool:
    root = str(event[1]).partition(".")[0]
    return event[0] == "import" and (
        root in PACKAGES
        or (root in sys.stdlib_module_names and root != "antigravity")
        or root.startswith("_")
    )


def is_harmless_opening(event: tuple[Any, ...]) -> bool:
    if event[0] not in ("open", "os.rename", "os.mkdir"):
        return False
    writes = event[0] != "open" or (
        isinstance(event[3], int) and event[3] & (os.O_WRONLY | os.O_RDWR)
    )
    return not writes or "__pycache__" in str(event[1])


@pytest.fixture(scope="module")
def audit() -> Seen:
    result = Seen()
    sys.addaudithook(result)  # it stays, and sees nothing once the tests of this file are over
    return result


@pytest.fixture(autouse=True)
def trap(tmp_path, monkeypatch) -> Iterator[None]:
    """A module that waits to be imported."""
    (tmp_path / "trap_module.py").write_text(
        "class Thing:\n    pass\n\ndef make(**options):\n    raise AssertionError\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("trap_module", None)


def paths_in(node: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a document."""
    yield here
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, item in items:
        yield from paths_in(item, (*here, key))


def change_json(document: dict[str, Any], rng: np.random.Generator) -> None:
    """Change one place: to another value, to one from elsewhere, away, doubled, wrapped."""
    paths = list(paths_in(document))[1:]
    *way, last = paths[rng.integers(len(paths))]
    place: Any = document
    for key in way:
        place = place[key]
    elsewhere: Any = document
    for key in paths[rng.integers(len(paths))]:
        elsewhere = elsewhere[key]
    kind = rng.integers(6)
    if kind == 0:
        place[last] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])
    elif kind == 1:
        place[last] = copy.deepcopy(elsewhere)
    elif kind == 2:
        del place[last]
    elif kind == 3 and isinstance(place, list):
        place.insert(last, copy.deepcopy(elsewhere))
    elif kind == 4 and isinstance(place[last], int | float) and not isinstance(place[last], bool):
        place[last] = place[last] * int(rng.integers(-2, 3)) + int(rng.integers(-3, 4))
    else:
        place[last] = [place[last]]


def change_names(document: dict[str, Any], rng: np.random.Generator) -> None:
    """Another class, another field, another function, or a plea to be admitted."""
    kind, name = rng.integers(4), HOSTILE[rng.integers(len(HOSTILE))]
    entry = (
        document["classes"][rng.integers(len(document["classes"]))]
        if document["classes"]
        else ["", []]
    )
    if kind == 0:
        entry[0] = name
        document["admitted"] = [name]
    elif kind == 1 and entry[1]:
        entry[1][rng.integers(len(entry[1]))] = ATTRIBUTES[rng.integers(len(ATTRIBUTES))]
    elif kind == 2:
        document["functions"] = [name]
        document["value"] = ["function", 0]
    else:
        entry[0] = entry[0].replace("a", "e", 1) if rng.random() < 0.5 else entry[0].upper()


def change_arrays(arrays: list[np.ndarray], rng: np.random.Generator) -> None:
    """Another type, another length, or other numbers."""
    k = rng.integers(len(arrays))
    kind, array = rng.integers(3), arrays[k].copy()
    if kind == 0:
        array = (
            array.astype(rng.choice(["i1", "f4", "U5", "?", "i8"]))
            if array.dtype.kind in "biuf"
            else array
        )
    elif kind == 1:
        array = array[: rng.integers(len(array) + 1)]
    elif len(array) and array.dtype.kind in "biuf":
        array[rng.integers(len(array))] = rng.choice([-1, 0, 1, 100])
    arrays[k] = array


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """One to three mutations of one kind, marked by another user's key."""
    kind = rng.integers(4)
    if kind == 0:
        changed = bytearray(content[: -len(UNSIGNED_END)])
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        return signed_by_another_user(sign(bytes(changed) + UNSIGNED_END))
    document, arrays = unpack(content)
    for _ in range(rng.integers(1, 4)):
        if kind == 3:
            change_arrays(arrays, rng)
        else:
            try:
                (change_json, change_names)[kind - 1](document, rng)
            except (
                LookupError,
                TypeError,
                AttributeError,
            ):  # an earlier mutation took the place away
                continue
    return signed_by_another_user(
        pack({key: value for key, value in document.items() if key != "arrays"}, arrays)
    )


@pytest.mark.parametrize("name", ["forest", "network", "boosted", "pipeline", "unfitted"])
@pytest.mark.filterwarnings("ignore")  # numbers of nonsense, and versions
def test_mutated_file_is_loaded_or_refused_in_one_line(name, audit):
    outcomes, lines = {"read": 0, "refused": 0}, []
    audit.events.clear()
    for seed in range(MUTATIONS):
        content = mutated(files()[name], np.random.default_rng([seed, len(name)]))
        try:
            with audit.look():
                from_bytes(content, "it", trust=True)
            outcomes["read"] += 1
        except LoadError as error:
            outcomes["refused"] += 1
            lines.append(str(error))
        assert not audit.strange, f"seed {seed}"
    assert not [line for line in lines if not line.isprintable() or len(line) > 500]
    assert min(outcomes.values()) >= MUTATIONS // 20, (
        outcomes
    )  # else mutations are too gentle or too wild


def test_audit_detects_imports_commands_and_files(audit, tmp_path):
    """Else nothing above could fail."""
    audit.events.clear()
    document, arrays = unpack(files()["unfitted"])
    document["classes"][0][0] = "trap_module:Thing"
    content = signed_by_another_user(pack(document, arrays))
    with audit.look():
        from_bytes(content, "it", trust=["trap_module"])
        os.system("true")
        (tmp_path / "file").write_text("")
    assert [event[0] for event in audit.strange if event[0] != "open"] == ["os.system", "import"]
    assert ("open", str(tmp_path / "file")) in [event[:2] for event in audit.strange]
