"""One shape of a Gamma regression that is trained with the means."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from experiments.p5.trained_shape import TrainedShapeRegressor
from kdgraph.parents import GammaGlm


def test_a_trained_shape_is_that_of_maximum_likelihood_in_the_end():
    """One shape for all rows, to 1 % of the estimate of the GLM, the accuracy of training in
    batches; far from it after one epoch of steps of .01, which start at a shape of 1.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 2))
    y = rng.gamma(9.0, np.exp(4 + X[:, 0]) / 9.0)
    options = {"hidden": (), "patience": None, "device": "cpu", "random_state": 0}
    network = TrainedShapeRegressor(
        **options, learning_rate=0.05, batch_size=100, max_epochs=40, schedule="cosine"
    ).fit(X, y)
    expected = GammaGlm(dispersion="ml").fit(X, y)
    outputs = network.predict_parameters(X)
    assert np.ptp(outputs[:, 1]) == 0 and np.ptp(outputs[:, 0]) > 0.5
    assert np.exp(outputs[0, 1]) == pytest.approx(expected.shape_, rel=0.01)
    np.testing.assert_allclose(network.predict(X), expected.predict(X), rtol=0.01)
    early = TrainedShapeRegressor(**options, learning_rate=0.01, batch_size=20, max_epochs=1)
    with pytest.warns(ConvergenceWarning, match="learnt nothing"):
        early.fit(X, y)
    assert np.exp(early.predict_parameters(X)[0, 1]) < expected.shape_ / 2
