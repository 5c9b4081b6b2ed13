"""Components of the model of a run."""

from __future__ import annotations

import pytest

from kdgraph.results.records import component_chain, post_hoc_names, run_task, uses_paper_protocol


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
    run = record(**parts)
    assert component_chain(run) == expected and run_task(run) == task
    assert post_hoc_names(run) == expected.replace(" gate", "").split(" → ")[1:]
    assert [uses_paper_protocol(each) for each in (run, run | {"protocol": "paper"})] == [
        False,
        True,
    ]
