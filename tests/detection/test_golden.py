"""Numbers of the scores of forests on data that come with scikit-learn, beside those of another
implementation over five other seeds.

Features are scaled to [0, 1] by the training rows; 100 extremely randomised trees with
scikit-learn's defaults; three tenths of what is in distribution are test rows.

TOOD is measured by its published protocol: rows of a homogeneous set, pooled over ten sets; sets of
all test rows (270), so that seeds differ by the split and the trees. The other implementation,
which compares the leaves of all pairs of rows, has an AUROC of .478 and .997 on the digits with
given and shuffled labels, and of .232 and .988 on permuted columns. Scores of single rows are given
no sets, so their numbers are of another task; its boxes are of forests with five rows to a leaf,
ours are of the nearest node with five rows. What is expected is what it had, where it has the
score; tolerances leave room for other seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import MinMaxScaler

from kdgraph.detection import (
    GeodesicDistance,
    GraphDensity,
    LeafBox,
    LeafOccupancy,
    PostHocDetector,
    TreeHamming,
)
from kdgraph.metrics import auroc


def digits(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Digits 0 to 4 in two parts with the labels of the first, and digits 5 to 9."""
    X, y = load_digits(return_X_y=True)
    rows = rng.permutation(np.flatnonzero(y < 5))
    test, train = np.split(rows, [int(0.3 * len(rows))])
    return X[train], y[train], X[test], X[y >= 5]


def permuted_columns(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    X, y = load_breast_cancer(return_X_y=True)
    test, train = np.split(rng.permutation(len(X)), [int(0.3 * len(X))])
    return (
        X[train],
        y[train],
        X[test],
        np.column_stack([rng.permutation(column) for column in X[test].T]),
    )


def mean_auroc(task, labels: str) -> float:
    result = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y, test, out = task(rng)
        scale = MinMaxScaler().fit(X).transform
        detector = TreeHamming(
            ExtraTreesClassifier(100),
            labels=labels,
            set_size=min(len(test), 270),
            random_state=seed,
        )
        detector.fit(scale(X), y, X_calibration=scale(test))
        result.append(
            auroc(
                detector.ood_score_of_sets(scale(out), rng),
                detector.ood_score_of_sets(scale(test), rng),
            )
        )
    return float(np.mean(result))


def test_two_outliers_among_98_normal_rows_are_not_found():
    """The limit that the documentation states; the other implementation has .249, in sets drawn as
    here.
    """
    result = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X, y, test, _ = permuted_columns(rng)
        scale = MinMaxScaler().fit(X).transform
        detector = TreeHamming(ExtraTreesClassifier(100), random_state=seed).fit(
            scale(X), y, X_calibration=scale(test)
        )
        for _ in range(20):
            rows = np.concatenate(
                [scale(test)[rng.choice(len(test), 98, replace=False)], rng.random((2, X.shape[1]))]
            )
            score = detector.ood_score(rows)
            result.append(auroc(score[98:], score[:98]))
    assert np.mean(result) == pytest.approx(0.25, abs=0.1)  # a set's deviation is 0.2


@pytest.mark.parametrize(
    ("task", "labels", "expected", "tolerance"),
    [
        (digits, "given", 0.478, 0.05),  # of one seed the deviation is 0.02
        (digits, "shuffled", 0.997, 0.005),
        (
            permuted_columns,
            "given",
            0.23,
            0.12,
        ),  # of one seed 0.08; well below 0.5, the wrong way round
        (permuted_columns, "shuffled", 0.99, 0.01),
    ],
)
def test_auroc_equals_stored_values(task, labels, expected, tolerance):
    assert mean_auroc(task, labels) == pytest.approx(expected, abs=tolerance)


def shifted(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """By three times the range of each feature."""
    X, y, test, _ = permuted_columns(rng)
    return X, y, test, test + 3 * np.ptp(X, axis=0)


@pytest.fixture(
    scope="module", params=[digits, permuted_columns, shifted], ids=lambda task: task.__name__
)
def forests(request):
    """A name, and for each seed the scaled rows of a task with a forest."""
    result = []
    for seed in range(3):
        X, y, test, out = request.param(np.random.default_rng(seed))
        scale = MinMaxScaler().fit(X).transform
        parent = FrozenEstimator(ExtraTreesClassifier(100, random_state=seed).fit(scale(X), y))
        result.append((parent, *map(scale, (X, test, out))))
    return request.param.__name__, result


def mean_auroc_of_rows(detector: PostHocDetector, found) -> float:
    """No detector here learns from the rows of its threshold but the density, which asks them for
    the spacing of its Gaussians.
    """
    values = []
    for parent, X, test, out in found:
        fitted = detector.set_params(estimator=parent).fit(
            X, X_calibration=X[:100] if isinstance(detector, GraphDensity) else test
        )
        values.append(auroc(fitted.ood_score(out), fitted.ood_score(test)))
    return float(np.mean(values))


@pytest.mark.parametrize(
    ("detector", "expected"),
    [
        (
            LeafBox(None),
            {"digits": (0.975, 0.01), "permuted_columns": (0.986, 0.01), "shifted": (1, 0)},
        ),
        (
            LeafBox(None, min_samples=1),
            {"digits": (0.980, 0.01), "permuted_columns": (0.946, 0.03), "shifted": (1, 0)},
        ),
        (
            LeafBox(None, measure="distance"),
            {"digits": (0.981, 0.01), "permuted_columns": (0.972, 0.01), "shifted": (1, 0)},
        ),
        (
            LeafOccupancy(None),
            {"digits": (0.865, 0.03), "permuted_columns": (0.753, 0.05), "shifted": (0.648, 0.12)},
        ),
        (
            LeafOccupancy(None, scale="log"),
            {"digits": (0.925, 0.02), "permuted_columns": (0.810, 0.05), "shifted": (0.642, 0.12)},
        ),
        (
            GeodesicDistance(None),
            {"digits": (0.989, 0.01), "permuted_columns": (0.968, 0.02), "shifted": (0.184, 0.12)},
        ),
        (
            GraphDensity(None, distance="scaled"),
            {"digits": (0.95, 0.02), "permuted_columns": (0.96, 0.02), "shifted": (1, 0)},
        ),
        (
            GraphDensity(None),
            {"digits": (0.95, 0.02), "permuted_columns": (0.995, 0.01), "shifted": (1, 0)},
        ),  # both first measured here
    ],
    ids=lambda value: repr(value) if isinstance(value, PostHocDetector) else "",
)
def test_auroc_of_rows_by_themselves(forests, detector, expected):
    """The geodesic distance alone is blind far outside, where boxes and densities see; on the
    digits it sees more than they do.
    """
    name, found = forests
    value, tolerance = expected[name]
    assert mean_auroc_of_rows(detector, found) == pytest.approx(value, abs=max(tolerance, 1e-12))
