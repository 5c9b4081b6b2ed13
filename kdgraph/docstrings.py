"""Docstrings that are completed at import, so that each parameter is described once.

A class inherits the descriptions of the parameters and attributes that its bases describe
(:func:`inherit_descriptions`), and a function takes those that many functions share
(:func:`add_descriptions`). What a docstring describes itself is left as it is. ``help()`` and the
reference show the completed docstrings.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache

_ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*)(?: : .*)?$")
_SECTIONS = (
    *("Parameters", "Attributes", "Returns", "Yields", "Raises", "Warns", "Notes", "References"),
    "Examples",
)
"""Sections in the order in which docstrings have them."""


@cache
def described_names(doc: str, section: str = "Parameters") -> dict[str, str]:
    r"""Return the entry of each name that a section of a docstring describes.

    Parameters
    ----------
    doc : str
        Docstring in NumPy style, without indentation.
    section : str, default="Parameters"
        Name of the section.

    Returns
    -------
    dict
        Name → its lines. Names that share an entry have the same lines.

    Examples
    --------
    >>> described_names("Fit.\n\nParameters\n----------\nk, l : int\n    Numbers.\n")
    {'k': 'k, l : int\n    Numbers.', 'l': 'k, l : int\n    Numbers.'}
    """
    entries: dict[str, str] = {}
    names: list[str] = []
    for line in _section(doc, section):
        entry = _ENTRY.match(line)
        if entry is not None:
            names = entry["names"].replace("*", "").split(", ")
            entries |= dict.fromkeys(names, line)
        elif line.strip():
            entries |= {name: f"{entries[name]}\n{line}" for name in names}
    return entries


def add_descriptions(
    doc: str,
    descriptions: Mapping[str, str],
    section: str = "Parameters",
    *,
    first: bool = False,
) -> str:
    r"""Return a docstring with the entries of those names that it does not describe.

    Parameters
    ----------
    doc : str
        Docstring in NumPy style, without indentation.
    descriptions : mapping of str to str
        Name → lines of its entry, in the order in which they are added.
    section : str, default="Parameters"
        Name of the section, which is added where it is missing.
    first : bool, default=False
        Add them at the beginning of the section instead of its end.

    Returns
    -------
    str
        The docstring.

    Examples
    --------
    >>> add_descriptions("Fit.", {"k": "k : int\n    Number."})
    'Fit.\n\nParameters\n----------\nk : int\n    Number.'
    """
    described = described_names(doc, section)
    missing = dict.fromkeys(lines for name, lines in descriptions.items() if name not in described)
    if not missing:
        return doc
    lines, added = doc.rstrip().split("\n"), "\n".join(missing).split("\n")
    if described:
        place = _start(lines, section)
        if not first:
            place += len(_section(doc, section))
            while not lines[place - 1].strip():
                place -= 1
        return "\n".join([*lines[:place], *added, *lines[place:]])
    later = _SECTIONS[_SECTIONS.index(section) + 1 :]
    place = min((_start(lines, name) - 2 for name in later if name in lines), default=len(lines))
    new = [section, "-" * len(section), *added, ""]
    # A section that follows begins below an empty line; the end of the text has none.
    if place == len(lines):
        lines.append("")
        place += 1
    return "\n".join([*lines[:place], *new, *lines[place:]]).rstrip()


def inherit_descriptions(cls: type) -> None:
    """Complete the docstring of a class by what its bases describe.

    Parameters
    ----------
    cls : type
        A class whose parameters are annotated fields, its own and those of its bases. Without a
        docstring of its own it is left as it is.
    """
    own = cls.__dict__.get("__doc__")
    if not own:
        return
    doc = inspect.cleandoc(own)
    bases = [base for base in cls.__mro__[1:] if base.__module__.startswith("kdgraph.")]
    for section in ("Parameters", "Attributes"):
        descriptions: dict[str, str] = {}
        for base in bases:  # of two descriptions that of the nearer base holds
            inherited = described_names(inspect.cleandoc(base.__dict__["__doc__"] or ""), section)
            for name, lines in inherited.items():
                descriptions.setdefault(name, lines)
        doc = add_descriptions(doc, descriptions, section)
    cls.__doc__ = doc


def _start(lines: list[str], section: str) -> int:
    """Return the number of the first line below the title of a section."""
    return next(
        number + 2
        for number, line in enumerate(lines[:-1])
        if line == section and set(lines[number + 1]) == {"-"}
    )


def _section(doc: str, section: str) -> list[str]:
    """Return the lines of a section; none if the docstring does not have it."""
    lines = doc.rstrip().split("\n")
    if section not in lines:
        return []
    start = _start(lines, section)
    end = next(
        (
            number
            for number in range(start, len(lines) - 1)
            if lines[number] in _SECTIONS and set(lines[number + 1]) == {"-"}
        ),
        len(lines),
    )
    return lines[start:end]
