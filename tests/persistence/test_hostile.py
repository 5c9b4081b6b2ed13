"""Files of other writers cannot import or call unlisted names, or make compiled code crash."""

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
from sklearn.cluster import Birch
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
from kdgraph.persistence.model_file import _FORMAT_VERSION

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
        "kdgraph.runner.run_dir:RunDir",
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
    (tmp_path / "unlisted.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('imported').touch()\nclass Thing:"
        " pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    content = signed_by_another_user(file_of_node(["object", 0], classes=[["unlisted:Thing", []]]))
    for trust in (False, True, ["unlisted.Other"]):
        with pytest.raises(UntrustedFileError):
            from_bytes(content, "it", trust=trust)
    assert not (tmp_path / "imported").exists()
    assert type(from_bytes(content, "it", trust="unlisted.Thing").value).__name__ == "Thing"
    assert (tmp_path / "imported").exists()


class Thing:
    """Class that is not on the allow list."""


def test_file_of_the_same_user_may_contain_unlisted_classes():
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
def test_trust_in_other_names_admits_nothing(trust):
    with pytest.raises(UntrustedFileError):
        from_bytes(signed_by_another_user(to_bytes(Thing())), "it", trust=trust)


def test_error_names_three_of_many_unlisted_classes():
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
        "kdgraph.cli.main:main",
        "os:system",
        "numpy:save",
    ],
)
def test_unlisted_function_is_refused(name):
    with pytest.raises(UntrustedFileError):
        from_bytes(file_of_node(["function", 0], functions=[name]), "it")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("kdgraph.geometry.kinds:partition_of", "is another thing"),
        ("kdgraph.density.classifiers:RandomForestClassifier", "is another thing"),
        (
            "kdgraph.density.classifiers:Gone",
            "module 'kdgraph.density.classifiers' has no attribute 'Gone'",
        ),
        ("kdgraph.density.gone:Gone", "No module named 'kdgraph.density.gone'"),
        ("kdgraph.density.graph:KernelDensityGraph.query", "is another thing"),
    ],
    ids=["function", "class of another module", "missing class", "missing module", "method"],
)
def test_listed_name_must_lead_to_a_class_that_its_module_defines(name, reason):
    with pytest.raises(LoadError) as caught:
        from_bytes(file_of_node(["object", 0], classes=[[name, []]]), "it")
    message = str(caught.value)
    assert message.startswith("it cannot be read by this version (") and reason in message


def test_compiled_class_without_its_state_is_refused():
    for name in ("sklearn.neighbors._kd_tree:KDTree", "sklearn.tree._tree:Tree"):
        with pytest.raises(DamagedFileError, match="is more than its fields"):
            from_bytes(file_of_node(["object", 0], classes=[[name, []]], admitted=[name]), "it")


@pytest.mark.parametrize(
    "node",
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
def test_invalid_nodes_are_refused(node):
    with pytest.raises(DamagedFileError, match=r"^it is damaged \("):
        from_bytes(file_of_node(node), "it")


@pytest.mark.parametrize(
    "key", ["format", "versions", "about", "admitted", "classes", "functions", "trees", "value"]
)
def test_missing_entries_of_the_document_are_detected(key):
    with pytest.raises(DamagedFileError, match=r"^it is damaged \(parts of it are not there\)$"):
        from_bytes(tampered(None, lambda document, arrays: document.pop(key)), "it")


def test_other_format_version_is_refused():
    with pytest.raises(LoadError, match=r"^it was written by another version of kdgraph$"):
        from_bytes(file_of_node(None, format=1), "it")


def test_too_deep_nesting_is_refused():
    nested_lists = b"[" * 100_000 + b"]" * 100_000
    document = b'{"arrays": [], "value": ' + nested_lists + b"}"
    with pytest.raises(DamagedFileError, match=r"^it is damaged \(RecursionError"):
        from_bytes(archive_of({"document.json": document}), "it")
    node: Any = ["list"]
    for _ in range(5_000):
        node = ["list", node]
    with pytest.raises(DamagedFileError, match=r"^it is damaged \(RecursionError"):
        from_bytes(archive_of({"document.json": json_document(node)}), "it")


def json_document(node: Any) -> bytes:
    """Return the JSON of a document with a node that nests beyond the limit of Python."""
    entries = {
        "format": _FORMAT_VERSION,
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
        return json.dumps({**entries, "value": node}).encode()
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
def test_deepest_nesting_that_can_be_saved_can_be_read(wrap):
    from_bytes(file_of_deepest_nesting(wrap), "it")


def file_of_deepest_nesting(wrap: Callable[[Any], Any]) -> bytes:
    """Return a file with as many levels as can be saved."""
    value, content = wrap(None), b""
    while True:
        try:
            content = to_bytes(value)
        except SaveError:
            return content
        value = wrap(value)


@pytest.mark.parametrize(
    "change",
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
def test_array_outside_its_pool_is_refused(change):
    def change_node(document, arrays):
        node = dict(zip(("tag", "pool", "start", "shape", "order"), document["value"], strict=True))
        document["value"] = list({**node, **change}.values())

    with pytest.raises(DamagedFileError):
        from_bytes(tampered(np.arange(3), change_node), "it")


def tree_column(document: dict[str, Any], arrays: list[np.ndarray], name: str) -> np.ndarray:
    """Return a view of a column of the trees."""
    _, pool, start, shape, _ = document["trees"][name]
    return arrays[pool][start : start + shape[0]]


def set_tree_column(name: str, value: float) -> Callable[..., None]:
    """Return a change that sets a column of the trees, or a field of all nodes but leaves."""

    def change(document, arrays):
        is_split = tree_column(document, arrays, "node.left_child") >= 0
        entries = is_split if name.startswith("node.") else slice(None)
        tree_column(document, arrays, name)[entries] = value

    return change


TREE_CHANGES = {
    "child after the last node": set_tree_column("node.left_child", 10**6),
    "child before its parent": set_tree_column("node.right_child", 0),
    "negative child": set_tree_column("node.left_child", -5),
    "leaf with one child": set_tree_column("node.left_child", -1),
    "missing feature": set_tree_column("node.feature", 3),
    "negative feature": set_tree_column("node.feature", -2),
    "more features than rows have": set_tree_column("n_features", 5),
    "no nodes": set_tree_column("n_nodes", 0),
    "more nodes": set_tree_column("n_nodes", 10**6),
    "more classes": set_tree_column("n_classes", 7),
    "no classes": set_tree_column("n_classes", 0),
    "more outputs": set_tree_column("n_outputs", 2),
    "no outputs": set_tree_column("n_outputs", 0),
}


@pytest.mark.parametrize("change", TREE_CHANGES.values(), ids=TREE_CHANGES)
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(3),
        GradientBoostingClassifier(n_estimators=3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_damaged_trees_are_refused(model, change):
    with pytest.raises(DamagedFileError, match=r"^it is damaged \("):
        from_bytes(tampered(model.fit(X, Y), change), "it")


def test_trees_with_other_fields_are_refused():
    def remove_field(document, arrays):
        del document["trees"]["node.missing_go_to_left"]

    with pytest.raises(
        LoadError,
        match=(
            r"^it cannot be read by this version \(scikit-learn keeps its trees in another form"
            r" now\)$"
        ),
    ):
        from_bytes(tampered(DecisionTreeClassifier().fit(X, Y), remove_field), "it")


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


def test_boosting_with_fewer_features_than_its_trees_is_refused():
    model = GradientBoostingClassifier(n_estimators=3).fit(X, Y)
    model.n_features_in_ = 1
    with pytest.raises(DamagedFileError, match="a tree has other features than its ensemble"):
        from_bytes(to_bytes(model), "it")


@pytest.mark.parametrize(
    ("field", "value"), [("left", 10**6), ("right", 0), ("feature_idx", 3), ("feature_idx", -1)]
)
def test_damaged_trees_of_histogram_boosting_are_refused(field, value):
    model = HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=5).fit(X, Y)
    nodes = model._predictors[0][0].nodes
    nodes[field][nodes["is_leaf"] == 0] = value
    with pytest.raises(DamagedFileError, match="a node of a tree leads nowhere"):
        from_bytes(to_bytes(model), "it")


def test_norms_of_other_clusters_are_refused():
    model = Birch(n_clusters=2).fit(X)
    from_bytes(to_bytes(model), "it")
    model._subcluster_norms = model._subcluster_norms[:1]
    with pytest.raises(DamagedFileError, match="norms of clusters are missing"):
        from_bytes(to_bytes(model), "it")


def test_tree_of_a_neighbour_search_is_built_again():
    model = KNeighborsClassifier(3, algorithm="kd_tree").fit(X, Y)
    loaded = from_bytes(to_bytes(model), "it").value
    assert loaded._tree is not None and type(loaded._tree) is type(model._tree)
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.fixture(scope="module")
def density_forest() -> KernelDensityForest:
    forest = RandomForestClassifier(5, random_state=0).fit(X[:40], Y[:40])
    return KernelDensityForest(FrozenEstimator(forest), random_state=0).fit(
        X[:40], Y[:40], X_calibration=X[40:], y_calibration=Y[40:]
    )


@pytest.mark.parametrize("node", [-2, 10**5])
def test_invalid_leaf_codes_are_refused(density_forest, node):
    changed = from_bytes(to_bytes(density_forest), "it").value
    changed.graph_.counts.codes[3, 2] = node
    with pytest.raises(ValueError, match="codes name nodes that their trees do not have"):
        from_bytes(to_bytes(changed), "it").value.predict_proba(X)


def test_graph_with_another_number_of_features_is_refused(density_forest):
    changed = from_bytes(to_bytes(density_forest), "it").value
    changed.n_features_in_ = 1
    with pytest.raises(ValueError, match="the forest splits on 3 features, got rows of 1"):
        from_bytes(to_bytes(changed), "it").value.predict_proba(X[:, :1])


PREDICT_WITH_DAMAGED_NUMBERS = """
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
            numbers = [0, 1, 2, 127, 100] if array.dtype.kind in "bu" else [-1, 0, 2, 10**6]
            array[rng.integers(len(array))] = rng.choice(numbers)
    try:
        from_bytes(pack(document, damaged), "it").value.predict_proba(X)
    except (KdgError, ValueError, IndexError, ArithmeticError, TypeError):
        pass
print("completed")
"""


@pytest.mark.slow
def test_damaged_numbers_do_not_crash_the_process(density_forest, tmp_path):
    path = tmp_path / "it.kdg"
    path.write_bytes(to_bytes(density_forest))
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREDICT_WITH_DAMAGED_NUMBERS, str(path), "1"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert (process.returncode, process.stdout) == (0, "completed\n"), process.stderr


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
def test_random_node_raises_no_error_but_load_error(node):
    with contextlib.suppress(LoadError):
        from_bytes(file_of_node(node), "it")


def test_shared_objects_are_read_from_the_same_folder_only(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "parent.kdg").write_bytes(to_bytes([1]))
    (tmp_path / "inner" / "own.kdg").write_bytes(to_bytes([2]))

    def file_with_shared_object(name: str) -> Path:
        path = tmp_path / "inner" / "it.kdg"
        path.write_bytes(file_of_node({"a": ["shared", name], "b": ["shared", name]}))
        return path

    value = load(file_with_shared_object("own"))
    assert value == {"a": [2], "b": [2]} and value["a"] is value["b"]
    with pytest.raises(DamagedFileError):
        load(file_with_shared_object("../parent"))
    with pytest.raises(LoadError) as caught:
        load(file_with_shared_object("parent"))
    assert (
        str(caught.value)
        == f"{tmp_path / 'inner' / 'it.kdg'} refers to parent.kdg, which is not beside it"
    )
