"""What Torres et al. say in words, asked of runs: each function is named by sentences of
``claims.csv``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from scipy.stats import ttest_1samp

from experiments.common.claims import Claim, computed_path, in_every_seed
from experiments.common.markdown import number
from experiments.p5 import diamonds as of_diamonds
from experiments.p5 import low_x2 as of_low_x2
from experiments.p5 import simulation as of_simulation
from experiments.p5 import table1 as of_table1
from experiments.p5 import table2 as of_table2
from experiments.p5.records import TRUTH, frame_of, of, of_truth

LEVEL = 0.95
UNEVEN = 0.05
"""Of a cell of 500 test rows, whose coverage has a standard deviation of one point where it is 95
%.
"""
LITTLE = 0.05
"""Of an MSE: the paper says no number."""
SIGNIFICANCE = 0.001
"""Of Frosini's test, as the paper has it."""
NEAR = 1.1
"""So many times the truth's interval score is very close to it; the paper's own is 1.05."""


def table1(folder: Path) -> Iterator[Claim]:
    """Of the straight line on a parabola: ``paper/p5/table1``."""
    records = of_table1.read(folder)
    frame = frame_of(records, {"linear": "linear"})
    if frame.empty:
        return
    yield from of_table1.claims(of_table1.above_truth(pd.concat([frame, of_truth(records)])))
    yield from of_line(frame)


def of_line(frame: pd.DataFrame) -> Iterator[Claim]:
    """Before and after, of the numbers of :func:`~experiments.p5.records.frame_of`."""
    yield from improved(frame, "linear", of_table1.LOCAL, "Table 1, linear model", "mse_mean")
    error = of(frame, "linear", "mse_mean") - of(frame, of_table1.LOCAL, "mse_mean")
    yield from in_every_seed(
        "the MSE to the true mean falls (Figure 2, a)", error, ("local_mean_variance",)
    )
    whole, gap = of(frame, "global_pit", "coverage"), of(frame, "global_pit", "worst_cell_gap")
    if len(gap):
        told = (
            f"{100 * whole.mean():.2f} % on the whole; the worst of 20 cells is"
            f" {100 * gap.min():.1f} to {100 * gap.max():.1f} points off"
        )
        text = (
            "after global recalibration 95 % ± .5 are covered, and in every seed a cell of x is off"
            " by more than five points"
        )
        holds = bool(abs(whole.mean() - LEVEL) < 0.005 and (gap > UNEVEN).all())
        yield Claim(text, holds, f"{told}, {len(gap)} seeds", ("global_not_local",))


def line(folder: Path) -> Iterator[Claim]:
    """Of the PIT values of the line on the calibration rows, as Section 4.1 was computed."""
    if (path := computed_path(folder, "p5_section41")).exists():
        computed = pd.read_csv(path)
        p = computed[computed.metric.str.startswith("p-value")].value
        text = (
            "Frosini's test refuses uniform PIT values of the line at the level of"
            f" {SIGNIFICANCE:.1%}, in every sample"
        )
        yield Claim(
            text,
            bool((p <= SIGNIFICANCE).all()),
            f"p at most {p.max():.2g}, {len(p)} samples",
            ("frosini",),
        )


def improved(
    frame: pd.DataFrame, before: str, after: str, where: str, error: str
) -> Iterator[Claim]:
    """MSE, coverage, interval score and evenness after local recalibration, against the network
    itself.
    """
    names = ("improved", "well_covered_parent")
    for metric, called in ((error, "MSE"), ("smis", "sMIS")):
        yield from in_every_seed(
            f"{where}: local recalibration lowers the {called}",
            of(frame, before, metric) - of(frame, after, metric),
            names,
        )
    off = (of(frame, before, "coverage") - LEVEL).abs() - (
        of(frame, after, "coverage") - LEVEL
    ).abs()
    yield from in_every_seed(f"{where}: coverage comes nearer to 95 %", off, names[:1])
    gap = of(frame, before, "worst_cell_gap") - of(frame, after, "worst_cell_gap")
    spread = (
        ("even_and_narrow", "misses_spread")
        if where.startswith("Table 2")
        else ("even_and_narrow",)
    )
    yield from in_every_seed(
        f"{where}: the cell that is covered worst comes nearer to 95 %", gap, spread
    )


def table2(folder: Path) -> Iterator[Claim]:
    """Of the network with dropout on Rosenbrock's function, the paper's share of dropout alone:
    ``paper/p5/table2``.
    """
    share = of_table2.PUBLISHED_DROPOUT
    records = [
        record
        for record in of_table2.read(folder)
        if record["config"]["parent"].get("dropout") == share
    ]
    if records:
        yield from of_networks(pd.concat([of_table2.by_share(records), of_truth(records, share)]))


def of_networks(frame: pd.DataFrame) -> Iterator[Claim]:
    """All that is said of Table 2, of the numbers of one share of dropout and of the truth."""
    if not {*of_table2.RADIUS, *of_table2.RADIUS.values()} <= set(frame.method):
        return
    yield from of_table2.claims(frame)
    for before, after in of_table2.RADIUS.items():
        yield from improved(frame, before, after, f"Table 2, {of_table2.ROWS[before][0]}", "mse_y")
    lower = of(frame, "mc_dropout", "mse_y") - of(frame, "wsir", "mse_y")
    yield from in_every_seed(
        "the MSE of WSIR is below that of MC dropout", lower, ("wsir_below_dropout",)
    )
    names = [*of_table2.RADIUS, *of_table2.RADIUS.values()]
    off = {name: abs(of(frame, name, "coverage").mean() - LEVEL) for name in names}
    wide = {name: of(frame, name, "smis").mean() for name in names}
    told = ", ".join(f"{of_table2.ROWS[name][0]} {100 * value:.1f}" for name, value in off.items())
    text = "the mean coverage of MC dropout is the nearest to 95 % of all four"
    yield Claim(
        text,
        min(off, key=lambda name: off[name]) == "mc_dropout",
        f"points off: {told}",
        ("dropout_coverage",),
    )
    told = ", ".join(
        f"{of_table2.ROWS[name][0]} {number(value, 3)}" for name, value in wide.items()
    )
    text = "the mean interval score of MC dropout is the largest of all four"
    yield Claim(
        text, max(wide, key=lambda name: wide[name]) == "mc_dropout", told, ("dropout_coverage",)
    )
    for after in of_table2.RADIUS.values():
        ratio = of(frame, after, "smis") / of(frame, TRUTH, "smis")
        text = (
            f"the sMIS of {of_table2.ROWS[after][0]} is at most {NEAR:g} times that of the true"
            " distribution on the same rows"
        )
        yield Claim(
            text,
            bool(ratio.mean() <= NEAR),
            f"{ratio.mean():.2f} times, mean of {len(ratio)} seeds",
            ("near_truth",),
        )


def diamonds(folder: Path) -> Iterator[Claim]:
    """Of the prices of diamonds: ``paper/p5/diamonds``."""
    frame = of_diamonds.numbers(of_diamonds.read(folder))
    if not frame.empty:
        yield from of_diamonds.claims(frame)


def low_x2(folder: Path) -> Iterator[Claim]:
    """Of what the networks on Rosenbrock's function predict where x₂ is low:
    ``paper/p5/table2``.
    """
    frame = of_low_x2.means(folder)
    if not frame.empty:
        yield from of_low_x2.claims(frame)


def simulation(folder: Path) -> Iterator[Claim]:
    """Of the function of 20 features: ``paper/p5/simulation`` and those that vary its k and eps."""
    frame = of_simulation.frame_of(of_simulation.read(folder))
    if not frame.empty:
        yield from of_simulation.claims(frame)
        yield from of_sizes(frame)


def of_sizes(frame: pd.DataFrame) -> Iterator[Claim]:
    """By network and size, of the numbers of :func:`~experiments.p5.simulation.frame_of`."""
    exact = frame[
        (frame.eps == 0) & (frame.k != "crps") & frame.network.isin(of_simulation.NETWORKS)
    ]
    plain = exact[(exact.k == of_simulation.K) | exact.k.isna()]
    richer: dict[str, pd.Series] = {}
    has_all_sizes = of_simulation.has_all_sizes(plain[plain.method.isin(of_simulation.LOCAL)])
    for (network, size), rows in plain.groupby(["network", "size"], sort=True):
        wide = {
            metric: each.pivot_table(index="seed", columns="method", values="value")
            for metric, each in rows.groupby("metric")
        }
        where = f"{network} network, {size:,} rows"
        yield from _against_network(wide, where)
        if has_all_sizes:
            yield from _of_layers(wide["mse_y"], where)
        richer |= _against_output(wide["mse_y"], where)
    yield from _is_richer(richer)
    if has_all_sizes:
        yield from of_approximation(frame[frame.network.isin(of_simulation.NETWORKS)])
    for size, rows in exact[
        (exact.network == "big")
        & (exact.metric == "mse_y")
        & exact.method.isin(of_simulation.LOCAL)
    ].groupby("size"):
        mse = (
            rows[rows.k.isin([100, 500, of_simulation.K])]
            .groupby(rows.k.astype(float))
            .value.mean()
        )
        if len(mse) == 3 and size >= 10 * of_simulation.K:
            first, second = -mse.diff().dropna()
            told = ", ".join(f"k = {k:g} {value:.3g}" for k, value in mse.items())
            text = (
                f"big network, {size:,} rows: the MSE falls from k = 100 to 500 to 1,000, and less"
                " in the second step"
            )
            yield Claim(
                text,
                bool(first > second > 0),
                f"{told}, means over layers and seeds",
                ("more_neighbours",),
            )


def _against_network(wide: dict[str, pd.DataFrame], where: str) -> Iterator[Claim]:
    """Interval metrics of local recalibration, the mean of its layers, against the network
    alone.
    """
    for metric, called in (("smis", "sMIS"), ("coverage", "distance of coverage to 95 %")):
        values = wide.get(metric, pd.DataFrame())
        layers = [name for name in of_simulation.LOCAL if name in values]
        if "network" in values and layers:
            values = (values - LEVEL).abs() if metric == "coverage" else values
            margin = values["network"] - values[layers].mean(axis=1)
            yield from in_every_seed(
                f"{where}: local recalibration lowers the {called}", margin, ("consistently",)
            )


def _of_layers(mse: pd.DataFrame, where: str) -> Iterator[Claim]:
    layers = [name for name in of_simulation.LOCAL if name in mse]
    if len(layers) > 1 and len(mse.dropna()):
        mean = mse[layers].mean()
        apart = float(mean.max() / mean.min() - 1)
        told = ", ".join(f"{of_simulation.PLACES[name]} {mean[name]:.3g}" for name in layers)
        text = (
            f"{where}: mean MSE is at most {100 * LITTLE:g} % larger with the worst layer than with"
            " the best"
        )
        yield Claim(
            text,
            apart <= LITTLE,
            f"{100 * apart:.1f} %; {told}; {len(mse)} seeds",
            ("layer_no_influence",),
        )


def of_approximation(frame: pd.DataFrame) -> Iterator[Claim]:
    """Of approximate searches by network and size, against the exact search of the same runs."""
    local = frame[
        frame.method.isin(of_simulation.LOCAL)
        & (frame.k == of_simulation.K)
        & (frame.metric == "mse_y")
    ]
    for (network, size), rows in local.groupby(["network", "size"], sort=True):
        mse = rows.pivot(index=["method", "seed"], columns="eps", values="value").dropna()
        approximate = [eps for eps in mse if eps > 0]
        if 0.0 not in mse or not approximate or mse.empty:
            continue
        change = {eps: float(mse[eps].mean() / mse[0.0].mean() - 1) for eps in approximate}
        told = ", ".join(f"eps = {eps:g} {100 * value:+.2f} %" for eps, value in change.items())
        layers = mse.index.get_level_values("method")
        yield Claim(
            f"{network} network, {size:,} rows: mean MSE with approximate neighbours is within"
            f" {100 * LITTLE:g} % of that with the nearest",
            all(abs(value) <= LITTLE for value in change.values()),
            f"{told}; {layers.nunique()} layers,"
            f" {mse.index.get_level_values('seed').nunique()} seeds",
            ("layer_no_influence",),
        )


def _is_richer(cases: dict[str, pd.Series]) -> Iterator[Claim]:
    """Ask whether in any case the MSE of a layer is below that of the output, by paired one-sided
    t-tests, of which the smallest p-value is multiplied by the number of cases (Bonferroni).
    """
    p = {
        where: float(ttest_1samp(margin, 0.0, alternative="greater").pvalue)
        for where, margin in cases.items()
        if len(margin) > 1 and margin.std() > 0
    }
    if not p:
        return
    best = min(p, key=lambda where: p[where])
    corrected = min(1.0, len(p) * p[best])
    yield Claim(
        "neighbours in the input or in a hidden layer give a lower MSE than neighbours in the"
        " output in at least one case of layer, network and size (paired t-tests, p < .05 after"
        " Bonferroni's correction)",
        corrected < of_simulation.ALPHA,
        f"least p of {len(p)} cases {p[best]:.2g}, corrected {corrected:.2g}: {best},"
        f" {cases[best].mean():.3g} lower, {len(cases[best])} seeds",
        ("layer_richer",),
    )


def _against_output(mse: pd.DataFrame, where: str) -> dict[str, pd.Series]:
    """By how much the MSE of each layer is below that of the output, by seed."""
    if "output" not in mse:
        return {}
    return {
        f"{where}, {of_simulation.PLACES[name]}": (mse["output"] - mse[name]).dropna()
        for name in of_simulation.LOCAL
        if name in mse and name != "output"
    }
