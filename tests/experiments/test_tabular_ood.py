"""What the benchmark of detection on tables prints at its end, of records whose numbers are given."""

from __future__ import annotations

from experiments.tabular_ood.ranking import beside
from tests.results.conftest import make_record


def run(dataset: str, method: str, auroc: float, oce: float, ece: float, sets: tuple[str, ...] = ("near", "noise")) -> dict:
    numbers = {"error": 0.1, "ece": ece} | {
        f"{metric}@{name}": value for name in sets for metric, value in (("auroc", auroc), ("oce", oce))
    }
    numbers |= {f"fpr95@{name}": 1 - auroc for name in sets}
    of_parent = {key: 0.3 if "auroc" in key else 0.5 for key in numbers}
    return make_record(dataset, method, values=numbers, of_parent=of_parent, simulated=False)


def told(iso_ece: float, sets: tuple[str, ...] = ("near", "noise")) -> str:
    """Eight tables on which density is .01 above k-NN, and whitened KDF has half of isotonic regression's OCE at an ECE of .03."""
    records = []
    for i in range(8):
        name, more = f"table{i}", 0.001 * i
        records += [
            run(name, "knn", 0.8 + more, 0.4, 0.1, sets),
            run(name, "density", 0.81 + more, 0.4, 0.1, sets),
            run(name, "isotonic", 0.7 + more, 0.4, iso_ece, sets),
            run(name, "kdf_whitened", 0.9 + more, 0.2, 0.03, sets),
        ]
    return beside(records)


def test_methods_stand_by_mean_rank_and_claims_follow_from_the_numbers():
    said = told(0.029)
    lines = [line.split("|")[1].strip(" *") for line in said.splitlines() if line.startswith("|")]
    assert lines[2:7] == ["kdf_whitened", "density", "knn", "isotonic", "random_forest (parent)"]
    assert "pass: AUROC of density is not significantly below that of knn, the best of knn. +.010, 8/0/0" in said
    assert (
        "pass: kdf_whitened has on average less OCE than all that is no gate, and an ECE of at most isotonic's + 0.003. ECE +.0010" in said
    )
    assert "Every method has a number on every set." in said


def test_a_gate_that_costs_too_much_fails():
    assert (
        "FAIL: kdf_whitened has on average less OCE than all that is no gate, and an ECE of at most isotonic's + 0.003. ECE +.0040"
        in told(0.026)
    )
