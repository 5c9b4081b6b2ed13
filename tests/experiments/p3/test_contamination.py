"""Power of tests of sets by the share of contamination: tables and claims of numbers that are given,
and the settings of the experiment.
"""

from __future__ import annotations

import pandas as pd
import pytest

from experiments.common.runs import Record
from experiments.p3 import contamination
from kdgraph.config import plan
from tests.experiments.p3.made import rows_of
from tests.experiments.sentences import all_are


def record(dataset: str, method: str, seed: int, values: dict[float, float]) -> Record:
    """Return a record with the AUROC of each share; that of the parent is 7."""
    return {
        "dataset": {"name": dataset},
        "method": method,
        "seed": seed,
        "metrics": [
            {"of": of, "metric": metric, "params": {"share": share}, "value": number}
            for share, value in values.items()
            for of, metric, number in (
                ("parent", "auroc", 7.0),
                ("calibrated", "auroc", value),
                ("calibrated", "fpr95", 9.0),
            )
        ],
    }


def records(of_whole: dict[str, float]) -> list[Record]:
    """Return two seeds of digits: AUROC of whole sets by method, and .6 at 5 %."""
    return [
        record("digits", method, seed, {0.05: 0.6, 1.0: value + 0.02 * seed})
        for method, value in of_whole.items()
        for seed in (0, 1)
    ]


def test_table_has_a_line_a_method_and_a_column_a_share():
    text = contamination.compare_with_published(records({"ks": 0.5, "tood_given": 0.7}))
    assert "| AUROC, digits 0 to 4 against 5 to 9 | 5 % | 100 % |" in text
    result = rows_of(text)
    assert result[:3] == [
        ["TOOD, given labels", ".60 ± .00", ".71 ± .01"],
        ["Kolmogorov-Smirnov tests", ".60 ± .00", ".51 ± .01"],
        ["mean AUROC (mean rank), 1 data set", "5 %", "100 %"],
    ]
    assert result[4:] == [
        ["TOOD, given labels", ".60 (1.5)", ".71 (1.0)"],
        ["Kolmogorov-Smirnov tests", ".60 (1.5)", ".51 (2.0)"],
    ]
    assert contamination.compare_with_published([]).startswith("no run of paper/p3/contamination")


def test_ranks_are_of_methods_with_runs_on_every_data_set():
    more = [record("breast_cancer", name, 0, {0.05: 0.1, 1.0: 0.1}) for name in ("ks", "mmd")]
    frame = contamination.power([*records({"ks": 0.49, "mmd": 0.29, "tood_given": 0.7}), *more])
    assert rows_of(contamination.ranks(frame)) == [
        ["MMD", ".35 (1.5)", ".20 (1.8)"],
        ["Kolmogorov-Smirnov tests", ".35 (1.5)", ".30 (1.2)"],
    ]


def test_claims_on_whole_sets_can_hold_and_fail():
    def claims(tood: float, rival: float):
        given = records({"tood_given": tood, "tood_shuffled": 0.99, "mmd": rival, "ks": 0.1})
        return list(contamination.claims(contamination.power(given)))

    sentences = {"outperforms", "comparable", "concluding"}
    assert all_are(claims(0.9, 0.8), True) == all_are(claims(0.7, 0.8), False) == sentences
    by_one = {claim.sentences[0]: claim.holds for claim in claims(0.77, 0.8)}
    assert by_one == {"outperforms": False, "comparable": True}
    assert "all score sets of 50 rows" in claims(0.9, 0.8)[0].measured
    assert [", a tie" in claims(0.8, rival)[0].measured for rival in (0.8, 0.7)] == [True, False]
    alone = contamination.power(records({"tood_given": 0.9, "tood_shuffled": 0.9}))
    assert not list(contamination.claims(alone))
    assert not list(contamination.claims(pd.DataFrame(columns=alone.columns)))


@pytest.mark.slow
@pytest.mark.parametrize("dataset", contamination.DATASETS)
def test_all_methods_of_the_experiment_score_the_same_sets(dataset):
    """Same parent, rows out of distribution and size; only what is fitted on them differs."""
    jobs = plan(
        [
            "experiment=paper/p3/contamination",
            f"dataset=choice(paper/p3/sets/{dataset})",
            "seed=choice(0)",
        ]
    ).jobs
    assert [job.config.method for job in jobs] == list(contamination.METHODS)
    first = jobs[0].config
    for job in jobs:
        config = job.config
        assert (config.parent, config.ood, config.dataset) == (
            first.parent,
            first.ood,
            first.dataset,
        )
        assert config.dataset["name"] == dataset
        assert config.after["detector"]["set_size"] == 50
        assert config.ood["shares"] == [0.05, 0.1, 0.2, 0.5, 1.0]
