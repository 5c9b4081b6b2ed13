"""Scores of the ten networks of PhANNs on its test proteins, and what Figure 1 and Section IX have.

Usage, in the root of the repository: ``python -m experiments.p2.phanns_scores SCORES.npz
phanns_scores.parquet``, then ``kdg run experiment=paper/p2/phanns_scores``. The authors of PhANNs
(Cantu et al. 2020; MIT) store the scores as one file for each class,
``web_server/*_10n.p`` in the branch ``extrac10`` of Adrian-Cantu/PhANNs. SCORES.npz holds them as
the arrays ``scores``, Float[n, 10, K] of softmax outputs, ``y``, Int[n], and ``classes``, the K
names.

The file of the 33,402 proteins of class Other is not among those that were to be had, so that 14,477
of the 46,801 proteins are here. What depends on the others: the row of Other in Figure 1, its
shares by predicted class, whose denominators therefore are the stored column sums of all proteins,
and every calibration of a class that proteins of class Other are taken for, as HTJ.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, is_more_often
from experiments.common.markdown import number
from experiments.common.published import read_published
from experiments.common.runs import runs_of

EXPERIMENT = "paper/p2/phanns_scores"
PREDICTED = {
    "Major capsid": 2791,
    "Minor capsid": 876,
    "Baseplate": 927,
    "Major tail": 726,
    "Minor tail": 1326,
    "Portal": 5295,
    "Tail fiber": 1387,
    "Tail shaft": 1934,
    "Collar": 507,
    "HTJ": 1923,
    "Other": 29109,
}
"""Proteins of all classes that are predicted as each: the right and wrong rows at threshold 0 that
:mod:`experiments.p2.phanns` counts in the authors' ``test_set_stats.csv``.
"""


def to_rows(scores: np.ndarray, y: np.ndarray, classes: np.ndarray) -> pd.DataFrame:
    """Return a row for each protein: its mean score over the networks by class, and its ``label``.

    The paper's score of a class is the sum over ten networks; the mean has the same order.

    Parameters
    ----------
    scores : Float[n, m, K]
        Softmax outputs of m networks.
    y : Int[n]
        Index of the true class.
    classes : array of K str
        Names of the classes.

    Raises
    ------
    ValueError
        If the shapes do not belong together, or the scores of a network do not sum to 1.
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


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers of Figure 1 and Section IX from the runs below a folder.

    Rows are as :class:`~experiments.reproduction.declared.Study` has them.
    """
    rows: list[dict[str, Any]] = []
    for record in runs_of(EXPERIMENT, folder, ["dataset.path"]):
        seed, calibrator = record["seed"], record["calibrator"]
        if calibrator == "none":
            (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
            found = figure1(pd.read_parquet(path).query("set == 'test'"))
        elif calibrator in ("sts", "csts"):
            names = sorted(record["dataset"]["classes"])
            found = temperatures(record["learnt"]["calibrator"]["temperature"], names)
        else:
            continue
        rows += [{**row, "seed": seed} for row in found]
    return pd.DataFrame(rows).assign(dataset="phanns", variant="") if rows else pd.DataFrame()


def figure1(predictions: pd.DataFrame) -> Iterator[dict]:
    """Yield the joint counts of true and predicted class, and their shares of rows and columns.

    Parameters
    ----------
    predictions : DataFrame
        True class ``y``, and scores in the columns ``parent_`` and the class.
    """
    columns = [name for name in predictions if name.startswith("parent_")]
    names = np.array([name.removeprefix("parent_") for name in columns])
    predicted = names[predictions[columns].to_numpy().argmax(axis=1)]
    counts = pd.crosstab(predictions.y.astype(str).to_numpy(), predicted).reindex(
        index=names, columns=names, fill_value=0
    )
    published = read_published(Path(__file__).parent).query("item == 'Figure 1'")
    for _, cell in published.iterrows():
        true, guess = cell.true_class, cell.predicted_class
        count = counts.loc[true, guess]
        if counts.loc[true].sum() == 0:  # the class without scores
            continue
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
    # A class that nobody is wrong in has no temperature of its own, but that of all classes.
    by_class = {names[int(k)]: value for k, value in fitted.items()}
    for metric, value in (
        ("temperature of some classes, concave down", max(by_class.values())),
        ("temperature of some classes, concave up", min(by_class.values())),
        ("temperature of HTJ", by_class["HTJ"]),
    ):
        yield {**place, "metric": metric, "method": "CSTS", "value": value}


def claims(folder: Path) -> Iterator[Claim]:
    """Yield the claims on recall and precision, and on one temperature of all classes."""
    nll: dict[str, float] = {}
    for record in runs_of(EXPERIMENT, folder, ["dataset.path"]):
        if record["calibrator"] == "none":
            (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
            shares = pd.DataFrame(figure1(pd.read_parquet(path).query("set == 'test'")))
            diagonal = shares[shares.true_class == shares.predicted_class].pivot(
                index="true_class", columns="metric", values="value"
            )
            lower = diagonal["share of the predicted class"] < diagonal["share of the true class"]
            count, n = int(lower.sum()), len(lower)
            holds, p = is_more_often(count, n)
            yield Claim(
                "the precision of a class is below its recall in most classes of PhANNs",
                holds,
                f"in {count} of {n}, one-sided p {p:.2g}; not of {', '.join(lower.index[~lower])}",
                ("precision_below_recall",),
            )
        if record["calibrator"] in ("sts", "csts"):
            (value,) = (
                entry["value"]
                for entry in record["metrics"]
                if entry["metric"] == "nll_top" and entry["of"] == "calibrated"
            )
            nll[record["calibrator"]] = value
    if len(nll) == 2:
        yield Claim(
            "one temperature of all classes has an NLL a tenth or more above that of one a class,"
            " PhANNs",
            nll["sts"] >= 1.1 * nll["csts"],
            f"{number(nll['sts'])}, {number(nll['csts'])}; 14,477 proteins, fitted to them",
            ("shared_temperature",),
        )


def main() -> None:
    """Write the rows, and print how many there are of each class."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scores", type=Path, help=".npz file with scores, y and classes")
    parser.add_argument("rows", type=Path, help="the parquet file to write")
    given = parser.parse_args()
    with np.load(given.scores) as stored:
        rows = to_rows(stored["scores"], stored["y"], stored["classes"])
    rows.to_parquet(given.rows, index=False)
    for name, n in rows.label.value_counts(sort=False).items():
        print(f"{name:14}{n:8,}")
    print(f"{len(rows):,} rows → {given.rows}")


if __name__ == "__main__":
    main()
