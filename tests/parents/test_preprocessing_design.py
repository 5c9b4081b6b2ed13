"""A design in front of a parent: its columns against numbers made by hand, and against
scikit-learn's own transformers.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError, ParameterError
from kdgraph.parents import Design, GammaGlm
from kdgraph.parents.preprocessing import SelectAndLog
from kdgraph.persistence import from_bytes, to_bytes
from kdgraph.runner.stages import fit

NAMES = ("weight", "grade", "depth", "kind")


@parametrize_with_checks([SelectAndLog([0])])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def stones() -> Dataset:
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.uniform(0.2, 5, 200),
            rng.integers(0, 3, 200),
            rng.normal(60, 2, 200),
            rng.integers(0, 2, 200),
        ]
    )
    y = rng.gamma(50, np.exp(1.7 * np.log(X[:, 0]) + 0.2 * X[:, 1] - 0.1 * X[:, 3]) / 50)
    return Dataset(
        "stones", X, y, np.empty(0), NAMES, "regression", categories=(None, None, None, ("a", "b"))
    )


def test_it_is_what_scikit_learn_makes_of_the_same_columns(stones):
    design = Design(log=("weight",), one_hot=("grade",), standardize=True)
    made = design.wrap(LinearRegression(), stones).fit(stones.X, stones.y)
    known = ColumnTransformer(
        [
            ("log", make_pipeline(FunctionTransformer(np.log), StandardScaler()), [0]),
            ("depth", StandardScaler(), [2]),
            (
                "one_hot",
                OneHotEncoder(sparse_output=False),
                [1, 3],
            ),  # kind is categorical, and named by nobody
        ]
    )
    np.testing.assert_allclose(
        made[:-1].transform(stones.X), known.fit_transform(stones.X), atol=1e-12
    )


def test_columns_are_chosen_in_their_order(stones):
    made = (
        Design(columns=("depth", "weight"), log=("weight",))
        .wrap(LinearRegression(), stones)
        .fit(stones.X, stones.y)
    )
    np.testing.assert_array_equal(
        made[:-1].transform(stones.X), np.column_stack([stones.X[:, 2], np.log(stones.X[:, 0])])
    )


def test_a_gamma_model_of_the_right_design_knows_the_exponent(stones):
    """Price grows as weight to the power 1.7; its standard error is .013, of 200 rows of relative
    deviation 1/√50.
    """
    made = (
        Design(log=("weight",), one_hot=("grade",)).wrap(GammaGlm(), stones).fit(stones.X, stones.y)
    )
    assert made[-1].coef_[0] == pytest.approx(1.7, abs=0.06)
    said = made.predict_dist(stones.X)
    np.testing.assert_allclose(said.mean(), made.predict(stones.X), rtol=1e-12)


def test_a_value_that_no_training_row_has_and_a_missing_number(stones):
    made = (
        Design(one_hot=("grade",), columns=("grade", "depth"))
        .wrap(LinearRegression(), stones)
        .fit(stones.X, stones.y)
    )
    rows = np.array([[1.0, 7.0, np.nan, 0.0]])
    np.testing.assert_allclose(made[:-1].transform(rows), [[np.median(stones.X[:, 2]), 0, 0, 0]])


def test_it_survives_being_saved_and_is_what_a_run_fits(stones):
    node = {"_target_": "kdgraph.parents.GammaGlm", "name": "gamma_glm"}
    design = {"_target_": "kdgraph.parents.Design", "log": ["weight"], "one_hot": ["grade"]}
    made = fit(node, stones, preprocess=design, seed=0, n_jobs=1)
    again = from_bytes(to_bytes(made), "it").value
    np.testing.assert_array_equal(
        again.predict_dist(stones.X).ppf(0.9), made.predict_dist(stones.X).ppf(0.9)
    )


def test_what_cannot_be_is_told_in_a_line(stones):
    with pytest.raises(DataError) as caught:
        Design(log=("carat",)).wrap(LinearRegression(), stones)
    assert str(caught.value) == "stones has no column 'carat'; it has weight, grade, depth, kind"
    made = Design(log=("weight",)).wrap(LinearRegression(), stones).fit(stones.X, stones.y)
    with pytest.raises(DataError) as caught:
        made.predict(np.array([[1.0, 0, 60, 0], [-2.0, 0, 60, 0]]))
    assert str(caught.value) == "column 0 must be above 0 for its logarithm, got -2 in row 1"
    with pytest.raises(ParameterError, match="standardize must be true or false"):
        Design(standardize="yes")  # pyright: ignore[reportArgumentType]


def test_images_pass(stones):
    images = Dataset(
        "pictures", np.zeros((4, 1, 8, 8), np.float32), np.arange(4) % 2, np.array([0, 1]), ()
    )
    model = LinearRegression()
    assert Design().wrap(model, images) is model
