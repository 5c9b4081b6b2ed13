"""What a paper claims, whether it holds here, and the numbers that say so: a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from experiments.common.splits import half_width
from kdgraph.runner.files import write_atomically


@dataclass(frozen=True)
class Claim:
    """What numbers can be asked about one sentence of a paper, or about a part of it.

    Attributes
    ----------
    text : the claim, as it was tested, and where the paper makes it: what is compared with what,
    and the rule by which it holds.
    holds : whether it does here.
    found : the numbers, and of how many seeds.
    of : sentences that it is a part of, by their names in the paper's ``claims.csv``; none where it
    is ours.
    made : when, where and by which commit it was asked; empty where that is now.
    """

    text: str
    holds: bool
    found: str
    of: tuple[str, ...] = ()
    made: str = ""


ClaimTest = Callable[[Path], Iterable[Claim]]
"""A folder of runs → what they say of the sentences whose ``tested_by`` names the function; nothing
where runs are missing.
"""


def verdicts(claims: Iterable[Claim]) -> str:
    """A list item of markdown for each claim, which begins with pass or FAIL; the last line counts
    them.
    """
    told = list(claims)
    lines = [
        f"- {'pass' if claim.holds else 'FAIL'}: {claim.text}. {claim.found}" for claim in told
    ]
    return "\n".join([*lines, "", f"{sum(claim.holds for claim in told)} of {len(told)} hold."])


def below(
    text: str, low: pd.Series, high: pd.Series, of: tuple[str, ...] = (), *, share: float = 0.0
) -> Iterator[Claim]:
    """That one column of numbers is below another: the mean difference, seed by seed, is, and its
    whole 95 % interval.

    Parameters
    ----------
    text, of : of the claim; the rule is added to the text.
    low, high : by seed. Of fewer than two seeds that both have there is no claim.
    share : test rows for each row that is fitted on, where seeds are splits of the same rows; see
        :func:`~experiments.common.splits.half_width`.
    """
    both = pd.concat({"low": low, "high": high}, axis=1).dropna()
    if len(both) < 2:
        return
    difference = both.low - both.high
    mean, half = float(difference.mean()), half_width(difference, share)
    found = (
        f"{_short(both.low.mean())} against {_short(both.high.mean())}, difference {_short(mean)} ±"
        f" {_short(half)}"
    )
    rule = "the 95 % interval of the mean difference is below 0"
    yield Claim(
        f"{text}: {rule}",
        mean + half < 0,
        f"{found}, below in {int((difference < 0).sum())} of {len(both)} seeds",
        of,
    )


def in_every_seed(
    text: str, margin: pd.Series, of: tuple[str, ...] = (), *, least: float = 0.0
) -> Iterator[Claim]:
    """That a margin is above ``least`` in every seed, or in every row of whatever the index is of;
    nothing of none.
    """
    margin = margin.dropna()
    if len(margin):
        found = (
            f"In {int((margin > least).sum())} of {len(margin)}, by {_short(margin.min())} to"
            f" {_short(margin.max())}"
        )
        yield Claim(f"{text}, in every seed", bool((margin > least).all()), found, of)


def _short(value: float) -> str:
    """Three digits, and none behind the point of thousands."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def computed_path(folder: Path, name: str) -> Path:
    """Where what was computed without a run is kept, beside the runs."""
    return folder / "computed" / f"{name}.csv"


def save_claims(claims: Iterable[Claim], folder: Path, name: str) -> None:
    """Write what a computation of minutes or hours found, for :func:`kept` to find below a folder
    of runs.
    """
    rows = [
        {"text": one.text, "holds": one.holds, "found": one.found, "of": " ".join(one.of)}
        for one in claims
    ]
    path = _claims_path(folder, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, pd.DataFrame(rows).to_csv(index=False).encode())


def saved_claims(folder: Path, name: str) -> list[Claim]:
    """What :func:`keep` wrote; nothing where it did not."""
    path = _claims_path(folder, name)
    if not path.exists():
        return []
    rows = pd.read_csv(path, keep_default_na=False).itertuples(index=False)
    return [
        Claim(str(row.text), bool(row.holds), str(row.found), tuple(str(row.of).split()))
        for row in rows
    ]


def _claims_path(folder: Path, name: str) -> Path:
    return computed_path(folder, f"claims_{name}")
