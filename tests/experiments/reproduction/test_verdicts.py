"""Verdicts on published numbers: by hand, and what must hold of any numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.reproduction.chapters import Count
from experiments.reproduction.studies import Paper, Size, Study
from experiments.reproduction.verdicts import Measurement, cells_of, interval_of

MEASURED = pd.DataFrame(columns=["item", "dataset", "metric", "method", "seed", "value", "variant"])


def published(rows: list[tuple[str, str, float]], **more: object) -> pd.DataFrame:
    of = {"item": "Table 1", "dataset": "d", "decimals": 1} | more
    return pd.DataFrame(
        [
            {**of, "metric": metric, "method": method, "value": value}
            for metric, method, value in rows
        ]
    )


def measurements(*rows: tuple[str, str, list[float]], variant: str = "") -> pd.DataFrame:
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


def t_of_two(sd: float, repeats: int = 1) -> float:
    """Half width of two seeds: t of one degree of freedom is tan(.475 π), which is 12.7."""
    return float(np.tan(0.475 * np.pi) * np.sqrt(sd**2 / 2 + sd**2 / repeats))


@pytest.mark.parametrize(
    ("value", "measured", "better", "verdict", "tolerance"),
    [
        # Two seeds of s = .014, and one repetition of the paper's, taken to be as noisy.
        (1.0, [0.99, 1.01], "lower", "match", t_of_two(np.sqrt(0.0002))),
        # The same mean, and an interval wider than half of the published effect.
        (1.0, [0.9, 1.1], "lower", "inconclusive", t_of_two(np.sqrt(0.02))),
        (1.0, [0.4, 0.42], "lower", "better", t_of_two(np.sqrt(0.0002))),
        (1.0, [0.4, 0.42], "higher", "differs", t_of_two(np.sqrt(0.0002))),
        (1.0, [0.4, 0.42], None, "differs", t_of_two(np.sqrt(0.0002))),
        (1.0, [0.4, 0.42], 0.5, "better", t_of_two(np.sqrt(0.0002))),  # nearer to .5
        (1.0, [0.4, 0.42], lambda row: row["value"], "differs", t_of_two(np.sqrt(0.0002))),
        # Seeds that agree by chance: what is left is the rounding of the printed number.
        (1.0, [1.04, 1.04], "lower", "match", 0.05),
        (1.0, [1.06, 1.06], "lower", "differs", 0.05),
        (0.5, [0.54], "lower", "one run", np.nan),
        (np.nan, [0.5], "lower", "lost in the text", np.nan),
        (0.5, [], "lower", "not run", np.nan),
    ],
)
def test_verdict_of_one_number(value, measured, better, verdict, tolerance) -> None:
    (cell,) = cells_of(
        paper(better),
        published([("error", "a", value)]),
        measurements(("error", "a", measured)) if measured else MEASURED,
    )
    assert cell.verdict == verdict
    assert cell.tolerance == pytest.approx(tolerance, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "other", "repeats"), [([1.0, 1.5, 1.2, 1.9], 0.4, 10), ([3.0, 1.0, 2.5], 1.5, 4)]
)
def test_the_interval_is_that_of_welch(values, other, repeats) -> None:
    """SciPy computes the same from samples that have these deviations."""
    printed = np.linspace(-1, 1, repeats)
    printed = 1.7 + other * printed / printed.std(ddof=1)
    welch = stats.ttest_ind(values, printed, equal_var=False).confidence_interval(0.95)
    measured = Measurement(float(np.mean(values)), float(np.std(values, ddof=1)), len(values))
    study = Study(("Table 1",), {}, None, repeats)
    half = (welch.high - welch.low) / 2
    row = {"spread": other, "spread_is": "sd"}
    assert interval_of(measured, row, study) == pytest.approx(half, rel=1e-10)
    row = {"spread": other / np.sqrt(repeats), "spread_is": "se"}
    assert interval_of(measured, row, study) == pytest.approx(half, rel=1e-10)


def test_one_run_has_the_degrees_of_freedom_of_the_paper() -> None:
    item, study = Measurement(1.0, np.nan, 1), Study(("Table 1",), {}, None, 25)
    row = {"spread": 0.5, "spread_is": "sd"}
    expected = stats.t.ppf(0.975, 24) * np.sqrt(0.25 + 0.01)
    assert interval_of(item, row, study) == pytest.approx(expected)
    assert np.isnan(interval_of(item, {}, study))


def test_opposite_signs_never_match() -> None:
    """The interval is narrow against the effect of the column, and the signs are not the same."""
    table = published([("gain", "a", 0.3)])
    (cell,) = cells_of(paper(), table, measurements(("gain", "a", [-0.04, -0.06, -0.05])))
    assert cell.verdict == "differs"
    (cell,) = cells_of(
        paper(), published([("gain", "a", 0.1)]), measurements(("gain", "a", [-0.3, 0.1, -0.0]))
    )
    assert cell.verdict == "inconclusive"


def test_number_without_decimals_matches_what_rounds_to_it() -> None:
    table = published([("aphd", "a", 1.0)], decimals=0)
    verdicts = {}
    for values in ([0.9955, 0.9970], [0.4, 0.2], [0.1, 0.95]):
        (cell,) = cells_of(paper(), table, measurements(("aphd", "a", values)))
        assert cell.weak
        verdicts[tuple(values)] = cell.verdict
    assert list(verdicts.values()) == ["match", "differs", "match"]
    (cell,) = cells_of(paper(), published([("auroc", "a", 100.0)], decimals=0), measurements())
    assert not cell.weak


@pytest.mark.parametrize(
    ("bound", "value", "verdict"),
    [("above", 1.2, "match"), ("above", 1.0, "differs"), ("at most", 1.0, "match")],
)
def test_a_bound_is_weak(bound, value, verdict) -> None:
    (cell,) = cells_of(
        replace(paper(), about=frozenset({"said"})),
        published([("temperature", "a", 1.0)], said=bound),
        measurements(("temperature", "a", [value])),
    )
    assert cell.verdict == verdict and cell.weak


def test_numbers_on_another_parent_are_neither_better_nor_worse() -> None:
    table = published([("error", method, 0.5) for method in ("net", "a", "b", "c")])
    measured = measurements(
        ("error", "net", [0.2, 0.2]),
        ("error", "a", [0.1, 0.1]),
        ("error", "b", [0.9, 0.9]),
        ("error", "c", [0.5, 0.5]),
    )
    of = replace(paper(), parents=dict.fromkeys("abc", "net"))
    different = ["different parent"] * 3
    assert [cell.verdict for cell in cells_of(of, table, measured)] == [*different, "match"]
    same = pd.concat(
        [measured[measured.method != "net"], measurements(("error", "net", [0.5, 0.5]))]
    )
    assert [cell.verdict for cell in cells_of(of, table, same)] == [
        "match",
        "better",
        "differs",
        "match",
    ]


def test_a_statistic_of_tables_has_the_error_of_the_jackknife() -> None:
    """Of a mean it is the standard error of the mean."""
    values = np.array([0.3, 0.5, 0.1, 0.9])
    rows = pd.DataFrame(
        [{"seed": None, "value": values.mean(), "comparable": 0.4}]
        + [
            {"seed": i, "value": np.delete(values, i).mean(), "comparable": 0.4}
            for i in range(len(values))
        ]
    )
    joined = Measurement.from_rows(rows, "jackknife")
    assert joined == Measurement(
        pytest.approx(0.45), pytest.approx(values.std(ddof=1)), 4, comparable=0.4
    )
    table = published([("error", "a", 0.9)])
    study = Study(("Table 1",), {"smoke": Size()}, None, joined="jackknife")
    measured = rows.assign(item="Table 1", dataset="d", metric="error", method="a", variant="")
    (cell,) = cells_of(Paper("p0", "A paper", Path(), [study]), table, measured)
    assert cell.target == 0.4 and cell.difference == pytest.approx(0.05)


def test_deterministic_numbers_match_or_differ() -> None:
    study = Study(("Table 1",), {"smoke": Size()}, None, deterministic=True)
    of = Paper("p0", "A paper", Path(), [study])
    table = published([("count", "a", 66.0), ("count", "b", 66.0)], decimals=0)
    measured = measurements(("count", "a", [66.0]), ("count", "b", [67.0]))
    assert [cell.verdict for cell in cells_of(of, table, measured)] == ["match", "differs"]


def test_seeds_are_joined_in_the_way_of_the_paper() -> None:
    study = Study(("Table 1",), {"smoke": Size()}, lambda folder: MEASURED, joined="median")
    table, measured = (
        published([("error", "a", 1.0)]),
        measurements(("error", "a", [1.0, 1.0, 4.0])),
    )
    middles = []
    for of in (paper(), Paper("p0", "A paper", Path(), [study])):
        (cell,) = cells_of(of, table, measured)
        assert cell.measured is not None and cell.measured.sd == pytest.approx(np.sqrt(3))
        middles.append(cell.measured.mean)
    assert middles == [2.0, 1.0]


def test_a_seed_at_infinity_leaves_a_median_inconclusive() -> None:
    """A radius that one seed never reaches: the interval of the median is unbounded."""
    study = Study(("Table 1",), {"smoke": Size()}, lambda folder: MEASURED, joined="median")
    rows = measurements(("error", "a", [4.0, 3.5, 4.0, np.inf, 4.0]))
    (cell,) = cells_of(
        Paper("p0", "A paper", Path(), [study], {}), published([("error", "a", 4.0)]), rows
    )
    assert cell.measured is not None and cell.measured.mean == 4.0
    assert cell.verdict == "inconclusive" and np.isinf(cell.tolerance)


def test_one_run_is_judged_by_the_published_spread() -> None:
    table = published([("error", "a", 0.5)], spread=0.1, spread_is="sd")
    assert [
        cells_of(paper(repeats=25), table, measurements(("error", "a", [value])))[0].verdict
        for value in (0.7, 0.9, 0.1)
    ] == [
        "match",
        "differs",
        "better",
    ]


def test_variants_have_no_verdict() -> None:
    table = published([("error", "a", 0.5)])
    measured = pd.concat(
        [
            measurements(("error", "a", [0.1]), variant="k chosen"),
            measurements(("error", "a", [0.2]), variant="other"),
        ]
    )
    (cell,) = cells_of(paper(), table, measured)
    assert cell.verdict == "not run" and {
        title: each.mean for title, each in cell.variants.items()
    } == {"k chosen": 0.1, "other": 0.2}
    (cell,) = cells_of(paper(), table, measured, missing={0: "weights"})
    assert cell.verdict == "not runnable here"


def test_a_measurement_is_judged_in_its_first_table_only() -> None:
    """Table 2 prints the numbers of Table 1 again, and one that Table 1 has lost."""
    first = published([("error", "a", 0.3), ("error", "b", np.nan), ("error", "c", 0.3)])
    again = published([("error", "a", 0.3), ("error", "b", 0.3)], item="Table 2")
    numbers = pd.concat([first, again], ignore_index=True)
    measured = measurements(("error", "a", [0.3, 0.31]), ("error", "b", [0.3, 0.31]))
    both = pd.concat([measured, measured.assign(item="Table 2")], ignore_index=True)
    of = paper()
    assert [cell.verdict for cell in cells_of(of, numbers, both)] == [
        *("match", "lost in the text", "not run", "match", "match"),
    ]
    of = replace(of, measurement=lambda row: (row["metric"], row["method"]))
    cells = cells_of(of, numbers, both)
    assert [cell.verdict for cell in cells] == [
        *("match", "lost in the text", "not run", "a repeat", "match"),
    ]
    assert [cell.judged_in for cell in cells] == ["", "", "", "Table 1", ""]
    assert Count({"match": 2, "a repeat": 1}).runnable == 2


def test_a_name_in_two_spellings_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"p0/published\.csv has no number of .*'method': 'A'.* \(1 such\)"
    ):
        cells_of(
            paper(), published([("error", "a", 0.5)]), measurements(("error", "A", [0.1, 0.2]))
        )


def test_keys_do_not_depend_on_the_spelling_of_numbers() -> None:
    table = published([("error", "a", 0.5)], level=0.95).assign(ood=np.nan)
    measured = measurements(("error", "a", [0.5, 0.5])).assign(level="0.95")
    assert cells_of(paper(), table, measured)[0].verdict == "match"
    assert cells_of(paper(), table, measured.assign(level=0.9500), None)[0].verdict == "match"


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
    table = published([("error", "a", hundredths / 100)], spread=spread, spread_is="sd", decimals=2)
    (cell,) = cells_of(paper(better), table, measurements(("error", "a", values)))
    apart, limit = cell.difference, cell.tolerance * (1 + 1e-9)
    assert (cell.verdict in ("match", "inconclusive")) == (abs(apart) <= limit)
    if cell.verdict == "match":
        assert cell.tolerance <= max(0.005, 0.5 * abs(hundredths / 100)) + 0.01
        assert round(float(np.mean(values)), 2) * hundredths >= 0
    if abs(apart) > limit:
        assert (cell.verdict == "better") == (apart < 0 if better == "lower" else apart > 0)
