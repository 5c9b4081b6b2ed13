"""Columns of models and of tables: what matches, what is converted, and what is refused."""

from __future__ import annotations

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC

from kdgraph.data.source_columns import SourceColumn
from kdgraph.errors import DataError
from kdgraph.fitted import FittedParent, load_fitted
from kdgraph.fitted.columns import CategoryColumn, ModelColumns, check_known, convert
from kdgraph.fitted.estimators import estimator_columns
from kdgraph.fitted.labels import match_labels
from tests.variations import others_slow

MISSING = "{} is not installed; the extra peers has it"
N = 200


def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def test_names_match_by_the_rule_of_the_library():
    columns = ModelColumns(("hours_per_week", "age"), joins_words=True)
    assert columns.positions(["age", "x", "hours per week"]) == [2, 0]
    with pytest.raises(DataError, match="hours_per_week missing"):
        ModelColumns(("hours_per_week",)).positions(["hours per week"])
    with pytest.raises(DataError, match="takes one column 'a_b', and the rows have two"):
        ModelColumns(("a_b",), joins_words=True).positions(["a b", "a_b"])


def test_made_up_names_are_names_only_of_a_table_that_has_them():
    columns = ModelColumns(("Column_0", "Column_1"), are_made_up=True)
    assert columns.positions(["Column_1", "Column_0"]) == [1, 0]
    assert columns.positions(["b", "a"]) == [0, 1] and columns.given_names is None
    with pytest.raises(DataError, match="was fitted on 2 columns, and the rows have 3: a, b, c"):
        columns.positions(["a", "b", "c"])


@pytest.mark.parametrize(
    ("model", "data", "order"),
    [
        (["no", "yes"], ["yes", "no"], [1, 0]),
        ([0, 1], ["1", "0"], [1, 0]),
        ([False, True], ["false", "true"], [0, 1]),
        ([1.0, 2.0], [2, 1], [1, 0]),
        (["1e3", "2"], [2, 1000], [1, 0]),
        ([1, 2], ["01", "2"], [0, 1]),
        ([9007199254740993, 9007199254740992], ["9007199254740992", "9007199254740993"], [1, 0]),
        # Labels that differ stay different.
        (["1e3", "1000"], [1000, 1], None),
        (["1", "01"], [1, 2], None),
        (["True", "true"], [True, False], None),
        (["1", "01"], ["01", "1"], [1, 0]),
        ([True, False], [1, 0], None),
        (["a", "b"], ["a", "c"], None),
    ],
)
def test_labels_match_by_value_and_none_are_merged(model, data, order):
    matched = match_labels(model, data)
    assert (None if matched is None else matched.tolist()) == order


def test_categories_match_by_value_and_type():
    known = CategoryColumn("c", ("b", "a", "1"), "category")
    converted = convert(known, pd.Series(["a", None, "new", "1"]), None)
    assert converted.cat.codes.tolist() == [1, -1, -1, 2]
    whole = CategoryColumn("c", (5, 7), "category")
    assert convert(whole, pd.Series([7.0, np.nan, 5.0]), None).cat.codes.tolist() == [1, -1, 0]
    assert convert(whole, pd.Series([True, False]), None).isna().all()
    assert convert(whole, pd.Series(["5", "7"]), None).isna().all()


def test_numbers_in_place_of_text_are_refused():
    known = CategoryColumn("c", ("01", "02"), "category")
    problem = "takes the categories '01', '02' in 'c', and the rows have numbers there"
    numbers = SourceColumn("c", "int64")
    for cells in ([1, 2], [True], [1.5, np.nan], [True, None]):
        with pytest.raises(DataError, match=f"^{problem}$"):
            convert(known, pd.Series(cells, name="c"), None)
        with pytest.raises(DataError, match=f"^{problem}; if they are names, add 'c' to dataset"):
            convert(known, pd.Series(cells, name="c"), numbers)
    with pytest.raises(DataError, match=f"^{problem}; if they are names, add 'c' to dataset"):
        ModelColumns(("c",), categories=(known,)).check_types([numbers])
    assert convert(known, pd.Series([np.nan, np.nan], name="c"), None).isna().all()


def test_predictions_warn_of_rows_with_mostly_new_categories():
    known = CategoryColumn("c", ("x", "y"), "category")
    message = r"^most cells of 'c' are categories that the model was not fitted with; it knows 'x'"
    for cells in (["n", "x", "m"] * 20, ["n"] * 20):
        with pytest.warns(UserWarning, match=message):
            convert(known, pd.Series(cells, name="c"), None)
    # Few rows may all be new, and most of these are known.
    for cells in (["n"] * 19, ["n", "x", "y"] * 20, ["n", None, "x", None] * 20):
        convert(known, pd.Series(cells, name="c"), None)


@pytest.mark.parametrize(
    ("values", "cells", "expected"),
    [
        (("01", "02"), ("01", "02"), ["02", "01"]),
        ((1, 2), ("01", "02"), [2, 1]),
        (("1", "2"), (1, 2), ["2", "1"]),
        ((1, 2), ("01", "1"), ["1", "01"]),  # one number is two names: no match
    ],
)
def test_declared_names_are_spelt_as_the_model_does(values, cells, expected):
    source = SourceColumn("c", "object", cells=cells, declared=True)
    column = source.restore(np.array([1.0, 0.0]))
    assert convert(CategoryColumn("c", values), column, source).tolist() == expected


def test_a_model_without_any_category_of_a_column_is_refused():
    known, column = CategoryColumn("c", ("x", "y")), pd.Series([1, 2] * 20, name="c")
    with pytest.raises(DataError) as raised:
        check_known(known, column, SourceColumn("c", "int64"))
    assert str(raised.value) == (
        "was not fitted with the categories 1, 2 in 'c', and knows 'x', 'y'; if they are names,"
        " add 'c' to dataset.categorical"
    )
    mostly_new = pd.Series(["x", "n", "m"] * 20, name="c")
    with pytest.warns(UserWarning, match="most cells of 'c' are categories that the model was"):
        check_known(known, mostly_new, None)
    check_known(known, pd.Series(["x", "n", "y"] * 20, name="c"), None)
    check_known(known, pd.Series([None, None], name="c"), None)


def test_encoders_of_a_pipeline_list_their_categories():
    frame = pd.DataFrame(
        {"age": [1.0, 2, 3, 4], "job": ["a", "b", None, "b"], "zip": [10, 20, 10, 20]}
    )
    imputed = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder())
    columns = make_column_transformer(
        (imputed, ["job"]), (OneHotEncoder(), [2]), ("passthrough", ["age"])
    )
    model = make_pipeline(columns, LogisticRegression()).fit(frame, [0, 1, 0, 1])
    categories = {c.name: c.values for c in estimator_columns(model).categories}
    assert categories == {"job": ("a", "b"), "zip": (10, 20)}
    assert estimator_columns(LogisticRegression().fit([[1.0], [2.0]], [0, 1])).n_features == 1


def frame_of_jobs() -> tuple[pd.DataFrame, np.ndarray]:
    draw = rng()
    frame = pd.DataFrame({"age": draw.normal(40, 9, N), "job": draw.choice(["chef", "nurse"], N)})
    return frame, ((frame["age"] > 40) ^ (frame["job"] == "chef")).to_numpy().astype(int)


def test_xgboost_refuses_new_categories_unless_missing(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    frame, y = frame_of_jobs()
    rows = frame.astype({"job": "category"})
    model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(rows, y)
    model.save_model(tmp_path / "m.json")
    new = frame[:2].assign(job=["pilot", "chef"])
    with pytest.raises(DataError, match=r"the categories 'pilot' of 'job', and its library"):
        load_fitted(str(tmp_path / "m.json")).predict_proba(new)
    missing = rows[:2].assign(job=pd.Categorical([None, "chef"], rows["job"].cat.categories))
    proba = load_fitted(str(tmp_path / "m.json"), unseen="missing").predict_proba(new)
    np.testing.assert_allclose(proba, model.predict_proba(missing), atol=1e-6)


def test_xgboost_predicts_with_the_best_rounds(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    draw = rng()
    X = draw.normal(size=(600, 4))
    y = (X[:, 0] + draw.normal(size=600) > 0).astype(int)
    options = {"learning_rate": 0.5, "eval_metric": "logloss", "nthread": 1}
    model = xgboost.XGBClassifier(n_estimators=80, early_stopping_rounds=8, **options)
    model.fit(X[:200], y[:200], eval_set=[(X[200:400], y[200:400])], verbose=False)
    assert model.best_iteration + 1 < model.get_booster().num_boosted_rounds()
    for ending in ("json", "ubj"):
        model.save_model(tmp_path / f"m.{ending}")
        proba = load_fitted(str(tmp_path / f"m.{ending}")).predict_proba(X[400:])
        np.testing.assert_allclose(proba, model.predict_proba(X[400:]), atol=1e-6)
    matrices = [xgboost.DMatrix(X[part], y[part]) for part in (slice(200), slice(200, 400))]
    booster = xgboost.train(
        {"objective": "binary:logistic", **options},
        matrices[0],
        80,
        evals=[(matrices[1], "held_out")],
        early_stopping_rounds=8,
        verbose_eval=False,
    )
    booster.save_model(tmp_path / "native.json")
    best = booster.best_iteration + 1
    with pytest.warns(UserWarning, match=rf"stopped early, and predicts with the best {best} of"):
        native = load_fitted(str(tmp_path / "native.json"))
    expected = booster.predict(xgboost.DMatrix(X[400:]), iteration_range=(0, best))
    np.testing.assert_allclose(native.predict_proba(X[400:])[:, 1], expected, atol=1e-6)


def test_xgboost_files_that_list_no_categories_are_refused(tmp_path):
    """Versions before 3.1 have no categories: codes are those of the predicted frame."""
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    import json

    frame, y = frame_of_jobs()
    model = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    model.fit(frame.astype({"job": "category"}), y).save_model(tmp_path / "m.json")
    document = json.loads((tmp_path / "m.json").read_text())
    document["version"] = [3, 0, 2]
    del document["learner"]["gradient_booster"]["model"]["cats"]
    (tmp_path / "m.json").write_text(json.dumps(document))
    with pytest.raises(DataError, match=r"categories in 'job', and files of XGBoost before 3\.1"):
        load_fitted(str(tmp_path / "m.json"))


def test_xgboost_categories_beyond_ascii_are_refused(tmp_path):
    """Its lists are wrong: the model itself differs by the order of a list of categories."""
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    frame, y = frame_of_jobs()
    rows = frame.assign(job=frame["job"].replace("chef", "küche").astype("category"))
    model = xgboost.XGBClassifier(n_estimators=5, enable_categorical=True, n_jobs=1).fit(rows, y)
    model.save_model(tmp_path / "m.json")
    with pytest.raises(DataError, match="with letters beyond ASCII, whose list XGBoost writes"):
        load_fitted(str(tmp_path / "m.json"))


def test_xgboost_files_have_the_given_task_and_output(tmp_path):
    xgboost = pytest.importorskip("xgboost", reason=MISSING.format("xgboost"))
    draw = rng()
    X = draw.normal(size=(N, 3))
    y = (X[:, 0] > 0).astype(int)

    def loss(margin, matrix):
        proba = 1 / (1 + np.exp(-margin))
        return proba - matrix.get_label(), proba * (1 - proba)

    booster = xgboost.train({"nthread": 1}, xgboost.DMatrix(X, y), 9, obj=loss)
    booster.save_model(tmp_path / "own.json")
    own = load_fitted(str(tmp_path / "own.json"), task="classification", outputs="logits")
    margin = booster.predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(own.predict_proba(X)[:, 1], 1 / (1 + np.exp(-margin)), atol=1e-6)
    model = xgboost.XGBClassifier(n_estimators=5, objective="reg:logistic", n_jobs=1).fit(X, y)
    model.save_model(tmp_path / "r.json")
    np.testing.assert_allclose(
        load_fitted(str(tmp_path / "r.json")).predict_proba(X), model.predict_proba(X), atol=1e-6
    )
    fractions = load_fitted(str(tmp_path / "r.json"), task="regression").predict(X)
    np.testing.assert_allclose(fractions, model.predict_proba(X)[:, 1], atol=1e-6)


@pytest.mark.parametrize("named", [True, False])
def test_lightgbm_finds_the_columns_of_its_lists_of_categories(tmp_path, named):
    """A list of categories beside a column of whole numbers, which is categorical too."""
    lightgbm = pytest.importorskip("lightgbm", reason=MISSING.format("lightgbm"))
    frame, y = frame_of_jobs()
    frame = frame.assign(zip_code=rng().integers(0, 9, N)).rename(columns={"age": "age of person"})
    rows = frame.astype({"job": "category"})
    options = {"categorical_feature": ["job", "zip_code"]} if named else {}
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1, n_jobs=1).fit(rows, y, **options)
    model.booster_.save_model(tmp_path / "m.txt")
    parent = load_fitted(str(tmp_path / "m.txt"))
    np.testing.assert_array_equal(
        parent.predict_proba(frame[::-1]), model.predict_proba(rows[::-1])
    )
    only_nurses = frame[frame["job"] == "nurse"][["zip_code", "job", "age of person"]]
    np.testing.assert_array_equal(
        parent.predict_proba(only_nurses), model.predict_proba(rows.loc[only_nurses.index])
    )


def test_catboost_takes_whole_numbers_and_truth_values_unchanged(tmp_path):
    catboost = pytest.importorskip("catboost", reason=MISSING.format("catboost"))
    draw = rng()
    frame = pd.DataFrame({"zip": draw.integers(0, 9, N), "flag": draw.random(N) < 0.5})
    y = (frame["zip"] % 2 == 0) ^ frame["flag"]
    model = catboost.CatBoostClassifier(iterations=20, verbose=False, allow_writing_files=False)
    model.fit(frame, y.astype(int), cat_features=["zip", "flag"]).save_model(
        str(tmp_path / "m.cbm")
    )
    expected = model.predict_proba(frame)
    parent = load_fitted(str(tmp_path / "m.cbm"))
    np.testing.assert_allclose(parent.predict_proba(frame), expected, rtol=1e-15)
    columns = [SourceColumn("zip", "int64"), SourceColumn("flag", "bool")]
    of_run = FittedParent(str(tmp_path / "m.cbm"), data_columns=columns, data_labels=[0, 1]).load()
    X = frame.to_numpy(dtype=float)
    np.testing.assert_allclose(of_run.predict_proba(X), expected, rtol=1e-15)
    # Rows out of distribution have fractions; no category is one.
    np.testing.assert_allclose(of_run.predict_proba(X + 0.2), expected, rtol=1e-15)


def test_catboost_takes_missing_categories_as_their_text(tmp_path):
    catboost = pytest.importorskip("catboost", reason=MISSING.format("catboost"))
    frame, y = frame_of_jobs()
    gaps = frame.assign(job=frame["job"].where(rng().random(N) < 0.8, None))
    filled = gaps.fillna({"job": "unknown"})
    model = catboost.CatBoostClassifier(iterations=9, verbose=False, allow_writing_files=False)
    model.fit(filled, y, cat_features=["job"]).save_model(str(tmp_path / "m.cbm"))
    with pytest.raises(DataError) as raised:
        load_fitted(str(tmp_path / "m.cbm")).predict_proba(gaps)
    n_missing = int(gaps["job"].isna().sum())
    assert str(raised.value).partition(": ")[2] == (
        f"takes no missing category, and {n_missing} of 200 cells of 'job' are missing;"
        " missing_category=WORD replaces them by the text that stood for them when it was fitted"
    )
    parent = load_fitted(str(tmp_path / "m.cbm"), missing_category="unknown")
    np.testing.assert_allclose(parent.predict_proba(gaps), model.predict_proba(filled), rtol=1e-15)


def test_catboost_predicts_mean_and_variance_as_a_distribution(tmp_path):
    catboost = pytest.importorskip("catboost", reason=MISSING.format("catboost"))
    X = rng().normal(size=(N, 2))
    options = {"loss_function": "RMSEWithUncertainty", "verbose": False}
    model = catboost.CatBoostRegressor(iterations=20, allow_writing_files=False, **options)
    model.fit(X, X[:, 0] + rng().normal(size=N)).save_model(str(tmp_path / "m.cbm"))
    mean, variance = model.predict(X, prediction_type="RMSEWithUncertainty").T
    distribution = load_fitted(str(tmp_path / "m.cbm")).predict_dist(X)
    np.testing.assert_allclose(distribution.mean(), mean)
    np.testing.assert_allclose(distribution.var(), variance)


@pytest.mark.parametrize(
    "loss", others_slow(["Focal:focal_alpha=0.5;focal_gamma=2.0", "CrossEntropy"])
)
def test_catboost_classifiers_of_any_loss_predict_probabilities(tmp_path, loss):
    catboost = pytest.importorskip("catboost", reason=MISSING.format("catboost"))
    X = rng().normal(size=(N, 2))
    options = {"loss_function": loss, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(iterations=9, **options).fit(X, (X[:, 0] > 0).astype(int))
    model.save_model(str(tmp_path / "m.cbm"))
    parent = load_fitted(str(tmp_path / "m.cbm"))
    np.testing.assert_allclose(parent.predict_proba(X), model.predict_proba(X), rtol=1e-15)


def test_regressors_of_several_outcomes_are_refused(tmp_path):
    X = rng().normal(size=(N, 2))
    joblib.dump(LinearRegression().fit(X, np.c_[X[:, 0], -X[:, 0]]), tmp_path / "m.joblib")
    parent = load_fitted(str(tmp_path / "m.joblib"), trust=True)
    with pytest.raises(
        DataError, match=r"predicts several outcomes of a row; .* \(it predicts 2 numbers\)"
    ):
        parent.predict(X)


@pytest.mark.parametrize(
    "model",
    [
        FixedThresholdClassifier(LogisticRegression(), threshold=0.2),
        make_pipeline(SVC(probability=True, random_state=0)),
    ],
    ids=["threshold", "svm"],
)
@pytest.mark.filterwarnings("ignore:.*probability.*:FutureWarning")
def test_labels_are_those_that_the_model_itself_predicts(tmp_path, model):
    X = rng().normal(size=(N, 2))
    y = np.where(X[:, 0] + rng().normal(size=N) > 0, "yes", "no")
    joblib.dump(model.fit(X, y), tmp_path / "m.joblib")
    parent = load_fitted(str(tmp_path / "m.joblib"), trust=True)
    assert (parent.predict(X) == model.predict(X)).all()
    top_label = parent.predict_top_label(X)
    assert (parent.classes_[top_label.predicted] == model.predict(X)).all()
    proba = model.predict_proba(X)[np.arange(N), top_label.predicted]
    np.testing.assert_array_equal(top_label.confidence, proba)
    np.testing.assert_array_equal(parent.predict_confidence(X), proba)
    # Labels in another order are positions of a run.
    of_run = FittedParent(str(tmp_path / "m.joblib"), trust=True, data_labels=["no", "yes"]).load()
    assert (np.array(["no", "yes"])[of_run.predict(X)] == model.predict(X)).all()
    joblib.dump(LogisticRegression().fit(X, y), tmp_path / "m.joblib")
    assert not hasattr(load_fitted(str(tmp_path / "m.joblib"), trust=True), "predict_top_label")


def test_a_row_does_not_depend_on_the_gaps_of_others(tmp_path):
    """A gap makes fractions of whole numbers, whose text is another one."""
    frame = pd.DataFrame({"zip": rng().integers(0, 5, N), "age": rng().normal(size=N)})
    text = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["zip"]))
    model = make_pipeline(text, RandomForestClassifier(5, random_state=0))
    y = (frame["zip"] > 2).astype(int)
    joblib.dump(model.fit(frame, y), tmp_path / "m.joblib")
    columns = [SourceColumn("zip", "int64"), SourceColumn("age")]
    parent = FittedParent(
        str(tmp_path / "m.joblib"), trust=True, data_columns=columns, data_labels=[0, 1]
    ).load()
    X = frame.to_numpy()
    alone = parent.predict_proba(X[1:])
    X[0, 0] = np.nan
    np.testing.assert_array_equal(parent.predict_proba(X)[1:], alone)
