"""Studies that make the numbers of Torres et al."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from experiments.p5 import diamonds, line, memory, simulation, table1, table2
from experiments.reproduction.studies import SCALES, Paper, Size, Study

_T1 = "experiment=paper/p5/table1"
_T2 = "experiment=paper/p5/table2"
_T3 = "experiment=paper/p5/diamonds"
_SAMPLES = "n samples of 100,000 rows each, where the paper has one"
_SPLITS = "n divisions of the rows, where the paper has one"
_WIDE = ("parent.hidden=[6400,6400,240,240]", "parent.max_epochs=75")
_SMALL = (
    "a network of 256, 256, 64 and 64 units, 15 epochs, 100 masks (paper: 25 times as many units in"
    " a wide layer, 75 epochs, 1,000 masks)"
)


def _nominal(points: float) -> Callable[[Mapping[str, object]], float]:
    """Return the ideal coverage of a row, the level of its interval."""
    return lambda row: points * float(str(row["level"]))


def _methods(folder: str, names: str) -> str:
    return "method=" + ",".join(
        name if "/" in name else f"paper/p5/{folder}/{name}" for name in names.split()
    )


PAPER = Paper(
    name="p5",
    title=(
        "Torres, Nott, Sisson, Rodrigues, Reis and Rodrigues, Model-free"
        " local recalibration of neural networks, 2024"
    ),
    folder=Path(__file__).parent,
    studies=[
        Study(
            items=("Section 2",),
            sizes={
                "workstation": Size(
                    [(_T1, "method=global_pit")],
                    differs=f"the line of Table 1 alone; {_SAMPLES}",
                    minutes=2,
                ),
                "paper": Size(
                    [(_T1, "method=global_pit")],
                    differs=f"the line of Table 1 alone; {_SAMPLES}",
                    minutes=2,
                ),
            },
            measured=table1.measured_in_section2,
        ),
        Study(
            items=("Section 4.1",),
            sizes={
                scale: Size(
                    computed={"section41": line.section41},
                    differs=f"{_SAMPLES}; p-values of at least 1 / 10,000",
                    minutes=0.3,
                )
                for scale in SCALES
            },
        ),
        Study(
            items=("Section 4.3",),
            sizes={
                scale: Size(
                    computed={"section43": memory.section43},
                    differs=(
                        "the truth's error on n samples of 100,000 rows; memory is that which"
                        " predicted distributions keep"
                    ),
                    minutes=0.5,
                )
                for scale in SCALES
            },
            measured=simulation.settings,
        ),
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
            items=("Table 2", "Section 4.2"),
            sizes={
                "workstation": Size([(_T2,)], differs=f"{_SMALL}; n samples", minutes=11),
                "paper": Size(
                    [
                        (_T2, _methods("table2", "wsir_50 wsir_50_local_radius"), *_WIDE),
                        (
                            _T2,
                            _methods("table2", "mc_dropout_50 mc_dropout_50_local_radius"),
                            *_WIDE,
                            "parent.masks=1000",
                        ),
                    ],
                    differs="n samples, where the paper has one",
                ),
            },
            measured=table2.measured,
        ),
        Study(
            items=("Table 3", "Section 4.4"),
            sizes={
                "smoke": Size(
                    [(_T3, "seed=0", _methods("diamonds", "glm glm_isotonic glm_local_1000"))],
                    differs="one division; GLM alone",
                    minutes=1,
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
    parents={
        "global_pit": "linear",
        "local_pit": "linear",
        "wsir-local_pit": "wsir",
        "mc_dropout-local_pit": "mc_dropout",
        **{
            f"{parent}-{method}": parent
            for parent in ("gamma_glm", "gamma_network")
            for method in ("isotonic_pit", "density_pit", "local_pit")
        },
    },
    no_better=frozenset({"truth"}),
    bounds=frozenset(
        {
            "p-value of Frosini's test, at most",
            "exponent of n in the memory of prediction",
            "factor of k in the memory of prediction",
        }
    ),
)
