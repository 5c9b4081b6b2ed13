"""Figure 8 of Luo et al., CIFAR-100, from a published record of scores: local errors in a t-SNE of
the record's own logits.

``python -m experiments.p4.cifar100 features cifar100.npz --record FILE`` makes the file, ``kdg run
experiment=paper/p4/cifar100 dataset.path=cifar100.npz`` runs the methods on splits of it, and ``…
figures outputs`` draws. The images in the record's order are not at hand, so that neither features
of another network nor MMCE, which trains one, can be had.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.common.command import in_one_line
from experiments.common.pictures import save_picture
from experiments.common.runs import runs_of
from experiments.p4.cifar10_features import DIMENSIONS, read_record
from experiments.p4.figures import Study, lce, study_of
from kdgraph.features.reductions import TsneEmbedding

EXPERIMENT = "paper/p4/cifar100"
FREE = ("dataset.path", "dataset.name", "dataset.made_by")
"""What may differ beside seed and method."""
METHODS = ("none", "temperature", "histogram", "isotonic", "lore_logits_02")
ROWS = 3_000
"""Rows of the record that are used, the first ones: t-SNE takes minutes of each thousand."""
SPACES = {
    "lce_by_bandwidth_logits": "3-D t-SNE of logits",
    "lce_by_bandwidth_logits_30": "bins of ≥ 30 rows",
}
"""Table → what the figure calls it."""


def collected(record: Path, n_rows: int = ROWS) -> dict[str, np.ndarray]:
    """Arrays of the file: label, scores and the t-SNE of their logits, of the first rows.

    The softmax leaves logits up to a constant of each row: log scores less their mean.
    """
    scores, labels = read_record(record)
    scores, labels = scores[:n_rows], labels[:n_rows]
    logits = np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    logits -= logits.mean(axis=1, keepdims=True)
    embedded = TsneEmbedding(DIMENSIONS, 0).fit(logits.astype(np.float32)).embedding_
    return {
        "label": labels.astype(np.int16),
        "wideresnet": scores / scores.sum(axis=1, keepdims=True),
        "logits_tsne": embedded.astype(np.float32),
    }


def study(outputs: Path) -> Study:
    """Return what the runs of all methods below a folder have.

    Raises
    ------
    DataError
        A method has no run.
    """
    return study_of(runs_of(EXPERIMENT, outputs, free=FREE), outputs, METHODS)


def figure8(outputs: Path) -> Figure:
    """Draw MLCE and mean LCE against the bandwidth, in all bins and in those of 30 rows or more."""
    return lce(study(outputs), SPACES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the file, or draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(dest="what", required=True)
    features = what.add_parser("features", help="make the file of scores and their t-SNE")
    features.add_argument("path", type=Path, help="the .npz file to write")
    features.add_argument(
        "--record",
        type=Path,
        required=True,
        metavar="FILE",
        help="softmax of the test images: predictions, ground_truth",
    )
    features.add_argument("--rows", type=int, default=ROWS, help="how many of them")
    figures = what.add_parser("figures", help="draw it")
    figures.add_argument(
        "outputs", type=Path, nargs="?", default=Path("outputs"), help="where the runs are"
    )
    figures.add_argument(
        "--to", type=Path, default=Path("outputs/p4_cifar100"), help="where the picture goes"
    )
    given = parser.parse_args(arguments)
    if given.what == "features":
        made = collected(given.record, given.rows)
        np.savez_compressed(given.path, **made)  # pyright: ignore[reportArgumentType] - the stubs take the arrays for the switch behind them
        print(f"{given.path}: {len(made['label']):,} rows of {made['wideresnet'].shape[1]} classes")
        return
    print(
        *save_picture(figure8(given.outputs), given.to / "cifar100_lce", Path(__file__).parent),
        sep="\n",
    )


if __name__ == "__main__":
    in_one_line(main)
