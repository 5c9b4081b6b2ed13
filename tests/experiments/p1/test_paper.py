"""Which number is measured for which published number: keys that the paper has, values of the records, and
nothing without a study or a word why.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.common.published import ABOUT, read_published
from experiments.p1 import cifar10, training_time
from experiments.p1.cc18.published import figure2_statistics, published_numbers
from experiments.p1.figures import floors, tables
from experiments.reproduction.papers import paper
from experiments.reproduction.reasons import MISSING, reasons_of
from experiments.reproduction.verdicts import cells_of
from kdgraph.config import plan
from tests.experiments.p1.test_cifar10 import record
from tests.experiments.p1_runs import SIMULATIONS, write

PAPER = paper("p1")

PUBLISHED = read_published(PAPER.folder)


def ours_of(measured: pd.DataFrame, variant: str = "", **of: object) -> list[float]:
    """Means of cells; keys that no published number has are refused."""
    assert set(measured) == {*PUBLISHED.columns} - ABOUT | {"seed", "value", "variant"}
    cells = cells_of(PAPER, PUBLISHED, measured)
    chosen = [
        cell for cell in cells if all(cell.published[name] == value for name, value in of.items())
    ]
    result = [cell.variants.get(variant) if variant else cell.measured for cell in chosen]
    return [each.mean for each in result if each is not None]


def of_spiral(*words: str) -> list:
    """Configs of KDF with geodesic distances on the spiral, 1,000 rows and two seeds."""
    shared = [
        "dataset=spiral",
        "dataset.n_train=1000",
        "calibrator.distance=geodesic",
        "seed=0,1",
    ]
    return [job.config for job in plan([f"experiment={SIMULATIONS}", *shared, *words]).jobs]


@pytest.mark.slow
def test_figure_1_has_floors_for_near_and_far_rows(
    tmp_path,
) -> None:
    near = of_spiral("method=paper/p1/kdf_august")
    far = of_spiral(
        "method=paper/p1/kdf_august",
        f"calibrator.floor={floors.log_floor('spiral', 'kdf', 1000, far=True)}",
        "ood.unit=feature",
    )
    own = of_spiral("method=kdf", "ood.unit=feature")
    other = of_spiral("method=paper/p1/kdf_august", "calibrator.floor=-1")
    for configs, error in ((near, 0.2), (far, 0.7), (own, 0.1), (other, 0.9)):
        for config in configs:
            write(tmp_path, config, error + 0.02 * config.seed)
    measured = tables.measured(tmp_path)
    errors = {"item": "Figure 1", "dataset": "spiral", "metric": "error", "n_train": 1000.0}
    assert ours_of(measured, method="kdf geodesic", **errors) == pytest.approx([0.21])
    assert ours_of(measured, "kdgraph's variant", method="kdf geodesic", **errors) == pytest.approx(
        [0.11]
    )
    assert ours_of(measured, method="random_forest", **errors) == [0.25]
    first = {"item": "Figure 1", "metric": tables.FROM, "method": "kdf geodesic"}
    assert ours_of(measured, **first) == ours_of(measured, "kdgraph's variant", **first) == [2.0]
    assert ours_of(measured, item="Section 5.1.1") == [0.5]


def test_far_rows_need_the_floor_and_the_radii_of_their_panels(tmp_path) -> None:
    for config in of_spiral("method=paper/p1/kdf_august"):
        write(tmp_path, config, 0.2)
    measured = tables.measured(tmp_path)
    assert set(measured.metric) == {"error"} and tables.measured(tmp_path / "empty").empty


def test_floors_are_those_of_the_notebooks() -> None:
    """At 1,000 rows of two features, log k - 10^√2 - 3: their -8.23 of k = 1e9 and -22.05 of k =
    1e3.
    """
    assert floors.log_floor("spiral", "kdf", 1000) == pytest.approx(-8.23, abs=5e-3)
    assert floors.log_floor("spiral", "kdn", 1000, far=True) == floors.log_floor(
        "sinewave", "kdn", 1000, far=True
    )
    assert floors.log_floor("spiral", "kdn", 1000, far=True) == pytest.approx(-22.05, abs=5e-3)
    lower = floors.log_floor("spiral", "kdf", 1000) - np.log(10) - 1
    assert floors.log_floor("gaussian_xor", "kdf", 10000) == pytest.approx(lower, abs=2e-4)
    words = floors.sweeps(["kdf", "kdn"], [1000], ["seed=0"])
    swept = [
        name
        for sweep in words
        for word in sweep
        if word.startswith("dataset=")
        for name in word[len("dataset=") :].split(",")
    ]
    assert (
        sorted(swept) == sorted(2 * ["spiral", "gaussian_xor", "circle", "sinewave", "polynomial"])
        and len(words) == 6
    )


def figure2_of_stored(distance: str) -> pd.DataFrame:
    """Return the statistics of the stored numbers, of both parents."""
    stored = published_numbers(distance=distance)
    return pd.concat(
        [
            figure2_statistics(rows, str(parent), distance)
            for parent, rows in stored.groupby("parent")
        ]
    )


def test_figure_2_of_the_stored_numbers_is_the_published_one() -> None:
    keys = ["metric", "method", "n_train", "radius"]
    both = figure2_of_stored("geodesic").merge(
        PUBLISHED[PUBLISHED.item == "Figure 2"], on=keys, suffixes=("", "_published")
    )
    assert len(both) == 94 - 2  # but Euclidean distances
    # Far ones, and the test rows beside them, are of one table more.
    near = both[both.radius.isna()]
    assert len(near) == 94 - 2 - (5 + 3 + 7 + 1)
    assert near.value.to_numpy() == pytest.approx(near.value_published.to_numpy(), abs=6e-4)


def test_stored_euclidean_distances_are_the_published_ones() -> None:
    result = figure2_of_stored("euclidean")
    medians = result[
        (result.metric == "relative improvement in error, median of tables") & result.n_train.isna()
    ]
    by_method = medians.set_index("method").value.round(3)
    assert (by_method["kdf euclidean"], by_method["kdn euclidean"]) == (-0.222, -0.284)


def test_the_transformer_is_table_1_and_lenet_a_variant() -> None:
    measured = cifar10.in_published_terms(
        [
            record("kdn", 0, 0.5),
            record("kdn", 0, 0.125, parent={"name": "encoder", "model": "a/folder"}),
        ]
    )
    accuracy = {"metric": "accuracy", "method": "KDN"}
    assert ours_of(measured, **accuracy) == [87.5]
    assert ours_of(measured, cifar10.LENET, **accuracy) == [50.0, 50.0]
    assert ours_of(measured, cifar10.LENET, metric="OCE", method="Parent", ood="noise") == [
        0.25,
        0.25,
    ]


def test_the_time_of_training_is_a_power_of_the_rows(monkeypatch) -> None:
    monkeypatch.setattr(training_time, "seconds", lambda n, seed: (1 + seed) * 1e-6 * n**1.5)
    measured = training_time.section6()
    assert measured.value.tolist() == pytest.approx([1.5, 1.5, 1.5])
    assert ours_of(measured, item="Section 6") == pytest.approx([1.5])


def test_fewer_rows_take_less_time(monkeypatch) -> None:
    monkeypatch.setattr(training_time, "TREES", 10)
    assert 0 < training_time.seconds(50, 0) < training_time.seconds(3000, 0)


def test_every_result_has_a_study_or_a_reason() -> None:
    missing = [reason for reason in reasons_of(PAPER.folder) if reason.kind == MISSING]
    for _, row in PUBLISHED[PUBLISHED.kind != "setting"].iterrows():
        tested = any(reason.applies_to(dict(row)) for reason in missing)
        assert PAPER.study_of(row["item"]) or tested, row["item"]
