"""The config node ``figures``, which a run reads that draws nothing, too: so it stands apart from
what draws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kdgraph.parameters import Count


@dataclass(frozen=True)
class FigureOptions:
    """What is drawn, and as which files.

    Attributes
    ----------
    draw : name of a figure → its options; one that the run does not have the rows or answers for is
    left out.
    formats, dpi : of the files.
    """

    draw: Mapping[str, Mapping[str, Any]]
    formats: Sequence[Literal["svg", "png", "pdf"]]
    dpi: Count
