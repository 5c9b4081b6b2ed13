"""Figures of Luo et al. from finished runs, for Communities and Crime by ``python -m
experiments.p4.figures outputs``.

``lce``: MLCE and mean LCE against the bandwidth in each space (Figures 5 and 17; 6, 7, 18 and 19
for CelebA). ``groups``: errors of each method by group (behind Table 1). ``correlation``: max group
MCE against other metrics (Table 2). All are drawn of the seeds that every method has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.command import in_one_line, study_options
from experiments.common.frames import by_metric, where
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.common.settings import trains_otherwise
from experiments.common.titles import titles
from experiments.p4.correlation import plot_metric_against_metrics
from kdgraph.errors import DataError
from kdgraph.figures import (
    GroupTable,
    LceCurves,
    plot_group_tables,
    plot_lce_against_bandwidth,
    plot_reward_against_ratio,
)

# Titles of methods of the paper and two others by the names of their runs, in the order of the key;
# the first is the parent.
TITLES = titles("p4", "figures")
LABELS = TITLES["labels"]
OTHERS = TITLES["others"]  # Titles of other methods
SPACES = {"lce_by_bandwidth_tsne": "t-SNE", "lce_by_bandwidth_pca": "principal components"}
CORRELATED = TITLES["correlated"]  # Metrics that Table 2 correlates with max group MCE


@dataclass(frozen=True)
class Study:
    """Runs of several methods on the same seeds."""

    methods: list[str]  # the parent first
    seeds: list[int]
    numbers: pd.DataFrame  # ``method, seed, metric, value`` on test rows
    tables: dict[str, pd.DataFrame]  # ``method, seed`` and the columns of the table, on test rows

    @property
    def runs_of(self) -> str:
        """Return the variation between runs."""
        return f"{len(self.seeds)} seeds"

    def metric(self, name: str) -> dict[str, np.ndarray]:
        """Return label → Float[s], in the order of the seeds."""
        wide = by_metric(where(self.numbers, metric=name))[name].loc[self.seeds]
        return {label_of(method): wide[method].to_numpy(float) for method in self.methods}

    def table(self, key: str, at: str, column: str) -> tuple[list, dict[str, np.ndarray]]:
        """Return the v values of the column ``at``, and label → Float[s, v] of another."""
        frame = self.tables[key]
        places = sorted(frame[at].unique())
        wide = (
            frame.pivot(index=["method", "seed"], columns=at, values=column)
            .astype(float)
            .reindex(columns=places)
        )
        return places, {label_of(m): wide.loc[m].loc[self.seeds].to_numpy() for m in self.methods}


def label_of(method: str) -> str:
    """Return the title of a method in figures."""
    return LABELS.get(method) or OTHERS.get(method, method.replace("_", " "))


def study_of(records: Sequence[Record], folder: Path, methods: Sequence[str]) -> Study:
    """Return the runs of some methods on the seeds that all have; the parent is that of any run."""
    numbers, tables, read_runs = [], {}, set()
    for record in records:
        run = str(record["method"]).removesuffix("-as_in_paper")
        for method, source in (("none", "parent"), (run, "calibrated")):
            if (
                method not in methods
                or (method, record["seed"]) in read_runs
                or (run == "none" and source == "calibrated")
                or (source == "parent" and trains_otherwise(record))
            ):
                continue
            read_runs.add((method, record["seed"]))
            known_keys = {"method": method, "seed": record["seed"]}
            numbers += [
                known_keys | {"metric": e["metric"], "value": e["value"]}
                for e in record["metrics"]
                if (e["of"], e["on"]) == (source, "test")
            ]
            for key, frame in _tables(record, folder):
                tables.setdefault(key, []).append(
                    where(frame, of=source, on="test").assign(**known_keys)
                )
    seeds = {method: {seed for each, seed in read_runs if each == method} for method in methods}
    if missing := [method for method, result in seeds.items() if not result]:
        raise DataError(f"no run of {', '.join(missing)}; run them, or name others with --methods")
    together = sorted(set.intersection(*seeds.values()))
    if not together:
        raise DataError(
            f"no seed has a run of each of {', '.join(methods)}; name fewer with --methods"
        )
    return Study(
        list(methods),
        together,
        pd.DataFrame(numbers),
        {key: pd.concat(frames) for key, frames in tables.items()},
    )


def _tables(record: Record, folder: Path) -> Iterable[tuple[str, pd.DataFrame]]:
    (run,) = folder.glob(f"*/*/{record['run_id']}")
    for key, file in record["files"]["tables"].items():
        yield key, pd.read_csv(run / file)


def lce(study: Study, spaces: Mapping[str, str] = SPACES) -> Figure:
    """Draw Figures 5 and 17 in the measured spaces (key of a table → title), on log axes."""
    curves = {}
    for key, title in spaces.items():
        if key in study.tables:
            columns = [
                study.table(key, "bandwidth", c) for c in ("mlce", "lce", "mlce_n_eff", "n_eff")
            ]
            curves[title] = LceCurves(
                np.array(columns[0][0]), *(by_method for _, by_method in columns)
            )
    return plot_lce_against_bandwidth(curves, band_of=study.runs_of, log=True)


def reward(study: Study) -> Figure:
    """Draw Figure 4: reward over the parent against the cost of a mistake, and answers "unsure"."""
    (ratios, gained), (_, unsure) = (
        study.table("reward_by_ratio", "ratio", column) for column in ("reward", "unsure")
    )
    return plot_reward_against_ratio(np.array(ratios), gained, unsure, band_of=study.runs_of)


def groups(study: Study) -> Figure:
    """Draw the MCE of each group, its worst bin, and the excess of confidence over accuracy."""
    names, mce = study.table("by_group", "group", "mce")
    (_, confidence), (_, error), (_, behind), (_, rows) = (
        study.table("by_group", "group", c) for c in ("confidence", "error", "worst_rows", "rows")
    )
    parent = label_of("none")
    gap = {method: confidence[method] + error[method] - 1 for method in mce}
    tables = [
        GroupTable("MCE", mce, n_rows=behind),
        GroupTable("mean confidence − accuracy", gap, "signed"),
    ]
    wrong = [f"{np.nanmean(column):.2f}".removeprefix("0") for column in error[parent].T]
    return plot_group_tables(
        tables,
        [str(name) for name in names],
        np.nanmean(rows[parent], axis=0).tolist(),
        notes={"error": wrong},
        runs_of=study.runs_of,
    )


def correlation(study: Study) -> Figure:
    """Draw Table 2 as dots, for the measured metrics."""
    panels = {t: study.metric(n) for n, t in CORRELATED.items() if n in set(study.numbers.metric)}
    return plot_metric_against_metrics(
        panels, study.metric("group_mce"), ylabel="max group MCE", runs_of=study.runs_of
    )


FIGURES: dict[str, Callable[[Study], Figure]] = {
    "lce": lce,
    "groups": groups,
    "correlation": correlation,
}


def main() -> None:
    """Draw all figures of the runs below a folder."""
    to = Path("outputs/p4_figures")
    names = "by the names of their runs, the parent (none) first; all that were run"
    more = {
        "--experiment": {"default": "paper/p4/crime_long", "help": "whose runs"},
        "--methods": {"nargs": "*", "help": names},
    }
    options = study_options(__doc__, outputs=True, to=to, only=FIGURES, more=more)
    records = runs_of(options.experiment, options.outputs, free=["dataset.path"])
    run = {str(record["method"]).removesuffix("-as_in_paper") for record in records} - {"none"}
    methods = options.methods or ["none", *(name for name in LABELS if name in run)]
    study = study_of(records, options.outputs, methods)
    for name in options.only:
        stem = options.to / f"{options.experiment.rpartition('/')[2]}_{name}"
        print(*save_picture(FIGURES[name](study), stem, Path(__file__).parent), sep="\n")


if __name__ == "__main__":
    in_one_line(main)
