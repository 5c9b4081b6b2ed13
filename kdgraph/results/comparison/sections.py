"""Tables with a title and notes, and how they look on a terminal, in Markdown and in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from kdgraph.results.words import MARK
from kdgraph.results.write import latex, latex_text, markdown

GAP = 3
WIDTH = 120
"""Of words, where no terminal says how wide it is."""


@dataclass(frozen=True)
class Section:
    """A table with words around it.

    Attributes
    ----------
    title : one line.
    head : names of the columns; the first column are names, all others numbers. No column: words
    only.
    rows : cells, those of the best with :data:`MARK` behind them.
    notes : lines below the table.
    """

    title: str
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = field(default_factory=list)


def as_text(sections: Sequence[Section], width: int | None = None) -> str:
    """For a terminal; a table that is wider than ``width`` goes on below itself."""
    return "\n\n".join("\n".join(_lines(section, width)) for section in sections)


def as_markdown(sections: Sequence[Section], title: str) -> str:
    """With a heading of the first order, and one of the second for each section."""
    blocks = [f"# {title}"]
    for section in sections:
        sides = ["left", *["right"] * (len(section.head) - 1)]
        table = (
            markdown(section.head, [[_bold(cell) for cell in row] for row in section.rows], sides)
            if section.head
            else []
        )
        blocks += [
            f"## {section.title}" if section.title else "",
            "\n".join(table),
            *map(_in_a_file, section.notes),
        ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def as_latex(sections: Sequence[Section], title: str) -> str:
    """A ``table`` for each section, with its title and notes as the caption; sections without a
    table are comments.
    """
    lines = [f"% {title}", r"% needs \usepackage{booktabs}"]
    for section in sections:
        words = [section.title, *map(_in_a_file, section.notes)]
        if not section.head:
            lines += ["", *(f"% {word}" for word in words if word)]
            continue
        rows = [[_bold(cell) for cell in row] for row in section.rows]
        caption = " ".join(latex_text(_sentence(word)) for word in words)
        body = latex(section.head, rows, ["left", *["right"] * (len(section.head) - 1)])
        lines += [
            "",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            *body,
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def _lines(section: Section, width: int | None) -> list[str]:
    lines = [section.title] if section.title else []
    columns = list(zip(section.head, *section.rows, strict=True))
    columns = [columns[0], *(_marked(column) for column in columns[1:])] if columns else []
    sizes = [max(map(len, column)) for column in columns]
    start = 1
    while start < len(columns) or (start == 1 and columns):
        end, taken = start, 2 + sizes[0]
        while end < len(columns) and (
            width is None or end == start or taken + GAP + sizes[end] <= width
        ):
            taken += GAP + sizes[end]
            end += 1
        shown = [0, *range(start, end)]
        form = "  " + (" " * GAP).join(f"{{:{'>' if i else '<'}{sizes[i]}}}" for i in shown)
        lines += ([""] if start > 1 else []) + [
            form.format(*(columns[i][row] for i in shown)).rstrip()
            for row in range(len(columns[0]))
        ]
        start = end + (end == start)
    for note in section.notes:
        lines += wrap(note, width or WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _marked(column: Sequence[str]) -> list[str]:
    """Room for the mark behind every cell of a column that has one, so that the numbers stand below
    each other.
    """
    if not any(cell.endswith(MARK) for cell in column):
        return list(column)
    return [cell if cell.endswith(MARK) else cell + " " * len(MARK) for cell in column]


def _bold(cell: str) -> str:
    return f"**{cell.removesuffix(MARK)}**" if cell.endswith(MARK) else cell


def _in_a_file(note: str) -> str:
    return note.replace(MARK.strip(), "bold")


def _sentence(words: str) -> str:
    return words if words.endswith((".", ":", "!", "?")) else f"{words}."
