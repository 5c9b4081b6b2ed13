"""Claims of Salamon et al. in words, tested on measurements; ``claims.csv`` names the functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from experiments.common.claims import Claim, below, in_every_seed
from experiments.common.frames import by_metric
from experiments.common.markdown import number
from experiments.common.runs import runs_of
from experiments.p2 import records as records_study

TOP_LABEL = ("csts", "tswa", "kde")  # Calibrators of correctness, class by class
WHOLE = ("temperature", "isotonic")  # Calibrators of the full matrix of responses
# Ratio of NLLs up to which a method is competitive with another; the paper has no number.
COMPETITIVE = 1.1


def records(folder: Path) -> Iterator[Claim]:
    """Yield the claims on score records of other classifiers, ``paper/p2/records``.

    Included are records on which claims are known to fail: those of CIFAR-100, with about 50
    calibration rows a class, and human votes, of which few are wrong.
    """
    frame = pd.DataFrame(
        records_study.entries(runs_of(records_study.EXPERIMENT, folder, free=records_study.FREE))
    )
    for name, rows in frame.groupby("dataset") if len(frame) else ():
        wide = by_metric(rows)
        yield from claims_on_scores(
            wide["nll_top"],
            wide.get("brier_top", pd.DataFrame()),
            str(name),
            float(rows["share"].iloc[0]),
        )


def claims_on_scores(
    nll: pd.DataFrame, brier: pd.DataFrame, name: str, share: float
) -> Iterator[Claim]:
    """Yield the claims on methods (columns) over splits (rows) of one record.

    ``share`` is test rows per calibration row.
    """

    def lower(
        values: pd.DataFrame, what: str, each: str, other: str, *sentences: str
    ) -> Iterator[Claim]:
        if each in values and other in values:
            text = f"{name}: {what} of {each} is below that of {other}"
            yield from below(text, values[each], values[other], sentences, share=share)

    for each in TOP_LABEL:
        for other in WHOLE:
            yield from lower(nll, "binary NLL", each, other, "top_label")
    for values, what in ((nll, "binary NLL"), (brier, "binary Brier score")):
        yield from lower(
            values, what, records_study.SHARED, records_study.WHOLE, "binary_loss_better"
        )
    if "csts" in nll and "kde" in nll:
        text = f"{name}: binary NLL of csts is below {COMPETITIVE:g} times that of kde"
        yield from below(
            text, nll["csts"], COMPETITIVE * nll["kde"], ("csts_competitive",), share=share
        )
    yield from lower(nll, "binary NLL", "tswa", "csts", "awards_beat_csts")
    for each in TOP_LABEL:
        yield from lower(nll, "binary NLL", each, records_study.PARENT, "always_calibrate")
        if each in nll and records_study.PARENT in nll:
            text = f"{name}: binary NLL of {each} is below that of {records_study.PARENT}"
            yield from in_every_seed(text, nll[records_study.PARENT] - nll[each], ("cannot_hurt",))
    if "histogram" in nll and len(nll.columns) > 3:
        means = nll.mean().sort_values()
        rank = list(means.index).index("histogram") + 1
        text = f"{name}: the histogram's mean binary NLL is among the lower half of all methods'"
        evidence = (
            f"{number(float(means['histogram']), 4)}, number {rank}"
            f" of {len(means)}; {len(nll)} splits"
        )
        yield Claim(text, 2 * rank <= len(means), evidence, ("histograms_among_lowest",))
