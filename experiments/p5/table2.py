"""A network with dropout on Rosenbrock's function, beside Table 2 of Torres et al.: what
``experiment=paper/p5/table2`` prints at its end.

``python -m experiments.p5.table2 outputs`` prints it again, from any subset of the runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.markdown import counted_noun, head, line
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
    of_parent,
    of_recalibrator,
    of_truth,
    said,
    settings_of,
)

EXPERIMENT = "paper/p5/table2"
NETWORKS = {"mlp_lognormal": "wsir", "mc_dropout": "mc_dropout"}
"""Parent → the paper's row of it."""
PARENTS = NETWORKS | {"mlp_lognormal": "wsir_training"}
"""Parent → the row of the parent itself: WSIR has the variance of its training rows before that of
the calibration rows, which the paper has, replaces it.
"""
ROWS = {
    "wsir": ("WSIR", "wsir"),
    "wsir_training": ("WSIR, variance of training rows (ours)", None),
    "mc_dropout": ("MC dropout", "mc_dropout"),
    "wsir_local_radius": ("WSIR, local within .5", "wsir-local_pit"),
    "mc_dropout_local_radius": ("MC dropout, local within .5", "mc_dropout-local_pit"),
    "wsir_local_radius_exact": ("WSIR, local within .5, no draws (ours)", None),
    "mc_dropout_local_radius_exact": ("MC dropout, local within .5, no draws (ours)", None),
    "wsir_local": ("WSIR, local, k chosen (ours)", None),
    "mc_dropout_local": ("MC dropout, local, k chosen (ours)", None),
    "wsir_local_linear": ("WSIR, local-linear, k chosen (ours)", None),
    "mc_dropout_local_linear": ("MC dropout, local-linear, k chosen (ours)", None),
    TRUTH: ("*true distribution*", TRUTH),
}
"""Method → what it is called, and its row in the paper's table."""
SHARE = r"_(05|50)(?=$|_)"
"""What the names of methods say of their share of dropout."""
CHOSEN = re.compile("_local(_linear)?$")
PUBLISHED_DROPOUT = 0.5
BETWEEN = {
    "_local_radius_exact": "no draws",
    "_local": "k chosen",
    "_local_linear": "local-linear, k chosen",
}
"""End of a method of ours → its title."""
CLOSEST = ("recalibrated_closest",)
"""The sentence of ``claims.csv`` that the errors of the mean are about."""
RADIUS = {"wsir": "wsir_local_radius", "mc_dropout": "mc_dropout_local_radius"}
_BOTH = "wsir and mc_dropout"
SETTINGS = {
    ("hidden layers", _BOTH): of_parent("mc_dropout", "hidden"),
    **{
        (f"units of hidden layer {i + 1}", _BOTH): of_parent("mc_dropout", "hidden", i)
        for i in range(4)
    },
    ("dropout", _BOTH): of_parent("mc_dropout", "dropout"),
    ("epochs", _BOTH): of_parent("mc_dropout", "max_epochs"),
    ("learning rate", _BOTH): of_parent("mc_dropout", "learning_rate"),
    ("batch size", _BOTH): of_parent("mc_dropout", "batch_size"),
    ("draws", "mc_dropout"): of_parent("mc_dropout", "masks"),
    ("radius of neighbours", "wsir-local_pit and mc_dropout-local_pit"): of_recalibrator(
        "mc_dropout_50_local_radius", "radius"
    ),
}
"""Setting and method as published → a record's value. WSIR has the same network."""
NOTE = """Mean ± standard deviation over seeds. MSE is to y, so the true distribution has what no prediction goes below; *excess* is the MSE
to the true mean. KL is that of the truth from the prediction in 30 bins of its mass, *gap* the largest of 20 cells between coverage and
95 %. The paper's network has 25 times as many units in a wide layer, 75 epochs and 1,000 masks, with a dropout of .5."""


def compare_with_published(records: Sequence[Record]) -> str:
    """Table 2, published and found, and what is claimed of it, for each share of dropout, of the
    records of a sweep; markdown.
    """
    frame = by_share(records)
    if frame.empty:
        return "no run of the networks on Rosenbrock's function is there"
    parts = []
    for dropout in sorted(frame.dropout.unique()):
        some = [
            record for record in records if record["config"]["parent"].get("dropout") == dropout
        ]
        here = pd.concat([frame[frame.dropout == dropout], of_truth(some, dropout)])
        parts += [
            (
                f"## Torres et al., Table 2: dropout {dropout:g},"
                f" {counted_noun([here.seed.nunique()], 'seed')}"
            ),
            table(here),
        ]
        parts += [
            chosen_k(
                some,
                sorted(name for name in {each["method"] for each in some} if CHOSEN.search(name)),
            ),
            beyond(some),
            verdicts(told) if (told := list(claims(here))) else "",
        ]
    return "\n\n".join(part for part in [*parts, NOTE] if part)


def by_share(records: Sequence[Record]) -> pd.DataFrame:
    """Methods without their share of dropout, which has a column."""
    frame = frame_of(map(named, records), PARENTS)
    return frame.assign(method=frame.method.str.replace(SHARE, "", regex=True)).drop_duplicates(
        ["method", "seed", "dropout", "metric"]
    )


def named(record: Record) -> Record:
    """Return the record with the name of its preset as that of its method.

    A run with another size than its preset's has a label of its components, which no row has.
    """
    presets = [
        word.partition("=")[2].rpartition("/")[2]
        for word in record.get("overrides", ())
        if word.startswith("method=")
    ]
    return record | {"method": presets[-1]} if presets else record


def table(frame: pd.DataFrame) -> str:
    """Table 2 of one share of dropout, ours beside what was published."""
    titles = [
        "model",
        "MSE",
        "published",
        "excess",
        "coverage (%)",
        "published",
        "sMIS",
        "published",
        "CRPS",
        "KL",
        "gap",
    ]
    lines = head(titles)
    for method in (name for name in ROWS if name in set(frame.method)):
        called, row = ROWS[method]
        cells = [
            called,
            found(frame, method, "mse_y", 2),
            said("Table 2", row, "MSE", 2),
            found(frame, method, "mse_mean", 2),
        ]
        cells += [found(frame, method, "coverage", 1, 100), said("Table 2", row, "coverage (%)", 1)]
        cells += [found(frame, method, "smis", 3), said("Table 2", row, "sMIS", 3)]
        lines.append(
            line(
                [
                    *cells,
                    *(found(frame, method, name, 3) for name in ("crps", "kl", "worst_cell_gap")),
                ]
            )
        )
    return "\n".join(lines)


def beyond(records: Iterable[Record]) -> str:
    """How many calibration rows lie beyond the sample of all masks, a sentence; empty where no run
    says.
    """
    learnt = [
        record["learnt"].get("recalibrator", {})
        for record in records
        if record["parent"] == "mc_dropout"
    ]
    shares = [100 * each["pit_beyond"] for each in learnt if "pit_beyond" in each]
    return (
        f"Calibration rows beyond the sample of all masks: {min(shares):.1f} to"
        f" {max(shares):.1f} %."
        if shares
        else ""
    )


def claims(frame: pd.DataFrame) -> Iterable[Claim]:
    """What the paper says of the table, in every seed."""
    have = set(frame.method)
    if not {*RADIUS, *RADIUS.values()} <= have:
        return
    for metric, called in (("mse_y", "MSE"), ("smis", "sMIS")):
        own, after = (
            pd.concat([of(frame, name, metric) for name in names], axis=1).dropna()
            for names in (RADIUS, RADIUS.values())
        )
        lower = (own.min(axis=1) - after.max(axis=1)).dropna() > 0
        text = f"both recalibrated rows are below both of the network's in {called}"
        yield Claim(
            text,
            bool(lower.all()),
            f"In {int(lower.sum())} of {len(lower)} seeds",
            CLOSEST if metric == "mse_y" else (),
        )
    for name, local in RADIUS.items():
        share = of(frame, local, "mse_mean") / of(frame, name, "mse_mean")
        text = f"the excess MSE of {ROWS[local][0]} is below a quarter of the network's own"
        yield Claim(
            text,
            bool(share.max() < 0.25),
            f"{100 * share.min():.1f} to {100 * share.max():.1f} %",
            CLOSEST,
        )
    for local in RADIUS.values():
        covered = 100 * of(frame, local, "coverage")
        text = (
            f"the coverage of {ROWS[local][0]} is within a point of 95 % (published 94.3 and 94.7)"
        )
        yield Claim(
            text, bool(abs(covered.mean() - 95) < 1), f"{covered.mean():.1f} %", ("near_truth",)
        )


def measured(folder: Path) -> pd.DataFrame:
    """Its numbers as :func:`experiments.p5.records.in_published_terms` has them; another share of
    dropout is a variant.
    """
    records = read(folder)
    frame, parts = by_share(records), []
    for dropout in frame.dropout.unique():
        some = [
            record for record in records if record["config"]["parent"].get("dropout") == dropout
        ]
        here = pd.concat([frame[frame.dropout == dropout], of_truth(some, dropout)])
        at = "" if dropout == PUBLISHED_DROPOUT else f"dropout {dropout:g}"
        rows = {method: (row, at) for method, (_, row) in ROWS.items() if method != TRUTH or not at}
        training = ", ".join(filter(None, ["variance of training rows", at]))
        rows |= {"wsir_training": ("wsir", training)}
        for parent, local in RADIUS.items():
            row = ROWS[local][1]
            rows |= {
                f"{parent}{end}": (row, ", ".join(filter(None, [called, at])))
                for end, called in BETWEEN.items()
            }
        shown = {
            "mse_y": Shown("MSE"),
            "coverage": Shown("coverage (%)", 0.95, 100),
            "smis": Shown("sMIS", 0.95),
        }
        parts.append(in_published_terms(here, "Table 2", "rosenbrock", rows, shown))
        if not at:
            parts.append(settings_of(map(named, some), "Section 4.2", "rosenbrock", SETTINGS))
    return joined(parts)


def read(folder: Path) -> list[Record]:
    """Records of its runs below a folder; of networks of several sizes, those of the largest,
    trained for longest.
    """
    records = runs_of(
        EXPERIMENT, folder, free=["parent.hidden", "parent.max_epochs", "parent.masks"]
    )
    return [record for record in records if _size(record) == max(map(_size, records))]


def _size(record: Record) -> tuple[int, int]:
    parent = record["config"]["parent"]
    return sum(parent["hidden"]), parent["max_epochs"]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
