"""Theorems 4.1 to 4.4 of TOOD on simulations that meet all their stated assumptions.

``python -m experiments.p3.theorems --scale smoke`` grows extremely randomised trees on uniform rows
with a random target each, so that every leaf has one row, and compares the Hamming distance H of
pairs of rows with the theorems. It prints tables and draws a figure of each of Theorems 4.2 to 4.4;
for Theorem 4.1 it has a counter-example in numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.ensemble import ExtraTreesRegressor

from experiments.common.claims import Claim
from experiments.common.command import in_one_line, print_claims, study_options
from experiments.common.markdown import head, line, number
from experiments.common.pictures import save_picture
from experiments.p3.panels import Curve, Panel, side_by_side
from kdgraph.detection import aphd
from kdgraph.figures.style import BLACK, BLUE, GREEN, VERMILLION, PlotStyle

PAPER = Path(__file__).parent
DIMENSIONS = (1, 2, 5)
# Error of a mean H: with 1,000 training rows in one dimension, gaps at the edge of [0, 1] move it
# by .03.
TOLERANCE = 0.05
EPSILON = 0.1  # Deviation of which Theorem 4.4 bounds the probability
RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
THEOREM = PlotStyle(BLACK, linestyle=(0, (3.2, 1.6)), marker="")
GRID = PlotStyle(GREEN, marker="D", filled=False)
TREES = PlotStyle(BLUE)
OTHER = PlotStyle(VERMILLION, marker="^")


@dataclass(frozen=True)
class Scale:
    """Numbers of training rows, test rows, trees, repetitions, and trees for Theorem 4.4."""

    train: int
    test: int
    trees: int
    draws: int
    many_trees: int


SCALES = {"smoke": Scale(300, 300, 20, 2, 200), "workstation": Scale(1000, 1000, 100, 10, 4000)}


def forest_on(X: np.ndarray, trees: int, seed: int) -> ExtraTreesRegressor:
    """Return trees on random targets: every row is alone in its leaf, as Section 4 assumes."""
    y = np.random.default_rng(seed).random(len(X))
    return ExtraTreesRegressor(trees, max_features="sqrt", random_state=seed).fit(X, y)


def mean_h(forest: ExtraTreesRegressor, X: np.ndarray) -> float:
    """Return the mean of H over trees and all pairs of rows of X."""
    return float(aphd(forest.apply(X)).mean())


def grid_cells(X: np.ndarray, k: int) -> np.ndarray:
    """Return Int[n, 1], the cell of each row in a grid of k^d, whose outer cells are unbounded.

    >>> grid_cells(np.array([[0.1, 0.9], [0.1, 7.0], [0.9, 0.9]]), 2).ravel()
    array([2, 2, 3])
    """
    # Rows beyond the range of training rows fall into the outer cells, as into leaves of trees.
    at = np.clip((X * k).astype(int), 0, k - 1)
    return at @ k ** np.arange(X.shape[1])[:, None]


def expected_h(a: float | np.ndarray, d: int) -> np.ndarray:
    """Return E H = 1 - a^(2d) by Theorem 4.3, in the formula of its proof; the text's is lost."""
    return 1.0 - np.asarray(a, dtype=np.float64) ** (2 * d)


def counter_example(scale: Scale, d: int = 10) -> dict[int, float]:
    """Return k features shifted by 2 → the mean APHD, which Theorem 4.1 has as 0 for k > 0."""
    result = {}
    for k in (0, 1, d // 2, d - 1, d):
        rng = np.random.default_rng(k)
        forest = forest_on(rng.random((scale.train, d)), scale.trees, k)
        result[k] = mean_h(forest, rng.random((min(scale.test, 300), d)) + 2.0 * (np.arange(d) < k))
    return result


def by_regions(scale: Scale, d: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return 1 - E H of rows like the training rows by the number of regions (Theorem 4.2).

    This is name → (Float[v], Float[draws, v]); trees have as many leaves as training rows.
    """
    per_side = {1: (4, 16, 64, 256), 2: (2, 4, 8, 16), 5: (2, 3, 4)}[d]
    leaves = [n for n in (4, 16, 64, 256, 1024) if n <= 1.1 * scale.train]
    grid, trees = np.empty((scale.draws, len(per_side))), np.empty((scale.draws, len(leaves)))
    for draw in range(scale.draws):
        rng = np.random.default_rng((draw, d))
        test = rng.random((scale.test, d))
        grid[draw] = [1 - aphd(grid_cells(test, k)).mean() for k in per_side]
        trees[draw] = [
            1 - mean_h(forest_on(rng.random((n, d)), scale.trees, draw), test) for n in leaves
        ]
    return {
        "grid": (np.array(per_side, dtype=float) ** d, grid),
        "trees": (np.array(leaves, dtype=float), trees),
    }


def by_shift(scale: Scale, d: int, shifts: np.ndarray) -> dict[str, np.ndarray]:
    """Return name → Float[draws, v], mean H of rows from U[a, 1 + a]^d (Theorem 4.3)."""
    result = {
        "trees": np.empty((scale.draws, len(shifts))),
        "grid": np.empty((scale.draws, len(shifts))),
    }
    k = max(round(scale.train ** (1 / d)), 2)
    for draw in range(scale.draws):
        rng = np.random.default_rng((draw, d, 3))
        forest = forest_on(rng.random((scale.train, d)), scale.trees, draw)
        for i, a in enumerate(shifts):
            X = rng.random((scale.test, d)) + a
            result["trees"][draw, i], result["grid"][draw, i] = (
                mean_h(forest, X),
                aphd(grid_cells(X, k)).mean(),
            )
    return result


def by_trees(scale: Scale, d: int, a: float = 0.5) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return how often the mean H of T trees is ε or more away (Theorem 4.4), over pairs of rows.

    These are Float[v], numbers of trees, and name → Float[1, v]: away from the mean over trees and
    pairs, which the theorem bounds; and away from the pair's own mean over trees, which
    Hoeffding's inequality does.
    """
    rng = np.random.default_rng((d, 4))
    forest = forest_on(rng.random((scale.train, d)), scale.many_trees, d)
    leaves = forest.apply(rng.random((scale.test, d)) + a)
    differ = (leaves[::2] != leaves[1::2]).T.astype(np.float64)  # [trees, pairs]
    counts = [t for t in (1, 2, 5, 10, 20, 50, 100, 200) if 20 * t <= scale.many_trees]
    own, overall = differ.mean(axis=0), differ.mean()
    away = {"pair": np.empty((1, len(counts))), "all": np.empty((1, len(counts)))}
    # Trees are exchangeable, so means of disjoint groups of T trees are draws of a forest of T.
    for i, t in enumerate(counts):
        means = differ[: len(differ) // t * t].reshape(-1, t, differ.shape[1]).mean(axis=1)
        away["pair"][0, i] = (np.abs(means - own) >= EPSILON).mean()
        away["all"][0, i] = (np.abs(means - overall) >= EPSILON).mean()
    return np.array(counts, dtype=float), away


def hoeffding(trees: np.ndarray) -> np.ndarray:
    """Return the bound of Theorem 4.4, Eq. 7: 2·exp(-2·T·ε²), at most 1."""
    return np.minimum(2 * np.exp(-2 * trees * EPSILON**2), 1.0)


@dataclass(frozen=True)
class Found:
    """All measurements, by dimension where they have one; ``a``, Float[v], are the shifts."""

    outside: Mapping[int, float]
    regions: Mapping[int, dict[str, tuple[np.ndarray, np.ndarray]]]
    shifts: Mapping[int, dict[str, np.ndarray]]
    trees: Mapping[int, tuple[np.ndarray, dict[str, np.ndarray]]]
    a: np.ndarray


def measure(scale: Scale) -> Found:
    """Return all measurements at one scale."""
    a = np.array([0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0])
    regions = {d: by_regions(scale, d) for d in DIMENSIONS}
    shifts = {d: by_shift(scale, d, a) for d in DIMENSIONS}
    return Found(
        counter_example(scale), regions, shifts, {d: by_trees(scale, d) for d in DIMENSIONS}, a
    )


def tables(result: Found) -> str:
    """Return Theorems 4.1 and 4.3 in numbers."""
    lines = head(["of 10 features out of range", *map(str, result.outside)])
    lines += [line(["APHD", *(number(h) for h in result.outside.values())]), ""]
    lines += head(["mean H at a =", *(f"{a:g}" for a in result.a)])
    for d in DIMENSIONS:
        title = f"d = {d}, 1 − a{str(2 * d).translate(RAISED)}"
        lines.append(line([title, *(number(h, 2) for h in expected_h(result.a, d))]))
        for name, means in result.shifts[d].items():
            lines.append(
                line([f"d = {d}, {name}", *(number(float(h), 2) for h in means.mean(axis=0))])
            )
    return "\n".join(lines)


def claims(result: Found) -> Iterator[Claim]:
    """Yield whether each theorem holds here."""
    inside = {k: h for k, h in result.outside.items() if k}
    holds = all(h < TOLERANCE for h in inside.values())
    evidence = ", ".join(f"{number(h)} with {k}" for k, h in inside.items())
    text = (
        "H is 0 where the convex hulls are disjoint (Theorem 4.1),"
        " of 10 features k being out of range"
    )
    yield Claim(text, holds, evidence, ("theorem_4_1",))
    for d in DIMENSIONS:
        for name, (k, shared) in result.regions[d].items():
            ratio = shared.mean(axis=0) * k
            text = (
                f"E H = 1 − 1/K with K regions (Theorem 4.2), {name}, d"
                f" = {d}: 1 − H is 1/K within a fifth"
            )
            evidence = (
                f"it is {number(float(ratio.min()), 2)} to"
                f" {number(float(ratio.max()), 2)} times 1/K"
            )
            yield Claim(text, bool((np.abs(ratio - 1) < 0.2).all()), evidence, ("theorem_4_2",))
    for d in DIMENSIONS:
        off = np.abs(result.shifts[d]["trees"].mean(axis=0) - expected_h(result.a, d))
        text = (
            f"E H = 1 − a^(2d) (Theorem 4.3), trees, d = {d}: within"
            f" {number(TOLERANCE, 2)} at every a"
        )
        worst = int(off.argmax())
        evidence = f"off by {number(float(off[worst]), 2)} at a = {result.a[worst]:g}"
        yield Claim(text, bool((off < TOLERANCE).all()), evidence, ("theorem_4_3",))
    for d, (trees, away) in result.trees.items():
        for name, which in (
            ("all", "the mean over pairs, as stated"),
            ("pair", "the pair's own mean"),
        ):
            above = trees[away[name][0] > hoeffding(trees)]
            text = (
                f"mean H of T trees is seldom {EPSILON:g} away from {which} (Theorem 4.4), d = {d}:"
                " below Hoeffding's bound at every T"
            )
            bound = number(100 * float(hoeffding(trees)[-1]), 1)
            evidence = (
                f"at T = {trees[-1]:g} in"
                f" {number(100 * float(away[name][0, -1]), 1)} %, the bound being {bound} %"
            )
            yield Claim(text, not len(above), evidence, ("theorem_4_4",))


def figure_regions(result: Found) -> Figure:
    """Draw the share of pairs that share a region, times K, against K (Theorem 4.2)."""
    panels = {}
    for d in DIMENSIONS:
        roles = {"grid": GRID, "trees": TREES}
        curves = {n: Curve(k, shared * k, roles[n]) for n, (k, shared) in result.regions[d].items()}
        ends = np.array(
            [min(c.x[0] for c in curves.values()), max(c.x[-1] for c in curves.values())]
        )
        drawn = {"theorem": Curve(ends, np.ones((1, 2)), THEOREM), **curves}
        panels[f"d = {d}"] = Panel(
            drawn, "regions K", log=True, ylim=(0, 3), ticks=[4, 16, 64, 256, 1024]
        )
    return side_by_side(
        panels, ylabel="(1 − mean H) · K", note="1 by Theorem 4.2; bands: 5 to 95 % of draws"
    )


def figure_shift(result: Found) -> Figure:
    """Draw mean H against the shift (Theorem 4.3)."""
    fine = np.linspace(0, 1, 101)
    panels = {}
    for d in DIMENSIONS:
        curves = {
            f"1 − a{str(2 * d).translate(RAISED)}": Curve(fine, expected_h(fine, d)[None], THEOREM),
            "trees": Curve(result.a, result.shifts[d]["trees"], TREES),
            "grid": Curve(result.a, result.shifts[d]["grid"], GRID),
        }
        off = np.abs(result.shifts[d]["trees"].mean(axis=0) - expected_h(result.a, d)).max()
        verdict = "holds" if off < TOLERANCE else f"off by up to {number(float(off), 2)}"
        panels[f"d = {d}: {verdict}"] = Panel(curves, "shift a", ylim=(-0.03, 1.03))
    return side_by_side(
        panels,
        ylabel="mean H",
        note="Theorem 4.3 against trees, and a grid of as many regions; bands: 5 to 95 % of draws",
    )


def figure_trees(result: Found) -> Figure:
    """Draw how often H is far from its mean, against the number of trees (Theorem 4.4)."""
    panels = {}
    for d, (trees, away) in result.trees.items():
        curves = {
            "bound": Curve(trees, hoeffding(trees)[None], THEOREM),
            "from the mean": Curve(trees, away["all"], OTHER),
            "from its own": Curve(trees, away["pair"], TREES),
        }
        panels[f"d = {d}"] = Panel(
            curves, "trees T", log=True, ylim=(-0.03, 1.05), ticks=[1, 10, 100]
        )
    note = (
        f"H of T trees is {EPSILON:g} or more away: from the mean over pairs (Theorem 4.4), or from"
        " the pair's own mean over trees"
    )
    return side_by_side(panels, ylabel="share of pairs", note=note)


def main() -> None:
    """Print the tables and save the figures."""
    options = study_options(__doc__, keep=True, pictures="outputs/p3_theorems", scales=SCALES)
    result = measure(SCALES[options.scale])
    details = list(claims(result))
    print(tables(result) + "\n")
    print_claims(details, options.keep, "p3_theorems")
    for name, draw in (
        ("theorem42", figure_regions),
        ("theorem43", figure_shift),
        ("theorem44", figure_trees),
    ):
        save_picture(draw(result), options.figures / name, PAPER)


if __name__ == "__main__":
    in_one_line(main)
