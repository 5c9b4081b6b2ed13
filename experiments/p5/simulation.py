"""A function of 20 features and two networks, Figure 4 of Torres et al.: the tables after ``kdg run
experiment=paper/p5/simulation``.

``python -m experiments.p5.simulation outputs`` prints them again, from any subset of its runs and
of those of ``simulation_k``, ``simulation_eps`` and ``simulation_knn``.
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
from experiments.common.frames import seeds_of, where
from experiments.common.markdown import blocks, counted_noun, number, signed, table
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p5.records import joined, settings_of

_OTHER_SIZES = ["dataset.n_train", "dataset.n_calibration", "dataset.n_test", "parent.batch_size"]
# Experiment → keys that may differ: a million rows in batches of more than 64, which would take
# hours.
EXPERIMENTS = {
    "paper/p5/simulation": _OTHER_SIZES,
    "paper/p5/simulation_k": _OTHER_SIZES,
    "paper/p5/simulation_eps": _OTHER_SIZES,
    "paper/p5/simulation_knn": _OTHER_SIZES[:3],
}
NETWORKS = ("small", "big")
# Rows of all roles in the study; a claim on sizes is tested on all of them or on none.
SIZES = (1000, 10_000, 100_000)
# Layer of the neighbours in the config → title, with the paper's number of it, which counts the
# input.
PLACES = titles("p5", "simulation")["places"]
MAPS = {"network": "as it is", "isotonic": "isotonic", "density": "density estimation"}
ROWS = MAPS | {place: f"local, {words}" for place, words in PLACES.items()}
LOCAL = tuple(PLACES)
K = 1000  # Default number of neighbours; all calibration rows if there are fewer
LEVEL = 0.95
ALPHA = 0.05  # Level of a test for which the paper has none
RELIABLE = ("reliable_by_size",)
COLUMNS = ["size", "network", "method", "k", "eps", "seed", "metric", "value"]
NOTE = titles("p5", "simulation")["note"]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return MSE, coverage and seconds by size, k and eps, and the verdicts."""
    frame = numbers_of(records)
    if frame.empty:
        return "no run of the function of 20 features is there"
    seeds = counted_noun(frame.groupby("size").seed.nunique(), "seed")
    plain = frame[((frame.k == K) | frame.k.isna()) & (frame.eps == 0)]
    tested = list(claims(frame))
    return blocks(
        [
            f"## Torres et al., Figure 4: {seeds}; the paper draws it and"
            " prints no number but the truth's MSE, 1",
            NOTE,
            by_size(plain, "MSE to y", "mse_y", 2),
            by_size(plain, "coverage of 95 % intervals, %", "coverage", 1, 100),
            by_size(plain, "CRPS above the truth's", "crps_excess", 3),
            by_k(frame),
            by_eps(frame),
            by_size(plain, "training, s", "training", 2),
            by_size(plain, "prediction, s", "prediction", 2),
            verdicts(tested) if tested else "",
        ]
    )


def numbers_of(records: Iterable[Record]) -> pd.DataFrame:
    """Return the numbers on test rows and the seconds of training and prediction, :data:`COLUMNS`.

    ``size`` counts rows of all roles; ``network`` is small, big or knn; ``method`` a key of
    :data:`ROWS`, or knn.
    """
    unique = {record["run_id"]: record for record in records}
    entries = (entry for record in unique.values() for entry in _entries(record))
    return pd.DataFrame(entries, columns=COLUMNS)


def _entries(record: Record) -> Iterator[dict[str, Any]]:
    parent, after = record["config"]["parent"], record["config"]["recalibrator"]
    keys: dict[str, Any] = {
        "size": 10 * record["dataset"]["n_calibration"],
        "seed": record["seed"],
        "eps": float(after.get("eps", 0)),
        "k": after.get("k", np.nan),
    }
    if parent["name"] == "nearest_outcomes":
        keys |= {"network": "knn", "method": "knn", "k": parent["k"]}
    else:
        place = after.get("layer") or after.get("feature_space")
        names = {"none": "network", "isotonic_pit": "isotonic", "density_pit": "density"}
        keys["network"] = "small" if parent["hidden"][0] == parent["hidden"][-1] else "big"
        keys["method"] = names.get(after["name"]) or place
    seconds = record["seconds"]
    yield {**keys, "metric": "training", "value": seconds["fit"] + seconds["calibrate"]}
    yield {**keys, "metric": "prediction", "value": seconds["evaluate"]}
    for entry in record["metrics"]:
        if (entry["of"], entry["on"]) == ("calibrated", "test") and entry["value"] is not None:
            yield {**keys, "metric": entry["metric"], "value": entry["value"]}


def by_size(frame: pd.DataFrame, title: str, metric: str, digits: int, factor: float = 1.0) -> str:
    """Return a table with a row for each network and method, a column for each number of rows."""
    sizes = sorted(frame["size"].unique())
    rows = []
    titles = {(net, m): f"{net}: {ROWS[m]}" for net in NETWORKS for m in ROWS}
    for (network, method), name in (titles | {("knn", "knn"): "k-NN regression"}).items():
        own = where(frame, network=network, method=method, metric=metric)
        if not own.empty:
            values = (factor * own[own["size"] == size].value for size in sizes)
            rows.append([name, *(middle(each, digits) for each in values)])
    return table([title, *(f"{size:,} rows" for size in sizes)], rows) if rows else ""


def by_k(frame: pd.DataFrame) -> str:
    """Return MSE and coverage by k, of local recalibration in all places and of k-NN regression."""
    ks: list[Any] = [k for k in (100, 500, K, "crps") if k in set(frame.k)]
    if len(ks) < 2:
        return ""
    exact = frame[(frame.eps == 0) & frame.k.notna()]
    rows = []
    for (size, network), own in exact.groupby(["size", "network"], sort=True):
        title = "k-NN regression" if network == "knn" else f"{network}, local"
        cells = [f"{size:,} rows, {title}"]
        for k in ks:
            mse, coverage = (where(own, k=k, metric=m).value for m in ("mse_y", "coverage"))
            too_many = k != "crps" and k > size / 10
            is_absent = too_many or mse.empty
            cells.append("–" if is_absent else f"{middle(mse, 2)}; {middle(100 * coverage, 1)}")
        rows.append(cells)
    titles = ("k chosen" if k == "crps" else f"k = {k:,}" for k in ks)
    return table(["MSE to y; coverage, %", *titles], rows)


def by_eps(frame: pd.DataFrame) -> str:
    """Return the changes of MSE and seconds by an approximate search, run by run."""
    approximate = sorted(set(frame.eps) - {0.0})
    if not approximate:
        return ""
    local = frame[frame.method.isin(LOCAL)]
    columns = ["approximate search against exact", *(f"eps = {eps:g}" for eps in approximate)]
    return table(
        columns,
        (
            [f"{size:,} rows", *(_change(local[local["size"] == size], e) for e in approximate)]
            for size in sorted(local["size"].unique())
        ),
    )


def _change(local: pd.DataFrame, eps: float) -> str:
    subset = local[local.eps.isin([0.0, eps])]
    same = ["size", "network", "method", "k", "seed"]
    wide = subset.pivot(index=same, columns=["metric", "eps"], values="value").dropna()
    if wide.empty or {0.0, eps} != set(wide["mse_y"]):
        return "–"
    ratio = wide["mse_y"][eps] / wide["mse_y"][0.0] - 1
    time = wide["prediction"][eps].sum() / wide["prediction"][0.0].sum()
    apart = number(100 * float(ratio.abs().max()), 2)
    return f"MSE at most {apart} % apart, {number(float(time), 2)} of the seconds"


def middle(values: pd.Series, digits: int) -> str:
    """Return median [smallest, largest], without brackets for one value, a dash for none."""
    if values.empty:
        return "–"
    low, mid, high = (
        number(float(each), digits) for each in (values.min(), values.median(), values.max())
    )
    return f"{mid} [{low}, {high}]" if len(values) > 1 else mid


def claims(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims of Section 4.3 on its figure; local is the mean over places."""
    exact = frame[(frame.eps == 0) & (frame.k != "crps")]
    gains = {}
    for network in NETWORKS:
        wide = _by_seed(exact, network)
        for other in ("network", "isotonic", "density"):
            if not {"local", other} <= set(wide):
                continue
            change = 100 * (wide.local / wide[other] - 1).dropna()
            median = change.groupby("size").median()
            lower = (change < 0).groupby("size").agg(["sum", "size"])
            title = "the network alone" if other == "network" else ROWS[other]
            yield Claim(
                f"local recalibration has a lower MSE than {title} in the"
                f" median seed of each size, {network} network",
                bool((median < 0).all()),
                ", ".join(
                    f"{n:,} rows {signed(median[n], 1)} %, lower in"
                    f" {lower['sum'][n]} of {lower['size'][n]}"
                    for n in median.index
                ),
                ("better_mse", "consistently" if other == "network" else "alternatives"),
            )
            if other == "network":
                gains[network] = median
    if len(gains) == 2:
        yield from _claims_on_gains(gains)
    yield from _claims_on_alternatives(exact)
    yield from _claims_on_coverage(exact)
    yield from _claim_on_knn(exact)


def _claims_on_gains(gains: dict[str, pd.Series]) -> Iterator[Claim]:
    both = pd.DataFrame(gains).dropna()
    text = (
        "recalibration takes more of the MSE off the small network"
        " than off the big one, at each size"
    )
    evidence = ", ".join(
        f"{n:,} rows {signed(small, 1)} % and {signed(big, 1)} %"
        for n, small, big in both[list(NETWORKS)].itertuples()
    )
    yield Claim(text, bool((both.small < both.big).all()), evidence, ("better_mse",))
    small = gains["small"].sort_index()
    if set(SIZES) <= set(small.index):
        text = "recalibration takes the more of the small network's MSE off, the more rows"
        evidence = ", ".join(f"{n:,} rows {signed(value, 1)} %" for n, value in small.items())
        yield Claim(text, _falls(small), evidence, ("better_mse",))


def _claim_on_knn(exact: pd.DataFrame) -> Iterator[Claim]:
    knn = where(exact, network="knn", metric="mse_y")
    local = [_by_seed(exact, name).get("local", pd.Series(dtype=float)) for name in NETWORKS]
    worse = pd.concat(local, axis=1).max(axis=1)
    best = knn.groupby(["size", "seed"]).value.min()
    both = pd.concat({"knn": best, "local": worse}, axis=1).dropna()
    if len(both):
        text = "k-NN regression has a higher MSE than either recalibrated network in every seed"
        evidence = ", ".join(
            f"{n:,} rows {number(best, 1)} with its best k, {number(local, 1)}"
            for n, best, local in both.groupby("size").median().itertuples()
        )
        yield Claim(text, bool((both.knn > both.local).all()), evidence, ("knn",))


def _claims_on_alternatives(exact: pd.DataFrame) -> Iterator[Claim]:
    for network, (metric, title) in itertools.product(
        NETWORKS, (("crps_excess", "CRPS"), ("coverage", "distance of coverage to 95 %"))
    ):
        wide = _by_seed(exact, network, metric)
        for other in ("isotonic", "density"):
            if not {"local", other} <= set(wide):
                continue
            margin = (wide[other] - wide.local).dropna().groupby("size")
            lower = margin.agg(lambda each: int((each > 0).sum()))
            text = (
                f"local recalibration has a lower {title} than {ROWS[other]} in the median seed of"
                f" each size, {network} network"
            )
            evidence = ", ".join(
                f"{n:,} rows lower in {lower[n]} of {count}" for n, count in margin.size().items()
            )
            yield Claim(text, bool((margin.median() > 0).all()), evidence, ("alternatives",))


def _claims_on_coverage(exact: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on coverage by size, and by k; none if runs of a size are missing."""
    coverage = exact[(exact.metric == "coverage") & exact.network.isin(NETWORKS)]
    if not has_all_sizes(coverage):
        return
    # With fewer calibration rows than neighbours every k is the same map, so only one k counts.
    plain = coverage[(coverage.k == K) | coverage.k.isna()]
    off = (plain.value - LEVEL).abs()
    gap = off.groupby(plain["size"]).mean()
    seeds = plain.groupby("size").seed.nunique()
    text = "coverage comes nearer to 95 % with more rows, on average over methods"
    evidence = ", ".join(
        f"{n:,} rows {number(100 * value, 1)} points ({counted_noun([int(seeds[n])], 'seed')})"
        for n, value in gap.items()
    )
    yield Claim(text, _falls(gap), evidence, RELIABLE)
    by_model = off.groupby([plain.network, plain.method, plain["size"]]).mean().unstack("size")
    nearer = by_model.dropna().apply(_falls, axis=1)
    others = [f"{network}, {ROWS[method]}" for network, method in nearer.index[~nearer]]
    exceptions = f"; not {'; '.join(others)}" if others else ""
    text = (
        "coverage comes nearer to 95 % with more rows, for each network and method, mean over seeds"
    )
    evidence = f"{int(nearer.sum())} of {len(nearer)}{exceptions}"
    yield Claim(text, bool(nearer.all()), evidence, RELIABLE)
    local = coverage[coverage.method.isin(LOCAL) & coverage.k.isin([100, 500, K])]
    for size, rows in local[local["size"] >= 10 * K].groupby("size"):
        by_k = rows.pivot(index=["network", "method", "seed"], columns="k", values="value").dropna()
        spread = by_k.std()
        if len(spread) < 3 or len(by_k) < 3:
            continue
        p = smaller_deviation(by_k[K], by_k[100])
        points = ", ".join(f"k = {int(k):,} {number(100 * v, 2)} points" for k, v in spread.items())
        text = (
            f"coverage of local recalibration varies less with more neighbours, {size:,} rows"
            " (deviation over networks, places and seeds; one-sided"
            " p < .05 of k = 1,000 against 100)"
        )
        evidence = f"{points}, p {p:.2g}, {seeds_of(rows)}"
        yield Claim(text, _falls(spread) and p < ALPHA, evidence, RELIABLE)


def smaller_deviation(low: pd.Series, high: pd.Series) -> float:
    """Return the one-sided p-value that ``low`` varies less than ``high``, of paired values.

    Differences and sums of pairs are uncorrelated where both vary alike (Pitman, Biometrika 31,
    1939; Morgan, ibid.). Places behind one network are no independent pairs, so that the p-value is
    too small rather than too large. Where no pair differs it is 1.
    """
    if not (high - low).std() > 0:
        return 1.0
    return float(pearsonr(high - low, high + low, alternative="greater").pvalue)


def has_all_sizes(frame: pd.DataFrame) -> bool:
    """Return whether both networks have runs of each of :data:`SIZES`."""
    present = set(zip(frame.network, frame["size"], strict=True))
    return set(itertools.product(NETWORKS, SIZES)) <= present


def _falls(values: pd.Series) -> bool:
    return bool((values.diff().dropna() < 0).all())


def _by_seed(exact: pd.DataFrame, network: str, metric: str = "mse_y") -> pd.DataFrame:
    """Return a metric, of coverage its distance to 95 %, by size, seed and kind of method."""
    own = where(exact, network=network, metric=metric)
    if metric == "coverage":
        own = own.assign(value=(own.value - LEVEL).abs())
    kind = own.method.where(~own.method.isin(LOCAL), "local")
    return own.assign(kind=kind).pivot_table(
        index=["size", "seed"], columns="kind", values="value", aggfunc="mean"
    )


def settings(folder: Path) -> pd.DataFrame:
    """Return the settings of its runs with the keys of ``published.csv``.

    A size, a number of neighbours or an approximation without a run has none. The learning rates
    are those of both networks, where the paper prints the range of a search.
    """
    frame = settings_of(read(folder), "Section 4.3", ["metric", "method", "seed", "value"])
    if frame.empty:
        return frame
    rates = frame[frame.metric == "learning rate"].groupby("seed").value
    extremes = {"smallest learning rate": rates.min(), "largest learning rate": rates.max()}
    shared = {"item": "Section 4.3", "dataset": "tran20", "method": "small and big network"}
    shared |= {"variant": "", "level": np.nan}
    parts = [each.reset_index().assign(metric=n, **shared) for n, each in extremes.items()]
    return joined([frame[frame.metric != "learning rate"], *parts])


def read(folder: Path) -> list[Record]:
    """Return the records of its runs below a folder."""
    return [record for n, free in EXPERIMENTS.items() for record in runs_of(n, folder, free=free)]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
