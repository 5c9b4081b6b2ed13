"""Histograms of the average pairwise Hamming distance of images in and out of distribution, Figure
3, from finished runs of ``experiment=paper/p3/mnist`` and ``…/cifar``.

``python -m experiments.p3.figure3 outputs --figures experiments/p3/pictures``; the distances come
from the store of the runs, or the runs are done again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common.command import draw_pictures
from experiments.common.markdown import counted_noun, number
from experiments.common.models import evaluation_of
from experiments.common.pictures import save_picture
from experiments.common.runs import Record, runs_of
from experiments.common.settings import by_size
from experiments.p3.images import STUDIES
from experiments.p3.records import IN
from kdgraph.errors import KdgError
from kdgraph.figures import style
from kdgraph.metrics import auroc

PAPER = Path(__file__).parent
METHODS = {"tood_given": "given labels", "tood_shuffled": "shuffled labels"}
# Keys that may differ from the experiments': of runs with several sizes those with the most rows
# are drawn.
SIZES = ("dataset.n_train", "dataset.n_calibration", "dataset.n_test")
# Smallest distance from 1: a row that shares one leaf of 100 trees with one other of 100 rows is as
# near.
NEAREST = 1e-4
ON = ("test", "ood")
_BINS = np.linspace(0.0, -np.log10(NEAREST), 61)
_TICKS = {0.0: "0", 0.9: ".9", 0.99: ".99", 0.999: ".999"}
_FILL = "#c8c8c8"
_NAMES, _WIDTH, _NUMBER, _BETWEEN = 1.4, 2.25, 0.4, 0.12  # inches
_STRIP, _HEAD, _FOOT, _NOTE = 0.22, 0.34, 0.36, 0.2


@dataclass(frozen=True)
class Distances:
    """Distances of one method on one data set."""

    # APHD of rows in sets, of all seeds, Float[n]; test rows are :data:`IN`
    sets: Mapping[str, np.ndarray]
    thresholds: Sequence[float]  # of each seed, below which a row is out of distribution
    auroc: Mapping[str, float]  # mean over seeds for each set out of distribution


def distances(records: Sequence[Record], folder: Path) -> Distances:
    """Read the distances of the runs of one method on one data set, a seed each."""
    result: dict[str, list[np.ndarray]] = {}
    aurocs: dict[str, list[float]] = {}
    for record in records:
        offset = record["learnt"]["detector"]["offset"]
        scores = {
            each.ood_name or IN: each.calibrated["ood_score"]
            for each in evaluation_of(record, folder).predictions
            if each.role in ON
        }
        for name, score in scores.items():
            result.setdefault(name, []).append(offset - np.asarray(score))
            aurocs.setdefault(name, []).append(auroc(np.asarray(score), np.asarray(scores[IN])))
    learnt = [record["learnt"]["detector"] for record in records]
    pooled = {name: np.concatenate(each) for name, each in result.items()}
    means = {name: float(np.mean(each)) for name, each in aurocs.items() if name != IN}
    return Distances(pooled, [each["offset"] for each in learnt], means)


@dataclass(frozen=True)
class Block:
    """Distances of a data set in distribution, by the labels of the trees."""

    title: str
    rows: int  # that train
    sets: Mapping[str, str]  # titles of sets out of distribution, in the order of their strips
    by_labels: Mapping[str, Distances]  # by kind of labels, such as "given labels"

    @property
    def present_sets(self) -> dict[str, str]:
        """Return the sets that some run has."""
        return {
            name: title
            for name, title in self.sets.items()
            if any(name in distances_.sets for distances_ in self.by_labels.values())
        }


def figure_3(blocks: Sequence[Block], note: str) -> Figure:
    """Draw the shares of rows at each distance, a strip for each set out of distribution."""
    height = sum(_HEAD + _STRIP * len(block.present_sets) + _FOOT for block in blocks) + _NOTE
    with style.style_context():
        figure, top = style.new_figure(style.FULL_WIDTH, height), height - _NOTE
        grey: dict[str, Any] = {"fontsize": style.NOTE_SIZE, "color": style.GREY}
        figure.text(0.5, 1 - 0.5 * _NOTE / height, note, ha="center", va="center", **grey)
        for block in blocks:
            names = list(block.present_sets)
            bottom = top - _HEAD - _STRIP * len(names)
            for column, (labels, distances_) in enumerate(block.by_labels.items()):
                left = _NAMES + column * (_WIDTH + _NUMBER + _BETWEEN)
                label, tall = f"{block.title}, {labels}", _STRIP * len(names)
                axes = style.add_axes(figure, left, bottom, _WIDTH, tall, label=label)
                _draw(axes, distances_, names)
                axes.set_title(labels, fontsize=style.LABEL_SIZE + 0.5)
                axes.text(1.03, 1.0, "AUROC", transform=axes.transAxes, va="bottom", **grey)
                if column == 0:
                    _names(axes, block, names)
            top = bottom - _FOOT
    return figure


def _names(axes: Axes, block: Block, names: Sequence[str]) -> None:
    figure = cast("Figure", axes.figure)
    text_style = {"transform": axes.transAxes, "ha": "right", "fontsize": style.LABEL_SIZE}
    title = f"{block.title},\n{block.rows:,} training rows"
    axes.text(-0.03, 1 + 0.2 / len(names), title, va="bottom", **text_style)
    for i, name in enumerate(names):
        text = style.shorten_text(figure, block.sets[name], style.LABEL_SIZE, _NAMES - 0.1)
        axes.text(-0.03, _middle(i, len(names)), text, va="center", **text_style)


def _draw(axes: Axes, measured: Distances, names: Sequence[str]) -> None:
    own = _shares(measured.sets[IN])
    line: dict[str, Any] = {"color": style.VERMILLION, "linewidth": 0.9}
    note_style: dict[str, Any] = {"transform": axes.transAxes, "fontsize": style.LABEL_SIZE}
    for i, name in enumerate(names):
        floor = float(len(names) - 1 - i)
        axes.stairs(floor + own, _BINS, baseline=floor, fill=True, color=_FILL, gid="test rows")
        if name in measured.sets:
            axes.stairs(
                floor + _shares(measured.sets[name]), _BINS, baseline=floor, gid=name, **line
            )
            share = number(measured.auroc[name], 2)
            axes.text(1.03, _middle(i, len(names)), share, va="center", **note_style)
        axes.axhline(floor, color=style.GREY, linewidth=0.4)
    dotted: dict[str, Any] = {"color": style.BLACK, "linewidth": 0.6, "linestyle": (0, (1, 1.5))}
    for threshold in measured.thresholds:
        axes.axvline(float(_place(np.array(threshold))), gid="threshold", **dotted)
    axes.set(xlim=_BINS[[0, -1]], ylim=(0, len(names)), xlabel="APHD", yticks=[])
    axes.spines["left"].set_visible(False)
    axes.set_xticks(_place(np.array(list(_TICKS))), list(_TICKS.values()))


def _place(distance: np.ndarray) -> np.ndarray:
    """Return the place of a distance on the axis, the logarithm of its difference from 1."""
    return -np.log10(np.maximum(1 - distance, NEAREST))


def _shares(distance: np.ndarray) -> np.ndarray:
    """Return Float[bins], the highest .9: places are compared, not heights."""
    count = np.histogram(np.clip(_place(distance), *_BINS[[0, -1]]), _BINS)[0]
    return 0.9 * count / count.max()


def _middle(i: int, n: int) -> float:
    """Return the middle of the i-th strip from the top, as a share of all."""
    return (n - i - 0.5) / n


def read_blocks(folder: Path) -> tuple[list[Block], list[Record]]:
    """Return the block of each data set, of the runs with the most rows, and their records."""
    blocks, used = [], []
    for study in STUDIES:
        records = [
            r for r in runs_of(study.experiment, folder, free=SIZES) if r["method"] in METHODS
        ]
        for dataset, title in study.datasets.items():
            sizes = by_size(record for record in records if record["dataset"]["name"] == dataset)
            for rows in list(sizes.values())[-1:]:
                by_method = {
                    labels: [r for r in rows if r["method"] == m] for m, labels in METHODS.items()
                }
                by_labels = {
                    labels: distances(own, folder) for labels, own in by_method.items() if own
                }
                (other,) = (name for name in study.datasets.values() if name != title)
                n, sets = rows[0]["dataset"]["n_train"], {**study.sets, "the_other": other}
                blocks.append(Block(title, n, sets, by_labels))
                used += rows
    return blocks, used


def draw(folder: Path, to: Path) -> list[Path]:
    """Write the picture of the runs below a folder, figure3.svg and .pdf in another."""
    blocks, used = read_blocks(folder)
    if not blocks:
        raise KdgError(
            f"no run of {' or '.join(study.experiment for study in STUDIES)} in {folder}; make them"
            " with kdg run experiment=…"
        )
    size = used[0]["learnt"]["detector"]["set_size"]
    seeds = counted_noun(
        (len(rows.thresholds) for block in blocks for rows in block.by_labels.values()), "seed"
    )
    note = (
        f"rows in sets of {size}, {seeds} pooled: test rows (filled), a set out of distribution"
        " (line), each in shares of its highest bin; dotted: thresholds of the seeds"
    )
    return save_picture(figure_3(blocks, note), to / "figure3", PAPER)


if __name__ == "__main__":
    draw_pictures(__doc__, draw, "outputs/p3_figures")
