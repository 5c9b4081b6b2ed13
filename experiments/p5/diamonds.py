"""Prices of diamonds, beside Table 3 of Torres et al.: what ``kdg run
experiment=paper/p5/diamonds`` prints at its end.

``python -m experiments.p5.diamonds outputs`` prints it again, from any subset of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.markdown import counted_noun, head, line
from experiments.common.runs import Record, runs_of
from experiments.p5.records import (
    Shown,
    against,
    chosen_k,
    found,
    frame_of,
    in_published_terms,
    joined,
    of,
    of_parent,
    of_recalibrator,
    said,
    settings_of,
)
from kdgraph.results.comparison.significance import wilcoxon

EXPERIMENT = "paper/p5/diamonds"
WITHOUT_LAYERS = "mlp_gamma_linear"
PARENTS = {"gamma_glm": "glm", "mlp_gamma": "network", WITHOUT_LAYERS: "glm_adam"}
"""Parent → its row; a Gamma network without hidden layers is a GLM that Adam trains."""
CALLED = {
    "glm": ("GLM", "gamma_glm", ""),
    "network": ("network", "gamma_network", ""),
    "glm_adam": ("GLM by Adam (ours)", "gamma_glm", "trained by Adam"),
}
"""Start of a method → what it is called, its row in the paper's table, and its title where it
stands beside that.
"""
AFTER = {
    "": ("", "", False),
    "_isotonic": ("isotonic", "-isotonic_pit", False),
    "_density": ("density estimation", "-density_pit", False),
    "_local_1000": ("local, k = 1,000, raw units", "-local_pit", False),
    "_local_1000_draws": ("local, k = 1,000, raw units, 1,000 draws (ours)", "-local_pit", True),
    "_global": ("global (ours, to compare)", "-isotonic_pit", True),
    "_density_row": ("density estimation in units of the row (ours)", "-density_pit", True),
    "_local_1000_sd": ("local, k = 1,000, standard units (ours)", "-local_pit", True),
    "_local": ("local, standard units, k chosen (ours)", "-local_pit", True),
    "_local_linear": ("local-linear, standard units, k chosen (ours)", "-local_pit", True),
}
"""End of a method → what it is called, the end of its row in the paper's table, and whether it only
stands beside that, being ours.
"""
BY_ADAM = ("", "_isotonic", "_local_1000")
"""Ends of the methods behind the GLM that Adam trains."""
METHODS = {
    parent + end: (parent, end)
    for parent in CALLED
    for end in AFTER
    if parent != "glm_adam" or end in BY_ADAM
}
"""Method → its parent and its end."""
LEVELS = {0.9: ("coverage_90", 1.5), 0.95: ("coverage_95", 1.0), 0.99: ("coverage_99", 1.0)}
"""Level → its metric, and by how many points recalibrated coverage may miss it."""
NOTE = """Mean ± standard deviation over seeds, which divide the same rows anew. *Gap*: the largest of 20 cells between coverage and 95 %.
The RMSE is compared with that of the same model without recalibration, seed by seed: mean, the 95 % interval of other rows (Nadeau and
Bengio 2003), in how many seeds it is lower, Wilcoxon's p."""


def compare_with_published(records: Sequence[Record]) -> str:
    """Table 3, published and found, and what is claimed of it, of the records of a sweep;
    markdown.
    """
    frame = numbers(records)
    if frame.empty:
        return "no run of the diamonds is there"
    rows = records[0]["dataset"]
    share = rows["n_test"] / (rows["n_train"] + rows["n_calibration"])
    ks = chosen_k(
        records, [parent + end for parent in CALLED for end in ("_local", "_local_linear")]
    )
    parts = [
        f"## Torres et al., Table 3: {counted_noun([frame.seed.nunique()], 'seed')}",
        table(frame, share),
        NOTE,
        ks,
        verdicts(claims(frame)),
    ]
    return "\n\n".join(part for part in parts if part)


def table(frame: pd.DataFrame, share: float | None) -> str:
    """Table 3, ours beside what was published; ``share``: test rows for each row that is fitted
    on.
    """
    levels = [title for level in LEVELS for title in (f"{100 * level:g} %", "published")]
    lines = head(
        [
            "model",
            "RMSE",
            "published",
            *levels,
            "CRPS",
            "gap",
            "less its own RMSE",
            "95 % interval",
            "lower in",
            "p",
        ]
    )
    for parent, (called, printed, beside) in CALLED.items():
        for end, (after, row, ours) in AFTER.items():
            if (method := parent + end) not in set(frame.method):
                continue
            item = None if ours or beside else printed + row
            cells = [f"{called}, {after}" if after else f"**{called}**"]
            cells += [found(frame, method, "rmse", 1), said("Table 3", item, "RMSE", 1)]
            for level, (metric, _) in LEVELS.items():
                cells += [
                    found(frame, method, metric, 3),
                    said("Table 3", item, "coverage", 3, level),
                ]
            cells += [found(frame, method, "crps", 1), found(frame, method, "worst_cell_gap", 3)]
            lines.append(
                line(
                    [*cells, *(against(frame, method, parent, "rmse", share) if end else ["–"] * 4)]
                )
            )
    return "\n".join(lines)


def claims(frame: pd.DataFrame) -> Iterable[Claim]:
    """What the paper says of the table."""
    have = set(frame.method)
    if {"glm", "glm_local_1000"} <= have:
        gain = 100 * (of(frame, "glm_local_1000", "rmse") / of(frame, "glm", "rmse") - 1)
        text = "local recalibration takes 6 % ± 1 off the GLM's RMSE (published 798.9 → 751.2)"
        yield Claim(
            text,
            bool(abs(gain.mean() + 6) <= 1),
            f"{gain.mean():+.1f} %, {gain.min():+.1f} to {gain.max():+.1f}",
            ("real_data",),
        )
    for parent in ("glm", "network"):
        called = CALLED[parent][0]
        for end, after in (("_local_1000", "local"), ("_isotonic", "isotonic")):
            if (method := f"{parent}{end}") in have:
                yield _covers(frame, method, f"{called}, {after}")
    if {"network", "network_local_1000"} <= have:
        p, d = _lower(frame, "network_local_1000")
        text = "local recalibration lowers the network's RMSE (a paired test at 5 %)"
        yield Claim(
            text,
            bool(p < 0.05 and d.mean() < 0),
            f"By {-d.mean():.1f} dollars, p {p:.2g}",
            ("real_data", "sole_method"),
        )
        for end in ("_isotonic", "_density"):
            if (other := f"network{end}") in have:
                off = float(_lower(frame, other)[1].mean() / d.mean())
                text = (
                    f"{AFTER[end][0]} does not: it takes less than a tenth as much off ('the sole"
                    " method', after Table 3)"
                )
                yield Claim(text, off < 0.1, f"{100 * off:+.0f} % of it", ("sole_method",))


def _covers(frame: pd.DataFrame, method: str, called: str) -> Claim:
    misses = {
        level: 100 * (of(frame, method, metric).mean() - level)
        for level, (metric, _) in LEVELS.items()
    }
    holds = all(abs(misses[level]) <= most for level, (_, most) in LEVELS.items())
    told = ", ".join(f"{100 * level:g} %: {miss:+.2f}" for level, miss in misses.items())
    return Claim(
        f"coverage of {called} is within 1.5 points at 90 % and 1 at 95 and 99 %",
        holds,
        told,
        ("coverage_diamonds",),
    )


def _lower(frame: pd.DataFrame, method: str) -> tuple[float, pd.Series]:
    """Wilcoxon's p, two-sided, and differences of the RMSE from the network's own, by seed."""
    differences = (of(frame, method, "rmse") - of(frame, "network", "rmse")).dropna()
    return (wilcoxon(differences.to_numpy()) if np.any(differences) else 1.0), differences


def measured(folder: Path) -> pd.DataFrame:
    """Its numbers as :func:`experiments.p5.records.in_published_terms` has them; what the paper has
    not stands beside what it has.
    """
    rows = {}
    for method, (parent, end) in METHODS.items():
        (_, row, beside), (called, after, ours) = CALLED[parent], AFTER[end]
        title = called.partition(" (ours")[0] if ours else ""
        rows[method] = row + after, ", ".join(filter(None, [title, beside]))
    shown = {"rmse": Shown("RMSE")} | {
        metric: Shown("coverage", level) for level, (metric, _) in LEVELS.items()
    }
    records = read(folder)
    local = "gamma_glm-local_pit and gamma_network-local_pit"
    settings = {("neighbours", local): of_recalibrator("glm_local_1000", "k")} | {
        (f"units of hidden layer {i + 1}", "gamma_network"): of_parent("mlp_gamma", "hidden", i)
        for i in range(3)
    }
    with_layers = [r for r in records if r["config"]["parent"].get("hidden") != []]
    parts = [
        in_published_terms(numbers(records), "Table 3", "diamonds", rows, shown),
        settings_of(with_layers, "Section 4.4", "diamonds", settings),
    ]
    return joined(parts)


def numbers(records: Iterable[Record]) -> pd.DataFrame:
    """As :func:`~experiments.p5.records.frame_of`, with the network without hidden layers as a
    parent of its own.
    """
    return frame_of(
        (
            record | {"parent": WITHOUT_LAYERS}
            if record["config"]["parent"].get("hidden") == []
            else record
            for record in records
        ),
        PARENTS,
    )


def read(folder: Path) -> list[Record]:
    """Records of its runs below a folder."""
    return runs_of(EXPERIMENT, folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
