"""Outputs of models from outside are probabilities, or are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax

from kdgraph.errors import DataError
from kdgraph.fitted.outputs import probabilities_of
from kdgraph.fitted.source import ModelSource

SOURCE = ModelSource("model.onnx", key="parent.")
LOGITS = st.floats(-700, 700)


@given(arrays(float, st.tuples(st.integers(1, 4), st.integers(2, 5)), elements=LOGITS))
def test_logits_become_probabilities_by_the_softmax(logits):
    proba = probabilities_of(logits - 1000, "logits", SOURCE)
    # The exponential of an error of 1e-12 of the logarithm.
    np.testing.assert_allclose(proba, np.exp(log_softmax(logits, axis=1)), rtol=1e-12, atol=1e-300)


@given(arrays(float, st.integers(1, 5), elements=LOGITS))
def test_one_logit_is_that_of_the_second_class(logits):
    proba = probabilities_of(logits, "logits", SOURCE)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-logits)), rtol=1e-12)
    np.testing.assert_array_equal(proba.sum(axis=1), 1)


@pytest.mark.parametrize(
    "logits", [[[0.0, np.nan]], [[0.0, np.inf]], [[-np.inf, -np.inf]], [np.nan]], ids=str
)
def test_logits_without_probabilities_are_refused(logits):
    outputs = np.array([*logits, *np.zeros_like(logits)])[::-1]
    with pytest.raises(
        DataError, match=r"^parent.path=model.onnx: must predict finite logits, and row 1 has "
    ):
        probabilities_of(outputs, "logits", SOURCE)


def test_a_class_may_have_a_logit_of_minus_infinity():
    proba = probabilities_of(np.array([[-np.inf, 3.0]]), "logits", SOURCE)
    np.testing.assert_array_equal(proba, [[0, 1]])


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([0.5, np.nan], "sum nan and least output nan"),
        ([0.5, np.inf], "sum inf and least output 0.5"),
        ([1.2, -0.2], "sum 1 and least output -0.2"),
        ([0.5, 0.6], "sum 1.1 and least output 0.5"),
    ],
    ids=str,
)
def test_outputs_that_are_no_probabilities_are_refused(row, problem):
    with pytest.raises(
        DataError, match=f"row 1 has {problem}; if they are logits, give parent.outputs=logits"
    ):
        probabilities_of(np.array([[0.25, 0.75], row]), "probabilities", SOURCE)


def test_probabilities_in_double_precision_keep_their_bits():
    proba = np.random.default_rng(0).dirichlet(np.ones(7), size=100)
    np.testing.assert_array_equal(probabilities_of(proba, "probabilities", SOURCE), proba)


def test_probabilities_in_single_precision_sum_to_one():
    proba = np.random.default_rng(0).dirichlet(np.ones(7), size=100).astype(np.float32)
    result = probabilities_of(proba.astype(float), "probabilities", SOURCE)
    # Half a unit in the last place of a sum near 1, seven times.
    np.testing.assert_allclose(result.sum(axis=1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(result, proba, rtol=0, atol=1e-6)
