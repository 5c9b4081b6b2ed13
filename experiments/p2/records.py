"""Print the comparison of calibrators on real score records: ``python -m experiments.p2.records
outputs``.

After ``kdg run experiment=paper/p2/records dataset.path=softmax.npz`` for each record; it reads
result.json only, and any subset of runs will do. A table for each record, a row for each
calibrator, then whether the one that is chosen by cross-validation beats shared temperature.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.frames import by_metric, half_width, where
from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from kdgraph.results.comparison.significance import compare_pairs

EXPERIMENT = "paper/p2/records"
# Keys that differ between records, besides seed and method.
FREE = ("dataset.path", "dataset.name", "dataset.target")
# Shared temperature of correctness; of the whole row; the method chosen by cross-validation; the
# scores as they are.
SHARED, WHOLE, CHOSEN, PARENT = "sts", "temperature", "best_top_label", "none"
WANTED = 18  # Least number of 20 splits in which the chosen method has the lower binary NLL
CHANCE = "top_label_ece_debiased_if_calibrated"
COLUMNS = titles("p2", "records")["columns"]
NOTE = titles("p2", "records")["note"]


def entries(records: Iterable[Record]) -> Iterator[Record]:
    """Yield one row for each number of each record; the parent is a method, once for each split."""
    parents = set()
    for record in records:
        key = record["dataset"]["name"], record["seed"]
        shared = {
            "dataset": key[0],
            "seed": key[1],
            "share": record["dataset"]["n_test"] / record["dataset"]["n_calibration"],
        }
        for model, method in (("calibrated", record["calibrator"]), ("parent", PARENT)):
            if model == "calibrated" or key not in parents:
                on_test = [
                    entry
                    for entry in record["metrics"]
                    if entry["of"] == model and entry["on"] == "test" and entry["value"] is not None
                ]
                yield from (
                    {**shared, "method": method, "metric": entry["metric"], "value": entry["value"]}
                    for entry in on_test
                )
        parents.add(key)


def by_split(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return metric → a row for each split, a column for each method; with the ``full_nll`` of all.

    The rows that ``fill_proba`` makes of a confidence c are c at the predicted class and (1 - c)
    p_j / (1 - p) elsewhere, with the parent's p: the full NLL is the binary one and, of wrong rows,
    -log p_y / (1 - p), by which the parent's own two differ.
    """
    wide = by_metric(frame)
    others = wide["nll"][PARENT] - wide["nll_top"][PARENT]
    return {**wide, "full_nll": wide["nll"].combine_first(wide["nll_top"].add(others, axis=0))}


def table(frame: pd.DataFrame) -> str:
    """Return the table of one data set, by binary NLL, the best of a column in bold."""
    wide, share = by_split(frame), float(frame["share"].iloc[0])
    order = [str(method) for method in wide["nll_top"].mean().sort_values().index]
    names = [name for name in COLUMNS if name in wide]
    cells = {
        n: _cells(wide[n], order, WHOLE if n == "full_nll" else SHARED, share, n != CHANCE)
        for n in names
    }
    stated = set(wide["nll"].columns)
    cells["full_nll"] = {
        m: text if m in stated or text == "–" else f"*{text}*"
        for m, text in cells["full_nll"].items()
    }
    columns = [
        "calibrator",
        *(COLUMNS[name] for name in names),
        f"beats {SHARED}",
        f"beats {WHOLE}",
        "clipped",
    ]
    rows = []
    for method in order:
        beats = [
            wins(wide[metric], method, against)
            for metric, against in (("nll_top", SHARED), ("full_nll", WHOLE))
        ]
        clipped = number(float(wide["nll_top_clipped"][method].mean()), 1)
        rows.append([method, *(cells[name][method] for name in names), *beats, clipped])
    return markdown_table(columns, rows)


def _cells(
    values: pd.DataFrame, order: list[str], against: str, share: float, is_judged: bool
) -> dict[str, str]:
    means = values.mean()
    best = means.min() if is_judged else np.nan
    result = {}
    for method in order:
        if method not in means or np.isnan(means[method]):
            result[method] = "–"
            continue
        text = (
            f"**{number(means[method], 4)}**"
            if round(means[method] - best, 5) == 0
            else number(means[method], 4)
        )
        spread = (
            half_width(values[method] - values[against], share)
            if against in values and method != against
            else np.nan
        )
        result[method] = text if np.isnan(spread) else f"{text} ± {number(spread, 4)}"
    return result


def wins(values: pd.DataFrame, method: str, against: str) -> str:
    """Return in how many common splits a method's number is lower, to six decimals."""
    if method == against or method not in values or against not in values:
        return "–"
    compared = compare_pairs(values[method], values[against], decimals=6)
    return f"{compared.wins}/{compared.n}"


def claim(dataset: str, frame: pd.DataFrame, records: Iterable[Record]) -> Claim | None:
    """Return whether the chosen calibrator beats shared temperature often enough, if both ran."""
    values = by_metric(where(frame, metric="nll_top")).get("nll_top", pd.DataFrame())
    if not {CHOSEN, SHARED} <= set(values):
        return None
    result, least = compare_pairs(values[CHOSEN], values[SHARED], decimals=6), WANTED / 20
    chosen = Counter(
        r["learnt"]["calibrator"]["chosen"]
        for r in records
        if r["calibrator"] == CHOSEN and r["dataset"]["name"] == dataset
    )
    gain = signed(float((values[CHOSEN] - values[SHARED]).mean()), 4)
    counts = ", ".join(f"{name} {count}" for name, count in chosen.most_common())
    return Claim(
        f"{dataset}: chosen by cross-validated binary NLL beats {SHARED}"
        f" in at least {least:.0%} of the splits",
        result.wins >= least * result.n,
        f"{result.wins} of {result.n}, by {gain} nats in the mean; chosen: {counts}",
    )


def main() -> None:
    """Print all tables, then the claims."""
    outputs = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    records = runs_of(EXPERIMENT, outputs, free=FREE)
    if not records:
        sys.exit(
            f"no run of {EXPERIMENT} in {outputs}; make them with: kdg run"
            f" experiment={EXPERIMENT} dataset.path=softmax.npz"
        )
    frame, claims = pd.DataFrame(entries(records)), []
    for dataset, part in frame.groupby("dataset"):
        first = next(r["dataset"] for r in records if r["dataset"]["name"] == dataset)
        sizes = (
            f"{first['n_calibration']:,} calibration rows, {first['n_test']:,} test rows,"
            f" {part.seed.nunique()} splits"
        )
        print(f"## {dataset}\n\n{sizes}.\n\n{table(part)}\n")
        claims.append(claim(str(dataset), part, records))
    print(NOTE.format(shared=SHARED, whole=WHOLE) + "\n")
    print(verdicts(each for each in claims if each))


if __name__ == "__main__":
    main()
