"""Verdicts on published numbers: by hand, and what must hold of any numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.reproduction.declared import Paper, Size, Study
from experiments.reproduction.verdicts import Found, cells_of, tolerance_of

MEASURED = pd.DataFrame(columns=["item", "dataset", "metric", "method", "seed", "value", "variant"])


def published(rows: list[tuple[str, str, float]], **more: object) -> pd.DataFrame:
    of = {"item": "Table 1", "dataset": "d", "decimals": 1} | more
    return pd.DataFrame(
        [
            {**of, "metric": metric, "method": method, "value": value}
            for metric, method, value in rows
        ]
    )


def found(*rows: tuple[str, str, list[float]], variant: str = "") -> pd.DataFrame:
    return pd.DataFrame(
        [
            {
                "item": "Table 1",
                "dataset": "d",
                "metric": metric,
                "method": method,
                "seed": seed,
                "value": value,
                "variant": variant,
            }
            for metric, method, values in rows
            for seed, value in enumerate(values)
        ]
    )


def paper(better: object = "lower", repeats: int = 1) -> Paper:
    study = Study(("Table 1",), {"smoke": Size()}, lambda folder: MEASURED, repeats)
    return Paper("p0", "A paper", Path(), [study], {"error": better})


@pytest.mark.parametrize(
    ("value", "ours", "better", "verdict", "tolerance"),
    [
        (
            1.0,
            [0.9, 1.1],
            "lower",
            "match",
            2 * np.sqrt(0.02 / 2 + 0.02),
        ),  # s² = .02: theirs is one run, ours two
        (1.0, [0.4, 0.42], "lower", "better", 2 * np.sqrt(0.0002 / 2 + 0.0002)),
        (1.0, [0.4, 0.42], "higher", "differs", 2 * np.sqrt(0.0002 / 2 + 0.0002)),
        (1.0, [0.4, 0.42], None, "differs", 2 * np.sqrt(0.0002 / 2 + 0.0002)),
        (1.0, [0.4, 0.42], 0.5, "better", 2 * np.sqrt(0.0002 / 2 + 0.0002)),  # nearer to .5
        (1.0, [0.4, 0.42], lambda row: row["value"], "differs", 2 * np.sqrt(0.0002 / 2 + 0.0002)),
        (
            0.5,
            [0.54],
            "lower",
            "match",
            0.0,
        ),  # rounded as it is printed; of one run nothing else is known
        (0.5, [0.56], "lower", "one run", np.nan),
        (np.nan, [0.5], "lower", "lost in the text", np.nan),
        (0.5, [], "lower", "not run", np.nan),
    ],
)
def test_one_number(value, ours, better, verdict, tolerance) -> None:
    (cell,) = cells_of(
        paper(better),
        published([("error", "a", value)]),
        found(("error", "a", ours)) if ours else MEASURED,
    )
    assert cell.verdict == verdict
    assert cell.tolerance == pytest.approx(tolerance, rel=1e-12, nan_ok=True)


def test_published_spreads() -> None:
    """A deviation is of one repetition, an error of their mean; of one run of ours, the published
    deviation is taken for ours.
    """
    many, one = Found(1.0, 0.3, 9), Found(1.0, np.nan, 1)
    assert tolerance_of(many, 0.5, "sd", 25) == pytest.approx(2 * np.sqrt(0.01 + 0.01))
    assert tolerance_of(many, 0.5, "se", 25) == pytest.approx(2 * np.sqrt(0.01 + 0.25))
    assert tolerance_of(one, 0.5, "sd", 25) == pytest.approx(2 * np.sqrt(0.25 + 0.01))
    assert tolerance_of(one, 0.1, "se", 25) == pytest.approx(2 * np.sqrt(0.25 + 0.01))
    assert tolerance_of(many, np.nan, "", 9) == pytest.approx(2 * np.sqrt(0.01 + 0.01))


def test_seeds_are_joined_as_the_paper_joins_them() -> None:
    study = Study(("Table 1",), {"smoke": Size()}, lambda folder: MEASURED, joined="median")
    said, ours = published([("error", "a", 1.0)]), found(("error", "a", [1.0, 1.0, 4.0]))
    middles = []
    for of in (paper(), Paper("p0", "A paper", Path(), [study])):
        (cell,) = cells_of(of, said, ours)
        assert cell.ours is not None and cell.ours.sd == pytest.approx(np.sqrt(3))
        middles.append(cell.ours.mean)
    assert middles == [2.0, 1.0]


def test_one_run_is_judged_by_the_published_spread() -> None:
    said = published([("error", "a", 0.5)], spread=0.1, spread_is="sd")
    assert [
        cells_of(paper(), said, found(("error", "a", [value])))[0].verdict
        for value in (0.7, 0.9, 0.1)
    ] == [
        "match",
        "differs",
        "better",
    ]


def test_what_differs_may_keep_its_rank() -> None:
    """Among the methods of one column: a and b are swapped, c is last in both."""
    said = published(
        [("error", "a", 0.1), ("error", "b", 0.2), ("error", "c", 0.3), ("nll", "a", 0.1)]
    )
    ours = found(
        ("error", "a", [0.6, 0.6]),
        ("error", "b", [0.5, 0.5]),
        ("error", "c", [0.9, 0.9]),
        ("nll", "a", [0.7, 0.7]),
    )
    assert [cell.verdict for cell in cells_of(paper(None), said, ours)] == [
        "differs",
        "differs",
        "differs, same ranking",
        "differs",
    ]


def test_variants_stand_beside_and_count_for_nothing() -> None:
    said = published([("error", "a", 0.5)])
    ours = pd.concat(
        [
            found(("error", "a", [0.1]), variant="k chosen"),
            found(("error", "a", [0.2]), variant="other"),
        ]
    )
    (cell,) = cells_of(paper(), said, ours)
    assert cell.verdict == "not run" and {
        title: each.mean for title, each in cell.variants.items()
    } == {"k chosen": 0.1, "other": 0.2}
    (cell,) = cells_of(paper(), said, ours, missing={0: "weights"})
    assert cell.verdict == "not runnable here"


def test_a_name_in_two_spellings_is_told() -> None:
    with pytest.raises(
        ValueError, match=r"p0/published\.csv has no number of .*'method': 'A'.* \(1 such\)"
    ):
        cells_of(paper(), published([("error", "a", 0.5)]), found(("error", "A", [0.1, 0.2])))


def test_keys_are_alike_however_they_are_written() -> None:
    said = published([("error", "a", 0.5)], level=0.95).assign(ood=np.nan)
    ours = found(("error", "a", [0.5])).assign(level="0.95")
    assert cells_of(paper(), said, ours)[0].verdict == "match"
    assert cells_of(paper(), said, ours.assign(level=0.9500), None)[0].verdict == "match"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-100, 100), min_size=2, max_size=6),
    st.integers(-1000, 1000),
    st.floats(0, 50),
    st.sampled_from(["lower", "higher"]),
)
def test_a_match_is_within_its_tolerance_and_better_is_beyond(
    values, hundredths, spread, better
) -> None:
    said = published([("error", "a", hundredths / 100)], spread=spread, spread_is="sd", decimals=2)
    (cell,) = cells_of(paper(better), said, found(("error", "a", values)))
    apart = round(float(np.mean(values)), 2) - hundredths / 100
    assert (cell.verdict == "match") == (abs(apart) <= cell.tolerance + 1e-9)
    if cell.verdict != "match":
        assert (cell.verdict == "better") == (apart < 0 if better == "lower" else apart > 0)
