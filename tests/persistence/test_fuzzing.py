"""Mutated files with a valid digest and checksum are loaded, or refused in one line.

Meanwhile an audit hook of Python records what loading imports, starts, opens and deletes.
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
from tests.variations import others_slow

from .forging import signed_by_another_user

RNG = np.random.default_rng(0)
X, Y = RNG.random((40, 3)), np.arange(40) % 2
N_MUTATIONS = 120


@cache
def model_files() -> dict[str, bytes]:
    """Return small files that together contain every type of value."""
    forest = RandomForestClassifier(2, max_depth=3, random_state=0).fit(X[:30], Y[:30])
    graph = KernelDensityForest(FrozenEstimator(forest), random_state=0).fit(
        X[:30], Y[:30], X_calibration=X[30:], y_calibration=Y[30:]
    )
    network = MultilayerPerceptron(hidden=[3], max_epochs=1, random_state=0).fit(X, Y)
    boosted = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=5).fit(X, Y)
    pipeline = make_pipeline(
        FunctionTransformer(np.log1p), OneHotEncoder(handle_unknown="ignore"), LogisticRegression()
    ).fit(X, Y)
    scaled = TemperatureScaling(FrozenEstimator(network)).fit(X, Y)
    regressor = ProbabilisticRegressor(EncoderNetwork(hidden=(2,)), method="predict")
    models = {
        "forest": FittedModel(forest, {"calibrator": graph}),
        "network": FittedModel(network, {"calibrator": scaled}),
        "boosted": FittedModel(boosted),
        "pipeline": FittedModel(pipeline),
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


class AuditHook:
    """Audit hook that records the watched events within :meth:`record`."""

    def __init__(self) -> None:
        self.is_recording, self.events = False, []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.is_recording and event in WATCHED_EVENTS:
            self.events.append((event, *arguments[:3]))

    @contextmanager
    def record(self) -> Iterator[None]:
        modules = set(sys.modules)
        self.is_recording = True
        try:
            yield
        finally:
            self.is_recording = False
            # import_module raises no audit event.
            self.events += [("import", name) for name in sorted(set(sys.modules) - modules)]

    @property
    def suspicious_events(self) -> list[tuple[Any, ...]]:
        """Events but imports of libraries, reading of files, and caches of compiled modules."""
        return [
            event for event in self.events if not (is_library_import(event) or is_reading(event))
        ]


WATCHED_EVENTS = {
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
    "subprocess.Popen",
    "socket.connect",
    "socket.bind",
    "pty.spawn",
    "shutil.rmtree",
    "ctypes.dlopen",
    "code.__new__",
}
LIBRARIES = {
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
HOSTILE_NAMES = [
    "trap_module:Thing",
    "trap_module.inner:Thing",
    "antigravity:geohash",
    "os:system",
    "subprocess:Popen",
    "builtins:exec",
    "kdgraph.cli.main:main",
    "sklearn.datasets._base:load_files",
    "torch.hub:load",
    "torch.nn.modules.module:_WrappedHook",
    "sklearn.utils.fixes:trap",
    "kdgraph.cli.run:main",
    "pickle:Unpickler",
    "functools:partial",
    "trap_module",
]
HOSTILE_FIELDS = [
    "__class__",
    "__dict__",
    "supports",
    "predict_proba",
    "forward",
    "_forward_hooks",
    "method",
    "model",
    "fit",
    "get_params",
]
HOSTILE_NODES = [
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
    ["object", 0],
    ["function", 0],
    ["float", "nan"],
    ["list"],
    ["shared", "parent"],
    ["tensor"],
    ["ufunc", "numpy", "load"],
    ["set", {}],
    [[]],
    ["pattern", "(", 0],
]


def is_library_import(event: tuple[Any, ...]) -> bool:
    root = str(event[1]).partition(".")[0]
    return event[0] == "import" and (
        root in LIBRARIES
        or (root in sys.stdlib_module_names and root != "antigravity")
        or root.startswith("_")
    )


def is_reading(event: tuple[Any, ...]) -> bool:
    """Return True if the event reads a file or writes the cache of a compiled module."""
    if event[0] not in ("open", "os.rename", "os.mkdir"):
        return False
    writes = event[0] != "open" or (
        isinstance(event[3], int) and event[3] & (os.O_WRONLY | os.O_RDWR)
    )
    return not writes or "__pycache__" in str(event[1])


@pytest.fixture(scope="module")
def audit_hook() -> AuditHook:
    """Audit hook; Python cannot remove it, but it records nothing after these tests."""
    hook = AuditHook()
    sys.addaudithook(hook)
    return hook


@pytest.fixture(autouse=True)
def _importable_trap(tmp_path, monkeypatch) -> Iterator[None]:
    """Make ``trap_module`` importable, which no file may import."""
    (tmp_path / "trap_module.py").write_text(
        "class Thing:\n    pass\n\ndef make(**options):\n    raise AssertionError\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("trap_module", None)


def node_paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the keys that lead to every node of a document."""
    yield path
    items = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node)
        if isinstance(node, list)
        else ()
    )
    for key, item in items:
        yield from node_paths(item, (*path, key))


def change_node(document: dict[str, Any], rng: np.random.Generator) -> None:
    """Replace, remove, insert, change or wrap one node of the document."""
    paths = list(node_paths(document))[1:]
    *parent_path, last_key = paths[rng.integers(len(paths))]
    parent: Any = document
    for key in parent_path:
        parent = parent[key]
    random_node: Any = document
    for key in paths[rng.integers(len(paths))]:
        random_node = random_node[key]
    kind = rng.integers(6)
    if kind == 0:
        parent[last_key] = copy.deepcopy(HOSTILE_NODES[rng.integers(len(HOSTILE_NODES))])
    elif kind == 1:
        parent[last_key] = copy.deepcopy(random_node)
    elif kind == 2:
        del parent[last_key]
    elif kind == 3 and isinstance(parent, list):
        parent.insert(last_key, copy.deepcopy(random_node))
    elif (
        kind == 4
        and isinstance(parent[last_key], int | float)
        and not isinstance(parent[last_key], bool)
    ):
        parent[last_key] = parent[last_key] * int(rng.integers(-2, 3)) + int(rng.integers(-3, 4))
    else:
        parent[last_key] = [parent[last_key]]


def change_names(document: dict[str, Any], rng: np.random.Generator) -> None:
    """Change the name of a class, of a field or of a function, or admit a class."""
    kind, name = rng.integers(4), HOSTILE_NAMES[rng.integers(len(HOSTILE_NAMES))]
    entry = (
        document["classes"][rng.integers(len(document["classes"]))]
        if document["classes"]
        else ["", []]
    )
    if kind == 0:
        entry[0] = name
        document["admitted"] = [name]
    elif kind == 1 and entry[1]:
        entry[1][rng.integers(len(entry[1]))] = HOSTILE_FIELDS[rng.integers(len(HOSTILE_FIELDS))]
    elif kind == 2:
        document["functions"] = [name]
        document["value"] = ["function", 0]
    else:
        entry[0] = entry[0].replace("a", "e", 1) if rng.random() < 0.5 else entry[0].upper()


def change_arrays(arrays: list[np.ndarray], rng: np.random.Generator) -> None:
    """Change the type, the length or a number of one array."""
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


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the file with one to three mutations of one kind, signed by another user."""
    kind = rng.integers(4)
    if kind == 0:
        payload = bytearray(content[: -len(UNSIGNED_END)])
        for _ in range(rng.integers(1, 4)):
            payload[rng.integers(len(payload))] = rng.integers(256)
        return signed_by_another_user(sign(bytes(payload) + UNSIGNED_END))
    document, arrays = unpack(content)
    for _ in range(rng.integers(1, 4)):
        if kind == 3:
            change_arrays(arrays, rng)
        else:
            try:
                (change_node, change_names)[kind - 1](document, rng)
            # An earlier mutation has changed the structure of the document.
            except (LookupError, TypeError, AttributeError):
                continue
    return signed_by_another_user(
        pack({key: value for key, value in document.items() if key != "arrays"}, arrays)
    )


@pytest.mark.parametrize(
    "name", others_slow(["forest", "network", "boosted", "pipeline", "unfitted"])
)
@pytest.mark.filterwarnings("ignore")  # overflows of mutated numbers, and versions
def test_mutated_file_is_loaded_or_refused_in_one_line(name, audit_hook):
    outcomes, messages = {"loaded": 0, "refused": 0}, []
    audit_hook.events.clear()
    for seed in range(N_MUTATIONS):
        content = mutate(model_files()[name], np.random.default_rng([seed, len(name)]))
        try:
            with audit_hook.record():
                from_bytes(content, "it", trust=True)
            outcomes["loaded"] += 1
        except LoadError as error:
            outcomes["refused"] += 1
            messages.append(str(error))
        assert not audit_hook.suspicious_events, f"seed {seed}"
    assert not [message for message in messages if not message.isprintable() or len(message) > 500]
    # Mutations that always or never damage a file would test nothing.
    assert min(outcomes.values()) >= N_MUTATIONS // 20, outcomes


def test_audit_hook_detects_imports_commands_and_files(audit_hook, tmp_path):
    """Otherwise the test of mutated files could not fail."""
    audit_hook.events.clear()
    document, arrays = unpack(model_files()["unfitted"])
    document["classes"][0][0] = "trap_module:Thing"
    content = signed_by_another_user(pack(document, arrays))
    with audit_hook.record():
        from_bytes(content, "it", trust=["trap_module"])
        os.system("true")
        (tmp_path / "file").write_text("")
    events = audit_hook.suspicious_events
    assert [event[0] for event in events if event[0] != "open"] == ["os.system", "import"]
    assert ("open", str(tmp_path / "file")) in [event[:2] for event in events]
