"""Tests of the sentences of Salamon et al. on example numbers: every claim can hold
and can fail.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from experiments.common.claims import Claim
from experiments.p2 import bandwidths as bandwidths_study
from experiments.p2 import claims as p2
from experiments.p2 import phanns_scores
from experiments.p2.figures.joint import PREDICTED
from experiments.p2.mnist import claims as networks_study
from experiments.p2.mnist import ensembles as scores_study
from experiments.p2.mnist.pool import Pool
from tests.experiments.sentences import SEEDS, all_are, held, jitter


def test_claims_on_score_records() -> None:
    def splits(**means: float) -> pd.DataFrame:
        return pd.DataFrame(
            {name: [value * (1 + jitter(seed)) for seed in SEEDS] for name, value in means.items()}
        )

    good = splits(
        histogram=0.1,
        csts=0.2,
        tswa=0.19,
        kde=0.2,
        sts=0.3,
        temperature=0.4,
        isotonic=0.4,
        none=0.5,
    )
    bad = splits(
        histogram=0.9, csts=0.6, tswa=0.7, kde=0.5, sts=0.5, temperature=0.4, isotonic=0.4, none=0.3
    )
    sentences = {
        "top_label",
        "binary_loss_better",
        "csts_competitive",
        "awards_beat_csts",
        "always_calibrate",
        "cannot_hurt",
        "histograms_among_lowest",
    }
    assert (
        all_are(p2.claims_on_scores(good, good, "scores", 0.1), True)
        == all_are(p2.claims_on_scores(bad, bad, "scores", 0.1), False)
        == sentences
    )


def test_recalibration_hurts_where_one_split_of_many_loses() -> None:
    none = pd.Series([0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    nll = pd.DataFrame({"none": none, "kde": none - [0.1, 0.1, 0.1, 0.1, 0.1, -0.01]})
    result = held(p2.claims_on_scores(nll, pd.DataFrame(), "scores", 0.1))
    assert result == {"cannot_hurt": {False}, "always_calibrate": {True}}


def test_a_competitive_method_may_lose_a_tenth() -> None:
    kde = pd.Series([0.5 * (1 + jitter(seed)) for seed in SEEDS])
    for ratio, holds in ((1.05, True), (1.15, False)):
        nll = pd.DataFrame({"csts": ratio * kde, "kde": kde})
        assert held(p2.claims_on_scores(nll, pd.DataFrame(), "scores", 0.1)) == {
            "csts_competitive": {holds}
        }


def proteins(**nll: float) -> dict[str, pd.DataFrame]:
    """Losses of the methods of Figure 17 on PhANNs of which all claims hold; ``method class`` or
    ``method`` → NLL.
    """
    means = {
        "histogram": 0.105,
        "kde_b_mon": 0.12,
        "kde": 0.11,
        "sts": 0.3,
        "csts": 0.12,
        "tswa": 0.115,
        "cum_star": 0.12,
        "none": 0.3,
    }
    classes = [name for name in PREDICTED if name != "Other"]
    return {
        method: pd.DataFrame(
            {
                "predicted": classes,
                "nll": [nll.get(f"{method} {k}", nll.get(method, value)) for k in classes],
            }
        )
        for method, value in means.items()
    }


def test_claims_on_the_scores_of_phanns() -> None:
    sentences = {
        "shared_temperature",
        "csts_competitive",
        "awards_beat_csts",
        "top_label_temperatures",
        "kde_at_or_below_histogram",
    }

    def of(result: dict[str, pd.DataFrame]) -> Iterator[Claim]:
        return phanns_scores.claims_on_losses(result, "PhANNs")

    assert all_are(of(proteins()), True) == sentences
    apart = {"csts_competitive": {False}}
    assert all_are(of(proteins(csts=0.13)), True, apart) == sentences
    # TSwA is better of all rows, by one class alone.
    by_one = {f"tswa {k}": 0.121 for k in ("HTJ", "Portal", "Collar", "Baseplate", "Major tail")}
    part = {"awards_beat_csts": {True, False}}
    assert all_are(of(proteins(**by_one, **{"tswa Tail fiber": 0.05})), True, part) == sentences
    assert all_are(of(proteins(kde=0.2)), True, {"kde_at_or_below_histogram": {False}}) == sentences
    holds = {"kde_at_or_below_histogram": {True}}
    assert all_are(of(proteins(csts=0.29, tswa=0.3)), False, holds) == sentences
    assert list(of({"none": proteins()["none"]})) == []


def halves(**changed: float) -> pd.DataFrame:
    """What fits on six halves of a record found, so that every claim holds but for what is changed:
    ``fit column`` → value.
    """
    nll = {bandwidths_study.PRECISION: 0.5, bandwidths_study.ALL_ROWS: 0.4}
    rows = []
    for method in [
        *nll,
        *(
            f"{b}{end}"
            for b in (*bandwidths_study.FIXED, bandwidths_study.RULE)
            for end in ("", f" {bandwidths_study.REFLECTED}")
        ),
    ]:
        values = {
            "nll": nll.get(method, 0.3),
            "moved": 0.001,
            "most": 0.1,
            "curves": 9,
            "classes": 9,
            "bandwidth": 0.04,
        }
        values |= {
            key.split("/")[1]: value
            for key, value in changed.items()
            if key.split("/")[0] == method
        }
        rows += [
            {"seed": seed, "method": method, **values, "nll": values["nll"] + jitter(seed)}
            for seed in SEEDS
        ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("changed", "fails"),
    [
        ({}, {}),
        ({"b_mon2/curves": 8}, {"bulletproof_bandwidth": {True, False}}),
        ({"Conf1/nll": 0.29}, {"bulletproof_bandwidth": {True, False}}),
        ({"0.1 reflected/nll": 0.31}, {"boundary": {True, False}}),
        ({"b_mon2 reflected/nll": 0.29}, {"boundary": {True, False}}),
        ({"0.03 reflected/moved": 0.011}, {"boundary": {True, False}}),
        ({"b_mon2 of all rows/nll": 0.3}, {"only_positives": {False}}),
    ],
)
def test_claims_on_kernel_densities(changed, fails) -> None:
    sentences = {"bulletproof_bandwidth", "boundary", "only_positives"}
    tested = list(bandwidths_study.claims("scores", halves(**changed)))
    assert all_are(tested, True, fails) == sentences
    assert {each.text for each in tested} == {
        each.text for each in bandwidths_study.claims("scores", halves())
    }
    without = halves().query("method != @bandwidths_study.ALL_ROWS")
    assert all_are(bandwidths_study.claims("PhANNs", without), True) == sentences - {
        "only_positives"
    }


def test_claims_on_fully_trained_ensembles() -> None:
    def measured(**nll: float) -> pd.DataFrame:
        values = {
            "STS": 0.1,
            "CSTS": 0.097,
            "TSwA": 0.103,
            "Conf1": 0.11,
            "KDE(b_mon)": 0.11,
            "CwOC": 0.1,
        } | nll
        shared = {"ensemble": 0, "metric": "NLL", "test_set": "2"}
        return pd.DataFrame(
            [
                {**shared, "method": m, "class": k, "value": v}
                for m, v in values.items()
                for k in ("all", "0", "1")
            ]
        )

    sentences = {"fully_trained", "moot_if_saturated"}
    assert all_are(networks_study.claims_on_fully_trained(measured(), 0.99), True) == sentences
    worse = measured(**{"KDE(b_mon)": 0.12, "CwOC": 0.111, "TSwA": 0.094})
    assert all_are(networks_study.claims_on_fully_trained(worse, 0.99), False) == sentences
    one_class = measured().assign(
        value=lambda f: f.value.where((f.method != "CSTS") | (f["class"] != "1"), 0.05)
    )
    assert held(networks_study.claims_on_fully_trained(one_class, 0.99))["moot_if_saturated"] == {
        True,
        False,
    }


@pytest.mark.slow
def test_claims_on_figures_of_mnist(tmp_path) -> None:
    """Networks that say the class by chance, and are right as often on both sets or less often on
    one of them.
    """

    def pool(right: tuple[float, float]) -> Pool:
        rng = np.random.default_rng(0)
        labels, log_proba = {}, {}
        for name, share in zip(("1", "2"), right, strict=True):
            predicted = np.repeat(np.arange(10), 300)
            signal = 6 * rng.random((3000, 1)) * np.eye(10)[predicted]
            log_proba[name] = np.repeat(log_softmax(signal, axis=1)[None], 20, axis=0)
            labels[name] = np.where(rng.random(3000) < share, predicted, (predicted + 1) % 10)
        return Pool(tmp_path, log_proba, labels)

    alike, apart = (
        held(scores_study.claims_on_ensembles(pool(right), 2, "mean"))
        for right in ((0.7, 0.7), (0.7, 0.6))
    )
    assert alike["noise_of_histograms"] == {True} and apart["noise_of_histograms"] == {False}
    assert [
        held([scores_study.claim_on_rules(pd.DataFrame([{"0": a, "1": 0.01}] * 3))])
        for a in (0.01, 0.06)
    ] == [
        {"two_rules_alike_on_mnist": {True}},
        {"two_rules_alike_on_mnist": {False}},
    ]
    assert set(alike) == {"noise_of_histograms", "two_rules_alike_on_mnist"}
