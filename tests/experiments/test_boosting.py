"""Tables of the comparison of boosted trees, and the weighted similarity of its experiment."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.boosting import comparison, kernel
from kdgraph.base import Rows
from kdgraph.geometry.leaf_comparison import leaf_similarity
from tests.results.conftest import make_record


def records(sets: tuple[str, ...] = ("near", "noise")) -> list[dict]:
    """Eight tables on which KDF behind LightGBM has half of the error of the bare parent."""
    made = []
    for i in range(8):
        out_of_distribution = {
            f"{metric}@{name}": value
            for name in sets
            for metric, value in (("auroc", 0.9), ("oce", 0.2))
        }
        values = {"error": 0.1, "nll": 0.3, "ece": 0.02} | out_of_distribution
        of_parent = {"error": 0.2 + 0.01 * i, "nll": 0.3, "ece": 0.01} | dict.fromkeys(
            out_of_distribution, 0.5
        )
        made.append(
            make_record(
                f"table{i}",
                "lightgbm-kdf",
                values=values,
                of_parent=of_parent,
                parent="lightgbm",
                simulated=False,
            )
        )
    return made


def test_table_has_means_by_parent_and_repair():
    lines = comparison.means(records()).splitlines()
    assert (
        lines[0]
        == "| parent | repair | error | NLL | ECE | OCE | AUROC | AUROC near | AUROC noise |"
    )
    assert lines[2:] == [
        "| LightGBM | none | .235 | .300 | .010 | .500 | .500 | .500 | .500 |",
        "| LightGBM | KDF | .100 | .300 | .020 | .200 | .900 | .900 | .900 |",
    ]


def test_a_repair_is_tested_against_its_own_parent():
    """Eight wins of eight have p = 2 / 2^8; where all is equal there is nothing to test."""
    (row,) = comparison.tests(records()).splitlines()[2:]
    cells = [cell.strip() for cell in row.strip("|").split("|")]
    assert cells[:2] == ["LightGBM", "KDF"]
    assert cells[2] == "−.135 (8/0/0; p = 0.008)"
    assert cells[3].startswith("+.000 (0/8/0")
    assert cells[4] == "+.010 (0/0/8; p = 0.008)"
    assert cells[6] == "+.400 (8/0/0; p = 0.008)"


def test_equal_weights_give_the_similarity_of_the_library():
    rng = np.random.default_rng(0)
    a, b = rng.integers(4, size=(7, 10)), rng.integers(4, size=(9, 10))
    np.testing.assert_allclose(
        kernel.similarity(a, b, np.ones(10)), leaf_similarity(a, b), atol=1e-15
    )
    first_alone = np.zeros(10)
    first_alone[0] = 3.0
    np.testing.assert_array_equal(kernel.similarity(a, b, first_alone), a[:, :1] == b[None, :, 0])


def test_weightings_are_by_outputs_and_rounds():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed; extra boosting")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (X[:, 0] > 0).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1).fit(X, y)
    leaves = np.asarray(model.predict(X, pred_leaf=True))
    sample = kernel.Sample(Rows(X, y, np.ones(300)), leaves, model.predict_proba(X))
    weights = kernel.weightings(model, sample, 2)
    assert weights["first quarter"].tolist() == [1, 1, 0, 0, 0, 0, 0, 0]
    np.testing.assert_allclose(weights["root of the variance"] ** 2, weights["variance"])
    # Later trees have less left to explain.
    assert weights["variance"][0] > weights["variance"][-1]
    total = sum(
        np.array(
            [model.booster_.get_leaf_output(t, leaf) for leaf in range(leaves[:, t].max() + 1)]
        )[leaves[:, t]]
        for t in range(8)
    )
    np.testing.assert_allclose(total, model.predict(X, raw_score=True), atol=1e-12)


def test_table_compares_with_equal_weights():
    rows = [
        {"model": "m", "weights": weights, "table": f"t{i}", "seed": 0, "parent": 0.5}
        | {"alone": 0.4, "mixed": 0.3 + shift * (1 if i else -1)}
        for weights, shift in (("equal", 0.0), ("variance", 0.1))
        for i in range(3)
    ]
    lines = kernel.tables_of(pd.DataFrame(rows)).splitlines()
    assert lines[2] == "| m | equal | .5000 | .4000 | .3000 | – | – |"
    assert lines[3] == "| m | variance | .5000 | .4000 | .3333 | +.0333 | 1 of 3 |"


def test_a_set_without_runs_has_no_column():
    assert comparison.means(records(("permuted", "noise"))).splitlines()[0] == (
        "| parent | repair | error | NLL | ECE | OCE | AUROC | AUROC noise |"
    )
