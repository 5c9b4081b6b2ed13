"""Base class of data sources, whose parameters are annotated fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kdgraph.docstrings import inherit_descriptions
from kdgraph.parameters import check_parameters


@dataclass(eq=False, repr=False)
class Source:
    """Source of rows. Its parameters are its fields, which are checked when it is made.

    The parameters that its bases describe are added to the docstring of a subclass.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    def __post_init__(self) -> None:
        check_parameters(self)


def numbered_names(n: int, prefix: str = "x") -> tuple[str, ...]:
    """Return the names x1, x2 and so on."""
    return tuple(f"{prefix}{i + 1}" for i in range(n))
