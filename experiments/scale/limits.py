"""Cost and savings of limits on the size of a kernel density graph.

``python -m experiments.scale.limits`` fits kernel density forests with fewer and fewer Gaussians,
and with fewer and fewer rows whose classes are counted, behind one forest for each table and seed.
It prints NLL and ECE of test rows; the share of them below the floor; AUROC and OCE on test rows
with permuted columns, which are out of distribution by their combinations alone; and microseconds a
row, in processor time on one core. Limits are chosen without any of these rows: they are printed to
show what the default costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from threadpoolctl import threadpool_limits

from experiments.common.command import study_options
from experiments.common.markdown import head, line, number
from experiments.common.seconds import processor_seconds
from kdgraph import KernelDensityForest
from kdgraph.config import plan
from kdgraph.density import graph, out_of_sample
from kdgraph.metrics import auroc, ece
from kdgraph.runner import stages
from kdgraph.smoothing import neighbours

TABLES, SEEDS = ("pendigits", "letter", "electricity", "simulated"), (0, 1)
N_SIMULATED, N_NEW = 100_000, 10_000
GAUSSIANS: tuple[int | None, ...] = (None, 65_536, 16_384, 4096, 1024)
# Lenders that a row meets in a tree, at most. The default begins with 3, of at least 16,384 rows,
# and doubles them where that lowers the out-of-bag NLL by more than .001.
MEETINGS: tuple[float | None, ...] = (None, 16.0, 3.0, 0.5)
MIN_LEAF = {"simulated": 5}


def main() -> None:
    """Print a table of both limits."""
    more: dict[str, dict[str, Any]] = {
        "--tables": {"nargs": "+", "choices": TABLES, "default": TABLES},
        "--seeds": {"type": int, "nargs": "+", "default": SEEDS},
    }
    arguments = study_options(__doc__, more=more)
    with threadpool_limits(1):
        result = pd.DataFrame(
            row for table in arguments.tables for s in arguments.seeds for row in measure(table, s)
        )
    keys = ["table", "limit", "value"]
    means = result.drop(columns="seed").groupby(keys, sort=False).mean().reset_index()
    names = ["NLL", "ECE", "below the floor", "AUROC", "OCE", "µs a row"]
    print(*head([*keys, "used", *names]), sep="\n")
    for _, row in means.iterrows():
        cells = [row[key] for key in keys] + [f"{row['used']:,.0f}"]
        print(line([*cells, *(number(row[name], 1 if "µs" in name else 4) for name in names)]))


def rows_of(table: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and their classes, then test rows and their classes."""
    if table == "simulated":
        options = {"n_informative": 10, "n_redundant": 5, "flip_y": 0.1, "class_sep": 0.8}
        X, y = make_classification(N_SIMULATED + N_NEW, 20, random_state=seed, **options)
        return X[:-N_NEW], y[:-N_NEW], X[-N_NEW:], y[-N_NEW:]
    config = plan([f"dataset=cc18/{table}", f"seed={seed}", "method=kdf"]).jobs[0].config
    splits = stages.split(config.dataset, config.seed)
    learn = [splits.train, splits.calibration]
    X, y = (np.concatenate([getattr(part, name) for part in learn]) for name in ("X", "y"))
    return np.asarray(X, dtype=float), y, np.asarray(splits.test.X, dtype=float), splits.test.y


def measure(table: str, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the numbers of each limit, the other one being the default."""
    X, y, test, test_y = rows_of(table, seed)
    rng = np.random.default_rng(seed)
    permuted = np.column_stack([rng.permutation(column) for column in test.T])
    forest = RandomForestClassifier(
        100, min_samples_leaf=MIN_LEAF.get(table, 1), random_state=seed
    ).fit(X, y)

    def fit() -> KernelDensityForest:
        return KernelDensityForest(FrozenEstimator(forest), n_jobs=1, random_state=0).fit(X, y)

    for count, is_exact in [(None, True), *((count, False) for count in GAUSSIANS)]:
        if count is None or count < len(X):
            with (
                patch.object(graph, "MAX_GAUSSIANS", count),
                patch.object(
                    neighbours,
                    "MAX_MEANS_IN_PRODUCT",
                    len(X) if is_exact else neighbours.MAX_MEANS_IN_PRODUCT,
                ),
            ):
                model = fit()
            used = len(model.graph_.gaussians.means)
            name = "all" if count is None else f"{count:,}"
            name += ", exact search" if is_exact else ""
            yield {
                **{"table": table, "seed": seed, "limit": "Gaussians", "value": name, "used": used},
                **numbers(model, test, test_y, permuted),
            }
    for most in (*MEETINGS, "default"):
        with ExitStack() as constants:
            if most != "default":
                for module, name, value in (
                    (graph, "MAX_MEETINGS_PER_TREE", np.inf if most is None else most),
                    (graph, "MIN_CLASS_ROWS", 1),
                    (out_of_sample, "MAX_NLL_LOSS", np.inf),
                    (out_of_sample, "MIN_LOWERED_ROWS", np.inf),
                ):
                    constants.enter_context(patch.object(module, name, value))
            model = fit()
        name = "all" if most is None else str(most).removesuffix(".0")
        counts = model.graph_.counts
        assert counts is not None and counts.class_rows is not None
        used = len(counts.class_rows)
        yield {
            **{"table": table, "seed": seed, "limit": "counted rows", "value": name, "used": used},
            **numbers(model, test, test_y, permuted),
        }


def numbers(
    model: KernelDensityForest, test: np.ndarray, test_y: np.ndarray, permuted: np.ndarray
) -> dict[str, float]:
    """Return what one model is measured by."""
    model.predict_proba(test[:100])
    proba, seconds = processor_seconds(lambda: model.predict_proba(test))
    inside, outside = model.ood_score(test), model.ood_score(permuted)
    true = np.maximum(proba[np.arange(len(test)), test_y], 1e-6)
    excess = np.abs(model.predict_proba(permuted).max(axis=1) - model.prior_.max())
    return {
        "NLL": float(-np.log(true).mean()),
        "ECE": ece(test_y, proba),
        "below the floor": float((inside > 0).mean()),
        "AUROC": auroc(outside, inside),
        "OCE": float(excess.mean()),
        "µs a row": seconds / len(test) * 1e6,
    }


if __name__ == "__main__":
    main()
