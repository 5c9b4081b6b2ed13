"""Boosted trees that predict the distribution of an outcome.

- :class:`QuantileBoosting`: scikit-learn's gradient boosting for each of several quantiles.
- :class:`BoostedTreesRegressor`: the same by XGBoost, LightGBM or CatBoost.
- :class:`NaturalGradientBoosting`: trees for the parameters of a family (Duan et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from kdgraph.base.validation import check_single_precision, check_weights
from kdgraph.distributions import Normal, QuantileGrid, ScipyFamily
from kdgraph.errors import ParameterError
from kdgraph.extras import needs_library
from kdgraph.parameters import (
    Count,
    Fraction,
    NonNegative,
    OpenFraction,
    Positive,
    Range,
    check_parameters,
)
from kdgraph.parents.boosting import BoostedTrees
from kdgraph.parents.regressors import (
    MAX_GAMMA_SHAPE,
    QUANTILE_LEVELS,
    DistributionRegressor,
    check_positive_targets,
)

# Error of sums of leaves in single precision, in units of the spread of outcomes. On the table pol,
# of whose outcomes 62 % are 0, intervals of 95 % by XGBoost cover .80 of the test rows without this
# tolerance and .99 with it. A hundred times as large, it changes no digit.
_ROUNDING = 1e-6


def _check_levels(levels: Sequence[float]) -> list[float]:
    """Return levels as a list, or raise ParameterError if they are no two increasing numbers."""
    levels = [float(level) for level in levels]
    if len(levels) < 2 or not (np.diff(levels) > 0).all():
        raise ParameterError(f"levels must be at least two increasing numbers, got {levels}")
    return levels


@dataclass(eq=False, repr=False, kw_only=True)
class QuantileBoosting(DistributionRegressor):
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
    >>> narrow, wide = high - low  # about x log 9, which is 0.4 and 1.8
    >>> bool(wide > 2 * narrow)
    True
    """

    levels: Sequence[OpenFraction] = QUANTILE_LEVELS
    learning_rate: Positive = 0.1
    max_iter: Count = 300
    max_leaf_nodes: Annotated[int, Range(2)] = 31
    min_samples_leaf: Count = 20
    l2_regularization: NonNegative = 0.0
    patience: Count | None = 10
    validation_fraction: OpenFraction = 0.1
    categorical_features: Any = None
    random_state: Any = None

    def fit(self, X, y):
        """Fit a model for each level to rows X, Float[n, d] or a data frame, NaN where missing.

        Fewer than two levels, or levels that do not increase, raise ParameterError.
        """
        check_parameters(self)
        levels = _check_levels(self.levels)
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
                early_stopping=self.patience is not None and len(X) > 1,
                n_iter_no_change=self.patience or 10,
                validation_fraction=self.validation_fraction,
                random_state=seed,
            ).fit(X, y)
            for level in levels
        ]
        self.n_iter_ = np.array([model.n_iter_ for model in self.models_])
        return self

    def predict_dist(self, X) -> QuantileGrid:
        """Return the quantiles of each row of X, Float[n, d] or data frame."""
        check_is_fitted(self)
        values = np.column_stack([model.predict(X) for model in self.models_])
        return QuantileGrid(np.array(self.levels), values)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class BoostedTreesRegressor(DistributionRegressor, BoostedTrees):
    """Boosted trees of XGBoost, LightGBM or CatBoost that predict the quantiles of an outcome.

    Parameters
    ----------
    estimator : estimator
        ``xgboost.XGBRegressor()``, ``lightgbm.LGBMRegressor()`` or
        ``catboost.CatBoostRegressor()``. Its number of rounds is the largest possible, and its
        objective is replaced by the library's loss of quantiles.
    levels : sequence of float, default=deciles and tails
        Levels in (0, 1), at least two, increasing. The rows that choose the rounds are the same for
        all of them.

    Attributes
    ----------
    models_ : list of estimator
        The fitted models of the library: of LightGBM one for each level, of XGBoost and CatBoost
        one for all levels. Empty if all outcomes are equal.
    offset_, unit_ : float, float
        The models predict (y - offset_)/unit_, outcomes in units of their own spread.
    atoms_ : Float[p]
        Outcomes that two training rows or more have, increasing.

    Notes
    -----
    XGBoost grows a tree for each level in each round (``reg:quantileerror``) and CatBoost one tree
    with a value for each level in its leaves (``MultiQuantile``); both stop by the mean loss of all
    levels. LightGBM stops each level by its own loss. Quantiles that cross are sorted, see
    :class:`~kdgraph.distributions.QuantileGrid`, which also has the tails beyond the outer levels.
    XGBoost computes in single precision, and CatBoost's trees depend on the unit of the outcome,
    hence ``offset_`` and ``unit_``. A quantile that differs from one of ``atoms_`` by rounding is
    replaced by it: beside a value that many rows have, an interval would not contain it.

    References
    ----------
    Koenker, "Quantile regression", 2005, for the pinball loss.

    Examples
    --------
    >>> from lightgbm import LGBMRegressor  # doctest: +SKIP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(2000, 1))
    >>> y = X[:, 0] * rng.exponential(size=2000)
    >>> trees = LGBMRegressor(n_estimators=300, num_leaves=7)  # doctest: +SKIP
    >>> model = BoostedTreesRegressor(trees, random_state=0).fit(X, y)  # doctest: +SKIP
    >>> low, high = model.predict_dist([[0.2], [0.8]]).interval(0.8)  # doctest: +SKIP
    >>> (high - low).round(1).tolist()  # x log 9 is 0.4 and 1.8  # doctest: +SKIP
    [0.5, 1.5]
    """

    _library_classes = ("XGBRegressor", "LGBMRegressor", "CatBoostRegressor")

    levels: Sequence[OpenFraction] = QUANTILE_LEVELS

    def fit(self, X, y, sample_weight=None):
        """Fit the library's models on some rows, and choose their rounds on the others.

        Rows are Float[n, d], NaN where missing, and weights, Float[n], count in fit and validation.
        An ``estimator`` of no library that is known, and levels that are fewer than two or do not
        increase, raise ParameterError.
        """
        check_parameters(self)
        is_scikit_learn = isinstance(self.estimator, HistGradientBoostingRegressor)
        library = self._check_library("; use QuantileBoosting" if is_scikit_learn else "")
        levels = _check_levels(self.levels)
        X, y = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        weight = check_weights(sample_weight, X)
        y = np.asarray(y, dtype=np.float64)
        self.offset_, self.unit_ = float(y.mean()), float(y.std()) or 1.0
        values, counts = np.unique(y, return_counts=True)
        self.atoms_ = values[counts > 1]
        self.models_: list[Any] = []
        if y.min() == y.max():  # which CatBoost refuses
            self.offset_ = float(y[0])
            return self
        rng = check_random_state(self.random_state)
        is_validation = np.zeros(len(y), dtype=bool)
        is_validation[rng.permutation(len(y))[: int(self.validation_size * len(y))]] = True
        rows = X, (y - self.offset_) / self.unit_, weight
        self.models_ = [
            self._fit_library(clone(self.estimator).set_params(**loss), rows, is_validation, rng)
            for loss in _quantile_losses(library, self.estimator, levels)
        ]
        return self

    def predict_dist(self, X) -> QuantileGrid:
        """Return the quantiles of each row of X, Float[n, d]."""
        X = self._validate_X(X)
        levels = np.array(self.levels, dtype=np.float64)
        if not self.models_:
            return QuantileGrid(levels, np.full((len(X), len(levels)), self.offset_))
        rows = self.library_rows(X)
        columns = [model.predict(rows) for model in self.models_]
        values = self.offset_ + self.unit_ * np.column_stack(columns).astype(np.float64)
        return QuantileGrid(levels, self._snap_to_atoms(values))

    def _snap_to_atoms(self, values: np.ndarray) -> np.ndarray:
        """Return values of any shape, those that are atoms but for rounding replaced by them."""
        if not len(self.atoms_):
            return values
        above = np.searchsorted(self.atoms_, values).clip(1, len(self.atoms_) - 1)
        left, right = self.atoms_[above - 1], self.atoms_[above]
        nearest = np.where(values - left < right - values, left, right)
        return np.where(np.abs(values - nearest) <= _ROUNDING * self.unit_, nearest, values)


def _quantile_losses(library: str, estimator: Any, levels: list[float]) -> list[dict[str, Any]]:
    if library == "XGBRegressor":
        return [{"objective": "reg:quantileerror", "quantile_alpha": levels}]
    if library == "LGBMRegressor":
        return [{"objective": "quantile", "alpha": level} for level in levels]
    # Two names of one parameter exclude each other.
    name = "objective" if "objective" in estimator.get_params() else "loss_function"
    return [{name: f"MultiQuantile:alpha={','.join(map(repr, levels))}"}]


Family = Literal["normal", "lognormal", "laplace", "gamma", "exponential"]
"""Family of :class:`NaturalGradientBoosting`."""
_SINGLE_WORDS = ("normal", "laplace", "gamma", "exponential")
_NGBOOST_NAMES = {"lognormal": "LogNormal"} | {word: word.capitalize() for word in _SINGLE_WORDS}


@dataclass(eq=False, repr=False, kw_only=True)
class NaturalGradientBoosting(DistributionRegressor):
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

    family: Family = "normal"
    n_estimators: Count = 500
    learning_rate: Positive = 0.04
    max_depth: Count = 3
    min_samples_leaf: Count = 1
    row_fraction: Fraction = 1.0
    column_fraction: Fraction = 1.0
    patience: Count | None = 20
    validation_fraction: OpenFraction = 0.1
    random_state: Any = None

    def fit(self, X, y):
        """Fit the trees to rows X, Float[n, d], NaN where missing, and outcomes y, Float[n].

        ParameterError is raised if ngboost is not installed, or an outcome is not above 0 where the
        family needs it.
        """
        check_parameters(self)
        try:
            from ngboost import NGBRegressor, distns
        except ImportError as error:
            raise ParameterError(needs_library("parent=ngboost", "ngboost")) from error
        X, y = validate_data(
            self, X, y, y_numeric=True, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        check_single_precision(X, type(self).__name__)
        y = np.asarray(y, dtype=np.float64)
        is_located = self.family in ("normal", "laplace")
        if not is_located:
            y = check_positive_targets(y, f"{type(self).__name__}(family={self.family!r})")
        # The trees of scikit-learn do not split gradients that are very small or all but equal, so
        # outcomes are in units of their own spread.
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
        train, held_out = np.arange(len(y)), np.empty(0, dtype=int)
        if self.patience is not None and len(y) > 1:
            train, held_out = train_test_split(
                train, test_size=self.validation_fraction, random_state=seed
            )
        # Equal outcomes have no distribution to begin with.
        if not len(held_out) or np.ptp(y[train]) == 0:
            booster.fit(X, y)
            n_rounds = len(booster.base_models)
        else:
            validation = X[held_out], y[held_out]
            booster.fit(X[train], y[train], *validation, early_stopping_rounds=self.patience)
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
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.positive_only = self.family not in ("normal", "laplace")
        return tags
