"""How long methods take, side by side in one process, and what the paper says of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pandas as pd

from experiments.common.claims import Claim
from experiments.common.markdown import counted_noun
from experiments.common.seconds import processor_seconds
from experiments.common.splits import half_width


def in_turn(works: Mapping[str, Callable[[], object]], seed: int) -> dict[str, float]:
    """Seconds of processor time of each, in which the work of other programs does not count; an odd
    seed turns the order round.
    """
    result = {}
    for name in sorted(works, reverse=bool(seed % 2)):
        _, result[name] = processor_seconds(works[name])
    return result


def faster(seconds: pd.DataFrame, text: str) -> Iterator[Claim]:
    """That TOOD is often faster than a network: on more than half of the data sets.

    Parameters
    ----------
    seconds : columns ``dataset, seed, setting, value``; settings are "tood" and "network".
    text : of the claim; the rule is added.
    """
    result, held = [], []
    for dataset, of in seconds.groupby("dataset", sort=False):
        each = of.pivot(index="seed", columns="setting", values="value").dropna()
        if len(each) > 1:
            difference = each.tood - each.network
            held.append(bool(difference.mean() + half_width(difference, 0) < 0))
            result.append(f"{dataset} {each.tood.mean():.2g} against {each.network.mean():.2g}")
    if held:
        rule = (
            "on more than half of the data sets, with the 95 % interval of the difference over"
            " seeds below 0"
        )
        details = (
            f"on {sum(held)} of {len(held)}: {', '.join(result)};"
            f" {counted_noun([seconds.seed.nunique()], 'seed')}"
        )
        yield Claim(f"{text} {rule}", 2 * sum(held) > len(held), details, ("faster",))
