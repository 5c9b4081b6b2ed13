"""A network with dropout on Rosenbrock's function, beside Table 2 of Torres et al.: the tables
after ``kdg run experiment=paper/p5/table2``.

``python -m experiments.p5.table2 outputs`` prints them again, from any subset of the runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.frames import seeds_of
from experiments.common.markdown import blocks, listed
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

EXPERIMENT = "paper/p5/table2"
# Parent → its row in the paper's table.
NETWORKS = {"mlp_lognormal": "wsir", "mc_dropout": "mc_dropout"}
# Parent → row of the parent itself: WSIR has the variance of its training rows until that of the
# calibration rows, which the paper has, replaces it.
PARENTS = NETWORKS | {"mlp_lognormal": "wsir_training"}
TITLES = titles("p5", "table2")
ROWS = TITLES["rows"]  # Method → its title, and its row in the paper's table
SHARE = r"_(05|50)(?=$|_)"  # Share of dropout in the name of a method
CHOSEN = re.compile("_local(_linear)?$")
PUBLISHED_DROPOUT = 0.5
VARIANTS = TITLES["variants"]  # Suffix of a method that the paper does not have → its title
COLUMNS = (
    Column("mse_y", "MSE", 2, "MSE"),
    Column("mse_mean", "excess", 2),
    Column("coverage", "coverage (%)", 1, "coverage (%)", 100),
    Column("smis", "sMIS", 3, "sMIS"),
    *(Column("crps", "CRPS", 3), Column("kl", "KL", 3), Column("worst_cell_gap", "gap", 3)),
)
CLOSEST = ("recalibrated_closest",)
RADIUS = {"wsir": "wsir_local_radius", "mc_dropout": "mc_dropout_local_radius"}
NOTE = TITLES["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Table 2, published and measured, and the verdicts, for each share of dropout."""
    frame = by_share(records)
    if frame.empty:
        return "no run of the networks on Rosenbrock's function is there"
    parts = []
    for dropout, numbers, same in _with_truth(frame, records):
        chosen = sorted({r["method"] for r in same if CHOSEN.search(r["method"])})
        seeds = seeds_of(numbers)
        tested = list(claims(numbers))
        parts += [
            f"## Torres et al., Table 2: dropout {dropout:g}, {seeds}",
            table(numbers),
            chosen_k(same, chosen),
            pit_beyond(same),
            verdicts(tested) if tested else "",
        ]
    return blocks([*parts, NOTE])


def _with_truth(
    frame: pd.DataFrame, records: Sequence[Record], *, in_order: bool = True
) -> Iterator[tuple[float, pd.DataFrame, list[Record]]]:
    shares = frame.dropout.unique()
    for dropout in sorted(shares) if in_order else shares:
        same = [r for r in records if r["config"]["parent"].get("dropout") == dropout]
        numbers = [frame[frame.dropout == dropout], numbers_of_truth(same, dropout)]
        yield dropout, pd.concat(numbers), same


def by_share(records: Sequence[Record]) -> pd.DataFrame:
    """Return the numbers of methods, whose names lack the share of dropout: it has a column."""
    frame = numbers_of(map(named, records), PARENTS)
    frame = frame.assign(method=frame.method.str.replace(SHARE, "", regex=True))
    return frame.drop_duplicates(["method", "seed", "dropout", "metric"])


def named(record: Record) -> Record:
    """Return the record with its preset as its method: another size would have another label."""
    words = (word.partition("=") for word in record.get("overrides", ()))
    presets = [value.rpartition("/")[2] for key, _, value in words if key == "method"]
    return record | {"method": presets[-1]} if presets else record


def table(frame: pd.DataFrame) -> str:
    """Return Table 2 of one share of dropout, measured beside published."""
    return compared(frame, "Table 2", ROWS, COLUMNS)


def pit_beyond(records: Iterable[Record]) -> str:
    """Return a sentence on the share of calibration rows beyond the sample of all masks, or ""."""
    learnt = [r["learnt"].get("recalibrator", {}) for r in records if r["parent"] == "mc_dropout"]
    shares = [100 * each["pit_beyond"] for each in learnt if "pit_beyond" in each]
    if not shares:
        return ""
    reach = f"{min(shares):.1f} to {max(shares):.1f} %"
    return f"Calibration rows beyond the sample of all masks: {reach}."


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the paper's claims on the table."""
    if not {*RADIUS, *RADIUS.values()} <= set(frame.method):
        return
    for metric, title in (("mse_y", "MSE"), ("smis", "sMIS")):
        own, after = (
            pd.concat([by_seed(frame, name, metric) for name in names], axis=1).dropna()
            for names in (RADIUS, RADIUS.values())
        )
        lower = (own.min(axis=1) - after.max(axis=1)).dropna() > 0
        text = f"both recalibrated rows are below both of the network's in {title}"
        evidence = f"In {int(lower.sum())} of {len(lower)} seeds"
        yield Claim(text, bool(lower.all()), evidence, CLOSEST if metric == "mse_y" else ())
    for name, local in RADIUS.items():
        share = by_seed(frame, local, "mse_mean") / by_seed(frame, name, "mse_mean")
        text = f"the excess MSE of {ROWS[local][0]} is below a quarter of the network's own"
        evidence = f"{100 * share.min():.1f} to {100 * share.max():.1f} %"
        yield Claim(text, bool(share.max() < 0.25), evidence, CLOSEST)
    for local in RADIUS.values():
        covered = 100 * by_seed(frame, local, "coverage").mean()
        text = (
            f"the coverage of {ROWS[local][0]} is within a point of 95 % (published 94.3 and 94.7)"
        )
        yield Claim(text, bool(abs(covered - 95) < 1), f"{covered:.1f} %", ("near_truth",))


def measured(folder: Path) -> pd.DataFrame:
    """Return numbers and settings by the keys of ``published.csv``; other dropout is a variant."""
    records, parts = read(folder), []
    shown = {
        "mse_y": Shown("MSE"),
        "coverage": Shown("coverage (%)", 0.95, 100),
        "smis": Shown("sMIS", 0.95),
    }
    for dropout, numbers, same in _with_truth(by_share(records), records, in_order=False):
        at = "" if dropout == PUBLISHED_DROPOUT else f"dropout {dropout:g}"
        rows = {method: (row, at) for method, (_, row) in ROWS.items() if method != TRUTH or not at}
        rows |= {"wsir_training": ("wsir", listed("variance of training rows", at))}
        rows |= {
            parent + suffix: (ROWS[local][1], listed(title, at))
            for parent, local in RADIUS.items()
            for suffix, title in VARIANTS.items()
        }
        parts.append(in_published_terms(numbers, "Table 2", "rosenbrock", rows, shown))
        if not at:
            parts.append(settings_of(map(named, same), "Section 4.2"))
    return joined(parts)


def read_all_sizes(folder: Path) -> list[Record]:
    """Return the records of networks of all sizes below a folder."""
    return runs_of(EXPERIMENT, folder, free=["parent.hidden", "parent.max_epochs", "parent.masks"])


def read(folder: Path) -> list[Record]:
    """Return the records of the largest networks, trained for longest, below a folder."""
    records = read_all_sizes(folder)
    largest = max(map(_size, records), default=None)
    return [record for record in records if _size(record) == largest]


def _size(record: Record) -> tuple[int, int]:
    parent = record["config"]["parent"]
    return sum(parent["hidden"]), parent["max_epochs"]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
