"""The stored numbers: complete, with the medians and counts that they are known to have, and beside
ours.
"""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.p1.cc18.archive import OWN, by_version
from experiments.p1.cc18.claims import claims
from experiments.p1.cc18.published import (
    N_TABLES,
    PAPER,
    SIZES,
    compare_with_published,
    figure2_numbers,
    priors_of,
    published_numbers,
    table_by_table,
)
from experiments.p1.cc18.records import frame, method_of, tables
from experiments.p1.cc18.sizes import at_sizes, improvement_by_size

SUMMARY = {
    ("random_forest", "error", "kdf_reference"): (-0.004, -0.012, 0.007, -0.006, -0.016),
    ("random_forest", "error", "isotonic"): (-0.010, -0.053, -0.079, -0.073, -0.032),
    ("random_forest", "error", "sigmoid"): (0.023, -0.007, -0.018, -0.009, -0.001),
    ("random_forest", "ece_by_edges", "kdf_reference"): (0.134, 0.061, 0.513, 0.640, 0.831),
    ("random_forest", "ece_by_edges", "isotonic"): (0.239, 0.111, 0.507, 0.676, 0.871),
    ("random_forest", "ece_by_edges", "sigmoid"): (0.261, 0.023, 0.199, 0.380, 0.635),
    ("mlp", "error", "kdn_reference"): (0.000, 0.000, 0.009, 0.014, 0.016),
    ("mlp", "error", "isotonic"): (0.003, -0.017, -0.023, -0.014, -0.035),
    ("mlp", "ece_by_edges", "kdn_reference"): (0.486, 0.322, 0.502, 0.555, 0.690),
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
    result = improvement_by_size(numbers[numbers.parent == parent], metric, threshold=0)
    medians = at_sizes(result.curves[method], result.sizes, SIZES)
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
    for result, method, lower in ((forest, "kdf_reference", 31), (network, "kdn_reference", 36)):
        ece = result.column("ece_by_edges")
        assert (ece[method] < ece["parent"]).sum() == lower
    assert forest.column("error").median().round(3).to_dict() == {
        "parent": 0.086,
        "kdf_reference": 0.116,
        "isotonic": 0.095,
        "sigmoid": 0.09,
    }
    assert forest.column("ece_by_edges").median().round(3).to_dict() == {
        "parent": 0.072,
        "kdf_reference": 0.046,
        "isotonic": 0.031,
        "sigmoid": 0.052,
    }
    assert forest.values.loc[("6", "kdf_reference"), "mmc@5"] == pytest.approx(0.041, abs=5e-4)


def test_published_rows_cover_every_table_method_and_radius() -> None:
    stored = pd.read_csv(PAPER / "published.csv")
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
    own = tables(
        frame([record("letter", openml=6, prior=[0.0415] * 20 + [0.034] * 5)]), "random_forest"
    )
    published = tables(published_numbers(priors_of(own)), "random_forest")
    oce = published.column("oce@5")
    assert oce.notna().any(axis=1).sum() == 1
    assert oce.loc["6", "isotonic"] == pytest.approx(
        published.values.loc[("6", "isotonic"), "mmc@5"] - 0.0415
    )


def test_common_tables_have_published_and_measured_numbers(record) -> None:
    runs = [
        record(name, "kdf_reference", openml=number, learn=8000, values={"error": 0.05})
        for name, number in (("letter", 6), ("new", 99999))
    ]
    result = tables(frame(runs), "random_forest")
    assert "| KDF, authors' code | .055 / .050 |" in compare_with_published(
        result, published_numbers()
    )
    assert "Medians over 1 of the 45 published tables." in compare_with_published(
        result, published_numbers()
    )
    assert "| 6 | letter | 8,999 / 8,000 | .053 / .100 | .055 / .050 |" in table_by_table(
        result, published_numbers()
    )
    assert "No table of these runs" in compare_with_published(
        tables(frame([record()]), "random_forest"), published_numbers()
    )


def value_of(result: pd.DataFrame, seed: int | None, **keys: object) -> list[float]:
    """Return the values of one seed left out, or of all seeds, in the rows that have the keys."""
    rows = result[result.seed.isna() if seed is None else result.seed == seed]
    for name, value in keys.items():
        rows = rows[rows[name].isna() if value is None else rows[name] == value]
    return rows.value.tolist()


GAIN = {"metric": "relative improvement in error, median of tables", "n_train": None}


def test_other_versions_take_no_seed_from_the_main_one(record) -> None:
    """The parent's error is .1, on three tables; one seed has Euclidean distances, one is ours."""
    runs = [
        record(name, "kdf_reference", seed=seed, values={"error": 0.09})
        for name in "abc"
        for seed in (0, 1)
    ]
    more = {"distance": "euclidean", "values": {"error": 0.15}}
    runs += [record(name, "kdf_reference", **more) for name in "abc"]
    runs += [record(name, "kdf", values={"error": 0.05}) for name in "abc"]
    result = figure2_numbers(by_version(runs))
    expected = {("kdf geodesic", ""): 0.1, ("kdf euclidean", ""): -0.5, ("kdf geodesic", OWN): 0.5}
    for (method, variant), gain in expected.items():
        assert value_of(result, None, method=method, variant=variant, **GAIN) == pytest.approx(
            [gain]
        )
    geodesic = result[(result.method == "kdf geodesic") & (result.variant == "")]
    assert set(geodesic.seed.dropna()) == {0, 1}
    assert set(result[result.method == "random_forest"].variant) == {""}


def test_means_over_seeds_come_before_medians_over_tables(record) -> None:
    """Three tables, whose medians over tables are .1 and .3 of the seeds, .25 of their means."""
    errors = {"a": (0.1, 0.3), "b": (0.1, 0.4), "c": (0.6, 0.1)}
    runs = [
        record(name, "kdf_reference", seed=seed, values={"error": error})
        for name, by_seed in errors.items()
        for seed, error in enumerate(by_seed)
    ]
    result = figure2_numbers(by_version(runs))
    keys = {"metric": "error, median of tables", "method": "kdf geodesic"}
    assert value_of(result, None, **keys) == pytest.approx([0.25])
    # Without the first seed the second is left, and the other way round.
    assert value_of(result, 0, **keys) == pytest.approx([0.3])
    assert value_of(result, 1, **keys) == pytest.approx([0.1])


def test_published_numbers_are_over_the_tables_that_ran(record) -> None:
    """Letter and balance-scale, whose stored errors of KDF are .0546 and .1019 at their largest."""
    stored = published_numbers()
    both = stored[
        stored.openml.isin([6, 11])
        & (stored.method == "kdf_reference")
        & (stored.metric == "error")
    ]
    largest = both.loc[both.groupby("openml").learn.idxmax()].value
    runs = [
        record(name, "kdf_reference", openml=number, learn=400, values={"error": 0.1})
        for name, number in (("letter", 6), ("balance_scale", 11))
    ]
    result = figure2_numbers(by_version(runs))
    row = result[(result.metric == "error, median of tables") & (result.method == "kdf geodesic")]
    assert row.comparable.tolist() == pytest.approx(2 * [largest.mean()])


def test_confidence_of_test_rows_is_at_radius_0_of_far_runs(record) -> None:
    runs = [
        record(name, "kdf_figure1", values={"mmc": 0.9}, of_parent={"mmc": 0.8}) for name in "abc"
    ]
    result = figure2_numbers(by_version([], runs))
    assert result[(result.radius == 0) & result.seed.isna()].set_index(
        "method"
    ).value.to_dict() == {
        "kdf geodesic": 0.9,
        "random_forest": 0.8,
    }
    near = figure2_numbers(
        by_version([record(name, "kdf_reference", values={"mmc": 0.9}) for name in "abc"])
    )
    assert not near.metric.str.startswith("mmc").any()


def test_a_method_is_named_by_the_distance_that_was_used(record) -> None:
    def name(method: str, config: str | None, fitted: str | None = None) -> str:
        run = record("a", method, distance=config)
        run["learnt"]["calibrator"] = {} if fitted is None else {"distance": fitted}
        return method_of(run)

    assert name("kdf", None) == name("kdf", None, "scaled") == "kdf"
    assert name("kdf", "geodesic") == "kdf_geodesic"
    assert name("kdf_reference", None) == name("kdf_reference", "geodesic") == "kdf_reference"
    assert name("kdn_reference", "euclidean") == "kdn_reference_euclidean"
    assert name("kdf_reference", None, "euclidean") == "kdf_reference_euclidean"
    assert name("kdf_whitened", "whitened", "whitened") == "kdf_whitened"
