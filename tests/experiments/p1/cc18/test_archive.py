"""The archive of runs on tables: it counts as the runs that it is of, and more runs add to it."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from experiments.p1.cc18 import archive, published
from experiments.p1.cc18.archive import FAR, GEODESIC, OWN, by_version, joined, read, to_rows

METHODS = {"kdf_reference": 0.08, "isotonic": 0.11, "kdf": 0.07}


@pytest.fixture
def runs(record):
    """Records of three methods on three tables, two seeds of other numbers."""

    def make(seeds=(0, 1), names="abc", shift=0.0):
        return [
            record(
                name,
                method,
                seed=seed,
                values={"error": error + seed / 300 + shift},
                of_parent={"error": 0.1 + seed / 700},
                openml=i,
            )
            for i, name in enumerate(names, start=1)
            for method, error in METHODS.items()
            for seed in seeds
        ]

    return make


def saved(numbers, path: Path):
    """Return the numbers as they are read after they were written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    to_rows(numbers).to_csv(path, index=False)
    return read(path)


def assert_same(each: pd.DataFrame, other: pd.DataFrame) -> None:
    """Assert that two frames have the same rows in any order, to the last bit."""
    columns = sorted(each)
    pd.testing.assert_frame_equal(
        *(
            frame[columns].sort_values(columns, ignore_index=True).astype({"openml": float})
            for frame in (each, other)
        ),
        check_dtype=False,
    )


def test_archive_is_read_as_written(runs, tmp_path) -> None:
    numbers = by_version(runs(), runs())
    again = saved(numbers, tmp_path / "archive.csv")
    for version in (GEODESIC, OWN, FAR):
        assert len(numbers[version]) and set(numbers[version].method) - {"parent"}
        assert_same(numbers[version], again[version])


@pytest.mark.slow
def test_statistics_of_the_archive_are_those_of_the_runs(runs, tmp_path) -> None:
    numbers = by_version(runs(), runs())
    again = saved(numbers, tmp_path / "archive.csv")
    result, expected = published.figure2_numbers(again), published.figure2_numbers(numbers)
    assert len(result)
    pd.testing.assert_frame_equal(result, expected)


@pytest.mark.parametrize("more", [{"seeds": (2,)}, {"names": "d"}], ids=["seed", "table"])
def test_runs_add_to_the_archive(runs, tmp_path, more) -> None:
    stored = saved(by_version(runs()), tmp_path / "archive.csv")
    whole = joined(by_version(runs(**more)), stored)
    for version in (GEODESIC, OWN):
        assert_same(whole[version], by_version([*runs(), *runs(**more)])[version])


def test_a_run_replaces_its_archived_numbers(runs, tmp_path) -> None:
    stored = saved(by_version(runs()), tmp_path / "archive.csv")
    now = runs(seeds=(1,), shift=0.01)
    whole = joined(by_version(now), stored)[GEODESIC]
    assert_same(whole, by_version([each for each in runs() if each["seed"] == 0] + now)[GEODESIC])


def test_archived_numbers_on_another_parent_are_left_out(record, tmp_path) -> None:
    """A method stands beside its own parent alone; the other seed's parent is the same."""
    before = [record("a", "isotonic", seed=seed) for seed in (0, 1)]
    stored = saved(by_version(before), tmp_path / "archive.csv")
    now = [record("a", "kdf_reference", seed=0, of_parent={"error": 0.2})]
    whole = joined(by_version(now), stored)[GEODESIC]
    assert set(whole[whole.method == "isotonic"].seed) == {1}
    errors = whole[(whole.method == "parent") & (whole.metric == "error")]
    assert dict(zip(errors.seed, errors.value, strict=True)) == {0: 0.2, 1: 0.1}


@pytest.mark.slow
def test_a_seed_of_one_table_waits_for_the_others(runs) -> None:
    result, more = (
        published.figure2_numbers(by_version(records, records))
        for records in (runs(), [*runs(), *runs(seeds=(2,), names="b")])
    )
    pd.testing.assert_frame_equal(result, more)
    whole = published.figure2_numbers(by_version(runs(seeds=(0, 1, 2))))
    assert set(whole.seed.dropna()) == {0, 1, 2} and set(result.seed.dropna()) == {0, 1}


@pytest.mark.slow
def test_an_archive_in_a_folder_counts_as_runs(runs, tmp_path) -> None:
    folder = tmp_path / "runs"
    saved(by_version(runs()), archive.archive_path(folder))
    (each,) = (r for r in runs(seeds=(2,), names="a") if r["method"] == "isotonic")
    path = folder / "a" / "isotonic" / "1" / "result.json"
    path.parent.mkdir(parents=True)
    words = {"experiment": "paper/p1/cc18", "overrides": ["seed=2"], "run_id": "1"}
    path.write_text(json.dumps(each | words))
    result = archive.numbers_below(folder)
    assert_same(result[GEODESIC], by_version([*runs(), each])[GEODESIC])
    assert len(published.archived(folder)) == len(to_rows(result))


def test_nothing_is_archived_of_an_empty_folder(tmp_path) -> None:
    assert published.archived(tmp_path).empty
    assert published.measured(tmp_path).empty
