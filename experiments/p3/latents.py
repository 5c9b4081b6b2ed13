"""TOOD on the latents of an autoencoder of images against TOOD on their pixels, and its time with
the autoencoder.

``python -m experiments.p3.latents --keep outputs`` trains both on 2,000 images of MNIST and of
Fashion-MNIST, with LeNet-5, and tests the claims of the paper. Sets out of distribution are those
of ``experiment=paper/p3/mnist``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier

from experiments.common.claims import Claim, below
from experiments.common.markdown import number
from experiments.common.seconds import in_turn
from experiments.p3.command import configs_of, faster, run_study
from experiments.p3.images import MNIST
from kdgraph.base import FittedModel
from kdgraph.data.dataset import Splits
from kdgraph.detection import TreeHamming
from kdgraph.metrics import auroc
from kdgraph.runner import stages

DATASETS = MNIST.datasets
SIZES = ("dataset.n_train=2000", "dataset.n_calibration=500", "dataset.n_test=1000")
LABELS = ("given", "shuffled")
SHARE = 1000 / 2500  # Test rows per fitted row


def configs(dataset: str, *more: str) -> dict[str, Any]:
    """Return the configs of TOOD with given and shuffled labels and of the MSP of LeNet-5."""
    methods = {"given": "tood_given", "shuffled": "tood_shuffled", "network": "msp"}
    words = {name: [f"method=choice(paper/p3/mnist/{m})"] for name, m in methods.items()}
    return configs_of("paper/p3/mnist", dataset, words, [*SIZES, *more])


def measure(title: str, configs: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """Yield ``dataset, seed, setting, labels, set, metric, value`` of each AUROC and time."""
    splits = stages.split(configs["given"].dataset, seed)
    sets = {each.name: each.X for each in stages.ood_sets(configs["given"].ood, splits, seed)}
    rows = [splits.test.X, *sets.values()]
    parents = {}
    shared = {"dataset": title, "seed": seed, "set": ""}

    def fitted(name: str) -> FittedModel:
        parents[name] = stages.fit(configs[name].parent, splits.train, seed=seed, n_jobs=1)
        return _after(configs[name], parents[name], splits, seed)

    def tood() -> None:
        model = fitted("given")
        for X in rows:
            model.score_sets(X, np.random.default_rng(seed))

    def msp() -> None:
        model = fitted("network")
        for X in rows:
            model.predict_outputs(["ood_score"], X)

    for name, seconds in in_turn({"tood": tood, "network": msp}, seed).items():
        yield {**shared, "setting": name, "labels": "given", "metric": "seconds", "value": seconds}
    for labels in LABELS:
        latents = _after(configs[labels], parents["given"], splits, seed).post_hoc["detector"]
        trees = ExtraTreesClassifier(100, random_state=seed)
        pixels = TreeHamming(trees, labels=labels, random_state=seed)  # pyright: ignore[reportArgumentType]
        pixels.fit(_flat(splits.train.X), splits.train.y, X_calibration=_flat(splits.calibration.X))
        for setting, detector, transform in (
            ("latents", latents, np.asarray),
            ("pixels", pixels, _flat),
        ):
            rng = np.random.default_rng(seed)
            inside = detector.ood_score_of_sets(transform(splits.test.X), rng)
            for name, X in sets.items():
                value = auroc(detector.ood_score_of_sets(transform(X), rng), inside)
                place = {**shared, "setting": setting, "labels": labels, "set": name}
                yield {**place, "metric": "auroc", "value": value}


def _after(config: Any, parent: Any, splits: Splits, seed: int) -> FittedModel:
    return stages.calibrate({"detector": config.detector}, parent, splits, seed=seed, n_jobs=1)


def _flat(images: np.ndarray) -> np.ndarray:
    return images.reshape(len(images), -1)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield that latents are better than pixels, and that TOOD is faster with its autoencoder."""
    scores = frame[frame.metric == "auroc"]
    for (dataset, labels), rows in scores.groupby(["dataset", "labels"], sort=False):
        by_set = rows.groupby(["set", "setting"]).value.mean().unstack("setting")
        means = rows.groupby(["seed", "setting"]).value.mean().unstack("setting")
        details = ", ".join(
            f"{name} {number(row.pixels, 2)} and {number(row.latents, 2)}"
            for name, row in by_set.iterrows()
        )
        text = (
            f"{dataset}, 2,000 training images, {labels} labels: AUROC of TOOD on pixels, mean over"
            " sets, is below that on latents"
        )
        for claim in below(text, means.pixels, means.latents, ("latents_help",), share=SHARE):
            evidence = f"{claim.measured}; pixels and latents: {details}"
            yield Claim(claim.text, claim.holds, evidence, claim.sentences)
    text = (
        "2,000 images: TOOD with 30 epochs of its autoencoder takes fewer seconds of one core to"
        " train and to score than LeNet-5"
    )
    yield from faster(frame[frame.metric == "seconds"], f"{text} of up to 20 epochs and its MSP")


def main() -> None:
    """Print and save the claims."""
    planned = {title: configs(name) for name, title in DATASETS.items()}
    run_study(__doc__, "p3_latents", 3, planned, measure, claims)


if __name__ == "__main__":
    main()
