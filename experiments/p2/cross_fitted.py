"""The third approach of Salamon et al., Section VIII: calibrate by cross-validation on test rows.

``python -m experiments.p2.cross_fitted outputs`` after ``experiment=paper/p2/phanns_scores`` and
``experiment=paper/p2/phanns_rebuilt``. The paper fits to the test rows and measures on them; here
every calibrator of these runs is cross-fitted too, each protein by the fit to the other folds, and
both losses are set beside that of proteins that were not fitted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options
from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.p2 import phanns_scores
from experiments.p2.figures.curves import grid, with_scores
from experiments.p2.figures.study import SCORE_LABELS, Study, rows_at, study_of
from kdgraph.calibration.top_label import CrossFittedConfidence
from kdgraph.metrics import TopLabel, nll_top

MINIMAL = 0.01  # Share of an NLL up to which a bias is minimal; the paper has no number
# Gap of the confidence between folds from which a curve is unstable; the paper has no number.
UNSTABLE = 0.1
SEVERAL = 3  # Number of classes that are several
ROWS = {  # Experiment → name of its rows in texts
    phanns_scores.EXPERIMENT: "PhANNs, ten classes",
    phanns_scores.REBUILT: f"PhANNs, {phanns_scores.REBUILT_VARIANT}",
}


def losses(study: Study, draws: int) -> pd.DataFrame:
    """Return mean NLLs of fits to halves of the rows, a row for each draw and calibrator.

    Both halves are fitted and the other one is judged, so that all numbers of a draw are means over
    the same rows: the chance of a split cancels in their differences. ``in_sample`` and
    ``cross_fitted`` are of the fitted rows, by one fit and by the fits without their folds; ``new``
    is of the other half.
    """
    # Halves are alike in right and wrong rows of each predicted class: calibrators of a class with
    # few wrong rows depend on how many of them a half has.
    kinds = 2 * study.top_label.predicted + study.correct
    result = []
    for draw in range(draws):
        halves = train_test_split(
            np.arange(len(study.y)), test_size=0.5, stratify=kinds, random_state=draw
        )
        for fit, judge in (halves, halves[::-1]):
            for method, row in _fits(study, fit, judge).items():
                result.append({"draw": draw, "method": method, "n": len(fit), **row})
    frame = pd.DataFrame(result)
    return frame.groupby(["method", "draw"], sort=False, as_index=False).mean(numeric_only=True)


def _fits(study: Study, fit: np.ndarray, judge: np.ndarray) -> dict[str, dict[str, float]]:
    X, y = study.X[fit], study.y[fit]
    shared = {"X_calibration": X, "y_calibration": y}
    result = {}
    for method, model in study.models.items():
        if "calibrator" not in model.post_hoc:
            continue
        calibrator = model.post_hoc["calibrator"]
        # Classes without a curve, or with one that a warning names, are those of the figures.
        with warnings.catch_warnings(action="ignore"):
            plain = clone(calibrator).fit(X, y, **shared)
            crossed = cross_fit(model.parent, calibrator).fit(X, y, **shared)
        result[method] = {
            "in_sample": _nll(plain, X, y),
            "cross_fitted": crossed.nll_,
            "new": _nll(plain, study.X[judge], study.y[judge]),
        }
    return result


def cross_fit(parent: Any, calibrator: Any) -> CrossFittedConfidence:
    """Return an unfitted cross-fitted version of a calibrator of a run."""
    return CrossFittedConfidence(
        FrozenEstimator(parent), calibrator=clone(calibrator), random_state=0
    )


def _nll(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    top = TopLabel.from_proba(X)
    return nll_top(
        y, TopLabel(top.predicted, model.predict_confidence(X), top.n_classes), clip=1e-12
    )


def fits_to_all_rows(study: Study) -> dict[str, CrossFittedConfidence]:
    """Return the cross-fitted version of each calibrator of the runs, fitted to all rows."""
    result = {}
    for method, model in study.models.items():
        if "calibrator" in model.post_hoc:
            with warnings.catch_warnings(action="ignore"):
                result[method] = cross_fit(model.parent, model.post_hoc["calibrator"]).fit(
                    study.X, study.y, X_calibration=study.X, y_calibration=study.y
                )
    return result


def gaps(study: Study, crossed: CrossFittedConfidence) -> pd.Series:
    """Return the widest gap between the curves of the folds on each class, among its scores."""
    result = {}
    for name in with_scores(study):
        own = study.top_label.confidence[study.predicted_as(name)]
        scores = grid()
        scores = scores[(scores >= own.min()) & (scores <= own.max())]
        rows = rows_at(scores, study.classes.index(name), len(study.classes))
        curves = np.stack([each.predict_confidence(rows) for each in crossed.calibrators_])
        result[name] = float(np.ptp(curves, axis=0).max())
    return pd.Series(result)


def claims(rows: str, result: pd.DataFrame, apart: pd.Series | None) -> Iterator[Claim]:
    """Yield the claims on the bias of cross-validation, by method, and on its stability.

    They are on :func:`losses`, and on the :func:`gaps` of KDE(b_mon2), if it was run.
    """
    for method, group in result.groupby("method", sort=False):
        means = group[["in_sample", "cross_fitted", "new"]].mean()
        bias, in_sample = means.cross_fitted / means.new - 1, means.in_sample / means.new - 1
        weak = "; weak, in sample it is too" if abs(in_sample) < MINIMAL else ""
        yield Claim(
            f"{rows}: the cross-fitted NLL of {SCORE_LABELS[str(method)]} is less than"
            f" {MINIMAL:.0%} from that of new rows (Section VIII)",
            bool(abs(bias) < MINIMAL),
            f"{bias:+.1%}, in sample {in_sample:+.1%}; in sample"
            f" {number(float(means.in_sample), 4)}, cross-fitted"
            f" {number(float(means.cross_fitted), 4)}, new {number(float(means.new), 4)}; halves of"
            f" {group.n.mean():,.0f} rows, {len(group)} draws{weak}",
            ("cross_validation_bias",),
        )
    if apart is not None:
        wide = apart[apart > UNSTABLE]
        yield Claim(
            f"{rows}: curves of KDE(b_mon2) are more than {UNSTABLE:g} apart between folds at some"
            f" score of {SEVERAL} classes or more (Section VIII)",
            len(wide) >= SEVERAL,
            f"{len(wide)} of {len(apart)}; "
            + ", ".join(f"{name} {number(value)}" for name, value in apart.items()),
            ("cross_validation_unstable",),
        )


def table(study: Study, crossed: Mapping[str, CrossFittedConfidence]) -> str:
    """Return the NLL of fits to all rows in sample and cross-fitted, a row for each calibrator."""
    rows = []
    for method, model in crossed.items():
        calibrator = study.models[method].post_hoc["calibrator"]
        in_sample = _nll(calibrator, study.X, study.y)
        rows.append([SCORE_LABELS[method], number(in_sample, 4), number(float(model.nll_ or 0), 4)])
    return markdown_table(["calibrator", "in sample", "cross-fitted"], rows)


def main() -> None:
    """Print tables and verdicts of both row sets."""
    more = {"--draws": {"type": int, "default": 3, "help": "splits into halves"}}
    options = study_options(__doc__, outputs=True, keep=True, more=more)
    details: list[Claim] = []
    for experiment, rows in ROWS.items():
        study = study_of(options.outputs, experiment=experiment)
        if study is None:
            print(f"{rows}: no runs of {experiment}", file=sys.stderr)
            continue
        crossed = fits_to_all_rows(study)
        print(f"## {rows}: {len(study.y):,} rows\n\n{table(study, crossed)}\n", flush=True)
        apart = gaps(study, crossed["kde"]) if "kde" in crossed else None
        details += claims(rows, losses(study, options.draws), apart)
    print_claims(details, options.keep, "p2_cross_fitted")


if __name__ == "__main__":
    in_one_line(main)
