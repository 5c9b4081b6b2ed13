"""TOOD and scores of a network on images out of distribution that are moved against that network by
its gradient's sign (FGSM).

``python -m experiments.p3.attack --keep outputs`` trains both on 3,000 images of CIFAR-10 and of
CIFAR-100, ten epochs of the autoencoder, moves SVHN and the other CIFAR, and prints what the paper
says of it. ``experiment=paper/p3/cifar_fgsm`` moves them against another network of the same rows
and in one direction alone. Here images are moved both ways: up the loss, as FGSM has it, which
makes the network less sure of its class, and down, which makes it more sure. Nothing is moved
against the trees, which have no gradient: so beside the scores of the network that is attacked
stand those of another network of the same rows, against which, too, nothing is moved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, below
from experiments.common.markdown import counted_noun, number, signed
from experiments.p3.command import asked
from experiments.p3.images import CIFAR
from kdgraph.base import FittedModel
from kdgraph.base.network_access import access_network
from kdgraph.config import plan
from kdgraph.metrics import auroc
from kdgraph.runner import stages

DATASETS = CIFAR.datasets
TITLES = {
    "tood_given": "given labels",
    "tood_shuffled": "shuffled labels",
    "msp": "MSP",
    "odin": "ODIN",
    "mahalanobis": "Mahalanobis",
}
TITLES["energy"] = "energy"
TOOD, NETWORK = ("tood_given", "tood_shuffled"), ("msp", "odin", "mahalanobis", "energy")
ATTACKED, ANOTHER = "the network that is attacked", "another network of the same rows"
SETS = ("svhn", "the_other")
STEPS = (2, 4, 8)
"""Of 255, as the runs of Figure 5 have them; the paper says none."""
AS_GOOD, TOLD_APART = 0.05, 0.6
"""Of an AUROC: what falls by no more does not compromise too much, and what is not told apart at
first has nothing to lose.
"""
SIZES = ("dataset.n_train=3000", "dataset.n_calibration=500", "dataset.n_test=1000")
EPOCHS = 10
"""Of the autoencoder, of thirty by default."""
SHARE = 1000 / 3500
"""Test rows for each row that is fitted on."""
OTHER_SEED = 1000
"""What is added to the seed of a network that is not attacked."""


def configs(dataset: str, *more: str) -> dict[str, Any]:
    """The composed config of each method on one data set."""
    words = [
        "experiment=paper/p3/cifar",
        f"dataset=choice({dataset})",
        "seed=choice(0)",
        *SIZES,
        *more,
    ]
    epochs = {True: [f"parent.encoder.max_epochs=choice({EPOCHS})"], False: []}
    return {
        name: (
            plan([*words, *epochs[name in TOOD], f"method=choice(paper/p3/cifar/{name})"])
            .jobs[0]
            .config
        )
        for name in TITLES
    }


def measure(title: str, of: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """A row for each AUROC: columns ``dataset, seed, method, network, set, step, value``; a step
    below 0 goes down the network's loss.
    """
    splits = stages.split(of["msp"].dataset, seed)
    trees = stages.fit(of["tood_given"].parent, splits.train, seed=seed, n_jobs=1)
    networks = {
        name: stages.fit(of["msp"].parent, splits.train, seed=seed + more, n_jobs=1)
        for name, more in ((ATTACKED, 0), (ANOTHER, OTHER_SEED))
    }
    parents = {(name, which): parent for name in NETWORK for which, parent in networks.items()} | {
        (name, ""): trees for name in TOOD
    }
    models = {
        key: stages.calibrate(
            {"detector": of[key[0]].detector}, parent, splits, seed=seed, n_jobs=1
        )
        for key, parent in parents.items()
    }
    inside = {key: _scores(model, splits.test.X, seed) for key, model in models.items()}
    for drawn in stages.ood_sets(of["msp"].ood, splits, seed):
        if drawn.name in SETS:
            sign = np.sign(access_network(networks[ATTACKED]).input_gradient(drawn.X, _loss))
            for step in sorted({0, *STEPS, *(-step for step in STEPS)}):
                moved = np.clip(drawn.X + np.float32(step / 255) * sign, 0, 1)
                known = {"dataset": title, "seed": seed, "set": drawn.name, "step": step}
                for (name, which), model in models.items():
                    yield {
                        **known,
                        "method": name,
                        "network": which,
                        "value": auroc(_scores(model, moved, seed), inside[name, which]),
                    }


def _scores(model: FittedModel, X: np.ndarray, seed: int) -> np.ndarray:
    """Of rows in sets of 100, or of single rows."""
    return (
        model.score_sets(X, np.random.default_rng(seed)).values
        if model.has_set_scores
        else model.predict_outputs(["ood_score"], X)["ood_score"]
    )


def _loss(logits: Any) -> Any:
    """Float[n]: the cross-entropy of the class that logits Float[n, K] predict."""
    return -logits.log_softmax(dim=1).amax(dim=1)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """What FGSM changes of TOOD, and what the worse of both directions changes of TOOD and of each
    score of the network.
    """
    for dataset, of in frame.groupby("dataset", sort=False):
        mean = of.groupby(["method", "set", "step"]).value.mean().unstack("step")
        seeds = counted_noun([of.seed.nunique()], "seed")
        for name in (name for name in TOOD if name in mean.index.get_level_values("method")):
            yield from _compromised(mean.loc[name], f"{dataset}, {TITLES[name]}", seeds)
        svhn = of[of.set == "svhn"]
        if len(svhn):
            yield from _robust(svhn, str(dataset), seeds)


def _compromised(mean: pd.DataFrame, where: str, seeds: str) -> Iterator[Claim]:
    apart = mean[mean[0] > TOLD_APART]
    if len(apart):
        lowest = apart[list(STEPS)].min(axis=1)
        told = ", ".join(
            f"{name} {number(row[0], 2)}, at the least {number(float(lowest[name]), 2)}"
            for name, row in apart.iterrows()
        )
        text = (
            f"{where}: AUROC of TOOD against images moved by 2, 4 and 8/255 by FGSM is at most .05"
            " below that without"
        )
        text += f" on each set where that is above {number(TOLD_APART, 1)}"
        yield Claim(
            text, bool((lowest - apart[0]).min() >= -AS_GOOD), f"{told}; {seeds}", ("fgsm",)
        )


def _robust(of: pd.DataFrame, dataset: str, seeds: str) -> Iterator[Claim]:
    """On SVHN alone: hardly any score tells one CIFAR from the other."""
    wide = of.pivot_table(index=["method", "network", "seed"], columns="step", values="value")
    farthest = max(STEPS)
    falls = (wide[0] - wide[[-farthest, farthest]].min(axis=1)).unstack(["method", "network"])
    before = wide[0].unstack(["method", "network"]).mean()
    for name in (name for name in TOOD if (name, "") in falls):
        fall = float(falls[name, ""].mean())
        text = (
            f"{dataset}, {TITLES[name]}: AUROC of TOOD against SVHN falls by at most .05 where it"
            " is moved by 8/255"
        )
        found = f"by {signed(fall, 2)} from {number(float(before[name, '']), 2)}; {seeds}"
        yield Claim(
            f"{text}, up the loss of LeNet-5 or down, whichever is worse",
            fall <= AS_GOOD,
            found,
            ("robust",),
        )
    for name, which in (
        (name, which) for which in (ATTACKED, ANOTHER) for name in NETWORK if (name, which) in falls
    ):
        text = (
            f"{dataset}: so moved, TOOD with given labels falls by less than {TITLES[name]} of"
            f" {which}"
        )
        for claim in below(
            text, falls["tood_given", ""], falls[name, which], ("robust",), share=SHARE
        ):
            found = (
                f"{claim.found}; {TITLES[name]} is {number(float(before[name, which]), 2)} without"
            )
            yield Claim(claim.text, claim.holds, found, claim.of)


def main() -> None:
    """Print the claims, and keep them."""
    planned = {title: configs(name) for name, title in DATASETS.items()}
    asked(
        __doc__,
        "p3_attack",
        3,
        lambda seed: (row for title, of in planned.items() for row in measure(title, of, seed)),
        claims,
    )


if __name__ == "__main__":
    main()
