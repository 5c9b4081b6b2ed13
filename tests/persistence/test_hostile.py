"""Files that somebody else has written: nothing of theirs is imported, called or walked through
that is not known and sound.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch

from kdgraph import KernelDensityForest
from kdgraph.persistence import (
    DamagedFileError,
    LoadError,
    SaveError,
    UntrustedFileError,
    from_bytes,
    load,
    to_bytes,
)

from .forging import file_of_node, signed_by_another_user, tampered
from .test_archive import archive_of

RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 3)), np.arange(60) % 2


@pytest.mark.parametrize(
    "name",
    [
        "subprocess:Popen",
        "os:system",
        "builtins:eval",
        "pathlib:PosixPath",
        "numpy.lib._npyio_impl:NpzFile",
        "numpy:ndarray",
        "numpy:memmap",
        "sklearn.externals._arff:ArffDecoder",
        "sklearn.tests.test_base:MyEstimator",
        "sklearn.ensemble.tests.test_forest:MyBackend",
        "sklearn.utils.parallel:Parallel",
        "sklearn.metrics._scorer:_MultimetricScorer",
        "sklearn.model_selection._split:_CVIterableWrapper",
        "kdgraphs:Thing",
        "kdgraph.runner.rundir:RunDir",
        "kdgraph.cli:UsageError",
        "kdgraph.data.files.arrays:Reader",
        "kdgraph.parents.networks.checkpoint:Checkpoint",
        "torch:load",
        "torch.nn:Linear",
        "torch.nn.modules.module:_WrappedHook",
        "tests.persistence.test_hostile:Thing",
    ],
)
def test_unlisted_class_is_not_instantiated(name):
    with pytest.raises(UntrustedFileError) as caught:
        from_bytes(
            signed_by_another_user(
                file_of_node(["object", 0], classes=[[name, []]], admitted=[name])
            ),
            "it.kdg",
            trust=True,
        )
    assert (
        str(caught.value)
        == f"it.kdg needs what is not known to be harmless: {name.replace(':', '.')}"
    )
    assert caught.value.names == (name,)


def test_module_of_an_unlisted_class_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "strange.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('was_here').touch()\nclass Thing:"
        " pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    content = signed_by_another_user(file_of_node(["object", 0], classes=[["strange:Thing", []]]))
    for trust in (False, True, ["strange.Other"]):
        with pytest.raises(UntrustedFileError):
            from_bytes(content, "it", trust=trust)
    assert not (tmp_path / "was_here").exists()
    assert type(from_bytes(content, "it", trust="strange.Thing").value).__name__ == "Thing"
    assert (tmp_path / "was_here").exists()


class Thing:
    """Not on the list."""


def test_file_of_the_same_user_may_contain_its_classes():
    assert type(from_bytes(to_bytes(Thing()), "it").value) is Thing
    with pytest.raises(UntrustedFileError):
        to_bytes(Thing(), trusted=["another.package"])


@pytest.mark.parametrize(
    "trust",
    [[f"{__name__}.Thing"], [f"{__name__}:Thing"], [__name__], [__name__.partition(".")[0]]],
)
def test_trusted_names_and_packages_are_instantiated(trust):
    assert (
        type(from_bytes(signed_by_another_user(to_bytes(Thing())), "it", trust=trust).value)
        is Thing
    )


@pytest.mark.parametrize(
    "trust", [True, ["Thing"], [f"{__name__}.Thin"], [f"{__name__}.Thing.more"], [""]]
)
def test_other_names_trust_nothing(trust):
    with pytest.raises(UntrustedFileError):
        from_bytes(signed_by_another_user(to_bytes(Thing())), "it", trust=trust)


def test_many_classes_are_named_in_part():
    with pytest.raises(
        UntrustedFileError,
        match=r"^it needs what is not known to be harmless: a\.A, b\.B, c\.C and 2 more$",
    ):
        from_bytes(
            file_of_node(
                None, classes=[["d:D", []], ["c:C", []], ["b:B", []], ["a:A", []], ["e:E", []]]
            ),
            "it",
        )


@pytest.mark.parametrize("name", ["a:A\nkdg: all is well", "a", "a:\x1b[2J", ":", 3, None, ["a:A"]])
def test_invalid_names_are_not_printed(name):
    with pytest.raises(DamagedFileError) as caught:
        from_bytes(file_of_node(None, classes=[[name, []]]), "it")
    assert str(caught.value).isprintable() and "well" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "sklearn.datasets._svmlight_format_io:dump_svmlight_file",
        "sklearn.metrics.pairwise:_parallel_pairwise",
        "kdgraph.cli:main",
        "os:system",
        "numpy:save",
    ],
)
def test_unlisted_function_of_a_listed_package_is_refused(name):
    with pytest.raises(UntrustedFileError):
        from_bytes(file_of_node(["function", 0], functions=[name]), "it")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("kdgraph.geometry.kinds:partition_of", "is another thing"),  # a function as a class
        (
            "kdgraph.density.classifiers:RandomForestClassifier",
            "is another thing",
        ),  # at home elsewhere
        (
            "kdgraph.density.classifiers:Gone",
            "module 'kdgraph.density.classifiers' has no attribute 'Gone'",
        ),
        ("kdgraph.density.gone:Gone", "No module named 'kdgraph.density.gone'"),
        ("kdgraph.density.graph:KernelDensityGraph.query", "is another thing"),
    ],
)
def test_reexported_classes_of_a_listed_package_are_refused(name, what):
    with pytest.raises(LoadError) as caught:
        from_bytes(file_of_node(["object", 0], classes=[[name, []]]), "it")
    assert str(caught.value).startswith("it cannot be read by this version (") and what in str(
        caught.value
    )


def test_compiled_class_without_its_state_is_refused():
    for name in ("sklearn.neighbors._kd_tree:KDTree", "sklearn.tree._tree:Tree"):
        with pytest.raises(DamagedFileError, match="is more than its fields"):
            from_bytes(file_of_node(["object", 0], classes=[[name, []]]), "it")


@pytest.mark.parametrize(
    "value",
    [
        ["ref", 0],
        ["ref", "a"],
        ["shared", "parent"],
        ["array", 0, 0, [3], "C"],
        ["float", "one"],
        ["object", 5],
        ["tree", 0],
        ["unknown"],
        ["tensor"],
        ["tensor", "load", ["list"], ["list"], False, None],
        ["class", "eval"],
        ["ufunc", "os", "system"],
        ["loss", "os", "system", "true"],
        ["loss", "sklearn._loss._loss", "np"],
        ["random_state", {"bit_generator": "eval"}],
        ["sparse", "load_npz", None, None, None, None],
        ["dtype", "no type"],
        ["dict", [1]],
        ["dict", [["list"], 1]],
        [],
        [["list"]],
        ["objects", [2], 1],
        ["set", ["list"]],
        ["pattern", "(", 0],
    ],
    ids=repr,
)
def test_senseless_documents_are_refused(value):
    with pytest.raises(DamagedFileError, match=r"^it is damaged \("):
        from_bytes(file_of_node(value), "it")


@pytest.mark.parametrize(
    "key", ["format", "versions", "about", "admitted", "classes", "functions", "trees", "value"]
)
def test_missing_parts_are_detected(key):
    with pytest.raises(DamagedFileError, match=r"^it is damaged \(parts of it are not there\)$"):
        from_bytes(tampered(None, lambda document, arrays: document.pop(key)), "it")


def test_another_format_is_refused():
    with pytest.raises(LoadError, match=r"^it was written by another version of kdgraph$"):
        from_bytes(file_of_node(None, format=1), "it")


def test_nesting_without_end_is_refused():
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(DamagedFileError, match=r"^it is damaged \(RecursionError"):
        from_bytes(archive_of({"document.json": b'{"arrays": [], "value": ' + deep + b"}"}), "it")
    value: Any = ["list"]
    for _ in range(5_000):
        value = ["list", value]
    with pytest.raises(DamagedFileError, match=r"^it is damaged \(RecursionError"):
        from_bytes(archive_of({"document.json": _document(value)}), "it")


def _document(value: Any) -> bytes:
    parts = {
        "format": 2,
        "versions": {},
        "about": {},
        "admitted": [],
        "classes": [],
        "functions": [],
        "trees": None,
        "arrays": [],
    }
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(100_000)
    try:
        return json.dumps({**parts, "value": value}).encode()
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: [inner],
        lambda inner: {"a": inner},
        lambda inner: (inner,),
        lambda inner: Bunch(a=inner),
    ],
)
def test_written_nesting_depth_is_readable(wrap):
    from_bytes(deepest(wrap), "it")


def deepest(wrap: Callable[[Any], Any]) -> bytes:
    """As many levels as can be saved."""
    value, content = wrap(None), b""
    while True:
        try:
            content = to_bytes(value)
        except SaveError:
            return content
        value = wrap(value)


@pytest.mark.parametrize(
    "part",
    [
        {"pool": 9},
        {"pool": -1},
        {"start": -1},
        {"start": 10**9},
        {"shape": [10**9]},
        {"shape": [-3]},
        {"order": "K"},
    ],
)
def test_an_array_stays_inside_its_pool(part):
    def change(document, arrays):
        node = dict(zip(("tag", "pool", "start", "shape", "order"), document["value"], strict=True))
        document["value"] = list({**node, **part}.values())

    with pytest.raises(DamagedFileError):
        from_bytes(tampered(np.arange(3), change), "it")


def column(document: dict[str, Any], arrays: list[np.ndarray], name: str) -> np.ndarray:
    """A column of the trees, to be changed in place."""
    _, pool, start, shape, _ = document["trees"][name]
    return arrays[pool][start : start + shape[0]]


def set_all(name: str, value: float) -> Callable[..., None]:
    """Of nodes, those that are no leaves."""

    def change(document, arrays):
        inner = column(document, arrays, "node.left_child") >= 0
        column(document, arrays, name)[inner if name.startswith("node.") else slice(None)] = value

    return change


TREES = {
    "a child behind the end": set_all("node.left_child", 10**6),
    "a child before the parent": set_all("node.right_child", 0),
    "a child below zero": set_all("node.left_child", -5),
    "half a leaf": set_all("node.left_child", -1),
    "a feature that is not there": set_all("node.feature", 3),
    "a feature below zero": set_all("node.feature", -2),
    "more features than rows have": set_all("n_features", 5),
    "no nodes": set_all("n_nodes", 0),
    "more nodes": set_all("n_nodes", 10**6),
    "more classes": set_all("n_classes", 7),
    "no classes": set_all("n_classes", 0),
    "more outputs": set_all("n_outputs", 2),
    "no outputs": set_all("n_outputs", 0),
}


@pytest.mark.parametrize("change", TREES.values(), ids=TREES)
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(3),
        GradientBoostingClassifier(n_estimators=3),
    ],
    ids=lambda m: type(m).__name__,
)
def test_damaged_trees_are_refused(model, change):
    with pytest.raises(DamagedFileError, match=r"^it is damaged \("):
        from_bytes(tampered(model.fit(X, Y), change), "it")


def test_trees_of_another_version_are_refused():
    def change(document, arrays):
        del document["trees"]["node.missing_go_to_left"]

    with pytest.raises(
        LoadError,
        match=(
            r"^it cannot be read by this version \(scikit-learn keeps its trees in another form"
            r" now\)$"
        ),
    ):
        from_bytes(tampered(DecisionTreeClassifier().fit(X, Y), change), "it")


def test_forest_with_fewer_features_than_its_trees_is_refused():
    forest = RandomForestClassifier(3).fit(X, Y)
    forest.n_features_in_ = 1
    with pytest.raises(DamagedFileError, match="a tree has other features than its forest"):
        from_bytes(to_bytes(forest), "it")
    forest.estimators_[1].n_features_in_ = 1
    with pytest.raises(
        DamagedFileError, match="a tree splits on features that its rows do not have"
    ):
        from_bytes(to_bytes(forest), "it")


@pytest.mark.parametrize(
    ("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 3), ("feature_idx", -1)]
)
def test_damaged_trees_of_histogram_boosting_are_refused(field, value):
    model = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5).fit(X, Y)
    nodes = model._predictors[0][0].nodes
    nodes[field][nodes["is_leaf"] == 0] = value
    with pytest.raises(DamagedFileError, match="a node of a tree leads nowhere"):
        from_bytes(to_bytes(model), "it")


def test_the_tree_of_a_neighbour_search_is_made_anew():
    model = KNeighborsClassifier(3, algorithm="kd_tree").fit(X, Y)
    again = from_bytes(to_bytes(model), "it").value
    assert again._tree is not None and type(again._tree) is type(model._tree)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


@pytest.fixture(scope="module")
def density_forest() -> KernelDensityForest:
    forest = RandomForestClassifier(5, random_state=0).fit(X[:40], Y[:40])
    return KernelDensityForest(FrozenEstimator(forest), random_state=0).fit(
        X[:40], Y[:40], X_calibration=X[40:], y_calibration=Y[40:]
    )


@pytest.mark.parametrize("node", [-1, 10**5])
def test_invalid_leaf_codes_are_refused(density_forest, node):
    again = from_bytes(to_bytes(density_forest), "it").value
    again.graph_._codes[3, 2] = node
    with pytest.raises(ValueError, match="codes name nodes that their trees do not have"):
        from_bytes(to_bytes(again), "it").value.predict_proba(X)


def test_graph_with_another_number_of_features_is_refused(density_forest):
    again = from_bytes(to_bytes(density_forest), "it").value
    again.n_features_in_ = 1
    with pytest.raises(ValueError, match="the forest splits on 3 features, got rows of 1"):
        from_bytes(to_bytes(again), "it").value.predict_proba(X[:, :1])


SURVIVES = """
import sys
import numpy as np
from kdgraph.errors import KdgError
from kdgraph.persistence import from_bytes
from kdgraph.persistence.archive import pack, unpack
document, arrays = unpack(open(sys.argv[1], "rb").read())
rng, X = np.random.default_rng(int(sys.argv[2])), np.random.default_rng(0).random((50, 3))
for _ in range(150):
    damaged = [array.copy() for array in arrays]
    for _ in range(rng.integers(1, 4)):
        array = damaged[rng.integers(len(damaged))]
        if len(array) and array.dtype.kind in "biuf":
            array[rng.integers(len(array))] = rng.choice([0, 1, 2, 127, 100]) if array.dtype.kind in "bu" else rng.choice([-1, 0, 2, 10**6])
    try:
        from_bytes(pack(document, damaged), "it").value.predict_proba(X)
    except (KdgError, ValueError, IndexError, ArithmeticError, TypeError):
        pass
print("alive")
"""


@pytest.mark.slow
def test_no_damage_to_numbers_ends_the_process(density_forest, tmp_path):
    (tmp_path / "it.kdg").write_bytes(to_bytes(density_forest))
    command = [sys.executable, "-W", "ignore", "-c", SURVIVES, str(tmp_path / "it.kdg"), "1"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert (done.returncode, done.stdout) == (0, "alive\n"), done.stderr


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=10,
)
TAGS = [
    "list",
    "tuple",
    "dict",
    "object",
    "array",
    "objects",
    "class",
    "function",
    "tree",
    "ref",
    "shared",
    "float",
    "scalar",
    "dtype",
]
TAGS += [
    "bytes",
    "slice",
    "range",
    "sparse",
    "masked",
    "random_state",
    "generator",
    "ufunc",
    "loss",
    "structured",
    "ordered",
    "complex",
]


@given(
    st.tuples(st.sampled_from(TAGS), st.lists(JSON, max_size=5)).map(
        lambda node: [node[0], *node[1]]
    )
)
@settings(max_examples=300, deadline=None)
def test_no_document_raises_anything_else(value):
    """Read, or refused in one line."""
    with contextlib.suppress(LoadError):
        from_bytes(file_of_node(value), "it")


def test_shared_objects_are_read_from_the_same_folder_only(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "parent.kdg").write_bytes(to_bytes([1]))
    (tmp_path / "inner" / "own.kdg").write_bytes(to_bytes([2]))

    def written(name: str) -> Path:
        path = tmp_path / "inner" / "it.kdg"
        path.write_bytes(file_of_node({"a": ["shared", name], "b": ["shared", name]}))
        return path

    result = load(written("own"))
    assert result == {"a": [2], "b": [2]} and result["a"] is result["b"]
    with pytest.raises(DamagedFileError):
        load(written("../parent"))
    with pytest.raises(LoadError) as caught:
        load(written("parent"))
    assert (
        str(caught.value)
        == f"{tmp_path / 'inner' / 'it.kdg'} refers to parent.kdg, which is not beside it"
    )
