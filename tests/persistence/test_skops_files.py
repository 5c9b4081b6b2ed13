"""Files of skops predict what skops' own reading of them predicts, or are refused in one line."""

from __future__ import annotations

import inspect
import io
import json
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn.cluster import BisectingKMeans, FeatureAgglomeration, KMeans
from sklearn.compose import make_column_transformer
from sklearn.decomposition import NMF, PCA
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier
from sklearn.metrics.pairwise import chi2_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, RadiusNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    StandardScaler,
)
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import Bunch, all_estimators

from kdgraph.persistence import LoadError, UntrustedFileError, save
from kdgraph.persistence.skops_files import read_skops

skops_io = pytest.importorskip("skops.io", reason="skops writes these files; an extra has it")
PROTOCOL = 2
RNG = np.random.default_rng(0)
X = RNG.uniform(0.1, 2, (60, 4))
Y = (X[:, 0] > X[:, 1]).astype(int)
LABELS = np.array(["u", "v", "w"])[Y + (X[:, 2] > 1)]
TARGETS = X @ [1.0, 2.0, 0.5, 1.0]


def own_reading(content: bytes) -> Any:
    """Return what skops reads, with all types that it does not trust by default."""
    return skops_io.loads(content, trusted=skops_io.get_untrusted_types(data=content))


def outputs(model: Any, rows: Any) -> dict[str, np.ndarray]:
    methods = ("predict", "predict_proba", "decision_function")
    return {name: getattr(model, name)(rows) for name in methods if hasattr(model, name)}


def assert_equal_outputs(model: Any, expected: Any, rows: Any) -> None:
    results = outputs(model, rows)
    assert results.keys() == outputs(expected, rows).keys() and results
    for name, values in outputs(expected, rows).items():
        np.testing.assert_array_equal(results[name], values, err_msg=name)


KINDS: dict[str, Any] = {
    "forest": RandomForestClassifier(5, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=3, random_state=0),
    "histogram boosting": HistGradientBoostingClassifier(max_iter=3, random_state=0),
    "support vectors": SVC(gamma=0.7),
    "support vectors of a function": SVC(kernel=chi2_kernel),
    "neighbours": KNeighborsClassifier(3),
    "neighbours by brute force": KNeighborsClassifier(3, algorithm="brute"),
    "neighbours within a radius": RadiusNeighborsClassifier(1.5, algorithm="brute"),
    "Gaussian process": GaussianProcessClassifier(RBF() + WhiteKernel(), random_state=0),
    "network": MLPClassifier((4,), max_iter=3, random_state=0),
    "gradient descent": SGDClassifier(random_state=0),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2, scoring="roc_auc_ovr"),
    "selection": make_pipeline(SelectKBest(f_classif, k=2), LogisticRegression()),
    "pooled features": make_pipeline(FeatureAgglomeration(2), LogisticRegression()),
    "clusters": make_pipeline(KMeans(3, n_init=1, random_state=0), LogisticRegression()),
    "factors": make_pipeline(NMF(2, random_state=0, max_iter=500), LogisticRegression()),
    "bins": make_pipeline(KBinsDiscretizer(3, quantile_method="linear"), LogisticRegression()),
    "rare categories": make_pipeline(
        FunctionTransformer(np.floor),
        OneHotEncoder(min_frequency=20, handle_unknown="infrequent_if_exist", drop="first"),
        LogisticRegression(),
    ),
    "logarithms": make_pipeline(
        FunctionTransformer(np.log1p, inverse_func=np.expm1), StandardScaler(), PCA(2), Ridge()
    ),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.filterwarnings("ignore")  # few steps of fitting
def test_models_predict_the_bits_of_their_own_reader(name):
    y = TARGETS if name == "logarithms" else LABELS
    content = skops_io.dumps(KINDS[name].fit(X, y))
    assert_equal_outputs(read_skops(content), own_reading(content), X)


def test_columns_of_a_data_frame_keep_their_types():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        colour=pd.Categorical(RNG.choice(["red", "blue", "green"], len(X)))
    )
    numbers = make_column_transformer(
        (StandardScaler(), ["a", "b"]),
        (OneHotEncoder(), ["colour"]),
        (FunctionTransformer(np.sqrt), slice(2, 4)),
    )
    for model in (
        make_pipeline(numbers, RandomForestClassifier(3, random_state=0)),
        HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=5),
    ):
        content = skops_io.dumps(model.fit(frame, LABELS))
        assert_equal_outputs(read_skops(content), own_reading(content), frame)


def test_texts_and_sparse_matrices_are_read():
    texts = ["one two", "two three", "three four five", "one five"] * 5
    labels = np.arange(20) % 2
    for model in (
        make_pipeline(CountVectorizer(), LogisticRegression()),
        make_pipeline(HashingVectorizer(n_features=8), SVC(kernel="linear")),
        make_pipeline(CountVectorizer(), KNeighborsClassifier(2)),
    ):
        content = skops_io.dumps(model.fit(texts, labels))
        assert_equal_outputs(read_skops(content), own_reading(content), texts)
    coefficients = LogisticRegression().fit(X, Y).sparsify()
    content = skops_io.dumps(coefficients)
    assert_equal_outputs(read_skops(content), own_reading(content), X)


def predictors() -> dict[str, type]:
    """Return classifiers and regressors of one output."""
    classes = all_estimators(type_filter=["classifier", "regressor"])
    several = ("MultiOutput", "MultiTask", "Chain")
    return {
        name: cls for name, cls in classes if not name.startswith(several) and "Chain" not in name
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", predictors())
@pytest.mark.filterwarnings("ignore")  # few steps of fitting
def test_every_predictor_in_a_pipeline_is_read_without_trust(name):
    cls: Any = predictors()[name]
    parameters = inspect.signature(cls).parameters
    is_regressor = issubclass(cls, tuple(c for _, c in all_estimators(type_filter="regressor")))
    inner: Any = Ridge() if is_regressor else LogisticRegression()
    tree: Any = LinearRegression() if is_regressor else DecisionTreeClassifier()
    required = {
        key: value
        for key, value in {
            "estimator": inner,
            "estimators": [("a", inner), ("b", tree)],
            "param_grid": {},
            "param_distributions": {},
            "nu": 0.1,
        }.items()
        if key in parameters
        and (parameters[key].default is inspect.Parameter.empty or (key, name) == ("nu", "NuSVC"))
    }
    if name == "SelfTrainingClassifier":
        required = {"estimator": inner}
    y: Any = TARGETS if is_regressor else LABELS
    if "Threshold" in name:
        y = Y
    elif name == "SelfTrainingClassifier":
        y = np.where(np.arange(60) % 4, Y, -1)
    elif name in ("CCA", "PLSCanonical"):
        y = np.c_[TARGETS, X[:, 0]]
    rows = X[:, :1] if name == "IsotonicRegression" else X
    model = Pipeline([("scale", StandardScaler(with_mean=False)), ("model", cls(**required))])
    content = skops_io.dumps(model.fit(rows, y))
    # Label propagation computes rows of fit from stored results, if they are the very same array.
    assert_equal_outputs(read_skops(content), own_reading(content), rows.copy())


@cache
def parts_of(kind: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return schema and further members of the file of a model."""
    return parts(skops_io.dumps(KINDS[kind].fit(X, LABELS)))


def parts(content: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("schema.json")), members


def file_of(schema: Any, members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in (members | {"schema.json": json.dumps(schema).encode()}).items():
            archive.writestr(name, content)
    return buffer.getvalue()


def node(name: str, loader: str, **fields: Any) -> dict[str, Any]:
    module, _, cls = name.partition(":")
    return {"__class__": cls, "__module__": module, "__loader__": loader, **fields}


def scalar(value: Any) -> dict[str, Any]:
    return node("builtins:str", "JsonNode", content=json.dumps(value), is_json=True)


def items_of(*nodes: Any) -> dict[str, Any]:
    return node("builtins:tuple", "TupleNode", content=list(nodes))


def attributes(**nodes: Any) -> dict[str, Any]:
    text = node("builtins:str", "TypeNode")
    keys = node("builtins:list", "ListNode", content=[text] * len(nodes))
    return node("builtins:dict", "DictNode", content=nodes, key_types=keys)


def pipeline_of(*steps: Any) -> dict[str, Any]:
    pairs = [items_of(scalar(f"s{k}"), step) for k, step in enumerate(steps)]
    listed = node("builtins:list", "ListNode", content=pairs)
    return estimator("sklearn.pipeline:Pipeline", steps=listed) | {"protocol": PROTOCOL}


def estimator(name: str, **nodes: Any) -> dict[str, Any]:
    version = scalar(sklearn.__version__)
    return node(name, "ObjectNode", content=attributes(**nodes, _sklearn_version=version))


def transformer(**nodes: Any) -> dict[str, Any]:
    return estimator("sklearn.preprocessing._function_transformer:FunctionTransformer", **nodes)


def refused_names(schema: Any, members: dict[str, bytes] | None = None) -> list[str]:
    with pytest.raises(UntrustedFileError) as caught:
        read_skops(file_of(schema, members or {}))
    assert "\n" not in str(caught.value)
    return list(caught.value.names)


def command() -> dict[str, Any]:
    return items_of(scalar("touch executed"))


PARENT = "kdgraph.fitted.parent:FittedParent"
HOSTILE: dict[str, tuple[Callable[[], Any], str]] = {
    "constructor": (
        lambda: node("os:system", "ConstructorFromReduceNode", content=command()),
        "os.system",
    ),
    "constructor of a listed class": (
        lambda: node(
            "sklearn.svm._classes:SVC", "ConstructorFromReduceNode", content=items_of(scalar(1))
        ),
        "sklearn.svm._classes.SVC",
    ),
    "object": (lambda: node("subprocess:Popen", "ObjectNode"), "subprocess.Popen"),
    "own class": (lambda: node(PARENT, "ObjectNode"), "kdgraph.fitted.parent.FittedParent"),
    "list": (lambda: node("subprocess:Popen", "ListNode", content=[]), "subprocess.Popen"),
    "set": (lambda: node("os:system", "SetNode", content=[]), "os.system"),
    "dictionary": (
        lambda: node("os:putenv", "DictNode", content={}, key_types=attributes()),
        "os.putenv",
    ),
    "scalar": (lambda: node("os:system", "NdArrayNode", type="numpy", file="0.npy"), "os.system"),
    "scalar of a listed class": (
        lambda: node("sklearn.svm._classes:SVC", "NdArrayNode", type="numpy", file="0.npy"),
        "sklearn.svm._classes.SVC",
    ),
    "function": (lambda: node("os:system", "FunctionNode"), "os.system"),
    "type": (lambda: node("os:system", "TypeNode"), "os.system"),
    "loss": (lambda: node("os:system", "LossNode"), "os.system"),
    "sparse matrix": (lambda: node("os:system", "SparseMatrixNode"), "os.system"),
    "operator": (
        lambda: node("operator:methodcaller", "OperatorFuncNode", attrs=command()),
        "operator.methodcaller",
    ),
    "partial": (
        lambda: node("functools:partial", "PartialNode", content=node("os:system", "FunctionNode")),
        "os.system",
    ),
    "bound method": (
        lambda: node(
            "sklearn.svm._classes:SVC",
            "MethodNode",
            content={"func": "fit", "obj": node("sklearn.svm._classes:SVC", "ObjectNode")},
        ),
        "sklearn.svm._classes.SVC",
    ),
    "unknown loader": (lambda: node("os:system", "NewNode"), "os.system"),
    "behind a shared number": (
        lambda: items_of(
            {**scalar(1), "__id__": 7}, {**node("os:system", "FunctionNode"), "__id__": 7}
        ),
        "os.system",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_but_listed_names_is_imported_or_called(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, refused = HOSTILE[name]
    assert refused_names(pipeline_of(make())) == [refused]
    assert not list(tmp_path.iterdir())


def function(name: str) -> dict[str, Any]:
    return node(name, "FunctionNode")


MISPLACED: dict[str, tuple[Callable[[], Any], str]] = {
    "k-means as a transformer": (
        lambda: transformer(func=function("sklearn.cluster._kmeans:_kmeans_single_lloyd")),
        "sklearn.cluster._kmeans._kmeans_single_lloyd as func of a FunctionTransformer",
    ),
    "F test as a transformer": (
        lambda: transformer(
            func=function("sklearn.feature_selection._univariate_selection:f_classif")
        ),
        "sklearn.feature_selection._univariate_selection.f_classif as func of a"
        " FunctionTransformer",
    ),
    "function in a container": (lambda: function("numpy:log1p"), "numpy.log1p in a container"),
    "sum of columns": (
        lambda: transformer(func=function("numpy:sum")),
        "numpy.sum as func of a FunctionTransformer",
    ),
    "arguments of a function": (
        lambda: transformer(
            func=function("numpy:log1p"), kw_args=attributes(out=items_of(scalar(1)))
        ),
        "a FunctionTransformer with arguments",
    ),
    "file names as rows": (
        lambda: estimator(
            "sklearn.feature_extraction.text:CountVectorizer", input=scalar("filename")
        ),
        "a CountVectorizer that reads files",
    ),
}


@pytest.mark.parametrize("name", MISPLACED)
def test_functions_have_places(name):
    make, refused = MISPLACED[name]
    assert refused_names(pipeline_of(make())) == [refused]


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_compiled_tree_is_no_step_of_a_pipeline(is_shared):
    """It predicts, without a check of the number of columns."""
    schema, members = parts(skops_io.dumps(DecisionTreeClassifier().fit(X, Y)))
    tree = schema["content"]["content"]["tree_"]
    tree["__id__"] = 5
    owner = [schema] if is_shared else []
    step = {**scalar(0), "__id__": 5} if is_shared else tree
    [name] = refused_names(pipeline_of(*owner, step), members)
    assert name == "sklearn.tree._tree.Tree in a container"


def test_boosting_with_an_initial_model_needs_trust():
    """Its trees are added to the outputs of that model, whatever their shape."""
    model = GradientBoostingClassifier(init=LogisticRegression(), n_estimators=2).fit(X, Y)
    schema, members = parts(skops_io.dumps(model))
    assert refused_names(schema, members) == [
        "a GradientBoostingClassifier that begins with a LogisticRegression"
    ]


def test_threads_and_caches_of_the_file_are_not_used(tmp_path):
    forest = RandomForestClassifier(3, n_jobs=100_000, random_state=0)
    clusters = KMeans(2, n_init=1, random_state=0)
    model = Pipeline([("c", clusters), ("f", forest)], memory=str(tmp_path / "cache"))
    model.set_params(f__n_jobs=1).fit(X, Y).set_params(f__n_jobs=100_000)
    model[0]._n_threads = 100_000
    loaded = read_skops(skops_io.dumps(model))
    assert (loaded[0]._n_threads, loaded[1].n_jobs, loaded.memory) == (1, None, None)
    np.testing.assert_array_equal(
        loaded.predict_proba(X), model.set_params(f__n_jobs=1).predict_proba(X)
    )


def edited(model: Any, path: str, change: Callable[[Any], Any]) -> bytes:
    """Return the file of a fitted model with a changed value at this path of attributes."""
    *owners, name = path.split(".")
    owner = model
    for part in owners:
        owner = owner[int(part)] if part.isdigit() else getattr(owner, part)
    owner.__dict__[name] = change(getattr(owner, name))
    return skops_io.dumps(model)


def svc(**parameters: Any) -> SVC:
    return SVC(**parameters).fit(X, LABELS)


def one_hot() -> Any:
    encoder = OneHotEncoder(min_frequency=15, drop="first", handle_unknown="infrequent_if_exist")
    return encoder.fit(np.floor(3 * X))


def boosted() -> Any:
    frame = pd.DataFrame(X, columns=list("abcd")).assign(c=pd.Categorical(np.floor(3 * X[:, 0])))
    return HistGradientBoostingClassifier(max_iter=3, min_samples_leaf=3).fit(frame, LABELS)


def with_bitset(nodes: np.ndarray) -> np.ndarray:
    nodes = nodes.copy()
    nodes["is_categorical"], nodes["bitset_idx"] = 1, 9
    return nodes


UNFIT: dict[str, tuple[Callable[[], Any], str, Callable[[Any], Any], str]] = {
    "support vectors of one column": (
        svc, "support_vectors_", lambda a: a[:, :1].copy(), "support vectors are missing",
    ),
    "fewer coefficients": (
        svc, "_dual_coef_", lambda a: a[:, :1].copy(), "support vectors are missing",
    ),
    "fewer counts": (
        svc, "_n_support", lambda a: a[:2].copy(), "other classes than its arrays",
    ),
    "negative counts": (
        svc, "_n_support", lambda a: a * np.int32(-1), "other classes than its arrays",
    ),
    "fewer intercepts": (
        svc, "_intercept_", lambda a: a[:1].copy(), "other classes than its arrays",
    ),
    "support of a kernel matrix": (
        lambda: svc(kernel=chi2_kernel), "support_", lambda a: a + np.int32(10**6),
        "support vectors are missing",
    ),
    "rows of a kernel": (
        lambda: svc(kernel=chi2_kernel), "_BaseLibSVM__Xfit", lambda a: a[:2].copy(),
        "support vectors are missing",
    ),
    "probabilities": (
        svc, "_probA", lambda a: np.zeros(1), "probabilities of a support vector machine",
    ),
    "sparse support vectors": (
        lambda: SVC().fit(scipy.sparse.csr_array(X), Y), "_dual_coef_", lambda a: a[:, :2],
        "support vectors are missing",
    ),
    "regression": (
        lambda: SVR().fit(X, TARGETS), "support_vectors_", lambda a: a[:, :1].copy(),
        "support vectors are missing",
    ),
    "one class": (
        lambda: OneClassSVM().fit(X), "support_", lambda a: a[:2].copy(),
        "support vectors are missing",
    ),
    "nu": (
        lambda: NuSVC(nu=0.1).fit(X, Y), "_intercept_", lambda a: a[:0].copy(),
        "other classes than its arrays",
    ),
    "centres": (
        lambda: KMeans(2, n_init=1).fit(X), "cluster_centers_", lambda a: a[:, :1].copy(),
        "centres of clusters",
    ),
    "bisected centres": (
        lambda: BisectingKMeans(3).fit(X), "_bisecting_tree.left.center", lambda a: a[:1].copy(),
        "centres of clusters",
    ),
    "labels of neighbours": (
        lambda: KNeighborsClassifier(2, algorithm="brute").fit(X, Y), "_y", lambda a: a[:2].copy(),
        "labels of nearest neighbours",
    ),
    "classes of neighbours": (
        lambda: KNeighborsClassifier(2, algorithm="brute").fit(X, Y), "_y", lambda a: a + 10**6,
        "labels of nearest neighbours",
    ),
    "list of classes of neighbours": (
        lambda: KNeighborsClassifier(2, algorithm="brute").fit(X, 10**6 * Y),
        "classes_",
        lambda a: [0],
        "labels of nearest neighbours",
    ),
    "norms of neighbours": (
        lambda: KNeighborsClassifier(2, algorithm="brute").fit(X, Y),
        "effective_metric_params_",
        lambda d: {**d, "Y_norm_squared": np.zeros(1)},
        "norms of nearest neighbours",
    ),
    "parameters with norms of neighbours": (
        lambda: KNeighborsClassifier(2, algorithm="brute").fit(X, Y),
        "metric_params",
        lambda d: {"Y_norm_squared": np.zeros(1)},
        "norms of nearest neighbours",
    ),
    "rows of neighbours": (
        lambda: KNeighborsClassifier(2).fit(X, Y), "n_samples_fit_", lambda n: n + 1,
        "rows of nearest neighbours",
    ),
    "tree features": (
        lambda: DecisionTreeClassifier().fit(X, Y), "n_features_in_", lambda n: 1, "features",
    ),
    "features of an isolation forest": (
        lambda: IsolationForest(n_estimators=2, max_features=0.5).fit(X), "estimators_features_",
        lambda parts: [part[:1] for part in parts], "features",
    ),
    "all features of an isolation forest": (
        lambda: IsolationForest(n_estimators=2, max_features=0.5).fit(X), "_max_features", lambda n: 4,
        "features",
    ),
    "missing trees of boosting": (
        lambda: GradientBoostingClassifier(n_estimators=2).fit(X, LABELS), "estimators_",
        lambda a: a[:, :1].copy(), "lacks trees",
    ),
    "classes of boosting": (
        lambda: GradientBoostingClassifier(n_estimators=2).fit(X, LABELS), "classes_",
        lambda a: a[:2].copy(), "lacks classes",
    ),
    "loss of boosting": (
        lambda: GradientBoostingClassifier(n_estimators=2).fit(X, LABELS),
        "_loss.is_multiclass",
        lambda flag: False,
        "loss has other classes",
    ),
    "link of boosting": (
        lambda: GradientBoostingClassifier(n_estimators=2).fit(X, LABELS),
        "_loss.link",
        lambda link: Bunch(link=RBF()),
        "loss has other classes",
    ),
    "first guess of boosting": (
        lambda: GradientBoostingClassifier(n_estimators=2).fit(X, LABELS), "init_.class_prior_",
        lambda a: a[:1].copy(), "first guess",
    ),
    "nodes of histogram boosting": (
        boosted, "_predictors.0.0.nodes", with_bitset, "leads nowhere",
    ),
    "sets of histogram boosting": (
        boosted, "_predictors.0.0.raw_left_cat_bitsets", lambda a: a[:, :1].copy(), "categories",
    ),
    "encoder of histogram boosting": (
        boosted,
        "_preprocessor",
        lambda encoder: StandardScaler(),
        "features are missing",
    ),
    "columns of histogram boosting": (
        boosted, "_preprocessor._transformer_to_input_indices",
        lambda d: {**d, "numerical": [0]}, "features are missing",
    ),
    "columns of categories": (
        one_hot, "_n_features_outs", lambda n: [1] * len(n), "columns of an encoder",
    ),
    "rare categories": (
        one_hot, "_default_to_infrequent_mappings",
        lambda parts: [None if part is None else part + 10**6 for part in parts],
        "categories of an encoder",
    ),
    "rare categories that are not grouped": (
        one_hot,
        "_default_to_infrequent_mappings",
        lambda parts: [None] * len(parts),
        "categories of an encoder",
    ),
    "dropped categories": (
        one_hot, "_drop_idx_after_grouping", lambda a: a + 50, "categories of an encoder",
    ),
    "vocabulary": (
        lambda: CountVectorizer().fit(["a one", "two"]), "vocabulary_",
        lambda d: {word: k + 10**6 for word, k in d.items()}, "columns of a vocabulary",
    ),
    "number of hashes": (
        lambda: HashingVectorizer().fit(["a"]), "n_features", lambda n: 0, "n_features",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNFIT)
def test_arrays_that_compiled_code_would_leave_are_refused(name):
    make, path, change, message = UNFIT[name]
    read_skops(skops_io.dumps(make()))
    with pytest.raises(LoadError, match=message) as caught:
        read_skops(edited(make(), path, change))
    assert "\n" not in str(caught.value) and not isinstance(caught.value, UntrustedFileError)


def test_indices_of_a_sparse_matrix_are_within_its_shape():
    model = LogisticRegression().fit(X, Y).sparsify()
    model.coef_.indices[0] = 10**6
    with pytest.raises(LoadError, match="indices"):
        read_skops(skops_io.dumps(model))


@pytest.mark.parametrize(("generator", "position"), [("MT19937", 625), ("MT19937", -1)])
def test_random_numbers_begin_within_their_state(generator, position):
    model = DummyClassifier(strategy="stratified", random_state=np.random.RandomState(0))
    content = skops_io.dumps(model.fit(X, Y))
    schema, members = parts(content)
    state = schema["content"]["content"]["random_state"]["content"]["content"]["state"]
    state["content"]["pos"] = scalar(position)
    with pytest.raises(LoadError, match=f"a {generator} has no position {position}"):
        read_skops(file_of(schema, members))


def test_arrays_are_as_long_as_their_header():
    schema, members = parts(skops_io.dumps(LinearRegression().fit(X, TARGETS)))
    for change in (lambda array: array[:-1], lambda array: array + b"\0"):
        cut = {name: change(content) for name, content in members.items()}
        with pytest.raises(LoadError, match="another size than its header"):
            read_skops(file_of(schema, cut))


def test_later_protocols_and_other_archives_are_refused():
    for protocol in (PROTOCOL + 1, -1, True, "2"):
        with pytest.raises(LoadError, match="protocol"):
            read_skops(file_of(pipeline_of() | {"protocol": protocol}, {}))
    for content in (b"", b"PK\x03\x04", file_of([], {}), file_of({}, {})):
        with pytest.raises(LoadError):
            read_skops(content)


def test_files_that_kdgraph_saved_are_named(tmp_path):
    save(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]), tmp_path / "model.skops")
    message = (
        r"^is no file of skops, which has a schema\.json; a model that kdgraph saved ends in \.kdg$"
    )
    with pytest.raises(LoadError, match=message):
        read_skops((tmp_path / "model.skops").read_bytes())


def test_members_of_one_name_are_refused():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps(pipeline_of()))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("schema.json", json.dumps(pipeline_of(node("os:system", "TypeNode"))))
    with pytest.raises(LoadError, match="two members of one name"):
        read_skops(buffer.getvalue())
