"""Prediction sets against MAPIE and crepes, and their coverage in finite samples."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_blobs, make_moons
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.calibration import ConformalClassifier, ScoreMap, nonconformity_scores, row_uniforms
from kdgraph.distributions.conformal import conformal_rank
from kdgraph.parents import PrecomputedScores
from kdgraph.persistence import from_bytes, to_bytes

MISSING = "{} is not installed; the extra peers has it"
SCORES = ("lac", "aps", "raps")
RAPS = {"k_reg": 2, "penalty": 0.05}
K = 5
rng = np.random.default_rng(7)


class Identity(ClassifierMixin, BaseEstimator):
    """Classifier whose rows are its probabilities; MAPIE probes it with rows of zeros."""

    def fit(self, X=None, y=None):
        self.classes_, self.n_features_in_ = np.arange(K), K
        return self

    def predict_proba(self, X):
        return np.asarray(X)

    def predict(self, X):
        return np.asarray(X).argmax(axis=1)


def draw(n: int, generator: np.random.Generator = rng) -> tuple[np.ndarray, np.ndarray]:
    """Return class probabilities, Float[n, 5], and labels that are drawn from blunter ones."""
    proba = generator.dirichlet(np.full(K, 0.6), size=n)
    mixture = 0.7 * proba + 0.3 / K
    return proba, (mixture.cumsum(axis=1) < generator.random((n, 1))).sum(axis=1)


P, Y = draw(300)
P_NEW, Y_NEW = draw(200)
GROUPS = np.array(["a", "b", "c"])[rng.integers(3, size=300)]
GROUPS_NEW = np.array(["a", "b", "c"])[rng.integers(3, size=200)]


def fit(P, Y, groups=None, **parameters) -> ConformalClassifier:
    """Return prediction sets after given probabilities, calibrated on all rows."""
    parent = FrozenEstimator(PrecomputedScores().fit(np.eye(P.shape[1]), None))
    model = ConformalClassifier(parent, **({"random_state": 0, "allow_empty": True} | parameters))
    return model.fit(
        np.eye(P.shape[1]),
        np.arange(P.shape[1]),
        X_calibration=P,
        y_calibration=Y,
        groups_calibration=groups,
    )


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("score", SCORES)
def test_sets_are_those_of_mapie(score, coverage, monkeypatch):
    pytest.importorskip("mapie", reason=MISSING.format("mapie"))
    from mapie.classification import SplitConformalClassifier
    from mapie.conformity_scores import RAPSConformityScore

    # MAPIE subtracts u times the probability of a class, and starts each draw at the same seed.
    monkeypatch.setattr(
        "kdgraph.calibration.conformal.row_uniforms",
        lambda X, seed: 1 - np.random.RandomState(5).uniform(size=len(X)),
    )
    monkeypatch.setattr(
        RAPSConformityScore, "_find_lambda_star", lambda *_, **__: np.array([RAPS["penalty"]])
    )
    divisions, split_data = [(P, Y)], RAPSConformityScore.split_data

    def record_division(*arguments, **options):
        divisions.append(split_data(*arguments, **options))
        return divisions[-1]

    monkeypatch.setattr(RAPSConformityScore, "split_data", record_division)
    oracle = SplitConformalClassifier(
        Identity().fit(), confidence_level=coverage, conformity_score=score, random_state=5
    ).conformalize(P, Y)
    randomized = {"include_last_label": "randomized"}
    _, expected = oracle.predict_set(P_NEW, {} if score == "lac" else randomized)
    raps = {}
    if score == "raps":  # MAPIE chooses k on rows that it sets apart
        raps = RAPS | {"k_reg": int(oracle._mapie_classifier.conformity_score_function_.k_star[0])}
    P_left, y_left, *_ = divisions[-1]
    model = fit(P_left, y_left, conformity_score=score, coverage=coverage, **raps)
    np.testing.assert_array_equal(model.predict_set(P_NEW), expected[:, :, 0])
    assert 0 < model.predict_set(P_NEW).mean() < 1


@pytest.mark.parametrize("conditional", ["none", "class", "group"])
@pytest.mark.parametrize("score", SCORES)
def test_p_values_and_sets_are_those_of_crepes(score, conditional):
    pytest.importorskip("crepes", reason=MISSING.format("crepes"))
    from crepes import ConformalClassifier as Crepes

    raps = RAPS if score == "raps" else {}
    model = fit(P, Y, GROUPS, conformity_score=score, conditional=conditional, coverage=0.9, **raps)
    alphas, alphas_new = (
        nonconformity_scores(p, score, row_uniforms(p, model.tie_seed_), **raps) for p in (P, P_NEW)
    )
    own, groups = alphas[np.arange(len(Y)), Y], GROUPS_NEW if conditional == "group" else None
    if conditional == "class":  # crepes takes one category for each row, so once for each class
        oracle = Crepes().fit(own, bins=Y)
        expected = np.column_stack(
            [
                oracle.predict_p(alphas_new[:, [k]], bins=np.full(len(P_NEW), k), smoothing=False)
                for k in range(K)
            ]
        )
    else:
        bins, bins_new = (GROUPS, GROUPS_NEW) if conditional == "group" else (None, None)
        expected = (
            Crepes().fit(own, bins=bins).predict_p(alphas_new, bins=bins_new, smoothing=False)
        )
    np.testing.assert_allclose(model.p_values(P_NEW, groups), expected, rtol=1e-12)
    np.testing.assert_array_equal(model.predict_set(P_NEW, groups), expected > 0.1 + 1e-12)


@settings(max_examples=30)
@given(st.integers(5, 25), st.floats(0.05, 0.95), st.sampled_from(SCORES), st.integers(0, 10**6))
def test_coverage_over_exchanged_rows_is_exact(m, coverage, score, seed):
    """Each of m + 1 rows is left out in turn: ⌈(m + 1) coverage⌉ of them are covered."""
    generator = np.random.default_rng(seed)
    proba, y = draw(m + 1, generator)
    raps = RAPS if score == "raps" else {}
    covered = 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coverage=.* needs")
        for i in range(m + 1):
            others = np.arange(m + 1) != i
            model = fit(proba[others], y[others], conformity_score=score, coverage=coverage, **raps)
            covered += model.predict_set(proba[[i]])[0, y[i]]
    # Scores are continuous, so that no two of them are equal.
    assert covered == min(conformal_rank(coverage, m), m + 1)


@settings(max_examples=30)
@given(st.integers(5, 25), st.floats(0.05, 0.95), st.sampled_from(SCORES), st.integers(0, 10**6))
def test_ties_only_raise_the_coverage(m, coverage, score, seed):
    """A forest of few trees has many equal probabilities, some of which are 0."""
    generator = np.random.default_rng(seed)
    proba = generator.multinomial(4, np.full(3, 1 / 3), size=m + 1) / 4
    y = generator.integers(3, size=m + 1)
    covered = 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coverage=.* needs")
        for i in range(m + 1):
            others = np.arange(m + 1) != i
            options = {"coverage": coverage, "randomized": bool(seed % 2)}
            model = fit(proba[others], y[others], conformity_score=score, **options, **RAPS)
            covered += model.predict_set(proba[[i]])[0, y[i]]
    assert covered >= min(conformal_rank(coverage, m), m + 1)


@pytest.mark.parametrize("conditional", ["none", "class", "group"])
@pytest.mark.parametrize("score", SCORES)
def test_sets_are_classes_with_large_p_values_and_nested(score, conditional):
    raps = RAPS if score == "raps" else {}
    smaller = np.zeros((200, K), dtype=bool)
    for coverage in (0.1, 0.5, 0.75, 0.9, 0.94):
        model = fit(
            P, Y, GROUPS, conformity_score=score, conditional=conditional, coverage=coverage, **raps
        )
        sets = model.predict_set(P_NEW, GROUPS_NEW)
        assert (sets >= smaller).all() and sets.sum() > smaller.sum()
        p_values = model.p_values(P_NEW, GROUPS_NEW)
        np.testing.assert_array_equal(sets, p_values > 1 - coverage + 1e-12)
        smaller = sets


@pytest.mark.parametrize("score", SCORES)
def test_sets_depend_on_no_other_row(score):
    model = fit(P, Y, conformity_score=score)
    order = np.random.default_rng(0).permutation(200)
    sets = model.predict_set(P_NEW)
    np.testing.assert_array_equal(model.predict_set(P_NEW[order]), sets[order])
    np.testing.assert_array_equal(
        np.concatenate([model.predict_set(row[None]) for row in P_NEW]), sets
    )


def test_order_of_calibration_rows_is_irrelevant():
    order = np.random.default_rng(0).permutation(300)
    np.testing.assert_array_equal(
        fit(P[order], Y[order]).predict_set(P_NEW), fit(P, Y).predict_set(P_NEW)
    )


def test_row_uniforms_are_uniform_and_depend_on_content_and_seed():
    from scipy.stats import kstest

    X = np.random.default_rng(0).normal(size=(4000, 3))
    u, v = row_uniforms(X, 0), row_uniforms(X, 1)
    # The seeds are fixed, so that the test is too; a biased hash fails at any of them.
    assert kstest(u, "uniform").pvalue > 0.01 and abs(np.corrcoef(u, v)[0, 1]) < 4 / 4000**0.5
    frame = pd.DataFrame(X, columns=list("abc"))
    np.testing.assert_array_equal(row_uniforms(frame, 0), u)
    np.testing.assert_array_equal(row_uniforms(X.reshape(4000, 1, 1, 3), 0), u)
    zeros = np.array([[0.0, np.nan], [-0.0, -np.nan]])
    assert len(set(row_uniforms(zeros, 0).tolist())) == 1
    mixed = pd.DataFrame({"a": [1.0, 2.0, 1.0], "b": pd.Categorical(["x", "y", "x"])})
    u = row_uniforms(mixed, 0)
    assert u[0] == u[2] != u[1]
    np.testing.assert_array_equal(row_uniforms(mixed[1:], 0), u[1:])


def test_randomized_sets_cover_no_more_than_required():
    """Deterministic APS of two classes contains both wherever the first is not sufficient."""
    proba, y = draw(20_000)
    two = np.column_stack([proba[:, 0], 1 - proba[:, 0]])
    label = (y > 0).astype(int)
    sizes = {}
    for randomized in (True, False):
        model = fit(two[:5000], label[:5000], coverage=0.8, randomized=randomized)
        sets = model.predict_set(two[5000:])
        covered = sets[np.arange(15_000), label[5000:]].mean()
        # Beta(4001, 1000) of the fitted model and binomial of the rows: sd .0066.
        assert covered > 0.8 - 3 * 0.0066
        sizes[randomized] = sets.sum(axis=1).mean()
    assert sizes[True] < sizes[False]


def test_raps_tunes_on_separate_rows():
    proba, y = draw(2000)
    model = fit(proba, y, conformity_score="raps", tuning_size=0.25)
    assert model.n_rows_ == [1500] and model.penalty_ in (0.001, 0.01, 0.1, 0.2, 0.5)
    # The rank that is sufficient for 90 % of labels that are drawn with these probabilities.
    rank = 1 + (proba > proba[np.arange(2000), y][:, None]).sum(axis=1)
    assert model.k_reg_ in (np.sort(rank)[1800], np.sort(rank)[1800] - 1)
    assert fit(proba, y, conformity_score="raps", k_reg=2, penalty=0.1).n_rows_ == [2000]
    sets, aps = (
        fit(proba, y, conformity_score=s).predict_set(P_NEW).sum(axis=1) for s in ("raps", "aps")
    )
    assert sets.max() <= aps.max()


def test_small_classes_and_groups_have_full_sets_and_a_warning():
    rows = np.flatnonzero((Y != 3) | (np.cumsum(Y == 3) <= 5))
    message = (
        "coverage=0.9 needs 9 calibration rows of each class, got 5 of '3': every set contains such"
        " a class; lower coverage, or calibrate on more rows"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        model = fit(P[rows], Y[rows], conditional="class")
    assert model.predict_set(P_NEW)[:, 3].all() and not model.predict_set(P_NEW)[:, 0].all()

    groups = np.where(np.arange(300) < 8, "small", "large")
    with pytest.warns(UserWarning, match="of each group, got 8 of 'small': their sets contain all"):
        model = fit(P, Y, groups, conditional="group")
    sets = model.predict_set(P_NEW, np.where(np.arange(200) < 100, "small", "large"))
    assert sets[:100].all() and not sets[100:].all()
    with pytest.warns(UserWarning, match="needs 9 calibration rows, got 8: every set contains all"):
        assert fit(P[:8], Y[:8]).predict_set(P_NEW).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not fit(P[:9], Y[:9]).predict_set(P_NEW).all()


def test_rows_of_no_known_group_get_the_threshold_of_all_rows():
    model = fit(P, Y, GROUPS, conditional="group")
    shared = fit(P, Y).predict_set(P_NEW)
    np.testing.assert_array_equal(model.predict_set(P_NEW), shared)
    np.testing.assert_array_equal(model.predict_set(P_NEW, np.full(200, "d")), shared)
    np.testing.assert_array_equal(model.p_values(P_NEW), fit(P, Y).p_values(P_NEW))
    assert (model.predict_set(P_NEW, GROUPS_NEW) != shared).any()
    message = "ConformalClassifier with conditional='group' needs the group of each row"
    with pytest.raises(ValueError, match=message):
        fit(P, Y, conditional="group")


@pytest.mark.parametrize("conditional", ["class", "group"])
def test_conditional_sets_cover_each_class_and_group(conditional):
    """One threshold fails in two groups of which one is far less certain."""
    generator = np.random.default_rng(1)
    proba, y = draw(12_000, generator)
    cell = y if conditional == "class" else generator.integers(2, size=12_000)
    # The labels of group 1 are random; the probabilities of class 0 are underestimated.
    if conditional == "group":
        y = np.where(cell == 1, generator.integers(K, size=12_000), y)
    else:
        proba = proba / np.array([4, 1, 1, 1, 1])
        proba /= proba.sum(axis=1, keepdims=True)
    groups = None if conditional == "class" else cell
    worst = {}
    for mode in (conditional, "none"):
        given_groups = groups if mode == "group" else None
        model = fit(
            proba[:6000],
            y[:6000],
            None if given_groups is None else given_groups[:6000],
            conditional=mode,
        )
        sets = model.predict_set(
            proba[6000:], None if given_groups is None else given_groups[6000:]
        )
        covered = sets[np.arange(6000), y[6000:]]
        worst[mode] = min(covered[cell[6000:] == c].mean() for c in np.unique(cell))
    # At least 700 rows calibrate and test a cell: standard deviation .9·.1·(1/700 + 1/700) → .016.
    assert worst[conditional] > 0.9 - 3 * 0.016 and worst["none"] < worst[conditional] - 0.04


def test_empty_sets_can_get_the_most_probable_class():
    sets, filled = (
        fit(P, Y, coverage=0.3, conformity_score="lac", allow_empty=allow_empty).predict_set(P_NEW)
        for allow_empty in (True, False)
    )
    empty = ~sets.any(axis=1)
    assert empty.any() and (filled.sum(axis=1)[empty] == 1).all()
    np.testing.assert_array_equal(filled[~empty], sets[~empty])
    np.testing.assert_array_equal(filled.argmax(axis=1)[empty], P_NEW.argmax(axis=1)[empty])


@pytest.mark.parametrize("score", SCORES)
def test_sets_of_lac_alone_may_be_empty_by_default(score):
    raps = RAPS if score == "raps" else {}
    by_default, empty, filled = (
        fit(P, Y, coverage=0.3, conformity_score=score, allow_empty=allow, **raps).predict_set(
            P_NEW
        )
        for allow in (None, True, False)
    )
    np.testing.assert_array_equal(by_default, empty if score == "lac" else filled)
    assert (empty != filled).any()


def test_fitted_parent_does_not_use_calibration_rows():
    X, y = make_moons(400, noise=0.4, random_state=0)
    forest = RandomForestClassifier(10, random_state=0)
    held_out = {"X_calibration": X[300:], "y_calibration": y[300:]}
    nested = ConformalClassifier(ScoreMap(forest, random_state=0), random_state=0)
    alone = ScoreMap(forest, random_state=0).fit(X[:300], y[:300])
    nested.fit(X[:300], y[:300], **held_out)
    np.testing.assert_array_equal(nested.predict_proba(X), alone.predict_proba(X))


def test_sets_after_a_density_or_gate_grow_far_from_data():
    X, y = make_blobs(900, centers=[[-3.0, 0.0], [3.0, 0.0], [0.0, 4.0]], random_state=0)
    far = 300 * np.array([[-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, -1.0]])
    forest = RandomForestClassifier(30, random_state=0)
    sizes = {}
    for name, parent in {
        "forest": forest,
        "kdf": KernelDensityForest(forest, random_state=0),
        "gate": DensityGate(ScoreMap(forest, random_state=0), random_state=0),
    }.items():
        model = ConformalClassifier(parent, coverage=0.98, random_state=0).fit(X, y)
        sizes[name] = model.predict_set(far).sum(axis=1).mean()
    assert sizes["forest"] < 2 < sizes["kdf"] and sizes["gate"] > 2


@pytest.mark.parametrize("conditional", ["none", "class", "group"])
def test_saved_model_predicts_equal_sets(conditional):
    X, y = make_moons(300, noise=0.4, random_state=0)
    labels, groups = np.array(["no", "yes"])[y], np.array(["a", "b"])[(X[:, 0] > 0.5) * 1]
    model = ConformalClassifier(
        LogisticRegression(), conformity_score="raps", conditional=conditional, random_state=0
    ).fit(X, labels, groups=groups)
    loaded = from_bytes(to_bytes(model), "it").value
    for output in ("predict_set", "p_values"):
        np.testing.assert_array_equal(
            getattr(loaded, output)(X, groups), getattr(model, output)(X, groups)
        )
    assert loaded.describe() == model.describe()


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_sets_without_held_out_rows_use_outputs_without_each_row(calibration):
    """In-sample outputs of a forest would give sets of one class, which cover far too little."""
    X, y = make_moons(2400, noise=0.5, random_state=0)
    forest = RandomForestClassifier(50, random_state=0)
    model = ConformalClassifier(
        forest, calibration=calibration, conformity_score="lac", coverage=0.9, cv=3, random_state=0
    ).fit(X[:800], y[:800])
    assert model.n_rows_[0] >= 799
    covered = model.predict_set(X[800:])[np.arange(1600), y[800:]].mean()
    # Sd .011 of 800 calibration rows and .0075 of 1600 new ones.
    assert abs(covered - 0.9) < 3 * 0.0133


def test_sample_weights_of_whole_numbers_count_rows():
    """Weights have mean 1: m rows of equal weight are m rows, as without weights."""
    parent = FrozenEstimator(PrecomputedScores().fit(np.eye(K), None))

    def weighted(weight):
        return ConformalClassifier(parent, random_state=0).fit(
            np.eye(K),
            np.arange(K),
            X_calibration=P,
            y_calibration=Y,
            sample_weight_calibration=weight,
        )

    np.testing.assert_array_equal(
        weighted(np.full(300, 3.0)).p_values(P_NEW), fit(P, Y).p_values(P_NEW)
    )
    # Without the rows of weight 0, the others have weight 1.
    weight = (np.arange(300) < 200) * 1.0
    np.testing.assert_array_equal(
        weighted(weight).p_values(P_NEW), fit(P[:200], Y[:200]).p_values(P_NEW)
    )


def test_describe_has_rows_and_thresholds_of_each_cell():
    model = fit(P, Y, GROUPS, conditional="group", conformity_score="raps", **RAPS)
    description = model.describe()
    assert description["rows"] == {g: np.count_nonzero(np.equal(GROUPS, g)) for g in "abc"}
    assert list(description["thresholds"]) == ["a", "b", "c"]
    assert (description["k_reg"], description["penalty"]) == (2, 0.05)


def test_data_frames_with_categories_have_the_same_sets_in_any_order():
    """Ties are broken by the content of rows, also where it is text, or missing."""
    generator = np.random.default_rng(3)
    color = generator.choice(["red", "green", "blue"], 900)
    x = generator.normal(size=900)
    y = np.where(x + (color == "red") + generator.normal(size=900) > 0.5, "yes", "no")
    frame = pd.DataFrame({"x": x, "color": pd.Categorical(color)})
    frame.loc[:50, "x"] = np.nan
    parent = HistGradientBoostingClassifier(
        max_iter=20, categorical_features="from_dtype", random_state=0
    )
    model = ConformalClassifier(parent, coverage=0.8, random_state=0).fit(frame[:600], y[:600])
    sets, new = model.predict_set(frame[600:]), frame[600:]
    order = generator.permutation(300)
    np.testing.assert_array_equal(model.predict_set(new.iloc[order]), sets[order])
    one_by_one = [model.predict_set(new.iloc[[i]])[0] for i in range(50)]
    np.testing.assert_array_equal(one_by_one, sets[:50])
    assert {1, 2} <= set(sets.sum(axis=1))
    covered = sets[np.arange(300), (y[600:] == "yes").astype(int)].mean()
    assert covered > 0.8 - 3 * 0.038  # sd of 180 calibration and 300 new rows
