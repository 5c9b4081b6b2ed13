"""Detectors of sets by one statistic: independent computations, ranks, shifts and refused inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp, kstest
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.detection import (
    ClassifierTwoSample,
    KolmogorovSmirnov,
    KthNeighbourDistance,
    LeafBox,
    MaximumMeanDiscrepancy,
    SetMean,
    SetStatisticDetector,
    TreeHamming,
)
from kdgraph.detection.set_tests import _median_of_positive
from kdgraph.features import FeatureMap
from kdgraph.metrics import holm
from tests.detection.conftest import normal_rows
from tests.variations import others_slow

UNCHANGED = FeatureMap(source="rows", reduce="none", scale="none")
"""Features in their own units, so that a test can compute with the rows."""


def statistic_of(detector: SetStatisticDetector, X: np.ndarray) -> float:
    """Return the statistic of a set, from its standardised score."""
    (score,) = set(detector.score_samples(X))
    return detector.null_mean_ - score * detector.null_std_


def fit_detectors(**more) -> dict[str, SetStatisticDetector]:
    """Return one fitted detector of each kind, on rows of a normal distribution."""
    X, y = normal_rows(900, 0), np.arange(900) % 2
    options = {"set_size": 30, "repeats": 50, "random_state": 0, **more}
    neighbours = KthNeighbourDistance(k=3)
    return {
        "mean": SetMean(row_detector=neighbours, **options).fit(X),
        "mmd": MaximumMeanDiscrepancy(**options).fit(X),
        "classifier": ClassifierTwoSample(classifier="logistic", **options).fit(X),
        "ks": KolmogorovSmirnov(**options).fit(X),
        "box": SetMean(
            ExtraTreesClassifier(20, random_state=0), row_detector=LeafBox(), **options
        ).fit(X, y),
    }


@pytest.fixture(scope="module")
def detectors() -> dict[str, SetStatisticDetector]:
    return fit_detectors()


KINDS = ("mean", "mmd", "classifier", "ks", "box")


@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_ranks_of_new_sets_from_the_distribution_are_roughly_uniform(detectors, kind):
    """Conformal p-values of new sets, which share no rows, against the uniform distribution.

    The calibration sets are drawn from 270 rows and share them, so p-values are uniform only
    roughly: the distance of their distribution to the uniform one stays below .35, where that of
    shifted sets is above .9.
    """
    p_values = [detectors[kind].p_value(normal_rows(30, 100 + seed))[0] for seed in range(40)]
    shifted = [detectors[kind].p_value(normal_rows(30, 200 + seed, 1.5))[0] for seed in range(20)]
    assert kstest(p_values, "uniform").statistic < 0.35
    assert kstest(shifted, "uniform").statistic > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_scores_of_held_out_sets_are_standardised(detectors, kind):
    """Mean 0 and standard deviation 1; the threshold is one of these scores, less rounding."""
    scores = detectors[kind].calibration_scores_
    assert abs(scores.mean()) < 1e-10 and abs(scores.std() - 1) < 1e-10
    assert (np.diff(scores) >= 0).all()
    assert np.abs(scores - detectors[kind].offset_).min() < 1e-10
    assert detectors[kind].describe()["level"] == "set"
    assert {"null_mean", "null_std", "offset"} <= detectors[kind].describe().keys()


@pytest.mark.parametrize("kind", others_slow(KINDS))
def test_shifted_sets_are_detected_with_one_score_each(detectors, kind):
    rng = np.random.default_rng(0)
    detector = detectors[kind]
    inside = detector.ood_score_of_sets(normal_rows(300, 1), rng)
    outside = detector.ood_score_of_sets(normal_rows(300, 2, 1.5), rng)
    assert inside.shape == outside.shape == (50,)
    assert outside.min() > 0 and (inside > 0).mean() < 0.5
    assert (detector.predict(normal_rows(30, 3, 1.5)) == -1).all()


@pytest.mark.parametrize("kind", KINDS)
def test_score_of_a_set_does_not_depend_on_the_order_of_its_rows(detectors, kind):
    """Up to rounding of sums."""
    X = normal_rows(40, 5, 0.3)
    scores = [detectors[kind].score_samples(rows)[0] for rows in (X, X[::-1])]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-9)


def test_set_mean_is_the_mean_of_the_scores_of_rows():
    X, y, new = normal_rows(300, 0), np.arange(300) % 3, normal_rows(40, 1)
    forest = RandomForestClassifier(15, random_state=0).fit(X[:200], y[:200])
    for row_detector in (None, LeafBox()):
        detector = SetMean(
            FrozenEstimator(forest), row_detector=row_detector, set_size=20, random_state=0
        ).fit(X[:200], y[:200], X_calibration=X[200:])
        expected = (
            -forest.predict_proba(new).max(axis=1)
            if row_detector is None
            else -LeafBox(FrozenEstimator(forest))
            .fit(X[:200], y[:200], X_calibration=X[200:])
            .score_samples(new)
        )
        assert statistic_of(detector, new) == pytest.approx(expected.mean(), rel=1e-10)


def test_mmd_agrees_with_a_loop_over_pairs():
    X = normal_rows(60, 0)
    new = normal_rows(9, 1, 0.5)
    detector = MaximumMeanDiscrepancy(
        features=UNCHANGED, set_size=10, n_reference=25, random_state=0
    ).fit(X, X_calibration=normal_rows(40, 2))
    reference = detector.reference_
    assert len(reference) == 25 and {tuple(row) for row in reference} <= {tuple(row) for row in X}

    def distance(u, v):
        return float(np.sqrt(((u - v) ** 2).sum()))

    def kernel(u, v):
        return np.exp(-(distance(u, v) ** 2) / (2 * detector.bandwidth_**2))

    def mean_of_pairs(rows):
        pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]
        return np.mean([kernel(rows[i], rows[j]) for i, j in pairs])

    median = np.median([distance(reference[i], reference[j]) for i in range(25) for j in range(i)])
    assert detector.bandwidth_ == pytest.approx(median, rel=1e-12)
    between = np.mean([kernel(u, v) for u in new for v in reference])
    expected = mean_of_pairs(new) - 2 * between + mean_of_pairs(reference)
    assert statistic_of(detector, new) == pytest.approx(expected, rel=1e-8)


def test_mmd_is_unbiased_in_distribution():
    """The mean of 400 independent statistics is 0 within 4 standard errors."""
    detector = MaximumMeanDiscrepancy(
        features=UNCHANGED, set_size=20, n_reference=4000, random_state=0
    ).fit(normal_rows(4000, 0), X_calibration=normal_rows(400, 1))
    statistics = [statistic_of(detector, normal_rows(20, 10 + seed)) for seed in range(400)]
    error = np.std(statistics) / np.sqrt(len(statistics))
    # The error of the reference sample itself, which all statistics share, is √(20/4000) as large.
    assert abs(np.mean(statistics)) < 4 * error + 4 * np.std(statistics) * np.sqrt(20 / 4000)


@pytest.mark.parametrize("rounded", [False, True], ids=["distinct", "ties"])
def test_ks_statistic_is_the_largest_of_scipys(rounded):
    X, new = normal_rows(200, 0), normal_rows(30, 1, 0.4)
    if rounded:
        X, new = X.round(), new.round()
    detector = KolmogorovSmirnov(features=UNCHANGED, set_size=20, random_state=0).fit(
        X, X_calibration=normal_rows(50, 2)
    )
    tests = [ks_2samp(new[:, j], X[:, j]) for j in range(3)]
    assert statistic_of(detector, new) == pytest.approx(
        max(test.statistic for test in tests), rel=1e-10
    )
    np.testing.assert_allclose(
        detector.feature_p_values(new),
        holm([test.pvalue for test in tests]),
        rtol=1e-12,
    )


def rejected_step_by_step(p_values: list[float], level: float) -> set[int]:
    """Return the tests that Holm's procedure rejects: smallest first, until one is not."""
    rejected, remaining = set(), sorted(range(len(p_values)), key=lambda j: p_values[j])
    while remaining and p_values[remaining[0]] <= level / len(remaining):
        rejected.add(remaining.pop(0))
    return rejected


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 64).map(lambda k: k / 64), min_size=1, max_size=8),
    st.integers(1, 63).map(lambda k: (k + 0.5) / 64),
)
def test_holm_rejects_as_the_procedure_step_by_step(p_values, level):
    adjusted = holm(np.array(p_values))
    # A level times a whole number never equals an adjusted p-value here, but for rounding at 1/d.
    if np.abs(adjusted - level).min() > 1e-9:
        assert set(np.flatnonzero(adjusted <= level).tolist()) == rejected_step_by_step(
            p_values, level
        )


def test_classifier_test_agrees_with_its_folds_computed_by_hand():
    """Fit a forest on each half by hand, and count the pairs of rows in the right order."""
    X, new = normal_rows(120, 0), normal_rows(20, 1, 0.7)
    detector = ClassifierTwoSample(
        features=UNCHANGED, set_size=20, repeats=4, n_reference=50, random_state=0
    ).fit(X, X_calibration=normal_rows(60, 2))
    from sklearn.model_selection import StratifiedKFold

    low, high = detector.reference_.min(axis=0), detector.reference_.max(axis=0)
    rows = np.concatenate([sorted(new, key=lambda row: tuple(row[::-1])), detector.reference_])
    rows = np.clip(rows, low - 1.5 * (high - low), high + 1.5 * (high - low))
    labels = np.repeat([True, False], [20, 50])
    aurocs = []
    for train, test in StratifiedKFold(2, shuffle=True, random_state=detector._seed).split(
        rows, labels
    ):
        forest = detector._unfitted_classifier().fit(rows[train], labels[train])
        of_set, of_reference = (
            forest.predict_proba(rows[test][labels[test] == label])[:, 1] for label in (True, False)
        )
        pairs = [(a > b) + 0.5 * (a == b) for a in of_set for b in of_reference]
        aurocs.append(np.mean(pairs))
    assert statistic_of(detector, new) == pytest.approx(np.mean(aurocs), rel=1e-10)


def test_forest_detects_a_change_of_dependence_unlike_marginal_tests():
    """Two features of correlation .95 against independent ones with the same margins."""
    rng = np.random.default_rng(0)

    def correlated(n):
        z = rng.normal(size=(n, 2))
        return np.column_stack([z[:, 0], 0.95 * z[:, 0] + np.sqrt(1 - 0.95**2) * z[:, 1]])

    X, independent = correlated(700), rng.normal(size=(60, 2))
    options = {"set_size": 60, "repeats": 20, "random_state": 0}
    assert ClassifierTwoSample(**options).fit(X).ood_score(independent)[0] > 5
    assert MaximumMeanDiscrepancy(**options).fit(X).ood_score(independent)[0] > 5
    assert KolmogorovSmirnov(**options).fit(X).ood_score(independent)[0] < 5


@pytest.mark.filterwarnings(
    "ignore:.* held-out rows are fewer than set_size", "ignore:SetMean cannot go out of bag"
)
@pytest.mark.parametrize("calibration", ["cross_fit", "oob"])
def test_sets_without_held_out_rows_are_standardised_too(calibration):
    X, y = normal_rows(300, 0), np.arange(300) % 2
    parent = RandomForestClassifier(20, random_state=0)
    for detector in (SetMean(parent), MaximumMeanDiscrepancy(), KolmogorovSmirnov()):
        detector.set_params(calibration=calibration, set_size=40, repeats=30, random_state=0)
        fitted = detector.fit(X, y)
        assert abs(fitted.calibration_scores_.std() - 1) < 1e-10
        assert (fitted.ood_score(normal_rows(40, 1, 4.0)) > 0).all() or isinstance(
            detector, SetMean
        )


def test_constant_statistic_has_no_spread():
    detector = SetMean(
        FrozenEstimator(ExtraTreesClassifier(5, random_state=0).fit([[0.0], [1.0]], [0, 1])),
        set_size=5,
        repeats=20,
        random_state=0,
    ).fit(np.zeros((10, 1)), np.zeros(10), X_calibration=np.zeros((10, 1)))
    assert detector.null_std_ == 1.0 and (detector.predict(np.zeros((5, 1))) == 1).all()


def test_kth_neighbours_of_sets_need_neither_labels_nor_parent():
    detector = SetMean(row_detector=KthNeighbourDistance(k=2), set_size=20, random_state=0)
    assert detector.fit(normal_rows(90, 0)).estimator_ is None


def test_unusable_inputs_are_refused():
    X, y = normal_rows(90, 0), np.arange(90) % 2
    message = "row_detector must be a detector of single rows, got TreeHamming; use one of"
    with pytest.raises(TypeError, match=message):
        SetMean(ExtraTreesClassifier(5), row_detector=TreeHamming()).fit(X, y)
    with pytest.raises(TypeError, match="row_detector must be a detector of single rows, got int"):
        SetMean(ExtraTreesClassifier(5), row_detector=3).fit(X, y)
    with pytest.raises(ValueError, match="all training rows have equal features, so that their"):
        MaximumMeanDiscrepancy(set_size=10).fit(np.ones((50, 2)))
    with pytest.raises(
        ValueError, match="a set must have a row for each of n_folds=8 folds, got 5"
    ):
        ClassifierTwoSample(n_folds=8, set_size=10, repeats=2, random_state=0).fit(X).ood_score(
            X[:5]
        )
    with pytest.raises(ValueError, match="n_folds=8 needs as many training rows, got 5; use fewer"):
        ClassifierTwoSample(n_folds=8, n_reference=5, random_state=0).fit(X)
    with pytest.raises(ValueError, match="needs at least two, got n_samples = 1"):
        KolmogorovSmirnov(set_size=10, random_state=0).fit(X).ood_score(X[:1])
    for detector in (MaximumMeanDiscrepancy(bandwidth=0), ClassifierTwoSample(classifier="svm")):
        with pytest.raises(ValueError, match="must be"):
            detector.fit(X)


def test_median_of_positive_distances_ignores_repeated_rows():
    assert _median_of_positive(np.array([0.0, 0.0, 0.0, 1.0, 3.0])) == 2.0
