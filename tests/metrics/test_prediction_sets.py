"""Coverage and size of prediction sets, against loops over rows and MAPIE."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kdgraph.errors import ConfigError
from kdgraph.metrics import (
    set_coverage,
    sets_by_class,
    sets_by_group,
    sets_by_size,
    singleton_accuracy,
    size_stratified_coverage,
    tabulate,
    worst_class_coverage,
    worst_group_set_coverage,
)
from kdgraph.metrics.registry import score

rng = np.random.default_rng(3)
N, K = 400, 6
Y = rng.integers(K, size=N)
SETS = rng.random((N, K)) < 0.45
SETS[np.arange(N), Y] |= rng.random(N) < 0.5
GROUPS = np.array(["x", "y", "z"])[rng.integers(3, size=N)]
INPUTS = {"y": Y, "prediction_set": SETS, "groups": GROUPS}
COVERED = np.array([SETS[i, Y[i]] for i in range(N)])


def test_numbers_are_means_over_rows():
    sizes = SETS.sum(axis=1)
    expected = {
        "set_coverage": COVERED,
        "set_size": sizes,
        "singletons": sizes == 1,
        "empty_sets": sizes == 0,
        "singleton_accuracy": COVERED[sizes == 1],
    }
    for name, values in expected.items():
        result = score(name, INPUTS)
        assert result.value == pytest.approx(values.mean())
        assert result.n == len(values)
        assert result.stderr == pytest.approx(values.std(ddof=1) / math.sqrt(len(values)))


def test_worst_parts_are_those_of_a_loop_with_their_standard_errors():
    sizes = SETS.sum(axis=1)
    strata = [sizes <= 1, (sizes >= 2) & (sizes <= 3), sizes >= 4]
    parts = {
        "worst_class_coverage": [k == Y for k in range(K)],
        "worst_group_set_coverage": [np.equal(GROUPS, g) for g in "xyz"],
        "size_stratified_coverage": strata,
    }
    for name, masks in parts.items():
        value, n = min((COVERED[mask].mean(), mask.sum()) for mask in masks)
        result = score(name, INPUTS)
        assert result.value == pytest.approx(value)
        assert result.stderr == pytest.approx(math.sqrt(value * (1 - value) / (n - 1)))


def test_parts_with_few_rows_are_left_out():
    few = np.arange(N) < 5
    groups, sets = np.where(few, "few", "many"), SETS.copy()
    sets[few] = False
    assert worst_group_set_coverage(Y, sets, groups, min_count=5) == 0
    assert worst_group_set_coverage(Y, sets, groups, min_count=6) == COVERED[5:].mean()
    assert math.isnan(worst_class_coverage(Y, SETS, min_count=N))
    assert score("worst_class_coverage", INPUTS, {"min_count": N}).stderr is None
    assert score("singleton_accuracy", INPUTS | {"prediction_set": SETS | True}).value is None
    assert math.isnan(singleton_accuracy(Y, np.zeros_like(SETS)))


def test_strata_of_sizes_are_those_of_mapie():
    pytest.importorskip("mapie", reason="mapie is not installed; the extra peers has it")
    from mapie.metrics.classification import classification_coverage_score, classification_ssc

    assert set_coverage(Y, SETS) == pytest.approx(classification_coverage_score(Y, SETS)[0])
    by_size = sets_by_size(Y, SETS)
    expected = classification_ssc(Y, SETS[:, :, None])[0]  # one stratum for each size
    np.testing.assert_allclose(by_size["coverage"], expected[by_size["size"]])
    largest_sizes = by_size["size"].tolist()
    value = size_stratified_coverage(Y, SETS, largest_sizes=largest_sizes, min_count=1)
    assert value == by_size["coverage"].min()


def test_tables_have_a_row_for_each_part_and_agree_with_the_numbers():
    by_class, by_group = sets_by_class(Y, SETS), sets_by_group(Y, SETS, GROUPS)
    assert by_class["class"].tolist() == list(range(K)) and by_class["rows"].sum() == N
    assert by_class["coverage"].min() == worst_class_coverage(Y, SETS)
    assert by_group["coverage"].min() == worst_group_set_coverage(Y, SETS, GROUPS)
    assert (by_class["low"] < by_class["coverage"]).all()
    assert (by_class["coverage"] < by_class["high"]).all()
    rows = tabulate("sets_by_group", INPUTS)
    assert [row["group"] for row in rows] == ["x", "y", "z"]
    mask = np.equal(GROUPS, "y")
    assert rows[1]["set_size"] == SETS[mask].sum(axis=1).mean()
    assert rows[1]["singletons"] == (SETS[mask].sum(axis=1) == 1).mean()
    # A class of the training data may have no test row.
    assert sets_by_class(np.zeros(N, dtype=int), SETS)["class"].tolist() == [0]


def test_sets_of_another_type_are_refused():
    message = "prediction_set must have a truth value for each row and class, got int64 of shape"
    with pytest.raises(ValueError, match=message):
        set_coverage(Y, SETS.astype(np.int64))
    with pytest.raises(ValueError, match=r"y must have shape \(400,\) to fit prediction_set"):
        set_coverage(Y[:3], SETS)
    with pytest.raises(ValueError, match="y must lie in 0 to 5, got 6 in row 0"):
        set_coverage(np.full(N, 6), SETS)
    with pytest.raises(ConfigError) as error:
        score("set_size", {"y": Y})
    assert str(error.value) == (
        "set_size needs sets of classes, which the method does not give; choose conformal=aps, lac"
        " or raps"
    )
