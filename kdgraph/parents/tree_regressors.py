"""Regression trees as parents that predict distributions.

- :class:`RandomForestOutcomes` and :class:`ExtraTreesOutcomes`: the training outcomes in the leaves
  of a row, weighted (Meinshausen 2006).
- :class:`QuantileBoosting`: gradient boosted trees for each of several quantiles.
- :class:`NaturalGradientBoosting`: trees for the parameters of a family (Duan et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import (
    ExtraTreesRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.distributions import Normal, QuantileGrid, ScipyFamily, WeightedSamples
from kdgraph.distributions.base import LEVEL_TOLERANCE
from kdgraph.errors import ParameterError
from kdgraph.parameters import (
    Count,
    Fraction,
    NonNegative,
    OpenFraction,
    Positive,
    Range,
    check_parameters,
)
from kdgraph.parents.regressors import MAX_GAMMA_SHAPE, check_positive_targets

MAX_OUTCOMES = 500
"""Outcomes of a row, above which a forest's weighted outcomes are replaced by as many quantiles.

A row's leaves have thousands of training outcomes. 500 quantiles change the CRPS by less than 1e-5
of itself, and take 8 kB a row.
"""
_QUERY_BLOCK = 256
"""Rows whose weights are computed at once: some 20 MB for 200 trees."""


Criterion = Literal["squared_error", "absolute_error", "poisson"]
"""Impurity of a regression tree."""


class _LeafOutcomes:
    """Mixin of scikit-learn's forests that predicts the outcomes in the leaves of a row."""

    estimators_: list[DecisionTreeRegressor]
    n_outputs_: int
    estimators_samples_: Any
    apply: Any

    if TYPE_CHECKING:  # that of the forest, which is next after the mixin

        def __init__(self, **parameters: Any) -> None: ...

    def fit(self, X, y, sample_weight=None):
        """Fit the trees, and store the outcomes in their leaves.

        Parameters
        ----------
        X : Float[n, d]
            Training rows.
        y : Float[n]
            Outcomes.
        sample_weight : Float[n], default=None
            Weights of the rows. None: equal weights.

        Returns
        -------
        self
        """
        super().fit(X, y, sample_weight)  # type: ignore[misc]
        if self.n_outputs_ > 1:
            raise ValueError(f"y must have one outcome for each row, got {self.n_outputs_}")
        # Rows with the same outcome stay apart: a value of large weight would look like a part of a
        # continuous distribution, and one that many rows have is a point mass.
        y = np.asarray(y, float).ravel()
        order = np.argsort(y, kind="stable")
        self.outcomes_, rank = y[order], np.argsort(order)
        row_weight = (
            np.ones(len(rank)) if sample_weight is None else np.asarray(sample_weight, float)
        )
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
        self.node_starts_, self.node_ranks_, self.node_weights_ = (
            nodes.indptr,
            nodes.indices,
            nodes.data,
        )
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
        """Return the tags; a row has one outcome."""
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


class RandomForestOutcomes(_LeafOutcomes, RandomForestRegressor):
    """Random forest that predicts the weighted outcomes in the leaves of a row.

    A training row has the weight 1/T Σ_t c_t [in the same leaf of tree t] / n_t, where c_t counts
    the row in the bootstrap sample of tree t, and n_t is the number of draws in the leaf. The mean
    of the distribution is the forest's prediction (Meinshausen 2006, Eq. 4 and 6).

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
    bootstrap : bool, default=True
        Draw a sample of the training rows, with replacement, for each tree.
    max_samples : float in (0, 1], default=None
        Size of the sample as a fraction of the training rows. None: as many.

    Attributes
    ----------
    outcomes_ : Float[n]
        Training outcomes, increasing.
    node_starts_, node_ranks_, node_weights_ : Int[p + 1], Int[q], Float[q]
        Sparse matrix of the weights of outcomes in the p nodes of all trees. It takes 12 bytes for
        each tree and training row in its bootstrap sample.

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

    def __init__(
        self,
        n_estimators: Count = 200,
        *,
        criterion: Criterion = "squared_error",
        max_depth: Count | None = None,
        min_samples_leaf: Count = 5,
        max_features: Fraction | Literal["sqrt", "log2"] = 1.0,
        max_leaf_nodes: Annotated[int, Range(2)] | None = None,
        bootstrap: bool = True,
        max_samples: Fraction | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        super().__init__(
            n_estimators=n_estimators,
            criterion=criterion,
            max_depth=max_depth,
            min_samples_leaf=min_samples_leaf,
            max_features=max_features,
            max_leaf_nodes=max_leaf_nodes,
            bootstrap=bootstrap,
            max_samples=max_samples,
            n_jobs=n_jobs,
            random_state=random_state,
        )


class ExtraTreesOutcomes(_LeafOutcomes, ExtraTreesRegressor):
    """Extremely randomised trees that predict the weighted outcomes in the leaves of a row.

    Weights are those of :class:`RandomForestOutcomes`. Each tree has all training rows, unless
    ``bootstrap=True``.

    Parameters
    ----------
    n_estimators, criterion, max_depth, min_samples_leaf, max_features, max_leaf_nodes : optional
        See :class:`RandomForestOutcomes`.
    bootstrap : bool, default=False
        Draw a sample of the training rows for each tree.
    max_samples, n_jobs, random_state : optional
        See :class:`RandomForestOutcomes`.

    Attributes
    ----------
    outcomes_, node_starts_, node_ranks_, node_weights_ : arrays
        See :class:`RandomForestOutcomes`.

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

    def __init__(
        self,
        n_estimators: Count = 200,
        *,
        criterion: Criterion = "squared_error",
        max_depth: Count | None = None,
        min_samples_leaf: Count = 5,
        max_features: Fraction | Literal["sqrt", "log2"] = 1.0,
        max_leaf_nodes: Annotated[int, Range(2)] | None = None,
        bootstrap: bool = False,
        max_samples: Fraction | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
    ):
        super().__init__(
            n_estimators=n_estimators,
            criterion=criterion,
            max_depth=max_depth,
            min_samples_leaf=min_samples_leaf,
            max_features=max_features,
            max_leaf_nodes=max_leaf_nodes,
            bootstrap=bootstrap,
            max_samples=max_samples,
            n_jobs=n_jobs,
            random_state=random_state,
        )


_DEFAULT_LEVELS = (
    *(0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    *(0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99),
)
"""Deciles, and the ends of the central intervals of 90, 95 and 98 %."""


class QuantileBoosting(RegressorMixin, BaseEstimator):
    """Histogram gradient boosting with the quantile loss, one model for each of several levels.

    Rows may have missing values, and categories as codes: scikit-learn's trees split on both.

    Parameters
    ----------
    levels : sequence of float, default=deciles and tails
        Levels in (0, 1), at least two, increasing.
    learning_rate : float, default=0.1
        Factor of each tree.
    max_iter : int, default=300
        Largest number of trees of a level.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    min_samples_leaf : int, default=20
        Smallest number of rows in a leaf.
    l2_regularization : float, default=0
        Penalty of the values of leaves.
    patience : int or None, default=10
        Number of trees without a lower loss on held-out training rows after which a level stops.
        None: all trees are grown, on all rows.
    validation_fraction : float, default=0.1
        Fraction of the training rows that is held out; the same rows for all levels.
    categorical_features : sequence of bool or of int, default=None
        Columns that hold codes of categories, from 0 to 254. None: no column of an array, and of a
        data frame those of type "category".
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows.

    Attributes
    ----------
    models_ : list of HistGradientBoostingRegressor
        The fitted model of each level.
    n_iter_ : Int[m]
        Number of trees of each level.

    Notes
    -----
    Quantiles that cross are sorted, see :class:`~kdgraph.distributions.QuantileGrid`, which also
    has the tails beyond the outer levels. A level stops by its own pinball loss.

    References
    ----------
    Friedman, "Greedy function approximation", The Annals of Statistics 29, 2001, Section 4.3, for
    boosting with absolute loss; Koenker, "Quantile regression", 2005, for the pinball loss.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * rng.exponential(size=2000)
    >>> model = QuantileBoosting(levels=(0.1, 0.5, 0.9), random_state=0).fit(X, y)
    >>> low, high = model.predict_dist([[0.2], [0.8]]).interval(0.8)
    >>> (high - low).round(1).tolist()  # x log 9 is 0.4 and 1.8
    [0.6, 1.6]
    """

    def __init__(
        self,
        *,
        levels: Sequence[OpenFraction] = _DEFAULT_LEVELS,
        learning_rate: Positive = 0.1,
        max_iter: Count = 300,
        max_leaf_nodes: Annotated[int, Range(2)] = 31,
        min_samples_leaf: Count = 20,
        l2_regularization: NonNegative = 0.0,
        patience: Count | None = 10,
        validation_fraction: OpenFraction = 0.1,
        categorical_features: Any = None,
        random_state: Any = None,
    ):
        self.levels = levels
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, X, y):
        """Fit a model for each level.

        Parameters
        ----------
        X : Float[n, d] or data frame
            Training rows; NaN is a missing value.
        y : Float[n]
            Outcomes.

        Returns
        -------
        self : QuantileBoosting

        Raises
        ------
        ParameterError
            If levels are fewer than two or do not increase.
        """
        check_parameters(self)
        levels = list(self.levels)
        if len(levels) < 2 or not (np.diff(levels) > 0).all():
            raise ParameterError(f"levels must be at least two increasing numbers, got {levels}")
        validate_data(
            self, X, y, y_numeric=True, ensure_all_finite="allow-nan", skip_check_array=True
        )
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        by_type = self.categorical_features is None
        self.models_ = [
            HistGradientBoostingRegressor(
                loss="quantile",
                quantile=level,
                learning_rate=self.learning_rate,
                max_iter=self.max_iter,
                max_leaf_nodes=self.max_leaf_nodes,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2_regularization,
                categorical_features="from_dtype" if by_type else self.categorical_features,
                early_stopping=self.patience is not None,
                n_iter_no_change=self.patience or 10,
                validation_fraction=self.validation_fraction,
                random_state=seed,
            ).fit(X, y)
            for level in levels
        ]
        self.n_iter_ = np.array([model.n_iter_ for model in self.models_])
        return self

    def predict(self, X) -> np.ndarray:
        """Return the mean of :meth:`predict_dist` for each row of X, Float[n]."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> QuantileGrid:
        """Return the quantiles of each row of X, Float[n, d] or data frame."""
        check_is_fitted(self)
        values = np.column_stack([model.predict(X) for model in self.models_])
        return QuantileGrid(np.array(self.levels), values)

    def __sklearn_tags__(self):
        """Return the tags; missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


Family = Literal["normal", "lognormal", "laplace", "gamma", "exponential"]
"""Family of :class:`NaturalGradientBoosting`."""
_SINGLE_WORDS = ("normal", "laplace", "gamma", "exponential")
_NGBOOST_NAMES = {"lognormal": "LogNormal"} | {word: word.capitalize() for word in _SINGLE_WORDS}


class NaturalGradientBoosting(RegressorMixin, BaseEstimator):
    """NGBoost: boosted trees for the parameters of a family, by natural gradients.

    The trees are fitted by the package ngboost (``pip install ngboost``). A fitted model needs it
    no longer, and is written to a file without it.

    Parameters
    ----------
    family : {"normal", "lognormal", "laplace", "gamma", "exponential"}, default="normal"
        Family of the outcome. All but "normal" and "laplace" need outcomes above 0.
    n_estimators : int, default=500
        Largest number of rounds; a round has a tree for each parameter of the family.
    learning_rate : float, default=0.04
        Factor of each tree.
    max_depth : int, default=3
        Depth of the trees.
    min_samples_leaf : int, default=1
        Smallest number of rows in a leaf.
    row_fraction, column_fraction : float in (0, 1], default=1
        Fractions of the training rows and of the features that each round draws.
    patience : int or None, default=20
        Number of rounds without a lower loss on held-out training rows after which boosting stops;
        the rounds up to the lowest loss are used. None: all rounds are, on all rows.
    validation_fraction : float, default=0.1
        Fraction of the training rows that is held out.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows, of the draws and of the trees.

    Attributes
    ----------
    offset_, unit_ : float, float
        The trees predict the distribution of (y - offset_)/unit_: y in units of its own spread, or
        of its mean if outcomes are positive.
    initial_ : Float[p]
        Parameters of the family before the first round.
    trees_ : list of list of DecisionTreeRegressor
        The p trees of each round.
    columns_ : list of (Int[m] or None)
        Features of the trees of each round; None for all.
    steps_ : Float[r]
        Step of each round, the learning rate times the result of a line search.

    Notes
    -----
    The parameters of "normal" and "laplace" are location and logarithm of the scale, those of
    "lognormal" the same of log y, those of "gamma" the logarithms of shape and rate, that of
    "exponential" the logarithm of the mean (Duan et al. 2020, Algorithm 1: θ = θ₀ - Σ η ρ f(x)).
    Outcomes may have any unit, see ``unit_``.

    References
    ----------
    Duan, Avati, Ding, Thai, Basu, Ng and Schuler, "NGBoost: natural gradient boosting for
    probabilistic prediction", ICML 2020.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] + (0.1 + X[:, 0]) * rng.normal(size=2000)
    >>> model = NaturalGradientBoosting(random_state=0).fit(X, y)  # doctest: +SKIP
    >>> np.sqrt(model.predict_dist([[0.1], [0.9]]).var()).round(1).tolist()  # doctest: +SKIP
    [0.2, 1.0]
    """

    def __init__(
        self,
        *,
        family: Family = "normal",
        n_estimators: Count = 500,
        learning_rate: Positive = 0.04,
        max_depth: Count = 3,
        min_samples_leaf: Count = 1,
        row_fraction: Fraction = 1.0,
        column_fraction: Fraction = 1.0,
        patience: Count | None = 20,
        validation_fraction: OpenFraction = 0.1,
        random_state: Any = None,
    ):
        self.family: Family = family
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.row_fraction = row_fraction
        self.column_fraction = column_fraction
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state

    def fit(self, X, y):
        """Fit the trees.

        Parameters
        ----------
        X : Float[n, d]
            Training rows; NaN is a missing value.
        y : Float[n]
            Outcomes.

        Returns
        -------
        self : NaturalGradientBoosting

        Raises
        ------
        ParameterError
            If ngboost is not installed, or an outcome is not above 0 where the family needs it.
        """
        check_parameters(self)
        try:
            from ngboost import NGBRegressor, distns
        except ImportError as error:
            raise ParameterError("parent=ngboost needs ngboost: pip install ngboost") from error
        X, y = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        y = np.asarray(y, dtype=np.float64)
        if self.family not in ("normal", "laplace"):
            y = check_positive_targets(y, f"{type(self).__name__}(family={self.family!r})")
        # The trees of scikit-learn do not split gradients that are very small or all but equal, so
        # outcomes are in units of their own spread.
        is_located = self.family in ("normal", "laplace")
        self.offset_ = float(y.mean()) if is_located else 0.0
        self.unit_ = float(y.std() if is_located else y.mean()) or 1.0
        y = (y - self.offset_) / self.unit_
        if y.min() == y.max() and self.family != "exponential":
            self.initial_ = self._narrowest_parameters()
            self.trees_, self.steps_, self.columns_ = [], np.empty(0), []
            return self
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        booster = NGBRegressor(
            Dist=getattr(distns, _NGBOOST_NAMES[self.family]),
            Base=DecisionTreeRegressor(
                max_depth=self.max_depth,
                min_samples_leaf=self.min_samples_leaf,
                random_state=seed,
            ),
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            minibatch_frac=self.row_fraction,
            col_sample=self.column_fraction,
            verbose=False,
            random_state=seed,
        )
        if self.patience is None or len(y) < 2:
            booster.fit(X, y)
            n_rounds = len(booster.base_models)
        else:
            X_train, X_held_out, y_train, y_held_out = train_test_split(
                X, y, test_size=self.validation_fraction, random_state=seed
            )
            booster.fit(
                X_train, y_train, X_held_out, y_held_out, early_stopping_rounds=self.patience
            )
            n_rounds = booster.best_val_loss_itr + 1
        # What ngboost predicts from is kept, not its object, which refers to functions.
        self.initial_ = np.asarray(booster.init_params, dtype=np.float64)
        self.trees_ = [list(trees) for trees in booster.base_models[:n_rounds]]
        self.steps_ = self.learning_rate * np.array(booster.scalings[:n_rounds], dtype=np.float64)
        all_columns = np.arange(X.shape[1])
        self.columns_ = [
            None if np.array_equal(columns, all_columns) else np.asarray(columns)
            for columns in booster.col_idxs[:n_rounds]
        ]
        return self

    def predict(self, X) -> np.ndarray:
        """Return the mean of :meth:`predict_dist` for each row of X, Float[n]."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Normal | ScipyFamily:
        """Return the distributions of the family for each row of X, Float[n, d]."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        parameters = np.tile(self.initial_[:, None], len(X))
        for trees, step, columns in zip(self.trees_, self.steps_, self.columns_, strict=True):
            used = X if columns is None else X[:, columns]
            for parameter, tree in zip(parameters, trees, strict=True):
                parameter -= step * tree.predict(used)
        return self._distribution(parameters)

    def _narrowest_parameters(self) -> np.ndarray:
        """Return the parameters Float[2] for equal outcomes, of which no scale has a likelihood.

        The standard deviation is the resolution of float64, and of "gamma" a millionth of the mean,
        as of :class:`~kdgraph.parents.GaussianLinear` and :class:`~kdgraph.parents.GammaGlm`.
        """
        if self.family == "gamma":
            return np.full(2, np.log(MAX_GAMMA_SHAPE))
        size = 1.0 if self.family == "lognormal" else max(abs(self.offset_), 1.0)
        return np.array([0.0, np.log(np.finfo(np.float64).eps * size)])

    def _distribution(self, parameters: np.ndarray) -> Normal | ScipyFamily:
        """Return the distributions with parameters Float[p, n], as ngboost defines them."""
        first, unit = parameters[0], self.unit_
        if self.family == "exponential":
            return ScipyFamily("expon", {"scale": unit * np.exp(first)})
        second = np.exp(parameters[1])
        if self.family == "normal":
            return Normal(self.offset_ + unit * first, unit * second)
        if self.family == "laplace":
            location = self.offset_ + unit * first
            return ScipyFamily("laplace", {"loc": location, "scale": unit * second})
        if self.family == "lognormal":
            return ScipyFamily("lognorm", {"s": second, "scale": unit * np.exp(first)})
        return ScipyFamily("gamma", {"a": np.exp(first), "scale": unit / second})

    def __sklearn_tags__(self):
        """Return the tags; missing values are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.positive_only = self.family not in ("normal", "laplace")
        return tags
