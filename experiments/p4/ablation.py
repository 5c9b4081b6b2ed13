"""What of LoRe makes the largest error of a group: map, scale, bins, bandwidth and epochs, on Communities and Crime.

``python -m experiments.p4.ablation outputs --seeds 60`` uses the networks of ``kdg run experiment=paper/p4/crime`` and ``crime_long`` where
they are in the store below ``outputs``, and trains them else. For each seed the setting with the least cross-validated Brier score on
calibration rows is chosen too, among those of one row and among all, without a look at test rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.markdown import head, line, number
from kdgraph.calibration.local.neighbours import LocalKernel, Neighbours, Places, Sight
from kdgraph.config import plan
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel, group_mce
from kdgraph.metrics.calibration import bin_edges
from kdgraph.runner import stages
from kdgraph.runner.stored import StoredStages
from kdgraph.runner.watch import Watch
from kdgraph.smoothing import rms_of

NETWORKS = {"stopped early": "paper/p4/crime", "60 epochs": "paper/p4/crime_long"}
BANDWIDTHS = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 1e6)
BINS = (1, 5, 15)
FIXED = (0.1, 0.2, 0.4)
"""Bandwidths that have a column of their own: the paper's two, and a smaller one."""


def spaces(parent: Any, calibration: Any, test: Any, seed: int) -> Iterator[tuple[str, LocalKernel, np.ndarray, np.ndarray, Sight]]:
    """Name, kernel, calibration rows and test rows as the kernel sees them."""
    maps = {
        "PCA (20)": FeatureMap(reduce="pca", dimensions=20),
        "t-SNE (2)": FeatureMap(reduce="tsne", dimensions=2),
        "layer": FeatureMap(reduce="none"),
    }
    for name, map_ in maps.items():
        map_.set_params(scale="none", random_state=seed)
        map_.fit(parent, np.concatenate([calibration, test]) if map_.is_joint else calibration)
        seen = [map_.transform(parent, X) for X in (calibration, test)]
        for scale, unit in (("spread", rms_of(seen[0])), ("none", 1.0)):
            yield f"{name}, scale {scale}", "laplacian", seen[0] / unit, seen[1] / unit, Sight("laplacian", parent)
        if name == "PCA (20)":
            axes = seen[0].std(axis=0)
            axes = np.where(axes > 0, axes, 1)
            yield f"{name}, scale each axis", "laplacian", seen[0] / axes, seen[1] / axes, Sight("laplacian", parent)
            unit = rms_of(seen[0])
            yield f"{name}, scale spread, Gaussian", "gaussian", seen[0] / unit, seen[1] / unit, Sight("gaussian", parent)
    sight = Sight("geodesic", parent)
    yield "geodesic", "geodesic", sight(calibration), sight(test), sight


def settings_of(seed: int, experiment: str, out: Path) -> Iterator[dict[str, Any]]:
    """One row for each setting: its cross-validated Brier score on calibration rows, and max group MCE and Brier score on test rows."""
    config = plan([f"experiment={experiment}", "method=choice(paper/p4/crime/none)", f"seed=choice({seed})", f"out={out}"]).jobs[0].config
    splits = stages.split(config.dataset, seed)
    parent = StoredStages(config, splits, Watch()).fit().value
    rows = {"calibration": splits.calibration, "test": splits.test}
    top = {on: TopLabel.of(parent.predict_proba(each.X)) for on, each in rows.items()}
    right = {on: top[on].correct(rows[on].y) for on in rows}
    nobody = {on: np.zeros(len(each.y), dtype=np.intp) for on, each in rows.items()}
    for name, kernel, seen, seen_test, sight in spaces(parent, rows["calibration"].X, rows["test"].X, seed):
        at = {on: Places(s, top[on].confidence, nobody[on], top[on].confidence) for on, s in (("calibration", seen), ("test", seen_test))}
        values = right["calibration"].astype(np.float64)
        confidence = top["calibration"].confidence
        near = Neighbours(
            kernel, seen, values, confidence, np.ones(len(values)), bin_edges(confidence, 1, "uniform"), nobody["calibration"]
        )
        for bins in BINS:
            here = near.with_bins(bins)
            held = here.said(at["calibration"], BANDWIDTHS, sight, leave_one_out=True)[0]
            said = here.said(at["test"], BANDWIDTHS, sight)[0]
            for gamma, in_sample, on_test in zip(BANDWIDTHS, held, said, strict=True):
                stated = TopLabel(top["test"].predicted, on_test.clip(0, 1), top["test"].n_classes)
                worst = group_mce(splits.test.y, stated, splits.test.groups, bins=5)
                brier = float(np.mean((on_test - right["test"]) ** 2))
                yield {"seed": seed, "map": name, "bins": bins, "bandwidth": gamma, "chosen_by": float(np.mean((in_sample - values) ** 2)),
                       "group_mce": worst, "brier": brier}  # fmt: skip


def table(frame: pd.DataFrame, network: str) -> str:
    """Mean of max group MCE for each map and number of bins, at fixed bandwidths and at those chosen on calibration rows."""
    lines = head(["map and scale", "bins", *(f"γ = {g:g}" for g in FIXED), "γ by CV", "sd", "its Brier"])
    for (name, bins), part in frame.groupby(["map", "bins"], sort=False):
        chosen = part.loc[part.groupby("seed").chosen_by.idxmin()]
        cells = [number(float(part[part.bandwidth == gamma].group_mce.mean())) for gamma in FIXED]
        lines.append(line([str(name), str(bins), *cells, *_summary(chosen)]))
    for what, part in (("all of them", frame), ("all with 5 bins", frame[frame.bins == 5])):
        chosen = part.loc[part.groupby("seed").chosen_by.idxmin()]
        lines.append(line([f"**chosen by CV among {what}**", "", *[""] * len(FIXED), *_summary(chosen)]))
    return "\n".join([f"### {network}, {frame.seed.nunique()} seeds", "", *lines])


def _summary(chosen: pd.DataFrame) -> list[str]:
    return [number(float(chosen.group_mce.mean())), number(float(chosen.group_mce.std())), number(float(chosen.brier.mean()))]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("outputs", nargs="?", default="outputs", type=Path)
    parser.add_argument("--seeds", type=int, default=60)
    arguments = parser.parse_args()
    for network, experiment in NETWORKS.items():
        rows = [row for seed in range(arguments.seeds) for row in settings_of(seed, experiment, arguments.outputs)]
        print(table(pd.DataFrame(rows), network) + "\n")


if __name__ == "__main__":
    main()
