"""CelebA's attribute table beside Tables 1 to 3 (settings 2 and 3) of Luo et al.: the tables after
the experiments ``paper/p4/celeba_hair_*``.

``python -m experiments.p4.celeba outputs`` prints both again, from any subset of the runs. The
paper's classifier is a ResNet-50 on the images and its features are Inception's; here both are a
network of 3×100 units on the other attributes. The two settings, their rows, groups, bins, epochs,
batches and learning rate are the paper's.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.common.runs import Record, runs_of
from experiments.p4 import setting

HAIR_COLOR = setting.Setting(
    title="Luo et al., setting 2 (hair colour), on attributes",
    dataset="celeba_hair_color",
    missing="no run of CelebA is there",
    methods={
        "none": "none",
        "temperature": "temperature",
        "histogram": "histogram",
        "isotonic": "isotonic",
        "mmce": "mmce",
        "group_temperature": "group temperature",
        "group_histogram": "group histogram",
        "lore_pca": "LoRe PCA",
        "lore_pca_printed": "LoRe PCA",
        "lore_free": None,
        "lore_classes": None,
        "density_ratio": None,
        "bin_mean_shift": None,
    },
    not_run={"lore_tsne": "LoRe t-SNE"},
    cells={"group_mce_10": "in cells of ≥ 10 rows", "group_mce_100": "of ≥ 100 rows"},
    overall={"ece": ("ECE in percent", 100.0), "nll": ("NLL", 1.0), "brier": ("Brier", 1.0)},
    digits=3,
    correlated={
        "ece": "ECE",
        "mce": "MCE",
        "nll": "NLL",
        "brier": "Brier",
        "mlce_pca": "MLCE_0.4 (PCA)",
        "mlce_pca_printed": "MLCE_0.4 (PCA)",
        "group_mce_10": None,
        "group_mce_100": None,
    },
    note=(
        "Mean ± standard deviation over seeds of the network, of 19,962 test rows; 15 equal bins."
        " NLL (probabilities at least 1e-12) and Brier score are of whole rows, which a method of"
        " the top label fills up in the network's proportions. LoRe in t-SNE is not run: it would"
        " embed 39,829 rows anew for every seed."
    ),
    metric_titles={
        "mlce_pca": "MLCE, γ = 0.4 (PCA), γ in units of spread",
        "mlce_pca_printed": "MLCE, γ = 0.4 (PCA), as printed",
        "group_mce_10": "max group MCE over cells of 10 rows or more",
        "group_mce_100": "max group MCE over cells of 100 rows or more",
    },
    own={"error": "error"},
    titles={"lore_pca": setting.REFITTED},
    own_units=("",),
    resplit=False,
)
HAIR_TYPE = replace(
    HAIR_COLOR, title="Luo et al., setting 3 (hair type), on attributes", dataset="celeba_hair_type"
)
SETTINGS = {each.dataset: each for each in (HAIR_COLOR, HAIR_TYPE)}


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Tables 1 to 3, published and measured, and the paired tests, of each setting."""
    by_setting = {
        name: [record for record in records if record["dataset"]["name"] == name]
        for name in SETTINGS
    }
    parts = [
        setting.compare_with_published(own, SETTINGS[name])
        for name, own in by_setting.items()
        if own
    ]
    return "\n\n".join(parts) if parts else HAIR_COLOR.missing


def main(arguments: Sequence[str]) -> None:
    """Print the tables of the runs below a folder."""
    folder = Path(arguments[0] if arguments else "outputs")
    print(
        compare_with_published(
            [
                record
                for name in SETTINGS
                for record in runs_of(f"paper/p4/{name}", folder, free=["dataset.path"])
            ]
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
