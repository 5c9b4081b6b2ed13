"""LoRe in a t-SNE of calibration rows and rows to predict, which refuses any others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from kdgraph.calibration.local import LocalClassShares, LocalRecalibration
from kdgraph.features import FeatureMap
from kdgraph.parents.networks import MultilayerPerceptron

TSNE = FeatureMap(reduce="tsne", dimensions=2)


@pytest.fixture(scope="module")
def rows():
    """Return 65 calibration rows, their labels, and 35 rows to predict."""
    X, y = make_moons(100, noise=0.3, random_state=0)
    return X[:65], y[:65], X[65:]


@pytest.fixture(scope="module", params=["forest", "network"])
def parent(request):
    forest = RandomForestClassifier(10, random_state=0)
    network = MultilayerPerceptron(
        hidden=(7,), max_epochs=5, patience=None, device="cpu", random_state=0
    )
    other_rows = make_moons(65, noise=0.3, random_state=2)
    return FrozenEstimator((forest if request.param == "forest" else network).fit(*other_rows))


def fit_tsne(parent, rows, calibrator=LocalRecalibration, *, X_test=None, **options):
    X, y, test = rows
    model = calibrator(parent, features=TSNE, **{"bandwidth": 0.3, "random_state": 0, **options})
    return model.fit(
        X, y, X_calibration=X, y_calibration=y, X_test=test if X_test is None else X_test
    )


def test_embedded_rows_are_predicted(parent, rows):
    model = fit_tsne(parent, rows)
    assert model.paper_protocol == "transductive"
    confidence = model.predict_confidence(rows[2])
    assert confidence.shape == (35,) and np.array_equal(
        model.predict_confidence(rows[2][10:12]), confidence[10:12]
    )
    assert not hasattr(model, "_rows_to_embed")
    embedded = model.map_.transform(model.estimator_, rows[0])
    assert np.array_equal(embedded, model.neighbours_.features)


def test_new_rows_are_refused(parent, rows):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
        fit_tsne(parent, rows).predict_confidence(make_moons(300, noise=0.3, random_state=1)[0])
    assert str(caught.value).startswith(
        "t-SNE cannot embed rows that it was not fitted on, and row "
    )
    assert str(caught.value).endswith(" new; use pca or umap")


def test_fit_requires_rows_to_embed(rows):
    X, y, others = rows
    parent = FrozenEstimator(RandomForestClassifier(5, random_state=0).fit(others, y[:35]))
    for calibrator in (LocalRecalibration, LocalClassShares):
        with pytest.raises(ValueError) as caught:  # noqa: PT011 - the whole sentence is compared
            calibrator(parent, features=TSNE).fit(X, y, X_calibration=X, y_calibration=y)
        assert (
            str(caught.value)
            == f"features.reduce=tsne knows no new rows: give {calibrator.__name__}.fit the rows to"
            " predict as X_test, or use pca or umap"
        )


def test_threads_and_jobs_change_no_bit(parent, rows):
    expected = fit_tsne(parent, rows).predict_confidence(rows[2])
    for threads, n_jobs in ((1, 1), (2, 2)):
        with threadpool_limits(threads):
            assert np.array_equal(
                fit_tsne(parent, rows, n_jobs=n_jobs).predict_confidence(rows[2]), expected
            )


def test_rows_to_embed_are_validated(parent, rows):
    expected = fit_tsne(parent, rows).predict_confidence(rows[2])
    assert np.array_equal(
        fit_tsne(parent, rows, X_test=pd.DataFrame(rows[2]).to_numpy().tolist()).predict_confidence(
            rows[2]
        ),
        expected,
    )
    with pytest.raises(ValueError, match="features"):
        fit_tsne(parent, rows, X_test=np.zeros((5, 3)))


def test_inductive_map_ignores_rows_to_embed(parent, rows):
    X, y, test = rows
    model = LocalRecalibration(
        parent, features=FeatureMap(dimensions=2), bandwidth=0.3, random_state=0
    )
    assert model.paper_protocol is None
    with_test_rows = model.fit(
        X, y, X_calibration=X, y_calibration=y, X_test=test
    ).predict_confidence(test)
    assert np.array_equal(
        with_test_rows, model.fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(test)
    )
    assert (
        LocalRecalibration(parent, features=TSNE, kernel="geodesic").paper_protocol is None
    )  # the kernel does not use the map
