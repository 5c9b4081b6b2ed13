"""Diagnostics of local recalibration: rows outside of the calibration rows, and recall."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from kdgraph.data import make_splits
from kdgraph.data.simulations import Heteroscedastic, Tran20
from kdgraph.data.tables import FriedmanTable
from kdgraph.errors import ParameterError
from kdgraph.parents import GaussianLinear
from kdgraph.recalibration import LocalPit
from kdgraph.smoothing.neighbours import NeighbourSearch


def make_local_pit_reach_rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 2)) * [1.0, 50.0]
    return X, 3 * X[:, 0] ** 2 + X[:, 1] / 50 + (0.1 + np.abs(X[:, 0])) * rng.normal(size=n)


def split_rows():
    X, y = make_local_pit_reach_rows(260)
    return (
        (X[:60], y[:60]),
        {"X_calibration": X[60:220], "y_calibration": y[60:220]},
        X[220:],
        y[220:],
    )


OUTSIDE = (
    "rows are more than twice as far from their neighbours as any calibration row: their"
    " distributions are those at the edge of the"
)


@pytest.mark.parametrize(
    ("neighbourhood", "rank"), [({"k": 20}, 19), ({"k": 160}, 158), ({"radius": 0.5}, 0)]
)
def test_warns_about_rows_outside_of_the_calibration_rows(neighbourhood, rank, monkeypatch):
    """Compare with all distances in numpy; one warning covers all blocks.

    A row is outside if its k-th neighbour (with a radius, the nearest row) is more than twice as
    far as that of any calibration row.
    """
    train, calibration, X, _ = split_rows()
    model = LocalPit(GaussianLinear(), **neighbourhood).fit(*train, **calibration)
    X_held = calibration["X_calibration"]
    unit = X_held.std(axis=0)
    distances = np.sort(np.linalg.norm((X_held[:, None] - X_held[None]) / unit, axis=2), axis=1)[
        :, 1:
    ]  # without the row itself
    reach = distances[:, rank].max()
    assert model.reach_ == pytest.approx(reach, rel=1e-9)
    places = np.linspace(-6, 6, 60)[:, None] * unit
    distance = np.sort(np.linalg.norm((places[:, None] - X_held[None]) / unit, axis=2), axis=1)[
        :, min(neighbourhood.get("k", 1) - 1, 159)
    ]
    n_outside = int((distance > 2 * reach).sum())
    assert 0 < n_outside < 60
    monkeypatch.setattr("kdgraph.smoothing.neighbours.BLOCK_SIZE", 400)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.predict_dist(places)
    reported = [
        str(warning.message) for warning in caught if "twice as far" in str(warning.message)
    ]
    assert reported == [f"{n_outside} of 60 {OUTSIDE} calibration rows"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*twice as far")
        warnings.filterwarnings("ignore", message=".*no calibration row within")
        model.predict_dist(X)


def test_few_calibration_rows_define_no_reach():
    (X, y), calibration, *_ = split_rows()
    for n in (24, 25):
        model = LocalPit(GaussianLinear(), k=5).fit(
            X,
            y,
            X_calibration=calibration["X_calibration"][:n],
            y_calibration=calibration["y_calibration"][:n],
        )
        assert (model.reach_ is None) == (n == 24)
        if n == 24:
            assert np.isfinite(model.predict([[1e6, 0.0]])).all()  # a warning would be an error


@pytest.mark.parametrize("space", [{"feature_space": "geodesic"}, {"feature_space": "output"}])
def test_no_warning_if_no_row_can_be_outside(space):
    """In leaves no distance exceeds 1; a constant output has only distances of 0."""
    train, calibration, X, _ = split_rows()
    parent = FrozenEstimator(GaussianLinear().fit(np.zeros_like(train[0]), train[1]))
    model = LocalPit(parent, k=20, random_state=0, **space).fit(*train, **calibration)
    assert not model.reach_ and np.isfinite(model.predict_dist(100 * X).mean()).all()


@pytest.mark.parametrize(
    ("data", "parent", "space"),
    [
        (Heteroscedastic(), GaussianLinear(), {"k": 25}),
        (Heteroscedastic(), GaussianLinear(), {"radius": 0.1}),
        (Tran20(), GaussianLinear(), {"k": 25}),
        (FriedmanTable(1, 2000), GaussianLinear(), {"k": 25, "local_linear": True}),
        (FriedmanTable(1, 2000), GaussianLinear(), {"feature_space": "output", "k": 25}),
    ],
)
def test_no_warning_for_new_rows_of_the_same_distribution(data, parent, space):
    """There are more new rows than calibration rows; a warning would be an error."""
    splits = make_splits(
        data, n_train=500, n_calibration=500, n_test=1000, rng=np.random.default_rng(0)
    )
    train, calibration, test = splits.train, splits.calibration, splits.test
    model = LocalPit(parent, **space).fit(
        train.X, train.y, X_calibration=calibration.X, y_calibration=calibration.y
    )
    assert np.isfinite(model.predict_dist(test.X).mean()).all() and model.reach_


def test_recall_of_an_approximate_search():
    """Compare 200 rows with all distances in numpy, each row left out."""
    X, y = make_local_pit_reach_rows(1000)
    X = np.random.default_rng(1).normal(size=(1000, 6))
    model = LocalPit(GaussianLinear(), k=60, eps=4.0, random_state=0).fit(
        X[:100], y[:100], X_calibration=X[100:], y_calibration=y[100:]
    )
    scaled, search = X[100:] / X[100:].std(axis=0), NeighbourSearch(model.coordinates_, eps=4.0)
    recall_ids = np.random.default_rng(
        np.random.RandomState(0).randint(np.iinfo(np.int32).max)
    ).permutation(900)[:200]
    distance = np.linalg.norm(scaled[recall_ids][:, None] - scaled[None], axis=2)
    distance[np.arange(200), recall_ids] = np.inf
    recalls = []
    for i, is_true_neighbour in zip(
        recall_ids, distance <= np.sort(distance, axis=1)[:, [59]], strict=True
    ):
        found_ids = search.nearest(model.coordinates_[[i]], 61)[1][0]
        recalls.append(is_true_neighbour[found_ids].sum() / 60)
    assert (
        model.describe()["recall"] == pytest.approx(np.mean(recalls), rel=1e-9)
        and 0.3 < np.mean(recalls) < 0.99
    )


def test_recall_is_reported_with_eps_for_any_number_of_features():
    """Without eps the search is exact; a tree with a small eps finds nearly all neighbours."""
    X, y = make_local_pit_reach_rows(300)
    many_features = np.random.default_rng(0).normal(size=(300, 12))
    cases = (
        (X, {}, False),
        (X, {"radius": 0.5}, False),
        (X[:, :1], {"eps": 1.0}, True),
        (many_features, {"eps": 1.0}, True),
        (X, {"eps": 1e-6}, True),
    )
    for inputs, settings, reported in cases:
        model = LocalPit(GaussianLinear(), **{"k": 20} | settings).fit(
            inputs[:100], y[:100], X_calibration=inputs[100:], y_calibration=y[100:]
        )
        assert ("recall" in model.describe()) == reported
    assert model.recall_ == 1.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"radius": 0.5},
            "eps=0.5 is for a number of neighbours, and those within radius=0.5 are found exactly;"
            " use eps=0",
        ),
        (
            {"feature_space": "geodesic"},
            "eps=0.5 is for Euclidean distances, and feature_space=geodesic has none; use eps=0",
        ),
    ],
)
def test_eps_is_refused_where_the_search_is_exact(settings, message):
    X, y = make_local_pit_reach_rows(60)
    with pytest.raises(ParameterError) as refused:
        LocalPit(GaussianLinear(), eps=0.5, k=20, **settings).fit(X, y)
    assert str(refused.value) == message
