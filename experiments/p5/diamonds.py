"""Prices of diamonds, beside Table 3 of Torres et al.: the tables after ``kdg run
experiment=paper/p5/diamonds``.

``python -m experiments.p5.diamonds outputs`` prints them again, from any subset of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common import markdown
from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.frames import seeds_of
from experiments.common.markdown import blocks, listed
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p5.records import (
    Shown,
    by_seed,
    chosen_k,
    in_published_terms,
    joined,
    measured_cell,
    numbers_of,
    published_cell,
    relative_difference,
    settings_of,
)
from kdgraph.results.comparison.significance import wilcoxon

EXPERIMENT = "paper/p5/diamonds"
WITHOUT_LAYERS = "mlp_gamma_linear"
# Parent → its method; a Gamma network without hidden layers is a GLM that Adam trains.
PARENTS = {"gamma_glm": "glm", "mlp_gamma": "network", WITHOUT_LAYERS: "glm_adam"}
# Prefix of a method → its title, its row in the paper's table, and the title of a variant there.
TITLES = titles("p5", "diamonds")
MODELS = TITLES["models"]
# Suffix of a method → its title, the suffix of its row in the paper's table, and whether it is a
# variant there.
AFTER = TITLES["after"]
BY_ADAM = ("", "_isotonic", "_local_1000")  # Suffixes of the methods after the GLM that Adam trains
METHODS = {
    prefix + suffix: (prefix, suffix)
    for prefix in MODELS
    for suffix in AFTER
    if prefix != "glm_adam" or suffix in BY_ADAM
}
# Level → its metric, and by how many points recalibrated coverage may miss it.
LEVELS = {0.9: ("coverage_90", 1.5), 0.95: ("coverage_95", 1.0), 0.99: ("coverage_99", 1.0)}
NOTE = TITLES["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Table 3, published and measured, and the verdicts, of the records of a sweep."""
    frame = numbers(records)
    if frame.empty:
        return "no run of the diamonds is there"
    rows = records[0]["dataset"]
    share = rows["n_test"] / (rows["n_train"] + rows["n_calibration"])
    seeds = seeds_of(frame)
    chosen = [prefix + suffix for prefix in MODELS for suffix in ("_local", "_local_linear")]
    return blocks(
        [
            f"## Torres et al., Table 3: {seeds}",
            table(frame, share),
            NOTE,
            chosen_k(records, chosen),
            verdicts(claims(frame)),
        ]
    )


def table(frame: pd.DataFrame, share: float | None) -> str:
    """Return Table 3, measured beside published; ``share``: test rows per fitted row."""
    levels = [title for level in LEVELS for title in (f"{100 * level:g} %", "published")]
    comparison = ["less its own RMSE", "95 % interval", "lower in", "p"]
    columns = ["model", "RMSE", "published", *levels, "CRPS", "gap", *comparison]
    return markdown.table(columns, _rows(frame, share))


def _rows(frame: pd.DataFrame, share: float | None) -> Iterator[list[str]]:
    for prefix, (model, row, variant) in MODELS.items():
        for suffix, (after, row_suffix, is_variant) in AFTER.items():
            if (method := prefix + suffix) not in set(frame.method):
                continue
            printed = None if is_variant or variant else row + row_suffix
            cells = [f"{model}, {after}" if after else f"**{model}**"]
            cells += [measured_cell(frame, method, "rmse", 1)]
            cells += [published_cell("Table 3", printed, "RMSE", 1)]
            for level, (metric, _) in LEVELS.items():
                cells += [measured_cell(frame, method, metric, 3)]
                cells += [published_cell("Table 3", printed, "coverage", 3, level)]
            cells += [measured_cell(frame, method, "crps", 1)]
            cells += [measured_cell(frame, method, "worst_cell_gap", 3)]
            dashes = ["–"] * 4
            yield cells + (
                relative_difference(frame, method, prefix, "rmse", share) if suffix else dashes
            )


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's claims on the table."""
    have = set(frame.method)
    if {"glm", "glm_local_1000"} <= have:
        before, after = (by_seed(frame, name, "rmse") for name in ("glm", "glm_local_1000"))
        gain = 100 * (after / before - 1)
        text = "local recalibration takes 6 % ± 1 off the GLM's RMSE (published 798.9 → 751.2)"
        evidence = f"{gain.mean():+.1f} %, {gain.min():+.1f} to {gain.max():+.1f}"
        yield Claim(text, bool(abs(gain.mean() + 6) <= 1), evidence, ("real_data",))
    for parent in ("glm", "network"):
        for suffix, after in (("_local_1000", "local"), ("_isotonic", "isotonic")):
            if (method := parent + suffix) in have:
                yield _covers(frame, method, f"{MODELS[parent][0]}, {after}")
    if {"network", "network_local_1000"} <= have:
        p, d = _change_of_rmse(frame, "network_local_1000")
        text = "local recalibration lowers the network's RMSE (a paired test at 5 %)"
        evidence = f"By {-d.mean():.1f} dollars, p {p:.2g}"
        yield Claim(text, bool(p < 0.05 and d.mean() < 0), evidence, ("real_data", "sole_method"))
        for suffix in ("_isotonic", "_density"):
            if (other := f"network{suffix}") in have:
                share = float(_change_of_rmse(frame, other)[1].mean() / d.mean())
                text = (
                    f"{AFTER[suffix][0]} does not: it takes less than"
                    " a tenth as much off ('the sole method', after Table 3)"
                )
                yield Claim(text, share < 0.1, f"{100 * share:+.0f} % of it", ("sole_method",))


def _covers(frame: pd.DataFrame, method: str, title: str) -> Claim:
    misses = {v: 100 * (by_seed(frame, method, m).mean() - v) for v, (m, _) in LEVELS.items()}
    text = f"coverage of {title} is within 1.5 points at 90 % and 1 at 95 and 99 %"
    holds = all(abs(misses[level]) <= most for level, (_, most) in LEVELS.items())
    evidence = ", ".join(f"{100 * level:g} %: {miss:+.2f}" for level, miss in misses.items())
    return Claim(text, holds, evidence, ("coverage_diamonds",))


def _change_of_rmse(frame: pd.DataFrame, method: str) -> tuple[float, pd.Series]:
    """Return Wilcoxon's two-sided p, and differences of the RMSE from the network's own by seed."""
    change = (by_seed(frame, method, "rmse") - by_seed(frame, "network", "rmse")).dropna()
    return (wilcoxon(change.to_numpy()) if np.any(change) else 1.0), change


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers and settings of its runs with the keys of ``published.csv``."""
    rows = {}
    for method, (prefix, suffix) in METHODS.items():
        (_, row, variant), (after, row_suffix, is_variant) = MODELS[prefix], AFTER[suffix]
        title = after.partition(" (ours")[0] if is_variant else ""
        rows[method] = row + row_suffix, listed(title, variant)
    shown = {"rmse": Shown("RMSE")}
    shown |= {metric: Shown("coverage", level) for level, (metric, _) in LEVELS.items()}
    records = read(folder)
    with_layers = [record for record in records if not _has_no_layers(record)]
    return joined(
        [
            in_published_terms(numbers(records), "Table 3", "diamonds", rows, shown),
            settings_of(with_layers, "Section 4.4"),
        ]
    )


def _has_no_layers(record: Record) -> bool:
    return record["config"]["parent"].get("hidden") == []


def numbers(records: Iterable[Record]) -> pd.DataFrame:
    """Return the numbers, the network without hidden layers as a parent of its own."""
    renamed = (r | {"parent": WITHOUT_LAYERS} if _has_no_layers(r) else r for r in records)
    return numbers_of(renamed, PARENTS)


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
