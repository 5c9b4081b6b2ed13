"""One setting of Luo et al. (Section 5.3) beside their Tables 1 to 3, from the records of a
sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.frames import by_metric, half_width, where
from experiments.common.markdown import counted_noun, listed, number, signed, spread, table
from experiments.common.published import read_published
from experiments.common.runs import Record, numbers_on_test
from experiments.common.settings import trains_otherwise
from experiments.common.titles import titles
from kdgraph.metrics import holm
from kdgraph.results.comparison.significance import wilcoxon

PAPER = Path(__file__).parent
AGAINST = (  # Methods that LoRe is compared with, seed by seed
    *("none", "isotonic", "temperature", "histogram"),
    *("group_temperature", "group_histogram", "constant"),
)
WORST = "group_mce"
CORRELATION = "correlation with max group MCE"
REFITTED = "LoRe's γ by CV, in units of spread"
# Titles of variants with another bandwidth than the printed one, or with it in other units.
OWN_UNITS = "LoRe's γ in the map's own units"


@dataclass(frozen=True)
class Setting:
    """Methods and metrics of a setting, and their places in the paper's tables."""

    title: str
    dataset: str  # name in ``published.csv``
    missing: str  # message without runs
    methods: Mapping[str, str | None]  # method → its row in the paper's tables, or None
    cells: Mapping[str, str]  # metric → its column in Table 1: the worst group over fewer cells
    # metric → its column in Table 3, and the factor of its unit
    overall: Mapping[str, tuple[str, float]]
    digits: int  # decimals of Table 3 except percentages
    correlated: Mapping[str, str | None]  # metric → its row in Table 2, or None
    note: str  # below Tables 1 and 3
    metric_titles: Mapping[str, str] = field(default_factory=dict)  # metric → title in Table 2
    # metric → column of numbers that the paper does not have
    own: Mapping[str, str] = field(default_factory=dict)
    # method with a row of the paper → title of the variant that it is
    titles: Mapping[str, str] = field(default_factory=dict)
    own_units: Sequence[str] = (OWN_UNITS,)  # variants whose γ is in the units of the map
    # method of the paper without runs → its row
    not_run: Mapping[str, str] = field(default_factory=dict)
    # method that the paper does not have → row of the variant, and title
    variants: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    resplit: bool = True  # each seed divides the rows anew; else seeds differ in the network

    @property
    def local(self) -> list[str]:
        """Return the methods that are LoRe."""
        return [method for method in self.methods if method.startswith("lore")]

    @property
    def in_paper(self) -> list[str]:
        """Return the methods of the paper, as its main column has them."""
        return self.family("")

    @property
    def stands_for(self) -> Mapping[str, tuple[str, str]]:
        """Return method → its row in the paper's tables, and its title as a variant."""
        return {
            m: (row, self.titles.get(m, "")) for m, row in self.methods.items() if row is not None
        } | dict(self.variants)

    def family(self, title: str) -> list[str]:
        """Return a method for each row of the tables: the variant of this title, or the main."""
        rows: dict[str, str] = {}
        for method, row in self.methods.items():
            if row is None or self.titles.get(method, "") not in ("", title):
                continue
            if row not in rows or method in self.titles:
                rows[row] = method
        return list(rows.values())

    def metrics_of(self, title: str) -> list[str]:
        """Return the metrics of Table 2 for variants of this title, in the same units."""
        printed = title not in self.own_units
        return [
            m
            for m, row in self.correlated.items()
            if row is not None
            and not (m.endswith("_printed") if printed else f"{m}_printed" in self.correlated)
        ]

    @property
    def published(self) -> pd.DataFrame:
        """Return the published numbers of the setting."""
        published = read_published(PAPER)
        return published[published.dataset == self.dataset]


def compare_with_published(records: Sequence[Record], setting: Setting) -> str:
    """Return Tables 1 to 3, published and measured, and the paired tests."""
    frame = pd.DataFrame(entries(records))
    if frame.empty:
        return setting.missing
    plain = [record for record in records if not trains_otherwise(record)] or records
    return "\n\n".join(
        [
            f"## {setting.title}: {frame.seed.nunique()} seeds, {network_of(plain[0])}",
            by_group_and_overall(frame, setting),
            paired(frame, setting, share_of(records[0]) if setting.resplit else None),
            correlations(frame, setting),
        ]
    )


def entries(records: Iterable[Record]) -> Iterator[Record]:
    """Yield ``method, seed, metric, value`` on test rows; the parent is the method "none"."""

    def name_of(record: Record, model: str) -> str | None:
        if model == "parent":
            return None if trains_otherwise(record) else "none"
        return str(record["method"]).removesuffix("-as_in_paper")

    for record, name, metric, value in numbers_on_test(records, name_of):
        yield {"method": name, "seed": record["seed"], "metric": metric, "value": value}


def by_group_and_overall(frame: pd.DataFrame, setting: Setting) -> str:
    """Return Table 1 and the three columns of Table 3, measured beside published."""
    published, run = setting.published, set(frame.method)
    titles = {method: (method, row) for method, row in setting.methods.items() if method in run}
    titles |= {method: (f"{method}, not run", row) for method, row in setting.not_run.items()}
    columns = ["method", "max group MCE", "published", *setting.cells.values()]
    columns += [part for name, _ in setting.overall.values() for part in (name, "published")]
    rows = []
    for method, (label, row) in titles.items():
        cells = [label, _mean(frame, method, WORST), _printed(published, "Table 1", row, 3)]
        cells += [_mean(frame, method, metric) for metric in setting.cells]
        for metric, (name, factor) in setting.overall.items():
            digits = 1 if factor > 1 else setting.digits
            cells.append(_mean(frame, method, metric, factor))
            cells.append(_printed(published, "Table 3", row, digits, name))
        rows.append([*cells, *(_mean(frame, method, metric) for metric in setting.own)])
    return f"{table([*columns, *setting.own.values()], rows)}\n\n{setting.note}"


def paired(frame: pd.DataFrame, setting: Setting, share: float | None) -> str:
    """Return max group MCE of each LoRe less that of others, seed by seed, with tests."""
    wide = by_metric(where(frame, metric=WORST)).get(WORST, pd.DataFrame())
    pairs = [(a, b) for a in setting.local for b in AGAINST if a in wide and b in wide]
    if not pairs:
        return ""
    differences = [(wide[a] - wide[b]).dropna() for a, b in pairs]
    adjusted = holm([_p(d) for d in differences])
    rows = (
        [a, b, *difference_cells(d, share), f"{p:.2g}"]
        for (a, b), d, p in zip(pairs, differences, adjusted, strict=True)
    )
    same = "All seeds have the same test rows, and differ in the network."
    columns = ["max group MCE", "less that of", *DIFFERENCE, "p (Holm)"]
    return f"{table(columns, rows)}\n\n{same if share is None else SHARED}"


# Columns of ``difference_cells``.
DIFFERENCE = ("difference", "95 % interval, seeds", "other rows", "lower in", "p")
SHARED = titles("p4", "setting")["shared"]


def difference_cells(differences: pd.Series, share: float | None) -> list[str]:
    """Return cells of differences: mean, two 95 % intervals, seeds below 0, and Wilcoxon's p.

    ``share``: test rows per fitted row; None if seeds do not divide rows.
    """
    if differences.empty:
        return ["–"] * len(DIFFERENCE)
    mean = float(differences.mean())
    corrected = np.nan if share is None else half_width(differences, share)
    intervals = [
        "–" if np.isnan(half) else f"{signed(mean - half)} to {signed(mean + half)}"
        for half in (half_width(differences, 0.0), corrected)
    ]
    lower = f"{int((differences < 0).sum())} of {len(differences)}"
    return [signed(mean), *intervals, lower, f"{_p(differences):.2g}"]


def _p(differences: pd.Series) -> float:
    return wilcoxon(differences.to_numpy()) if np.any(differences) else 1.0


def correlations(frame: pd.DataFrame, setting: Setting) -> str:
    """Return Table 2: correlation with max group MCE over (method, seed), and within method."""
    published = setting.published
    printed = published[published.item == "Table 2"].set_index("method").value
    wide = frame.pivot(index=["method", "seed"], columns="metric", values="value")
    in_paper = [method for method in setting.in_paper if method in wide.index]
    rows = []
    for metric, row in setting.correlated.items():
        if metric not in wide or len(wide) < 4:
            continue
        own = _with_worst(wide, metric, in_paper)
        every = _with_worst(wide, metric, list(wide.index.unique("method")))
        cells = [setting.metric_titles.get(metric, row or metric), _r(own), _interval(own)]
        cells += [_r(_centred(own)), number(float(printed[row])) if row in printed.index else "–"]
        rows.append([*cells, _r(every), _r(_centred(every))])
    title = f"{counted_noun([len(in_paper)], 'method')} of the paper"
    columns = ["with max group MCE", title, "95 % interval", "within method", "published"]
    note = (
        "The interval is of seeds drawn anew with all their methods (1,000 times): runs of one seed"
        " share a network and its rows."
    )
    return f"{table([*columns, 'all methods', 'within'], rows)}\n\n{note}"


def _with_worst(wide: pd.DataFrame, metric: str, methods: Sequence[str]) -> pd.DataFrame:
    return wide.loc[wide.index.get_level_values("method").isin(methods), [metric, WORST]].dropna()


def measured(
    frame: pd.DataFrame, setting: Setting, network: str = "", *, correlated: bool = True
) -> pd.DataFrame:
    """Return numbers with the keys of ``published.csv``, as the variant ``network`` if it is named.

    Table 2 needs all methods. A correlation is of all (method, seed). Its values by seed are the
    jackknife's pseudo-values, seeds left out whole with all their methods, so that their mean is
    the correlation but for its bias, and their standard error is its own.
    """
    if frame.empty:
        return pd.DataFrame()
    shown = {WORST: ("Table 1", "max group MCE", 1.0)}
    shown |= {metric: ("Table 3", *column) for metric, column in setting.overall.items()}
    published = setting.published
    printed = set(zip(published["item"], published["metric"], published["method"], strict=True))
    numbers = frame[["method", "seed", "metric", "value"]]
    rows = [
        (item, name, row, seed, title, factor * value)
        for method, seed, metric, value in numbers.itertuples(index=False)
        if method in setting.stands_for and metric in shown
        for item, name, factor in [shown[metric]]
        for row, title in [setting.stands_for[method]]
        if (item, name, row) in printed
    ]
    rows += _correlation_rows(frame, setting) if correlated else ()
    columns = ["item", "metric", "method", "seed", "variant", "value"]
    if not rows:  # the runs are of methods that the setting does not have
        return pd.DataFrame([]).assign(dataset=setting.dataset)
    result = pd.DataFrame(rows, columns=columns).assign(dataset=setting.dataset)
    return result.assign(variant=[listed(network, title) for title in result.variant])


def _correlation_rows(frame: pd.DataFrame, setting: Setting) -> Iterator[tuple]:
    wide = frame.pivot(index=["method", "seed"], columns="metric", values="value")
    for title in ("", *dict.fromkeys(setting.titles.values())):
        methods = setting.family(title)
        if not set(methods) <= set(wide.index.unique("method")):
            continue  # it is of all methods; of some it is another number
        counts = wide.loc[methods].groupby("seed").size()
        complete = counts.index[counts == len(methods)]
        common = wide[wide.index.get_level_values("seed").isin(complete)]
        for metric in setting.metrics_of(title):
            if metric in wide:
                row = setting.correlated[metric]
                for seed, value in _pseudo_values(_with_worst(common, metric, methods)):
                    yield "Table 2", CORRELATION, row, seed, title, value


def _pseudo_values(both: pd.DataFrame) -> Iterator[tuple[Any, float]]:
    """Yield n r − (n − 1) r' of each seed (Efron and Tibshirani 1993, 11.5), or r of one."""
    seed_of = both.index.get_level_values("seed").to_numpy()
    seeds = np.unique(seed_of)
    if len(both) < 4:
        return
    values, n = both.to_numpy(), len(seeds)
    r = float(np.corrcoef(values.T)[0, 1])
    for seed in seeds:
        if n == 1:
            yield seed, r
        else:
            yield seed, n * r - (n - 1) * float(np.corrcoef(values[seed_of != seed].T)[0, 1])


def _r(both: pd.DataFrame) -> str:
    return number(float(both.corr().iloc[0, 1]), 2).replace("-", "−") if len(both) > 1 else "–"


def _centred(both: pd.DataFrame) -> pd.DataFrame:
    return both - both.groupby("method").transform("mean")


def share_of(record: Record) -> float:
    """Return test rows per fitted row of a record's data set."""
    rows: Mapping[str, int] = record["dataset"]
    return rows["n_test"] / (rows["n_train"] + rows["n_calibration"])


def network_of(record: Record) -> str:
    """Return how long the record's network was trained."""
    parent: Mapping[str, object] = record["config"]["parent"]
    if parent["patience"] is None:
        return f"network trained for {parent['max_epochs']} epochs"
    criterion = str(parent["stop_on"]).replace("_", " ")
    return f"network stopped on {criterion}, patience {parent['patience']}"


def _interval(both: pd.DataFrame, draws: int = 1000) -> str:
    # Seeds are drawn whole: methods of one seed share a network, so single runs are no sample.
    rng = np.random.default_rng(0)
    by_seed = [part.to_numpy() for _, part in both.groupby("seed")]
    n = len(by_seed)
    if n < 3:
        return "–"
    samples = (np.concatenate([by_seed[i] for i in rng.integers(n, size=n)]) for _ in range(draws))
    correlations = [np.corrcoef(sample.T)[0, 1] for sample in samples]
    low, high = np.nanpercentile(correlations, [2.5, 97.5])
    return f"{number(low, 2)} to {number(high, 2)}".replace("-", "−")


def _mean(frame: pd.DataFrame, method: str, metric: str, factor: float = 1.0) -> str:
    values = factor * where(frame, method=method, metric=metric).value
    return spread(values, digits=1 if factor > 1 else 3)


def _printed(
    published: pd.DataFrame, item: str, method: str | None, digits: int, metric: str | None = None
) -> str:
    rows = where(published, item=item, method=method)
    rows = rows if metric is None else rows[rows.metric == metric]
    if method is None or rows.empty:
        return "–"
    value, sd = (number(float(each), digits) for each in rows.iloc[0][["value", "spread"]])
    return f"{value} ± {sd}"
