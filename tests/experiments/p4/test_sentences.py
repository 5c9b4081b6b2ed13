"""Tests of the sentences of Luo et al. on example numbers: every claim can hold and
can fail.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from experiments.p4 import claims as p4
from experiments.p4 import finer
from experiments.p4.figures import Study
from tests.experiments.sentences import SEEDS, all_are, held, jitter


def setting(lore: float) -> pd.DataFrame:
    """Every error of LoRe by itself, of all other methods about 1, which the largest error of a
    group follows with MLCE alone.
    """
    rng, rows = np.random.default_rng(0), []
    methods = [
        *p4.GLOBAL,
        *p4.BY_GROUP,
        *(f"lore_{each}{end}" for each in p4.MAPS for end in p4.READINGS),
    ]
    metrics = [
        "ece",
        "mce",
        "nll_top",
        "brier_top",
        "lce_tsne",
        "lce_pca",
        *(f"mlce_{each}{end}" for each in p4.MAPS for end in p4.METRIC_SUFFIXES.values()),
    ]
    for method in methods:
        for seed in range(12):
            worst = (lore if method.startswith("lore") else 1.0) * (1 + 0.05 * rng.normal())
            noise = {
                metric: (lore if method.startswith("lore") else 1.0) * (1 + 0.3 * rng.normal())
                for metric in metrics[:4]
            }
            local = {metric: worst * (1 + 0.001 * rng.normal()) for metric in metrics[4:]}
            rows += [
                {"method": method, "seed": seed, "metric": m, "value": v}
                for m, v in {"group_mce": worst, **noise, **local}.items()
            ]
    return pd.DataFrame(rows)


def test_a_claims_on_the_crime_setting(monkeypatch) -> None:
    monkeypatch.setattr(p4, "DRAWS", 40)
    best, worst = (
        held(p4.claims_on_setting(setting(0.3), 0.1)),
        held(p4.claims_on_setting(setting(3.0), 0.1)),
    )
    assert set(best) == set(worst) and len(best) == 12
    correlated = {"mlce_foretells", "lower_lce_lower_cost"}
    assert all(best[name] == {True} for name in best.keys() - correlated), best
    assert all(worst[name] == {False} for name in worst.keys() - correlated), worst
    assert best["lower_lce_lower_cost"] == {True}
    apart = setting(0.3).assign(
        value=lambda f: np.where(f.metric.str.startswith("mlce"), 1 / f.value, f.value)
    )
    assert (
        held(p4.claims_on_setting(apart, 0.1))["lower_lce_lower_cost"]
        == {False}
        == held(p4.claims_on_setting(apart, 0.1))["mlce_foretells"]
    )


def test_claims_on_decisions() -> None:
    def scores(reward: float, ece: float) -> pd.DataFrame:
        values = {"reward": reward, "prr": reward, "ece": ece, "nll": ece, "brier": ece}
        rows = [("lore_tsne_02", name, value) for name, value in values.items()] + [
            ("none", name, 0.5) for name in values
        ]
        return pd.DataFrame(
            [
                {"method": m, "metric": n, "seed": s, "value": v + jitter(s)}
                for m, n, v in rows
                for s in SEEDS
            ]
        )

    assert held(
        p4.claims_on_decisions(
            scores(0.9, 0.1).assign(value=lambda f: f.value + 1e-4 * f.seed * f.method.eq("none")),
            "x",
            0.1,
        )
    ) == {
        "highest_reward": {True},
        "best_prr_and_global": {True},
    }
    assert held(p4.claims_on_decisions(scores(0.1, 0.9), "x", 0.1)) == {
        "highest_reward": {False},
        "best_prr_and_global": {False},
    }


def test_claims_on_rewards() -> None:
    def study(lore: list[float]) -> Study:
        rewards = {
            "none": [-0.5, -0.6, -0.7],
            "histogram": [-0.4, -0.6, -0.8],
            "lore_tsne_02": lore,
        }
        rows = [
            {"method": method, "seed": seed, "ratio": ratio, "reward": value + jitter(seed)}
            for method, values in rewards.items()
            for seed in SEEDS
            for ratio, value in zip((1.5, 10, 100), values, strict=True)
        ]
        return Study(
            list(rewards), list(SEEDS), pd.DataFrame(), {"reward_by_ratio": pd.DataFrame(rows)}
        )

    (won,) = p4.claims_on_rewards(
        study([-0.3, -0.61, -0.6]), "x"
    )  # first and last, by .1; behind by .01 between them
    assert (
        won.holds
        and won.measured.startswith("at 2; ")
        and ": -.010 to +.100; " in won.measured.replace("−", "-")
    ), won.measured
    (lost,) = p4.claims_on_rewards(
        study([-0.3, -0.61, -0.7]), "x"
    )  # as high as the best of the others is not above it
    assert (
        not lost.holds
        and lost.measured.startswith("at 1; ")
        and lost.sentences == ("highest_reward",)
    )


def test_claims_on_decisions_and_local_errors(monkeypatch) -> None:
    monkeypatch.setattr(p4, "DRAWS", 40)
    rng = np.random.default_rng(0)

    def scores(sign: float) -> pd.DataFrame:
        rows = []
        for method, level in (("none", 0.9), ("lore_tsne_02", 0.2), ("histogram", 0.5)):
            for seed in range(8):
                error = level + 0.05 * rng.normal()
                values = {"mlce_resnet": error, "reward": sign * error + 0.001 * rng.normal()}
                rows += [
                    {"method": method, "seed": seed, "metric": m, "value": v}
                    for m, v in values.items()
                ]
        return pd.DataFrame(rows)

    for sign, holds in ((-1.0, True), (1.0, False), (0.0, False)):
        result = [
            c for c in p4.claims_on_decisions(scores(sign), "x", 0.1) if "correlates" in c.text
        ]
        assert all_are(result, holds) == {"lower_lce_lower_cost"}


def test_methods_are_compared_over_their_common_seeds(monkeypatch) -> None:
    monkeypatch.setattr(p4, "DRAWS", 40)
    frame = setting(0.3)
    few = frame[(frame.seed < 9) | ~frame.method.str.endswith("_printed")]
    texts = {claim.text: claim.measured for claim in p4.claims_on_setting(few, 0.1)}
    assert set(texts) == {claim.text for claim in p4.claims_on_setting(frame, 0.1)}
    for text, tested in texts.items():
        n = "9 seeds" if p4.READINGS["_printed"] in text else "12 seeds"
        assert n in tested or tested.startswith("clearly below"), (text, tested)


def test_claims_on_the_limits_of_the_bandwidth() -> None:
    def study(least: float) -> Study:
        rows = [
            {"method": "none", "seed": s, "bandwidth": gamma, "mlce": value + jitter(s)}
            for s in SEEDS
            for gamma, value in ((0.0125, least), (12.8, 0.2))
        ]
        tables = {f"lce_by_bandwidth_{each}": pd.DataFrame(rows) for each in p4.MAPS}
        return Study(["none"], list(SEEDS), pd.DataFrame(), tables)

    assert all_are(p4.claims_on_bandwidths(study(0.999)), True) == {"mlce_becomes_one"}
    assert all_are(p4.claims_on_bandwidths(study(0.97)), False) == {"mlce_becomes_one"}


def test_claims_on_curves_of_local_errors() -> None:
    def study(lore: list[float]) -> Study:
        curves = {"none": [0.9, 0.5, 0.3], "histogram": [0.8, 0.6, 0.2], "lore_logits_02": lore}
        rows = [
            {"method": m, "seed": s, "bandwidth": gamma, "mlce": value + jitter(s)}
            for m, values in curves.items()
            for s in SEEDS
            for gamma, value in zip((0.1, 1.0, 10.0), values, strict=True)
        ]
        tables = {f"lce_by_bandwidth_logits{end}": pd.DataFrame(rows) for end in ("", "_30")}
        return Study(list(curves), list(SEEDS), pd.DataFrame(), tables)

    won = list(p4.claims_on_curves(study([0.7, 0.4, 0.1]), "lore_logits_02", "x"))
    assert all_are(won, True) == {"lowest_mlce_everywhere"}
    lost = list(p4.claims_on_curves(study([0.7, 0.4, 0.25]), "lore_logits_02", "x"))
    assert all_are(lost, False) == {"lowest_mlce_everywhere"}
    assert all(claim.measured.startswith("at 2; ") for claim in lost)


def test_claims_on_bins_of_equal_mass() -> None:
    width = {"none": 0.4, "temperature": 0.3, "histogram": 0.2, "lore_pca_spread": 0.1}
    wrong = 5.0  # of LoRe in other bins than those it is measured in, and of no method of the paper

    def bins(mass: Mapping[str, float]) -> pd.DataFrame:
        rows = [
            {"method": method, "seed": seed, "metric": metric + end, "value": value + jitter(seed)}
            for metric in ("ece", "mce", "group_mce", "mlce_pca")
            for end, values in (
                ("", {**width, "lore_pca_mass": wrong, "isotonic_labels": wrong}),
                ("_mass", {**mass, "lore_pca_spread": wrong, "isotonic_labels": 1.0}),
            )
            for method, value in values.items()
            for seed in SEEDS
        ]
        return pd.DataFrame(rows)

    alike = {"none": 0.42, "temperature": 0.29, "histogram": 0.2, "lore_pca_mass": 0.105}
    result = list(p4.claims_on_bins(bins(alike)))
    assert len(result) == 4 * 3 and all_are(result, True) == {"equal_mass_alike"}
    assert all_are(
        p4.claims_on_bins(bins(dict(zip(alike, [0.1, 0.2, 0.3, 0.4], strict=True)))), False
    ) == {"equal_mass_alike"}


def test_claims_on_local_errors_against_drawn_and_true_ones() -> None:
    shared = {"network": "60 epochs", "space": "PCA"}

    def drawn(by_chance: float) -> pd.DataFrame:
        return pd.DataFrame(
            {
                **shared,
                "seed": s,
                "outcomes": 0.05 + jitter(s),
                "accuracy": by_chance,
                "shifted": by_chance,
            }
            for s in SEEDS
            for s in SEEDS
        )

    def true(local: float, correlation: float) -> pd.DataFrame:
        of = {"parent": "forest", "simulation": "spiral", "bin": 0.1, "correlation": correlation}
        return pd.DataFrame({**of, "seed": s, "local": local + jitter(s)} for s in SEEDS)

    assert all_are(
        [*finer.claims_on_crime(drawn(0.02)), *finer.claims_on_truth(true(0.05, 0.5))], True
    ) == {"finer_than_ece"}
    assert all_are(
        [*finer.claims_on_crime(drawn(0.08)), *finer.claims_on_truth(true(0.2, -0.1))], False
    ) == {"finer_than_ece"}


def test_a_bin_with_a_one_sided_error_is_detected() -> None:
    rng = np.random.default_rng(0)
    X, confidence = rng.normal(size=(1000, 2)), np.full(1000, 0.75)
    one_sided = X[:, 0] > -0.67
    by_chance = rng.random(1000) < finer.chances(confidence, one_sided)["shifted"]
    assert finer.excess(confidence, one_sided, X, 0.2) > 5 * finer.excess(
        confidence, by_chance, X, 0.2
    )
    result = finer.near_to(confidence - one_sided, confidence, one_sided, X)
    assert result["local"] < result["bin"] and result["correlation"] > 0.5
