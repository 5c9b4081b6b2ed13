"""The weight of MMCE and the network of Luo et al. on Communities and Crime, Tables 1 and 3.

The paper prints neither the weight of MMCE in the loss nor the way of its choice. ``python -m
experiments.p4.mmce --seeds 8`` trains the network of 60 epochs with each of :data:`WEIGHTS`, and
prints numbers of calibration rows, on which no network is trained, and of test rows. Calibration
rows then choose a weight in each seed, that of their least negative log likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common import markdown
from experiments.common.command import in_one_line, study_options
from experiments.common.frames import where
from experiments.common.markdown import number, spread
from experiments.common.published import read_published
from experiments.p4 import crime, setting
from experiments.p4.stopping import configs_of
from kdgraph.config import RunConfig
from kdgraph.metrics import TopLabel, brier_top, ece, group_mce, nll_top
from kdgraph.runner import stages

WEIGHTS = (2.0, 4.0, 8.0, 16.0)
SEEDS = 8
CHOSEN = "weight of MMCE by the NLL of calibration rows"  # Title of the variant
# Metric → its factor in the tables.
SHOWN = {"ece": 100.0, "ece_15": 100.0, "nll_top": 1.0, "brier_top": 1.0, "group_mce": 1.0}


def entries_of(config: RunConfig, seed: int) -> Iterator[dict[str, Any]]:
    """Yield numbers of calibration and of test rows for each weight in the config of MMCE."""
    splits = stages.split(config.dataset, seed)
    for weight in WEIGHTS:
        node = {**config.parent, "mmce_weight": [weight]}
        arguments: dict[str, Any] = {
            "preprocess": config.preprocess,
            "has_missing": splits.has_missing,
        }
        network = stages.fit(node, splits.train, seed=seed, n_jobs=1, **arguments)
        for on, rows in (("calibration", splits.calibration), ("test", splits.test)):
            top_label = TopLabel.from_proba(network.predict_proba(rows.X))
            values = {
                "ece": ece(rows.y, top_label, bins=5),
                "ece_15": ece(rows.y, top_label, bins=15),
                "nll_top": nll_top(rows.y, top_label, clip=1e-12),
                "brier_top": brier_top(rows.y, top_label),
                "group_mce": group_mce(rows.y, top_label, rows.groups, bins=5),
            }
            for metric, value in values.items():
                yield {"on": on, "weight": weight, "seed": seed, "method": "mmce"} | {
                    "metric": metric,
                    "value": float(value),
                }


def numbers(seeds: int = SEEDS) -> pd.DataFrame:
    """Return the rows of :func:`entries_of` of seeds from 0 on."""
    config = configs_of(["mmce"], crime.EXPERIMENT)["mmce"]
    return pd.DataFrame(entry for seed in range(seeds) for entry in entries_of(config, seed))


def chosen(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the test rows' numbers of each seed's weight, by NLL on calibration rows."""
    held_out = where(frame, on="calibration", metric="nll_top")
    best = held_out.loc[held_out.groupby("seed").value.idxmin(), ["seed", "weight"]]
    return frame[frame.on == "test"].merge(best, on=["seed", "weight"])


def tables(frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return Tables 1 and 3 as a variant, of a frame of :func:`numbers`, by default a new one."""
    setting_ = replace(crime.SETTING, methods={"mmce": "mmce"}, titles={}, variants={})
    numbers_ = chosen(numbers() if frame is None else frame)
    return setting.measured(numbers_, setting_, CHOSEN, correlated=False)


def table(frame: pd.DataFrame) -> str:
    """Return means and deviations over seeds for each weight, and of the chosen weights."""
    columns = ["weight", "rows", "ECE", "ECE, 15 bins", "NLL", "Brier", "max group MCE"]
    lines = []
    parts = [
        (f"{weight:g}", str(on), part)
        for on, rows in frame.groupby("on", sort=False)
        for weight, part in rows.groupby("weight")
    ]
    best = chosen(frame)
    counts = best[best.metric == "ece"].weight.value_counts().sort_index()
    how_often = ", ".join(f"{weight:g} in {n}" for weight, n in counts.items())
    for weight, on, part in [*parts, (f"chosen ({how_often})", "test", best)]:
        cells = [
            spread(factor * part[part.metric == metric].value, digits=1 if factor > 1 else 3)
            for metric, factor in SHOWN.items()
        ]
        lines.append([weight, on, *cells])
    published = read_published(Path(__file__).parent)
    own = where(published, method="mmce", dataset="crime")
    printed = own.set_index("metric").value
    cells = [number(float(printed["ECE in percent"]), 1), "–"]
    cells += [number(float(printed[name]), 2) for name in ("NLL", "Brier")]
    cells.append(number(float(printed["max group MCE"])))
    return markdown.table(columns, [*lines, ["published", "test", *cells]])


def main() -> None:
    """Print the table."""
    options = study_options(__doc__, seeds=SEEDS)
    print(table(numbers(options.seeds)))


if __name__ == "__main__":
    in_one_line(main)
