"""Forests that predict the distribution of an outcome.

:class:`RandomForestOutcomes` and :class:`ExtraTreesOutcomes` predict the training outcomes in the
leaves of a row, weighted (Meinshausen 2006).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.validation import check_single_precision, check_weights
from kdgraph.distributions import WeightedSamples
from kdgraph.distributions.base import LEVEL_TOLERANCE
from kdgraph.docstrings import inherit_descriptions
from kdgraph.parameters import Count, Fraction, Range

MAX_OUTCOMES = 500
"""Outcomes of a row, above which a forest's weighted outcomes are replaced by as many quantiles.

A row's leaves have thousands of training outcomes. 500 quantiles change the CRPS by less than 1e-5
of itself, and take 8 kB a row.
"""
# Rows whose weights are computed at once: some 20 MB for 200 trees.
_QUERY_BLOCK = 256


Criterion = Literal["squared_error", "absolute_error", "poisson"]
"""Impurity of a regression tree."""


@dataclass(eq=False, repr=False)
class _LeafOutcomes:
    """Mixin of scikit-learn's forests that predicts the outcomes in the leaves of a row.

    Parameters
    ----------
    n_estimators : int, default=200
        Number of trees.
    criterion, max_depth, max_leaf_nodes, n_jobs, random_state : optional
        As of scikit-learn's ``RandomForestRegressor``.
    min_samples_leaf : int, default=5
        Smallest number of rows in a leaf.
    max_features : float in (0, 1], "sqrt" or "log2", default=1.0
        Fraction of the features that are candidates of a split, or their number as a function of d.
    max_samples : float in (0, 1], default=None
        Size of the sample as a fraction of the training rows. None: as many.

    Attributes
    ----------
    outcomes_ : Float[n]
        Training outcomes, increasing.
    node_starts_, node_ranks_, node_weights_ : Int[p + 1], Int[q], Float[q]
        Sparse matrix of the weights of outcomes in the p nodes of all trees. It takes 12 bytes for
        each tree and training row in its bootstrap sample.
    """

    n_estimators: Count = 200
    _: KW_ONLY
    criterion: Criterion = "squared_error"
    max_depth: Count | None = None
    min_samples_leaf: Count = 5
    max_features: Fraction | Literal["sqrt", "log2"] = 1.0
    max_leaf_nodes: Annotated[int, Range(2)] | None = None
    bootstrap: bool = True
    max_samples: Fraction | None = None
    n_jobs: int | None = None
    random_state: Any = None

    # Attributes of the forest, which are no fields.
    estimators_: ClassVar[list[DecisionTreeRegressor]]
    n_outputs_: ClassVar[int]
    estimators_samples_: ClassVar[Any]
    apply: ClassVar[Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    def __post_init__(self) -> None:
        # The forest, which is next after the mixin, has further parameters.
        super().__init__(**{each.name: getattr(self, each.name) for each in fields(self)})

    def fit(self, X, y, sample_weight=None):
        """Fit the trees, and store the outcomes in their leaves.

        Rows are Float[n, d], outcomes and weights Float[n].
        """
        check_single_precision(X, type(self).__name__)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, X)
        super().fit(X, y, sample_weight)  # type: ignore[misc]
        if self.n_outputs_ > 1:
            raise ValueError(f"y must have one outcome for each row, got {self.n_outputs_}")
        # Rows with the same outcome stay apart: a value of large weight would look like a part of a
        # continuous distribution, and one that many rows have is a point mass.
        y = np.asarray(y, float).ravel()
        order = np.argsort(y, kind="stable")
        self.outcomes_, rank = y[order], np.argsort(order)
        row_weight = np.ones(len(rank)) if sample_weight is None else sample_weight
        leaves = self.apply(X)
        # The matrix of all trees has a row for each node and a column for each training row.
        # It is built tree by tree, so that no array of all trees and rows exists besides it.
        parts = []
        for tree, leaf, drawn in zip(
            self.estimators_, leaves.T, self.estimators_samples_, strict=True
        ):
            # The tree was fitted with the counts of its bootstrap sample. Versions of scikit-learn
            # that do not draw the sample by weight multiply them by the weights.
            count, n_nodes = np.bincount(drawn, minlength=len(rank)), tree.tree_.node_count
            is_leaf = tree.tree_.children_left < 0
            drawn_by_weight = np.allclose(
                np.bincount(leaf, count, n_nodes)[is_leaf],
                tree.tree_.weighted_n_node_samples[is_leaf],
            )
            weight = count if drawn_by_weight else count * row_weight
            used = np.flatnonzero(weight)
            total = np.bincount(leaf, weight, n_nodes)
            share = weight[used] / total[leaf[used]] / len(self.estimators_)
            parts.append(
                csr_array((share, (leaf[used], rank[used])), (n_nodes, len(self.outcomes_)))
            )
        nodes = vstack(parts, format="csr")
        self.node_starts_, self.node_ranks_ = nodes.indptr, nodes.indices
        self.node_weights_ = nodes.data
        return self

    def predict_dist(self, X) -> WeightedSamples:
        """Return the weighted training outcomes in the leaves of each row of X, Float[n, d].

        It needs memory for 1,000 numbers a row.
        """
        check_is_fitted(self)
        leaves = self.apply(X)
        counts = [tree.tree_.node_count for tree in self.estimators_]
        nodes = leaves + np.concatenate([[0], np.cumsum(counts)[:-1]])
        n, width = len(nodes), min(MAX_OUTCOMES, len(self.outcomes_))
        table = csr_array(
            (self.node_weights_, self.node_ranks_, self.node_starts_),
            shape=(sum(counts), len(self.outcomes_)),
        )
        outcomes, weights = np.empty((n, width)), np.zeros((n, width))
        for first in range(0, n, _QUERY_BLOCK):
            block = nodes[first : first + _QUERY_BLOCK]
            starts = np.arange(len(block) + 1) * block.shape[1]
            chosen = csr_array(
                (np.ones(block.size), block.ravel(), starts), (len(block), sum(counts))
            )
            found = csr_array(chosen @ table)
            found.sort_indices()
            for i, (start, end) in enumerate(
                zip(found.indptr[:-1], found.indptr[1:], strict=True), start=first
            ):
                row = self.outcomes_[found.indices[start:end]], found.data[start:end]
                _fill_row(*row, outcomes[i], weights[i])
        return WeightedSamples(outcomes, weights)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.target_tags.multi_output = False
        return tags


def _fill_row(
    values: np.ndarray, shares: np.ndarray, outcomes: np.ndarray, weights: np.ndarray
) -> None:
    """Write increasing values and their weights, or quantiles of equal weight, into a row."""
    width = len(outcomes)
    if len(values) > width:
        cumulative = np.cumsum(shares)
        levels = (np.arange(width) + 0.5) / width * cumulative[-1] * (1 - LEVEL_TOLERANCE)
        outcomes[:] = values[np.searchsorted(cumulative, levels)]
        weights[:] = 1 / width
        return
    # The first value is repeated, without weight, at the beginning of the row: of equal values,
    # WeightedSamples takes the level of the last.
    n_empty = width - len(values)
    outcomes[:n_empty], outcomes[n_empty:] = values[0], values
    weights[n_empty:] = shares


@dataclass(eq=False, repr=False, kw_only=True)
class RandomForestOutcomes(_LeafOutcomes, RandomForestRegressor):
    """Random forest that predicts the weighted outcomes in the leaves of a row.

    A training row has the weight 1/T Σ_t c_t [in the same leaf of tree t] / n_t, where c_t counts
    the row in the bootstrap sample of tree t, and n_t is the number of draws in the leaf. The mean
    of the distribution is the forest's prediction (Meinshausen 2006, Eq. 4 and 6).

    Parameters
    ----------
    bootstrap : bool, default=True
        Draw a sample of the training rows, with replacement, for each tree.

    Notes
    -----
    Meinshausen gives all training rows in a leaf a weight, also those out of the bootstrap sample
    of the tree. Here only those in the sample have one, as for the mean that scikit-learn predicts.
    If the leaves of a row have more than 500 outcomes, 500 quantiles replace them, at the
    middles of equal intervals of [0, 1]: memory is bounded, and the CRPS does not change in the
    first four digits. The forest is one of scikit-learn's, so leaves can be the feature space of
    :class:`~kdgraph.recalibration.LocalPit` (``feature_space="geodesic"``).

    References
    ----------
    Meinshausen, "Quantile regression forests", JMLR 7, 2006.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * rng.normal(size=2000)
    >>> forest = RandomForestOutcomes(50, min_samples_leaf=20, random_state=0).fit(X, y)
    >>> distribution = forest.predict_dist([[0.1], [0.9]])
    >>> np.sqrt(distribution.var()).round(1).tolist()
    [0.1, 1.0]
    >>> bool(np.allclose(distribution.mean(), forest.predict([[0.1], [0.9]])))
    True
    """


@dataclass(eq=False, repr=False, kw_only=True)
class ExtraTreesOutcomes(_LeafOutcomes, ExtraTreesRegressor):
    """Extremely randomised trees that predict the weighted outcomes in the leaves of a row.

    Weights are those of :class:`RandomForestOutcomes`. Each tree has all training rows, unless
    ``bootstrap=True``.

    Parameters
    ----------
    bootstrap : bool, default=False
        Draw a sample of the training rows, with replacement, for each tree.

    References
    ----------
    Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006;
    Meinshausen, "Quantile regression forests", JMLR 7, 2006.

    Examples
    --------
    >>> X, y = np.repeat([[0.0], [1.0]], 4, axis=0), np.array([1.0, 2, 2, 3, 5, 5, 7, 7])
    >>> trees = ExtraTreesOutcomes(10, min_samples_leaf=4, random_state=0).fit(X, y)
    >>> trees.predict_dist([[0.0], [1.0]]).interval(0.5)[1].tolist()
    [2.0, 7.0]
    """

    bootstrap: bool = False
