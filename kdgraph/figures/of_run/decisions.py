"""What the confidence is worth to who may say "unsure": from the table that metrics=decisions makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.figures.of_run.tables import by_name


@run_figure("reward_against_ratio")
def reward_against_ratio_of_run(run: Drawing, table: str = "reward_by_ratio") -> Any:
    """Reward gained over the parent against the cost of a mistake, where ``table``, a key in ``metrics``, has two ratios or more."""
    from kdgraph.figures import reward_against_ratio as draw

    found = by_name(run, table)
    if found is None:
        return None
    ratios, order = np.unique(found[run.names[0]]["ratio"], return_index=True)
    if len(ratios) < 2:
        return None
    reward, unsure = ({name: columns[column][order] for name, columns in found.items()} for column in ("reward", "unsure"))
    return draw(ratios, reward, unsure)
