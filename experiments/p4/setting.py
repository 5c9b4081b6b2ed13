"""One setting of Luo et al. (Section 5.3) beside their Tables 1 to 3, from the records of a
sweep.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.markdown import counted_noun, head, line, number, signed, spread
from experiments.common.published import read_published
from experiments.common.runs import Record
from experiments.common.settings import trains_otherwise
from experiments.common.splits import half_width
from kdgraph.metrics import holm
from kdgraph.results.comparison.significance import wilcoxon

AGAINST = (
    "none",
    "isotonic",
    "temperature",
    "histogram",
    "group_temperature",
    "group_histogram",
    "constant",
)
"""What LoRe is compared with, seed by seed."""
WORST = "group_mce"
CORRELATION = "correlation with max group MCE"
REFITTED = "LoRe's γ by CV, in units of spread"
OWN_UNITS = "LoRe's γ in the map's own units"
"""Titles of what has another bandwidth than the paper prints, or the same in other units."""


@dataclass(frozen=True)
class Setting:
    """What differs between the settings.

    Attributes
    ----------
    title : what the tables stand under.
    dataset : its name in ``published.csv``.
    missing : what to say where there is no run.
    methods : method → its row in the paper's tables; None where the paper does not have it.
    cells : metric → its column in Table 1 beside what was published: the largest error of a group
    over fewer cells.
    overall : metric → its column in Table 3, and what it is multiplied by there.
    digits : of what was published in Table 3 besides percentages.
    correlated : metric → its row in Table 2; None where the paper does not have it.
    note : stands below Tables 1 and 3.
    called : metric → what Table 2 calls it here, where the paper's name does not say all.
    own : metric → column of numbers that the paper does not have.
    titles : method that has a row of the paper's but is no method of the paper's in its main column
        → title of the variant that it is.
    own_units : titles of methods whose γ is in the units of the map, "" for the main column.
    not_run : method of the paper that is not run here → its row in the paper's tables.
    ours : method of ours → the row of the paper's tables that it stands in for, and its title.
    resplit : whether each seed divides the rows anew, so that seeds share rows; else they have the
        same rows and another network.
    """

    title: str
    dataset: str
    missing: str
    methods: Mapping[str, str | None]
    cells: Mapping[str, str]
    overall: Mapping[str, tuple[str, float]]
    digits: int
    correlated: Mapping[str, str | None]
    note: str
    called: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    own_units: Sequence[str] = (OWN_UNITS,)
    not_run: Mapping[str, str] = field(default_factory=dict)
    ours: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    resplit: bool = True

    @property
    def local(self) -> list[str]:
        """The methods that are LoRe."""
        return [method for method in self.methods if method.startswith("lore")]

    @property
    def in_paper(self) -> list[str]:
        """The methods that the paper has, as its main column has them."""
        return self.family("")

    @property
    def stands_for(self) -> Mapping[str, tuple[str, str]]:
        """Method → its row in the paper's tables, and its title where it is a variant."""
        return {
            method: (row, self.titles.get(method, ""))
            for method, row in self.methods.items()
            if row is not None
        } | dict(self.ours)

    def family(self, title: str) -> list[str]:
        """One method for each row of the paper's tables: the variant of this title, or where there
        is none that of the main column.
        """
        rows: dict[str, str] = {}
        for method, row in self.methods.items():
            if row is None or self.titles.get(method, "") not in ("", title):
                continue
            if row not in rows or method in self.titles:
                rows[row] = method
        return list(rows.values())

    def metrics_of(self, title: str) -> list[str]:
        """The metrics of Table 2 beside methods of this title, local errors in the same units."""
        other = "" if title in self.own_units else "_printed"
        return [
            metric
            for metric, row in self.correlated.items()
            if row is not None
            and not (
                metric.endswith("_printed") if other else f"{metric}_printed" in self.correlated
            )
        ]

    @property
    def published(self) -> pd.DataFrame:
        """What the paper printed of it."""
        published = read_published(Path(__file__).parent)
        return published[published.dataset == self.dataset]


def compare_with_published(records: Sequence[Record], setting: Setting) -> str:
    """Tables 1 to 3, published and found, and the paired tests, of the records of a sweep;
    markdown.
    """
    frame = pd.DataFrame(entries(records))
    if frame.empty:
        return setting.missing
    plain = [record for record in records if not trains_otherwise(record)]
    parts = [
        f"## {setting.title}: {frame.seed.nunique()} seeds, {network_of(plain[0] if plain else records[0])}",
        by_group_and_overall(frame, setting),
        paired(frame, setting, share_of(records[0]) if setting.resplit else None),
        correlations(frame, setting),
    ]
    return "\n\n".join(parts)


def entries(records: Iterable[Record]) -> Iterable[Record]:
    """One row for each number on test rows; the parent, method "none", once for each seed."""
    known = set()
    for record in records:
        method = str(record["method"]).removesuffix("-as_in_paper")
        for entry in record["metrics"]:
            if entry["of"] == "parent" and trains_otherwise(record):
                continue
            name = "none" if entry["of"] == "parent" else method
            key = name, record["seed"], entry["metric"]
            if entry["on"] == "test" and entry["value"] is not None and key not in known:
                known.add(key)
                yield {
                    "method": name,
                    "seed": record["seed"],
                    "metric": entry["metric"],
                    "value": entry["value"],
                }


def by_group_and_overall(frame: pd.DataFrame, setting: Setting) -> str:
    """Table 1, and the three columns of Table 3, ours beside what was published."""
    published, run = setting.published, set(frame.method)
    rows = {method: (method, row) for method, row in setting.methods.items() if method in run}
    rows |= {method: (f"{method}, not run", row) for method, row in setting.not_run.items()}
    columns = ["method", "max group MCE", "published", *setting.cells.values()]
    columns += [part for name, _ in setting.overall.values() for part in (name, "published")]
    lines = head([*columns, *setting.own.values()])
    for method, (label, row) in rows.items():
        cells = [label, _mean(frame, method, WORST), _said(published, "Table 1", row, 3)]
        cells += [_mean(frame, method, metric) for metric in setting.cells]
        for metric, (name, factor) in setting.overall.items():
            digits = 1 if factor > 1 else setting.digits
            cells += [
                _mean(frame, method, metric, factor),
                _said(published, "Table 3", row, digits, name),
            ]
        lines.append(line([*cells, *(_mean(frame, method, metric) for metric in setting.own)]))
    return "\n".join([*lines, "", setting.note])


def paired(frame: pd.DataFrame, setting: Setting, share: float | None) -> str:
    """Max group MCE of each LoRe less that of each other method, seed by seed: mean, 95 %
    intervals, Wilcoxon's p, and Holm's.
    """
    wide = frame[frame.metric == WORST].pivot(index="seed", columns="method", values="value")
    pairs = [(a, b) for a in setting.local for b in AGAINST if a in wide and b in wide]
    if not pairs:
        return ""
    differences = [(wide[a] - wide[b]).dropna() for a, b in pairs]
    adjusted = holm([_p(d) for d in differences])
    lines = head(["max group MCE", "less that of", *DIFFERENCE, "p (Holm)"])
    for (a, b), d, p in zip(pairs, differences, adjusted, strict=True):
        lines.append(line([a, b, *difference_cells(d, share), f"{p:.2g}"]))
    return "\n".join(
        [
            *lines,
            "",
            (
                SHARED
                if share is not None
                else "All seeds have the same test rows, and differ in the network."
            ),
        ]
    )


DIFFERENCE = ("difference", "95 % interval, seeds", "other rows", "lower in", "p")
"""Columns of :func:`difference_cells`."""
SHARED = (
    "Seeds are splits of the same rows. The first interval, and Wilcoxon's p, are of more splits of"
    " these rows; *other rows*: that of a t distribution whose variance is corrected for the rows"
    " that splits share (Nadeau and Bengio 2003)."
)


def difference_cells(differences: pd.Series, share: float | None) -> list[str]:
    """Their mean, its 95 % interval by Student's t, and corrected; in how many seeds they are below
    0, and Wilcoxon's p; dashes for none.

    ``share``: test rows for each row that is fitted on; None where seeds do not divide rows.
    """
    if differences.empty:
        return ["–"] * len(DIFFERENCE)
    mean = float(differences.mean())
    halves = [
        half_width(differences, 0.0),
        np.nan if share is None else half_width(differences, share),
    ]
    intervals = [
        "–" if np.isnan(half) else f"{signed(mean - half)} to {signed(mean + half)}"
        for half in halves
    ]
    return [
        signed(mean),
        *intervals,
        f"{int((differences < 0).sum())} of {len(differences)}",
        f"{_p(differences):.2g}",
    ]


def _p(differences: pd.Series) -> float:
    return wilcoxon(differences.to_numpy()) if np.any(differences) else 1.0


def correlations(frame: pd.DataFrame, setting: Setting) -> str:
    """Table 2: Pearson correlation with max group MCE over all (method, seed) of the paper's
    methods, within method, and of all methods.
    """
    published = setting.published
    said = published[published.item == "Table 2"].set_index("method").value
    wide = frame.pivot(index=["method", "seed"], columns="metric", values="value")
    theirs = [method for method in setting.in_paper if method in wide.index]
    title = f"{counted_noun([len(theirs)], 'method')} of the paper"
    lines = head(
        [
            "with max group MCE",
            title,
            "95 % interval",
            "within method",
            "published",
            "all methods",
            "within",
        ]
    )
    for metric, row in setting.correlated.items():
        if metric not in wide or len(wide) < 4:
            continue
        everything, both = (
            _both(wide, metric, list(wide.index.unique("method"))),
            _both(wide, metric, theirs),
        )
        printed = number(float(said[row])) if row in said.index else "–"
        cells = [
            _r(both),
            _interval(both),
            _r(_centred(both)),
            printed,
            _r(everything),
            _r(_centred(everything)),
        ]
        lines.append(line([setting.called.get(metric, row or metric), *cells]))
    note = (
        "The interval is of seeds drawn anew with all their methods (1,000 times): runs of one seed"
        " share a network and its rows."
    )
    return "\n".join([*lines, "", note])


def _both(wide: pd.DataFrame, metric: str, methods: Sequence[str]) -> pd.DataFrame:
    """A metric and the largest error of a group, a row for each method and seed that has both."""
    return wide.loc[wide.index.get_level_values("method").isin(methods), [metric, WORST]].dropna()


def measured(
    frame: pd.DataFrame, setting: Setting, network: str = "", *, correlated: bool = True
) -> pd.DataFrame:
    """Numbers as ``published.csv`` tells them apart: ``item, dataset, metric, method, seed,
    variant, value``.

    Parameters
    ----------
    frame : of :func:`entries`.
    setting : whose tables they stand in.
    network : title of the variant that all of them are; empty for the main column.
    correlated : whether all methods are there, so that Table 2 is too.

    Notes
    -----
    A correlation is of all (method, seed). Its values by seed are the jackknife's pseudo-values,
    seeds left out whole with all their methods, so that their mean is the correlation but for its
    bias, and their standard error is its own.
    """
    if frame.empty:
        return pd.DataFrame()
    shown = {WORST: ("Table 1", "max group MCE", 1.0)}
    shown |= {
        metric: ("Table 3", name, factor) for metric, (name, factor) in setting.overall.items()
    }
    said = setting.published
    printed = {
        (item, metric, method)
        for item, metric, method in zip(said["item"], said["metric"], said["method"], strict=True)
    }
    rows = [
        {
            "item": item,
            "metric": name,
            "method": row,
            "seed": seed,
            "variant": title,
            "value": factor * value,
        }
        for method, seed, metric, value in frame[["method", "seed", "metric", "value"]].itertuples(
            index=False
        )
        if method in setting.stands_for and metric in shown
        for item, name, factor in [shown[metric]]
        for row, title in [setting.stands_for[method]]
        if (item, name, row) in printed
    ]
    found = pd.DataFrame([*rows, *(_correlated(frame, setting) if correlated else ())]).assign(
        dataset=setting.dataset
    )
    if found.empty:  # the runs are of methods that the setting has not
        return found
    return found.assign(
        variant=[", ".join(filter(None, (network, title))) for title in found.variant]
    )


def _correlated(frame: pd.DataFrame, setting: Setting) -> Iterable[Record]:
    """Table 2: of the methods of the main column, and of each variant of LoRe among them, over the
    seeds that all of them have.
    """
    wide = frame.pivot(index=["method", "seed"], columns="metric", values="value")
    for title in ("", *dict.fromkeys(setting.titles.values())):
        methods = setting.family(title)
        if not set(methods) <= set(wide.index.unique("method")):
            continue  # it is of all methods; of some it is another number
        counts = wide.loc[methods].groupby("seed").size()
        common = wide[
            wide.index.get_level_values("seed").isin(counts.index[counts == len(methods)])
        ]
        for metric in setting.metrics_of(title):
            if metric not in wide:
                continue
            for seed, value in _pseudo_values(_both(common, metric, methods)):
                yield {
                    "item": "Table 2",
                    "metric": CORRELATION,
                    "method": setting.correlated[metric],
                    "seed": seed,
                    "variant": title,
                    "value": value,
                }


def _pseudo_values(both: pd.DataFrame) -> Iterable[tuple[Any, float]]:
    """Of each seed n r − (n − 1) r', r' without it; r itself where there is one seed (Efron and
    Tibshirani 1993, Section 11.5).
    """
    of = both.index.get_level_values("seed").to_numpy()
    seeds = np.unique(of)
    if len(both) < 4:
        return
    values, n = both.to_numpy(), len(seeds)
    r = float(np.corrcoef(values.T)[0, 1])
    for seed in seeds:
        yield (
            seed,
            r if n == 1 else n * r - (n - 1) * float(np.corrcoef(values[of != seed].T)[0, 1]),
        )


def _r(both: pd.DataFrame) -> str:
    return number(float(both.corr().iloc[0, 1]), 2).replace("-", "−") if len(both) > 1 else "–"


def _centred(both: pd.DataFrame) -> pd.DataFrame:
    return both - both.groupby("method").transform("mean")


def share_of(record: Record) -> float:
    """Test rows for each row that is fitted on, in a record's data set."""
    rows: Mapping[str, int] = record["dataset"]
    return rows["n_test"] / (rows["n_train"] + rows["n_calibration"])


def network_of(record: Record) -> str:
    """How long the record's network was trained."""
    parent: Mapping[str, object] = record["config"]["parent"]
    stopped = (
        f"stopped on {str(parent['stop_on']).replace('_', ' ')}, patience {parent['patience']}"
    )
    return (
        f"network {stopped}"
        if parent["patience"] is not None
        else f"network trained for {parent['max_epochs']} epochs"
    )


def _interval(both: pd.DataFrame, draws: int = 1000) -> str:
    """Percentiles of the correlation over bootstrap draws of whole seeds."""
    rng = np.random.default_rng(0)
    by_seed = {seed: part.to_numpy() for seed, part in both.groupby("seed")}
    seeds = list(by_seed)
    if len(seeds) < 3:
        return "–"
    found = []
    for _ in range(draws):
        drawn = np.concatenate(
            [by_seed[seeds[i]] for i in rng.integers(len(seeds), size=len(seeds))]
        )
        found.append(np.corrcoef(drawn.T)[0, 1])
    low, high = np.nanpercentile(found, [2.5, 97.5])
    return f"{number(low, 2)} to {number(high, 2)}".replace("-", "−")


def _mean(frame: pd.DataFrame, method: str, metric: str, factor: float = 1.0) -> str:
    values = factor * frame[(frame.method == method) & (frame.metric == metric)].value
    return spread(values, digits=1 if factor > 1 else 3)


def _said(
    published: pd.DataFrame, item: str, method: str | None, digits: int, metric: str | None = None
) -> str:
    found = published[(published.item == item) & (published.method == method)]
    found = found if metric is None else found[found.metric == metric]
    if method is None or found.empty:
        return "–"
    return (
        f"{number(float(found.value.iloc[0]), digits)} ±"
        f" {number(float(found.spread.iloc[0]), digits)}"
    )
