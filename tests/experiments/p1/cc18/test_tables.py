"""Tables and claims from records: medians, improvements by size, wins and losses, the gate on the
best calibrator, dominance.
"""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p1.cc18.claims import dominance, with_choice
from experiments.p1.cc18.records import CHOICE, frame, tables
from experiments.p1.cc18.sizes import at_sizes, improvement_by_size
from experiments.p1.cc18.tables import (
    against_each_other,
    against_parent,
    far_field,
    in_distribution,
)

RADII = (0.5, 1.0, 1.5, 2.0, 5.0)
METHODS = ("kdf", "isotonic", "gated_isotonic")


def test_the_gate_is_chosen_by_calibration_nll_for_each_seed(record) -> None:
    nll = {
        ("kdf", 0): 0.1,
        ("kdf", 1): 0.4,
        ("gated_isotonic", 0): 0.2,
        ("gated_isotonic", 1): 0.3,
        ("isotonic", 0): 0.01,
        ("isotonic", 1): 0,
    }
    errors = {"kdf": 0.02, "gated_isotonic": 0.06, "isotonic": 0.08}
    runs = [
        record(method=m, seed=seed, nll=value, values={"error": errors[m] + seed})
        for (m, seed), value in nll.items()
    ]
    result = with_choice(tables(frame(runs), "random_forest"))
    assert result.values.loc[("a", CHOICE), "error"] == pytest.approx(
        (0.02 + 1.06) / 2
    )  # KDF with seed 0, the other with seed 1
    text = dominance(result)
    assert (
        "Chosen by NLL on calibration rows, in runs: " in text
        and "KDF 1" in text
        and "gated isotonic 1" in text
    )
    assert "| gate on the best calibrator | 1 of 1 | random forest 1, KDF 1 |" in text


def test_without_the_calibration_nll_there_is_a_message(record) -> None:
    result = with_choice(
        tables(
            frame(
                [record(method=method, nll=1.0 if method == "kdf" else None) for method in METHODS]
            ),
            "random_forest",
        )
    )
    assert result.methods == ["parent", *METHODS]
    assert (
        "not every record of a method with a density gate has learnt.calibrator.calibration_nll"
        in dominance(result)
    )
    chosen_in_runs = with_choice(
        tables(
            frame([record(method=method, nll=1.0) for method in ("kdf", "gated_best")]),
            "random_forest",
        )
    )
    assert "chosen on calibration rows within each run, is gated best" in dominance(chosen_in_runs)


def test_dominance_counts_tables(record) -> None:
    worse = {"error": 0.2, "nll": 0.4, "ece": 0.1, "oce": dict.fromkeys(RADII, 0.3)}
    runs = [
        record("a", "kdf"),
        record("a", "isotonic", values=worse),
        record("b", "kdf"),
        record("b", "isotonic", values=worse | {"ece": 0.01}),
    ]
    text = dominance(tables(frame(runs), "random_forest"))
    assert "| isotonic | 1 of 2 | random forest 1, KDF 1 |" in text
    assert "| KDF | 0 of 2 | – |" in text


def test_medians_and_improvements_list_what_is_left_out(record) -> None:
    errors = {"a": (0.2, 0.1), "b": (0.1, 0.1), "c": (0.0005, 0.1)}
    runs = [
        record(name, of_parent={"error": of_parent}, values={"error": error})
        for name, (of_parent, error) in errors.items()
    ]
    (line,) = [
        line
        for line in in_distribution(tables(frame(runs), "random_forest"), 1e-3).splitlines()
        if "KDF" in line
    ]
    assert line == "| **KDF** | .1000 | .3000 | .0500 | .2000 | +.250 (1) | +.000 | +.000 |"


def test_tables_against_the_parent_and_each_other(record) -> None:
    runs = [record(str(i), "kdf", values={"error": 0.1 - 0.001 * (i + 1)}) for i in range(10)]
    runs += [
        record(str(i), "isotonic", values={"oce": dict.fromkeys(RADII, 0.3), "error": 0.2})
        for i in range(10)
    ]
    result = tables(frame(runs), "random_forest")
    assert "| **KDF** | 10/0/0 (p .004) | 0/10/0 (p 1)" in against_parent(
        result
    )  # two tests of the most extreme signs: 2·2/2¹⁰
    assert (
        "| isotonic | 0/0/10 (p .004) | 0/10/0 (p 1) | 0/10/0 (p 1) | 0/10/0 (p 1) | 0/0/10"
        in against_parent(result)
    )
    assert against_each_other(result, "error").splitlines()[-1] == "| **KDF** | 10/0/0 (p .002) |"
    assert (
        far_field(result).splitlines()[-1] == "| isotonic | .3000 | .3000 | .3000 | .3000 | .3000 |"
    )


def test_improvement_is_interpolated_within_the_sizes_of_a_table(record) -> None:
    errors = {("a", 100): 0.1, ("a", 300): 0.05, ("b", 100): 0.2, ("b", 200): 0.1, ("c", 100): 0.1}
    runs = [
        record(name, learn=learn, values={"error": error})
        for (name, learn), error in errors.items()
    ]
    result = improvement_by_size(frame(runs), "error", 1e-3)
    np.testing.assert_allclose(result.sizes, [100, 200, 300])
    np.testing.assert_allclose(
        result.curves["kdf"], [[0, 0.25, 0.5], [-1, 0, np.nan], [0, np.nan, np.nan]], atol=1e-12
    )
    assert (result.curves["parent"][~np.isnan(result.curves["kdf"])] == 0).all()
    assert at_sizes(result.curves["kdf"], result.sizes, [100, 150, 300, 400]) == [
        (0.0, 3),
        (pytest.approx((0.125 - 0.5) / 2), 2),
        (0.5, 1),
        (pytest.approx(np.nan, nan_ok=True), 0),
    ]
