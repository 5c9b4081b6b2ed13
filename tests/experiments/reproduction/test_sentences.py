"""What is asked of each paper's sentences, of numbers that are given: every claim can hold and can fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
import pytest
from scipy.special import log_softmax

from experiments.common.claims import Claim
from experiments.p1 import claims as p1
from experiments.p1 import scaling
from experiments.p1.cc18.records import Tables
from experiments.p1.figures import posteriors
from experiments.p2 import bandwidths as of_bandwidths
from experiments.p2 import claims as p2
from experiments.p2.mnist import claims as of_networks
from experiments.p2.mnist import ensembles as of_networks_scores
from experiments.p2.mnist.pool import Pool
from experiments.p3 import attack, trees
from experiments.p3 import claims as p3
from experiments.p3 import latents as of_latents
from experiments.p3.records import APHD, IN
from experiments.p3.size_labels import TABLES
from experiments.p4 import claims as p4
from experiments.p4 import finer
from experiments.p5 import bias, cost, low_x2, two_diamonds
from experiments.p5 import claims as p5
from experiments.p5.records import TRUTH

SEEDS = range(6)
Numbers = Mapping[tuple[str, str], float]


def jitter(seed: int) -> float:
    return 0.001 * (seed % 3)


def held(claims: Iterable[Claim]) -> dict[str, set[bool]]:
    """Sentence → verdicts of its parts."""
    found: dict[str, set[bool]] = {}
    for claim in claims:
        assert claim.text and claim.found
        for name in claim.of:
            found.setdefault(name, set()).add(claim.holds)
    return found


def all_are(claims: Iterable[Claim], holds: bool, but: Mapping[str, set[bool]] | None = None) -> set[str]:
    """Each sentence has parts that all hold, or all fail, but for those that are named; returns the sentences."""
    found = held(claims)
    assert found == {name: {holds} for name in found} | dict(but or {})
    return set(found)


def by_seed(numbers: Numbers) -> pd.DataFrame:
    """As :func:`experiments.p5.records.frame_of` has it: of (method, metric) → value."""
    rows = [(*key, seed, value * (1 + jitter(seed))) for key, value in numbers.items() for seed in SEEDS]
    return pd.DataFrame(rows, columns=["method", "metric", "seed", "value"])


def test_the_line_of_torres_et_al() -> None:
    def line(local: tuple[float, float, float, float], gap: float) -> pd.DataFrame:
        metrics = ("mse_mean", "smis", "coverage", "worst_cell_gap")
        both = {"linear": (14000.0, 2.7, 0.93, 0.2), p5.of_table1.LOCAL: local, "global_pit": (14000.0, 2.7, 0.949, gap)}
        return by_seed({(name, metric): value for name, values in both.items() for metric, value in zip(metrics, values, strict=True)})

    sentences = {"improved", "well_covered_parent", "even_and_narrow", "local_mean_variance", "global_not_local"}
    assert all_are(p5.of_line(line((200, 2.0, 0.949, 0.03), 0.15)), True) == sentences
    assert all_are(p5.of_line(line((15000, 3.0, 0.90, 0.3), 0.02)), False) == sentences


def test_neighbours_and_bias_of_torres_et_al() -> None:
    def parts(bias_of: Mapping[int, float], variance_of: Mapping[int, float]) -> dict[int, pd.DataFrame]:
        by_k = {k: pd.DataFrame({"bias": [bias_of[k] + jitter(seed) for seed in SEEDS]}) for k in bias_of}
        found = {k: frame.assign(variance=[variance_of[k] - jitter(seed) for seed in SEEDS]) for k, frame in by_k.items()}
        return {k: frame.assign(mse=frame.bias + frame.variance) for k, frame in found.items()}

    low, high = {250: 1.0, 500: 2.0, 1000: 8.0}, {250: 9.0, 500: 2.0, 1000: 1.0}
    assert all_are(bias.of_k(parts(low, high)), True) == {"small_k"}
    assert all_are(bias.of_k(parts(high, low)), False, {"small_k": {True, False}}) == {"small_k"}  # the sum is least in between as before
    assert [one.holds for one in bias.of_k(parts(low, low))][-1] is False


def test_squared_bias_and_variance_are_told_apart() -> None:
    rng = np.random.default_rng(0)
    found = bias.split_error(np.array([3.0, -1.0]) + 2 * rng.normal(size=(4000, 2)))
    error = found.sem()
    assert abs(found.bias.mean() - 5) < 4 * error.bias and abs(found.variance.mean() - 4) < 4 * error.variance
    few = bias.split_error(np.array([[1.0], [2.0], [4.0]]))
    assert few.bias.mean() == pytest.approx((1 * 2 + 1 * 4 + 2 * 4) / 3)
    assert few.variance.mean() == pytest.approx(np.var([1.0, 2.0, 4.0], ddof=1))


def test_two_biases_of_torres_et_al() -> None:
    def cells(low: float, high: float, truth: tuple[float, float]) -> pd.DataFrame:
        rows = [
            {"seed": seed, "cell": cell, "variance": value, "error": 0.001, "line": 1.0, "truth": true}
            for seed in SEEDS
            for cell, value, true in ((0, low, truth[0]), (1, high, truth[1]))
        ]
        return pd.DataFrame(rows)

    assert all_are(bias.of_cells(cells(0.05, 0.12, (0.5, 2.0))), True) == {"two_biases"}
    assert all_are(bias.of_cells(cells(0.05, 0.06, (2.0, 2.0))), False) == {"two_biases"}
    assert [one.holds for one in bias.of_cells(cells(1 / 12, 1 / 12, (1.0, 1.0)))] == [False, False]


def test_the_networks_of_torres_et_al() -> None:
    metrics = ("mse_y", "mse_mean", "smis", "coverage", "worst_cell_gap")

    def networks(**rows: tuple[float, ...]) -> list[Claim]:
        numbers = {(name, metric): value for name, values in rows.items() for metric, value in zip(metrics, values, strict=True)}
        return list(p5.of_networks(by_seed(numbers)))

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
        wsir=(320, 200, 0.8, 0.96, 0.2), mc_dropout=(310, 210, 0.7, 0.93, 0.2), wsir_local_radius=bad, mc_dropout_local_radius=bad, **truth
    )
    assert all_are(good, True, {"improved": {True, False}}) == all_are(worse, False)
    assert not networks(wsir=(1, 1, 1, 1, 1))


def test_low_predictions_of_torres_et_al() -> None:
    def means(before: float, after: float) -> pd.DataFrame:
        rows = [{"method": name, "units": 256, "seed": seed} for name in ("wsir", "mc_dropout") for seed in SEEDS]
        return pd.DataFrame(rows).assign(before=before, after=after, truth=10.0)

    assert all_are(low_x2.claims(means(12, 11)), True) == all_are(low_x2.claims(means(9, 9.5)), False) == {"overestimated_low"}


def test_two_diamonds_of_torres_et_al() -> None:
    def splits(mean: float, sd: float, skewness: float, distance: float, narrower: float) -> pd.DataFrame:
        before = {"mean_before": 4000.0, "sd_before": 400.0, "skewness_before": 0.2, "distance_before": 2.0}
        after = {"mean_after": mean, "sd_after": sd, "skewness_after": skewness, "distance_after": distance, "narrower": narrower}
        rows = [{"seed": seed, "price": price, "share": 0.1, **before, **after} for price in (4113.0, 18026.0) for seed in SEEDS]
        return pd.DataFrame(rows).assign(distance_after=lambda f: f.distance_after + f.seed.map(jitter))

    sentences = {"two_diamonds", "uniform_near"}
    assert all_are(two_diamonds.claims(splits(4100, 300, 0.8, 1.0, 0.7)), True) == sentences
    assert all_are(two_diamonds.claims(splits(4010, 500, 0.21, 3.0, 0.4)), False) == sentences


def test_what_local_recalibration_costs_as_torres_et_al_say() -> None:
    def seconds(mse: float, fit: float, growing: float, by_k: float, by_eps: float, by_width: float) -> pd.DataFrame:
        rows = []
        for seed in SEEDS:
            for step, size in enumerate(cost.SIZES):
                small = {"size": size, "seed": seed, "network": "small", "place": "", "k": 0, "eps": 0.0}
                more = 1 + jitter(seed)
                rows += [{**small, "what": "mse", "value": mse**step * more}, {**small, "what": "training", "value": 10.0}]
                rows += [{**small, "what": "predicting", "value": 0.1}]
                for place in cost.TREE:
                    for k in cost.KS:
                        here = {**small, "place": place, "k": k}
                        rows += [{**here, "what": "recalibrating", "value": fit * growing**step * more}]
                        rows += [{**here, "what": "predicting", "value": 0.15 + by_k * k * more}]
                    for eps in cost.EPS:
                        rows += [{**small, "what": "predicting", "place": place, "k": 1000, "eps": eps, "value": by_eps * more}]
            big = {"seed": seed, "network": "big", "eps": 0.0}
            rows += [{**big, "size": 10_000, "what": "mse", "place": "", "k": 0, "value": 0.5}]
            for step, place in enumerate(cost.UNITS):
                value = by_width**step * (1 + jitter(seed))
                rows += [{**big, "size": 100_000, "what": "predicting", "place": place, "k": 1000, "value": value}]
        return pd.DataFrame(rows)

    sentences = {"small_capacity", "training_time", "prediction_time", "time_by_k"}
    assert all_are(cost.claims(seconds(0.99, 0.1, 0.9, 0.001, 0.3, 0.5)), True) == sentences
    assert all_are(cost.claims(seconds(0.5, 1.0, 1.1, -0.0001, 0.3, 2.0)), False) == sentences


@pytest.mark.slow
def test_seconds_are_measured_of_every_setting_by_turns() -> None:
    frame = cost.measured((1000, 2000), 2)
    assert (frame.value > 0).all() and len(frame) == 2 * (2 * (2 + 10 + 11) + 4)
    assert {"small_capacity", "training_time", "prediction_time", "time_by_k"} == set(held(cost.claims(frame)))


def test_the_simulation_of_torres_et_al() -> None:
    def study(change: Callable[[str, float], float]) -> pd.DataFrame:
        rows = []
        for network in ("small", "big"):
            for method in ("network", "input", "6", "8", "output"):
                for k in (100.0, 500.0, 1000.0) if method != "network" else (np.nan,):
                    for seed in SEEDS:
                        shared = {"size": 10_000, "network": network, "method": method, "k": k, "eps": 0.0, "seed": seed}
                        values = {
                            "mse_y": change(method, k),
                            "smis": 1.0 + (method == "network"),
                            "coverage": 0.95 - 0.03 * (method == "network"),
                        }
                        rows += [{**shared, "metric": name, "value": value * (1 + jitter(seed))} for name, value in values.items()]
        return pd.DataFrame(rows)

    falls = {100.0: 3.0, 500.0: 2.0, 1000.0: 1.5}
    good = study(lambda method, k: falls.get(k, 5.0) + 0.0001 * (method == "output"))
    sentences = {"more_neighbours", "layer_no_influence", "layer_richer", "consistently"}
    assert all_are(p5.of_sizes(good), True) == sentences
    bad = study(lambda method, k: 1.0 if method == "network" else 6 - falls[k] - 0.5 * (method == "output"))
    assert all_are(p5.of_sizes(bad), False, {"consistently": {True}}) == sentences


def setting(lore: float) -> pd.DataFrame:
    """Every error of LoRe by itself, of all other methods about 1, which the largest error of a group follows with MLCE alone."""
    rng, rows = np.random.default_rng(0), []
    methods = [*p4.GLOBAL, *p4.BY_GROUP, *(f"lore_{one}{end}" for one in p4.MAPS for end in p4.READINGS)]
    metrics = ["ece", "mce", "nll_top", "brier_top", "lce_tsne", "lce_pca", *(f"mlce_{one}{end}" for one in p4.MAPS for end in p4.READINGS)]
    for method in methods:
        for seed in range(12):
            worst = (lore if method.startswith("lore") else 1.0) * (1 + 0.05 * rng.normal())
            noise = {metric: (lore if method.startswith("lore") else 1.0) * (1 + 0.3 * rng.normal()) for metric in metrics[:4]}
            local = {metric: worst * (1 + 0.001 * rng.normal()) for metric in metrics[4:]}
            rows += [{"method": method, "seed": seed, "metric": m, "value": v} for m, v in {"group_mce": worst, **noise, **local}.items()]
    return pd.DataFrame(rows)


def test_a_setting_of_luo_et_al(monkeypatch) -> None:
    monkeypatch.setattr(p4, "DRAWS", 40)
    best, worst = held(p4.of_setting(setting(0.3), 0.1)), held(p4.of_setting(setting(3.0), 0.1))
    assert set(best) == set(worst) and len(best) == 12
    correlated = {"mlce_foretells", "lower_lce_lower_cost"}
    assert all(best[name] == {True} for name in best.keys() - correlated), best
    assert all(worst[name] == {False} for name in worst.keys() - correlated), worst
    assert best["lower_lce_lower_cost"] == {True}
    apart = setting(0.3).assign(value=lambda f: np.where(f.metric.str.startswith("mlce"), 1 / f.value, f.value))
    assert held(p4.of_setting(apart, 0.1))["lower_lce_lower_cost"] == {False} == held(p4.of_setting(apart, 0.1))["mlce_foretells"]


def test_decisions_of_luo_et_al() -> None:
    def scores(reward: float, ece: float) -> pd.DataFrame:
        values = {"reward": reward, "prr": reward, "ece": ece, "nll": ece, "brier": ece}
        rows = [("lore_tsne_02", name, value) for name, value in values.items()] + [("none", name, 0.5) for name in values]
        return pd.DataFrame([{"method": m, "metric": n, "seed": s, "value": v + jitter(s)} for m, n, v in rows for s in SEEDS])

    assert held(p4.of_decisions(scores(0.9, 0.1).assign(value=lambda f: f.value + 1e-4 * f.seed * f.method.eq("none")), "x", 0.1)) == {
        "highest_reward": {True}, "best_prr_and_global": {True},
    }  # fmt: skip
    assert held(p4.of_decisions(scores(0.1, 0.9), "x", 0.1)) == {"highest_reward": {False}, "best_prr_and_global": {False}}


def test_bins_of_equal_mass_of_luo_et_al() -> None:
    def bins(mass: Mapping[str, float]) -> pd.DataFrame:
        width = {"none": 0.4, "temperature": 0.3, "histogram": 0.2, "lore_tsne": 0.1}
        rows = [
            {"method": method, "seed": seed, "metric": metric + end, "value": value + jitter(seed)}
            for metric in ("ece", "mce", "group_mce")
            for end, values in (("", width), ("_mass", mass))
            for method, value in values.items()
            for seed in SEEDS
        ]
        return pd.DataFrame(rows)

    alike = {"none": 0.42, "temperature": 0.29, "histogram": 0.2, "lore_tsne": 0.105}
    assert all_are(p4.of_bins(bins(alike)), True) == {"equal_mass_alike"}
    assert all_are(p4.of_bins(bins(dict(zip(alike, [0.1, 0.2, 0.3, 0.4], strict=True)))), False) == {"equal_mass_alike"}


def test_local_errors_beside_drawn_and_true_ones() -> None:
    shared = {"network": "60 epochs", "space": "PCA"}

    def drawn(by_chance: float) -> pd.DataFrame:
        return pd.DataFrame(
            {**shared, "seed": s, "outcomes": 0.05 + jitter(s), "accuracy": by_chance, "shifted": by_chance} for s in SEEDS for s in SEEDS
        )

    def true(local: float, correlation: float) -> pd.DataFrame:
        of = {"parent": "forest", "simulation": "spiral", "bin": 0.1, "correlation": correlation}
        return pd.DataFrame({**of, "seed": s, "local": local + jitter(s)} for s in SEEDS)

    assert all_are([*finer.of_crime(drawn(0.02)), *finer.of_truth(true(0.05, 0.5))], True) == {"finer_than_ece"}
    assert all_are([*finer.of_crime(drawn(0.08)), *finer.of_truth(true(0.2, -0.1))], False) == {"finer_than_ece"}


def test_a_bin_that_is_right_on_one_side_only_is_found_and_a_drawn_one_is_not() -> None:
    rng = np.random.default_rng(0)
    X, confidence = rng.normal(size=(1000, 2)), np.full(1000, 0.75)
    one_sided = X[:, 0] > -0.67
    by_chance = rng.random(1000) < finer.chances(confidence, one_sided)["shifted"]
    assert finer.excess(confidence, one_sided, X, 0.2) > 5 * finer.excess(confidence, by_chance, X, 0.2)
    found = finer.near_to(confidence - one_sided, confidence, one_sided, X)
    assert found["local"] < found["bin"] and found["correlation"] > 0.5


def detected(given: float, shuffled: float, other: float, aphd: tuple[float, float]) -> pd.DataFrame:
    """Of newsgroups: AUROC of three methods on one set, and mean APHD in and out of distribution."""
    shared = {"dataset": "newsgroups_sports", "rows": "98 training rows, 42 calibration rows", "seed": 0}
    rows = [
        {**shared, "method": m, "set": "movies", "metric": "auroc", "value": v}
        for m, v in (("tood_given", given), ("tood_shuffled", shuffled), ("msp", other))
    ]
    rows += [
        {**shared, "method": "tood_given", "set": name, "metric": APHD, "value": v} for name, v in zip((IN, "movies"), aphd, strict=True)
    ]
    return pd.DataFrame(rows)


def test_sets_of_tood() -> None:
    titles = {"newsgroups_sports": "sports"}
    good, bad = detected(0.9, 0.91, 0.6, (0.99, 0.9)), detected(0.6, 0.5, 0.9, (0.9, 0.99))
    sentences = {"outperforms", "comparable", "concluding", "labels_carry_little", "labels_shuffled", "unsupervised", "id_larger"}
    assert all_are(p3.of_sets(good, titles), True) == all_are(p3.of_sets(bad, titles), False) == sentences
    shuffling_helps = held(p3.of_sets(detected(0.5, 0.9, 0.4, (0.99, 0.9)), titles))
    assert shuffling_helps["labels_carry_little"] == {False} and shuffling_helps["labels_shuffled"] == {True}
    assert [one.holds for frame in (good, bad) for one in p3.by_a_large_margin(frame)] == [True, False]
    assert not list(p3.of_sets(pd.DataFrame(), titles))


def test_curves_of_tood_with_shuffled_labels() -> None:
    def curves(off: float) -> pd.DataFrame:
        rows = [
            {"dataset": "digits", "method": method, "set": name, "rows": n, "metric": APHD, "value": v + off * (method == "tood_shuffled")}
            for method in p3.BOTH
            for name, values in ((IN, (0.7, 0.9)), ("uniform", (0.5, 0.6)))
            for n, v in zip((50, 800), values, strict=True)
        ]
        return pd.DataFrame(rows)

    assert [one.holds for off in (0.01, 0.2) for one in p3.alike(curves(off), TABLES)] == [True, False]


def plane(geodesic: float, far: float) -> pd.DataFrame:
    rows = []
    for seed in range(3):
        shared = {"dataset": "spiral", "parent": "random_forest", "n_train": 1000, "seed": seed}
        for model, value in (("parent", 0.2), ("geodesic", geodesic), ("euclidean", 0.19)):
            rows += [
                {**shared, "model": model, "on": on, "metric": metric, "at": np.nan, "value": value}
                for on, metric in (("test", "error"), ("grid", "hellinger"))
            ]
        rows += [{**shared, "model": "geodesic", "on": "ood", "metric": "mmc", "at": at, "value": 0.5 + far * at} for at in (5.0, 10.0)]
    return pd.DataFrame(rows)


def test_the_plane_of_dey_et_al() -> None:
    good, bad = plane(0.1, 1e-4), plane(0.3, 0.01)
    assert (
        all_are(p1.of_plane(good), True)
        == all_are(p1.of_plane(bad), False)
        == {"fig1_accuracy", "fig1_hellinger", "fig1_geodesic", "intro"}
    )
    assert all_are(p1.of_far_rows(good), True) == all_are(p1.of_far_rows(bad), False) == {"fig1_prior", "intro"}


def test_trunk_of_dey_et_al() -> None:
    def trunk(geodesic: tuple[float, float], euclidean: tuple[float, float]) -> pd.DataFrame:
        shared = {"parent": "mlp", "variant": "reference", "on": "test", "n_train": 1000}
        rows = [
            {**shared, "model": model, "n_dims": n_dims, "metric": metric, "seed": seed, "value": value + jitter(seed) * n_dims / 100}
            for model, values in (("geodesic", geodesic), ("euclidean", euclidean))
            for n_dims, value in zip((2, 10, 100), (9.0, *values), strict=True)
            for metric in ("error", "hellinger")
            for seed in SEEDS
        ]
        return pd.DataFrame(rows)

    assert all_are(p1.of_trunk(trunk((0.2, 0.1), (0.3, 0.35))), True) == {"fig1_trunk"}
    assert all_are(p1.of_trunk(trunk((0.3, 0.35), (0.2, 0.1))), False) == {"fig1_trunk"}
    assert not list(p1.of_trunk(trunk((0.2, 0.1), (0.3, 0.35)).query("model == 'geodesic'")))
    assert not list(p1.of_trunk(pd.DataFrame()))


@pytest.mark.parametrize(("model", "holds"), [(0.05, True), (0.3, False)])
def test_maps_of_dey_et_al(model, holds) -> None:
    rows = [
        {
            "dataset": dataset,
            "parent": parent,
            "variant": "kdgraph",
            "seed": s,
            "part": part,
            "of_model": model + jitter(s),
            "of_parent": 0.2,
        }
        for dataset in ("spiral", "circle")
        for parent in posteriors.METHODS
        for part in posteriors.PARTS
        for s in SEEDS
    ]
    assert all_are(posteriors.claims(pd.DataFrame(rows)), holds) == {"fig4"}


def test_what_fewer_polytopes_and_an_encoder_save() -> None:
    def pruned(factor: float, cost: float) -> pd.DataFrame:
        shared = {"method": "KDF", "simulation": "spiral"}
        both = {"all": (0.1, 0.05, 4.0, 2.0), "tenth": (0.1 + cost, 0.05 + cost, 4.0 * factor, 2.0 * factor)}
        columns = ("error", "ECE", "fit", "predict")
        rows = [
            {**shared, "kept": kept, "seed": s, **{name: value + jitter(s) for name, value in zip(columns, values, strict=True)}}
            for kept, values in both.items()
            for s in SEEDS
        ]
        return pd.DataFrame(rows)

    def behind(power: float) -> pd.DataFrame:
        seconds = {"pixels": lambda n: n / 1000, "embedding": lambda n: 0.5 * (n / 1000) ** power * (1 if power < 1 else 4)}
        rows = [
            {"rows": n, "seed": s, "place": place, "fit": of(n) * (1 + jitter(s)), "predict": of(n) * (1 + jitter(s))}
            for place, of in seconds.items()
            for n in scaling.IMAGES
            for s in SEEDS
        ]
        return pd.DataFrame(rows)

    assert all_are([*scaling.of_pruning(pruned(0.5, 0.001)), *scaling.of_encoder(behind(0.5))], True) == {"pruning", "encoder_scales"}
    assert all_are([*scaling.of_pruning(pruned(1.5, 0.02)), *scaling.of_encoder(behind(2.0))], False) == {"pruning", "encoder_scales"}


def many(ours: tuple[float, float, float], others: tuple[float, float, float]) -> Tables:
    """Ten tables with the parent's error, ECE and OCE at .2, .1 and .3."""
    rng = np.random.default_rng(0)
    values = {"parent": (0.2, 0.1, 0.3), "kdf": ours, "isotonic": others, "sigmoid": others}
    rows = [
        {"dataset": f"t{i}", "method": method, "seed": 0, "error": e, "ece_by_edges": c, "oce@5": o * (1 + 1e-3 * rng.random())}
        for i in range(10)
        for method, (e, c, o) in values.items()
    ]
    return Tables("random_forest", pd.DataFrame(rows).set_index(["dataset", "method", "seed"]), {f"t{i}": 100 for i in range(10)}, {}, {})


def test_many_tables_of_dey_et_al() -> None:
    good = held(p1.of_tables(many((0.19, 0.05, 0.02), (0.21, 0.05, 0.3))))
    assert set(good) == {
        "fig2_error",
        "abstract",
        "intro",
        "forest_uncalibrated",
        "fig2_oce",
        "id_methods_id",
        "fig2_id_error",
        "id_methods_ood",
        "fig2_ece",
    }
    assert all(verdicts == {True} for verdicts in good.values()), good
    bad = held(p1.of_tables(many((0.25, 0.2, 0.4), (0.1, 0.15, 0.05))))
    assert all(verdicts == {False} for name, verdicts in bad.items() if name != "forest_uncalibrated"), bad
    assert bad["forest_uncalibrated"] == {True, False}  # the forest itself is as it was


@pytest.mark.parametrize(("ours", "parent", "holds"), [(0.6, 0.95, True), (0.9, 0.5, False)])
def test_shifts_of_dey_et_al(ours, parent, holds, monkeypatch, tmp_path) -> None:
    rows = [
        {"on": "ood", "metric": "mmc", "ood": "size", "param": "size", "model": model, "at": at, "id": at == 1.0, "seed": 0, "value": value}
        for model, inside, outside in (("kdn", 0.8, ours), ("parent", 0.99, parent))
        for at, value in ((1.0, inside), (2.0, outside))
    ]
    monkeypatch.setattr(p1, "runs_of", lambda *_: [])
    monkeypatch.setattr(p1, "numbers_of", lambda _: pd.DataFrame(rows))
    assert held(p1.shapes(tmp_path)) == {"fig3": {holds}}


def test_score_records_of_salamon_et_al() -> None:
    def splits(**means: float) -> pd.DataFrame:
        return pd.DataFrame({name: [value * (1 + jitter(seed)) for seed in SEEDS] for name, value in means.items()})

    good = splits(histogram=0.1, csts=0.2, tswa=0.19, kde=0.2, sts=0.3, temperature=0.4, isotonic=0.4, none=0.5)
    bad = splits(histogram=0.9, csts=0.6, tswa=0.7, kde=0.6, sts=0.5, temperature=0.4, isotonic=0.4, none=0.3)
    sentences = {
        "top_label",
        "binary_loss_better",
        "csts_competitive",
        "awards_beat_csts",
        "always_calibrate",
        "cannot_hurt",
        "histograms_among_lowest",
    }
    assert all_are(p2.of_scores(good, good, "scores", 0.1), True) == all_are(p2.of_scores(bad, bad, "scores", 0.1), False) == sentences


def halves(**changed: float) -> pd.DataFrame:
    """What fits on six halves of a record found, so that every claim holds but for what is changed: ``fit column`` → value."""
    nll = {of_bandwidths.PRECISION: 0.5, of_bandwidths.ALL_ROWS: 0.4}
    rows = []
    for method in [*nll, *(f"{b}{end}" for b in (*of_bandwidths.FIXED, of_bandwidths.RULE) for end in ("", f" {of_bandwidths.REFLECTED}"))]:
        values = {"nll": nll.get(method, 0.3), "moved": 0.001, "most": 0.1, "curves": 9, "classes": 9, "bandwidth": 0.04}
        values |= {key.split("/")[1]: value for key, value in changed.items() if key.split("/")[0] == method}
        rows += [{"seed": seed, "method": method, **values, "nll": values["nll"] + jitter(seed)} for seed in SEEDS]
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
def test_kernel_densities_of_salamon_et_al(changed, fails) -> None:
    sentences = {"bulletproof_bandwidth", "boundary", "only_positives"}
    told = list(of_bandwidths.claims("scores", halves(**changed)))
    assert all_are(told, True, fails) == sentences
    assert {one.text for one in told} == {one.text for one in of_bandwidths.claims("scores", halves())}
    without = halves().query("method != @of_bandwidths.ALL_ROWS")
    assert all_are(of_bandwidths.claims("PhANNs", without), True) == sentences - {"only_positives"}


def test_fully_trained_ensembles_of_salamon_et_al() -> None:
    def measured(**nll: float) -> pd.DataFrame:
        values = {"STS": 0.1, "CSTS": 0.097, "TSwA": 0.103, "Conf1": 0.11, "KDE(b_mon)": 0.11, "CwOC": 0.1} | nll
        shared = {"ensemble": 0, "metric": "NLL", "test_set": "2"}
        return pd.DataFrame([{**shared, "method": m, "class": k, "value": v} for m, v in values.items() for k in ("all", "0", "1")])

    sentences = {"fully_trained", "moot_if_saturated"}
    assert all_are(of_networks.of_fully_trained(measured(), 0.99), True) == sentences
    worse = measured(**{"KDE(b_mon)": 0.12, "CwOC": 0.111, "TSwA": 0.094})
    assert all_are(of_networks.of_fully_trained(worse, 0.99), False) == sentences
    one_class = measured().assign(value=lambda f: f.value.where((f.method != "CSTS") | (f["class"] != "1"), 0.05))
    assert held(of_networks.of_fully_trained(one_class, 0.99))["moot_if_saturated"] == {True, False}


def test_figures_of_salamon_et_al_on_mnist(tmp_path) -> None:
    """Networks that say the class by chance, and are right as often on both sets or less often on one of them."""

    def pool(right: tuple[float, float]) -> Pool:
        rng = np.random.default_rng(0)
        labels, log_proba = {}, {}
        for name, share in zip(("1", "2"), right, strict=True):
            predicted = np.repeat(np.arange(10), 300)
            signal = 6 * rng.random((3000, 1)) * np.eye(10)[predicted]
            log_proba[name] = np.repeat(log_softmax(signal, axis=1)[None], 20, axis=0)
            labels[name] = np.where(rng.random(3000) < share, predicted, (predicted + 1) % 10)
        return Pool(tmp_path, log_proba, labels)

    alike, apart = (held(of_networks_scores.of_ensembles(pool(right), 2, "mean")) for right in ((0.7, 0.7), (0.7, 0.6)))
    assert alike["noise_of_histograms"] == {True} and apart["noise_of_histograms"] == {False}
    assert [held([of_networks_scores.alike(pd.DataFrame([{"0": a, "1": 0.01}] * 3))]) for a in (0.01, 0.06)] == [
        {"two_rules_alike_on_mnist": {True}}, {"two_rules_alike_on_mnist": {False}},
    ]  # fmt: skip
    assert set(alike) == {"noise_of_histograms", "two_rules_alike_on_mnist"}


def grown(other: float, few: float, shuffled_error: float, seconds: float) -> pd.DataFrame:
    """AUROC of TOOD with other trees, with default ones .95, and in sets of five rows; an error, and seconds beside a network's 2."""
    rows = []
    for seed in SEEDS:
        known = {"dataset": "digits", "seed": seed, "share": 0.3, "rows": 800, "size": 100, "set": "uniform", "metric": "auroc"}
        for labels, error in (("given", 0.1), ("shuffled", shuffled_error)):
            about = {**known, "labels": labels}
            rows += [
                {**about, "setting": name, "value": (0.95 if name == trees.DEFAULT else other) + jitter(seed)}
                for name in (*trees.SETTINGS, trees.FOREST)
            ]
            for n, value in ((800, few), (50, 0.9 if few > 0.9 else few + 0.05)):
                rows.append({**about, "setting": trees.DEFAULT, "size": 5, "rows": n, "value": value + jitter(seed)})
            rows.append({**about, "setting": trees.DEFAULT, "set": "", "metric": "error", "value": error + jitter(seed)})
        for name, value in (("tood", seconds), ("network", 2.0)):
            rows.append({**known, "labels": "given", "setting": name, "set": "", "metric": "seconds", "value": value + jitter(seed)})
    return pd.DataFrame(rows)


def test_trees_of_tood() -> None:
    sentences = {"hyperparameters", "forest_alike", "little_tuning", "few_test_rows", "shuffled_classifies_worse", "faster"}
    assert all_are(trees.claims(grown(0.94, 0.93, 0.9, 1.0)), True) == sentences
    assert all_are(trees.claims(grown(1.05, 0.7, 0.05, 3.0)), False) == sentences
    only_worse = held(trees.claims(grown(0.5, 0.93, 0.9, 1.0)))
    assert only_worse["hyperparameters"] == {False} and only_worse["little_tuning"] == {True}, "tuning need not find what is worse"


def test_a_set_that_is_not_told_apart_says_nothing_of_few_rows() -> None:
    frame = grown(0.94, 0.3, 0.9, 1.0).assign(value=lambda f: f.value.where(f.metric != "auroc", 0.4 + 0.001 * f["rows"] / 800))
    assert not [one for one in trees.claims(frame) if "at most .05 below that in sets" in one.text]


def test_latents_of_tood() -> None:
    def images(latents: float, seconds: float) -> pd.DataFrame:
        rows = []
        for seed in SEEDS:
            known = {"dataset": "MNIST", "seed": seed, "labels": "given", "set": "uniform", "metric": "auroc"}
            rows += [
                {**known, "setting": name, "value": v + jitter(seed) * (v - 0.5)} for name, v in (("latents", latents), ("pixels", 0.8))
            ]
            rows += [
                {**known, "setting": name, "set": "", "metric": "seconds", "value": v + jitter(seed)}
                for name, v in (("tood", seconds), ("network", 2.0))
            ]
        return pd.DataFrame(rows)

    assert all_are(of_latents.claims(images(0.9, 1.0)), True) == {"latents_help", "faster"}
    assert all_are(of_latents.claims(images(0.7, 3.0)), False) == {"latents_help", "faster"}


def attacked(tood: float, network: float, at_first: float = 0.9) -> pd.DataFrame:
    """AUROC falls by so much at 8/255, up or down the loss."""
    shared = {"dataset": "CIFAR-10", "set": "svhn"}
    falls = {(name, ""): tood for name in attack.TOOD}
    falls |= {(name, which): network for name in attack.NETWORK for which in (attack.ATTACKED, attack.ANOTHER)}
    rows = [
        {**shared, "seed": seed, "method": name, "network": which, "step": step, "value": at_first - fall * abs(step) / 8}
        for (name, which), fall in falls.items()
        for seed in SEEDS
        for step in (-8, -4, -2, 0, 2, 4, 8)
    ]
    return pd.DataFrame(rows).assign(value=lambda f: f.value + f.step.ne(0) * f.seed.map(jitter) * f.method.isin(attack.TOOD))


def test_images_that_are_moved_against_a_network() -> None:
    assert all_are(attack.claims(attacked(0.02, 0.3)), True) == all_are(attack.claims(attacked(0.2, 0.1)), False) == {"fgsm", "robust"}
    assert set(held(attack.claims(attacked(0.02, 0.3, at_first=0.5)))) == {"robust"}, "what was not told apart has nothing to lose"
