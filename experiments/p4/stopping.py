"""Early stopping on the 500 rows that recalibrate, as in the paper's split of 994, 500 and 500
rows: a variant of Tables 1 and 3 of Luo et al. on Communities and Crime.

A run of ``kdg`` holds rows of the training set out to stop on, so that nothing uses calibration
rows before they calibrate. The paper has one validation set for both. Here a network is trained so,
for each seed and criterion, and the methods that need no t-SNE and no training of their own are
fitted after it. ``python -m experiments.p4.stopping --seeds 60`` prints means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.command import in_one_line, study_options
from experiments.common.titles import titles
from experiments.p4 import crime, setting
from kdgraph.base import FittedModel
from kdgraph.config import RunConfig, plan
from kdgraph.data.dataset import Splits
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.runner import stages
from kdgraph.runner.evaluate import Spaces, evaluate

METHODS = titles("p4", "stopping")["methods"]
SEEDS = 60
N_VALIDATION = 500  # Rows that stop the training and recalibrate
ON_THEM = "network stopped on the 500 rows that recalibrate"
_BINS = {"ece": {"bins": 5}, "group_mce": {"bins": 5, "reduce": "max"}}
_ON_TEST = {"nll_top": {"clip": 1e-12}, "brier_top": {}, **_BINS}
METRICS = {"test": _ON_TEST, "calibration": {}, "ood": {}, "grid": {}}


@dataclass(eq=False, repr=False)
class StoppedOnLastRows(MultilayerPerceptron):
    """Multilayer perceptron that stops on its last ``n_validation`` training rows."""

    n_validation: int = N_VALIDATION

    def _split_rows(
        self, target: np.ndarray, weight: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, int]:
        *_, seed = super()._split_rows(target, weight)
        last = len(target) - self.n_validation
        return np.arange(last), np.arange(last, len(target)), seed


def fit_on_both(config: RunConfig, splits: Splits) -> Any:
    """Return the network of a config, fitted to training rows and stopped on calibration rows.

    Columns are imputed and standardised by the rows of both, without their labels.
    """
    train, calibration = splits.train, splits.calibration
    arrays = {
        name: np.concatenate([getattr(train, name), getattr(calibration, name)])
        for name in ("X", "y", "groups")
    }
    both = replace(train, **arrays, source_rows=None)
    target = f"{__name__}.{StoppedOnLastRows.__name__}"
    node = dict(config.parent) | {"_target_": target, "n_validation": len(calibration.y)}
    return fit_parent(config, node, replace(splits, train=both), config.seed)


def fit_parent(config: RunConfig, node: Mapping[str, Any], splits: Splits, seed: int) -> Any:
    """Return the parent of a node, preprocessed as in a config and fitted to training rows."""
    preprocessing: dict[str, Any] = {
        "preprocess": config.preprocess,
        "has_missing": splits.has_missing,
    }
    return stages.fit(node, splits.train, seed=seed, n_jobs=1, **preprocessing)


def configs_of(methods: Sequence[str], experiment: str = crime.STOPPED) -> dict[str, RunConfig]:
    """Return method → config of its first run of an experiment."""
    words = [
        f"experiment={experiment}",
        f"method=choice({','.join(f'paper/p4/crime/{method}' for method in methods)})",
        "seed=choice(0)",
    ]
    jobs = plan(words).jobs
    return dict(zip(methods, (job.config for job in jobs), strict=True))


def entries_of(configs: Mapping[str, RunConfig], seed: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of one seed as :func:`experiments.p4.setting.entries`."""
    first = next(iter(configs.values()))
    splits = stages.split(first.dataset, seed)
    parent = fit_on_both(replace(first, seed=seed), splits)
    yield from entries_behind(parent, splits, configs, seed, METRICS)


def entries_behind(
    parent: Any,
    splits: Splits,
    configs: Mapping[str, RunConfig],
    seed: int,
    metrics: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Fit each method behind one fitted network, and yield its numbers on test rows.

    Seeds are of the components and of the embeddings in which local errors are measured.
    """
    first = next(iter(configs.values()))
    # Every method on one network is measured in the same embeddings, which take seconds.
    spaces = Spaces(first.spaces, parent, splits, seed)
    for method, config in configs.items():
        arguments: dict[str, Any] = {"ood": config.ood, "seed": seed}
        model = stages.calibrate(
            config.after, parent, splits, protocol=config.protocol, n_jobs=1, **arguments
        )
        rows: dict[str, Any] = {"dataset": config.dataset, "splits": splits, "spaces": spaces}
        evaluation = evaluate(FittedModel(parent), model, metrics, **rows, **arguments)
        for entry in evaluation.metrics:
            if entry["on"] == "test" and entry["of"] == (
                "parent" if method == "none" else "calibrated"
            ):
                yield {"method": method, "seed": seed, **{k: entry[k] for k in ("metric", "value")}}


def tables(seeds: int = SEEDS) -> pd.DataFrame:
    """Return Tables 1 and 3 as a variant, as :func:`experiments.p4.setting.measured` has them."""
    configs = configs_of(METHODS)
    frame = pd.DataFrame(entry for seed in range(seeds) for entry in entries_of(configs, seed))
    methods = {method: crime.SETTING.methods[method] for method in METHODS}
    setting_ = replace(crime.SETTING, methods=methods, titles={}, variants={})
    return setting.measured(frame, setting_, ON_THEM, correlated=False)


def main() -> None:
    """Print means and standard deviations over seeds."""
    options = study_options(__doc__, seeds=SEEDS)
    by = tables(options.seeds).groupby(["item", "metric", "method"]).value
    print(by.agg(["mean", "std", "count"]).round(3).to_string())


if __name__ == "__main__":
    in_one_line(main)
