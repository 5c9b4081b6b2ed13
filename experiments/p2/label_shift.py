"""Salamon et al., Section XIII B and conclusions: calibrated confidence under other class
frequencies.

``python -m experiments.p2.label_shift wideresnet-16-4-cifar-10.npz`` fits the calibrators on one
half of a record and tests them on the other half, whose rows count more or less by their true
class: P(x|y) is unchanged and P(y) changes. Another fit has the use-set's class frequencies:
calibration rows count as much as its rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from experiments.common.claims import Claim, save_claims, verdicts
from experiments.common.command import study_options
from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from experiments.common.titles import titles
from kdgraph.config import conf_dir
from kdgraph.config.catalogue import read_component
from kdgraph.config.components import build
from kdgraph.data.tables import ScoreFile
from kdgraph.metrics import TopLabel, brier_top, nll_top
from kdgraph.parents import PrecomputedScores

# Techniques that the paper compares; the record has the scores of all classes, so temperatures are
# among them.
METHODS = titles("p2", "label_shift")["methods"]
FACTORS = (0.25, 0.5, 2.0, 4.0)  # Factors of the frequency of one class
# Concentrations of the Dirichlet distribution of new class frequencies; its mean is the old ones.
CONCENTRATIONS = (10.0, 1.0)
NONE, IN_SAMPLE, WITHOUT_WORST = "none", "none, in sample", "none, but for the worst technique"
BASES = {  # Fits whose differences label-shift error is compared with
    IN_SAMPLE: "in sample, as the paper",
    NONE: "held-out rows",
    WITHOUT_WORST: "held-out rows, but for the worst technique",
}
MEASURES = {"nll": "NLL", "brier": "Brier score"}
STRONG = (f"one class × {FACTORS[-1]:g}", f"Dirichlet({CONCENTRATIONS[-1]:g})")


@dataclass(frozen=True)
class Shift:
    """Class frequencies in use: the kind of shift, and Float[K], a weight of rows of each class."""

    kind: str
    weight: np.ndarray


def shifts(prior: np.ndarray, draws: int, rng: np.random.Generator) -> Iterator[Shift]:
    """Yield no shift; one class at a time, each factor; and frequencies drawn at random."""
    k = len(prior)
    yield Shift(NONE, np.ones(k))
    for factor in FACTORS:
        for each in range(k):
            yield Shift(f"one class × {factor:g}", np.where(np.arange(k) == each, factor, 1.0))
    for concentration in CONCENTRATIONS:
        for drawn in rng.dirichlet(concentration * k * prior, size=draws):
            yield Shift(f"Dirichlet({concentration:g})", drawn / prior)


def study(
    X: np.ndarray, y: np.ndarray, methods: Sequence[str], *, seeds: int, draws: int
) -> pd.DataFrame:
    """Return a row for each seed, shift, method and fit.

    Halves of X, Float[n, K], by class y calibrate and are the use-set. The fit is "uncalibrated",
    or of "unshifted" or "weighted" calibration rows; nll, brier and gap are of the shifted use-set,
    or of the calibration rows where the kind is :data:`IN_SAMPLE`.
    """
    result: list[dict[str, Any]] = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        held, use = train_test_split(
            np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed
        )
        top_label = TopLabel.from_proba(X[use])
        prior = np.bincount(y[held], minlength=X.shape[1]) / len(held)
        unshifted = {m: confidence(m, X[held], y[held], None, X[use]) for m in methods}
        keys: dict[str, Any] = {"kind": IN_SAMPLE, "seed": seed, "shift": -1}
        for method in methods:
            shared = confidence(method, X[held], y[held], None, X[held])
            measured = losses_and_gap(shared, y[held], np.ones(len(held)))
            result.append({**keys, "method": method, "fit": "unshifted", **measured})
        for place, shift in enumerate(shifts(prior, draws, rng)):
            weight = shift.weight[y[use]]
            fits = [(NONE, "uncalibrated", top_label)]
            for method in methods:
                known_shift = (
                    unshifted[method]
                    if shift.kind == NONE
                    else confidence(method, X[held], y[held], shift.weight[y[held]], X[use])
                )
                fits += [
                    (method, "unshifted", unshifted[method]),
                    (method, "weighted", known_shift),
                ]
            for method, fit, predicted in fits:
                keys = {"kind": shift.kind, "seed": seed, "shift": place}
                measured = losses_and_gap(predicted, y[use], weight)
                result.append({**keys, "method": method, "fit": fit, **measured})
    return pd.DataFrame(result)


def confidence(
    method: str, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, new: np.ndarray
) -> TopLabel:
    """Return the confidence in new rows of a calibrator that is fitted with weights, Float[n]."""
    scores = FrozenEstimator(PrecomputedScores().fit(X))
    model: Any = build(_node(method), estimator=scores, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        # Where a class has no wrong row, say, which is no matter of the shift.
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y, X_calibration=X, y_calibration=y, sample_weight_calibration=weight)
    return TopLabel(TopLabel.from_proba(new).predicted, model.predict_confidence(new), new.shape[1])


@cache
def _node(method: str) -> Mapping[str, Any]:
    """Return the config of a calibrator, read without Hydra, which takes longer than fitting."""
    return read_component(conf_dir() / "calibrator" / f"{method}.yaml", [conf_dir()]).node


def losses_and_gap(top_label: TopLabel, y: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Return NLL of right and wrong (Eq. 14), Brier score (Eq. 15) and calibration gap.

    The gap is the mean over rows of |mean confidence - share right| of their predicted class: a
    top-label ECE of one bin a class. Sampling adds little to so few bins, and it moves with class
    frequencies.
    """
    assert nll_top.by_row is not None and brier_top.by_row is not None
    nll, brier = (
        np.average(rows, weights=weight)
        for rows in (nll_top.by_row(y, top_label, clip=1e-12), brier_top.by_row(y, top_label))
    )
    over = weight * (top_label.confidence - top_label.correct(y))
    too_much = np.bincount(top_label.predicted, over, minlength=top_label.n_classes or 0)
    gap = float(np.abs(too_much).sum() / weight.sum())
    return {"nll": float(nll), "brier": float(brier), "gap": gap}


@dataclass(frozen=True)
class Summary:
    """Means over seeds and shifts of a kind."""

    # measure → a row for each kind and fit, a column for each method
    means: Mapping[str, pd.DataFrame]
    # measure → one of :data:`BASES` → the largest less the smallest method
    spread: Mapping[str, Mapping[str, float]]
    # measure → kind → excess of a fit on unshifted rows over one with known frequencies
    error: Mapping[str, Mapping[str, float]]
    # measure → kind → the same of the shift with the largest mean over methods
    worst: Mapping[str, Mapping[str, float]]


def summary(result: pd.DataFrame, methods: Sequence[str]) -> Summary:
    """Return averages of :func:`study`."""
    means = {
        m: result.pivot_table(index=["kind", "fit"], columns="method", values=m, sort=False)
        for m in ("nll", "brier", "gap")
    }
    spread: dict[str, dict[str, float]] = {}
    error: dict[str, dict[str, float]] = {}
    worst: dict[str, dict[str, float]] = {}
    for measure in MEASURES:
        at_rest = {
            kind: means[measure].loc[(kind, "unshifted"), list(methods)]
            for kind in (NONE, IN_SAMPLE)
        }
        # One technique that fails would make the spread of all as large as its own failure.
        at_rest[WITHOUT_WORST] = at_rest[NONE].drop(at_rest[NONE].idxmax())
        spread[measure] = {
            kind: float(values.max() - values.min()) for kind, values in at_rest.items()
        }
        by_shift = result.pivot_table(
            index=["kind", "shift", "method"], columns="fit", values=measure, sort=False
        )
        lost = (
            (by_shift["unshifted"] - by_shift["weighted"])
            .dropna()
            .drop(NONE, level="kind")
            .groupby(["kind", "shift"], sort=False)
            .mean()
        )
        error[measure], worst[measure] = (
            lost.groupby("kind", sort=False).mean().to_dict(),
            lost.groupby("kind", sort=False).max().to_dict(),
        )
    return Summary(means, spread, error, worst)


def loss_table(result: Summary, methods: Sequence[str], measure: str) -> str:
    """Return a loss of each method on unshifted rows, and less with known frequencies, by kind."""
    means, error, worst = result.means[measure], result.error[measure], result.worst[measure]
    names = [METHODS.get(m, m) for m in methods]
    errors = ["label-shift error, mean", "of the worst shift"]
    in_sample = [number(means.loc[(IN_SAMPLE, "unshifted"), m], 4) for m in methods]
    lines = [[IN_SAMPLE, "–", *in_sample, "–", "–"]]
    for kind in [NONE, *error]:
        rows = {fit: means.loc[(kind, fit)] for fit in ("uncalibrated", "unshifted", "weighted")}
        cells = [
            f"{number(rows['unshifted'][m], 4)}"
            f" ({signed(rows['weighted'][m] - rows['unshifted'][m], 4)})"
            for m in methods
        ]
        of_kind = ["–", "–"] if kind == NONE else [number(error[kind], 4), number(worst[kind], 4)]
        lines.append([kind, number(rows["uncalibrated"][NONE], 4), *cells, *of_kind])
    spread = (
        f"{number(result.spread[measure][NONE], 4)} on held-out rows,"
        f" {number(result.spread[measure][IN_SAMPLE], 4)} in sample"
    )
    note = (
        "In brackets: what knowing the frequencies changes; its mean"
        " over the methods is the label-shift error."
    )
    body = markdown_table(["use-set", "uncalibrated", *names, *errors], lines)
    return f"{body}\n\n{note} Largest less smallest of the methods without a shift: {spread}."


def gap_table(result: Summary, methods: Sequence[str]) -> str:
    """Return the gap on unshifted rows and with known frequencies, and the share removed."""
    gap, names = result.means["gap"], [METHODS.get(m, m) for m in methods]
    rows = []
    at_rest = gap.loc[(NONE, "unshifted"), list(methods)]
    for kind in [NONE, *result.error["nll"]]:
        uncalibrated = number(gap.loc[(kind, "uncalibrated"), NONE], 4)
        shifted, shared = (gap.loc[(kind, fit), list(methods)] for fit in ("unshifted", "weighted"))
        cells = [
            number(value, 4) if kind == NONE else f"{number(value, 4)} → {number(shared[m], 4)}"
            for m, value in shifted.items()
        ]
        share = "–" if kind == NONE else f"{100 * repaired(shifted, shared, at_rest):.0f} %"
        rows.append([kind, uncalibrated, *cells, share])
    return markdown_table(["use-set", "uncalibrated", *names, "repaired, mean"], rows)


def repaired(shifted: pd.Series, shared: pd.Series, at_rest: pd.Series) -> float:
    """Return the share of a shift's added gap that known frequencies remove, of Float[m] each."""
    return float((shifted - shared).mean() / (shifted - at_rest).mean())


def ratios(result: Summary, measure: str, basis: str) -> dict[str, float]:
    """Return kind of shift → label-shift error over the spread of the methods on this basis."""
    return {
        kind: error / result.spread[measure][basis] if result.spread[measure][basis] else np.inf
        for kind, error in result.error[measure].items()
    }


def ratio_table(result: Summary) -> str:
    """Return the spread of the techniques, and label-shift error in its units, by shift."""
    rows = []
    for name, measure in MEASURES.items():
        for basis, title in BASES.items():
            cells = [number(value, 2) for value in ratios(result, name, basis).values()]
            rows.append([f"{measure}, {title}", number(result.spread[name][basis], 4), *cells])
    return markdown_table(
        ["differences between the techniques", "spread", *result.error["nll"]], rows
    )


def claims(result: Summary, methods: Sequence[str]) -> Iterator[Claim]:
    """Yield whether the techniques differ little beside label-shift error, and what repairs it."""
    for measure, basis in (("nll", IN_SAMPLE), ("brier", NONE), ("brier", WITHOUT_WORST)):
        ratio = ratios(result, measure, basis)
        least = {
            "every shift": min(ratio.values()),
            f"strong shifts ({', '.join(STRONG)})": min(ratio[kind] for kind in STRONG),
        }
        for which, value in least.items():
            text = (
                "label-shift error is larger than the differences between the techniques (Section"
                f" XV): {MEASURES[measure]}, {BASES[basis]}, {which}"
            )
            evidence = f"at least {number(value, 2)} of the spread"
            yield Claim(text, value > 1, evidence, ("label_shift",))
    gap = result.means["gap"]
    at_rest = gap.loc[(NONE, "unshifted"), list(methods)]
    of_fit = {
        fit: {kind: gap.loc[(kind, fit), list(methods)] for kind in result.error["nll"]}
        for fit in ("unshifted", "weighted")
    }
    shares = {
        kind: repaired(of_fit["unshifted"][kind], shared, at_rest)
        for kind, shared in of_fit["weighted"].items()
    }
    yield Claim(
        "recalibrating with known class frequencies takes away most of what"
        " a shift adds to the calibration gap (ours)",
        min(shares.values()) > 0.5,
        ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares.items()),
    )


def main() -> None:
    """Print both tables and the verdicts."""
    named = "calibrators by the names of the configuration"
    drawn = "class frequencies that are drawn for each half and concentration"
    more: dict[str, dict[str, Any]] = {
        "record": {"help": "class scores of a model, a .npz file"},
        "--target": {"default": "ground_truth", "help": "its array of labels"},
        "--methods": {"nargs": "*", "default": list(METHODS), "help": named},
        "--draws": {"type": int, "default": 10, "help": drawn},
    }
    options = study_options(__doc__, keep=True, seeds=5, more=more)
    rows = ScoreFile(options.record, target=options.target).load()
    result = summary(
        study(rows.X, rows.y, options.methods, seeds=options.seeds, draws=options.draws),
        options.methods,
    )
    print(
        f"## {rows.name}: {len(rows.y):,} rows, half of them"
        f" calibrate; means over {options.seeds} halves\n"
    )
    for measure, name in {
        "nll": "NLL of right and wrong in nats",
        "brier": "Brier score of right and wrong",
    }.items():
        print(f"{name}, of the shifted use-set\n\n{loss_table(result, options.methods, measure)}\n")
    print(
        "Calibration gap: |mean confidence − share right|, averaged over predicted classes\n\n"
        + gap_table(result, options.methods)
        + "\n"
    )
    print(
        "Label-shift error in units of the differences between the techniques\n\n"
        + ratio_table(result)
        + "\n"
    )
    details = list(claims(result, options.methods))
    print(verdicts(details))
    if options.keep is not None:
        save_claims(
            [replace(each, text=f"{rows.name}: {each.text}") for each in details],
            options.keep,
            "p2_label_shift",
        )


if __name__ == "__main__":
    main()
