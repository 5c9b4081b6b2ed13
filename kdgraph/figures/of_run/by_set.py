"""Confidence on single sets, of one run."""

from __future__ import annotations

from typing import Any

from kdgraph.figures.of_run.drawing import Drawing, title_of
from kdgraph.figures.of_run.registry import run_figure


@run_figure("confidence_by_set")
def confidence_by_set_of_run(run: Drawing) -> Any:
    """Histograms of confidence on the sets that are one of a kind; a family of many has a curve."""
    from kdgraph.figures import confidence_by_set as draw

    alone = [family[0] for family in run.families() if len(family) == 1]
    if not alone or run.prior is None:
        return None
    titles = {"test, in distribution": run.test} | {title_of(found).replace("\n", ", "): found for found in alone}
    sets = {f"{title}: {found.n:,} rows": said for title, found in titles.items() if (said := run.confidence(found)) is not None}
    return draw(sets, run.prior) if sets else None
