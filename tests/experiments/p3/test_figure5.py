"""Figure 5: AUROC of TOOD at each step, of each set and kind of labels; what judges single rows is
not in it.
"""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p3 import figure5
from experiments.p3.records import DETECTED
from kdgraph.errors import KdgError


def made(dataset: str, labels: str, seed: int, detector: str = "tood") -> dict:
    other = "the_other/cifar100" if dataset == "cifar10" else "the_other/cifar10"
    shuffled = 0.05 * (labels == "shuffled")
    metrics = [
        {
            "of": of,
            "metric": "auroc",
            "ood": name,
            "value": value + shuffled - level / 1000 + seed / 100,
            "params": {"epsilon": level / 255},
        }
        for name, value in (("svhn", 0.9), (other, 0.5))
        for level in (0, 2, 8)
        for of in ("parent", DETECTED)
    ]
    about = {"dataset": {"name": dataset}, "detector": detector, "seed": seed}
    return about | {
        "config": {"detector": {"labels": labels}},
        "metrics": [*metrics, {"of": DETECTED, "metric": "auroc", "ood": "svhn", "value": 0}],
    }


@pytest.fixture
def records() -> list[dict]:
    of = [
        made(dataset, labels, seed)
        for dataset in ("cifar10", "cifar100")
        for labels in ("given", "shuffled")
        for seed in (0, 1)
    ]
    return [*of, made("cifar10", "given", 0, "knn")]


def test_each_cifar_has_a_panel_and_each_set_curves_by_labels(records) -> None:
    axes, _ = figure5.figure_5(figure5.aurocs(records)).axes
    lines = {str(line.get_label()): line for line in axes.lines}
    assert axes.get_title() == "CIFAR-10 in distribution"
    assert set(lines) == {
        "SVHN, given",
        "SVHN, shuffled",
        "CIFAR-100, given",
        "CIFAR-100, shuffled",
    }
    steps, values = lines["SVHN, shuffled"].get_data()
    np.testing.assert_array_equal(steps, [0, 2, 8])
    np.testing.assert_allclose(
        np.asarray(values, dtype=float), 0.95 + 0.005 - np.array([0, 2, 8]) / 1000
    )
    assert len({(line.get_color(), str(line.get_linestyle())) for line in lines.values()}) == 4


def test_no_runs_give_one_line(tmp_path) -> None:
    with pytest.raises(
        KdgError,
        match=(
            r"no run of paper/p3/cifar_fgsm in .*; make them with kdg run"
            r" experiment=paper/p3/cifar_fgsm"
        ),
    ):
        figure5.draw(tmp_path, tmp_path)
