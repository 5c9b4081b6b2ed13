"""What a paper claims, whether it holds here, and the numbers that say so: a line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper that numbers can be asked about.

    Attributes
    ----------
    text : the claim, as it was tested, and where the paper makes it.
    holds : whether it does here.
    found : the numbers.
    """

    text: str
    holds: bool
    found: str


def verdicts(claims: Iterable[Claim]) -> str:
    """A list item of markdown for each claim, which begins with pass or FAIL; the last line counts them."""
    told = list(claims)
    lines = [f"- {'pass' if claim.holds else 'FAIL'}: {claim.text}. {claim.found}" for claim in told]
    return "\n".join([*lines, "", f"{sum(claim.holds for claim in told)} of {len(told)} hold."])
