"""TOOD and scores of a network on images out of distribution that are moved against them by the
sign of a gradient (FGSM).

``python -m experiments.p3.attack --keep outputs`` trains both on 3,000 images of CIFAR-10 and of
CIFAR-100, ten epochs of the autoencoder, moves SVHN and the other CIFAR, and tests the claims of
the paper. ``experiment=paper/p3/cifar_fgsm`` moves them against another network of the same rows
and in one direction alone. Here images are moved both ways: up the loss, as by FGSM, so that the
network is less sure of its class, and down, so that it is more sure.

Threat model: the attacker has the images out of distribution, the training rows and all fitted
models, changes each pixel by at most a step of 2 to 8/255, takes one gradient, and wants the images
to pass as rows in distribution. Three attacks differ in the function of the gradient.

- LeNet-5, as in the paper if its network is one: TOOD is another model, and the scores of the
attacked network have those of another network of the same rows beside them.
- The encoder of TOOD: the step brings the latent of an image nearer to that of a training row,
another one for each image, so that images are spread over the leaves as training rows are.
- Encoder and trees: trees have no gradient, so of such steps towards several training rows, and no
step, each image takes the one whose leaves it shares with the fewest others, which lowers the
score. Leaves are counted over all images of the set, with the attacked forest itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, below
from experiments.common.frames import seeds_of
from experiments.common.markdown import number, signed
from experiments.common.titles import titles
from experiments.p3.command import configs_of, run_study
from experiments.p3.images import CIFAR
from kdgraph.base import FittedModel
from kdgraph.base.network_access import access_network
from kdgraph.geometry import partition_of
from kdgraph.metrics import auroc
from kdgraph.runner import stages

DATASETS = CIFAR.datasets
TITLES = titles("p3", "attack")["titles"]
TITLES["energy"] = "energy"
TOOD, NETWORK = ("tood_given", "tood_shuffled"), ("msp", "odin", "mahalanobis", "energy")
ATTACKED, ANOTHER = "the network that is attacked", "another network of the same rows"
ENCODER, ENCODER_AND_TREES = "its encoder", "its encoder and trees"
OWN = (ENCODER, ENCODER_AND_TREES)  # Attacked parts of TOOD; "" for LeNet-5
N_TARGETS = 8  # Training rows that images are moved towards
N_SWEEPS = 3  # Times that each image chooses its step again, given those of the others
SETS = ("svhn", "the_other")
STEPS = (2, 4, 8)  # Steps of 255 in the runs of Figure 5; the paper has no number
# Fall of an AUROC that does not compromise too much, and least AUROC that can fall.
AS_GOOD, SEPARATES = 0.05, 0.6
SIZES = ("dataset.n_train=3000", "dataset.n_calibration=500", "dataset.n_test=1000")
EPOCHS = 10  # Epochs of the autoencoder, thirty by default
SHARE = 1000 / 3500  # Test rows per fitted row
OTHER_SEED = 1000  # Offset of the seed of a network that is not attacked


def configs(dataset: str, *more: str) -> dict[str, Any]:
    """Return the composed config of each method on one data set."""
    epochs = [f"parent.encoder.max_epochs=choice({EPOCHS})"]
    methods = {
        name: [*epochs * (name in TOOD), f"method=choice(paper/p3/cifar/{name})"] for name in TITLES
    }
    return configs_of("paper/p3/cifar", dataset, methods, [*SIZES, *more])


def measure(title: str, configs: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Yield each AUROC; a step below 0 goes down the network's loss.

    ``network`` of TOOD is its attacked part, one of ``OWN``, with the largest step only, or ""
    where LeNet-5 is attacked.
    """
    splits = stages.split(configs["msp"].dataset, seed)
    trees = stages.fit(configs["tood_given"].parent, splits.train, seed=seed, n_jobs=1)
    networks = {
        name: stages.fit(configs["msp"].parent, splits.train, seed=seed + more, n_jobs=1)
        for name, more in ((ATTACKED, 0), (ANOTHER, OTHER_SEED))
    }
    parents = {(name, which): parent for name in NETWORK for which, parent in networks.items()} | {
        (name, ""): trees for name in TOOD
    }
    models = {
        key: stages.calibrate(
            {"detector": configs[key[0]].detector}, p, splits, seed=seed, n_jobs=1
        )
        for key, p in parents.items()
    }
    inside = {key: _scores(model, splits.test.X, seed) for key, model in models.items()}
    for drawn in stages.ood_sets(configs["msp"].ood, splits, seed):
        if drawn.name in SETS:
            sign = np.sign(access_network(networks[ATTACKED]).input_gradient(drawn.X, _loss))
            shared = {"dataset": title, "seed": seed, "set": drawn.name}
            unmoved = {n: auroc(_scores(models[n, ""], drawn.X, seed), inside[n, ""]) for n in TOOD}
            for name, which, moved in _moved_against_trees(
                trees, {name: models[name, ""] for name in TOOD}, splits.train.X, drawn.X, seed
            ):
                value = auroc(_scores(models[name, ""], moved, seed), inside[name, ""])
                for step, of_step in ((0, unmoved[name]), (max(STEPS), value)):
                    yield shared | {
                        "step": step,
                        "method": name,
                        "network": which,
                        "value": of_step,
                    }
            for step in sorted({0, *STEPS, *(-step for step in STEPS)}):
                moved = np.clip(drawn.X + np.float32(step / 255) * sign, 0, 1)
                for (name, which), model in models.items():
                    yield shared | {
                        "step": step,
                        "method": name,
                        "network": which,
                        "value": auroc(_scores(model, moved, seed), inside[name, which]),
                    }


def _moved_against_trees(
    trees: Any, models: Mapping[str, FittedModel], train: np.ndarray, X: np.ndarray, seed: int
) -> Iterator[tuple[str, str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    encoder = trees.named_steps["encoder"]
    targets = encoder.transform(train[rng.choice(len(train), N_TARGETS, replace=False)])
    step = np.float32(max(STEPS) / 255)

    def moved_towards(target: np.ndarray) -> np.ndarray:
        def distance(latents: Any) -> Any:
            flat = latents.flatten(1)
            return (flat - flat.new_tensor(target)).square().sum(1)

        gradient = encoder.input_gradient(X, distance, "encoder")
        return np.clip(X - step * np.sign(gradient), 0, 1)

    # Float32[targets + 1, n, c, h, w], the last without a step.
    candidates = np.stack([*map(moved_towards, targets), X])
    images = np.arange(len(X))
    of_encoder = candidates[rng.integers(N_TARGETS, size=len(X)), images]
    for name, model in models.items():
        yield name, ENCODER, of_encoder
        partition = partition_of(model.post_hoc["detector"].estimator_)
        leaves = np.stack([partition.encode(each) for each in candidates])
        yield name, ENCODER_AND_TREES, candidates[_fewest_shared(leaves, rng), images]


def _fewest_shared(leaves: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return Int[n], for each image a candidate with leaves that few others are in.

    ``leaves``, Int[k, n, t], has k candidates of n images in t trees; the last is where images are
    at first.
    """
    # Coordinate ascent on the mean pairwise Hamming distance: an image that moves to the candidate
    # with the fewest images in its leaves raises it, so it never falls.
    k, n, n_trees = leaves.shape
    chosen, tree = np.full(n, k - 1), np.arange(n_trees)
    counts = np.zeros((n_trees, int(leaves.max()) + 1), dtype=np.int64)
    np.add.at(counts, (tree, leaves[-1]), 1)
    for _ in range(N_SWEEPS):
        for i in rng.permutation(n):
            counts[tree, leaves[chosen[i], i]] -= 1
            chosen[i] = counts[tree, leaves[:, i]].sum(axis=1).argmin()
            counts[tree, leaves[chosen[i], i]] += 1
    return chosen


def _scores(model: FittedModel, X: np.ndarray, seed: int) -> np.ndarray:
    """Return scores of rows in sets of 100, or of single rows."""
    if model.has_set_scores:
        return model.score_sets(X, np.random.default_rng(seed)).values
    return model.predict_outputs(["ood_score"], X)["ood_score"]


def _loss(logits: Any) -> Any:
    """Return Float[n], the cross-entropy of the class that logits Float[n, K] predict."""
    return -logits.log_softmax(dim=1).amax(dim=1)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on TOOD after FGSM against LeNet-5, the worse way, and against TOOD."""
    for dataset, rows in frame.groupby("dataset", sort=False):
        against_network = rows[~rows.network.isin(OWN)]
        mean = against_network.groupby(["method", "set", "step"]).value.mean().unstack("step")
        seeds = seeds_of(rows)
        for name in (name for name in TOOD if name in mean.index.get_level_values("method")):
            yield from _compromised(mean.loc[name], f"{dataset}, {TITLES[name]}", seeds)
        svhn = rows[rows.set == "svhn"]
        if len(svhn):
            yield from _robust(svhn, str(dataset), seeds)


def _compromised(mean: pd.DataFrame, place: str, seeds: str) -> Iterator[Claim]:
    apart = mean[mean[0] > SEPARATES]
    if len(apart):
        lowest = apart[list(STEPS)].min(axis=1)
        details = ", ".join(
            f"{name} {number(row[0], 2)}, at the least {number(float(lowest[name]), 2)}"
            for name, row in apart.iterrows()
        )
        text = (
            f"{place}: AUROC of TOOD against images moved by 2, 4 and 8/255 by FGSM is at most .05"
            f" below that without on each set where that is above {number(SEPARATES, 1)}"
        )
        evidence = f"{details}; {seeds}"
        yield Claim(text, bool((lowest - apart[0]).min() >= -AS_GOOD), evidence, ("fgsm",))


def _robust(rows: pd.DataFrame, dataset: str, seeds: str) -> Iterator[Claim]:
    """Yield the claims on SVHN alone: hardly any score separates one CIFAR from the other."""
    wide = rows.pivot_table(index=["method", "network", "seed"], columns="step", values="value")
    farthest = max(STEPS)
    # Attacks of TOOD itself have one direction: the other is missing, and min skips it.
    falls = (wide[0] - wide[[-farthest, farthest]].min(axis=1)).unstack(["method", "network"])
    before = wide[0].unstack(["method", "network"]).mean()
    for name, which in ((name, which) for which in OWN for name in TOOD if (name, which) in falls):
        fall = float(falls[name, which].mean())
        text = (
            f"{dataset}, {TITLES[name]}: AUROC of TOOD against SVHN falls by at most .05 where it"
            f" is moved by 8/255 against {which}"
        )
        evidence = f"by {signed(fall, 2)} from {number(float(before[name, which]), 2)}; {seeds}"
        yield Claim(text, fall <= AS_GOOD, evidence, ("robust",))
        for other in (other for other in NETWORK if (other, ATTACKED) in falls):
            text = (
                f"{dataset}: TOOD with {TITLES[name]}, moved against {which}, falls by less than"
                f" {TITLES[other]}, moved against its network"
            )
            yield from below(
                text, falls[name, which], falls[other, ATTACKED], ("robust",), share=SHARE
            )
    for name in (name for name in TOOD if (name, "") in falls):
        fall = float(falls[name, ""].mean())
        text = (
            f"{dataset}, {TITLES[name]}: AUROC of TOOD against SVHN falls by"
            " at most .05 where it is moved by 8/255"
        )
        statement = f"{text}, up the loss of LeNet-5 or down, whichever is worse"
        evidence = f"by {signed(fall, 2)} from {number(float(before[name, '']), 2)}; {seeds}"
        yield Claim(statement, fall <= AS_GOOD, evidence, ("robust",))
    for name, which in (
        (name, which) for which in (ATTACKED, ANOTHER) for name in NETWORK if (name, which) in falls
    ):
        text = (
            f"{dataset}: so moved, TOOD with given labels falls by"
            f" less than {TITLES[name]} of {which}"
        )
        for claim in below(
            text, falls["tood_given", ""], falls[name, which], ("robust",), share=SHARE
        ):
            evidence = (
                f"{claim.measured}; {TITLES[name]} is"
                f" {number(float(before[name, which]), 2)} without"
            )
            yield Claim(claim.text, claim.holds, evidence, claim.sentences)


def main() -> None:
    """Print and save the claims."""
    planned = {title: configs(name) for name, title in DATASETS.items()}
    run_study(__doc__, "p3_attack", 3, planned, measure, claims)


if __name__ == "__main__":
    main()
