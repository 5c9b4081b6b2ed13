"""Communities and Crime beside Tables 1 to 3 (setting 1) of Luo et al.: the tables after ``kdg run
experiment=paper/p4/crime_long``.

``python -m experiments.p4.crime outputs`` prints them again, from any subset of the runs, and with
``paper/p4/crime`` after it those of the network that is stopped early.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from experiments.common.runs import Record, runs_of
from experiments.common.settings import printed_settings, trains_otherwise
from experiments.common.titles import titles
from experiments.p4 import setting

EXPERIMENT, STOPPED = "paper/p4/crime_long", "paper/p4/crime"
READINGS, INCOME = "paper/p4/crime_readings", "paper/p4/crime_income"
LABELS, MASS = "isotonic regression fitted on labels", "LoRe in bins of equal mass"
BINS_15, BY_INCOME = "ECE in 15 bins (Section 3.2)", "groups by the largest of five incomes"
EARLY = "network stopped early"  # Titles of variants
PAPER_PROTOCOL = "-as_in_paper"  # Suffix of methods that are fitted with test rows
SETTING = setting.Setting(**titles("p4", "crime")["setting"])


def compare_with_published(records: Sequence[Record]) -> str:
    """Return Tables 1 to 3 of setting 1, published and measured, and the paired tests."""
    return setting.compare_with_published(records, SETTING)


STOPPED_SETTING = replace(  # Setting with the network that is stopped early, and so MMCE's
    SETTING,
    methods={"mmce_stopped" if m == "mmce" else m: row for m, row in SETTING.methods.items()},
)


NETWORKS = {EXPERIMENT: SETTING, STOPPED: STOPPED_SETTING}
OTHERS = [(f"experiment={name}",) for name in (READINGS, INCOME)]


def measured(folder: Path) -> pd.DataFrame:
    """Return the numbers with the network of 60 epochs, and of other readings as variants."""
    readings = pd.DataFrame(setting.entries(runs_of(READINGS, folder)))
    income = pd.DataFrame(setting.entries(runs_of(INCOME, folder)))
    frames = [
        setting.measured(pd.DataFrame(setting.entries(runs_of(EXPERIMENT, folder))), SETTING),
        setting.measured(
            pd.DataFrame(setting.entries(runs_of(STOPPED, folder))), STOPPED_SETTING, EARLY
        ),
        *read_otherwise(readings),
        by_income(income),
    ]
    return pd.concat(frames, ignore_index=True)


def measured_with_settings(folder: Path) -> pd.DataFrame:
    """Return numbers of Tables 1 to 3, and the settings of their runs."""
    return pd.concat([measured(folder), settings(folder)], ignore_index=True)


def _sweep(experiment: str, methods: Iterable[str], *words: str) -> tuple[str, ...]:
    method = "method=" + ",".join(f"paper/p4/crime/{name}" for name in methods)
    return (f"experiment={experiment}", method, *words)


def all_runs() -> list[tuple[str, ...]]:
    """Return the sweeps of all methods and variants with all seeds."""
    main, early = (_sweep(name, each.stands_for) for name, each in NETWORKS.items())
    return [main, *OTHERS, early]


def fewer_runs() -> list[tuple[str, ...]]:
    """Return the sweeps with fewer seeds of variants."""
    variants = [name for name in SETTING.stands_for if name not in SETTING.in_paper]
    return [
        _sweep(EXPERIMENT, SETTING.in_paper),
        *OTHERS,
        _sweep(EXPERIMENT, variants, "seed=range(0,20)"),
        _sweep(STOPPED, STOPPED_SETTING.in_paper, "seed=range(0,10)"),
    ]


# Item, data set, metric and method of a setting in ``published.csv``.
Place = tuple[str, str, str, str | None]
# Method of the main column → the setting that is its bandwidth.
_BANDWIDTHS: Mapping[str, Place] = {
    "lore_tsne_spread": ("Section 4", "any", "bandwidth of LoRe", "LoRe t-SNE"),
    "lore_pca_spread": ("Section 4", "any", "bandwidth of LoRe", "LoRe PCA"),
}
_SEEDS: Sequence[Place] = (  # Settings that are the number of seeds: each has a network of its own
    ("Table 1, caption", "crime", "seeds", None),
    ("Section 5.3", "crime", "seeds", None),
    ("Appendix A.2", "crime", "networks", None),
)


def settings(folder: Path) -> pd.DataFrame:
    """Return the settings of the runs of the main column with the keys of ``published.csv``."""
    records = [
        record
        for record in runs_of(EXPERIMENT, folder)
        if str(record["method"]).removesuffix(PAPER_PROTOCOL) in SETTING.in_paper
    ]
    seeds = {record["seed"] for record in records}
    plain = {r["seed"]: r for r in records if not trains_otherwise(r)}
    rows = [
        (_BANDWIDTHS[name], record["seed"], float(record["config"]["calibrator"]["bandwidth"]))
        for record in records
        if (name := str(record["method"]).removesuffix(PAPER_PROTOCOL)) in _BANDWIDTHS
    ]
    rows += [(place, seed, float(len(seeds))) for place in _SEEDS for seed in seeds]
    keys = ("item", "dataset", "metric", "method")
    result = [
        {**printed, "seed": seed}
        for seed, record in plain.items()
        for printed in printed_settings(setting.PAPER, record)
    ]
    result += [dict(zip(keys, p, strict=True)) | {"seed": s, "value": v} for p, s, v in rows]
    return pd.DataFrame(result).assign(variant="")


def read_otherwise(frame: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield variants: isotonic regression on labels, LoRe in bins of equal mass, ECE in 15 bins."""
    if frame.empty:
        return
    for method, row, title in (
        ("isotonic_labels", "isotonic", LABELS),
        ("lore_pca_mass", "LoRe PCA", MASS),
    ):
        setting_ = replace(SETTING, methods={method: row}, titles={method: title}, variants={})
        yield setting.measured(frame[frame.method == method], setting_, correlated=False)
    finer = frame[frame.metric == "ece_15"].assign(metric="ece")
    yield setting.measured(
        finer, replace(SETTING, titles={}, variants={}), BINS_15, correlated=False
    )


def by_income(frame: pd.DataFrame) -> pd.DataFrame:
    """Return max group MCE by income as a variant; groups change no error of all rows."""
    if frame.empty:
        return frame
    methods = {m: row for m, row in SETTING.methods.items() if m not in SETTING.titles}
    setting_ = replace(SETTING, methods=methods, titles={}, variants={})
    return setting.measured(
        frame[frame.metric == setting.WORST], setting_, BY_INCOME, correlated=False
    )


def main(arguments: Sequence[str]) -> None:
    """Print the tables of the runs below a folder."""
    folder = Path(arguments[0] if arguments else "outputs")
    experiment = arguments[1] if len(arguments) > 1 else EXPERIMENT
    print(compare_with_published(runs_of(experiment, folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
