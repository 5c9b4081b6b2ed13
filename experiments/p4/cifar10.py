"""CIFAR-10 in ImageNet's place: Table 4 and Figures 3, 4, 9 and 10 to 15 of Luo et al.

``python -m experiments.p4.cifar10 features cifar10.npz --record wideresnet=FILE --record
lenet_5=FILE`` makes the file of scores and features, ``kdg run experiment=paper/p4/cifar10`` runs
every method on splits of it and prints the tables at its end; ``… tables outputs`` prints them
again, from any subset of the runs, and ``… figures outputs`` draws. The scores are records of
networks that others trained, so that MMCE, which trains one, has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.common.command import in_one_line
from experiments.common.frames import by_metric, half_width, where
from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from experiments.common.pictures import save_picture
from experiments.common.published import cell, read_published
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p4 import cifar10_features
from experiments.p4.figures import Study, lce, reward, study_of
from experiments.p4.score_records import ScoreStudy
from experiments.p4.setting import entries

EXPERIMENT = "paper/p4/cifar10"
# Keys that may differ besides scores, seed and method.
FREE = ("dataset.path", "dataset.name", "dataset.made_by")
TITLES = titles("p4", "cifar10")
METHODS = TITLES["methods"]  # Method → its row in Table 4, or None
# Metric → its column, and that of Table 4. The unit of the paper's Brier score of 40.6 is unknown.
COLUMNS = TITLES["columns"]
AGAINST = ("none", "temperature", "histogram", "isotonic")
# Space of a metric → its title; LoRe in it is ``lore_…``, but ``lore_tsne`` in that of the ResNet.
MAPS = {"resnet": "ResNet-8", "lenet": "LeNet-5", "pixels": "pixels"}
ACROSS = TITLES["across"]  # Methods whose local errors are measured in each map
LOCAL = {"mlce_{}": "MLCE", "mlce_{}_30": "MLCE, bins of ≥ 30 rows", "lce_{}": "mean LCE"}
# Methods of Figures 3, 4 and 9.
DRAWN = ("none", "temperature", "histogram", "isotonic", "lore_tsne_02", "lore_tsne")
# Methods of Figures 10 to 15.
IN_MAPS = ("none", "histogram", "lore_tsne_02", "lore_lenet_02", "lore_pixels_02")
NOTE = TITLES["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Table 4, paired differences of PRR and local errors in three maps, by record."""
    parts = []
    for name in sorted({str(record["dataset"]["name"]) for record in records}, reverse=True):
        own = [record for record in records if record["dataset"]["name"] == name]
        frame = pd.DataFrame(entries(own))
        if frame.empty:
            continue
        n_calibration, n_test = (own[0]["dataset"][count] for count in ("n_calibration", "n_test"))
        title = (
            f"## Luo et al., {name}: {n_calibration:,} calibration rows, {n_test:,} test rows,"
            f" {frame.seed.nunique()} splits"
        )
        parts += [
            title,
            decisions(frame),
            paired(frame, n_test / n_calibration),
            across_maps(frame),
        ]
    return "\n\n".join([*parts, NOTE]) if parts else "no run of CIFAR-10 scores is there"


def decisions(frame: pd.DataFrame) -> str:
    """Return Table 4, measured beside published."""
    published = read_published(Path(__file__).parent)
    table = published[published.item == "Table 4"]
    columns = ["method"]
    for name, printed in COLUMNS.values():
        columns += [name, "published"] if printed else [name]
    rows = []
    wide = _means(frame)
    for method in (m for m in METHODS if m in wide.index):
        row = [method]
        for metric, (_, printed) in COLUMNS.items():
            mean, digits = wide[metric].get(method, np.nan), 1 if metric == "nll_top_clipped" else 3
            row.append(number(float(mean), digits).replace("-", "−"))
            if printed:
                row.append(cell(where(table, method=METHODS[method], metric=printed)))
        rows.append(row)
    return markdown_table(columns, rows)


def paired(frame: pd.DataFrame, share: float) -> str:
    """Return PRR and reward of each LoRe less that of each of :data:`AGAINST`, split by split."""
    columns = [
        "LoRe",
        *(f"{name} less that of {other}" for name in ("PRR", "reward") for other in AGAINST),
    ]
    rows = []
    of_metric = by_metric(frame[frame.metric.isin(["prr", "reward"])])
    wide = {metric: of_metric.get(metric, pd.DataFrame()) for metric in ("prr", "reward")}
    for method in (m for m in METHODS if m.startswith("lore") and m in wide["prr"]):
        pairs = [(values, other) for values in wide.values() for other in AGAINST]
        rows.append([method, *(_difference(v, method, other, share) for v, other in pairs)])
    return markdown_table(columns, rows)


def _difference(values: pd.DataFrame, method: str, other: str, share: float) -> str:
    if other not in values:
        return "–"
    difference = (values[method] - values[other]).dropna()
    above = f"{int((difference > 0).sum())}/{len(difference)}"
    return f"{signed(float(difference.mean()))} ± {number(half_width(difference, share))} ({above})"


def across_maps(frame: pd.DataFrame) -> str:
    """Return local errors at γ = 0.2 in each map (rows) of LoRe in each map and of others."""
    wide = _means(frame)
    methods = [method for method in ACROSS if method in wide.index]
    rows = []
    for key, name in LOCAL.items():
        for space, title in MAPS.items():
            if key.format(space) not in wide:
                continue
            values = wide.loc[methods, key.format(space)]
            cells = [f"**{number(v)}**" if v == values.min() else number(v) for v in values]
            rows.append([name, title, *cells])
    return markdown_table(["γ = 0.2", "measured in", *methods], rows)


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.pivot_table(index="method", columns="metric", values="value")


def figure3(study: Study) -> Figure:
    """Draw Figures 3 and 9 (MLCE) and 16 (mean LCE): in the t-SNE of LoRe, and in components."""
    spaces = {
        "resnet": "3-D t-SNE",
        "resnet_30": "t-SNE, bins of ≥ 30 rows",
        "pca": "50 components",
    }
    return lce(study, {f"lce_by_bandwidth_{space}": title for space, title in spaces.items()})


def figure10(study: Study) -> Figure:
    """Draw Figures 10 to 15: local errors in each map, of LoRe in each map."""
    return _in_each_map(study, "lce_by_bandwidth_{}")


def figure10_without_small_bins(study: Study) -> Figure:
    """Draw :func:`figure10` without small bins, of which one row decides the others."""
    return _in_each_map(study, "lce_by_bandwidth_{}_30")


def _in_each_map(study: Study, key: str) -> Figure:
    return lce(study, {key.format(space): f"measured in {title}" for space, title in MAPS.items()})


# Name of a picture → its function and methods.
FIGURES: dict[str, tuple[Callable[[Study], Figure], Sequence[str]]] = {
    "lce": (figure3, DRAWN),
    "reward": (reward, DRAWN),
    "maps": (figure10, IN_MAPS),
    "maps_30": (figure10_without_small_bins, IN_MAPS),
}


def draw(records: Sequence[Record], outputs: Path, folder: Path) -> list[Path]:
    """Draw every picture of every record of scores."""
    paths = []
    for dataset in sorted({str(record["dataset"]["name"]) for record in records}):
        own = [record for record in records if record["dataset"]["name"] == dataset]
        for name, (figure, methods) in FIGURES.items():
            paths += save_picture(
                figure(study_of(own, outputs, methods)),
                folder / f"{dataset}_{name}",
                Path(__file__).parent,
            )
    return paths


def _records(outputs: Path) -> list[Record]:
    return runs_of(EXPERIMENT, outputs, free=FREE)


STUDY = ScoreStudy(
    about=__doc__,
    collect=cifar10_features.collect,
    draw=lambda outputs, folder: draw(_records(outputs), outputs, folder),
    pictures=Path("outputs/p4_cifar10"),
    tables=lambda outputs: compare_with_published(_records(outputs)),
)


if __name__ == "__main__":
    in_one_line(STUDY.main)
