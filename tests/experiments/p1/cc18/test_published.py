"""The stored numbers: complete, with the medians and counts that they are known to have, and beside
ours.
"""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.p1.cc18.claims import claims
from experiments.p1.cc18.published import (
    HERE,
    N_TABLES,
    SIZES,
    compare_with_published,
    of_records,
    priors_of,
    published_numbers,
    table_by_table,
)
from experiments.p1.cc18.records import frame, tables
from experiments.p1.cc18.sizes import at_sizes, improvement_by_size

SUMMARY = {
    ("random_forest", "error", "kdf"): (-0.004, -0.012, 0.007, -0.006, -0.016),
    ("random_forest", "error", "isotonic"): (-0.010, -0.053, -0.079, -0.073, -0.032),
    ("random_forest", "error", "sigmoid"): (0.023, -0.007, -0.018, -0.009, -0.001),
    ("random_forest", "ece_by_edges", "kdf"): (0.134, 0.061, 0.513, 0.640, 0.831),
    ("random_forest", "ece_by_edges", "isotonic"): (0.239, 0.111, 0.507, 0.676, 0.871),
    ("random_forest", "ece_by_edges", "sigmoid"): (0.261, 0.023, 0.199, 0.380, 0.635),
    ("mlp", "error", "kdn"): (0.000, 0.000, 0.009, 0.014, 0.016),
    ("mlp", "error", "isotonic"): (0.003, -0.017, -0.023, -0.014, -0.035),
    ("mlp", "ece_by_edges", "kdn"): (0.486, 0.322, 0.502, 0.555, 0.690),
    ("mlp", "ece_by_edges", "isotonic"): (0.605, 0.597, 0.573, 0.608, 0.627),
    ("mlp", "ece_by_edges", "sigmoid"): (0.665, 0.501, 0.213, 0.405, 0.583),
}
"""Medians over tables of the published improvements, computed once from the authors' files by other
code, to three decimals.
"""


@pytest.mark.parametrize("which", SUMMARY, ids=" ".join)
def test_published_improvements_have_their_medians(which) -> None:
    parent, metric, method = which
    numbers = published_numbers()
    found = improvement_by_size(numbers[numbers.parent == parent], metric, threshold=0)
    medians = at_sizes(found.curves[method], found.sizes, SIZES)
    assert [count for _, count in medians] == [45, 45, 32, 18, 8]
    assert [value for value, _ in medians] == pytest.approx(SUMMARY[which], abs=6e-4)


def test_published_counts_and_medians_at_the_largest_samples() -> None:
    numbers = published_numbers()
    forest, network = (tables(numbers, parent) for parent in ("random_forest", "mlp"))
    assert len(forest.datasets) == len(network.datasets) == N_TABLES
    text = claims(forest, forest, 0)
    assert "| error lower or equal | 19 of 45 | 19 of 45 |" in text
    assert "| ECE lower" not in text  # what is published is no ECE of 15 bins
    assert "| error lower or equal | 40 of 45 | 40 of 45 |" in claims(network, network, 0)
    for found, method, lower in ((forest, "kdf", 31), (network, "kdn", 36)):
        ece = found.column("ece_by_edges")
        assert (ece[method] < ece["parent"]).sum() == lower
    assert forest.column("error").median().round(3).to_dict() == {
        "parent": 0.086,
        "kdf": 0.116,
        "isotonic": 0.095,
        "sigmoid": 0.09,
    }
    assert forest.column("ece_by_edges").median().round(3).to_dict() == {
        "parent": 0.072,
        "kdf": 0.046,
        "isotonic": 0.031,
        "sigmoid": 0.052,
    }
    assert forest.values.loc[("6", "kdf"), "mmc@5"] == pytest.approx(0.041, abs=5e-4)


def test_published_rows_cover_every_table_method_and_radius() -> None:
    stored = pd.read_csv(HERE / "published.csv")
    about = ["item", "kind", "page", "source"]
    assert list(stored.columns) == [
        *about,
        "dataset",
        "n_train",
        "radius",
        "metric",
        "method",
        "value",
        "note",
    ]
    assert (
        set(stored.item) == {"Figure 2"}
        and set(stored.kind) == {"stored"}
        and set(stored.page) == {7}
    )
    assert (
        set(stored[stored.note.notna()].dataset) == {23517}
        and stored.dataset.nunique() == N_TABLES + 1
    )
    assert not stored.duplicated(["dataset", "n_train", "radius", "metric", "method"]).any()
    on_test, far = stored[stored.n_train.notna()], stored[stored.n_train.isna()]
    assert (on_test.groupby(["metric", "method"]).size() == 3 * 45).all() and set(
        on_test.metric
    ) == {"error", "ece_by_edges"}
    assert (far.groupby("method").size() == 10 * 46).all() and set(far.metric) == {"mmc"}
    assert set(far.radius) == {0, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5}
    assert stored.value.between(0, 1).all() and stored.method.nunique() == 10


def test_published_confidence_becomes_oce_where_a_prior_is_known(record) -> None:
    ours = tables(
        frame([record("letter", openml=6, prior=[0.0415] * 20 + [0.034] * 5)]), "random_forest"
    )
    theirs = tables(published_numbers(priors_of(ours)), "random_forest")
    oce = theirs.column("oce@5")
    assert oce.notna().any(axis=1).sum() == 1
    assert oce.loc["6", "isotonic"] == pytest.approx(
        theirs.values.loc[("6", "isotonic"), "mmc@5"] - 0.0415
    )


def test_published_stands_beside_ours_on_shared_tables(record) -> None:
    runs = [
        record(name, "kdf", openml=number, learn=8000, values={"error": 0.05})
        for name, number in (("letter", 6), ("new", 99999))
    ]
    found = tables(frame(runs), "random_forest")
    assert "| KDF | .055 / .050 |" in compare_with_published(found, published_numbers())
    assert "Medians over 1 of the 45 published tables." in compare_with_published(
        found, published_numbers()
    )
    assert "| 6 | letter | 8,999 / 8,000 | .053 / .100 | .055 / .050 |" in table_by_table(
        found, published_numbers()
    )
    assert "No table of these runs" in compare_with_published(
        tables(frame([record()]), "random_forest"), published_numbers()
    )


def test_euclidean_runs_take_no_seed_from_the_others(record) -> None:
    """The parent's error is .1, on three tables; only one seed has Euclidean distances."""
    runs = [record(name, seed=seed, values={"error": 0.09}) for name in "abc" for seed in (0, 1)]
    runs += [record(name, distance="euclidean", values={"error": 0.15}) for name in "abc"]
    found = of_records(runs)
    improvement = found[
        (found.metric == "relative improvement in error, median of tables") & found.n_train.isna()
    ]
    assert dict(improvement.groupby("method").value.apply(list)) == {
        "kdf geodesic": pytest.approx([0.1, 0.1]),
        "kdf euclidean": pytest.approx([-0.5]),
    }
    assert found[found.metric == "error, median of tables"].groupby("method").seed.apply(
        list
    ).to_dict() == {
        "kdf geodesic": [0, 1],
        "random_forest": [0, 1],
    }


def test_the_confidence_of_test_rows_is_at_radius_0(record) -> None:
    found = of_records(
        [record(name, values={"mmc": 0.9}, of_parent={"mmc": 0.8}) for name in "abc"]
    )
    assert found[found.radius == 0].set_index("method").value.to_dict() == {
        "kdf geodesic": 0.9,
        "random_forest": 0.8,
    }
