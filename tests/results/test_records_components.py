"""What a run's model is made of, and whether a record is whole."""

from __future__ import annotations

import pytest

from kdgraph.errors import UsageError
from kdgraph.results.records import (
    METRIC_KEYS,
    NESTED_KEYS,
    RUN_KEYS,
    component_chain,
    missing_key,
    post_hoc_names,
    refuse_incomplete,
    run_task,
    uses_paper_protocol,
)


@pytest.mark.parametrize(
    ("parts", "expected", "task"),
    [
        ({"calibrator": "none"}, "random_forest", "classification"),
        ({"calibrator": "kdf"}, "random_forest → kdf", "classification"),
        (
            {"calibrator": "isotonic", "gate": "density"},
            "random_forest → isotonic → density gate",
            "classification",
        ),
        ({"calibrator": "none", "detector": "tood"}, "random_forest → tood", "detection"),
        (
            {"calibrator": "kdf", "gate": "g", "detector": "d"},
            "random_forest → kdf → g gate → d",
            "detection",
        ),
        (
            {"calibrator": "none", "recalibrator": "global_pit", "prior": None},
            "random_forest → global_pit",
            "regression",
        ),
    ],
)
def test_every_part_is_named_in_the_order_in_which_it_is_fitted(
    record, parts, expected, task
) -> None:
    one = record(**parts)
    assert component_chain(one) == expected and run_task(one) == task
    assert post_hoc_names(one) == expected.replace(" gate", "").split(" → ")[1:]
    assert [uses_paper_protocol(each) for each in (one, one | {"protocol": "paper"})] == [
        False,
        True,
    ]


@pytest.mark.parametrize(
    "key",
    [*RUN_KEYS, *(f"{group}.{name}" for group, names in NESTED_KEYS.items() for name in names)],
)
def test_a_key_that_is_not_there_is_named(record, key) -> None:
    one = record()
    assert missing_key(one) is None
    group, _, name = key.rpartition(".")
    del (one[group] if group else one)[name]
    assert missing_key(one) == key
    with pytest.raises(UsageError) as caught:
        refuse_incomplete(one, "outputs/spiral/kdf/1cb9f0a2")
    assert (
        str(caught.value)
        == f"outputs/spiral/kdf/1cb9f0a2/result.json lacks '{key}'; force=true runs it again"
    )


@pytest.mark.parametrize("key", METRIC_KEYS)
def test_so_is_one_of_a_number(record, key) -> None:
    one = record()
    del one["metrics"][-1][key]
    assert missing_key(one) == f"metrics.{key}"


@pytest.mark.parametrize("name", ["nll", "pit_histogram"])
def test_a_metric_or_table_without_a_description_is_named(record, name) -> None:
    one = record()
    one["files"]["tables"] = {"pit_histogram": "tables/pit_histogram.csv"}
    one["about_metrics"]["pit_histogram"] = {"label": "PIT histogram", "better": None}
    assert missing_key(one) is None
    del one["about_metrics"][name]
    assert missing_key(one) == f"about_metrics.{name}"


def test_a_group_that_is_no_mapping_is_named(record) -> None:
    assert missing_key(record() | {"dataset": "spiral"}) == "dataset.name"
