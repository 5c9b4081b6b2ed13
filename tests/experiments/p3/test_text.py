"""What the study of texts prints at its end, of records whose numbers are given."""

from __future__ import annotations

from experiments.p3 import text
from tests.experiments.p3.made import record, rows_of


def test_ours_stands_beside_what_was_published():
    others = ["newsgroups_sports", "newsgroups_politics"]
    config = {"parent": {"name": "extra_trees"}}
    runs = [
        record(
            "newsgroups_computer",
            "tood_given",
            s,
            others,
            lambda name, metric, s=s: 0.9 + 0.02 * s,
            config,
        )
        for s in range(2)
    ]
    said = text.compare_with_published(runs)
    assert (
        said.count("## TOOD, Table 6, computers in distribution: 100 training rows") == 1
        and "2 seeds" in said
        and "Table 2" not in said
    )
    rows = rows_of(said)
    assert rows[0] == ["**TOOD, published**", "99.7", "99.2"]
    assert ["**MSP, published**", "62.0", "63.0"] in rows
    assert ["TOOD, given labels", "91.0 ± 1.4", "91.0 ± 1.4"] in rows
    assert text.compare_with_published([]) == "no run of texts is there"


def test_what_takes_the_place_of_a_published_set_stands_beside_it():
    said = text.compare_with_published(
        [
            record(
                "movies",
                "knn",
                0,
                ["news"],
                lambda name, metric: 0.5,
                {"parent": {"name": "extra_trees"}},
            )
        ]
    )
    assert ["**TOOD, published**", "100.0"] in rows_of(said) and [
        "k-NN on topics",
        "50.0",
    ] in rows_of(said)
