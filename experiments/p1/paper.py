"""Dey et al.: which of its numbers are made again by which runs."""

from __future__ import annotations

from pathlib import Path

from experiments.p1 import cifar10
from experiments.p1.cc18 import published as cc18
from experiments.p1.figures import tables
from experiments.reproduction.declared import Paper, Size, Study

_PLANE = "experiment=paper/p1/simulations"
_TABLES = "experiment=paper/p1/cc18"
_MEANS = "means over seeds where the paper's plots are read at medians; one floor for all panels"
_RULES = "10 edges for networks too, 30 % of the rows calibrate, and scaling by the training rows, unlike the authors' code"

PAPER = Paper(
    name="p1",
    title="Dey et al., Deep discriminative to kernel density graph for in- and out-of-distribution calibrated inference",
    folder=Path(__file__).parent,
    studies=[
        Study(
            items=("Section 5.1.1", "Figure 1"),
            sizes={
                "smoke": Size(
                    [
                        (
                            _PLANE,
                            "seed=0,1",
                            "dataset.n_train=1000",
                            "method=kdf",
                            "dataset=spiral",
                            "calibrator.variant=figure1",
                            "calibrator.distance=geodesic",
                        )
                    ],
                    differs=f"two seeds, KDF with geodesic distances on the spiral, 1,000 rows; {_MEANS}",
                    minutes=1,
                ),
                "workstation": Size(
                    [
                        (_PLANE, "seed=range(0,3)", "dataset.n_train=1000"),
                        (_PLANE, "seed=0", "dataset.n_train=10000"),
                    ],
                    differs=f"three seeds at 1,000 rows and one at 10,000, where the paper has ten; {_MEANS}",
                ),
                "paper": Size([(_PLANE,)], differs=_MEANS),
            },
            measured=tables.measured,
            repeats=10,
        ),
        Study(
            items=("Figure 2",),
            sizes={
                "workstation": Size(
                    [(_TABLES, "method=refit,sigmoid,isotonic,kdf", "seed=0")],
                    differs=f"forests alone, one seed where the paper has ten, tables that can be fetched; three sizes a table; {_RULES}",
                    minutes=15,
                ),
                "paper": Size([(_TABLES,)], differs=f"five seeds, three sizes a table; {_RULES}"),
            },
            measured=cc18.measured,
        ),
        Study(
            items=("Table 1", "Table 4"),
            sizes={
                "workstation": Size(
                    [("experiment=paper/p1/cifar10",)],
                    differs="LeNet-5 on 8,000 images in place of a pretrained encoder on 50,000, so ours stands beside and is not judged",
                ),
            },
            measured=cifar10.measured,
        ),
    ],
    better={
        "error": "lower",
        "hellinger on the grid": "lower",
        tables.AWAY: 0.5,
        "accuracy": "higher",
        "MCE": "lower",
        "MMC*": "lower",
        "OCE": "lower",
        **{f"relative improvement in {name}, median of tables": "higher" for name in ("error", "ece_by_edges")},
    },
)
