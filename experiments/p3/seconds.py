"""Seconds of methods side by side in one process, and the claim on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.markdown import counted_noun
from experiments.common.seconds import processor_seconds
from experiments.common.splits import half_width


def in_turn(works: Mapping[str, Callable[[], object]], seed: int) -> dict[str, float]:
    """Return seconds of processor time of each function; an odd seed reverses the order."""
    result = {}
    for name in sorted(works, reverse=bool(seed % 2)):
        _, result[name] = processor_seconds(works[name])
    return result


def faster(seconds: pd.DataFrame, text: str) -> Iterator[Claim]:
    """Yield that TOOD is faster than a network on more than half of the data sets.

    ``seconds`` has the settings "tood" and "network"; the rule is added to ``text``.
    """
    result, held = [], []
    for dataset, rows in seconds.groupby("dataset", sort=False):
        each = rows.pivot(index="seed", columns="setting", values="value").dropna()
        if len(each) > 1:
            difference = each.tood - each.network
            held.append(bool(difference.mean() + half_width(difference, 0) < 0))
            result.append(f"{dataset} {each.tood.mean():.2g} against {each.network.mean():.2g}")
    if held:
        rule = (
            "on more than half of the data sets, with the 95 % interval"
            " of the difference over seeds below 0"
        )
        details = (
            f"on {sum(held)} of {len(held)}: {', '.join(result)};"
            f" {counted_noun([seconds.seed.nunique()], 'seed')}"
        )
        yield Claim(f"{text} {rule}", 2 * sum(held) > len(held), details, ("faster",))
