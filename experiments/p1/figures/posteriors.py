"""Maps of Figure 4, models of finished runs on a grid, and their distance from the truth.

``python -m experiments.p1.figures.posteriors outputs --keep outputs`` after runs of
``paper/p1/posteriors``, of which those with most training rows are taken, with all seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options
from experiments.common.frames import half_width
from experiments.common.markdown import counted_noun, number
from experiments.common.models import models_of
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p1.versions import version_of

REACH, SIDE = 2.0, 150  # the square [-2, 2]², points along each side
EXTENT = (-REACH, REACH, -REACH, REACH)
ID_BOX = (-1.0, 1.0, -1.0, 1.0)
FEWER = 50  # Points along each side for a mean over the grid
# Keys in which runs may be smaller than the experiment's.
FREE = ("dataset.n_train", "ood.n", "parent.n_estimators", "parent.hidden", "parent.max_epochs")
# Part of the plane in which a map is compared: the box by area, with and without the paper's rule,
# and the rows.
PARTS = titles("p1", "figures.posteriors")["parts"]
METHODS = {"random_forest": ("KDF", "the forest"), "mlp": ("KDN", "the network")}


def grid_points(side: int = SIDE) -> np.ndarray:
    """Return Float[side², 2], centres of the cells of the square, x₁ fastest."""
    centres = (np.arange(side) + 0.5) * (2 * REACH / side) - REACH
    return np.column_stack([axis.ravel() for axis in np.meshgrid(centres, centres)])


def first_class(model: Any) -> np.ndarray:
    """Return Float[SIDE, SIDE], the probability of the first class on the grid."""
    return model.predict_proba(grid_points())[:, 0].reshape(SIDE, SIDE)


def truth(splits: Any) -> np.ndarray:
    """Return the true posterior on the grid, one half outside the data's box, as in the paper."""
    points = grid_points()
    inside = np.abs(points).max(axis=1) <= 1
    exact = np.full(len(points), 0.5)
    exact[inside] = splits.test.posterior(points[inside])[:, 0]
    return exact.reshape(SIDE, SIDE)


def distances(records: Iterable[Record], outputs: Path) -> Iterator[dict[str, Any]]:
    """Return mean |posterior − truth| of parent and model of each run by :data:`PARTS`."""
    points = grid_points(FEWER)
    inside = np.abs(points).max(axis=1) <= 1
    for record in records:
        splits, parent, model = models_of(record, outputs)
        keys, X = splits.test.posterior, splits.test.X
        places = {
            "inside": (points[inside], keys(points[inside])[:, 0]),
            "as in the paper": (
                points[inside],
                keys.source.posterior_on_paper_grid(points[inside])[:, 0],
            ),
            "test rows": (X, keys(X)[:, 0]),
            "outside": (points[~inside], 0.5),
        }
        shared = {
            "dataset": record["dataset"]["name"],
            "parent": record["parent"],
            "seed": record["seed"],
        }
        shared |= {"variant": version_of(record["config"]["calibrator"])}
        for part, (at, exact) in places.items():
            off = (float(np.abs(x.predict_proba(at)[:, 0] - exact).mean()) for x in (parent, model))
            yield {**shared, "part": part, **dict(zip(("of_parent", "of_model"), off, strict=True))}


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield that the mean distance is below the parent's on every simulation, over seeds."""
    for (parent, variant, part), rows in frame.groupby(["parent", "variant", "part"], sort=False):
        method, title = METHODS[str(parent)]
        details, clear = [], 0
        for dataset, group in rows.groupby("dataset", sort=False):
            difference = group.of_model - group.of_parent
            clear += bool(difference.mean() + half_width(difference, 0) < 0)
            details.append(
                f"{str(dataset).replace('_', ' ')} {number(group.of_model.mean())} against"
                f" {number(group.of_parent.mean())}"
            )
        text = (
            f"{method} ({variant}): mean distance to the {PARTS[str(part)]} is below that of"
            f" {title} on every simulation: each 95 % interval of the mean difference is below 0"
        )
        seeds = counted_noun(rows.groupby("dataset").seed.nunique().tolist(), "seed")
        evidence = f"On {clear} of {len(details)}: {', '.join(details)}; {seeds}"
        yield Claim(text, clear == len(details), evidence, ("fig4",))


def main() -> None:
    """Print the claims of the runs below a folder, and save them with ``--keep``."""
    options = study_options(__doc__, keep=True, outputs=True)
    records = [
        r
        for r in runs_of("paper/p1/posteriors", options.outputs, FREE)
        if r["config"]["calibrator"]["distance"] == "geodesic"
    ]
    if not records:
        sys.exit(
            f"no run in {options.outputs} is of Figure 4: kdg run"
            " experiment=paper/p1/posteriors seed=0,1,2"
        )
    most = max(record["config"]["dataset"]["n_train"] for record in records)
    largest = (r for r in records if r["config"]["dataset"]["n_train"] == most)
    details = list(claims(pd.DataFrame(distances(largest, options.outputs))))
    print_claims(details, options.keep, "p1_posteriors")


if __name__ == "__main__":
    in_one_line(main)
