"""Models of each library, whose predictions are those of the library itself."""

from __future__ import annotations

import io
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

from kdgraph.base import FittedModel
from kdgraph.data.source_columns import SourceColumn, source_columns
from kdgraph.deployment import DeployedModel, Schema
from kdgraph.deployment.schema import Feature, Texts
from kdgraph.errors import DataError
from kdgraph.fitted import FittedParent, load_fitted
from kdgraph.geometry import partition_of, tree_partition_of
from kdgraph.persistence import load, save

rng = np.random.default_rng(5)
N = 240
NUMBERS = rng.normal(size=(N, 3))
FRAME = pd.DataFrame(NUMBERS, columns=["width", "height", "depth"]).assign(
    colour=pd.Categorical(rng.choice(["blue", "green", "red"], N))
)
FRAME.loc[:10, "width"] = np.nan
Y = (NUMBERS[:, 1] + (FRAME["colour"] == "red") > 0.3).astype(int).to_numpy()
LABELS = np.where(Y == 1, "yes", "no")
THREE = np.digitize(NUMBERS[:, 1], [-0.5, 0.5])
MISSING = "{} is not installed; the extra peers has it"
# Rows of a data set: categories are codes, in the order of their sorted values.
COLOURS = ("blue", "green", "red")
COLUMNS = [
    *(SourceColumn(name) for name in FRAME.columns[:3]),
    SourceColumn("colour", "category", COLOURS, COLOURS),
]
ROWS = np.column_stack([FRAME[["width", "height", "depth"]], FRAME["colour"].cat.codes])


def as_parent_of_run(path: Path | str, labels: list, **parameters) -> FittedParent:
    parent = FittedParent(str(path), data_columns=COLUMNS, data_labels=labels, **parameters)
    return parent.fit(ROWS[:0], np.empty(0, dtype=int))


def repaired(tmp_path, model, **changes) -> DeployedModel:
    """Write a model as ``kdg repair`` does, and return it as it is read."""
    features = [Feature(c.name, None if c.cells is None else list(c.cells)) for c in COLUMNS]
    schema = Schema("rows", "y", features, shape=[4], classes=["no", "yes"])
    save(DeployedModel(model, replace(schema, **changes)), tmp_path / "repaired.kdg")
    return load(tmp_path / "repaired.kdg")


def of_codes() -> FittedModel:
    return FittedModel(RandomForestClassifier(5, random_state=0).fit(ROWS, Y))


def test_a_repaired_model_predicts_rows_of_a_run_and_frames_alike(tmp_path):
    expected = repaired(tmp_path, of_codes()).predict_proba(FRAME)
    parent = as_parent_of_run(tmp_path / "repaired.kdg", ["no", "yes"])
    np.testing.assert_array_equal(parent.predict_proba(ROWS), expected)
    np.testing.assert_array_equal(parent.predict_proba(FRAME), expected)
    np.testing.assert_array_equal(
        as_parent_of_run(tmp_path / "repaired.kdg", ["yes", "no"]).predict_proba(ROWS),
        expected[:, ::-1],
    )
    assert not parent.has_partition() and parent.describe()["format"] == "kdgraph"
    # It is saved with its content, as models of other libraries are.
    save(parent, tmp_path / "parent.kdg")
    np.testing.assert_array_equal(load(tmp_path / "parent.kdg").predict_proba(ROWS), expected)


def test_a_repaired_model_reads_dates_and_new_categories_of_files(tmp_path):
    days = Feature("depth", date_format="%Y-%m-%d")
    dates = [*(Feature(name) for name in ("width", "height")), days]
    colours = Feature("colour", ["blue", "green"])
    model = repaired(tmp_path, of_codes(), features=[*dates, colours])
    new = FRAME.assign(depth=pd.to_datetime("1970-01-01") + pd.to_timedelta(np.arange(N), "D"))
    rows = np.column_stack([ROWS[:, :2], np.arange(N), ROWS[:, 3]])
    columns = [*COLUMNS[:2], SourceColumn("depth", "datetime64[ns]", dates=""), COLUMNS[3]]
    common = {"data_columns": columns, "data_labels": ["no", "yes"]}
    parent = FittedParent(str(tmp_path / "repaired.kdg"), **common).load()
    with pytest.raises(DataError, match=r"column 'colour' has 'red' .* parent\.unseen=missing"):
        parent.predict_proba(rows)
    parent = FittedParent(str(tmp_path / "repaired.kdg"), unseen="missing", **common).load()
    unseen = replace(model, unseen="missing").predict_proba(new)
    np.testing.assert_array_equal(parent.predict_proba(rows), unseen)


def test_unusable_repaired_model_is_refused_in_one_line(tmp_path, monkeypatch):
    path = tmp_path / "repaired.kdg"
    texts = Texts(["note"], n_features=4)
    refused = {"takes texts": lambda: repaired(tmp_path, of_codes(), features=[], text=texts)}
    refused["holds a dict, and no repaired model"] = lambda: save({"a": 1}, path)
    refused["cannot be read"] = lambda: path.write_bytes(b"no model")
    for message, write in refused.items():
        write()
        with pytest.raises(DataError, match=f"parent.path={path}: {message}") as caught:
            as_parent_of_run(path, ["no", "yes"])
        assert "\n" not in str(caught.value)
    repaired(tmp_path, of_codes())
    monkeypatch.setenv("KDGRAPH_KEY_FILE", str(tmp_path / "another.key"))
    with pytest.raises(DataError, match=r"was not made with your key.*give parent\.trust=true"):
        as_parent_of_run(path, ["no", "yes"])
    with pytest.warns(UserWarning, match="is trusted"):
        as_parent_of_run(path, ["no", "yes"], trust=True)


def save_skops(estimator, path: Path) -> None:
    pytest.importorskip("skops.io", reason=MISSING.format("skops")).dump(estimator, path)


def test_skops_pipeline_takes_names_categories_and_missing_values(tmp_path):
    encoder = make_column_transformer((OneHotEncoder(), ["colour"]), remainder="passthrough")
    model = make_pipeline(encoder, RandomForestClassifier(5, random_state=0)).fit(FRAME, LABELS)
    save_skops(model, tmp_path / "model.skops")
    expected = model.predict_proba(FRAME)
    parent = as_parent_of_run(tmp_path / "model.skops", ["no", "yes"])
    np.testing.assert_array_equal(parent.predict_proba(ROWS), expected)
    # The columns of another order, as in another file, are found by their names.
    order = [3, 2, 0, 1]
    shuffled = FittedParent(
        str(tmp_path / "model.skops"),
        data_columns=[COLUMNS[j] for j in order],
        data_labels=["no", "yes"],
    ).fit(ROWS[:0, order])
    np.testing.assert_array_equal(shuffled.predict_proba(ROWS[:, order]), expected)
    library = load_fitted(str(tmp_path / "model.skops"))
    assert library.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(library.predict(FRAME), model.predict(FRAME))


def test_pickle_needs_trust_and_warns(tmp_path):
    model = LogisticRegression().fit(NUMBERS, LABELS)
    path = str(tmp_path / "model.joblib")
    joblib.dump(model, path)
    with pytest.raises(DataError) as raised:
        load_fitted(path)
    assert str(raised.value) == (
        f"path={path}: is a pickle, which can run any code when it is read; save it with skops"
        " (skops.io.dump), or as ONNX; if you know and trust its origin, give trust=true"
    )
    with pytest.warns(UserWarning, match="is trusted: reading it can run any code that its writer"):
        parent = FittedParent(path, trust=True).fit(NUMBERS[:0])
    np.testing.assert_array_equal(parent.predict_proba(NUMBERS), model.predict_proba(NUMBERS))


def test_labels_of_the_data_are_matched_by_value(tmp_path):
    """The columns of the model follow its own labels, those of a run the sorted ones of the data."""
    model = LogisticRegression().fit(NUMBERS, THREE + 9)  # as text, "10" comes before "9"
    joblib.dump(model, tmp_path / "model.pkl")
    with pytest.warns(UserWarning, match="has no names of columns, and takes those .*: a, b, c$"):
        parent = FittedParent(
            str(tmp_path / "model.pkl"),
            trust=True,
            data_columns=[SourceColumn(name) for name in "abc"],
            data_labels=["10", "11", "9"],
        ).load()
    proba = parent.predict_proba(NUMBERS)
    np.testing.assert_array_equal(proba, model.predict_proba(NUMBERS)[:, [1, 2, 0]])
    assert parent.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_xgboost_files(tmp_path, n_classes):
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    y = Y if n_classes == 2 else THREE
    model = xgboost.XGBClassifier(n_estimators=4, enable_categorical=True).fit(FRAME, y)
    expected = model.predict_proba(FRAME)
    for ending in ("json", "ubj"):
        path = tmp_path / f"model.{ending}"
        model.save_model(path)
        parent = as_parent_of_run(path, list(range(n_classes)))
        # The sum of the two float32 probabilities differs from 1 by a few units of 6e-8.
        np.testing.assert_allclose(parent.predict_proba(ROWS), expected, rtol=2e-6)
    margins = xgboost.train(
        {"objective": "multi:softmax", "num_class": n_classes},
        xgboost.DMatrix(FRAME, y, enable_categorical=True),
        3,
    )
    margins.save_model(tmp_path / "labels.json")
    parent = as_parent_of_run(tmp_path / "labels.json", list(range(n_classes)))
    matrix = xgboost.DMatrix(FRAME, enable_categorical=True)
    np.testing.assert_array_equal(parent.predict(ROWS), margins.predict(matrix))


@pytest.mark.parametrize("objective", ["binary", "multiclass", "multiclassova"])
def test_lightgbm_files(tmp_path, objective):
    lightgbm = pytest.importorskip("lightgbm", reason=MISSING.format("lightgbm"))
    y = Y if objective == "binary" else THREE
    model = lightgbm.LGBMClassifier(objective=objective, n_estimators=4, verbose=-1).fit(FRAME, y)
    model.booster_.save_model(tmp_path / "model.txt")
    expected = model.predict_proba(FRAME)
    parent = as_parent_of_run(tmp_path / "model.txt", sorted(set(y.tolist())))
    np.testing.assert_allclose(
        parent.predict_proba(ROWS), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12
    )


@pytest.mark.parametrize("labels", [LABELS, THREE], ids=["text", "three"])
def test_catboost_files(tmp_path, labels):
    catboost = pytest.importorskip("catboost", reason=MISSING.format("catboost"))
    frame = FRAME.assign(colour=FRAME["colour"].astype(str))
    model = catboost.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False)
    model.fit(frame, labels, cat_features=["colour"]).save_model(str(tmp_path / "model.cbm"))
    parent = as_parent_of_run(tmp_path / "model.cbm", np.unique(labels).tolist())
    np.testing.assert_allclose(parent.predict_proba(ROWS), model.predict_proba(frame), rtol=1e-12)


@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_models_of_several_quantiles_predict_distributions(tmp_path, name):
    library = pytest.importorskip(name, reason=MISSING.format(name))
    y = NUMBERS[:, 0] + np.random.default_rng(6).normal(size=N)
    levels = np.array([0.1, 0.5, 0.9])
    if name == "xgboost":
        options = {"objective": "reg:quantileerror", "quantile_alpha": [0.9, 0.1, 0.5]}
        model, path = library.XGBRegressor(n_estimators=5, **options), tmp_path / "model.json"
    else:
        loss = "MultiQuantile:alpha=0.9,0.1,0.5"
        options = {"loss_function": loss, "allow_writing_files": False, "verbose": False}
        model, path = library.CatBoostRegressor(n_estimators=5, **options), tmp_path / "model.cbm"
    model.fit(NUMBERS, y).save_model(path)
    parent = load_fitted(str(path))
    distribution = parent.predict_dist(NUMBERS)
    expected = np.sort(model.predict(NUMBERS)[:, [1, 2, 0]].astype(float), axis=1)
    np.testing.assert_array_equal(distribution.ppf(levels), expected)
    np.testing.assert_array_equal(parent.predict(NUMBERS), distribution.mean())


@pytest.mark.parametrize("name", ["xgboost", "catboost"])
def test_models_of_several_outcomes_are_refused(tmp_path, name):
    library = pytest.importorskip(name, reason=MISSING.format(name))
    if name == "xgboost":
        model, path = library.XGBRegressor(n_estimators=2), tmp_path / "model.json"
    else:
        options = {"loss_function": "MultiRMSE", "allow_writing_files": False, "verbose": False}
        model, path = library.CatBoostRegressor(n_estimators=2, **options), tmp_path / "model.cbm"
    model.fit(NUMBERS, NUMBERS[:, :2]).save_model(path)
    with pytest.raises(DataError) as caught:
        load_fitted(str(path))
    assert str(caught.value) == (
        f"path={path}: predicts several outcomes of a row; save a model of one outcome, or of its"
        " quantiles"
    )


def test_boosted_regressors_predict_with_their_error_on_given_rows(tmp_path):
    lightgbm = pytest.importorskip("lightgbm", reason=MISSING.format("lightgbm"))
    target = NUMBERS[:, 1] ** 2
    model = lightgbm.LGBMRegressor(n_estimators=9, verbose=-1).fit(NUMBERS[:100], target[:100])
    model.booster_.save_model(tmp_path / "model.txt")
    parent = load_fitted(str(tmp_path / "model.txt"))
    assert not hasattr(parent, "predict_proba")
    np.testing.assert_array_equal(parent.predict(NUMBERS), model.predict(NUMBERS))
    with pytest.raises(DataError, match="no rows have shown how far off they are"):
        parent.predict_dist(NUMBERS)
    parent.fit(NUMBERS[100:], target[100:])
    trees = tree_partition_of(partition_of(parent))
    assert trees is not None and trees.n_trees == 9
    assert not hasattr(parent, "forest_")
    errors = target[100:] - model.predict(NUMBERS[100:])
    distribution = parent.predict_dist(NUMBERS[:5])
    np.testing.assert_allclose(distribution.var(), np.mean(errors**2))
    np.testing.assert_array_equal(distribution.mean(), model.predict(NUMBERS[:5]))


def onnx_file(model, rows, path: Path, **options) -> None:
    skl2onnx = pytest.importorskip("skl2onnx", reason=MISSING.format("skl2onnx"))
    pytest.importorskip("onnxruntime", reason=MISSING.format("onnxruntime"))
    path.write_bytes(skl2onnx.to_onnx(model, rows, **options).SerializeToString())


@pytest.mark.parametrize("zipmap", [True, False, "columns"])
@pytest.mark.parametrize("text", [True, False])
def test_onnx_classifiers_with_and_without_zipmap(tmp_path, zipmap, text):
    y = LABELS if text else Y
    model = LogisticRegression().fit(NUMBERS, y)
    path = tmp_path / "model.onnx"
    onnx_file(model, NUMBERS.astype(np.float32)[:1], path, options={"zipmap": zipmap})
    if zipmap == "columns":
        with pytest.raises(DataError, match=r"has 2 outputs of numbers \(.*name one: output=…"):
            load_fitted(str(path))
        return
    parent = load_fitted(str(path))
    assert parent.classes_.tolist() == sorted(set(y.tolist()))
    # onnxruntime computes in single precision.
    np.testing.assert_allclose(
        parent.predict_proba(NUMBERS), model.predict_proba(NUMBERS), atol=1e-6
    )


def test_onnx_with_an_input_for_each_column(tmp_path):
    frame = FRAME.drop(columns="width").assign(colour=FRAME["colour"].astype(str))
    encoder = make_column_transformer(
        (OneHotEncoder(), ["colour"]), (StandardScaler(), ["height", "depth"])
    )
    model = make_pipeline(encoder, RandomForestClassifier(5, random_state=0)).fit(frame, LABELS)
    onnx_file(model, frame[:1], tmp_path / "model.onnx")
    parent = FittedParent(
        str(tmp_path / "model.onnx"), data_columns=COLUMNS[1:], data_labels=["no", "yes"]
    ).load()
    assert parent.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_allclose(
        parent.predict_proba(ROWS[:, 1:]), model.predict_proba(frame), atol=1e-6
    )


def test_onnx_regressor(tmp_path):
    model = LinearRegression().fit(NUMBERS, NUMBERS[:, 0])
    onnx_file(model, NUMBERS.astype(np.float32)[:1], tmp_path / "model.onnx")
    parent = load_fitted(str(tmp_path / "model.onnx"))
    np.testing.assert_allclose(parent.predict(NUMBERS), NUMBERS[:, 0], atol=1e-5)


def trained_module() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)).eval()


def probabilities_of(module) -> np.ndarray:
    with torch.no_grad():
        logits = module(torch.from_numpy(NUMBERS).float())
    return logits.double().softmax(dim=1).numpy()


@pytest.fixture
def factory(tmp_path, monkeypatch):
    """Import path of a function that makes the module of :func:`trained_module`."""
    (tmp_path / "my_factory.py").write_text(
        textwrap.dedent(
            """
            from torch import nn

            def make():
                return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))

            def make_wider():
                return nn.Sequential(nn.Linear(3, 9), nn.ReLU(), nn.Linear(9, 2))
            """
        )
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "my_factory:make"
    sys.modules.pop("my_factory", None)


@pytest.mark.parametrize("nested", [True, False])
def test_weights_of_torch_with_a_factory_are_a_network(tmp_path, factory, nested):
    module, path = trained_module(), str(tmp_path / "weights.pt")
    weights = module.state_dict()
    torch.save({"epoch": 3, "state_dict": weights} if nested else weights, path)
    with pytest.raises(DataError, match=r"name the function that makes it: object=package"):
        load_fitted(path, classes=["no", "yes"])
    with pytest.raises(DataError, match="its weights are not those of my_factory:make_wider"):
        load_fitted(path, object="my_factory:make_wider", classes=["no", "yes"])
    parent = load_fitted(path, object=factory, classes=["no", "yes"])
    np.testing.assert_allclose(parent.predict_proba(NUMBERS), probabilities_of(module), rtol=1e-6)
    parent.fit(NUMBERS[:0])
    assert parent.has_partition()
    turned = load_fitted(path, object=factory, classes=["yes", "no"]).fit(NUMBERS[:0])
    np.testing.assert_array_equal(
        turned.predict_proba(NUMBERS), parent.predict_proba(NUMBERS)[:, ::-1]
    )
    with pytest.raises(DataError, match="has its classes in another order than the sorted one"):
        _ = turned.estimator_
    np.testing.assert_allclose(
        parent.estimator_.predict_proba(NUMBERS), probabilities_of(module), rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["module", "TorchScript", "exported program"])
def test_programs_of_torch_need_trust(tmp_path, kind):
    module, buffer = trained_module(), io.BytesIO()
    if kind == "module":
        torch.save(module, buffer)
    elif kind == "TorchScript":
        torch.jit.save(torch.jit.script(module), buffer)
    else:
        rows = torch.export.Dim("rows")
        program = torch.export.export(module, (torch.zeros(2, 3),), dynamic_shapes=({0: rows},))
        torch.export.save(program, buffer)
    path = str(tmp_path / "model.pt")
    Path(path).write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match=r"can run .*code.*; save the weights .* give trust=true"):
        load_fitted(path, classes=[0, 1])
    parent = load_fitted(path, trust=True, classes=[0, 1])
    np.testing.assert_allclose(parent.predict_proba(NUMBERS), probabilities_of(module), rtol=1e-6)


def halves(X) -> np.ndarray:
    """Return probabilities by the sign of a column, of a data frame or an array."""
    column = X["height"].to_numpy() if hasattr(X, "columns") else np.asarray(X)[:, 1]
    second = np.where(column > 0, 0.75, 0.25)
    return np.column_stack([1 - second, second])


@pytest.fixture
def module_of_halves(tmp_path, monkeypatch):
    code = "import numpy as np\n\n" + textwrap.dedent(
        """
        def halves(X):
            second = np.where(X["height"] > 0, 0.75, 0.25)
            return np.column_stack([1 - second, second])

        def logits(X):
            return np.column_stack([np.zeros(len(X)), X["height"]])

        def too_few(X):
            return np.zeros((1, 2))
        """
    )
    (tmp_path / "my_model.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "my_model.py"
    sys.modules.pop("my_model", None)


def test_functions_by_import_path_take_data_frames(module_of_halves):
    parent = as_parent_of_run("my_model:halves", ["no", "yes"])
    np.testing.assert_array_equal(parent.predict_proba(ROWS), halves(ROWS))
    message = r"must predict probabilities, and row \d+ .* if they are logits, give parent.outputs="
    with pytest.raises(DataError, match=message):
        as_parent_of_run("my_model:logits", ["no", "yes"]).predict_proba(ROWS)
    logits = as_parent_of_run("my_model:logits", ["no", "yes"], outputs="logits")
    np.testing.assert_allclose(logits.predict_proba(ROWS)[:, 1], 1 / (1 + np.exp(-ROWS[:, 1])))
    with pytest.raises(DataError, match=r"must predict numbers \[240, K\] for 240 rows"):
        as_parent_of_run("my_model:too_few", ["no", "yes"]).predict_proba(ROWS)
    with pytest.raises(DataError, match=r"cannot import 'my_model:absent' .* on PYTHONPATH"):
        load_fitted("my_model:absent", classes=[0, 1])
    with pytest.raises(DataError, match=r"has no labels of its classes; give classes="):
        load_fitted("my_model:halves")


def test_columns_that_differ_are_one_clear_line(tmp_path):
    frame = FRAME[["width", "height"]].fillna(0)
    joblib.dump(RandomForestClassifier(3).fit(frame, LABELS), tmp_path / "model.pkl")
    path = str(tmp_path / "model.pkl")

    def message(columns: str, **parameters) -> str:
        with pytest.raises(DataError) as raised:
            FittedParent(
                path,
                trust=True,
                data_columns=[SourceColumn(name) for name in columns.split()],
                **parameters,
            ).load()
        return str(raised.value).partition(": ")[2]

    assert message("width") == (
        "was fitted on other columns than those of the rows (height missing)"
    )
    assert message("height id width") == (
        "was fitted on other columns than those of the rows (id unknown to it); give"
        " dataset.drop=[id]"
    )
    assert message("height width", data_labels=["no", "perhaps", "yes"]) == (
        "has the classes no, yes, and the data has no, perhaps, yes; the rows must contain"
        " every class of the model and no other"
    )
    joblib.dump(RandomForestClassifier(3).fit(frame.to_numpy(), LABELS), path)
    assert message("a b c").startswith("was fitted on 2 columns, and the rows have 3")
    with pytest.raises(DataError, match="takes an array of numbers, and columns hold categories"):
        FittedParent(path, trust=True, data_columns=source_columns("ab", (None, ("u", "v")))).load()


def test_estimators_that_predict_no_probabilities_are_refused(tmp_path):
    path = str(tmp_path / "model.pkl")
    joblib.dump(LinearSVC().fit(NUMBERS, LABELS), path)
    with pytest.raises(DataError, match=r"LinearSVC, which has no predict_proba; fit Calibrated"):
        load_fitted(path, trust=True)
    joblib.dump(StandardScaler().fit(NUMBERS), path)
    with pytest.raises(DataError, match="StandardScaler, which predicts nothing"):
        load_fitted(path, trust=True)
    joblib.dump(LogisticRegression(), path)
    with pytest.raises(DataError, match="LogisticRegression that is not fitted"):
        load_fitted(path, trust=True)


def test_the_ending_of_the_file_must_be_known(tmp_path):
    (tmp_path / "model.npz").write_bytes(b"")
    with pytest.raises(DataError, match=r"has an ending that is no model's; known are .skops, "):
        load_fitted(str(tmp_path / "model.npz"))
    with pytest.raises(DataError, match=r"cannot be read \(No such file or directory\)"):
        load_fitted(str(tmp_path / "absent.onnx"))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_partitions_are_those_of_the_model_that_was_saved(tmp_path, library):
    """Leaves of a file's trees, with categories and missing values, are those of the library."""
    module = pytest.importorskip(library, reason=MISSING.format(library))
    frame, y = FRAME.copy(), np.arange(len(FRAME)) % 2
    if library == "lightgbm":
        model = module.LGBMClassifier(n_estimators=4, verbose=-1).fit(frame, y)
        model.booster_.save_model(tmp_path / "model.txt")
    elif library == "xgboost":
        model = module.XGBClassifier(n_estimators=4, enable_categorical=True).fit(frame, y)
        model.save_model(tmp_path / "model.json")
    else:
        frame = frame.select_dtypes("number")
        model = module.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False)
        model.fit(frame, y).save_model(str(tmp_path / "model.cbm"))
    path = next(tmp_path.glob("model.*"))
    codes = partition_of(load_fitted(str(path)).fit(frame, y)).encode(frame)
    np.testing.assert_array_equal(codes, partition_of(model).encode(frame))


def test_categories_of_catboost_get_a_forest_of_their_own(tmp_path):
    catboost = pytest.importorskip("catboost", reason=MISSING.format("catboost"))
    y = np.arange(len(FRAME)) % 2
    categories = list(FRAME.columns[FRAME.dtypes == "category"])
    text = FRAME.assign(
        **{c: FRAME[c].astype(object).fillna("nan").astype(str) for c in categories}
    )
    model = catboost.CatBoostClassifier(iterations=4, verbose=0, allow_writing_files=False)
    model.fit(text, y, cat_features=categories).save_model(str(tmp_path / "model.cbm"))
    parent = load_fitted(str(tmp_path / "model.cbm"))
    with pytest.warns(UserWarning, match="a forest of 100 trees of their own"):
        parent.fit(FRAME, y)
    assert categories and len(partition_of(parent).encode(FRAME)) == len(FRAME)
