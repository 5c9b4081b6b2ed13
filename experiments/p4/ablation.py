"""Parts of LoRe and the largest error of a group: map, scale, bins, bandwidth, epochs and the rule
of choice, on Communities and Crime.

``python -m experiments.p4.ablation outputs --seeds 60`` uses the networks of ``kdg run
experiment=paper/p4/crime`` and ``crime_long`` from the store below ``outputs``, or trains them.
Settings are chosen seed by seed on calibration rows alone, each left out of its own neighbourhood,
by one of :data:`RULES`. The rule of LoRe was decided on the test rows of the first
:data:`LOOKED_AT` seeds, so that the others show the worth of a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from experiments.common.command import study_options
from experiments.common.frames import where
from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.p4.setting import DIFFERENCE, difference_cells
from kdgraph.calibration.local.neighbours import FeatureView, LocalKernel, Neighbours, QueryRows
from kdgraph.config import plan
from kdgraph.features import FeatureMap
from kdgraph.metrics import TopLabel, group_mce
from kdgraph.metrics.reliability_bins import bin_edges
from kdgraph.runner import stages
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.stored_stages import StoredStages
from kdgraph.smoothing import rms_of

NETWORKS = {"stopped early": "paper/p4/crime", "60 epochs": "paper/p4/crime_long"}
BANDWIDTHS = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 1e6)
BINS = (1, 5, 15)
FIXED = (0.1, 0.2, 0.4)  # Bandwidths with a column of their own: the paper's two, and a smaller one
LOOKED_AT = 20  # Seeds whose test rows helped to decide on a rule
SHARE = 500 / 1494  # Test rows per fitted row
# Histogram binning: five bins in which all rows are equally near.
HISTOGRAM = ("layer, scale spread", 5, BANDWIDTHS[-1])
# One confidence for all rows, the share of right calibration rows.
CONSTANT = ("layer, scale spread", 1, BANDWIDTHS[-1])


def least_brier(settings: pd.DataFrame) -> int:
    """Return the label of the setting with the least Brier score."""
    return int(settings.chosen_by.idxmin())


def most_rows(settings: pd.DataFrame) -> int:
    """Return the setting with the most effective rows within an error of the least Brier."""
    return int(_good_enough(settings).n_eff.idxmax())


def fewest_bins(settings: pd.DataFrame) -> int:
    """Return the setting with the fewest bins within a standard error of the least Brier score."""
    good = _good_enough(settings)
    return int(good[good.bins == good.bins.min()].n_eff.idxmax())


RULES: dict[str, Callable[[pd.DataFrame], int]] = {
    "least Brier": least_brier,
    "within 1 SE, most rows": most_rows,
    "within 1 SE, fewest bins (`simplest`)": fewest_bins,
}


def _good_enough(settings: pd.DataFrame) -> pd.DataFrame:
    # Brier scores within a standard error of the least are not distinguished by these rows, so that
    # the rules may prefer a simpler setting among them.
    least = settings.loc[settings.chosen_by.idxmin()]
    return settings[settings.chosen_by <= least.chosen_by + least.standard_error]


def spaces(
    parent: Any, calibration: Any, test: Any, seed: int
) -> Iterator[tuple[str, LocalKernel, np.ndarray, np.ndarray, FeatureView]]:
    """Yield name, kernel, and the calibration and test rows in its feature space."""
    maps = {
        "PCA (20)": FeatureMap(reduce="pca", dimensions=20),
        "t-SNE (2)": FeatureMap(reduce="tsne", dimensions=2),
        "layer": FeatureMap(reduce="none"),
    }
    for name, map_ in maps.items():
        map_.set_params(scale="none", random_state=seed)
        map_.fit(
            parent, np.concatenate([calibration, test]) if map_.is_transductive else calibration
        )
        features = [map_.transform(parent, X) for X in (calibration, test)]
        spread = rms_of(features[0])
        scales: list[tuple[str, LocalKernel, Any]] = [("spread", "laplacian", spread)]
        scales.append(("none", "laplacian", 1.0))
        if name == "PCA (20)":
            axes = features[0].std(axis=0)
            scales.append(("each axis", "laplacian", np.where(axes > 0, axes, 1)))
            scales.append(("spread, Gaussian", "gaussian", spread))
        for scale, kernel, unit in scales:
            view = FeatureView(kernel, parent)
            yield f"{name}, scale {scale}", kernel, features[0] / unit, features[1] / unit, view
    view = FeatureView("geodesic", parent)
    yield "geodesic", "geodesic", view(calibration), view(test), view


def settings_of(seed: int, experiment: str, out: Path) -> Iterator[dict[str, Any]]:
    """Yield each setting's cross-validated Brier score, and its errors on test rows."""
    words = [f"experiment={experiment}", "method=choice(paper/p4/crime/none)"]
    config = plan([*words, f"seed=choice({seed})", f"out={out}"]).jobs[0].config
    splits = stages.split(config.dataset, seed)
    parent = StoredStages(config, splits, ProgressReporter()).fit().value
    rows = {"calibration": splits.calibration, "test": splits.test}
    top_label = {on: TopLabel.from_proba(parent.predict_proba(each.X)) for on, each in rows.items()}
    right = {on: top_label[on].correct(rows[on].y) for on in rows}
    no_group = {on: np.zeros(len(each.y), dtype=np.intp) for on, each in rows.items()}
    for name, kernel, features, test_features, view in spaces(
        parent, rows["calibration"].X, rows["test"].X, seed
    ):
        at = {
            on: QueryRows(s, top_label[on].confidence, no_group[on], top_label[on].confidence)
            for on, s in (("calibration", features), ("test", test_features))
        }
        values = right["calibration"].astype(np.float64)
        confidence = top_label["calibration"].confidence
        weight, edges = np.ones(len(values)), bin_edges(confidence, 1, "uniform")
        near = Neighbours(
            kernel, features, values, confidence, weight, edges, no_group["calibration"]
        )
        for bins in BINS:
            binned = near.with_bins(bins)
            held, n_eff, _ = binned.kernel_average(
                at["calibration"], BANDWIDTHS, view, leave_one_out=True
            )
            predicted = binned.kernel_average(at["test"], BANDWIDTHS, view)[0]
            squared = (held - values) ** 2
            for i, gamma in enumerate(BANDWIDTHS):
                stated = replace(top_label["test"], confidence=predicted[i].clip(0, 1))
                setting = {"seed": seed, "map": name, "bins": bins, "bandwidth": gamma}
                yield {
                    **setting,
                    "n_eff": float(np.median(n_eff[i])),
                    "chosen_by": float(squared[i].mean()),
                    "standard_error": float(squared[i].std() / np.sqrt(len(values))),
                    "group_mce": group_mce(splits.test.y, stated, splits.test.groups, bins=5),
                    "brier": float(np.mean((predicted[i] - right["test"]) ** 2)),
                }


def _rows(seed: int, experiment: str, out: Path) -> list[dict[str, Any]]:
    return list(settings_of(seed, experiment, out))


def chosen(settings: pd.DataFrame, rule: Callable[[pd.DataFrame], int]) -> pd.DataFrame:
    """Return the row of each seed that the rule chooses."""
    return settings.loc[[rule(each) for _, each in settings.groupby("seed")]]


def fixed_table(frame: pd.DataFrame) -> str:
    """Return mean max group MCE by map and bins, at fixed and at chosen bandwidths."""
    rows = []
    for (name, bins), part in frame.groupby(["map", "bins"], sort=False):
        cells = [number(float(part[part.bandwidth == gamma].group_mce.mean())) for gamma in FIXED]
        rows.append([str(name), str(bins), *cells, *_summary(chosen(part, least_brier))])
    return markdown_table(
        ["map and scale", "bins", *(f"γ = {g:g}" for g in FIXED), "γ by CV", "sd", "its Brier"],
        rows,
    )


def rules_table(frame: pd.DataFrame) -> str:
    """Return the result of each rule for each map, less that of histogram binning."""
    histogram, constant = (_setting(frame, *each) for each in (HISTOGRAM, CONSTANT))
    less = ["less histogram binning", *DIFFERENCE[1:]]
    rows = []
    maps = [(str(each), part) for each, part in frame.groupby("map", sort=False)]
    for each, part in [*maps, ("**all of them**", frame)]:
        for rule, choose in RULES.items():
            best = chosen(part, choose)
            difference = best.set_index("seed").group_mce - histogram
            cells = [
                cell
                for part in (difference, difference[difference.index >= LOOKED_AT])
                for cell in difference_cells(part, SHARE)
            ]
            rows.append([each, rule, *_summary(best), *cells])
    means = (f"{number(float(x.mean()))} ± {number(float(x.std()))}" for x in (histogram, constant))
    columns = ["map and scale", "rule", "max group MCE", "sd", "its Brier", *less]
    printed = markdown_table([*columns, f"seeds from {LOOKED_AT} on", *DIFFERENCE[1:]], rows)
    note = "Histogram binning: {}; one confidence for all rows: {}.".format(*means)
    return f"{printed}\n\n{note}"


def _setting(frame: pd.DataFrame, name: str, bins: int, bandwidth: float) -> pd.Series:
    return where(frame, map=name, bins=bins, bandwidth=bandwidth).set_index("seed").group_mce


def _summary(chosen: pd.DataFrame) -> list[str]:
    return [
        number(float(chosen.group_mce.mean())),
        number(float(chosen.group_mce.std())),
        number(float(chosen.brier.mean())),
    ]


def main() -> None:
    """Print the tables."""
    arguments = study_options(__doc__, outputs=True, seeds=60, jobs=-1)
    for network, experiment in NETWORKS.items():
        rows = Parallel(arguments.jobs)(
            delayed(_rows)(seed, experiment, arguments.outputs) for seed in range(arguments.seeds)
        )
        frame = pd.DataFrame(list(chain.from_iterable(rows)))
        print(
            f"### {network}, {frame.seed.nunique()}"
            f" seeds\n\n{fixed_table(frame)}\n\n{rules_table(frame)}\n"
        )


if __name__ == "__main__":
    main()
