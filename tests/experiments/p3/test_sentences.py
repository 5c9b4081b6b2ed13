"""Tests of the sentences of the paper on TOOD on example numbers: every claim can
hold and can fail.
"""

from __future__ import annotations

import pandas as pd

from experiments.p3 import attack, trees
from experiments.p3 import claims as p3
from experiments.p3 import latents as latents_study
from experiments.p3.records import APHD, IN
from experiments.p3.size_labels import TABLES
from tests.experiments.sentences import SEEDS, all_are, held, jitter


def detected(
    given: float, shuffled: float, other: float, aphd: tuple[float, float]
) -> pd.DataFrame:
    """Of newsgroups: AUROC of three methods on one set, and mean APHD in and out of
    distribution.
    """
    shared = {
        "dataset": "newsgroups_sports",
        "rows": "98 training rows, 42 calibration rows",
        "seed": 0,
    }
    rows = [
        {**shared, "method": m, "set": "movies", "metric": "auroc", "value": v}
        for m, v in (("tood_given", given), ("tood_shuffled", shuffled), ("msp", other))
    ]
    rows += [
        {**shared, "method": "tood_given", "set": name, "metric": APHD, "value": v}
        for name, v in zip((IN, "movies"), aphd, strict=True)
    ]
    return pd.DataFrame(rows)


def test_claims_on_sets() -> None:
    titles = {"newsgroups_sports": "sports"}
    good, bad = detected(0.9, 0.91, 0.6, (0.99, 0.9)), detected(0.6, 0.5, 0.9, (0.9, 0.99))
    sentences = {
        "outperforms",
        "comparable",
        "concluding",
        "labels_carry_little",
        "labels_shuffled",
        "unsupervised",
        "id_larger",
    }
    assert (
        all_are(p3.claims_on_sets(good, titles), True)
        == all_are(p3.claims_on_sets(bad, titles), False)
        == sentences
    )
    shuffling_helps = held(p3.claims_on_sets(detected(0.5, 0.9, 0.4, (0.99, 0.9)), titles))
    assert shuffling_helps["labels_carry_little"] == {False} and shuffling_helps[
        "labels_shuffled"
    ] == {True}
    assert [each.holds for frame in (good, bad) for each in p3.by_a_large_margin(frame)] == [
        True,
        False,
    ]
    assert not list(p3.claims_on_sets(pd.DataFrame(), titles))


def test_claims_on_curves_with_shuffled_labels() -> None:
    def curves(off: float) -> pd.DataFrame:
        rows = [
            {
                "dataset": "digits",
                "method": method,
                "set": name,
                "rows": n,
                "metric": APHD,
                "value": v + off * (method == "tood_shuffled"),
            }
            for method in p3.BOTH
            for name, values in ((IN, (0.7, 0.9)), ("uniform", (0.5, 0.6)))
            for n, v in zip((50, 800), values, strict=True)
        ]
        return pd.DataFrame(rows)

    assert [
        each.holds for off in (0.01, 0.2) for each in p3.claims_on_curves(curves(off), TABLES)
    ] == [
        True,
        False,
    ]


def grown(other: float, few: float, shuffled_error: float, seconds: float) -> pd.DataFrame:
    """AUROC of TOOD with other trees, with default ones .95, and in sets of five rows; an error,
    and seconds beside a network's 2.
    """
    rows = []
    for seed in SEEDS:
        known = {
            "dataset": "digits",
            "seed": seed,
            "share": 0.3,
            "rows": 800,
            "size": 100,
            "set": "uniform",
            "metric": "auroc",
        }
        for labels, error in (("given", 0.1), ("shuffled", shuffled_error)):
            about = {**known, "labels": labels}
            rows += [
                {
                    **about,
                    "setting": name,
                    "value": (0.95 if name == trees.DEFAULT else other) + jitter(seed),
                }
                for name in (*trees.SETTINGS, trees.FOREST)
            ]
            for n, value in ((800, few), (50, 0.9 if few > 0.9 else few + 0.05)):
                rows.append(
                    {
                        **about,
                        "setting": trees.DEFAULT,
                        "size": 5,
                        "rows": n,
                        "value": value + jitter(seed),
                    }
                )
            rows.append(
                {
                    **about,
                    "setting": trees.DEFAULT,
                    "set": "",
                    "metric": "error",
                    "value": error + jitter(seed),
                }
            )
        for name, value in (("tood", seconds), ("network", 2.0)):
            rows.append(
                {
                    **known,
                    "labels": "given",
                    "setting": name,
                    "set": "",
                    "metric": "seconds",
                    "value": value + jitter(seed),
                }
            )
    return pd.DataFrame(rows)


def test_claims_on_trees() -> None:
    sentences = {
        "hyperparameters",
        "forest_alike",
        "little_tuning",
        "few_test_rows",
        "shuffled_classifies_worse",
        "faster",
    }
    assert all_are(trees.claims(grown(0.94, 0.93, 0.9, 1.0)), True) == sentences
    assert all_are(trees.claims(grown(1.05, 0.7, 0.05, 3.0)), False) == sentences
    only_worse = held(trees.claims(grown(0.5, 0.93, 0.9, 1.0)))
    assert only_worse["hyperparameters"] == {False} and only_worse["little_tuning"] == {True}, (
        "tuning need not find what is worse"
    )


def test_a_set_that_is_not_separated_has_no_claim_on_few_rows() -> None:
    frame = grown(0.94, 0.3, 0.9, 1.0).assign(
        value=lambda f: f.value.where(f.metric != "auroc", 0.4 + 0.001 * f["rows"] / 800)
    )
    assert not [
        each for each in trees.claims(frame) if "at most .05 below that in sets" in each.text
    ]


def test_claims_on_latents() -> None:
    def images(latents: float, seconds: float) -> pd.DataFrame:
        rows = []
        for seed in SEEDS:
            known = {
                "dataset": "MNIST",
                "seed": seed,
                "labels": "given",
                "set": "uniform",
                "metric": "auroc",
            }
            rows += [
                {**known, "setting": name, "value": v + jitter(seed) * (v - 0.5)}
                for name, v in (("latents", latents), ("pixels", 0.8))
            ]
            rows += [
                {
                    **known,
                    "setting": name,
                    "set": "",
                    "metric": "seconds",
                    "value": v + jitter(seed),
                }
                for name, v in (("tood", seconds), ("network", 2.0))
            ]
        return pd.DataFrame(rows)

    assert all_are(latents_study.claims(images(0.9, 1.0)), True) == {"latents_help", "faster"}
    assert all_are(latents_study.claims(images(0.7, 3.0)), False) == {"latents_help", "faster"}


def attacked(tood: float, network: float, at_first: float = 0.9) -> pd.DataFrame:
    """AUROC falls by so much at 8/255, up or down the loss."""
    shared = {"dataset": "CIFAR-10", "set": "svhn"}
    falls = {(name, ""): tood for name in attack.TOOD}
    falls |= {
        (name, which): network
        for name in attack.NETWORK
        for which in (attack.ATTACKED, attack.ANOTHER)
    }
    falls |= {(name, which): tood for name in attack.TOOD for which in attack.OWN}
    rows = [
        {
            **shared,
            "seed": seed,
            "method": name,
            "network": which,
            "step": step,
            "value": at_first - fall * abs(step) / 8,
        }
        for (name, which), fall in falls.items()
        for seed in SEEDS
        for step in ((0, 8) if which in attack.OWN else (-8, -4, -2, 0, 2, 4, 8))
    ]
    return pd.DataFrame(rows).assign(
        value=lambda f: f.value + f.step.ne(0) * f.seed.map(jitter) * f.method.isin(attack.TOOD)
    )


def test_claims_on_images_moved_against_a_network() -> None:
    assert (
        all_are(attack.claims(attacked(0.02, 0.3)), True)
        == all_are(attack.claims(attacked(0.2, 0.1)), False)
        == {"fgsm", "robust"}
    )
    assert set(held(attack.claims(attacked(0.02, 0.3, at_first=0.5)))) == {"robust"}, (
        "what was not told apart has nothing to lose"
    )
