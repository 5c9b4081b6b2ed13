"""Networks for the ensembles of Salamon et al., Appendix: trained in blocks, each stored as its log
probabilities on both test sets.

A pool is a folder: ``recipe.json``, ``labels.npz``, and ``block_000.npz`` and so on, of
:data:`BLOCK` networks each. An existing block is not trained again, and one that was cut off goes
on from its checkpoint, so that a pool can grow over several evenings.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from scipy.special import softmax

from kdgraph.errors import DataError

Combine = Literal["sum_logs", "mean"]
BLOCK = 10  # Networks that train side by side; on two cores 20 are no faster
# Seed of the 10,000 of 60,000 rows that are test set 1: one split for all networks, as in the
# paper.
SPLIT_SEED = 0


@dataclass(frozen=True)
class Recipe:
    """Training of 784-300-100-10 units: Adam, batches of 1,000 rows, 50 steps an epoch."""

    learning_rate: float
    epochs: int


RECIPES = {
    "under_trained": Recipe(5e-5, 8),  # 400 steps at the rate that gives the paper's 88 %
    "as_printed": Recipe(1e-3, 8),  # 400 steps at the paper's rate, which gives 96 to 97 %
    "fully_trained": Recipe(1e-3, 200),  # the paper's 10,000 steps
}
# Recipe for a figure in minutes: a tenth of the paper's steps. No number of the paper is of such
# networks.
SHORT = {"well_trained": Recipe(1e-3, 20)}


@dataclass(frozen=True)
class Pool:
    """Outputs of trained networks on both test sets."""

    folder: Path
    log_proba: dict[str, np.ndarray]  # test set, "1" or "2" → Float32[networks, 10,000, 10]
    labels: dict[str, np.ndarray]  # test set → Int[10,000]

    @property
    def size(self) -> int:
        """Return the number of networks."""
        return len(self.log_proba["1"])

    @classmethod
    def read(cls, folder: Path, at_most: int | None = None) -> Pool:
        """Read the first ``at_most`` networks of the pool in ``folder``, by default all."""
        blocks = sorted(folder.glob("block_*.npz"))[
            : None if at_most is None else -(-at_most // BLOCK)
        ]
        if not blocks:
            raise DataError(
                f"no networks in {folder}: python -m"
                f" experiments.p2.mnist train --to {folder} trains some"
            )
        result: dict[str, list[np.ndarray]] = {"1": [], "2": []}
        for path in blocks:
            with np.load(path) as block:
                for name, parts in result.items():
                    parts.append(block[f"test_set_{name}"])
        with np.load(folder / "labels.npz") as labels:
            stored_labels = {name: labels[f"test_set_{name}"] for name in result}
        return cls(
            folder,
            {name: np.concatenate(parts)[:at_most] for name, parts in result.items()},
            stored_labels,
        )

    def ensemble(self, members: np.ndarray, combine: Combine) -> dict[str, np.ndarray]:
        """Return test set → Float64[10,000, 10], the joint probabilities of the members Int[m]."""
        return {n: joint_proba(p[members], combine) for n, p in self.log_proba.items()}


def joint_proba(log_proba: np.ndarray, combine: Combine) -> np.ndarray:
    """Return Float64[n, K] of the log probabilities Float[members, n, K].

    ``sum_logs`` is the softmax of the summed log outputs, as in the Appendix: with ten members that
    agree, most scores are 1 to many digits. ``mean`` is the mean of the probabilities, as in
    PhANNs.
    """
    log_proba = log_proba.astype(np.float64)
    if combine == "sum_logs":
        return softmax(log_proba.sum(axis=0), axis=1)
    return np.exp(log_proba).mean(axis=0)


def train(folder: Path, recipe: str, networks: int, *, threads: int = 1) -> Iterator[str]:
    """Train the blocks of a pool of ``networks`` that are not there; yields a line for each."""
    settings = (RECIPES | SHORT)[recipe]
    _same_recipe(
        folder, {"recipe": recipe, **asdict(settings), "split_seed": SPLIT_SEED, "block": BLOCK}
    )
    missing = [n for n in range(-(-networks // BLOCK)) if not _block(folder, n).exists()]
    if not missing:
        return
    from kdgraph.parents.networks import (
        MultilayerPerceptronEnsemble,
    )  # imports torch, which a pool that is there does without

    (X, y), sets = rows()
    _save(folder / "labels.npz", {f"test_set_{name}": labels for name, (_, labels) in sets.items()})
    for number in missing:
        fitted = MultilayerPerceptronEnsemble(
            members=BLOCK,
            hidden=(300, 100),
            combine="sum_logs",
            learning_rate=settings.learning_rate,
            batch_size=1000,
            max_epochs=settings.epochs,
            patience=None,
            threads=threads,
            random_state=number,
            checkpoint=folder / f"block_{number:03}.part",
        ).fit(X, y)
        predicted = {name: fitted.member_log_proba(each) for name, (each, _) in sets.items()}
        right = np.mean(predicted["2"].argmax(axis=2) == sets["2"][1], axis=1)
        _save(
            _block(folder, number),
            {f"test_set_{name}": each.astype(np.float32) for name, each in predicted.items()},
        )
        yield (
            f"{_block(folder, number)}: {right.mean():.4f} of test set 2 right"
            f" ({right.min():.4f} to {right.max():.4f})"
        )


def rows() -> tuple[tuple[np.ndarray, np.ndarray], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """Return 50,000 rows that train, and test sets 1 (of official training rows) and 2: X and y."""
    from kdgraph.data.images import OpenmlImages
    from kdgraph.data.splits import make_splits

    source = OpenmlImages("mnist", 554, (1, 28, 28), (60_000, 10_000), flat=True)
    splits = make_splits(source, n_calibration=10_000, rng=np.random.default_rng(SPLIT_SEED))
    train, each, two = (
        (p.X.astype(np.float32), p.y) for p in (splits.train, splits.calibration, splits.test)
    )
    return train, {"1": each, "2": two}


def _same_recipe(folder: Path, settings: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.json"
    if path.exists() and (stored := json.loads(path.read_text())) != settings:
        raise DataError(f"{folder} has networks of another recipe ({stored}); name another folder")
    path.write_text(json.dumps(settings, indent=2) + "\n")


def _block(folder: Path, number: int) -> Path:
    return folder / f"block_{number:03}.npz"


def _save(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a file under its name only when it is complete."""
    part = path.with_name(f"{path.stem}.{os.getpid()}.part.npz")
    np.savez(part, allow_pickle=False, **arrays)
    part.replace(path)
