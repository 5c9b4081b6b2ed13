"""Networks of several seeds on one division of the rows: the parts of the network and of the rows
in the deviations of Table 1 of Luo et al. on Communities and Crime.

The paper has "60 random seeds for model training" (Section 5.3), and divides rows anew "over
multiple trials" (Section 5.1), but does not state whether each seed has a division of its own. If
all have one, a printed deviation is that of networks alone, and a printed mean is off by the change
of another division, which no deviation of the paper shows. ``python -m experiments.p4.divisions
--divisions 8 --networks 4`` trains that many networks on each division and prints both deviations
beside the printed one, and the correlations of Table 2 within each division.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.command import in_one_line, study_options
from experiments.common.frames import where
from experiments.common.markdown import number
from experiments.common.markdown import table as markdown_table
from experiments.common.published import read_published
from experiments.common.titles import titles
from experiments.p4 import crime, setting
from experiments.p4.stopping import configs_of, entries_behind
from kdgraph.config import RunConfig
from kdgraph.runner import stages

# Methods of the paper's main column after the same network; MMCE trains another one
METHODS = titles("p4", "divisions")["methods"]
DIVISIONS, NETWORKS = 8, 4
# Variant whose seeds are divisions.
TITLE = f"means of {NETWORKS} networks on one division of the rows"
# Metrics of Tables 1 to 3, local errors in components.
MEASURED = ("group_mce", "ece", "mce", "nll_top", "brier_top", "mlce_pca")


def entries_of(
    configs: Mapping[str, RunConfig], division: int, networks: int
) -> Iterator[dict[str, Any]]:
    """Train networks on one division, and yield a row for each network, method and metric.

    The division is that of the study's seed of this number. Seeds of networks are those from 0 on,
    the same on every division.
    """
    first = next(iter(configs.values()))
    splits = stages.split(first.dataset, division)
    wanted = {name: first.measures["test"][name] for name in MEASURED}
    for seed in range(networks):
        arguments: dict[str, Any] = {
            "preprocess": first.preprocess,
            "has_missing": splits.has_missing,
        }
        parent = stages.fit(first.parent, splits.train, seed=seed, n_jobs=1, **arguments)
        metrics = {"test": wanted, "calibration": {}, "ood": {}, "grid": {}}
        for entry in entries_behind(parent, splits, configs, seed, metrics):
            yield entry | {"division": division}


def numbers(divisions: int = DIVISIONS, networks: int = NETWORKS) -> pd.DataFrame:
    """Return ``division, seed, method, metric, value``, a seed being one of training."""
    configs = configs_of(METHODS, crime.EXPERIMENT)
    return pd.DataFrame(
        entry for division in range(divisions) for entry in entries_of(configs, division, networks)
    )


def tables(frame: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return Tables 1 and 3 as a variant whose seeds are divisions, means of networks."""
    numbers_ = numbers() if frame is None else frame
    means = numbers_.groupby(["method", "metric", "division"], as_index=False).value.mean()
    methods = {method: crime.SETTING.methods[method] for method in METHODS}
    setting_ = replace(crime.SETTING, methods=methods, titles={}, variants={})
    return setting.measured(
        means.rename(columns={"division": "seed"}), setting_, TITLE, correlated=False
    )


def components(frame: pd.DataFrame, metric: str = setting.WORST) -> pd.DataFrame:
    """Return ``mean``, ``networks``, ``divisions``, ``least`` and ``most`` of a metric by method.

    ``networks`` is the deviation over networks of one division, the root of its mean variance;
    ``divisions`` that of a division's expected value, the root of what the variance of means has
    beyond the share of networks (the usual estimate of a one-way random model), at least 0.
    """
    rows = {}
    for method, part in frame[frame.metric == metric].groupby("method", sort=False):
        by = part.groupby("division").value
        within, means = float(by.var(ddof=1).mean()), by.mean()
        between = float(means.var(ddof=1)) - within / float(by.size().mean())
        rows[method] = {
            "mean": float(means.mean()),
            "networks": np.sqrt(within),
            "divisions": np.sqrt(max(between, 0.0)),
            "least": float(means.min()),
            "most": float(means.max()),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def correlations(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the correlation of each metric with max group MCE, a row for each division."""
    wide = frame.pivot(index=["division", "method", "seed"], columns="metric", values="value")
    return wide.groupby("division").apply(
        lambda part: part.corr()[setting.WORST].drop(setting.WORST)
    )


def table1(frame: pd.DataFrame) -> str:
    """Return Table 1 beside both deviations."""
    published = read_published(Path(__file__).parent)
    published = where(published, item="Table 1", dataset="crime")
    printed = published.set_index("method")
    columns = ["max group MCE", "published", "mean", "sd of networks", "sd of divisions", "range"]
    rows = []
    for method, row in components(frame).iterrows():
        printed_row = printed.loc[crime.SETTING.methods[str(method)]]
        cells = [number(float(row[name])) for name in ("mean", "networks", "divisions")]
        spread = f"{number(float(printed_row.value))} ± {number(float(printed_row.spread))}"
        reach = f"{number(float(row.least))} to {number(float(row.most))}"
        rows.append([str(method), spread, *cells, reach])
    return markdown_table(columns, rows)


def table2(frame: pd.DataFrame) -> str:
    """Return Table 2 within divisions: median, least and largest correlation."""
    published = read_published(Path(__file__).parent)
    published = where(published, item="Table 2", dataset="crime")
    printed = published.set_index("method").value
    columns = ["with max group MCE", "published", "median", "range", "as high as published"]
    rows = []
    for metric, values in correlations(frame).items():
        printed_value = float(printed[str(crime.SETTING.correlated[str(metric)])])
        cells = [
            str(metric),
            number(printed_value),
            number(float(values.median()), 2),
            f"{number(float(values.min()), 2)} to {number(float(values.max()), 2)}",
            f"{int((values >= printed_value).sum())} of {len(values)}",
        ]
        rows.append([cell.replace("-", "−") for cell in cells])
    return markdown_table(columns, rows)


def main() -> None:
    """Print both tables."""
    more: dict[str, dict[str, Any]] = {
        "--divisions": {"type": int, "default": DIVISIONS, "help": "how many divisions"},
        "--networks": {"type": int, "default": NETWORKS, "help": "how many on each"},
        "--to": {"type": Path, "help": "a CSV file for the numbers"},
    }
    options = study_options(__doc__, more=more)
    frame = numbers(options.divisions, options.networks)
    if options.to is not None:
        frame.to_csv(options.to, index=False)
    print(f"{table1(frame)}\n\n{table2(frame)}")


if __name__ == "__main__":
    in_one_line(main)
