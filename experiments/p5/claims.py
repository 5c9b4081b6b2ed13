"""Claims of Torres et al., tested on runs; ``claims.csv`` names the functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from scipy.stats import ttest_1samp

from experiments.common.claims import Claim, computed_path, in_every_seed
from experiments.common.markdown import number
from experiments.p5 import diamonds as diamonds_study
from experiments.p5 import low_x2 as low_x2_study
from experiments.p5 import simulation as simulation_study
from experiments.p5 import table1 as table1_study
from experiments.p5 import table2 as table2_study
from experiments.p5.records import TRUTH, by_seed, numbers_of, numbers_of_truth
from experiments.p5.simulation import ALPHA, LOCAL, NETWORKS, PLACES, K, has_all_sizes
from experiments.p5.table2 import RADIUS, ROWS

LEVEL = 0.95
# Error of coverage in a cell of 500 test rows, where its standard deviation is one point.
UNEVEN = 0.05
LITTLE = 0.05  # Relative change of an MSE; the paper has no number
SIGNIFICANCE = 0.001  # Level of the paper's test of Frosini
# Ratio of interval scores up to which a method is very close to the truth; the paper's is 1.05.
NEAR = 1.1


def table1(folder: Path) -> Iterator[Claim]:
    """Yield the claims on the straight line on a parabola: ``paper/p5/table1``."""
    records = table1_study.read(folder)
    frame = numbers_of(records, table1_study.PARENTS)
    if frame.empty:
        return
    with_truth = pd.concat([frame, numbers_of_truth(records)])
    yield from table1_study.claims(table1_study.with_excess_crps(with_truth))
    yield from claims_on_line(frame)


def claims_on_line(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on the line before and after recalibration."""
    yield from claims_of_improvement(
        frame, "linear", table1_study.LOCAL, "Table 1, linear model", "mse_mean"
    )
    yield from in_every_seed(
        "the MSE to the true mean falls (Figure 2, a)",
        by_seed(frame, "linear", "mse_mean") - by_seed(frame, table1_study.LOCAL, "mse_mean"),
        ("local_mean_variance",),
    )
    whole = by_seed(frame, "global_pit", "coverage")
    gap = by_seed(frame, "global_pit", "worst_cell_gap")
    if len(gap):
        yield Claim(
            "after global recalibration 95 % ± .5 are covered, and in every seed"
            " a cell of x is off by more than five points",
            bool(abs(whole.mean() - LEVEL) < 0.005 and (gap > UNEVEN).all()),
            f"{100 * whole.mean():.2f} % on the whole; the worst of 20 cells is"
            f" {100 * gap.min():.1f} to {100 * gap.max():.1f} points off, {len(gap)} seeds",
            ("global_not_local",),
        )


def line(folder: Path) -> Iterator[Claim]:
    """Yield the claim on the PIT values of the line, from the numbers of Section 4.1."""
    if (path := computed_path(folder, "p5_section41")).exists():
        computed = pd.read_csv(path)
        p = computed[computed.metric.str.startswith("p-value")].value
        text = (
            "Frosini's test refuses uniform PIT values of the line at the level of"
            f" {SIGNIFICANCE:.1%}, in every sample"
        )
        evidence = f"p at most {p.max():.2g}, {len(p)} samples"
        yield Claim(text, bool((p <= SIGNIFICANCE).all()), evidence, ("frosini",))


def claims_of_improvement(
    frame: pd.DataFrame, before: str, after: str, place: str, error: str
) -> Iterator[Claim]:
    """Yield the claims on MSE, interval score, coverage and evenness after local recalibration."""

    def change(metric: str) -> pd.Series:
        return by_seed(frame, before, metric) - by_seed(frame, after, metric)

    sentences = ("improved", "well_covered_parent")
    for metric, title in ((error, "MSE"), ("smis", "sMIS")):
        text = f"{place}: local recalibration lowers the {title}"
        yield from in_every_seed(text, change(metric), sentences)
    off_before, off_after = ((by_seed(frame, n, "coverage") - LEVEL).abs() for n in (before, after))
    text = f"{place}: coverage comes nearer to 95 %"
    yield from in_every_seed(text, off_before - off_after, sentences[:1])
    text = f"{place}: the cell that is covered worst comes nearer to 95 %"
    spread = ("misses_spread",) if place.startswith("Table 2") else ()
    yield from in_every_seed(text, change("worst_cell_gap"), ("even_and_narrow", *spread))


def table2(folder: Path) -> Iterator[Claim]:
    """Yield the claims on the network with the paper's share of dropout: ``paper/p5/table2``."""
    share = table2_study.PUBLISHED_DROPOUT
    records = [
        r for r in table2_study.read(folder) if r["config"]["parent"].get("dropout") == share
    ]
    if records:
        numbers = [table2_study.by_share(records), numbers_of_truth(records, share)]
        yield from claims_on_networks(pd.concat(numbers))


def claims_on_networks(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on Table 2, of the numbers of one share of dropout and of the truth."""
    names = [*RADIUS, *RADIUS.values()]
    if not set(names) <= set(frame.method):
        return
    yield from table2_study.claims(frame)
    for before, after in RADIUS.items():
        place = f"Table 2, {ROWS[before][0]}"
        yield from claims_of_improvement(frame, before, after, place, "mse_y")
    yield from in_every_seed(
        "the MSE of WSIR is below that of MC dropout",
        by_seed(frame, "mc_dropout", "mse_y") - by_seed(frame, "wsir", "mse_y"),
        ("wsir_below_dropout",),
    )
    off = {name: abs(by_seed(frame, name, "coverage").mean() - LEVEL) for name in names}
    text = "the mean coverage of MC dropout is the nearest to 95 % of all four"
    holds = min(off, key=lambda name: off[name]) == "mc_dropout"
    evidence = "points off: " + ", ".join(
        f"{ROWS[name][0]} {100 * value:.1f}" for name, value in off.items()
    )
    yield Claim(text, holds, evidence, ("dropout_coverage",))
    wide = {name: by_seed(frame, name, "smis").mean() for name in names}
    text = "the mean interval score of MC dropout is the largest of all four"
    holds = max(wide, key=lambda name: wide[name]) == "mc_dropout"
    evidence = ", ".join(f"{ROWS[name][0]} {number(value, 3)}" for name, value in wide.items())
    yield Claim(text, holds, evidence, ("dropout_coverage",))
    for after in RADIUS.values():
        ratio = by_seed(frame, after, "smis") / by_seed(frame, TRUTH, "smis")
        text = (
            f"the sMIS of {ROWS[after][0]} is at most {NEAR:g} times that of the true"
            " distribution on the same rows"
        )
        evidence = f"{ratio.mean():.2f} times, mean of {len(ratio)} seeds"
        yield Claim(text, bool(ratio.mean() <= NEAR), evidence, ("near_truth",))


def diamonds(folder: Path) -> Iterator[Claim]:
    """Yield the claims on the prices of diamonds: ``paper/p5/diamonds``."""
    frame = diamonds_study.numbers(diamonds_study.read(folder))
    if not frame.empty:
        yield from diamonds_study.claims(frame)


def low_x2(folder: Path) -> Iterator[Claim]:
    """Yield the claims on predictions at low x₂ of Rosenbrock's function: ``paper/p5/table2``."""
    frame = low_x2_study.means(folder)
    if not frame.empty:
        yield from low_x2_study.claims(frame)


def simulation(folder: Path) -> Iterator[Claim]:
    """Yield the claims on the function of 20 features: ``paper/p5/simulation`` and others."""
    frame = simulation_study.numbers_of(simulation_study.read(folder))
    if not frame.empty:
        yield from simulation_study.claims(frame)
        yield from claims_by_size(frame)


def claims_by_size(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims by network and size, of :func:`experiments.p5.simulation.numbers_of`."""
    exact = frame[(frame.eps == 0) & (frame.k != "crps") & frame.network.isin(NETWORKS)]
    plain = exact[(exact.k == K) | exact.k.isna()]
    is_complete = has_all_sizes(plain[plain.method.isin(LOCAL)])
    margins: dict[str, pd.Series] = {}
    for (network, size), rows in plain.groupby(["network", "size"], sort=True):
        wide = {
            metric: each.pivot_table(index="seed", columns="method", values="value")
            for metric, each in rows.groupby("metric")
        }
        place = f"{network} network, {size:,} rows"
        yield from _claims_on_intervals(wide, place)
        if is_complete:
            yield from _claims_on_layers(wide["mse_y"], place)
        margins |= _margins_over_output(wide["mse_y"], place)
    yield from _claim_on_richer_layers(margins)
    if is_complete:
        yield from claims_on_approximation(frame[frame.network.isin(NETWORKS)])
    big = exact[(exact.network == "big") & (exact.metric == "mse_y") & exact.method.isin(LOCAL)]
    for size, rows in big.groupby("size"):
        subset = rows[rows.k.isin([100, 500, K])]
        mse = subset.groupby(rows.k.astype(float)).value.mean()
        if len(mse) == 3 and size >= 10 * K:
            first, second = -mse.diff().dropna()
            by_k = ", ".join(f"k = {k:g} {value:.3g}" for k, value in mse.items())
            text = (
                f"big network, {size:,} rows: the MSE falls from k = 100 to 500"
                " to 1,000, and less in the second step"
            )
            evidence = f"{by_k}, means over layers and seeds"
            yield Claim(text, bool(first > second > 0), evidence, ("more_neighbours",))


def _claims_on_intervals(wide: dict[str, pd.DataFrame], place: str) -> Iterator[Claim]:
    for metric, title in (("smis", "sMIS"), ("coverage", "distance of coverage to 95 %")):
        values = wide.get(metric, pd.DataFrame())
        layers = [name for name in LOCAL if name in values]
        if "network" in values and layers:
            values = (values - LEVEL).abs() if metric == "coverage" else values
            margin = values["network"] - values[layers].mean(axis=1)
            text = f"{place}: local recalibration lowers the {title}"
            yield from in_every_seed(text, margin, ("consistently",))


def _claims_on_layers(mse: pd.DataFrame, place: str) -> Iterator[Claim]:
    layers = [name for name in LOCAL if name in mse]
    if len(layers) > 1 and len(mse.dropna()):
        mean = mse[layers].mean()
        excess = float(mean.max() / mean.min() - 1)
        by_layer = ", ".join(f"{PLACES[name]} {mean[name]:.3g}" for name in layers)
        text = (
            f"{place}: mean MSE is at most {100 * LITTLE:g} % larger"
            " with the worst layer than with the best"
        )
        evidence = f"{100 * excess:.1f} %; {by_layer}; {len(mse)} seeds"
        yield Claim(text, excess <= LITTLE, evidence, ("layer_no_influence",))


def claims_on_approximation(frame: pd.DataFrame) -> Iterator[Claim]:
    """Yield the claims on approximate searches by network and size, against the exact search."""
    local = frame[frame.method.isin(LOCAL) & (frame.k == K) & (frame.metric == "mse_y")]
    for (network, size), rows in local.groupby(["network", "size"], sort=True):
        mse = rows.pivot(index=["method", "seed"], columns="eps", values="value").dropna()
        approximate = [eps for eps in mse if eps > 0]
        if 0.0 not in mse or not approximate or mse.empty:
            continue
        change = {eps: float(mse[eps].mean() / mse[0.0].mean() - 1) for eps in approximate}
        by_eps = ", ".join(f"eps = {eps:g} {100 * value:+.2f} %" for eps, value in change.items())
        layers, seeds = (mse.index.get_level_values(n).nunique() for n in ("method", "seed"))
        yield Claim(
            f"{network} network, {size:,} rows: mean MSE with approximate neighbours is within"
            f" {100 * LITTLE:g} % of that with the nearest",
            all(abs(value) <= LITTLE for value in change.values()),
            f"{by_eps}; {layers} layers, {seeds} seeds",
            ("layer_no_influence",),
        )


def _claim_on_richer_layers(margins: dict[str, pd.Series]) -> Iterator[Claim]:
    """Yield whether in any case the MSE of a layer is below that of the output (Bonferroni)."""
    p = {
        place: float(ttest_1samp(margin, 0.0, alternative="greater").pvalue)
        for place, margin in margins.items()
        if len(margin) > 1 and margin.std() > 0
    }
    if not p:
        return
    best = min(p, key=lambda place: p[place])
    corrected = min(1.0, len(p) * p[best])
    yield Claim(
        "neighbours in the input or in a hidden layer give a lower MSE than neighbours in the"
        " output in at least one case of layer, network and size (paired"
        " t-tests, p < .05 after Bonferroni's correction)",
        corrected < ALPHA,
        f"least p of {len(p)} cases {p[best]:.2g}, corrected {corrected:.2g}: {best},"
        f" {margins[best].mean():.3g} lower, {len(margins[best])} seeds",
        ("layer_richer",),
    )


def _margins_over_output(mse: pd.DataFrame, place: str) -> dict[str, pd.Series]:
    if "output" not in mse:
        return {}
    return {
        f"{place}, {PLACES[name]}": (mse["output"] - mse[name]).dropna()
        for name in LOCAL
        if name in mse and name != "output"
    }
