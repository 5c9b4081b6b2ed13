"""Scores of the ten networks of PhANNs on its test proteins, and what Figure 1 and Section IX have.

Usage, in the root of the repository: ``python -m experiments.p2.phanns_scores SCORES.npz
phanns_scores.parquet``, then ``kdg run experiment=paper/p2/phanns_scores``. The authors of PhANNs
(Cantu et al. 2020; MIT) store the scores as one file for each class,
``web_server/*_10n.p`` in the branch ``extrac10`` of Adrian-Cantu/PhANNs. SCORES.npz holds them as
the arrays ``scores``, Float[n, 10, K] of softmax outputs, ``y``, Int[n], and ``classes``, the K
names.

The file of class Other is not published, so that 14,477 of the 46,801
proteins are here. The row of Other in Figure 1 is what the others lack of the stored counts of all
proteins by predicted class, 32,324 proteins. What cannot be had without their scores: every
calibration of a class that proteins of class Other are taken for, as HTJ, and that of Other itself.

``--counts test_set_stats.csv`` adds rows for the proteins of class Other, for
``experiment=paper/p2/phanns_rebuilt``: predicted class and score, to a hundredth, are what is left
of the stored counts, and the other ten scores, which were not stored, share evenly what the highest
one leaves. Calibrators of the highest score do not depend on them; temperatures do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, is_more_often
from experiments.common.command import study_options
from experiments.common.markdown import number
from experiments.common.published import read_published
from experiments.common.runs import runs_of
from experiments.p2.figures.joint import PREDICTED, with_other
from experiments.p2.figures.study import SCORE_LABELS
from experiments.p2.phanns import counted

EXPERIMENT = "paper/p2/phanns_scores"
REBUILT = "paper/p2/phanns_rebuilt"
REBUILT_VARIANT = "class Other rebuilt from counts"
# Ratio of NLLs up to which a method is competitive with another; the paper has no number.
COMPETITIVE = 1.1
MUCH = 0.05  # Share of an NLL that is much less; the paper has no number


def to_rows(scores: np.ndarray, y: np.ndarray, classes: np.ndarray) -> pd.DataFrame:
    """Return each protein's ``label`` and mean score over the networks, Float[n, m, K], by class.

    The paper's score of a class is the sum over ten networks; the mean has the same order.
    """
    if scores.ndim != 3 or scores.shape[0] != len(y) or scores.shape[2] != len(classes):
        raise ValueError(
            f"scores must have the shape (rows, networks, classes) of y and classes,"
            f" ({len(y)}, m, {len(classes)}), got {scores.shape}"
        )
    # Softmax in float32 leaves 1e-6 of the sum.
    if not np.allclose(scores.sum(axis=2), 1, atol=1e-4):
        raise ValueError("the scores of each network must sum to 1 over the classes")
    mean = scores.astype(np.float64).mean(axis=1)
    rows = pd.DataFrame(mean / mean.sum(axis=1, keepdims=True), columns=[str(c) for c in classes])
    return rows.assign(label=[str(classes[k]) for k in y])


def rebuilt_other(rows: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each protein of class Other, from counts of the scores of all proteins.

    ``rows`` are those of the other classes, as :func:`to_rows` returns them.
    """
    names = [name for name in rows if name != "label"]
    scores = rows[names].to_numpy()
    predicted, highest = scores.argmax(axis=1), scores.max(axis=1)
    parts = []
    for k, name in enumerate(names):
        of_class = counts[counts["class"] == name].sort_values("threshold")
        threshold = of_class.threshold.to_numpy() / of_class.threshold.max()
        own = highest[predicted == k]
        wrong_here = (own[:, None] >= threshold - 1e-9)[rows.label[predicted == k] != name].sum(0)
        left = (
            of_class.right.to_numpy() if name == "Other" else of_class.wrong.to_numpy() - wrong_here
        )
        # The stored scores are of a slightly other run, so that a few bins are short of a protein:
        # the number at or above a threshold is kept from falling as the threshold falls.
        at_least = np.maximum.accumulate(np.maximum(left, 0)[::-1])[::-1]
        middle = np.minimum(threshold + np.diff(threshold).min() / 2, 1)
        score = np.repeat(middle, at_least - np.append(at_least[1:], 0))
        filled = np.repeat((1 - score)[:, None] / (len(names) - 1), len(names), axis=1)
        filled[:, k] = score
        parts.append(pd.DataFrame(filled, columns=names).assign(label="Other"))
    return pd.concat(parts, ignore_index=True)


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers of Figure 1 and Section IX from the runs below a folder.

    Runs with class Other rebuilt are a variant of Section IX.
    """
    rows: list[dict[str, Any]] = []
    for record in runs_of(EXPERIMENT, folder, ["dataset.path"]):
        seed, calibrator = record["seed"], record["calibrator"]
        if calibrator == "none":
            (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
            result = figure1(pd.read_parquet(path).query("set == 'test'"))
        elif calibrator in ("sts", "csts"):
            names = sorted(record["dataset"]["classes"])
            result = temperatures(record["learnt"]["calibrator"]["temperature"], names)
        else:
            continue
        rows += [{**row, "seed": seed, "variant": ""} for row in result]
    for record in runs_of(REBUILT, folder, ["dataset.path"]):
        if record["calibrator"] in ("sts", "csts"):
            names = sorted(record["dataset"]["classes"])
            result = temperatures(record["learnt"]["calibrator"]["temperature"], names)
            shared = {"seed": record["seed"], "variant": REBUILT_VARIANT}
            rows += [{**row, **shared} for row in result]
    return pd.DataFrame(rows).assign(dataset="phanns") if rows else pd.DataFrame()


def figure1(predictions: pd.DataFrame) -> Iterator[dict]:
    """Yield the joint counts of true and predicted class, and their shares of rows and columns.

    The row of class Other is what is missing of the stored counts of all proteins.
    """
    columns = [name for name in predictions if name.startswith("parent_")]
    names = np.array([name.removeprefix("parent_") for name in columns])
    predicted = names[predictions[columns].to_numpy().argmax(axis=1)]
    counts = pd.crosstab(predictions.y.astype(str).to_numpy(), predicted).reindex(
        index=names, columns=names, fill_value=0
    )
    counts = with_other(counts)
    published = read_published(Path(__file__).parent).query("item == 'Figure 1'")
    for _, cell in published.iterrows():
        true, guess = cell.true_class, cell.predicted_class
        count = counts.loc[true, guess]
        value = {
            "joint count": count,
            "share of the true class": count / counts.loc[true].sum(),
            "share of the predicted class": count / PREDICTED[guess],
        }[cell.metric]
        keys = {"metric": cell.metric, "true_class": true, "predicted_class": guess}
        yield {"item": "Figure 1", "method": None, **keys, "value": float(value)}


def temperatures(fitted: float | Mapping[str, float], names: list[str]) -> Iterator[dict]:
    """Yield the statements of Section IX: one temperature of all classes, or those by class."""
    place = {"item": "Section IX", "true_class": None, "predicted_class": None}
    if not isinstance(fitted, Mapping):
        yield {**place, "metric": "temperature of all classes", "method": "STS", "value": fitted}
        return
    # A class without a wrong row has no temperature of its own, but that of all classes.
    by_class = {names[int(k)]: value for k, value in fitted.items()}
    for metric, value in (
        ("temperature of some classes, concave down", max(by_class.values())),
        ("temperature of some classes, concave up", min(by_class.values())),
        ("temperature of HTJ", by_class["HTJ"]),
    ):
        yield {**place, "metric": metric, "method": "CSTS", "value": value}


def claims(folder: Path) -> Iterator[Claim]:
    """Yield the claims on recall and precision, and on temperatures, of the runs below a folder.

    All fits are in sample as in the paper. Of the proteins of ten classes those that are predicted
    as Other are left out of losses: no protein of that class is there, so that all of them are
    wrong.
    """
    by_method = _predictions(EXPERIMENT, folder)
    if "none" in by_method:
        yield _precision_below_recall(pd.DataFrame(figure1(by_method["none"])))
    for rows, frames in (
        ("ten classes", by_method),
        (REBUILT_VARIANT, _predictions(REBUILT, folder)),
    ):
        result = {name: losses(frame) for name, frame in frames.items()}
        if frames is by_method:
            result = {name: frame[frame.predicted != "Other"] for name, frame in result.items()}
        yield from claims_on_losses(result, f"PhANNs, {rows}")


def _predictions(experiment: str, folder: Path) -> dict[str, pd.DataFrame]:
    by_method = {}
    for record in runs_of(experiment, folder, ["dataset.path"]):
        (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
        by_method[record["calibrator"]] = pd.read_parquet(path).query("set == 'test'")
    return by_method


def losses(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the predicted class and the binary NLL in nats of each protein (Eq. 14)."""
    if "calibrated_confidence" in predictions:
        guess = predictions.calibrated_predicted.astype(str)
        confidence = predictions.calibrated_confidence
    else:
        scores = predictions.filter(regex="^parent_")
        guess = scores.idxmax(axis=1).str.removeprefix("parent_")
        confidence = scores.max(axis=1)
    right = guess == predictions.y.astype(str)
    chance = np.where(right, confidence, 1 - confidence)
    # The clip of the metric nll_top in the experiment's tables.
    return pd.DataFrame({"predicted": guess, "nll": -np.log(np.clip(chance, 1e-12, None))})


def claims_on_losses(result: Mapping[str, pd.DataFrame], rows: str) -> Iterator[Claim]:
    """Yield the claims on the NLL of methods with losses; ``rows`` is their name in the texts."""
    nll = {name: float(frame.nll.mean()) for name, frame in result.items()}
    by_class = pd.DataFrame(
        {name: frame.groupby("predicted").nll.mean() for name, frame in result.items()}
    )

    def claim(text: str, holds: bool, sentence: str, *names: str) -> Claim:
        listed = ", ".join(f"{SCORE_LABELS[name]} {number(nll[name])}" for name in names)
        n = len(result[names[0]])
        return Claim(
            f"{rows}: {text}", holds, f"{listed}; {n:,} proteins, fitted to them", (sentence,)
        )

    if {"sts", "csts"} <= nll.keys():
        yield claim(
            "one temperature of all classes has an NLL a tenth or more above that of one a class",
            nll["sts"] >= 1.1 * nll["csts"],
            "shared_temperature",
            "sts",
            "csts",
        )
    if {"csts", "kde"} <= nll.keys():
        yield claim(
            f"the NLL of CSTS is at most {COMPETITIVE:g} times that of KDE(b_mon2)",
            nll["csts"] <= COMPETITIVE * nll["kde"],
            "csts_competitive",
            "csts",
            "kde",
        )
    if {"csts", "tswa"} <= nll.keys():
        yield claim(
            "the NLL of TSwA is below that of CSTS",
            nll["tswa"] < nll["csts"],
            "awards_beat_csts",
            "tswa",
            "csts",
        )
        yield _on_most_classes(
            f"{rows}: the NLL of TSwA is below that of CSTS",
            by_class.csts - by_class.tswa,
            "awards_beat_csts",
        )
    if {"sts", "csts", "tswa"} <= nll.keys():
        yield claim(
            f"the NLL of CSTS or TSwA is more than {MUCH:.0%} less than that of STS (Section VIII)",
            min(nll["csts"], nll["tswa"]) < (1 - MUCH) * nll["sts"],
            "top_label_temperatures",
            "csts",
            "tswa",
            "sts",
        )
    if by_class.columns.isin(SCORE_LABELS).sum() == len(SCORE_LABELS):
        others = by_class[[name for name in SCORE_LABELS if not name.startswith("kde")]].min(axis=1)
        yield _on_most_classes(
            f"{rows}: the NLL of KDE(b_mon2) is below {COMPETITIVE:g}"
            " times that of the best other method of Figure 17 (Section XIV)",
            COMPETITIVE * others - by_class.kde,
            "kde_at_or_below_histogram",
        )


def _on_most_classes(text: str, margin: pd.Series, sentence: str) -> Claim:
    count = int((margin > 0).sum())
    holds, p = is_more_often(count, len(margin))
    listed = ", ".join(f"{name} {number(value)}" for name, value in margin.items())
    statement = f"{text} on most classes, by a one-sided sign test at .05"
    return Claim(statement, holds, f"{count} of {len(margin)}, p {p:.2g}; {listed}", (sentence,))


def _precision_below_recall(shares: pd.DataFrame) -> Claim:
    diagonal = shares[shares.true_class == shares.predicted_class].pivot(
        index="true_class", columns="metric", values="value"
    )
    lower = diagonal["share of the predicted class"] < diagonal["share of the true class"]
    count, n = int(lower.sum()), len(lower)
    holds, p = is_more_often(count, n)
    text = "the precision of a class is below its recall in most classes of PhANNs"
    evidence = f"in {count} of {n}, one-sided p {p:.2g}; not of {', '.join(lower.index[~lower])}"
    return Claim(text, holds, evidence, ("precision_below_recall",))


def main() -> None:
    """Write the rows, and print how many there are of each class."""
    counts = "test_set_stats.csv, to rebuild the proteins of class Other"
    more: dict[str, dict[str, Any]] = {
        "scores": {"type": Path, "help": ".npz file with scores, y and classes"},
        "rows": {"type": Path, "help": "the parquet file to write"},
        "--counts": {"type": Path, "help": counts},
    }
    options = study_options(__doc__, more=more)
    with np.load(options.scores) as stored:
        rows = to_rows(stored["scores"], stored["y"], stored["classes"])
    if options.counts is not None:
        rows = pd.concat(
            [rows, rebuilt_other(rows, counted(pd.read_csv(options.counts)))], ignore_index=True
        )
    rows.to_parquet(options.rows, index=False)
    for name, n in rows.label.value_counts(sort=False).items():
        print(f"{name:14}{n:8,}")
    print(f"{len(rows):,} rows → {options.rows}")


if __name__ == "__main__":
    main()
