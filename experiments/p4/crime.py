"""Communities and Crime beside Tables 1 to 3 (setting 1) of Luo et al.: what ``kdg run
experiment=paper/p4/crime`` prints at its end.

``python -m experiments.p4.crime outputs`` prints it again, from any subset of the runs, and with
``paper/p4/crime_long`` behind it that of the network that is trained for long.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from experiments.common.runs import Record, runs_of
from experiments.p4 import setting

EXPERIMENT, LONG = "paper/p4/crime", "paper/p4/crime_long"
SETTING = setting.Setting(
    title="Luo et al., setting 1",
    dataset="crime",
    missing="no run of Communities and Crime is there",
    methods={
        "none": "none",
        "temperature": "temperature",
        "histogram": "histogram",
        "isotonic": "isotonic",
        "mmce": "mmce",
        "group_temperature": "group temperature",
        "group_histogram": "group histogram",
        "lore_tsne": "LoRe t-SNE",
        "lore_pca": "LoRe PCA",
        "lore_tsne_printed": "LoRe t-SNE",
        "lore_pca_printed": "LoRe PCA",
        "lore_free": None,
        "lore_geodesic": None,
        "density_ratio": None,
        "bin_mean_shift": None,
        "constant": None,
    },
    cells={"group_mce_10": "in cells of ≥ 10 rows"},
    ours={
        "lore_free": ("LoRe PCA", "simplest γ and bins"),
        "lore_geodesic": ("LoRe PCA", "geodesic, simplest γ and bins"),
    },
    overall={
        "ece": ("ECE in percent", 100.0),
        "nll_top": ("NLL", 1.0),
        "brier_top": ("Brier", 1.0),
    },
    digits=2,
    correlated={
        "ece": "ECE",
        "mce": "MCE",
        "nll_top": "NLL",
        "brier_top": "Brier",
        "mlce_tsne": "MLCE_0.2 (t-SNE)",
        "mlce_pca": "MLCE_0.4 (PCA)",
        "mlce_tsne_printed": "MLCE_0.2 (t-SNE)",
        "mlce_pca_printed": "MLCE_0.4 (PCA)",
        "group_mce_10": None,
    },
    note="Mean ± standard deviation over seeds, of 500 test rows each; five equal bins.",
    called={
        "mlce_tsne": "MLCE, γ = 0.2 (t-SNE), γ in units of spread",
        "mlce_pca": "MLCE, γ = 0.4 (PCA), γ in units of spread",
        "mlce_tsne_printed": "MLCE, γ = 0.2 (t-SNE), as printed",
        "mlce_pca_printed": "MLCE, γ = 0.4 (PCA), as printed",
        "group_mce_10": "max group MCE over cells of ten rows or more",
    },
)


def compare_with_published(records: Sequence[Record]) -> str:
    """Tables 1 to 3 of setting 1, published and found, and the paired tests, of the records of a
    sweep; markdown.
    """
    return setting.compare_with_published(records, SETTING)


def measured(folder: Path) -> pd.DataFrame:
    """Its numbers as :func:`experiments.p4.setting.measured` has them, behind both networks; MMCE
    trains one of its own, stopped early.
    """
    found = [
        setting.measured(pd.DataFrame(setting.entries(runs_of(EXPERIMENT, folder))), SETTING),
        setting.measured(
            pd.DataFrame(setting.entries(runs_of(LONG, folder))),
            SETTING,
            "60 epochs",
            alone=("mmce",),
        ),
    ]
    return pd.concat(found, ignore_index=True)


def main(arguments: Sequence[str]) -> None:
    """Print the tables of the runs below a folder."""
    folder, experiment = (
        Path(arguments[0] if arguments else "outputs"),
        arguments[1] if len(arguments) > 1 else EXPERIMENT,
    )
    print(compare_with_published(runs_of(experiment, folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
