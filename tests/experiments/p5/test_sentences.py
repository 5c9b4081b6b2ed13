"""Tests of the sentences of Torres et al. on example numbers: every claim can hold
and can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
import pandas as pd
import pytest

from experiments.common.claims import Claim
from experiments.p5 import bias, cost, low_x2, two_diamonds
from experiments.p5 import claims as p5
from experiments.p5 import simulation as simulation_study
from experiments.p5.records import TRUTH
from kdgraph.parents.networks import MultilayerPerceptronRegressor
from tests.experiments.sentences import SEEDS, all_are, by_seed, held, jitter

RELIABLE = "reliable_by_size"


def test_claims_on_the_line() -> None:
    def line(local: tuple[float, float, float, float], gap: float) -> pd.DataFrame:
        metrics = ("mse_mean", "smis", "coverage", "worst_cell_gap")
        both = {
            "linear": (14000.0, 2.7, 0.93, 0.2),
            p5.table1_study.LOCAL: local,
            "global_pit": (14000.0, 2.7, 0.949, gap),
        }
        return by_seed(
            {
                (name, metric): value
                for name, values in both.items()
                for metric, value in zip(metrics, values, strict=True)
            }
        )

    sentences = {
        "improved",
        "well_covered_parent",
        "even_and_narrow",
        "local_mean_variance",
        "global_not_local",
    }
    assert all_are(p5.claims_on_line(line((200, 2.0, 0.949, 0.03), 0.15)), True) == sentences
    assert all_are(p5.claims_on_line(line((15000, 3.0, 0.90, 0.3), 0.02)), False) == sentences


def test_claims_on_neighbours_and_bias() -> None:
    def parts(
        bias_of: Mapping[int, float], variance_of: Mapping[int, float]
    ) -> dict[int, pd.DataFrame]:
        by_k = {
            k: pd.DataFrame({"bias": [bias_of[k] + jitter(seed) for seed in SEEDS]})
            for k in bias_of
        }
        result = {
            k: frame.assign(variance=[variance_of[k] - jitter(seed) for seed in SEEDS])
            for k, frame in by_k.items()
        }
        return {k: frame.assign(mse=frame.bias + frame.variance) for k, frame in result.items()}

    low, high = {250: 1.0, 500: 2.0, 1000: 8.0}, {250: 9.0, 500: 2.0, 1000: 1.0}
    assert all_are(bias.claims_on_k(parts(low, high)), True) == {"small_k"}
    assert all_are(bias.claims_on_k(parts(high, low)), False, {"small_k": {True, False}}) == {
        "small_k"
    }  # the sum is least in between as before
    assert [each.holds for each in bias.claims_on_k(parts(low, low))][-1] is False


def test_squared_bias_and_variance_are_separated() -> None:
    rng = np.random.default_rng(0)
    result = bias.split_error(np.array([3.0, -1.0]) + 2 * rng.normal(size=(4000, 2)))
    error = result.sem()
    assert (
        abs(result.bias.mean() - 5) < 4 * error.bias
        and abs(result.variance.mean() - 4) < 4 * error.variance
    )
    few = bias.split_error(np.array([[1.0], [2.0], [4.0]]))
    assert few.bias.mean() == pytest.approx((1 * 2 + 1 * 4 + 2 * 4) / 3)
    assert few.variance.mean() == pytest.approx(np.var([1.0, 2.0, 4.0], ddof=1))


def test_claims_on_two_biases() -> None:
    def cells(low: float, high: float, truth: tuple[float, float]) -> pd.DataFrame:
        rows = [
            {
                "seed": seed,
                "cell": cell,
                "variance": value,
                "error": 0.001,
                "line": 1.0,
                "truth": true,
            }
            for seed in SEEDS
            for cell, value, true in ((0, low, truth[0]), (1, high, truth[1]))
        ]
        return pd.DataFrame(rows)

    assert all_are(bias.claims_on_cells(cells(0.05, 0.12, (0.5, 2.0))), True) == {"two_biases"}
    assert all_are(bias.claims_on_cells(cells(0.05, 0.06, (2.0, 2.0))), False) == {"two_biases"}
    assert [each.holds for each in bias.claims_on_cells(cells(1 / 12, 1 / 12, (1.0, 1.0)))] == [
        False,
        False,
    ]


def test_claims_on_the_networks() -> None:
    metrics = ("mse_y", "mse_mean", "smis", "coverage", "worst_cell_gap")

    def networks(**rows: tuple[float, ...]) -> list[Claim]:
        numbers = {
            (name, metric): value
            for name, values in rows.items()
            for metric, value in zip(metrics, values, strict=True)
        }
        return list(p5.claims_on_networks(by_seed(numbers)))

    after = (110, 10, 0.50, 0.948, 0.03)
    truth = {TRUTH: (100.0, 0.0, 0.49, 0.95, 0.01)}
    good = networks(
        wsir=(300, 200, 0.8, 0.93, 0.2),
        mc_dropout=(310, 210, 0.9, 0.9491, 0.2),
        wsir_local_radius=after,
        mc_dropout_local_radius=after,
        **truth,
    )
    bad = (500, 400, 1.5, 0.90, 0.3)
    worse = networks(
        wsir=(320, 200, 0.8, 0.96, 0.2),
        mc_dropout=(310, 210, 0.7, 0.93, 0.2),
        wsir_local_radius=bad,
        mc_dropout_local_radius=bad,
        **truth,
    )
    assert all_are(good, True, {"improved": {True, False}}) == all_are(worse, False)
    assert not networks(wsir=(1, 1, 1, 1, 1))


def test_claims_on_low_predictions() -> None:
    def means(before: float, after: float) -> pd.DataFrame:
        rows = [
            {"method": name, "units": 256, "seed": seed}
            for name in ("wsir", "mc_dropout")
            for seed in SEEDS
        ]
        return pd.DataFrame(rows).assign(before=before, after=after, truth=10.0)

    assert (
        all_are(low_x2.claims(means(12, 11)), True)
        == all_are(low_x2.claims(means(9, 9.5)), False)
        == {"overestimated_low"}
    )


def test_claims_on_two_diamonds() -> None:
    def splits(
        mean: float, sd: float, skewness: float, distance: float, narrower: float
    ) -> pd.DataFrame:
        before = {
            "mean_before": 4000.0,
            "sd_before": 400.0,
            "skewness_before": 0.2,
            "distance_before": 2.0,
        }
        after = {
            "mean_after": mean,
            "sd_after": sd,
            "skewness_after": skewness,
            "distance_after": distance,
            "narrower": narrower,
        }
        rows = [
            {"seed": seed, "price": price, "share": 0.1, **before, **after}
            for price in (4113.0, 18026.0)
            for seed in SEEDS
        ]
        return pd.DataFrame(rows).assign(
            distance_after=lambda f: f.distance_after + f.seed.map(jitter)
        )

    sentences = {"two_diamonds", "uniform_near"}
    assert all_are(two_diamonds.claims(splits(4100, 300, 0.8, 1.0, 0.7)), True) == sentences
    assert all_are(two_diamonds.claims(splits(4010, 500, 0.21, 3.0, 0.4)), False) == sentences


def test_claims_on_the_cost_of_local_recalibration() -> None:
    def seconds(
        mse: float, fit: float, growing: float, by_k: float, by_eps: float, by_width: float
    ) -> pd.DataFrame:
        rows = []
        for seed in SEEDS:
            for step, size in enumerate(cost.SIZES):
                small = {
                    "size": size,
                    "seed": seed,
                    "network": "small",
                    "place": "",
                    "k": 0,
                    "eps": 0.0,
                }
                more = 1 + jitter(seed)
                rows += [
                    {**small, "what": "mse", "value": mse**step * more},
                    {**small, "what": "training", "value": 10.0},
                ]
                rows += [{**small, "what": "predicting", "value": 0.1}]
                for place in cost.TREE:
                    for k in cost.KS:
                        here = {**small, "place": place, "k": k}
                        rows += [
                            {**here, "what": "recalibrating", "value": fit * growing**step * more}
                        ]
                        rows += [{**here, "what": "predicting", "value": 0.15 + by_k * k * more}]
                    for eps in cost.EPS:
                        rows += [
                            {
                                **small,
                                "what": "predicting",
                                "place": place,
                                "k": 1000,
                                "eps": eps,
                                "value": by_eps * more,
                            }
                        ]
            big = {"seed": seed, "network": "big", "eps": 0.0}
            rows += [{**big, "size": 10_000, "what": "mse", "place": "", "k": 0, "value": 0.5}]
            for step, place in enumerate(cost.UNITS):
                value = by_width**step * (1 + jitter(seed))
                rows += [
                    {
                        **big,
                        "size": 100_000,
                        "what": "predicting",
                        "place": place,
                        "k": 1000,
                        "value": value,
                    }
                ]
        return pd.DataFrame(rows)

    sentences = {"small_capacity", "training_time", "prediction_time", "time_by_k"}
    assert all_are(cost.claims(seconds(0.99, 0.1, 0.9, 0.001, 0.3, 0.5)), True) == sentences
    assert all_are(cost.claims(seconds(0.5, 1.0, 1.1, -0.0001, 0.3, 2.0)), False) == sentences


@pytest.mark.slow
def test_seconds_are_measured_of_every_setting_by_turns(monkeypatch) -> None:
    monkeypatch.setattr(
        cost, "MultilayerPerceptronRegressor", partial(MultilayerPerceptronRegressor, max_epochs=1)
    )
    monkeypatch.setattr(cost, "KS", (10,))
    frame = cost.measured((100, 200), 2)
    assert (frame.value > 0).all() and len(frame) == 2 * (2 * (2 + 10 + 11) + 4)
    assert {"small_capacity", "training_time", "prediction_time", "time_by_k"} == set(
        held(cost.claims(frame))
    )


def simulated(
    change: Callable[[str, float, float], float],
    sizes: tuple[int, ...] = simulation_study.SIZES,
    coverage: Callable[[str, float, int], float] = lambda method, k, size: 0.95,
) -> pd.DataFrame:
    """Numbers of the simulation study whose MSE is a function of method, k and eps."""
    rows = []
    settings = [("network", np.nan, 0.0)]
    settings += [
        (place, k, 0.0) for place in simulation_study.LOCAL for k in (100.0, 500.0, 1000.0)
    ]
    settings += [(place, 1000.0, 0.5) for place in simulation_study.LOCAL]
    for size in sizes:
        for network in simulation_study.NETWORKS:
            for method, k, eps in settings:
                for seed in SEEDS:
                    shared = {"size": size, "network": network, "method": method, "k": k}
                    values = {
                        "mse_y": change(method, k, eps) * (1 + jitter(seed)),
                        "smis": (1.0 + (method == "network")) * (1 + jitter(seed)),
                        "coverage": coverage(method, k, size) - 0.03 * (method == "network"),
                    }
                    rows += [
                        {**shared, "eps": eps, "seed": seed, "metric": name, "value": value}
                        for name, value in values.items()
                    ]
    return pd.DataFrame(rows)


def test_claims_on_the_simulation() -> None:
    falls = {100.0: 3.0, 500.0: 2.0, 1000.0: 1.5}
    good = simulated(lambda method, k, eps: falls.get(k, 5.0) + 0.01 * (method == "output"))
    sentences = {"more_neighbours", "layer_no_influence", "layer_richer", "consistently"}
    assert all_are(p5.claims_by_size(good), True) == sentences
    bad = simulated(
        lambda method, k, eps: (
            1.0 if method == "network" else 6 - falls[k] - 0.5 * (method == "output") + 2 * eps
        )
    )
    assert all_are(p5.claims_by_size(bad), False, {"consistently": {True}}) == sentences


def test_layers_are_not_tested_without_the_largest_size() -> None:
    few = simulated(lambda method, k, eps: 2.0, simulation_study.SIZES[:2])
    assert "layer_no_influence" not in held(p5.claims_by_size(few))
    assert not [
        each for each in simulation_study.claims(few) if "reliable_by_size" in each.sentences
    ]


@pytest.mark.parametrize(("last", "holds"), [(0.949, True), (0.92, False)])
def test_reliability_is_tested_on_every_method_and_size(last: float, holds: bool) -> None:
    def coverage(method: str, k: float, size: int) -> float:
        value = (0.90, 0.93, 0.94)[simulation_study.SIZES.index(size)]
        return last if method == "input" and size == 100_000 else value

    frame = simulated(lambda method, k, eps: 2.0, coverage=coverage)
    texts = {
        each.text: each.holds
        for each in simulation_study.claims(frame)
        if each.sentences[0] == RELIABLE
    }
    assert texts[next(text for text in texts if "for each network and method" in text)] is holds
    assert texts[next(text for text in texts if "on average over methods" in text)] is True


def test_a_smaller_deviation_is_tested_against_chance() -> None:
    rng = np.random.default_rng(0)
    wide = pd.Series(rng.normal(size=40))
    assert simulation_study.smaller_deviation(0.3 * wide + 0.1 * rng.normal(size=40), wide) < 0.001
    assert simulation_study.smaller_deviation(wide + 0.01 * rng.normal(size=40), wide) > 0.05
    assert simulation_study.smaller_deviation(wide, 0.3 * wide + 0.1 * rng.normal(size=40)) > 0.99


def test_one_lucky_layer_of_many_is_not_richer() -> None:
    """A p-value that is small by itself is not small among twenty cases."""
    rng = np.random.default_rng(0)
    noise = {f"case {i}": pd.Series(rng.normal(size=5)) for i in range(20)}
    (claim,) = p5._claim_on_richer_layers(noise)
    assert not claim.holds and claim.sentences == ("layer_richer",)
    clear = noise | {"clear": pd.Series([1.0, 1.001, 0.999, 1.002, 0.998])}
    (claim,) = p5._claim_on_richer_layers(clear)
    assert claim.holds and "clear" in claim.measured
    assert not list(p5._claim_on_richer_layers({"equal": pd.Series([0.0, 0.0])}))
