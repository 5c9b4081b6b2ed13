"""OOD scores, which determine the blend with the prior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from kdgraph import DensityGate, KernelDensityForest
from kdgraph.density.classifiers import density_ood_score
from kdgraph.density.published import Figure1Forest, PaperForest, ReferenceForest

FORESTS = {
    "kdgraph": KernelDensityForest,
    "paper": PaperForest,
    "reference": ReferenceForest,
    "figure1": Figure1Forest,
}


@pytest.fixture(scope="module")
def spiral_rows(spirals):
    return spirals(400, 5)


@pytest.fixture(scope="module")
def gate(spiral_rows):
    return DensityGate(RandomForestClassifier(20, random_state=0), alpha=0.05, random_state=0).fit(
        *spiral_rows
    )


def test_gate_weights_follow_its_ood_score(spiral_rows, gate):
    X = np.concatenate([spiral_rows[0], 3 * spiral_rows[0]])
    weight = np.maximum(np.exp(-np.maximum(gate.ood_score(X), 0)), gate.min_weight)[:, None]
    expected = weight * gate.estimator_.predict_proba(X) + (1 - weight) * gate.prior_
    np.testing.assert_allclose(gate.predict_proba(X), expected, rtol=0, atol=1e-12)


def test_positive_score_means_a_density_below_the_floor(gate):
    score = gate.ood_score([[0.1, 0.1], [3.0, 3.0], [30.0, 30.0]])
    assert score[0] < 0 < score[1] < score[2]
    proba = gate.predict_proba([[30.0, 30.0]])
    np.testing.assert_allclose(proba[0], gate.prior_, atol=1e-6)


@pytest.mark.parametrize("variant", ["kdgraph", "paper", "reference", "figure1"])
def test_scores_of_all_variants_do_not_depend_on_other_rows(spiral_rows, variant):
    kdf = FORESTS[variant](RandomForestClassifier(8, random_state=0), random_state=0).fit(
        *spiral_rows
    )
    X = np.concatenate([spiral_rows[0][:30], 5 + spiral_rows[0][:30]])
    score = kdf.ood_score(X)
    assert score.shape == (60,) and not np.isnan(score).any()
    np.testing.assert_array_equal(
        score, np.concatenate([kdf.ood_score(X[:7]), kdf.ood_score(X[7:])])
    )
    np.testing.assert_array_equal(score, density_ood_score(kdf.log_density(X), kdf.log_floor_))
    proba, log_density = kdf.proba_and_log_density(X)
    np.testing.assert_array_equal(proba, kdf.predict_proba(X))
    np.testing.assert_array_equal(log_density, kdf.log_density(X))


def test_few_in_distribution_rows_score_above_zero(spirals):
    X, y = spirals(3000, 0)
    kdf = KernelDensityForest(
        RandomForestClassifier(20, random_state=0), alpha=0.1, random_state=0
    ).fit(X[:1000], y[:1000])
    fraction = np.mean(kdf.ood_score(X[1000:]) > 0)
    assert 0.04 < fraction < 0.16  # 0.1, within three standard errors of the floor's 300 rows


def test_score_of_zero_density_is_infinite_at_any_floor():
    assert density_ood_score(np.array([-math.inf, -3.0]), -1.0).tolist() == [math.inf, 2.0]
    assert density_ood_score(np.array([-math.inf]), -math.inf).tolist() == [math.inf]
