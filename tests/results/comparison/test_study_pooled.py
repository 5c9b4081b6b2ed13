"""One number for all out-of-distribution sets of a run."""

from __future__ import annotations

import math

from kdgraph.results.comparison.study import build_study, pool_ood_sets


def record_of_sets(
    record, method: str, sets: dict[str, float | None], dataset: str = "a", parent: float = 0.5
):
    """A run with an error and with an AUROC on each of the sets."""
    with_sets = record(dataset, method, values={"error": 0.1}, of_parent={"error": 0.2})
    entry = {"metric": "auroc", "on": "ood", "params": {}, "n": 10, "stderr": None}
    for name, value in sets.items():
        with_sets["metrics"] += [
            {**entry, "of": "calibrated", "ood": name, "value": value},
            {**entry, "of": "parent", "ood": name, "value": parent},
        ]
    with_sets["about_metrics"]["auroc"] = {
        "label": "AUROC",
        "better": "higher",
        "unit": None,
        "detects": True,
        "metric": None,
    }
    return with_sets


def test_it_is_the_mean_over_the_sets_and_all_else_stays(record, as_runs) -> None:
    pooled = pool_ood_sets(
        build_study(
            as_runs(
                [
                    record_of_sets(record, "kdf", {"near": 0.6, "far": 1.0}),
                    record_of_sets(record, "isotonic", {"near": 0.7, "far": 0.8}),
                ]
            )
        )
    )
    assert [measure.label for measure in pooled.measures] == [
        "error",
        "AUROC on 2 sets, their mean",
    ]
    table = pooled.table(pooled.measures[1])
    assert (
        table["kdf"].item() == 0.8
        and table["isotonic"].item() == 0.75
        and table["random_forest (parent)"].item() == 0.5
    )
    assert pooled.parent_table(pooled.measures[1])["kdf"].item() == 0.5
    assert pooled.table(pooled.measures[0])["kdf"].item() == 0.1


def test_methods_without_a_set_have_no_mean(record, as_runs) -> None:
    runs = [
        record_of_sets(record, "kdf", {"near": 0.6, "far": 1.0}),
        record_of_sets(record, "isotonic", {"far": 0.8}),
        record_of_sets(record, "kdf", {"far": 0.9}, "b"),
        record_of_sets(record, "isotonic", {"far": 0.7}, "b"),
    ]
    pooled = pool_ood_sets(build_study(as_runs(runs)))
    table = pooled.table(pooled.measures[1])
    assert table.loc[("a", "0"), "kdf"] == 0.8 and math.isnan(table.loc[("a", "0"), "isotonic"])
    assert table.loc[("b", "0"), ["kdf", "isotonic"]].tolist() == [0.9, 0.7]


def test_a_single_set_stays_what_it_is(record, as_runs) -> None:
    study = build_study(as_runs([record_of_sets(record, "kdf", {"far": 0.9})]))
    assert pool_ood_sets(study).measures == study.measures
