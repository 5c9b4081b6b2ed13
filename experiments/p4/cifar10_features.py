"""Scores of published records of CIFAR-10, and three feature maps of the same images, in one file.

``python -m experiments.p4.cifar10 features cifar10.npz --record wideresnet=softmax.npz`` makes it:
Luo et al. recalibrate a ResNet-50 on ImageNet in the features of other networks; here those are
networks that are trained on the 10,000 training images here, which takes minutes, and the
images' own principal components.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.decomposition import PCA

from experiments.p4.score_records import read_record
from kdgraph.config import plan
from kdgraph.config.components import build
from kdgraph.data.dataset import Dataset
from kdgraph.errors import DataError
from kdgraph.features.reductions import TsneEmbedding
from kdgraph.parents.networks import ConvolutionalNetwork, Network, ResidualNetwork

# Training images of the subset, which come first; then test images, in their official order.
N_TRAIN = 10_000
# The test images of the subset are these first ones of the official 10,000, without a few.
FIRST = 3_000
# Numbers of principal components and of dimensions of t-SNE, those of Luo et al. for images.
COMPONENTS, DIMENSIONS = 50, 3
# Networks that are trained for their last hidden layer, of 64 and of 84 units; shortly, for a CPU.
NETWORKS: Mapping[str, Network] = {
    "resnet": ResidualNetwork(depth=8, max_epochs=20, random_state=0),
    "lenet": ConvolutionalNetwork(
        architecture="lenet", max_epochs=15, patience=None, random_state=1
    ),
}


def positions(part: np.ndarray, whole: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first and the last place in the whole that members of a part can have, Int[m].

    Members of both are in the same order; where both positions are the same, there is no other.

    >>> first, last = positions(np.array([3, 1, 1, 2]), np.array([3, 1, 1, 1, 0, 2]))
    >>> first.tolist(), last.tolist()
    ([0, 1, 2, 5], [0, 2, 3, 5])
    """
    # Placed as early and as late as the order allows: where both agree there is no other place.
    return _leftmost(part, whole), len(whole) - 1 - _leftmost(part[::-1], whole[::-1])[::-1]


def _leftmost(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    positions_, at = [], -1
    for member in part:
        at += 1
        while at < len(whole) and whole[at] != member:
            at += 1
        positions_.append(at)
    if at >= len(whole):
        raise DataError(
            f"{len(part):,} labels are not among {len(whole):,} in this"
            " order; give the record of the same images"
        )
    return np.array(positions_, dtype=np.intp)


def images() -> tuple[Dataset, Dataset]:
    """Return training and test images of the subset of CIFAR-10, in its order."""
    data = build(plan(["dataset=cifar10"]).jobs[0].config.dataset).load()
    if not N_TRAIN < len(data.y) <= N_TRAIN + FIRST:
        raise DataError(
            f"cifar10 must be {N_TRAIN:,} training and up to {FIRST:,}"
            f" test images, got {len(data.y):,} rows"
        )
    return data.rows(np.arange(N_TRAIN)), data.rows(np.arange(N_TRAIN, len(data.y)))


def features(train: Dataset, test: Dataset) -> dict[str, np.ndarray]:
    """Return last hidden layers of :data:`NETWORKS`, and principal components of pixels."""
    features = {name: n.fit(train.X, train.y).transform(test.X) for name, n in NETWORKS.items()}
    components = PCA(COMPONENTS, svd_solver="randomized", random_state=0).fit(
        train.X.reshape(len(train.X), -1)
    )
    return features | {
        "pixels": components.transform(test.X.reshape(len(test.X), -1)).astype(np.float32)
    }


def collected(
    records: Mapping[str, Path], test: Dataset, feature_maps: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the arrays of the file: label, official index, scores and features by name.

    Labels identify the official images where all of several images of one label in a row are there;
    others are left out. Features are embedded too ("resnet_tsne"), of all images once and without
    their labels: calibration and test rows of a split are these images, so it is the joint
    embedding of Luo et al., and the same for every split and method.
    """
    scores = {name: read_record(path) for name, path in records.items()}
    places = [positions(test.y, labels[:FIRST]) for _, labels in scores.values()]
    sure = np.logical_and.reduce([first == last for first, last in places])
    index = places[0][0][sure]
    arrays = {"label": test.y[sure].astype(np.int16), "index": index}
    arrays |= {name: each[index] for name, (each, _) in scores.items()}
    sure_features = {name: each[sure] for name, each in feature_maps.items()}
    embedded = {
        f"{name}_tsne": TsneEmbedding(DIMENSIONS, 0).fit(each).embedding_.astype(np.float32)
        for name, each in sure_features.items()
    }
    return arrays | sure_features | embedded


def collect(records: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """Train the networks, and return the arrays of the file of scores and features."""
    train, test = images()
    return collected(records, test, features(train, test))
