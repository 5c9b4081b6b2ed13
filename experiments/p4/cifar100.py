"""Figure 8 of Luo et al., CIFAR-100, from a published record of scores: local errors in a t-SNE of
the record's own logits.

``python -m experiments.p4.cifar100 features cifar100.npz --record wideresnet=FILE`` makes the file,
``kdg run experiment=paper/p4/cifar100 dataset.path=cifar100.npz`` runs the methods on splits of it,
and ``… figures outputs`` draws. The images in the record's order are not available, so that there
are neither features of another network nor MMCE, which trains one.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from experiments.common.command import in_one_line
from experiments.common.pictures import save_picture
from experiments.common.runs import runs_of
from experiments.p4.cifar10_features import DIMENSIONS
from experiments.p4.figures import Study, lce, study_of
from experiments.p4.score_records import ScoreStudy, read_record
from kdgraph.errors import DataError
from kdgraph.features.reductions import TsneEmbedding

EXPERIMENT = "paper/p4/cifar100"
# Keys that may differ besides seed and method.
FREE = ("dataset.path", "dataset.name", "dataset.made_by")
METHODS = ("none", "temperature", "histogram", "isotonic", "lore_logits_02")
ROWS = 3_000  # First rows of the record that are used: t-SNE takes minutes of each thousand
SPACES = {  # Table → its title
    "lce_by_bandwidth_logits": "3-D t-SNE of logits",
    "lce_by_bandwidth_logits_30": "bins of ≥ 30 rows",
}


def collect(records: Mapping[str, Path], n_rows: int = ROWS) -> dict[str, np.ndarray]:
    """Return label, scores and the t-SNE of their logits, of the first rows of the only record.

    The softmax leaves logits up to a constant of each row: log scores less their mean.
    """
    if len(records) != 1:
        raise DataError(
            "the map is that of one record's own logits, got"
            f" {len(records)} records; give one --record"
        )
    ((name, path),) = records.items()
    scores, labels = read_record(path)
    scores, labels = scores[:n_rows], labels[:n_rows]
    logits = np.log(np.maximum(scores, np.finfo(np.float32).tiny))
    logits -= logits.mean(axis=1, keepdims=True)
    embedded = TsneEmbedding(DIMENSIONS, 0).fit(logits.astype(np.float32)).embedding_
    return {
        "label": labels.astype(np.int16),
        name: scores / scores.sum(axis=1, keepdims=True),
        "logits_tsne": embedded.astype(np.float32),
    }


def study(outputs: Path) -> Study:
    """Return the runs of all methods below a folder."""
    return study_of(runs_of(EXPERIMENT, outputs, free=FREE), outputs, METHODS)


def figure8(outputs: Path) -> Figure:
    """Draw MLCE and mean LCE against the bandwidth, in all bins and in those of 30 rows or more."""
    return lce(study(outputs), SPACES)


def draw(outputs: Path, folder: Path) -> list[Path]:
    """Draw Figure 8 of the runs below a folder, into another."""
    return save_picture(figure8(outputs), folder / "cifar100_lce", Path(__file__).parent)


STUDY = ScoreStudy(about=__doc__, collect=collect, draw=draw, pictures=Path("outputs/p4_cifar100"))


if __name__ == "__main__":
    in_one_line(STUDY.main)
