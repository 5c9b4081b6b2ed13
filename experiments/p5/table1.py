"""A straight line on a parabola, beside Table 1 of Torres et al.: the tables after
``kdg run experiment=paper/p5/table1``.

``python -m experiments.p5.table1 outputs`` prints them again, from any subset of the runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.frames import seeds_of
from experiments.common.markdown import blocks, counted_noun, listed, number
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p5.records import (
    TRUTH,
    Column,
    Shown,
    by_seed,
    chosen_k,
    compared,
    in_published_terms,
    joined,
    numbers_of,
    numbers_of_truth,
    settings_of,
)

EXPERIMENT = "paper/p5/table1"
PARENTS = {"linear": "linear"}
ROWS = titles("p5", "table1")["rows"]  # Method → its title, and its row in the paper's table
HISTOGRAMS = "histograms of 1,000 draws"  # Title of the second divergence, which is symmetric
LOCAL, LINEAR = "local_pit_1000", "local_linear_pit"
EXACT = {  # Means and standard deviations over 20 other samples, computed with NumPy alone
    ("linear", "mse_mean"): (14536.0, 188.0),
    ("linear", "coverage"): (0.9377, 0.0038),
    ("linear", "smis"): (2.718, 0.061),
    ("global_pit", "mse_mean"): (14541.0, 187.0),
    ("global_pit", "coverage"): (0.9500, 0.0036),
    ("global_pit", "smis"): (2.698, 0.055),
    (LOCAL, "mse_mean"): (247.0, 96.0),
    (LOCAL, "coverage"): (0.9520, 0.0024),
    (LOCAL, "smis"): (2.032, 0.031),
}
_SEEDS_OF_EXACT = 20
BEST = ("local_best",)
COLUMNS = (
    Column("mse_mean", "MSE", 1, "MSE"),
    Column("coverage", "coverage (%)", 2, "coverage (%)", 100),
    Column("smis", "sMIS", 3, "sMIS"),
    Column("kl", "KL", 3),
    Column("kl_hist30_sym", "histograms", 3, "KL divergence"),
    Column("crps_above", "CRPS", 2),
    Column("worst_cell_gap", "gap", 3),
)
NOTE = titles("p5", "table1")["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Table 1, published and measured, and the verdicts, of the records of a sweep."""
    frame = numbers_of(records, PARENTS)
    if frame.empty:
        return "no run of the line on the parabola is there"
    frame = with_excess_crps(pd.concat([frame, numbers_of_truth(records)]))
    rows = counted_noun({record["dataset"]["n_train"] for record in records}, "training row")
    seeds = seeds_of(frame)
    return blocks(
        [
            f"## Torres et al., Table 1: {seeds}, {rows}",
            table(frame),
            NOTE,
            chosen_k(records, ["local_pit", LINEAR]),
            verdicts(claims(frame)),
        ]
    )


def with_excess_crps(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with ``crps_above``, the CRPS less that of the truth in the same seed."""
    truth = by_seed(frame, TRUTH, "crps")
    crps = frame[frame.metric == "crps"]
    excess = crps.assign(metric="crps_above", value=crps.value - crps.seed.map(truth))
    return pd.concat([frame, excess], ignore_index=True)


def table(frame: pd.DataFrame) -> str:
    """Return Table 1, measured beside published."""
    return compared(frame, "Table 1", ROWS, COLUMNS)


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's claims, agreement with a computation, and the gain of local-linear."""
    have = set(frame.method)
    if {"linear", "global_pit", LOCAL} <= have:
        yield from _claims_of_paper(frame)
    for (method, metric), (mean, deviation) in EXACT.items():
        if method in have and len(values := by_seed(frame, method, metric)) > 1:
            yield _agreement(method, metric, values, mean, deviation)
    if LINEAR in have:
        mse, excess = (by_seed(frame, LINEAR, m).mean() for m in ("mse_mean", "crps_above"))
        text = "local-linear, k chosen on calibration rows: MSE at most 160 (ours)"
        yield Claim(text, bool(mse <= 160), f"{mse:.0f}")
        text = "and CRPS at most .3 above the true distribution's (ours)"
        yield Claim(text, bool(excess <= 0.3), number(float(excess), 2))


def _claims_of_paper(frame: pd.DataFrame) -> Iterator[Claim]:
    for metric, title in (("mse_mean", "MSE"), ("kl", "KL"), ("smis", "sMIS")):
        others = [by_seed(frame, name, metric) for name in ("linear", "global_pit")]
        margin = pd.concat(others, axis=1).min(axis=1) - by_seed(frame, LOCAL, metric)
        lower, n = int((margin > 0).sum()), len(margin)
        text = f"local recalibration is best in {title} (after Table 1), in every seed"
        yield Claim(text, lower == n, f"In {lower} of {n} seeds", BEST)
    mse = [by_seed(frame, name, "mse_mean") for name in ("global_pit", "linear")]
    change = 100 * (mse[0] / mse[1] - 1)
    text = (
        "global recalibration offers no significant improvement of the mean"
        " (Figure 2): its MSE is within 1 % of the line's"
    )
    evidence = f"{change.min():+.2f} to {change.max():+.2f} %"
    yield Claim(text, bool(change.abs().max() < 1), evidence, ("global_no_better",))
    covered = {name: by_seed(frame, name, "coverage").mean() for name in ("global_pit", LOCAL)}
    text = "recalibrated coverage is within half a point of 95 % (Table 1: .35 and .04)"
    evidence = ", ".join(f"{ROWS[name][0]} {100 * value:.2f} %" for name, value in covered.items())
    yield Claim(text, max(abs(value - 0.95) for value in covered.values()) < 0.005, evidence, BEST)


def _agreement(method: str, metric: str, values: pd.Series, mean: float, deviation: float) -> Claim:
    error = np.sqrt(values.var(ddof=1) / len(values) + deviation**2 / _SEEDS_OF_EXACT)
    z = (float(values.mean()) - mean) / error
    digits = {"mse_mean": 0, "coverage": 4, "smis": 3}[metric]
    text = f"{metric} of {ROWS[method][0]} is that of another computation, within 3 standard errors"
    evidence = f"{values.mean():.{digits}f} and {mean:.{digits}f}, {z:+.1f} standard errors apart"
    return Claim(text, bool(abs(z) <= 3), evidence)


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers and settings of its runs with the keys of ``published.csv``."""
    records = read(folder)
    frame = numbers_of(records, PARENTS)
    rows = {method: (row, "") for method, (_, row) in ROWS.items()}
    rows |= {
        "global_pit_draws": ("global_pit", "1,000 draws"),
        "local_pit_1000_draws": ("local_pit", "1,000 draws"),
        "local_pit": ("local_pit", "k chosen"),
        LINEAR: ("local_pit", "local-linear, k chosen"),
    }
    shown = {"mse_mean": Shown("MSE"), "kl": Shown("KL divergence")}
    shown |= {"coverage": Shown("coverage (%)", 0.95, 100), "smis": Shown("sMIS", 0.95)}
    histograms = {name: (row, listed(variant, HISTOGRAMS)) for name, (row, variant) in rows.items()}
    divergence = {"kl_hist30_sym": Shown("KL divergence")}
    return joined(
        [
            settings_of(records, "Section 4.1"),
            in_published_terms(frame, "Table 1", "heteroscedastic", rows, shown),
            in_published_terms(frame, "Table 1", "heteroscedastic", histograms, divergence),
        ]
    )


def measured_in_section2(folder: Path) -> pd.DataFrame:
    """Return the coverage after global recalibration, which Table 2 does not have."""
    return in_published_terms(
        numbers_of(read(folder), PARENTS),
        "Section 2",
        "heteroscedastic and rosenbrock",
        {"global_pit": ("global_pit", "")},
        {"coverage": Shown("coverage (%)", 0.95, 100)},
    )


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
