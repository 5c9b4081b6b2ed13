"""Tables of the README of this folder, except those of the figures, from the records of finished
runs.

``python -m experiments.p1.tables outputs`` after the sweeps that the README names, with any subset
of their runs. It reads result.json only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd

from experiments.common.frames import where
from experiments.common.markdown import table as markdown_table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p1.versions import OWN, version_of

SIMULATIONS = ["spiral", "gaussian_xor", "circle", "sinewave", "polynomial"]
TABLES = ["digits", "breast_cancer", "wine", "iris"]
TITLES = titles("p1", "tables")
METHODS = TITLES["methods"]
ON_NETWORKS = TITLES["on_networks"]
DEFAULTS = {  # Default of each setting that the ablations change
    "version": OWN,
    "floor": None,
    "parent_weight": "auto",
    "parent_power": "auto",
    "alpha": 0.002,
    "distance": "scaled",
    "max_polytopes": "auto",
}
# Other defaults of the published versions.
PUBLISHED = {"distance": "geodesic", "max_polytopes": None}


def on_forests(folder: Path) -> Iterator[Record]:
    """Return the records on a forest with radii in units of the features."""
    for path in folder.glob("*/*/*/result.json"):
        record = json.loads(path.read_text())
        if (
            record["parent"] == "random_forest"
            and record["config"]["ood"].get("unit") != "max_norm"
        ):
            yield record


def entries(records: Iterable[Record]) -> Iterator[Record]:
    """Yield one row for each metric of each record; the parent is a method of its own."""
    for record in records:
        version = version_of(record["config"]["calibrator"])
        calibrator = {**record["config"]["calibrator"], "version": version}
        defaults = DEFAULTS if version == OWN else {**DEFAULTS, **PUBLISHED}
        changed = {
            key: calibrator[key]
            for key, default in defaults.items()
            if key in calibrator and calibrator[key] != default
        }
        # A published version is a setting of its family.
        name = record["calibrator"].removesuffix("" if version == OWN else f"_{version}")
        setting = ", ".join(f"{key}={value}" for key, value in changed.items()) or "default"
        n_train = record["config"]["dataset"]["n_train"]
        # A parent that is fitted on all rows is the method of that name.
        holds_out = record["config"].get("calibration", "held_out") == "held_out"
        method = name if record["gate"] == "none" else record["method"]
        for entry in record["metrics"]:
            of_parent = entry["of"] == "parent"
            if of_parent and not (holds_out or record["calibrator"] == "none"):
                continue
            yield {
                "dataset": record["dataset"]["name"],
                "n_train": n_train,
                "method": "parent" if of_parent else method,
                "calibrator": "parent" if of_parent else name,
                "setting": setting,
                "seed": record["seed"],
                **{key: entry[key] for key in ("metric", "on")},
                "radius": entry["params"].get("radius"),
                "value": entry["value"],
                "prior": max(record["dataset"]["prior"]),
            }


def columns(frame: pd.DataFrame, radii: list[float]) -> pd.DataFrame:
    """Return one column for each number of a table."""
    test = frame[(frame.on == "test") & frame.metric.isin(["error", "nll", "brier", "ece"])].assign(
        column=lambda f: f.metric
    )
    far = frame[(frame.metric == "oce") & frame.radius.isin(radii)].assign(
        column=lambda f: "OCE r=" + f.radius.map("{:g}".format)
    )
    return pd.concat([test, far])


def table(frame: pd.DataFrame, rows: str, radii: list[float]) -> pd.DataFrame:
    """Return means over seeds by data set and ``rows``, with the number of seeds."""
    wide = columns(frame, radii).drop_duplicates(["dataset", rows, "seed", "column"])
    means = wide.pivot_table(
        index=["dataset", rows], columns="column", values="value", aggfunc="mean"
    )
    means["seeds"] = wide.groupby(["dataset", rows]).seed.nunique()
    order = ["error", "nll", "brier", "ece", *(f"OCE r={radius:g}" for radius in radii), "seeds"]
    return means[[name for name in order if name in means]]


def markdown(means: pd.DataFrame, datasets: list[str], labels: dict[str, str] | None = None) -> str:
    """Return the table, data sets in the given order."""
    columns = [
        "data",
        "method",
        *(name.upper() if name in ("nll", "ece") else name for name in means.columns),
    ]
    rows = []
    for dataset in datasets:
        for name in labels or sorted({name for data, name in means.index if data == dataset}):
            if (dataset, name) in means.index:
                values = means.loc[(dataset, name)]
                cells = [
                    f"{values[c]:.0f}" if c == "seeds" else f"{values[c]:.4f}"
                    for c in means.columns
                ]
                rows.append([dataset, (labels or {}).get(name, name), *cells])
    return markdown_table(columns, rows)


def averaged(means: pd.DataFrame, datasets: list[str]) -> str:
    """Return means over data sets by setting, and the worst data set of each far-field column."""
    chosen = means.loc[[data for data in datasets if data in means.index.get_level_values(0)]]
    by_setting = chosen.groupby(level=1)
    far = [name for name in means.columns if name.startswith("OCE")]
    columns = ["setting", "error", "NLL", "ECE", *(f"{name} (worst)" for name in far)]
    rows = []
    worst = by_setting.max()
    for setting, row in by_setting.mean().iterrows():
        cells = [f"{row[name]:.4f}" for name in ("error", "nll", "ece")]
        rows.append(
            [
                str(setting),
                *cells,
                *(f"{row[name]:.4f} ({worst.loc[setting, name]:.4f})" for name in far),
            ]
        )
    return markdown_table(columns, rows)


def main() -> None:
    """Print all tables."""
    outputs = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    if (forests := pd.DataFrame(entries(on_forests(outputs)))).size:
        print_forests(forests)
    if (networks := pd.DataFrame(entries(runs_of("bench/networks", outputs)))).size:
        means = table(networks, "method", [1.0, 1.5, 2.0, 5.0])
        print("\n## Networks\n\n" + markdown(means, [*SIMULATIONS, "trunk"], ON_NETWORKS))
    if (pruned := pd.DataFrame(entries(runs_of("bench/prune", outputs)))).size:
        for calibrator in ("kdf", "kdn"):
            each = table(pruned[pruned.calibrator == calibrator], "setting", [1.5, 2.0])
            print(
                f"\n## Fewer polytopes: {calibrator}\n\n" + averaged(each, [*SIMULATIONS, "trunk"])
            )


def print_forests(everything: pd.DataFrame) -> None:
    """Print the tables of simulations, real tables, the ablation, and the published versions."""
    usual = everything[everything.setting == "default"]
    print(
        "## Simulations\n\n"
        + markdown(table(usual, "method", [1.0, 1.5, 2.0, 5.0]), SIMULATIONS, METHODS)
    )
    print(
        "\n## Tables\n\n" + markdown(table(usual, "method", [1.0, 2.0, 3.0, 5.0]), TABLES, METHODS)
    )
    kdf = where(everything, method="kdf", n_train=1000)
    print(
        "\n## Ablation\n\n"
        + averaged(
            table(kdf[~kdf.setting.str.contains("figure1")], "setting", [1.5, 2.0]), SIMULATIONS
        )
    )
    grid = everything[
        (everything.dataset == "spiral") & (everything["on"] == "grid")
        | (everything.metric == "error")
    ]
    grid = grid[grid.setting.str.contains("figure1|reference") & (grid.dataset == "spiral")]
    medians = grid.groupby(["setting", "n_train", "metric", "method"]).value.agg(
        ["median", "mean", "std", "count"]
    )
    print("\n## Published versions on the spiral\n\n" + medians.round(4).to_string())


if __name__ == "__main__":
    main()
