"""Claims of a paper, tested on runs: the sentence, its verdict and the numbers behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from scipy.stats import binomtest

from experiments.common.frames import half_width
from kdgraph.runner.files import write_atomically


@dataclass(frozen=True)
class Claim:
    """Test of one sentence of a paper, or of a part of it."""

    text: str  # with its place in the paper, the comparison and the rule
    holds: bool
    measured: str  # the numbers, and the number of seeds
    sentences: tuple[str, ...] = ()  # names in ``claims.csv``; none for a claim of the project
    made: str = ""  # time, machine and commit; empty for a test of now
    scale: str = ""  # of the computation, if it may be another than that of the page


# Folder of runs → claims on the sentences whose ``tested_by`` names the function; none if runs are
# missing.
ClaimTest = Callable[[Path], Iterable[Claim]]


def verdicts(claims: Iterable[Claim]) -> str:
    """Return a markdown list of claims with pass or FAIL, and a last line with the counts."""
    tested = list(claims)
    lines = [f"- {'pass' if c.holds else 'FAIL'}: {c.text}. {c.measured}" for c in tested]
    return "\n".join([*lines, "", f"{sum(c.holds for c in tested)} of {len(tested)} hold."])


def below(
    text: str, low: pd.Series, high: pd.Series, sentences: tuple[str, ...] = (), *, share: float = 0
) -> Iterator[Claim]:
    """Yield the claim that the 95 % interval of the mean difference of two columns is below 0.

    Columns are by seed; with fewer than two common seeds there is no claim. ``share`` is test rows
    per fitted row if seeds are splits of the same rows.
    """
    both = pd.concat({"low": low, "high": high}, axis=1).dropna()
    if len(both) < 2:
        return
    difference = both.low - both.high
    mean, half = float(difference.mean()), half_width(difference, share)
    statement = f"{text}: the 95 % interval of the mean difference is below 0"
    evidence = (
        f"{_short(both.low.mean())} against {_short(both.high.mean())}, difference {_short(mean)} ±"
        f" {_short(half)}, below in {int((difference < 0).sum())} of {len(both)} seeds"
    )
    yield Claim(statement, mean + half < 0, evidence, sentences)


def in_every_seed(
    text: str, margin: pd.Series, sentences: tuple[str, ...] = (), *, least: float = 0.0
) -> Iterator[Claim]:
    """Yield the claim that a margin exceeds ``least`` in every row, unless it is empty."""
    margin = margin.dropna()
    if len(margin):
        evidence = (
            f"In {int((margin > least).sum())} of {len(margin)}, by"
            f" {_short(margin.min())} to {_short(margin.max())}"
        )
        yield Claim(f"{text}, in every seed", bool((margin > least).all()), evidence, sentences)


def _short(value: float) -> str:
    """Return three digits, or a whole number from 1,000 on."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def computed_path(folder: Path, name: str) -> Path:
    """Return the path of the results of a computation without a run, in a folder of runs."""
    return folder / "computed" / f"{name}.csv"


def save_claims(claims: Iterable[Claim], folder: Path, name: str) -> None:
    """Write the claims of a long computation to a folder of runs, for :func:`saved_claims`."""
    rows = [(c.text, c.holds, c.measured, " ".join(c.sentences), c.scale) for c in claims]
    path = computed_path(folder, f"claims_{name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(rows, columns=["text", "holds", "found", "of", "scale"])
    write_atomically(path, frame.to_csv(index=False).encode())


def saved_claims(folder: Path, name: str) -> list[Claim]:
    """Return the claims that :func:`save_claims` wrote, or none."""
    path = computed_path(folder, f"claims_{name}")
    if not path.exists():
        return []
    return [
        Claim(row["text"], bool(row["holds"]), row["found"], tuple(row["of"].split()), "", scale)
        for row in pd.read_csv(path, keep_default_na=False).to_dict("records")
        for scale in [row.get("scale", "")]
    ]


def is_more_often(
    count: int, n: int, share: float = 0.5, level: float = 0.05
) -> tuple[bool, float]:
    """Return whether ``count`` of ``n`` is more than a share by chance, and the one-sided p.

    The exact binomial test; more than half of the cases is not enough for "more often than not".

    >>> is_more_often(18, 32)[0], is_more_often(28, 32)[0]
    (False, True)
    """
    p = float(binomtest(count, n, share, alternative="greater").pvalue) if n else 1.0
    return p < level, p
