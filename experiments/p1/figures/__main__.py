"""Figures 1, 3 and 4 of Dey et al. from finished runs, and their numbers beside the published ones.

``python -m experiments.p1.figures outputs`` after the experiments ``paper/p1/simulations``,
``trunk`` and ``shapes`` (``posteriors`` for Figure 4 alone), with any subset of their runs.
``--free parent.hidden`` takes runs that differ in that key too, ``--only figure3`` draws one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.command import study_options
from experiments.common.frames import where
from experiments.common.markdown import counted_noun
from experiments.common.models import models_of
from experiments.common.pictures import save_and_report
from experiments.common.published import read_published
from experiments.common.runs import Record, expected, runs_of
from experiments.common.titles import titles
from experiments.p1.figures import floors, posteriors
from experiments.p1.figures.numbers import frame
from experiments.p1.figures.panels import RepeatedCurves, plot_simulation_summary
from experiments.p1.figures.posterior_grid import plot_posterior_grid
from experiments.p1.figures.tables import figure1_table, figure3_table, trunk_table
from experiments.p1.versions import version_of
from kdgraph.config import compose
from kdgraph.data.simulations.shapes import ShapeCanvas
from kdgraph.figures import plot_confidence_against_shift, plot_image_row
from kdgraph.runner import stages

PAPER = Path(__file__).resolve().parents[1]  # Folder of the paper with its pictures
_save = partial(save_and_report, paper=PAPER)
TITLES = titles("p1", "figures.__main__")
SIMULATIONS = TITLES["simulations"]
GROUPS = {"random_forest": ("random forest", "KDF"), "mlp": ("network", "KDN")}
DISTANCES = TITLES["distances"]
# Variant of the planar simulations → that of the Trunk row in the same figure: the paper's was made
# by the later version.
VARIANTS = {"kdgraph": "kdgraph", "figure1": "reference"}
SHOWN_POINTS = 2000
FAR = 20.0


def main() -> None:
    """Draw and print all that the runs allow."""
    to = PAPER / "pictures"
    arguments = study_options(__doc__, outputs=True, to=to, only=FIGURES, free=True)
    for name in arguments.only:
        start = time.monotonic()
        FIGURES[name](arguments.outputs, arguments.free, arguments.to)
        print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr)


def figure1(outputs: Path, free: list[str], to: Path) -> None:
    """Draw Figure 1, once for kdgraph's variant and once for the paper's, and print its table."""
    result = _read_runs("paper/p1/simulations", outputs, [*free, *floors.FREE])
    planes = {variant: _plane(result, variant) for variant in VARIANTS}
    plane = pd.concat(planes.values(), ignore_index=True)
    trunk = frame(_read_runs("paper/p1/trunk", outputs, free))
    for variant, of_trunk in VARIANTS.items():
        rows = {label: _planar_row(planes[variant], d, variant) for d, label in SIMULATIONS.items()}
        rows["Trunk"] = _trunk_row(trunk, of_trunk)
        rows = {label: groups for label, groups in rows.items() if groups}
        if rows:
            data = {label: _points(label) for label in rows}
            _save(
                plot_simulation_summary(data, rows, band_of=_seeds(planes[variant], trunk)),
                to / f"figure1_{variant}",
            )
    if len(plane):
        print(
            "## Figure 1 A: medians over seeds\n\n"
            + figure1_table(plane, read_published(PAPER))
            + "\n"
        )
    if len(trunk):
        print("## Figure 1 B: medians over seeds\n\n" + trunk_table(trunk, FAR) + "\n")


def figure3(outputs: Path, free: list[str], to: Path) -> None:
    """Draw an image of each kind (A to C) and D to F with bands over seeds, and print its table."""
    _save(plot_image_row(*_images()), to / "figure3_images")
    shapes = frame(_read_runs("paper/p1/shapes", outputs, free))
    if not len(shapes):
        return
    far = where(shapes, on="ood", metric="mmc")
    names = {"parent": "network", "default": "KDN"}
    curves, values, bands, ids = {}, {}, {}, {}
    for (ood, param), family in far.groupby(["ood", "param"], sort=False):
        label = param if param == ood else f"{param} of the {ood}"
        wide = {
            n: family[family.model == m].pivot_table(index="seed", columns="at", values="value")
            for m, n in names.items()
        }
        values[label] = wide["KDN"].columns.to_numpy(dtype=float)
        curves[label] = {name: each.median().to_numpy() for name, each in wide.items()}
        bands[label] = {
            name: tuple(each.quantile([0.25, 0.75]).to_numpy()) for name, each in wide.items()
        }
        ids[label] = sorted(family[family.id]["at"].unique())
    prior = float(far.prior.max())
    drawn: dict[str, Any] = {"bands": bands, "band_of": f"25 to 75 % of {_seeds(shapes)}"}
    figure = plot_confidence_against_shift(curves, values, prior, id_values=ids, **drawn)
    _save(figure, to / "figure3")
    print(
        "## Figure 3: mean max confidence, medians over seeds (25 to 75 %)\n\n"
        + figure3_table(far, names)
        + "\n"
    )


def figure4(outputs: Path, free: list[str], to: Path) -> None:
    """Draw Figure 4, for kdgraph's variant and Figure 1's, from the runs with most rows."""
    records = [
        record
        for record in _read_runs("paper/p1/posteriors", outputs, [*free, "dataset.n_train"])
        if record["seed"] == 0
    ]
    most = max((record["config"]["dataset"]["n_train"] for record in records), default=0)
    records = [record for record in records if record["config"]["dataset"]["n_train"] == most]
    for variant in VARIANTS:
        data, maps = {}, {}
        for dataset, label in SIMULATIONS.items():
            of_this = [
                r
                for r in records
                if r["dataset"]["name"] == dataset
                and version_of(r["config"]["calibrator"]) == variant
            ]
            if of_this:
                data[label], maps[label] = _maps(of_this, outputs)
        if data:
            figure = plot_posterior_grid(
                data, maps, posteriors.EXTENT, posteriors.ID_BOX, class_label="P(class 0 | x)"
            )
            _save(figure, to / f"figure4_{variant}")


def _images() -> tuple[list[np.ndarray], list[str]]:
    half = np.array([[10.0, 10.0], [25.0, 10.0], [10.0, 30.0]])
    is_box = np.array([False, True, False])
    painted = ShapeCanvas(100, 3, rotated=False, inside=True).paint(
        half, is_box, 127.0, np.random.default_rng(0)
    )
    return list(painted), ["A  circle", "B  rectangle", "C  ellipse"]


def _maps(
    records: list[Record], outputs: Path
) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, np.ndarray]]:
    maps: dict[str, np.ndarray] = {}
    shown = None
    for group, (parent_name, method) in GROUPS.items():
        for distance in ("geodesic", "euclidean"):
            for record in records:
                if (
                    record["parent"] == group
                    and record["config"]["calibrator"]["distance"] == distance
                ):
                    splits, parent, model = models_of(record, outputs)
                    shown = shown or (splits.train.X[:SHOWN_POINTS], splits.train.y[:SHOWN_POINTS])
                    if "truth" not in maps:
                        maps["truth"] = posteriors.truth(splits)
                    if parent_name not in maps:
                        maps[parent_name] = posteriors.first_class(parent)
                    maps[f"{method}\n{DISTANCES[distance]}"] = posteriors.first_class(model)
    assert shown is not None  # there is a record
    return shown, maps


def _plane(records: list[Record], variant: str) -> pd.DataFrame:
    if variant == "kdgraph":
        return frame(
            r
            for r in records
            if (version_of(r["config"]["calibrator"]), r["config"]["ood"]["unit"])
            == (variant, "max_norm")
        )
    near, far = (
        frame(r for r in records if has(r["config"])) for has in (floors.is_near, floors.is_far)
    )
    if len(near) and len(far):
        return pd.concat([near[near.metric != "mmc"], far[far.metric == "mmc"]], ignore_index=True)
    return near


def _planar_row(
    plane: pd.DataFrame, dataset: str, variant: str
) -> dict[str, dict[str, RepeatedCurves]]:
    if not len(plane):
        return {}
    rows = plane[(plane.dataset == dataset) & plane.variant.isin(["", variant])]
    at_far = where(rows, on="ood", metric="mmc", n_train=1000)
    radius = {"x_label": "radius", "prior": 0.5, "id_until": 1.0}
    by_rows = {"x_label": "training rows", "log": True}
    result = {
        "error": (where(rows, on="test", metric="error"), "n_train", by_rows),
        "Hellinger": (where(rows, on="grid", metric="hellinger"), "n_train", by_rows),
        "max confidence": (at_far, "at", radius),
    }
    return _groups(result)


def _trunk_row(trunk: pd.DataFrame, variant: str) -> dict[str, dict[str, RepeatedCurves]]:
    """Return the same for Trunk in growing dimension; its far field is one radius."""
    if not len(trunk):
        return {}
    rows, label = trunk[trunk.variant.isin(["", variant])], {"x_label": "features"}
    far = {"x_label": f"features (r = {FAR:g})", "prior": 0.5}
    result = {
        "error": (where(rows, on="test", metric="error"), "n_dims", label),
        "Hellinger": (where(rows, on="test", metric="hellinger"), "n_dims", label),
        "max confidence": (where(rows, on="ood", metric="mmc", at=FAR), "n_dims", far),
    }
    return _groups(result)


def _groups(
    result: dict[str, tuple[pd.DataFrame, str, dict[str, Any]]],
) -> dict[str, dict[str, RepeatedCurves]]:
    groups: dict[str, dict[str, RepeatedCurves]] = {}
    for parent, (name, method) in GROUPS.items():
        for quantity, (rows, x, options) in result.items():
            wide = rows[rows.parent == parent].pivot_table(
                index=["model", "seed"], columns=x, values="value"
            )
            models = [
                m for m in ("parent", *DISTANCES) if m in wide.index.get_level_values("model")
            ]
            wide = wide.loc[models].dropna(axis="columns", how="all") if models else wide
            complete = [
                at
                for at in wide.columns
                if all(wide.loc[model][at].notna().any() for model in models)
            ]
            if len(models) > 1 and len(complete) > 1:
                curves = {
                    DISTANCES.get(m, "parent"): wide.loc[m][complete].to_numpy() for m in models
                }
                each = RepeatedCurves(np.array(complete, dtype=float), curves, **options)
                groups.setdefault(f"{name} and {method}", {})[quantity] = each
    return groups


def _points(label: str) -> tuple[np.ndarray, np.ndarray]:
    name = {shown: dataset for dataset, shown in SIMULATIONS.items()}.get(label, "trunk")
    config = compose([f"dataset={name}", f"dataset.n_train={SHOWN_POINTS}"])
    train = stages.split(config.dataset, 0).train
    return train.X[:, :2], train.y


def _read_runs(experiment: str, outputs: Path, free: Iterable[str]) -> list[Record]:
    records = runs_of(experiment, outputs, list(free))
    if len(records) < (wanted := expected(experiment)):
        print(
            f"{experiment}: {len(records)} of {wanted} runs; the"
            f" others: kdg run experiment={experiment}",
            file=sys.stderr,
        )
    return records


def _seeds(*frames: pd.DataFrame) -> str:
    counts = pd.concat(
        [x.groupby(["dataset", "n_train", "n_dims"]).seed.nunique() for x in frames if len(x)]
    )
    return counted_noun(counts, "seed")


FIGURES = {"figure1": figure1, "figure3": figure3, "figure4": figure4}

if __name__ == "__main__":
    main()
