"""Readings of the recipe of networks with 88 and 99.7 % of test set 2 in the Appendix, which have
96 and 98 % here.

``python -m experiments.p2.mnist.readings`` in the root of the repository trains two networks each
and prints their accuracy; the 10,000 steps take three times as long as all the rest. ``--only "as
printed" ...`` does some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from experiments.common.command import in_one_line, study_options
from experiments.common.markdown import head, line
from experiments.p2.mnist.pool import rows
from kdgraph.parents.networks import MultilayerPerceptron, MultilayerPerceptronEnsemble
from kdgraph.parents.networks.training import TrainingLoss

MEMBERS = 2
PRINTED: Mapping[str, Any] = {"learning_rate": 1e-3, "batch_size": 1000, "max_epochs": 8}


class TwoSoftmaxes(MultilayerPerceptronEnsemble):
    """Network that ends in a softmax, whose loss takes the softmax of its output: an easy slip."""

    def _loss(self) -> TrainingLoss:
        loss = super()._loss()

        def again(outputs: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
            return loss(outputs.softmax(dim=1), targets, weights)

        return again


def one_batch_network(
    X: np.ndarray, y: np.ndarray, seed: int, steps: int = 400
) -> MultilayerPerceptron:
    """Return a network that is trained on one mini-batch of 1,000 rows in every step.

    "Mini batches of 1,000 elements were sampled, with replacement, from the training set group", if
    a network draws one batch for all of its steps.
    """
    batch = np.random.default_rng(seed).integers(len(X), size=PRINTED["batch_size"])
    network = MultilayerPerceptron(
        hidden=(300, 100),
        learning_rate=PRINTED["learning_rate"],
        batch_size=PRINTED["batch_size"],
        max_epochs=steps,
        patience=None,
        random_state=seed,
    )
    return network.fit(X[batch], y[batch])


@dataclass(frozen=True)
class Reading:
    """One reading of the recipe."""

    parameters: Mapping[str, Any] = field(default_factory=dict)  # besides :data:`PRINTED`
    kind: type[MultilayerPerceptronEnsemble] = MultilayerPerceptronEnsemble
    brightest: float = 1.0  # highest value of a pixel, which the paper does not state
    n_train: int = 50_000  # Section II has 30,000 and the Appendix 50,000
    # each network has one mini-batch for all steps; the others then stay as printed
    one_batch: bool = False


ONE_BATCH = "one fixed mini-batch"
READINGS = {
    "as printed": Reading(),
    "30,000 training rows (Section II)": Reading({"max_epochs": 14}, n_train=30_000),  # 420 steps
    "lambda as weight decay": Reading({"weight_decay": 1e-3}),
    "a second softmax in the loss": Reading(kind=TwoSoftmaxes),
    "pixels from 0 to 255": Reading(brightest=255.0),
    "50 steps": Reading({"max_epochs": 1}),
    ONE_BATCH: Reading(one_batch=True),
    "10,000 steps": Reading({"max_epochs": 200}),
    "gradient descent at .001, momentum .9": Reading({"optimizer": "sgd"}),
    "a learning rate of 1e-4": Reading({"learning_rate": 1e-4}),
    "a learning rate of 5e-5": Reading({"learning_rate": 5e-5}),
}


def accuracies(
    reading: Reading,
    X: np.ndarray,
    y: np.ndarray,
    test: tuple[np.ndarray, np.ndarray],
    seed: int = 0,
) -> np.ndarray:
    """Return the share of training rows and of test rows (rows) that each network has right."""
    if reading.one_batch:
        result = [one_batch_network(X, y, MEMBERS * seed + k) for k in range(MEMBERS)]
        return np.array(
            [
                [(network.predict(rows_of) == labels).mean() for network in result]
                for rows_of, labels in ((X, y), test)
            ]
        )
    shared: dict[str, Any] = {
        "members": MEMBERS,
        "hidden": (300, 100),
        "patience": None,
        "random_state": seed,
    }
    networks = reading.kind(**shared, **{**PRINTED, **reading.parameters})
    sets = (X[: reading.n_train], y[: reading.n_train]), test
    sets = [(np.float32(reading.brightest) * rows_of, labels) for rows_of, labels in sets]
    networks.fit(*sets[0])
    return np.array(
        [
            (networks.member_log_proba(rows_of).argmax(axis=2) == labels).mean(axis=1)
            for rows_of, labels in sets
        ]
    )


def table_lines(names: Sequence[str]) -> Iterator[str]:
    """Yield a table line by line."""
    (X, y), sets = rows()
    yield from head(["the recipe", "accuracy on test set 2 in percent", "on the training rows"])
    for name in names:
        of_train, of_test = (
            ", ".join(f"{100 * share:.1f}" for share in accuracy)
            for accuracy in accuracies(READINGS[name], X, y, sets["2"])
        )
        yield line([name, of_test, of_train])


def main() -> None:
    """Print the table."""
    for text in table_lines(study_options(__doc__, only=READINGS).only):
        print(text, flush=True)


if __name__ == "__main__":
    in_one_line(main)
