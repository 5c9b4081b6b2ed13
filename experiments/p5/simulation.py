"""A function of 20 features and two networks, Figure 4 of Torres et al.: what ``kdg run
experiment=paper/p5/simulation`` prints at its end.

``python -m experiments.p5.simulation outputs`` prints it again, from any subset of its runs and of
those of ``simulation_k``, ``simulation_eps`` and ``simulation_knn``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import pearsonr

from experiments.common.claims import Claim, verdicts
from experiments.common.command import print_comparison
from experiments.common.markdown import counted_noun, head, line, number, signed
from experiments.common.runs import Record, runs_of
from experiments.p5.records import ROLES, joined

_OTHER_SIZES = ["dataset.n_train", "dataset.n_calibration", "dataset.n_test", "parent.batch_size"]
EXPERIMENTS = {
    "paper/p5/simulation": _OTHER_SIZES,
    "paper/p5/simulation_k": _OTHER_SIZES,
    "paper/p5/simulation_eps": _OTHER_SIZES,
    "paper/p5/simulation_knn": _OTHER_SIZES[:3],
}
"""Each with the keys that its runs may have otherwise: of a million rows, too, in batches of more
than 64, which would take hours.
"""
NETWORKS = ("small", "big")
SIZES = (1000, 10_000, 100_000)
"""Rows of all roles that the study has; a claim about sizes is judged on all of them or on none."""
PLACES = {
    "input": "input (l = 1)",
    "6": "third hidden layer (l = 4)",
    "8": "last hidden layer (l = 5)",
    "output": "output (l = 6)",
}
"""Where neighbours are looked for, by what the config says → in words, with the paper's number; its
first layer is the input.
"""
ROWS = {
    "network": "as it is",
    "isotonic": "isotonic",
    "density": "density estimation",
    **{place: f"local, {words}" for place, words in PLACES.items()},
}
LOCAL = tuple(PLACES)
K = 1000
"""Neighbours where nothing is said; with fewer calibration rows all of them."""
LEVEL = 0.95
ALPHA = 0.05
"""Of a test where the paper has none."""
RELIABLE = ("reliable_by_size",)
"""The sentence of ``claims.csv`` that coverage is about."""
COLUMNS = ["size", "network", "method", "k", "eps", "seed", "metric", "value"]
NOTE = """Median over seeds, smallest and largest in brackets. Local recalibration by 1,000 neighbours, which of 10,000 rows are all that
calibrate; of 1,000 rows 100 calibrate, and all of these are neighbours. k-NN regression learns from the rows that calibrate the others, as
in the paper. MSE is to y, so the truth has 1. *Seconds* are wall-clock: *training* is that of the network and of what comes after it,
*prediction* that of both and of all measures."""


def compare_with_published(records: Sequence[Record]) -> str:
    """MSE, coverage and seconds by size, k and eps, and what the paper says of them, of the records
    of a sweep; markdown.
    """
    frame = frame_of(records)
    if frame.empty:
        return "no run of the function of 20 features is there"
    seeds = counted_noun(frame.groupby("size").seed.nunique(), "seed")
    parts = [
        (
            f"## Torres et al., Figure 4: {seeds}; the paper draws it and prints no number but the"
            " truth's MSE, 1"
        ),
        NOTE,
    ]
    plain = frame[((frame.k == K) | frame.k.isna()) & (frame.eps == 0)]
    parts += [
        by_size(plain, "MSE to y", "mse_y", 2),
        by_size(plain, "coverage of 95 % intervals, %", "coverage", 1, 100),
    ]
    parts += [by_size(plain, "CRPS above the truth's", "crps_excess", 3)]
    parts += [
        by_k(frame),
        by_eps(frame),
        by_size(plain, "training, s", "training", 2),
        by_size(plain, "prediction, s", "prediction", 2),
    ]
    told = list(claims(frame))
    return "\n\n".join([*(part for part in parts if part), *([verdicts(told)] if told else [])])


def frame_of(records: Iterable[Record]) -> pd.DataFrame:
    """A row for each number on test rows, and for training and prediction, in seconds.

    ``size`` counts rows of all roles; ``network`` is small, big or knn; ``method`` a key of
    :data:`ROWS`, or knn.
    """
    unique = {record["run_id"]: record for record in records}
    return pd.DataFrame(
        (entry for record in unique.values() for entry in _entries(record)), columns=COLUMNS
    )


def _entries(record: Record) -> Iterator[dict[str, Any]]:
    parent, after = record["config"]["parent"], record["config"]["recalibrator"]
    rows = record["dataset"]["n_calibration"]
    known: dict[str, Any] = {
        "size": 10 * rows,
        "seed": record["seed"],
        "eps": float(after.get("eps", 0)),
        "k": after.get("k", np.nan),
    }
    if parent["name"] == "nearest_outcomes":
        known |= {"network": "knn", "method": "knn", "k": parent["k"]}
    else:
        method = {"none": "network", "isotonic_pit": "isotonic", "density_pit": "density"}.get(
            after["name"]
        )
        place = after.get("layer") or after.get("feature_space")
        known |= {
            "network": "small" if parent["hidden"][0] == parent["hidden"][-1] else "big",
            "method": method or place,
        }
    seconds = record["seconds"]
    yield {**known, "metric": "training", "value": seconds["fit"] + seconds["calibrate"]}
    yield {**known, "metric": "prediction", "value": seconds["evaluate"]}
    for entry in record["metrics"]:
        if (entry["of"], entry["on"]) == ("calibrated", "test") and entry["value"] is not None:
            yield {**known, "metric": entry["metric"], "value": entry["value"]}


def by_size(frame: pd.DataFrame, title: str, metric: str, digits: int, factor: float = 1.0) -> str:
    """A row for each network and method, a column for each number of rows."""
    sizes = sorted(frame["size"].unique())
    lines = head([title, *(f"{size:,} rows" for size in sizes)])
    for network in NETWORKS:
        of = frame[(frame.network == network) & (frame.metric == metric)]
        for method in (name for name in ROWS if name in set(of.method)):
            cells = (of[(of.method == method) & (of["size"] == size)].value for size in sizes)
            lines.append(
                line(
                    [
                        f"{network}: {ROWS[method]}",
                        *(middle(factor * values, digits) for values in cells),
                    ]
                )
            )
    of = frame[(frame.network == "knn") & (frame.metric == metric)]
    if not of.empty:
        lines.append(
            line(
                [
                    "k-NN regression",
                    *(middle(factor * of[of["size"] == size].value, digits) for size in sizes),
                ]
            )
        )
    return "\n".join(lines) if len(lines) > 2 else ""


def by_k(frame: pd.DataFrame) -> str:
    """MSE and coverage of local recalibration in all places together, and of k-NN regression, a
    column for each k that fits the rows.
    """
    ks: list[Any] = [k for k in (100, 500, K, "crps") if k in set(frame.k)]
    if len(ks) < 2:
        return ""
    lines = head(
        ["MSE to y; coverage, %", *("k chosen" if k == "crps" else f"k = {k:,}" for k in ks)]
    )
    for (size, network), of in frame[(frame.eps == 0) & frame.k.notna()].groupby(
        ["size", "network"], sort=True
    ):
        cells = []
        for k in ks:
            too_many = k != "crps" and k > size / 10
            mse, coverage = (
                of[(of.k == k) & (of.metric == metric)].value for metric in ("mse_y", "coverage")
            )
            cells.append(
                "–" if too_many or mse.empty else f"{middle(mse, 2)}; {middle(100 * coverage, 1)}"
            )
        lines.append(
            line(
                [
                    (
                        f"{size:,} rows,"
                        f" {'k-NN regression' if network == 'knn' else f'{network}, local'}"
                    ),
                    *cells,
                ]
            )
        )
    return "\n".join(lines)


def by_eps(frame: pd.DataFrame) -> str:
    """What an approximate search changes, run by run against the exact one: MSE in percent, seconds
    of prediction.
    """
    approximate = sorted(set(frame.eps) - {0.0})
    same = ["size", "network", "method", "k", "seed"]
    of = frame[frame.method.isin(LOCAL)]
    lines = head(["approximate search against exact", *(f"eps = {eps:g}" for eps in approximate)])
    for size in sorted(of["size"].unique()):
        cells = []
        for eps in approximate:
            wide = (
                of[(of["size"] == size) & of.eps.isin([0.0, eps])]
                .pivot(index=same, columns=["metric", "eps"], values="value")
                .dropna()
            )
            if wide.empty or {0.0, eps} != set(wide["mse_y"]):
                cells.append("–")
                continue
            ratio = wide["mse_y"][eps] / wide["mse_y"][0.0] - 1
            time = wide["prediction"][eps].sum() / wide["prediction"][0.0].sum()
            cells.append(
                f"MSE at most {number(100 * float(ratio.abs().max()), 2)} % apart,"
                f" {number(float(time), 2)} of the seconds"
            )
        lines.append(line([f"{size:,} rows", *cells]))
    return "\n".join(lines) if approximate else ""


def middle(values: pd.Series, digits: int) -> str:
    """Median [smallest, largest] of at least two; a dash of none."""
    if values.empty:
        return "–"
    ends = (
        f" [{number(float(values.min()), digits)}, {number(float(values.max()), digits)}]"
        if len(values) > 1
        else ""
    )
    return number(float(values.median()), digits) + ends


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """What section 4.3 says in words of its figure, where there are runs to ask; by seed, local by
    its mean over places and given k.
    """
    exact = frame[(frame.eps == 0) & (frame.k != "crps")]
    gains = {}
    for network in NETWORKS:
        wide = _by_seed(exact, network)
        for other in ("network", "isotonic", "density"):
            if not {"local", other} <= set(wide):
                continue
            change = 100 * (wide.local / wide[other] - 1).dropna()
            median, lower = (
                change.groupby("size").median(),
                (change < 0).groupby("size").agg(["sum", "size"]),
            )
            found = ", ".join(
                f"{n:,} rows {signed(median[n], 1)} %, lower in {lower['sum'][n]} of"
                f" {lower['size'][n]}"
                for n in median.index
            )
            called = "the network alone" if other == "network" else ROWS[other]
            text = (
                f"local recalibration has a lower MSE than {called} in the median seed of each"
                f" size, {network} network"
            )
            yield Claim(
                text,
                bool((median < 0).all()),
                found,
                ("better_mse", "consistently" if other == "network" else "alternatives"),
            )
            if other == "network":
                gains[network] = median
    if len(gains) == 2:
        both = pd.DataFrame(gains).dropna()
        found = ", ".join(
            f"{n:,} rows {signed(small, 1)} % and {signed(big, 1)} %"
            for n, small, big in both[list(NETWORKS)].itertuples()
        )
        text = (
            "recalibration takes more of the MSE off the small network than off the big one, at"
            " each size"
        )
        yield Claim(text, bool((both.small < both.big).all()), found, ("better_mse",))
        small = gains["small"].sort_index()
        if set(SIZES) <= set(small.index):
            found = ", ".join(f"{n:,} rows {signed(value, 1)} %" for n, value in small.items())
            text = "recalibration takes the more of the small network's MSE off, the more rows"
            yield Claim(text, _falls(small), found, ("better_mse",))
    yield from _of_alternatives(exact)
    yield from _of_coverage(exact)
    knn = (
        exact[(exact.network == "knn") & (exact.metric == "mse_y")]
        .groupby(["size", "seed"])
        .value.min()
    )
    alone = pd.concat(
        [_by_seed(exact, network).get("local", pd.Series(dtype=float)) for network in NETWORKS],
        axis=1,
    ).max(axis=1)
    both = pd.concat({"knn": knn, "local": alone}, axis=1).dropna()
    if len(both):
        median = both.groupby("size").median()
        found = ", ".join(
            f"{n:,} rows {number(best, 1)} with its best k, {number(local, 1)}"
            for n, best, local in median.itertuples()
        )
        text = "k-NN regression has a higher MSE than either recalibrated network in every seed"
        yield Claim(text, bool((both.knn > both.local).all()), found, ("knn",))


def _of_alternatives(exact: pd.DataFrame) -> Iterator[Claim]:
    """CRPS and coverage of local recalibration against the other recalibrators, at each size."""
    for network, (metric, called) in itertools.product(
        NETWORKS, (("crps_excess", "CRPS"), ("coverage", "distance of coverage to 95 %"))
    ):
        wide = _by_seed(exact, network, metric)
        for other in ("isotonic", "density"):
            if not {"local", other} <= set(wide):
                continue
            margin = (wide[other] - wide.local).dropna().groupby("size")
            median, lower = margin.median(), margin.agg(lambda one: int((one > 0).sum()))
            found = ", ".join(
                f"{n:,} rows lower in {lower[n]} of {count}" for n, count in margin.size().items()
            )
            text = (
                f"local recalibration has a lower {called} than {ROWS[other]} in the median seed of"
                f" each size, {network} network"
            )
            yield Claim(text, bool((median > 0).all()), found, ("alternatives",))


def _of_coverage(exact: pd.DataFrame) -> Iterator[Claim]:
    """Of all methods by size, on average and one by one, and of local recalibration by k at each
    size that has several; nothing where runs of a size are missing.
    """
    coverage = exact[(exact.metric == "coverage") & exact.network.isin(NETWORKS)]
    if not has_all_sizes(coverage):
        return
    # With fewer calibration rows than neighbours every k is the same map, so only one k counts.
    plain = coverage[(coverage.k == K) | coverage.k.isna()]
    off = (plain.value - LEVEL).abs()
    gap = off.groupby(plain["size"]).mean()
    seeds = plain.groupby("size").seed.nunique()
    found = ", ".join(
        f"{size:,} rows {number(100 * value, 1)} points ({counted_noun([int(seeds[size])], 'seed')})"
        for size, value in gap.items()
    )
    yield Claim(
        "coverage comes nearer to 95 % with more rows, on average over methods",
        _falls(gap),
        found,
        RELIABLE,
    )
    by_model = off.groupby([plain.network, plain.method, plain["size"]]).mean().unstack("size")
    reached = by_model.dropna().apply(_falls, axis=1)
    others = [f"{network}, {ROWS[method]}" for network, method in reached.index[~reached]]
    told = f"; not {'; '.join(others)}" if others else ""
    yield Claim(
        "coverage comes nearer to 95 % with more rows, for each network and method, mean over seeds",
        bool(reached.all()),
        f"{int(reached.sum())} of {len(reached)}{told}",
        RELIABLE,
    )
    local = coverage[coverage.method.isin(LOCAL) & coverage.k.isin([100, 500, K])]
    for size, of in local[local["size"] >= 10 * K].groupby("size"):
        by_k = of.pivot(index=["network", "method", "seed"], columns="k", values="value").dropna()
        spread = by_k.std()
        if len(spread) < 3 or len(by_k) < 3:
            continue
        p = smaller_deviation(by_k[K], by_k[100])
        found = ", ".join(
            f"k = {int(k):,} {number(100 * value, 2)} points" for k, value in spread.items()
        )
        text = (
            f"coverage of local recalibration varies less with more neighbours, {size:,} rows"
            " (deviation over networks, places and seeds; one-sided p < .05 of k = 1,000 against"
            " 100)"
        )
        counted = counted_noun([int(of.seed.nunique())], "seed")
        yield Claim(text, _falls(spread) and p < ALPHA, f"{found}, p {p:.2g}, {counted}", RELIABLE)


def smaller_deviation(low: pd.Series, high: pd.Series) -> float:
    """Return the one-sided p-value that ``low`` varies less than ``high``, of paired values.

    Differences and sums of pairs are uncorrelated where both vary alike (Pitman, Biometrika 31,
    1939; Morgan, ibid.). Places behind one network are no independent pairs, so that the p-value
    is too small rather than too large. Where no pair differs it is 1.
    """
    if not (high - low).std() > 0:
        return 1.0
    return float(pearsonr(high - low, high + low, alternative="greater").pvalue)


def has_all_sizes(frame: pd.DataFrame) -> bool:
    """Return whether both networks have runs of each of :data:`SIZES`."""
    return {*itertools.product(NETWORKS, SIZES)} <= {
        *zip(frame.network, frame["size"], strict=True)
    }


def _falls(values: pd.Series) -> bool:
    return bool((values.diff().dropna() < 0).all())


def _by_seed(exact: pd.DataFrame, network: str, metric: str = "mse_y") -> pd.DataFrame:
    """A metric, of coverage its distance to 95 %: size and seed in rows; network, isotonic, density
    and the mean of local in columns.
    """
    of = exact[(exact.network == network) & (exact.metric == metric)]
    if metric == "coverage":
        of = of.assign(value=(of.value - LEVEL).abs())
    kind = of.method.where(~of.method.isin(LOCAL), "local")
    return of.assign(kind=kind).pivot_table(
        index=["size", "seed"], columns="kind", values="value", aggfunc="mean"
    )


_BOTH, _SEARCH = "small and big network", "local_pit and k-NN regression"
_SIZES = {rows: f"rows, size {i} of 4" for i, rows in enumerate((*SIZES, 1_000_000), start=1)}
_KS = {k: f"neighbours, {i} of 3" for i, k in enumerate((100, 500, 1000), start=1)}
_EPS = {
    eps: f"approximation of the search, {i} of 3" for i, eps in enumerate((0.0, 0.5, 1.0), start=1)
}
"""Value → the setting of Section 4.3 that it is, if a run has it."""


def settings(folder: Path) -> pd.DataFrame:
    """How its runs were done, in the terms of the settings that Section 4.3 prints, as
    :func:`experiments.p5.records.in_published_terms`: a row for each setting and seed.

    A size, a number of neighbours or an approximation without a run has none. The learning rates
    are those of our two networks, where the paper prints the range of a search.
    """
    rows = [
        {"item": "Section 4.3", "dataset": "tran20", "metric": metric, "method": method}
        | {"level": np.nan, "seed": record["seed"], "variant": "", "value": float(value)}
        for record in read(folder)
        for metric, method, value in _settings(record)
    ]
    if not rows:
        return pd.DataFrame()
    frame = pd.DataFrame(rows).drop_duplicates()
    rates = frame[frame.metric == "learning rate"].groupby("seed").value
    extremes = [("smallest learning rate", rates.min()), ("largest learning rate", rates.max())]
    parts = [
        each.reset_index().assign(
            item="Section 4.3",
            dataset="tran20",
            metric=name,
            method=_BOTH,
            level=np.nan,
            variant="",
        )
        for name, each in extremes
    ]
    return joined([frame[frame.metric != "learning rate"], *parts])


def _settings(record: Record) -> Iterator[tuple[str, str | None, float]]:
    """Metric and method of each setting that a record has, and its value."""
    for (metric, method), value_of in ROLES.items():
        value = value_of(record)
        if metric == "rows":
            if value in _SIZES:
                yield _SIZES[int(value)], None, value
        elif value is not None:
            yield metric, method, value
    parent, after = record["config"]["parent"], record["config"]["recalibrator"]
    hidden = parent.get("hidden")
    if hidden:
        yield "inputs", _BOTH, record["dataset"]["n_features"]
        yield "hidden layers", _BOTH, len(hidden)
        yield "learning rate", _BOTH, parent["learning_rate"]
        if len(set(hidden)) == 1:
            yield "units of each hidden layer", "small network", hidden[0]
        else:
            yield "units of each of the first three hidden layers", "big network", hidden[0]
            yield "units of the last hidden layer", "big network", hidden[-1]
    if after.get("name") == "local_pit":
        if after["k"] in _KS:
            yield _KS[after["k"]], _SEARCH, after["k"]
        yield _EPS[after["eps"]], _SEARCH, after["eps"]
    if after.get("name") == "density_pit":
        held_out = 100 * after["validation_fraction"]
        yield "validation rows that it learns from (%)", "density_pit", 100 - held_out
        yield "validation rows that validate it (%)", "density_pit", held_out


def read(folder: Path) -> list[Record]:
    """Records of its runs below a folder."""
    return [
        record for name, free in EXPERIMENTS.items() for record in runs_of(name, folder, free=free)
    ]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
