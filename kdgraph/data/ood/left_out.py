"""Rows of the classes that the split has left out: near to the training distribution, and new to every model."""

from __future__ import annotations

import numpy as np

from kdgraph.data.dataset import TEST, OodSet, Splits
from kdgraph.errors import NotAtHand
from kdgraph.parameters import Count, check_parameters

MOST_NAMED = 12
"""Classes that a line names."""


class LeftOutClasses:
    """Rows of the same table whose class no model has seen (``dataset.left_out``), drawn at random: of its official test rows where it has
    them, else of all. Ours; as digits 5 to 9 are for 0 to 4.

    Parameters
    ----------
    n : rows; all where there are fewer.
    """

    def __init__(self, n: Count = 1000) -> None:
        self.n = n
        check_parameters(self)

    def sets(self, splits: Splits, rng: np.random.Generator) -> list[OodSet]:
        """One set; its facts name the classes.

        Raises
        ------
        NotAtHand
            If the split has left out no class, or none of them has rows.
        """
        away = splits.left_out
        if away is None or not len(away.y):
            raise NotAtHand(f"no class of {splits.train.name} is left out; name some, or say how many: dataset.left_out=…")
        tests = away.roles is not None and (away.roles == TEST).any()
        among = np.flatnonzero(away.roles == TEST) if tests else np.arange(len(away.y))
        chosen = rng.choice(among, min(self.n, len(among)), replace=False)
        classes = away.classes.tolist()
        named = ", ".join(map(str, classes[:MOST_NAMED])) + (f" and {len(classes) - MOST_NAMED} more" if len(classes) > MOST_NAMED else "")
        rows = f"{len(chosen):,} at random of {len(among):,}{' test' if tests else ''} rows, class {named}"
        drawn = away.rows(chosen)
        facts = {"classes": classes, "rows": rows}
        return [OodSet("left_out", drawn.X, facts=facts, source_rows=drawn.source_rows)]
