"""Base classes of the estimators that are fitted after a parent.

Calibrators, detectors and recalibrators repair or extend the outputs of a *parent*, a classifier or
regressor. They need outputs for rows that the parent has not seen. :class:`PostHoc` holds
calibration rows out or computes outputs without each row, and clones and fits the parent, or uses a
frozen one unchanged; :class:`~kdgraph.base.validation.MetaEstimator` checks the parent and
validates the rows. :class:`PostHocClassifier` adds what calibrators need: labels as positions among
the parent's classes, the class prior, sample weights, subgroups, hold-out and folds by class, and
class probabilities of training rows that were computed without each row. Original to kdgraph; the
conventions are those of scikit-learn's ``CalibratedClassifierCV``.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import ClassifierMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kdgraph.base.frozen import (
    is_frozen_and_trained,
    last_step,
    skip_row_checks,
    transform_for_last_step,
    unwrap_frozen,
    user_stacklevel,
    warn_calibration_rows_seen,
    warn_fit_rows_calibrate,
)
from kdgraph.base.held_out import hold_rows_out
from kdgraph.base.rows import (
    CrossFitted,
    CrossFittedOutputs,
    OutOfBag,
    Rows,
    StoredOutputs,
    UnseenRows,
    are_equal_rows,
    draw_folds_of_rows,
    row_signatures,
    unseen_rows,
)
from kdgraph.base.validation import (
    MetaEstimator,
    check_per_row,
    check_weights,
    select_rows,
    warn_precision_loss,
)
from kdgraph.errors import DataError
from kdgraph.parameters import CalibrationMode, OpenFraction, check_parameters


@dataclass(eq=False, repr=False)
class PostHoc(MetaEstimator):
    """Base class of estimators that are fitted after a parent, on rows new to the parent.

    A subclass is a dataclass whose fields are its parameters (or has an ``__init__`` that stores
    them), and implements ``_fit_after(train, calibration)``. ``estimator`` is cloned and fitted on
    the training rows, even if it is fitted already; ``FrozenEstimator(fitted)`` is used unchanged.

    Calibration rows must be new to the parent. For an estimator that is fitted here,
    ``calibration_size`` of the rows are held out, unless ``X_calibration`` is passed to ``fit``.
    After a frozen estimator the user has to pass them::

        fit(X, y, X_calibration=X_held_out, y_calibration=y_held_out)

    Without ``X_calibration``, the rows of ``fit`` count as rows that the frozen parent was not
    fitted on, and all of them calibrate, as in scikit-learn's ``CalibratedClassifierCV``. A
    component that also needs training rows, such as a density or the reference of a detector, is
    fitted on ``1 - calibration_size`` of them. A warning mentions this, and also mentions if the
    parent has seen the rows, as far as that can be found out.

    No row has to be held out if ``calibration`` is "oob" or "cross_fit": the parent is fitted on
    all rows, and each row calibrates with outputs that were computed without it, by its out-of-bag
    trees or by a parent that was fitted on the other folds. A frozen parent must then have been
    fitted on the rows of ``fit``, in their order, which is checked for "oob"; for "cross_fit",
    clones of it are fitted on the folds, unless it is a :class:`~kdgraph.base.CrossFitted`. A
    parent that is itself fitted after another one, such as the calibrator behind a gate, calibrates
    in the same way.

    Parameters
    ----------
    estimator : estimator
        The parent. It is cloned and fitted, unless frozen.
    calibration_size : float in (0, 1), default=0.3
        Fraction of the rows to hold out if no calibration rows are passed to ``fit``. After a
        frozen estimator, pass rows that it was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : int, RandomState or None, default=None
        Seed of the hold-out or of the folds, and of the parent if it has no seed.
    calibration : {"held_out", "oob", "cross_fit"}, default="held_out"
        Source of the outputs that calibrate, see :data:`~kdgraph.parameters.CalibrationMode`. "oob"
        needs a forest with ``bootstrap=True``.
    cv : int, cross-validator or iterable, default=5
        Folds of "cross_fit": their number, a cross-validator of scikit-learn, or pairs of training
        and test positions. With 1, ``calibration_size`` of the rows calibrate, predicted by a
        parent that is fitted on the others, and the final parent is fitted on all rows: the
        cheapest way, with two fits.

    Attributes
    ----------
    estimator_ : estimator
        The fitted parent.
    calibration_ : {"held_out", "oob", "cross_fit"}
        Source of the outputs that calibrated.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> @dataclass(eq=False, repr=False)
    ... class RowCounter(PostHoc):
    ...     def _fit_after(self, train, calibration):
    ...         self.n_rows_ = len(train), len(calibration)
    ...
    ...     def fit(self, X, y):
    ...         rows = Rows.unweighted(*self._validate_rows(X, y, reset=True))
    ...         train, calibration = self._split_rows(rows, None, None, self.random_state)
    ...         self.estimator_ = self._fit_parent(self.estimator, train, calibration, 0)
    ...         self._fit_after(train, calibration)
    ...         return self
    >>> X, y = np.arange(20.0)[:, None], np.arange(20) % 2
    >>> RowCounter(LogisticRegression(), random_state=0).fit(X, y).n_rows_
    (14, 6)
    """

    _: KW_ONLY
    calibration_size: OpenFraction = 0.3
    random_state: Any = None
    calibration: CalibrationMode = "held_out"
    cv: Any = 5

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        """Fit what comes after ``estimator_``, which is fitted before this call."""
        raise NotImplementedError

    def _needs_unseen_rows(self) -> bool:
        """Return whether calibration rows that the parent was fitted on would distort the fit."""
        return True

    def _requires_training_rows(self) -> bool:
        """Return whether :meth:`_fit_after` needs training rows that are not calibration rows."""
        return False

    def _split_rows(
        self, rows: Rows, X_calibration: Any, y_calibration: Any, random_state: Any
    ) -> tuple[Rows, Rows]:
        """Return training and calibration rows, or raise DataError if no row can be held out.

        If calibration rows are passed, all ``rows`` are training rows. Otherwise some of ``rows``
        are held out. All rows have both roles after a frozen parent, unless training rows are
        required; and if they calibrate with outputs that are computed without each row, which
        :meth:`_add_unseen_outputs` adds.
        """
        self.calibration_: CalibrationMode = self._calibration_mode(
            X_calibration is not None, rows.X
        )
        if self.calibration_ != "held_out":
            if X_calibration is not None or y_calibration is not None:
                raise ValueError(
                    f"calibration={self.calibration_!r} calibrates on the training rows; leave out"
                    " X_calibration and y_calibration, or use calibration='held_out'"
                )
            return rows, rows
        # Rows that the parent was trained on do not show its errors on new rows. So the function
        # prefers rows that it has certainly not seen, and warns if the caller's rows may be seen.
        parent = self._default_estimator() if self._needs_unseen_rows() else None
        name, is_frozen = type(self).__name__, is_frozen_and_trained(parent)
        if X_calibration is not None:
            calibration = self._validate_calibration_rows(X_calibration, y_calibration)
            if is_frozen:
                warn_calibration_rows_seen(parent, name, calibration.X)
            return rows, calibration
        if y_calibration is not None:
            raise ValueError("y_calibration needs X_calibration")
        if is_frozen:
            warn_fit_rows_calibrate(parent, name, rows.X, self._parent_targets(rows))
        if isinstance(parent, FrozenEstimator) and not self._requires_training_rows():
            return rows, rows
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        train_index, calibration_index = self._hold_out(rows, seed)
        return rows[train_index], rows[calibration_index]

    def _hold_out(self, rows: Rows, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Return positions of training and of held-out rows, Int[n - m] and Int[m]."""
        return hold_rows_out(len(rows), self._strata(rows), self.calibration_size, seed)

    def _take_parent_of(self, other: PostHoc) -> None:
        parent = other.estimator_
        self.estimator = parent if isinstance(parent, FrozenEstimator) else FrozenEstimator(parent)
        self._check_parent()
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(other, name):
                setattr(self, name, getattr(other, name))
        self.estimator_, self.calibration_ = self.estimator, other.calibration_

    def _calibration_mode(self, has_calibration_rows: bool, X: Any) -> CalibrationMode:
        return self.calibration

    def _add_unseen_outputs(self, rows: Rows, parent: Any, *, always: bool = False) -> Rows:
        """Return calibration rows with outputs of the parent that are computed without each row.

        Rows that were held out are returned unchanged, and so are others unless ``always`` if this
        estimator does not need the outputs. ``parent`` is the parent before the fit of
        ``estimator_``, whose clones are fitted on the folds. If it is no bagged forest, or was
        fitted on other rows, DataError is raised.
        """
        if self.calibration_ == "held_out" or not (always or self._needs_unseen_rows()):
            return rows
        fitted = last_step(self.estimator_)
        all_rows = np.arange(len(rows))
        if hasattr(fitted, "_out_of_sample_outputs") and not isinstance(parent, CrossFitted):
            inner = replace(rows, X=transform_for_last_step(self.estimator_, rows.X))
            source: Any = fitted._out_of_sample_outputs(inner)
            has_output = np.isfinite(source.proba).all(axis=1)
        elif self._unseen_source() == "oob":
            source = OutOfBag(self.estimator_, rows.X)
            has_output = source.has_trees
            if not has_output.any():
                raise DataError(
                    f"no row is out of bag in any of the {len(fitted.estimators_)} trees; use more"
                    " trees, or calibration='cross_fit'"
                )
        else:
            source = self._cross_fit(rows, parent)
            has_output = source.fold >= 0
        rows = replace(rows, unseen=UnseenRows(source, all_rows))
        return rows if has_output.all() else rows[has_output]

    def takes_out_of_bag_outputs(self) -> bool:
        """Return whether ``calibration="oob"`` needs a parent that is a bagged forest."""
        return self._needs_unseen_rows()

    def _unseen_source(self) -> CalibrationMode:
        return self.calibration_

    def _check_reads(self, rows: Rows) -> None:
        """Raise an error if a fit to training rows did not take the outputs without each row.

        A component that takes those of ``estimator_`` would be calibrated on memorised rows.
        """
        if rows.unseen is not None and not rows.unseen.reads:
            raise TypeError(
                f"{type(self).__name__} does not support calibration={self.calibration_!r}: its"
                " _fit_after must read the parent by calibration.predict(self.estimator_), or"
                " calibration.apply; use calibration='held_out'"
            )

    def _cross_fit(self, rows: Rows, parent: Any) -> CrossFittedOutputs:
        """Return the outputs of parents that are fitted on all folds but one."""
        if isinstance(parent, CrossFitted) and parent.fold is not None:
            if len(parent.fold) != len(rows):
                raise ValueError(
                    f"the folds of the CrossFitted parent have {len(parent.fold)} rows, fit got"
                    f" {len(rows)}; pass the rows that it was fitted on"
                )
            fold, fitted = parent.fold, parent.fold_estimators
        else:
            fold = draw_folds_of_rows(
                len(rows), self.cv, self._strata(rows), self.random_state, self.calibration_size
            )
            fitted = self._fit_fold_parents(rows, parent, fold)
        return CrossFittedOutputs(fitted, fold, rows.X, self._class_labels(), select_rows)

    def _fit_fold_parents(self, rows: Rows, parent: Any, fold: np.ndarray) -> Sequence[Any]:
        unfitted, n_folds = unwrap_frozen(parent), int(fold.max()) + 1
        if self.calibration_ == "oob" and unfitted is not None:
            warnings.warn(
                f"{type(self).__name__} cannot go out of bag behind {type(unfitted).__name__}:"
                f" calibration='oob' fits it {n_folds} more times, on folds, as 'cross_fit' does",
                stacklevel=user_stacklevel(),
            )
        return [
            self._fit_parent(unfitted, rows[fold != f], None, self.random_state)
            for f in range(n_folds)
        ]

    def _strata(self, rows: Rows) -> np.ndarray | None:
        """Return the classes by which folds and held-out rows are drawn, Int[n], or None."""
        return None

    def _class_labels(self) -> np.ndarray | None:
        """Return the labels that the parent predicts probabilities of, or None."""
        return None

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        if y is None and self._needs_labels():
            raise ValueError("X_calibration needs y_calibration")
        return Rows.unweighted(*self._validate_rows(X, y))

    def _fit_parent(
        self, parent: Any, train: Rows, calibration: Rows | None, random_state: Any
    ) -> Any:
        """Return ``parent`` if it is frozen, otherwise a fitted clone.

        The calibration rows, if there are any, are passed to a parent that takes them.
        """
        if isinstance(parent, FrozenEstimator):
            check_is_fitted(parent)
            # The parents of the folds are needed by the fit only, not by predictions.
            return FrozenEstimator(parent.estimator) if isinstance(parent, CrossFitted) else parent
        kwargs: dict[str, Any] = sample_weight_kwargs(parent, train.weight)
        if self.calibration_ != "held_out":
            # What is fitted before this estimator, such as the calibrator behind a gate, has no
            # other calibration rows either.
            if isinstance(last_step(parent), PostHoc):
                prefix = pipeline_prefix(parent)
                parent = clone(parent).set_params(
                    **{f"{prefix}calibration": self.calibration_, f"{prefix}cv": self.cv}
                )
        elif (
            calibration is not None and "X_calibration" in inspect.signature(parent.fit).parameters
        ):
            kwargs |= {
                "X_calibration": calibration.X,
                "y_calibration": self._parent_targets(calibration),
            }
        fitted = seeded_clone(parent, random_state).fit(
            train.X, self._parent_targets(train), **kwargs
        )
        warn_precision_loss(type(self).__name__, fitted, train.X)
        return fitted

    def _parent_targets(self, rows: Rows) -> Any:
        """Return the targets that the parent is fitted with, [n]."""
        return rows.y


def sample_weight_kwargs(estimator: Any, weight: np.ndarray) -> dict[str, np.ndarray]:
    """Return the keyword arguments of ``estimator.fit`` for sample weights, none if all are 1.

    The weights, Float[n], of a pipeline are for its last step. With metadata routing of
    scikit-learn enabled, the steps of the pipeline request them.
    """
    if (weight == 1).all():
        return {}
    if get_config()["enable_metadata_routing"]:
        return {"sample_weight": weight}
    names = []
    while isinstance(estimator, Pipeline):
        last_name, estimator = estimator.steps[-1]
        names.append(last_name)
    return {"__".join([*names, "sample_weight"]): weight}


def pipeline_prefix(estimator: Any) -> str:
    """Return the prefix of the parameters of the last step of any pipelines, such as "svc__"."""
    prefix = ""
    while isinstance(estimator, Pipeline):
        name, estimator = estimator.steps[-1]
        prefix += f"{name}__"
    return prefix


def any_requires_training_rows(estimators: Iterable[Any]) -> bool:
    """Return whether any of the estimators, fitted after one parent, needs training rows."""
    return any(
        isinstance(estimator, PostHoc) and estimator._requires_training_rows()
        for estimator in estimators
    )


def seeded_clone(estimator: Any, random_state: Any) -> Any:
    """Return a clone whose unset random states are drawn from ``random_state``.

    One seed thus makes nested estimators reproducible.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> forest = RandomForestClassifier()
    >>> seeds = [seeded_clone(forest, 0).random_state for _ in range(2)]
    >>> forest.random_state is None, seeds[0] == seeds[1]
    (True, True)
    """
    copy, rng = clone(estimator), check_random_state(random_state)
    # Sorted, so that the seeds do not depend on the order in which parameters are listed.
    unset = {
        name: rng.randint(np.iinfo(np.int32).max)
        for name, value in sorted(copy.get_params().items())
        if name.split("__")[-1] == "random_state" and value is None
    }
    return copy.set_params(**unset) if unset else copy


@dataclass(eq=False, repr=False)
class PostHocClassifier(ClassifierMixin, PostHoc):
    """Base class of classifiers that are fitted after a parent with ``predict_proba``.

    A subclass implements ``_fit_after(train, calibration)`` and ``predict_proba``. Rows, held-out
    rows and parents are handled by :class:`~kdgraph.base.PostHoc`, in the way of scikit-learn's
    ``CalibratedClassifierCV`` with ``FrozenEstimator``.

    Parameters
    ----------
    estimator : classifier with ``predict_proba``
        The parent. It is cloned and fitted, unless frozen.

    Attributes
    ----------
    estimator_ : estimator
        The fitted parent.
    classes_ : ndarray of shape [K]
        Labels, sorted.
    prior_ : Float[K]
        Class frequencies of the training rows.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> @dataclass(eq=False, repr=False)
    ... class PriorMixture(PostHocClassifier):
    ...     def _fit_after(self, train, calibration):
    ...         self.weight_ = 0.5
    ...
    ...     def predict_proba(self, X):
    ...         proba = self.estimator_.predict_proba(self._validate_X(X))
    ...         return self.weight_ * proba + (1 - self.weight_) * self.prior_
    >>> X, y = np.arange(20.0)[:, None], np.array(["low", "high"])[np.arange(20) // 10]
    >>> model = PriorMixture(LogisticRegression(), random_state=0).fit(X, y)
    >>> model.predict([[0.0], [19.0]]).tolist(), model.prior_.tolist()
    (['low', 'high'], [0.5, 0.5])
    """

    required_method: ClassVar = "predict_proba"
    takes_groups: ClassVar = False
    """True if the estimator uses subgroups. ``fit`` and the prediction methods then take the
    subgroup of each row.
    """

    def _needs_many_rows(self) -> bool:
        """Return whether few calibration rows can make predicted probabilities 0 or 1."""
        return False

    def fit(
        self,
        X,
        y,
        sample_weight=None,
        *,
        X_calibration=None,
        y_calibration=None,
        sample_weight_calibration=None,
        groups=None,
        groups_calibration=None,
    ):
        """Fit the parent on training rows and what comes after it on calibration rows.

        After a frozen parent, pass ``X_calibration`` and ``y_calibration``, rows that it was not
        fitted on, in addition to its training rows X and y. Without them, X and y count as rows
        that it was not fitted on, and calibrate, with a warning.

        Parameters
        ----------
        X : Float[n, d], images Float[n, c, h, w] or DataFrame
            Training rows, of which some are held out if no calibration rows are passed.
        y : array of shape [n]
            Labels.
        sample_weight : Float[n], default=None
            Weights of the rows of X, also of those that are held out. A row of weight 0 is left
            out. The parent gets the weights unchanged. What is fitted after it gets them divided by
            their mean, so that a common factor changes nothing: rows weigh 1 on average wherever a
            row is compared with a pseudo-count, a penalty or a number of rows.
        X_calibration : array or DataFrame, default=None
            Calibration rows, m rows like those of X.
        y_calibration : array of shape [m], default=None
            Labels of ``X_calibration``.
        sample_weight_calibration : Float[m], default=None
            Weights of ``X_calibration``, treated like ``sample_weight``. They can correct for
            label shift, with a weight for each class.
        groups, groups_calibration : array of shape [n] and [m], default=None
            Subgroup of each row. They are only used if :attr:`takes_groups`.

        Raises
        ------
        TypeError
            If the parent does not predict probabilities.
        ValueError
            For infinite features; for NaN, unless the parent takes it, and imputes it if distances
            are measured; for a single class; for calibration labels that are not among the training
            labels; for weights without their rows, or below 0; for groups whose number is not that
            of the rows.
        """
        check_parameters(self)
        parent = self._check_parent()
        rows = self._validate_training_rows(X, y, sample_weight, groups)
        train, calibration = self._divide_rows(
            rows, X_calibration, y_calibration, sample_weight_calibration, groups_calibration
        )
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        self.estimator_ = self._fit_parent(parent, train, calibration, self.random_state)
        calibration = self._add_unseen_outputs(calibration, parent)
        # Held-out rows share the scale of the training rows they were split from. Calibration rows
        # that are passed have weights on a scale of their own, so each set is normalised alone.
        with skip_row_checks():
            if X_calibration is None:
                self._fit_after(*_normalise_weights(train, calibration))
            else:
                self._fit_after(*_normalise_weights(train), *_normalise_weights(calibration))
        self._check_reads(calibration)
        self._keep_cross_fitted_proba(train, calibration)
        return self

    def _validate_training_rows(self, X: Any, y: Any, sample_weight: Any, groups: Any) -> Rows:
        """Return the rows of weight above 0, with positions in ``classes_`` as labels."""
        X, y = self._validate_rows(X, y, reset=True)
        check_classification_targets(y)
        weight = check_weights(sample_weight, X)
        group = None if groups is None else check_per_row("groups", groups, len(X))
        rows = _drop_zero_weights(Rows(X, y, weight, group))
        self.classes_ = self._classes_of(rows.y)
        return replace(rows, y=np.searchsorted(self.classes_, rows.y))

    def _divide_rows(
        self,
        rows: Rows,
        X_calibration: Any,
        y_calibration: Any,
        sample_weight_calibration: Any,
        groups_calibration: Any,
    ) -> tuple[Rows, Rows]:
        train, calibration = self._split_rows(rows, X_calibration, y_calibration, self.random_state)
        if groups_calibration is not None:
            calibration = replace(
                calibration,
                group=check_per_row("groups_calibration", groups_calibration, len(calibration)),
            )
        if sample_weight_calibration is not None:
            calibration = _drop_zero_weights(
                self._set_weights(calibration, sample_weight_calibration, X_calibration is not None)
            )
        return train, calibration

    def _keep_cross_fitted_proba(self, train: Rows, calibration: Rows) -> None:
        """Keep probabilities of the training rows that are computed without each row.

        The parents of the folds are not kept, but a gate behind this calibrator may need what they
        make of the training rows. Out-of-bag outputs can be computed again.
        """
        if self.calibration_ == "cross_fit" and self._predicts_rows() and calibration.unseen:
            self.out_of_sample_proba_ = np.full((len(train), len(self.classes_)), np.nan)
            self.out_of_sample_proba_[calibration.unseen.positions] = self._predict_rows(
                calibration
            )
            self.out_of_sample_rows_ = row_signatures(train.X)

    def fit_behind(self, other: PostHocClassifier, train: Rows, calibration: Rows) -> Self:
        """Fit a calibrator behind the fitted parent of another one, to validated rows of that one.

        This one gets the parent, classes and features of ``other``, which is fitted up to its
        parent.
        """
        check_parameters(self)
        self._take_parent_of(other)
        self.classes_ = other.classes_
        self.prior_ = train.one_hot(len(self.classes_)).sum(0) / train.weight.sum()
        with skip_row_checks():
            self._fit_after(*_normalise_weights(train), *_normalise_weights(calibration))
        return self

    def _out_of_sample_outputs(self, rows: Rows) -> StoredOutputs:
        """Return the probabilities of the training rows, computed without each row.

        ValueError is raised if these are not the rows of ``fit``, or have no such probabilities.
        """
        stored = getattr(self, "out_of_sample_proba_", None)
        if stored is not None and are_equal_rows(self.out_of_sample_rows_, row_signatures(rows.X)):
            return StoredOutputs(stored)
        if self.calibration_ != "oob" or not self._predicts_rows():
            name = type(self).__name__
            raise ValueError(
                f"{name} has no probabilities of these {len(rows)} rows that were computed without"
                f" each of them; fit {name} to the same rows with calibration='oob' or 'cross_fit'"
            )
        own = self._add_unseen_outputs(rows, FrozenEstimator(self.estimator_), always=True)
        proba = np.full((len(rows), len(self.classes_)), np.nan)
        proba[unseen_rows(own).positions] = self._predict_rows(own)
        return StoredOutputs(proba)

    def _predicts_rows(self) -> bool:
        return type(self)._predict_rows is not PostHocClassifier._predict_rows

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        """Return class probabilities, Float[m, K], of rows with outputs of the parent.

        It is :meth:`predict_proba` of the rows, but of training rows with outputs of the parent
        that were computed without each row.
        """
        raise NotImplementedError

    def _strata(self, rows: Rows) -> np.ndarray | None:
        return rows.y

    def _class_labels(self) -> np.ndarray | None:
        return self.classes_

    def predict(self, X) -> np.ndarray:
        """Return the label of the largest posterior for each row (Dey et al. 2023, Eq. 8).

        Parameters
        ----------
        X : Float[n, d], images or DataFrame
            Rows as in ``fit``.
        """
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def _classes_of(self, y: np.ndarray) -> np.ndarray:
        """Return the sorted classes: those of a frozen parent, otherwise those in ``y``."""
        labels = classes = np.unique(y)
        if isinstance(self.estimator, FrozenEstimator):
            check_is_fitted(self.estimator)
            classes = np.asarray(self.estimator.classes_)
            unknown = np.setdiff1d(labels, classes)
            if len(unknown):
                raise ValueError(
                    f"labels {unknown.tolist()} are not among the classes of the frozen parent,"
                    f" {classes.tolist()}"
                )
        if len(labels) < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least two classes, got one class:"
                f" {labels.tolist()}"
            )
        return classes

    def _set_weights(self, calibration: Rows, weight: Any, has_calibration_rows: bool) -> Rows:
        """Return the calibration rows with these weights, Float[m].

        Raises ValueError if the rows were held out of the training rows and have weights already.
        """
        if not has_calibration_rows:
            raise ValueError(
                "sample_weight_calibration needs X_calibration; rows that are held out keep their"
                " sample_weight"
            )
        return replace(calibration, weight=check_weights(weight, calibration.X))

    def _parent_targets(self, rows: Rows) -> np.ndarray:
        return self.classes_[rows.y]

    def _validate_calibration_rows(self, X: Any, y: Any) -> Rows:
        rows = super()._validate_calibration_rows(X, y)
        unknown = np.setdiff1d(rows.y, self.classes_)
        if len(unknown):
            raise ValueError(
                f"calibration labels {unknown.tolist()} are not among the training labels"
                f" {self.classes_.tolist()}"
            )
        return Rows.unweighted(rows.X, np.searchsorted(self.classes_, rows.y))


def _drop_zero_weights(rows: Rows) -> Rows:
    has_weight = rows.weight > 0
    return rows if has_weight.all() else rows[has_weight]


def _normalise_weights(*row_sets: Rows) -> list[Rows]:
    """Return the sets with all weights divided by one factor, so that their joint mean is 1."""
    weight = np.concatenate([rows.weight for rows in row_sets])
    # Dividing by the largest weight first keeps the sum finite and all its digits.
    largest = weight.max()
    mean = (weight / largest).mean()
    return [replace(rows, weight=rows.weight / largest / mean) for rows in row_sets]
