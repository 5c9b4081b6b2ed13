"""Measured beside published numbers of the figures, in markdown."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.frames import where
from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.common.published import cell, read_published
from experiments.common.runs import runs_of
from experiments.p1.figures import floors
from experiments.p1.figures.numbers import frame
from experiments.p1.versions import OWN, version_of

# Parent of a run → its published name, and that of the method on it.
GROUPS = {"random_forest": ("random_forest", "kdf"), "mlp": ("relu network", "kdn")}
MEASURES = {"error": ("test", "error"), "hellinger on the grid": ("grid", "hellinger")}
SIZES = (1000, 10000)
FROM = "first radius at the prior"
AWAY = "mean max confidence far away"
# Variant of a run → its title beside the paper's version; a parent has none.
VARIANTS = {"": "", "figure1": "", "kdgraph": "kdgraph's variant"}
PAPER = Path(__file__).resolve().parents[1]


def figure1_table(plane: pd.DataFrame, published: pd.DataFrame) -> str:
    """Return by data set, method and distance: published, the paper's version, kdgraph's.

    The last columns are the first radius from which on the mean max confidence stays within .01 of
    the prior, at 1,000 rows.
    """
    published = published[published.item == "Figure 1"]
    columns = [(measure, n) for measure in MEASURES for n in SIZES]
    titles = [f"{measure.replace(' on the grid', '')}, {n:,} rows" for measure, n in columns] + [
        "at the prior from radius"
    ]
    rows = []
    for dataset in published.dataset.drop_duplicates():
        for parent, (parent_name, method) in GROUPS.items():
            subset = where(plane, dataset=dataset, parent=parent)
            for name, model in (
                (parent_name, "parent"),
                (f"{method} geodesic", "geodesic"),
                (f"{method} euclidean", "euclidean"),
            ):
                measured_rows = subset[subset.model == model]
                variants = [""] if model == "parent" else ["figure1", "kdgraph"]
                printed = where(published, dataset=dataset, method=name)
                both = (
                    [_published(printed, m, n), *_medians(measured_rows, variants, m, n)]
                    for m, n in columns
                )
                cells = [" / ".join(each) for each in both]
                far = " / ".join(
                    [_published(printed, FROM, 1000, digits=1), *_radii(measured_rows, variants)]
                )
                rows.append([dataset, name.replace("_", " "), *cells, far])
    note = (
        "Of each cell: published / `kdf_august`, `kdn_august` / `kdf`, `kdn`; of a parent:"
        " published / ours. – is not published or not run."
    )
    return "\n\n".join([markdown_table(["data", "model", *titles], rows), note])


def trunk_table(trunk: pd.DataFrame, far: float) -> str:
    """Return error, Hellinger on test rows and far confidence by dimension, of each model."""
    dims = [d for d in (1, 2, 10, 50, 100) if d in set(trunk.n_dims)]
    quantities = {
        "error": where(trunk, on="test", metric="error"),
        "Hellinger": where(trunk, on="test", metric="hellinger"),
        f"mean max confidence at r = {far:g}": where(trunk, on="ood", metric="mmc", at=far),
    }
    columns = [
        "model",
        "variant",
        *(f"{name}, d = {', '.join(map(str, dims))}" for name in quantities),
    ]
    body = []
    for (parent, model, variant), _ in trunk.groupby(["parent", "model", "variant"]):
        cells = []
        for rows in quantities.values():
            own = where(rows, parent=parent, model=model, variant=variant)
            cells.append(" ".join(number(own[own.n_dims == d].value.median()) for d in dims))
        parent_name, method = GROUPS[parent]
        name = parent_name.replace("_", " ") if model == "parent" else f"{method} {model}"
        body.append([name, variant or "–", *cells])
    return markdown_table(columns, body)


def figure3_table(far: pd.DataFrame, names: dict[str, str]) -> str:
    """Return a row for each set of Figure 3: medians and quartiles of each model."""
    body = []
    for (ood, param), family in far.groupby(["ood", "param"], sort=False):
        label = param if param == ood else f"{param} of the {ood}"
        for at, rows in family.groupby("at"):
            cells = []
            for model in names:
                low, middle, high = rows[rows.model == model].value.quantile([0.25, 0.5, 0.75])
                cells.append(f"{number(middle)} ({number(low)} to {number(high)})")
            value = f"{at:g}" + (" (ID)" if rows.id.any() else "")
            body.append([label, value, *cells])
    return markdown_table(["shift", "value", *names.values()], body)


def first_at_the_prior(
    radii: np.ndarray, confidence: np.ndarray, prior: float = 0.5, within: float = 0.01
) -> float:
    """Return the first radius from which on all confidences are near the prior, or infinity."""
    away = np.flatnonzero(np.abs(confidence - prior) > within)
    after = 0 if len(away) == 0 else away[-1] + 1
    return float(radii[after]) if after < len(radii) else float("inf")


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers of Figure 1 and its section by seed, of the runs below a folder.

    The paper's version has the floors of its authors: one for error and Hellinger distance, by
    simulation and parent, and another for far rows, whose radii are those of the features
    themselves. A run with another floor is left out.
    """
    records = runs_of("paper/p1/simulations", folder, free=floors.FREE)
    measured_rows = [r for r in records if version_of(r["config"]["calibrator"]) == OWN]
    near = frame([*measured_rows, *(r for r in records if floors.is_near(r["config"]))])
    far = frame(
        [
            *(r for r in measured_rows if r["config"]["ood"]["unit"] == "feature"),
            *(r for r in records if floors.is_far(r["config"])),
        ]
    )
    published = read_published(PAPER).query("item == 'Figure 1'")
    keys = ["item", "dataset", "metric", "method", "n_train"]
    rows = [*_numbers(near), *_first_radii(far)]
    rows_of_paper = pd.DataFrame(rows).merge(published[keys], on=keys) if rows else pd.DataFrame()
    return pd.concat(
        [rows_of_paper, _far_away(far)] if len(far) else [rows_of_paper], ignore_index=True
    )


def _numbers(near: pd.DataFrame) -> Iterable[dict[str, Any]]:
    for shared, rows in _by_model(near):
        for measure in MEASURES:
            for n in SIZES:
                for seed, value in _chosen(rows, measure, n).set_index("seed").value.items():
                    yield {**shared, "metric": measure, "n_train": n, "seed": seed, "value": value}


def _first_radii(far: pd.DataFrame) -> Iterable[dict[str, Any]]:
    for shared, rows in _by_model(far):
        for seed, group in rows[rows.n_train == 1000].groupby("seed"):
            if not np.isnan(first := _radius(group)):
                yield {**shared, "metric": FROM, "n_train": 1000, "seed": seed, "value": first}


def _by_model(rows: pd.DataFrame) -> Iterable[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield the published keys of the rows of one data set, model and variant, and those rows."""
    if rows.empty:
        return
    for (dataset, parent, model, variant), group in rows.groupby(
        ["dataset", "parent", "model", "variant"]
    ):
        parent_name, method = GROUPS[str(parent)]
        name = parent_name if model == "parent" else f"{method} {model}"
        shared = {"item": "Figure 1", "dataset": dataset, "method": name}
        shared |= {"variant": VARIANTS[str(variant)], "ood": None}
        yield {**shared, "radius": np.nan}, group


def _far_away(rows: pd.DataFrame) -> pd.DataFrame:
    far = where(rows, on="ood", metric="mmc", n_train=1000, model="geodesic")
    means = (
        far[far["at"] == far["at"].max()].groupby(["variant", "seed"]).value.mean().reset_index()
    )
    shared = {"item": "Section 5.1.1", "dataset": "simulations", "metric": AWAY}
    shared |= {"method": "KDF and KDN"}
    return means.assign(
        **shared, ood=None, n_train=np.nan, radius=np.nan, variant=means.variant.map(VARIANTS)
    )


def _chosen(rows: pd.DataFrame, measure: str, n: int) -> pd.DataFrame:
    on, metric = MEASURES[measure]
    return where(rows, on=on, metric=metric, n_train=n)


def _medians(rows: pd.DataFrame, variants: list[str], measure: str, n: int) -> list[str]:
    chosen = _chosen(rows, measure, n)
    return [number(chosen[chosen.variant == variant].value.median()) for variant in variants]


def _radius(rows: pd.DataFrame) -> float:
    curve = where(rows, on="ood", metric="mmc").groupby("at").value.median()
    if len(curve):
        return first_at_the_prior(curve.index.to_numpy(dtype=float), curve.to_numpy())
    return float("nan")


def _radii(rows: pd.DataFrame, variants: list[str]) -> list[str]:
    at = [_radius(where(rows, variant=variant, n_train=1000)) for variant in variants]
    return ["never" if np.isinf(first) else number(first, 1) for first in at]


def _published(rows: pd.DataFrame, measure: str, n: int, digits: int = 3) -> str:
    return cell(where(rows, metric=measure, n_train=n), digits)
