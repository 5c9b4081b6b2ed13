"""Human votes on the test images of CIFAR-10 as the scores of a classifier: ``python -m
experiments.p2.cifar10h counts.npz cifar10h.npz``.

The counts are in the repository of CIFAR-10H (Peterson et al. 2019; Creative Commons,
non-commercial), here as ``counts``, Int[n, 10], beside ``labels``, Int[n]. The score of a class is
its share of an image's votes. What is written has the names of the softmax records, for ``kdg run
dataset=scores dataset.path=cifar10h.npz dataset.target=ground_truth``.
"""

from __future__ import annotations

import sys

import numpy as np


def scores(counts: np.ndarray) -> np.ndarray:
    """Return Float[n, K], shares of the votes Int[n, K].

    >>> scores(np.array([[3, 1]]))
    array([[0.75, 0.25]])
    """
    votes = counts.sum(axis=1, keepdims=True)
    if len(bad := np.flatnonzero((votes[:, 0] <= 0) | (counts.min(axis=1) < 0))):
        raise ValueError(
            f"every row needs votes, and no fewer than 0 for a class; row {bad[0]} has"
            f" {counts[bad[0]].tolist()}"
        )
    return counts / votes


def main() -> None:
    """Read the counts, write the scores."""
    source, target = sys.argv[1:]
    with np.load(source) as result:
        predictions = scores(result["counts"].astype(np.int64))
        labels = result["labels"].astype(np.int64)
    np.savez_compressed(target, predictions=predictions, ground_truth=labels)
    sys.stdout.write(
        f"{target}: {len(labels):,} rows,"
        f" {np.mean(predictions.argmax(axis=1) == labels):.4f} of the majorities right\n"
    )


if __name__ == "__main__":
    main()
