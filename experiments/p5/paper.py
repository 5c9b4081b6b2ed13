"""Torres et al.: which of its numbers are made again by which runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from experiments.p5 import diamonds, table1, table2
from experiments.reproduction.declared import Paper, Size, Study

_T1 = "experiment=paper/p5/table1"
_T2 = "experiment=paper/p5/table2"
_T3 = "experiment=paper/p5/diamonds"
_SAMPLES = "20 samples of 90,000 rows each, where the paper has one"
_SPLITS = "ten divisions of the rows, where the paper has one"
_SMALL = (
    "a network of 256, 256, 64 and 64 units, 15 epochs, 100 masks (paper: 25 times as many units in a wide layer, 75 epochs, 1,000 masks)"
)


def _nominal(points: float) -> Callable[[Mapping[str, object]], float]:
    """The level of a row's interval, which coverage should be."""
    return lambda row: points * float(str(row["level"]))


def _methods(folder: str, names: str) -> str:
    return "method=" + ",".join(name if "/" in name else f"paper/p5/{folder}/{name}" for name in names.split())


PAPER = Paper(
    name="p5",
    title="Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, Model-free local recalibration of neural networks, 2024",
    folder=Path(__file__).parent,
    studies=[
        Study(
            items=("Table 1",),
            sizes={
                "smoke": Size(
                    [(_T1, "seed=0,1", "method=linear,global_pit,paper/p5/table1/local_pit_1000")],
                    differs="two samples; recalibration whose k is chosen left out",
                    minutes=1,
                ),
                "workstation": Size([(_T1,)], differs=_SAMPLES, minutes=14),
                "paper": Size([(_T1,)], differs=_SAMPLES, minutes=14),
            },
            measured=table1.measured,
        ),
        Study(
            items=("Table 2",),
            sizes={"workstation": Size([(_T2,)], differs=f"{_SMALL}; three samples", minutes=11)},
            measured=table2.measured,
        ),
        Study(
            items=("Table 3",),
            sizes={
                "smoke": Size(
                    [(_T3, "seed=0", _methods("diamonds", "glm glm_isotonic glm_local_1000"))], differs="one division; GLM alone", minutes=1
                ),
                "workstation": Size([(_T3,)], differs=_SPLITS, minutes=26),
                "paper": Size([(_T3,)], differs=_SPLITS, minutes=26),
            },
            measured=diamonds.measured,
        ),
    ],
    better={
        "MSE": "lower",
        "sMIS": "lower",
        "RMSE": "lower",
        "coverage (%)": _nominal(100),
        "coverage": _nominal(1),
    },
)
