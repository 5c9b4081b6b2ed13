"""Claims of Salamon et al. on kernel densities, on scores of several classifiers: their widths,
their ends, and their rows.

``python -m experiments.p2.bandwidths --keep outputs`` fits them on one half of each record and
tests them on the other. Three records are made on the spot, by random forests; other score records
and the counts of PhANNs are further arguments, and take a minute each.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from experiments.common import markdown
from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.command import print_claims, study_options
from experiments.common.frames import half_width
from experiments.common.markdown import number, spread
from kdgraph.calibration.top_label import (
    ClassPrecision,
    KernelDensityConfidence,
    TopLabelCalibrator,
)
from kdgraph.calibration.top_label.kernel_density import SIGN_CHANGES
from kdgraph.data.openml import OpenmlTable
from kdgraph.data.tables import ScoreFile, SklearnTable
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parents import PrecomputedScores

# Tables with a record of a forest, which learns one half of the rows and scores the other.
FORESTS = {
    "digits": lambda: SklearnTable("digits"),
    "satimage": lambda: OpenmlTable(182),
    "letter": lambda: OpenmlTable(6),
}
TREES = 200
RULE = "b_mon2"  # Rule that the paper recommends
# Reasonable bandwidths: about the medians of b_mon4, b_mon2 and b_mon over MNIST ensembles
# (README.md).
FIXED = (0.03, 0.05, 0.1)
PRECISION, ALL_ROWS, REFLECTED = "Conf1", f"{RULE} of all rows", "reflected"
# Share of the NLL, and mean change of the confidence, that may be ignored; the paper has no number.
IGNORED_NLL, IGNORED_CONFIDENCE = 0.01, 0.01
SHARE = 1.0  # Test rows per fitted row


@dataclass(frozen=True)
class Record:
    """Scores of a trained classifier."""

    name: str
    X: np.ndarray  # Float[n, K]
    y: np.ndarray  # Int[n]
    # the counts of PhANNs have no scores of classes that were not predicted
    has_other_scores: bool = True


def forest_record(name: str) -> Record:
    """Return scores of a random forest on rows that it did not learn."""
    table = FORESTS[name]().load()
    learnt, scored = train_test_split(
        np.arange(len(table.y)), test_size=0.5, stratify=table.y, random_state=0
    )
    forest = RandomForestClassifier(TREES, random_state=0).fit(table.X[learnt], table.y[learnt])
    return Record(f"forest on {name}", forest.predict_proba(table.X[scored]), table.y[scored])


def study(record: Record, seeds: int) -> pd.DataFrame:
    """Return a row for each half that is drawn and each fit on it.

    Of the other half: ``nll``, binary, in nats; ``moved`` and ``most``, mean and largest change of
    its confidence that reflecting makes; ``curves`` and ``classes``, how many classes have a
    bandwidth that meets the rule, of those with right and wrong rows in the fitted half.
    """
    result = []
    for seed in range(seeds):
        held, use = train_test_split(
            np.arange(len(record.y)), test_size=0.5, stratify=record.y, random_state=seed
        )
        result += [{"seed": seed, **row} for row in _half(record, held, use)]
    return pd.DataFrame(result)


def claims(name: str, result: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on one record, of :func:`study`."""
    nll = result.pivot(index="seed", columns="method", values="nll")
    rule = result[result.method == RULE]
    stored = f"{int(rule.curves.sum())} of {int(rule.classes.sum())} classes of {len(rule)} splits"
    text = (
        f"{name}: each class with right and wrong calibration rows has a {RULE} with no more turns"
        " than it allows (weak: it is chosen so)"
    )
    yield Claim(text, bool((rule.curves == rule.classes).all()), stored, ("bulletproof_bandwidth",))
    text = f"{name}: held-out binary NLL of KDE({RULE}) is below that of {PRECISION}"
    yield from in_every_seed(text, nll[PRECISION] - nll[RULE], ("bulletproof_bandwidth",))
    yield from _boundary(name, nll, result)
    if ALL_ROWS in nll:
        text = (
            f"{name}: held-out binary NLL of KDE({RULE}) of rows that are"
            " predicted as the class is below that of all rows"
        )
        yield from below(text, nll[RULE], nll[ALL_ROWS], ("only_positives",), share=SHARE)


def _boundary(name: str, nll: pd.DataFrame, result: pd.DataFrame) -> Iterator[Claim]:
    at = [str(bandwidth) for bandwidth in (*FIXED, RULE)]
    changes = {each: nll[f"{each} {REFLECTED}"] / nll[each] - 1 for each in at}
    means, halves = (
        {each: statistic(change) for each, change in changes.items()}
        for statistic in (np.mean, lambda change: half_width(change, SHARE))
    )
    ends = max(abs(means[each]) + halves[each] for each in at)
    text = (
        f"{name}: with kernels reflected at 0 and 1 the held-out binary NLL changes by less than"
        f" {IGNORED_NLL:.0%}, at bandwidths "
        f"{', '.join(at)}: the 95 % interval of the mean change is between the two"
    )
    by_bandwidth = ", ".join(f"{means[each]:+.2%} ± {halves[each]:.2%} ({each})" for each in at)
    yield Claim(text, bool(ends < IGNORED_NLL), f"{by_bandwidth}; {len(nll)} splits", ("boundary",))
    reflected = result[result.method.str.endswith(REFLECTED)]
    moved = reflected.groupby("method", sort=False)[["moved", "most"]].max()
    text = (
        f"{name}: with kernels reflected at 0 and 1 the confidence of held-out rows changes by less"
        f" than {IGNORED_CONFIDENCE:g} in the mean, in every split, at the same bandwidths"
    )
    by_bandwidth = ", ".join(f"{moved.moved[f'{each} {REFLECTED}']:.4f} ({each})" for each in at)
    most = f"at most {by_bandwidth}; of a single row {moved.most.max():.3f}"
    yield Claim(text, bool((reflected.moved < IGNORED_CONFIDENCE).all()), most, ("boundary",))


def table(result: pd.DataFrame) -> str:
    """Return mean ± standard deviation over splits, a row for each fit."""
    columns = ["fit", "binary NLL", "mean change of the confidence", "largest"]
    rows = (
        [
            str(method),
            *(spread(part[name].dropna(), digits=4) for name in ("nll", "moved", "most")),
        ]
        for method, part in result.groupby("method", sort=False)
    )
    median = number(float(result[result.method == RULE].bandwidth.median()), 4)
    width = f"{RULE}: {median} in the median of classes and splits."
    return f"{markdown.table(columns, rows)}\n\n{width}"


def _half(record: Record, held: np.ndarray, use: np.ndarray) -> Iterator[dict[str, Any]]:
    X, y = record.X[held], record.y[held]
    parent = FrozenEstimator(PrecomputedScores().fit(X))
    top_label = TopLabel.from_proba(X)
    right, wrong = (
        set(top_label.predicted[rows]) for rows in (top_label.correct(y), ~top_label.correct(y))
    )

    def changes(model: TopLabelCalibrator) -> np.ndarray:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", UserWarning
            )  # of classes without a curve, which are counted
            model.fit(X, y, X_calibration=X, y_calibration=y)
        return model.predict_confidence(record.X[use])

    def losses_and_gap(confidence: np.ndarray) -> float:
        new = TopLabel.from_proba(record.X[use])
        return nll_top(
            record.y[use], TopLabel(new.predicted, confidence, new.n_classes), clip=1e-12
        )

    yield {"method": PRECISION, "nll": losses_and_gap(changes(ClassPrecision(parent)))}
    if record.has_other_scores:
        yield {
            "method": ALL_ROWS,
            "nll": losses_and_gap(
                changes(KernelDensityConfidence(parent, bandwidth=RULE, condition="all"))
            ),
        }
    for bandwidth in (*FIXED, RULE):
        model = KernelDensityConfidence(parent, bandwidth=bandwidth)
        plain = changes(model)
        curves = [model.curves_[k] for k in right & wrong]
        stored = [c for c in curves if c and c["sign_changes"] <= SIGN_CHANGES[RULE]]
        learnt = {
            "curves": len(stored),
            "classes": len(curves),
            "bandwidth": np.median([curve["bandwidth"] for curve in stored] or [np.nan]),
        }
        yield {
            "method": str(bandwidth),
            "nll": losses_and_gap(plain),
            **(learnt if bandwidth == RULE else {}),
        }
        mirrored = changes(KernelDensityConfidence(parent, bandwidth=bandwidth, boundary="reflect"))
        gap = np.abs(mirrored - plain)
        shared = {"method": f"{bandwidth} {REFLECTED}", "nll": losses_and_gap(mirrored)}
        yield {**shared, "moved": gap.mean(), "most": gap.max()}


def _records(options: argparse.Namespace) -> Iterable[Record]:
    yield from (forest_record(name) for name in options.forests)
    for path in options.records:
        rows = ScoreFile(path, target=options.target).load()
        yield Record(rows.name, rows.X, rows.y)
    if options.phanns is not None:
        rows = ScoreFile(options.phanns).load()
        yield Record("PhANNs", rows.X, rows.y, has_other_scores=False)


def main() -> None:
    """Print a table and the verdicts of each record."""
    names, made = list(FORESTS), "these of the records that are made"
    more: dict[str, dict[str, Any]] = {
        "records": {"nargs": "*", "help": "class scores of models, .npz files"},
        "--target": {"default": "ground_truth", "help": "their array of labels"},
        "--forests": {"nargs": "*", "choices": names, "default": names, "help": made},
        "--phanns": {"metavar": "FILE", "help": "what python -m experiments.p2.phanns writes"},
    }
    options = study_options(__doc__, keep=True, seeds=5, more=more)
    details: list[Claim] = []
    for record in _records(options):
        result = study(record, options.seeds)
        print(
            f"## {record.name}: {len(record.y):,} rows, half of them calibrate; {options.seeds}"
            f" halves\n\n{table(result)}\n",
            flush=True,
        )
        details += claims(record.name, result)
    print_claims(details, options.keep, "p2_bandwidths")


if __name__ == "__main__":
    main()
