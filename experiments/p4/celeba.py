"""CelebA's attribute table beside Tables 1 to 3 (settings 2 and 3) of Luo et al.: the tables after
the experiments ``paper/p4/celeba_hair_*``.

``python -m experiments.p4.celeba outputs`` prints both again, from any subset of the runs. The
paper's classifier is a ResNet-50 on the images and its features are Inception's; here both are a
network of 3×100 units on the other attributes. The two settings, their rows, groups, bins, epochs,
batches and learning rate are the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from experiments.common.command import print_comparison
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p4 import setting

HAIR_COLOR = setting.Setting(**titles("p4", "celeba")["hair_color"])
HAIR_TYPE = replace(
    HAIR_COLOR, title="Luo et al., setting 3 (hair type), on attributes", dataset="celeba_hair_type"
)
SETTINGS = {each.dataset: each for each in (HAIR_COLOR, HAIR_TYPE)}


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Tables 1 to 3, published and measured, and the paired tests, of each setting."""
    by_setting = {
        n: [record for record in records if record["dataset"]["name"] == n] for n in SETTINGS
    }
    parts = [
        setting.compare_with_published(own, SETTINGS[n]) for n, own in by_setting.items() if own
    ]
    return "\n\n".join(parts) if parts else HAIR_COLOR.missing


def read(folder: Path) -> list[Record]:
    """Return the records of both settings below a folder."""
    free = ["dataset.path"]
    return [r for name in SETTINGS for r in runs_of(f"paper/p4/{name}", folder, free=free)]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
