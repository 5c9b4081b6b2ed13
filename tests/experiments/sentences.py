"""What tests of a paper's sentences share: seeds that differ a little, and the
verdicts of each sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from experiments.common.claims import Claim

SEEDS = range(6)
Numbers = Mapping[tuple[str, str], float]


def jitter(seed: int) -> float:
    return 0.001 * (seed % 3)


def held(claims: Iterable[Claim]) -> dict[str, set[bool]]:
    """Sentence → verdicts of its parts."""
    result: dict[str, set[bool]] = {}
    for claim in claims:
        assert claim.text and claim.measured
        for name in claim.sentences:
            result.setdefault(name, set()).add(claim.holds)
    return result


def all_are(
    claims: Iterable[Claim], holds: bool, but: Mapping[str, set[bool]] | None = None
) -> set[str]:
    """Each sentence has parts that all hold, or all fail, but for those that are named; returns the
    sentences.
    """
    result = held(claims)
    assert result == {name: {holds} for name in result} | dict(but or {})
    return set(result)


def by_seed(numbers: Numbers) -> pd.DataFrame:
    """As :func:`experiments.p5.records.frame_of` has it: of (method, metric) → value."""
    rows = [
        (*key, seed, value * (1 + jitter(seed))) for key, value in numbers.items() for seed in SEEDS
    ]
    return pd.DataFrame(rows, columns=["method", "metric", "seed", "value"])
