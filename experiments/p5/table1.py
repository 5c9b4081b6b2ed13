"""A straight line on a parabola, beside Table 1 of Torres et al.: what ``kdg run
experiment=paper/p5/table1`` prints at its end.

``python -m experiments.p5.table1 outputs`` prints it again, from any subset of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.markdown import counted_noun, head, line, number
from experiments.common.runs import Record, runs_of
from experiments.p5.records import (
    TRUTH,
    Shown,
    chosen_k,
    found,
    frame_of,
    in_published_terms,
    joined,
    of,
    of_recalibrator,
    of_truth,
    said,
    settings_of,
)

EXPERIMENT = "paper/p5/table1"
ROWS = {
    "linear": ("linear", "linear"),
    "global_pit": ("global", "global_pit"),
    "local_pit_1000": ("local, k = 1,000", "local_pit"),
    "global_pit_draws": ("global, 1,000 draws", None),
    "local_pit_1000_draws": ("local, k = 1,000, 1,000 draws", None),
    "isotonic_pit": ("isotonic", None),
    "local_pit": ("local, k chosen (ours)", None),
    "local_linear_pit": ("local-linear, k chosen (ours)", None),
    TRUTH: ("*true distribution*", None),
}
"""Method → what it is called, and its row in the paper's table."""
HISTOGRAMS = "histograms of 1,000 draws"
"""Title of the second divergence, which is symmetric."""
LOCAL, LINEAR = "local_pit_1000", "local_linear_pit"
EXACT = {
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
"""Means and standard deviations over 20 other samples, by lines of NumPy that have nothing of this
package.
"""
_SEEDS_OF_EXACT = 20
BEST = ("local_best",)
"""The sentence of ``claims.csv`` that most of the table is about."""
NOTE = """Mean ± standard deviation over seeds. MSE is to the true mean. KL is that of the truth from the prediction in 30 bins of its mass;
*histograms*: of 1,000 draws of each, symmetric, which is about .05 of the truth against itself. *CRPS* is what it is above that of the
true distribution on the same rows, *gap* the largest of 20 cells between coverage and 95 %."""


def compare_with_published(records: Sequence[Record]) -> str:
    """Table 1, published and found, and what is claimed of it, of the records of a sweep;
    markdown.
    """
    frame = frame_of(records, {"linear": "linear"})
    if frame.empty:
        return "no run of the line on the parabola is there"
    frame = above_truth(pd.concat([frame, of_truth(records)]))
    rows = counted_noun({record["dataset"]["n_train"] for record in records}, "training row")
    parts = [
        f"## Torres et al., Table 1: {counted_noun([frame.seed.nunique()], 'seed')}, {rows}",
        table(frame),
        NOTE,
    ]
    return "\n\n".join(
        part
        for part in [*parts, chosen_k(records, ["local_pit", LINEAR]), verdicts(claims(frame))]
        if part
    )


def above_truth(frame: pd.DataFrame) -> pd.DataFrame:
    """With ``crps_above``, the CRPS less that of the true distribution in the same seed."""
    known = of(frame, TRUTH, "crps")
    more = frame[frame.metric == "crps"]
    return pd.concat(
        [frame, more.assign(metric="crps_above", value=more.value - more.seed.map(known))],
        ignore_index=True,
    )


def table(frame: pd.DataFrame) -> str:
    """Table 1, ours beside what was published."""
    titles = [
        "model",
        "MSE",
        "published",
        "coverage (%)",
        "published",
        "sMIS",
        "published",
        "KL",
        "histograms",
        "published",
        "CRPS",
        "gap",
    ]
    lines = head(titles)
    for method in (name for name in ROWS if name in set(frame.method)):
        called, row = ROWS[method]
        cells = [called, found(frame, method, "mse_mean", 1), said("Table 1", row, "MSE", 1)]
        cells += [found(frame, method, "coverage", 2, 100), said("Table 1", row, "coverage (%)", 2)]
        cells += [found(frame, method, "smis", 3), said("Table 1", row, "sMIS", 3)]
        cells += [
            found(frame, method, "kl", 3),
            found(frame, method, "kl_hist30_sym", 3),
            said("Table 1", row, "KL divergence", 3),
        ]
        lines.append(
            line(
                [
                    *cells,
                    found(frame, method, "crps_above", 2),
                    found(frame, method, "worst_cell_gap", 3),
                ]
            )
        )
    return "\n".join(lines)


def claims(frame: pd.DataFrame) -> Iterable[Claim]:
    """What the paper says of the table, whether another computation agrees, and what local-linear
    recalibration adds.
    """
    have = set(frame.method)
    if {"linear", "global_pit", LOCAL} <= have:
        yield from _of_the_paper(frame)
    for (method, metric), (mean, deviation) in EXACT.items():
        if method in have and len(values := of(frame, method, metric)) > 1:
            yield _agrees(method, metric, values, mean, deviation)
    if LINEAR in have:
        mse, above = of(frame, LINEAR, "mse_mean"), of(frame, LINEAR, "crps_above")
        yield Claim(
            "local-linear, k chosen on calibration rows: MSE at most 160 (ours)",
            bool(mse.mean() <= 160),
            f"{mse.mean():.0f}",
        )
        yield Claim(
            "and CRPS at most .3 above the true distribution's (ours)",
            bool(above.mean() <= 0.3),
            number(float(above.mean()), 2),
        )


def _of_the_paper(frame: pd.DataFrame) -> Iterable[Claim]:
    for metric, called in (("mse_mean", "MSE"), ("kl", "KL"), ("smis", "sMIS")):
        best = pd.concat(
            [of(frame, "linear", metric), of(frame, "global_pit", metric)], axis=1
        ).min(axis=1) - of(frame, LOCAL, metric)
        lower, n = int((best > 0).sum()), len(best)
        yield Claim(
            f"local recalibration is best in {called} (after Table 1), in every seed",
            lower == n,
            f"In {lower} of {n} seeds",
            BEST,
        )
    change = 100 * (of(frame, "global_pit", "mse_mean") / of(frame, "linear", "mse_mean") - 1)
    text = (
        "global recalibration offers no significant improvement of the mean (Figure 2): its MSE is"
        " within 1 % of the line's"
    )
    yield Claim(
        text,
        bool(change.abs().max() < 1),
        f"{change.min():+.2f} to {change.max():+.2f} %",
        ("global_no_better",),
    )
    share = {method: of(frame, method, "coverage").mean() for method in ("global_pit", LOCAL)}
    close = max(abs(value - 0.95) for value in share.values())
    told = ", ".join(f"{ROWS[method][0]} {100 * value:.2f} %" for method, value in share.items())
    yield Claim(
        "recalibrated coverage is within half a point of 95 % (Table 1: .35 and .04)",
        close < 0.005,
        told,
        BEST,
    )


def _agrees(method: str, metric: str, values: pd.Series, mean: float, deviation: float) -> Claim:
    error = np.sqrt(values.var(ddof=1) / len(values) + deviation**2 / _SEEDS_OF_EXACT)
    z = (float(values.mean()) - mean) / error
    digits = {"mse_mean": 0, "coverage": 4, "smis": 3}[metric]
    text = f"{metric} of {ROWS[method][0]} is that of another computation, within 3 standard errors"
    return Claim(
        text,
        bool(abs(z) <= 3),
        f"{values.mean():.{digits}f} and {mean:.{digits}f}, {z:+.1f} standard errors apart",
    )


def measured(folder: Path) -> pd.DataFrame:
    """Its numbers as :func:`experiments.p5.records.in_published_terms` has them."""
    records = read(folder)
    frame = frame_of(records, {"linear": "linear"})
    rows = {method: (row, "") for method, (_, row) in ROWS.items()}
    rows |= {
        "global_pit_draws": ("global_pit", "1,000 draws"),
        "local_pit_1000_draws": ("local_pit", "1,000 draws"),
        "local_pit": ("local_pit", "k chosen"),
        LINEAR: ("local_pit", "local-linear, k chosen"),
    }
    shown = {
        "mse_mean": Shown("MSE"),
        "kl": Shown("KL divergence"),
        "coverage": Shown("coverage (%)", 0.95, 100),
        "smis": Shown("sMIS", 0.95),
    }
    histograms = {
        method: (row, ", ".join(filter(None, [variant, HISTOGRAMS])))
        for method, (row, variant) in rows.items()
    }
    neighbours = {("neighbours", "local_pit"): of_recalibrator(LOCAL, "k")}
    parts = [
        settings_of(records, "Section 4.1", "heteroscedastic", neighbours),
        in_published_terms(frame, "Table 1", "heteroscedastic", rows, shown),
        in_published_terms(
            frame,
            "Table 1",
            "heteroscedastic",
            histograms,
            {"kl_hist30_sym": Shown("KL divergence")},
        ),
    ]
    return joined(parts)


def measured_in_section2(folder: Path) -> pd.DataFrame:
    """The coverage after global recalibration, of which that section speaks; Table 2 has no row
    that is recalibrated so.
    """
    frame = frame_of(read(folder), {"linear": "linear"})
    shown = {"coverage": Shown("coverage (%)", 0.95, 100)}
    return in_published_terms(
        frame,
        "Section 2",
        "heteroscedastic and rosenbrock",
        {"global_pit": ("global_pit", "")},
        shown,
    )


def read(folder: Path) -> list[Record]:
    """Records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
