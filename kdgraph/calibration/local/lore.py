"""Local recalibration (LoRe, Luo et al. 2022).

The confidence of a row is a kernel-weighted accuracy of similar calibration rows in the same bin of
confidence. :class:`LocalRecalibration` calibrates the top label, :class:`LocalClassShares` full
rows of probabilities; :class:`LocalCalibrationMixin` chooses the bandwidth and the bins for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.validation import check_per_row, concatenate_rows
from kdgraph.calibration.groupwise import known_groups
from kdgraph.calibration.local.neighbours import (
    NO_GROUP,
    FeatureView,
    LocalKernel,
    Neighbours,
    QueryRows,
)
from kdgraph.calibration.top_label.base import TopLabelCalibrator, fill_rows, fills_rows
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel
from kdgraph.metrics.reliability_bins import Strategy, bin_edges
from kdgraph.parameters import Count, Positive
from kdgraph.smoothing import check_bandwidths
from kdgraph.smoothing.neighbours import draw_reference_rows

DEFAULT_BANDWIDTHS = (0.00625, 0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 12.8)
"""Candidates of γ for "cv": from a row's nearest neighbours to its whole bin."""
BINS = (1, 5, 15)
"""Candidates of the number of bins for "cv": no bins, and the two numbers of Luo et al."""


@dataclass(frozen=True)
class _BinTrial:
    """Leave-one-out squared errors, Float[b, n], and median n_eff, Float[b], of b bandwidths."""

    bins: int
    bandwidths: Sequence[float]
    error: np.ndarray
    n_eff: np.ndarray

    def brier(self, weight: np.ndarray) -> np.ndarray:
        return np.average(self.error, axis=1, weights=weight)


def _select_setting(
    trials: Sequence[_BinTrial], weight: np.ndarray, *, simplest: bool
) -> tuple[float, int]:
    """Return the bandwidth and the number of bins with the least Brier score.

    ``simplest``: among settings within one standard error of the least, those with the fewest bins,
    and of these the one with the most effective rows. Ties go to the first setting, which has the
    fewest bins and the widest bandwidth.
    """
    errors = np.concatenate([trial.error for trial in trials])
    settings = [(float(gamma), trial.bins) for trial in trials for gamma in trial.bandwidths]
    scores = np.average(errors, axis=1, weights=weight)
    least = int(scores.argmin())
    if not simplest:
        return settings[least]
    proportion = weight / weight.sum()
    standard_error = np.sqrt(np.sum((proportion * (errors[least] - scores[least])) ** 2))
    n_eff = np.concatenate([trial.n_eff for trial in trials])
    good_enough = np.flatnonzero(scores <= scores[least] + standard_error)
    return settings[min(good_enough, key=lambda i: (settings[i][1], -n_eff[i]))]


@dataclass(eq=False, repr=False)
class LocalCalibrationMixin:
    """Mixin of local calibrators: features, bins and bandwidth (around Luo et al., Eq. 6).

    The mixin precedes the calibrator in the bases of a subclass. The subclass implements
    ``_parent_output(proba)``, and its ``_fit_after`` calls ``_fit_neighbours``.

    The time of a prediction grows with the number of averaged rows, that of ``fit`` with its
    square, up to ``max_reference_rows``. With 50,000 rows, the NLL of the confidence changed by at
    most .010 on three data sets of 62,000 to 212,000 rows, about its standard error; with 20,000
    rows by .048 on MNIST.

    Parameters
    ----------
    features : FeatureMap or None, default=None
        Features in which distances are measured. None: twenty principal components of the parent's
        last hidden layer, of its leaves, or of the rows, whichever it has. The kernels "geodesic"
        and "group" do not use it.
    kernel : "laplacian", "gaussian", "geodesic" or "group", default="laplacian"
        Kernel that weights calibration rows; see
        :data:`~kdgraph.calibration.local.neighbours.LocalKernel`.
    bandwidth : float or "cv", default="cv"
        Bandwidth γ, in units of the feature map. "cv": the value of ``bandwidths`` with the least
        leave-one-out Brier score on the calibration rows.
    bandwidths : sequence of float, default=(0.00625, …, 3.2, 12.8)
        Candidates of "cv".
    bins : int or "cv", default=15
        Number of bins over [0, 1]; only rows in the same bin of confidence are averaged. "cv": 1, 5
        or 15, chosen with the bandwidth.
    strategy : "uniform" or "mass", default="uniform"
        Kind of the bins. "uniform": equal widths, as in the paper. "mass": equal numbers of
        calibration rows, as far as ties allow, so that no bin is left with one or two of them.
    choice : "best" or "simplest", default="best"
        Rule of "cv". "best": the least Brier score. "simplest": among the settings whose score is
        within one standard error of the least, those with the fewest bins, because the edge of a
        bin separates rows that are otherwise alike, and of these the one with the most effective
        rows (the rule of Breiman et al. 1984; the measure of simplicity is original to kdgraph).
    max_reference_rows : int or None, default=50000
        Largest number of calibration rows that are averaged. If there are more, so many are drawn
        at random, and bandwidth and bins are chosen on them. None for all rows, as in the paper.
        The kernel "group" always averages all rows, for which it needs no distances.
    n_jobs : int or None, default=None
        Number of threads, which does not change the result.

    Attributes
    ----------
    map_ : FeatureMap or None
        Fitted feature map.
    neighbours_ : Neighbours
        Calibration rows that are averaged.
    bandwidth_, bins_ : float and int
        Bandwidth γ and number of bins.
    brier_ : dict of int to ndarray of shape (b,), or None
        Brier score of each bandwidth, Float[b], by number of bins; None if nothing was chosen.
    groups_ : ndarray
        Sorted groups of the calibration rows, for the kernel "group".
    n_eff_ : float
        Median over calibration rows of the effective number of their neighbours.
    fallback_ : dict of str to int
        Number of calibration rows without a neighbour: ``bin``, where the mean of the bin is used,
        and ``confidence``, where the bin has no other row and the parent's confidence is used.
    """

    _: KW_ONLY
    features: FeatureMap | None = None
    kernel: LocalKernel = "laplacian"
    bandwidth: Positive | Literal["cv"] = "cv"
    bandwidths: Sequence[Positive] = DEFAULT_BANDWIDTHS
    bins: Count | Literal["cv"] = 15
    strategy: Strategy = "uniform"
    choice: Literal["best", "simplest"] = "best"
    max_reference_rows: Count | None = 50_000
    n_jobs: int | None = None

    if TYPE_CHECKING:  # members of the calibrator that follows in the bases
        estimator_: Any
        random_state: Any

        def _validate_X(self, X: Any) -> Any: ...
        def _validate_rows(self, X: Any) -> tuple[Any, ...]: ...

    @property
    def paper_protocol(self) -> str | None:
        """Name "transductive" if the feature map cannot transform new rows, else None.

        Test rows must then be among the rows of the fit.
        """
        return "transductive" if self._is_transductive else None

    @property
    def takes_groups(self) -> bool:
        """True if the kernel needs the group of each row."""
        return self.kernel == "group"

    def fit(self, X, y, sample_weight=None, *, X_test=None, **calibration):
        """Fit as :meth:`~kdgraph.base.PostHocClassifier.fit` does.

        ``X_test`` are rows to embed together with calibration rows, if the map is transductive.
        """
        self._rows_to_embed = X_test
        try:
            return super().fit(X, y, sample_weight, **calibration)  # pyright: ignore[reportAttributeAccessIssue] - of the calibrator
        finally:
            del self._rows_to_embed

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record; ``n_eff`` is a median over calibration rows."""
        return {
            "bandwidth": self.bandwidth_,
            "bins": self.bins_,
            "n_eff": self.n_eff_,
            "fallback": dict(self.fallback_),
        }

    def predict_n_eff(self, X, groups=None) -> np.ndarray:
        """Return the effective number of calibration rows, (Σw)² / Σw², Float[n]; 0 without any."""
        X = self._validate_X(X)
        return self._kernel_average(X, self.estimator_.predict_proba(X), groups)[1]

    @property
    def _is_transductive(self) -> bool:
        return (
            self.kernel in ("laplacian", "gaussian")
            and self.features is not None
            and self.features.is_transductive
        )

    def _parent_output(self, proba: np.ndarray) -> np.ndarray:
        """Return the output of the parent that is calibrated, Float[m] or Float[m, K]."""
        raise NotImplementedError

    def _fit_neighbours(self, rows: Rows, proba: np.ndarray, values: np.ndarray) -> None:
        """Fit to calibration rows with the parent's probabilities and values to average."""
        # The rows start in one bin over [0, 1]; _choose_setting tries other numbers of bins.
        values = np.asarray(values, dtype=np.float64)
        if not self.takes_groups:
            # The choice of a bandwidth takes a time that grows with the square of this number.
            used = draw_reference_rows(len(rows), self.max_reference_rows, self.random_state)
            rows, proba, values = rows[used], proba[used], values[used]
        self.map_ = self._fit_feature_map(rows.X)
        self.groups_ = np.empty(0)
        if self.takes_groups:
            method = f"{type(self).__name__} with kernel=group"
            missing = f"{method} needs the groups of the calibration rows: groups_calibration"
            self.groups_ = np.unique(known_groups(rows, method, missing))
        view = FeatureView(self.kernel, self.estimator_, self.map_)
        query = self._query_rows(rows.X, proba, rows.group, view)
        neighbours = Neighbours(
            self.kernel,
            query.features,
            values,
            query.confidence,
            rows.weight,
            bin_edges(query.confidence, 1, "uniform"),
            query.group,
            len(self.groups_),
        )
        self.neighbours_ = self._choose_setting(neighbours, query, view)
        _, n_eff, self.fallback_ = self.neighbours_.kernel_average(
            query, [self.bandwidth_], view, leave_one_out=True, n_jobs=self.n_jobs
        )
        self.n_eff_ = float(np.median(n_eff))

    def _choose_setting(
        self, neighbours: Neighbours, query: QueryRows, view: FeatureView
    ) -> Neighbours:
        """Choose bandwidth and bins, and return the rows in these bins."""
        # Wide bandwidths and few bins come first, because ties go to the first setting. All
        # bandwidths of the kernel "group" are equivalent: its distances are 0.
        gammas = (
            sorted(self.bandwidths, reverse=True)
            if self.bandwidth == "cv"
            else [float(self.bandwidth)]
        )
        check_bandwidths(gammas)
        gammas = gammas[:1] if self.kernel == "group" else gammas
        bins = BINS if self.bins == "cv" else (self.bins,)
        self.bandwidth_, self.bins_, self.brier_ = float(gammas[0]), bins[0], None
        if len(gammas) * len(bins) > 1:
            trials = [
                _BinTrial(
                    b,
                    gammas,
                    *self._leave_one_out_errors(
                        neighbours.with_bins(b, self.strategy), query, gammas, view
                    ),
                )
                for b in bins
            ]
            self.brier_ = {trial.bins: trial.brier(neighbours.weight) for trial in trials}
            self.bandwidth_, self.bins_ = _select_setting(
                trials, neighbours.weight, simplest=self.choice == "simplest"
            )
        return neighbours.with_bins(self.bins_, self.strategy)

    def _leave_one_out_errors(
        self, neighbours: Neighbours, query: QueryRows, gammas: Sequence[float], view: FeatureView
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return leave-one-out squared errors, Float[b, n], and median n_eff, Float[b]."""
        averages, n_eff, _ = neighbours.kernel_average(
            query, gammas, view, leave_one_out=True, n_jobs=self.n_jobs
        )
        squared = np.square(averages - neighbours.values)
        by_row = squared.reshape(len(gammas), len(neighbours.values), -1).sum(axis=2)
        return by_row, np.median(n_eff, axis=1)

    def _kernel_average(
        self, X: Any, proba: np.ndarray, groups: Any = None
    ) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
        """Return mean, n_eff and the number of fallbacks around each row of X."""
        view = FeatureView(self.kernel, self.estimator_, self.map_)
        query = self._query_rows(X, proba, groups, view)
        mean, n_eff, counts = self.neighbours_.kernel_average(
            query, [self.bandwidth_], view, n_jobs=self.n_jobs
        )
        return mean[0], n_eff[0], counts

    def _query_rows(self, X: Any, proba: np.ndarray, groups: Any, view: FeatureView) -> QueryRows:
        confidence = np.asarray(TopLabel.from_proba(proba).confidence, dtype=np.float64)
        return QueryRows(
            view(X),
            confidence,
            self._group_positions(groups, len(confidence)),
            self._parent_output(proba),
        )

    def _fit_feature_map(self, X: Any) -> FeatureMap | None:
        if self.kernel in ("geodesic", "group"):
            return None
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        map_ = clone(self.features) if self.features is not None else FeatureMap()
        if map_.random_state is None:
            map_.set_params(random_state=seed)
        if not self._is_transductive:
            return map_.fit(self.estimator_, X)
        if self._rows_to_embed is None:
            name = type(self).__name__
            raise ValueError(
                f"features.reduce={map_.reduce} knows no new rows: give {name}.fit the rows to"
                " predict as X_test, or use pca or umap"
            )
        return map_.fit(
            self.estimator_, concatenate_rows(X, self._validate_rows(self._rows_to_embed)[0])
        )

    def _group_positions(self, groups: Any, n: int) -> np.ndarray:
        """Return positions among ``groups_``, Int[n]; :data:`NO_GROUP` for other groups."""
        if not len(self.groups_):
            return np.zeros(n, dtype=np.intp)
        if groups is None:
            return np.full(n, NO_GROUP)
        groups = check_per_row("groups", groups, n)
        position = np.clip(np.searchsorted(self.groups_, groups), 0, len(self.groups_) - 1)
        return np.where(self.groups_[position] == groups, position, NO_GROUP)


@dataclass(eq=False, repr=False)
class LocalRecalibration(LocalCalibrationMixin, TopLabelCalibrator):
    """LoRe (Luo et al.): kernel-weighted accuracy of calibration rows in the same bin.

    Notes
    -----
    p̂'(x) = Σ k(x, xᵢ) 1[f(xᵢ) = yᵢ] / Σ k(x, xᵢ) over the calibration rows i in the bin of p̂(x)
    (Eq. 6). As γ → ∞ it is histogram binning, as γ → 0 the nearest neighbour in the bin (the
    paper's arg min k is arg max), and with the kernel "group" histogram binning group by group. A
    row without a neighbour in its bin has the accuracy of the bin; if the bin is empty, the
    parent's confidence.

    The paper fixes γ = 0.2 for t-SNE and 0.4 for principal components of features that it does not
    scale; here γ is in units of the features' spread. t-SNE cannot embed new rows: it embeds the
    rows of ``fit`` and those in ``X_test`` together, which happens with test rows only under
    ``protocol=paper``.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 4.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> parent = RandomForestClassifier(50, random_state=0)
    >>> model = LocalRecalibration(parent, kernel="geodesic", random_state=0).fit(X, y)
    >>> model.bandwidth_, model.predict_confidence(X[:2]).round(2)
    (12.8, array([0.98, 0.97]))
    """

    def predict_confidence(self, X, groups=None) -> np.ndarray:
        return self._predict_parts(X, groups)[2]

    def predict_top_label(self, X, groups=None) -> TopLabel:
        _, top_label, confidence = self._predict_parts(X, groups)
        return replace(top_label, confidence=confidence)

    @available_if(fills_rows)
    def predict_proba(self, X, groups=None) -> np.ndarray:
        return fill_rows(*self._predict_parts(X, groups))

    def _predict_parts(self, X: Any, groups: Any = None) -> tuple[np.ndarray, TopLabel, np.ndarray]:
        X = self._validate_X(X)
        proba = self.estimator_.predict_proba(X)
        accuracy, _, _ = self._kernel_average(X, proba, groups)
        return proba, TopLabel.from_proba(proba), np.clip(accuracy, 0.0, 1.0)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        proba = calibration.predict(self.estimator_)
        self._fit_neighbours(calibration, proba, TopLabel.from_proba(proba).correct(calibration.y))

    def _parent_output(self, proba: np.ndarray) -> np.ndarray:
        return np.asarray(TopLabel.from_proba(proba).confidence, dtype=np.float64)


@dataclass(eq=False, repr=False)
class LocalClassShares(LocalCalibrationMixin, PostHocClassifier):
    """LoRe for full rows: kernel-weighted class frequencies of calibration rows in the same bin.

    Unlike :class:`LocalRecalibration` it may predict another class than the parent. The Brier score
    that chooses bandwidth and bins is that of all classes.

    p̂'ₖ(x) = Σ k(x, xᵢ) 1[yᵢ = k] / Σ k(x, xᵢ) over the calibration rows i in the same bin of
    confidence, whatever their predicted class: Eq. 6 of Luo et al., UAI 2022, with labels in place
    of correctness. Original to kdgraph.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> parent = RandomForestClassifier(50, random_state=0)
    >>> model = LocalClassShares(parent, kernel="geodesic", random_state=0).fit(X, y)
    >>> model.predict_proba(X[:1]).sum().round(6)
    np.float64(1.0)
    """

    def predict_proba(self, X, groups=None) -> np.ndarray:
        """Return rows of probabilities that sum to 1, Float[n, K]; ``groups`` are [n]."""
        X = self._validate_X(X)
        average, _, _ = self._kernel_average(X, self.estimator_.predict_proba(X), groups)
        shares = np.clip(average, 0.0, 1.0)
        return shares / shares.sum(axis=1, keepdims=True)

    def predict(self, X, groups=None) -> np.ndarray:
        largest = self.predict_proba(X, groups).argmax(axis=1)
        return self.classes_[largest]

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self._fit_neighbours(
            calibration,
            calibration.predict(self.estimator_),
            np.eye(len(self.classes_))[calibration.y],
        )

    def _parent_output(self, proba: np.ndarray) -> np.ndarray:
        return proba
