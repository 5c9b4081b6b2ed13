"""What stands for which published number: keys that the paper has, values of the records, and nothing without a study or a word why."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.common.published import ABOUT, read_published
from experiments.p1 import cifar10
from experiments.p1.cc18.published import in_published_terms, published_numbers
from experiments.p1.figures import tables
from experiments.p1.paper import PAPER
from experiments.reproduction.reasons import MISSING, reasons_of
from experiments.reproduction.verdicts import cells_of
from tests.experiments.p1.test_cifar10 import record
from tests.experiments.p1_runs import write

NOT_YET = {"Section 6": "an exponent that the paper derives; scripts/bench_kdf.py fits ours"}
PUBLISHED = read_published(PAPER.folder)


def ours(measured: pd.DataFrame, variant: str = "", **of: object) -> list[float]:
    """Means of cells; keys that no published number has are refused."""
    assert set(measured) == {*PUBLISHED.columns} - ABOUT | {"seed", "value", "variant"}
    cells = cells_of(PAPER, PUBLISHED, measured)
    chosen = [cell for cell in cells if all(cell.published[name] == value for name, value in of.items())]
    found = [cell.variants.get(variant) if variant else cell.ours for cell in chosen]
    return [one.mean for one in found if one is not None]


def test_figure_1_is_of_the_version_that_made_it_and_ours_stands_beside(tmp_path, configs) -> None:
    for config in configs:
        write(tmp_path, config, {"figure1": 0.2, "kdgraph": 0.1}[config.calibrator["variant"]] + 0.02 * config.seed)
    measured = tables.measured(tmp_path)
    errors = {"item": "Figure 1", "dataset": "spiral", "metric": "error", "n_train": 1000.0}
    assert ours(measured, method="kdf geodesic", **errors) == pytest.approx([0.21])
    assert ours(measured, "kdgraph's variant", method="kdf geodesic", **errors) == pytest.approx([0.11])
    assert ours(measured, method="random_forest", **errors) == [0.25]
    assert ours(measured, item="Figure 1", metric=tables.FROM, method="kdf geodesic") == [2.0]
    assert ours(measured, item="Section 5.1.1") == [0.5]


def test_figure_2_of_the_stored_numbers_is_what_was_published() -> None:
    measured = in_published_terms(published_numbers())
    cells = [cell for cell in cells_of(PAPER, PUBLISHED, measured) if cell.ours is not None and cell.published["item"] == "Figure 2"]
    far = [cell for cell in cells if not np.isnan(cell.published["radius"])]
    assert len(cells) == 94 - 5 - 2 and len(far) == 3 + 7 + 1  # but test rows' confidence and Euclidean distances
    for cell in (cell for cell in cells if cell not in far):  # far ones are of one table more
        assert cell.ours is not None and cell.ours.mean == pytest.approx(cell.published["value"], abs=6e-4), cell.published


def test_the_transformer_is_table_1_and_lenet_stands_beside_both() -> None:
    measured = cifar10.in_published_terms([record("kdn", 0, 0.5), record("kdn", 0, 0.125, parent={"name": "encoder", "model": "a/folder"})])
    accuracy = {"metric": "accuracy", "method": "KDN"}
    assert ours(measured, **accuracy) == [87.5]
    assert ours(measured, cifar10.LENET, **accuracy) == [50.0, 50.0]
    assert ours(measured, cifar10.LENET, metric="OCE", method="Parent", ood="noise") == [0.25, 0.25]


def test_every_result_has_a_study_or_a_word_why() -> None:
    missing = [reason for reason in reasons_of(PAPER.folder) if reason.kind == MISSING]
    for _, row in PUBLISHED[PUBLISHED.kind != "setting"].iterrows():
        told = any(reason.is_of(dict(row)) for reason in missing)
        assert PAPER.study_of(row["item"]) or told or row["item"] in NOT_YET, row["item"]
