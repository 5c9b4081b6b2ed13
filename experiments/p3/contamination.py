"""Power of TOOD and of other tests of the same sets, by the share of rows out of distribution: the
tables after ``kdg run experiment=paper/p3/contamination``.

``python -m experiments.p3.contamination outputs`` prints them again, from any subset of the runs.
It is not in the paper, whose sets are all in or all out of distribution and whose rivals score
single rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.command import print_comparison
from experiments.common.frames import seeds_of
from experiments.common.markdown import counted_noun, number, signed, spread
from experiments.common.markdown import table as markdown_table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p3.records import DETECTED

EXPERIMENT = "paper/p3/contamination"
TITLES = titles("p3", "contamination")
DATASETS = TITLES["datasets"]
METHODS = TITLES["methods"]  # Titles of methods by the names of their runs
TOOD = ("tood_given", "tood_shuffled")
AS_GOOD = 0.05  # Difference of equally good AUROC, as in ``experiments.p3.claims``
NOTE = TITLES["note"]


def power(records: Iterable[Record]) -> pd.DataFrame:
    """Return the AUROC of sets of each run and share: dataset, method, seed, share, value."""
    rows = [
        (r["dataset"]["name"], r["method"], r["seed"], entry["params"]["share"], entry["value"])
        for r in records
        for entry in r["metrics"]
        if entry["of"] == DETECTED and entry["metric"] == "auroc"
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "seed", "share", "value"])


def compare_with_published(records: Sequence[Record]) -> str:
    """Return a table for each data set, and ranks over all of them; markdown."""
    frame = power(records)
    if frame.empty:
        return f"no run of {EXPERIMENT} is there"
    title = "## Power against the share of contamination"
    parts = [f"{title}: {seeds_of(frame)}", NOTE]
    parts += [
        table(frame[frame.dataset == name], title)
        for name, title in DATASETS.items()
        if name in set(frame.dataset)
    ]
    return "\n\n".join([*parts, ranks(frame)])


def table(frame: pd.DataFrame, title: str) -> str:
    """Return the table of one data set: a line for each method, a column for each share."""
    shares = sorted(frame.share.unique())
    body = []
    for method in (name for name in METHODS if name in set(frame.method)):
        rows = frame[frame.method == method]
        values = [spread(rows[rows.share == share].value, 1, 2) for share in shares]
        body.append([METHODS[method], *values])
    return markdown_table([f"AUROC, {title}", *map(_percent, shares)], body)


def ranks(frame: pd.DataFrame) -> str:
    """Return mean AUROC and mean rank over data sets, of the methods that ran on all."""
    mean = frame.groupby(["dataset", "share", "method"]).value.mean().unstack("method")
    mean = mean.dropna(axis="columns")
    shares = sorted(mean.index.unique("share"))
    n_datasets = mean.index.unique("dataset").size
    noun = counted_noun([n_datasets], "data set")
    rows = []
    # Equal values share a rank, and values are equal that print alike.
    by_share = mean.round(2).rank(axis=1, ascending=False).groupby("share").mean()
    values = mean.groupby("share").mean()
    for method in (name for name in METHODS if name in mean):
        cells = [
            f"{number(values.loc[s, method], 2)} ({by_share.loc[s, method]:.1f})" for s in shares
        ]
        rows.append([METHODS[method], *cells])
    return markdown_table([f"mean AUROC (mean rank), {noun}", *map(_percent, shares)], rows)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's claims on methods that judge the same sets, all in or all out."""
    whole = frame[frame.share == 1]
    for dataset, rows in whole.groupby("dataset", sort=False):
        mean = rows.groupby("method").value.mean()
        others = [name for name in METHODS if name in mean and name not in TOOD]
        if "tood_given" not in mean or not others:
            continue
        best = mean[others].idxmax()
        ahead = round(float(mean.tood_given - mean[best]), 2)
        evidence = (
            f"{number(float(mean.tood_given), 2)} against {number(float(mean[best]), 2)} of"
            f" {METHODS[str(best)]}{', a tie' * (ahead == 0)};"
            f" {seeds_of(rows)}; all score sets of 50 rows"
        )
        place = f"{DATASETS[str(dataset)]}, sets against sets"
        rivals = ", ".join(METHODS[name] for name in others)
        text = (
            f"{place}: mean AUROC of TOOD is, to two digits, at least"
            f" that of each other test ({rivals})"
        )
        yield Claim(text, ahead >= 0, evidence, ("outperforms",))
        text = (
            f"{place}: mean AUROC of TOOD is at most .05 below that"
            f" of the best other test ({rivals})"
        )
        shown = f"{signed(ahead, 2)}; {evidence}"
        yield Claim(text, ahead >= -AS_GOOD, shown, ("comparable", "concluding"))


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
