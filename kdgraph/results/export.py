"""Tables as files: Parquet and CSV for programs, Markdown and LaTeX for people.

Tables with a title and notes, and how they look on a terminal, in Markdown and in LaTeX.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from typing import Any

from kdgraph.errors import UsageError
from kdgraph.results.names import MARK
from kdgraph.runner.files import refuse_folder, write_atomically

TEX = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        **{"\n": " ", "\r": " "},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{
            "±": r"$\pm$",
            "–": "--",
            "−": "$-$",
            "χ": r"$\chi$",
            "²": "$^2$",
            "α": r"$\alpha$",
            "≥": r"$\geq$",
            "<": "$<$",
            ">": "$>$",
        },
    }
)
MARKDOWN = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "\\|*[`~$"},
        "<": "&lt;",
        "&": "&amp;",
        "\n": " ",
        "\r": " ",
    }
)
_OUTER_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""An underscore that may begin or end emphasis in Markdown. Between letters it is one."""
EXACT = 2**53
"""The largest integer up to which a float64 holds every one."""


def file_kind(path: str | Path, kinds: Sequence[str], flag: str = "--output") -> str:
    """The file's ending without its dot, if it is one of ``kinds``, the folder is there, and it is
    no folder itself.

    Raises
    ------
    UsageError
        It is another one, there is no such folder, or it is a folder.
    """
    kind, folder = Path(path).suffix.removeprefix("."), Path(path).absolute().parent
    if kind not in kinds:
        endings = [f".{known}" for known in kinds]
        raise UsageError(
            f"{flag} must end in {', '.join(endings[:-1])} or {endings[-1]}, got '{path}'"
        )
    if not folder.is_dir():
        raise UsageError(f"{flag}: no folder '{Path(path).parent}'; make it first")
    refuse_folder(Path(path), flag)
    return kind


def write_columns(columns: Mapping[str, Sequence[Any]], path: str | Path) -> None:
    """Write a table given by its columns as .parquet, .csv, .md or .tex; None is null, in text an
    empty cell.
    """
    kind = file_kind(path, ("parquet", "csv", "md", "tex"))
    if kind in ("parquet", "csv"):
        content = _arrow(columns, kind)
    else:
        rows = [[cell_text(value) for value in row] for row in zip(*columns.values(), strict=True)]
        sides = ["right" if _is_number(values) else "left" for values in columns.values()]
        lines = (
            markdown_lines(list(columns), rows, sides)
            if kind == "md"
            else latex_lines(list(columns), rows, sides)
        )
        content = ("\n".join(lines) + "\n").encode()
    write_atomically(Path(path), content, "--output")


def markdown_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str]
) -> list[str]:
    """Lines of a table; a cell that begins and ends with ``**`` is bold. ``sides`` are "left" or
    "right".
    """
    rule = ["---:" if side == "right" else "---" for side in sides]
    cells = [
        head,
        rule,
        *([_dressed(cell, _markdown_text, "**{}**") for cell in row] for row in rows),
    ]
    return [f"| {' | '.join(row)} |" for row in cells]


def latex_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str]
) -> list[str]:
    """Lines of a ``tabular`` with the rules of booktabs; a cell that begins and ends with ``**`` is
    bold.
    """
    body = [
        " & ".join(_dressed(cell, escape_latex, r"\textbf{{{}}}") for cell in row) + r" \\"
        for row in rows
    ]
    return [
        rf"\begin{{tabular}}{{{''.join(side[0] for side in sides)}}}",
        r"\toprule",
        " & ".join(map(escape_latex, head)) + r" \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
    ]


def cell_text(value: Any) -> str:
    """A value of any column as text; numbers as they are, to the last digit."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it stands, also behind the end of a row.

    A bracket or a star there would be an argument of the line break before it.
    """
    escaped = text.translate(TEX)
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def _markdown_text(text: str) -> str:
    """Return text that Markdown shows as it stands, in a cell of a table."""
    return _OUTER_UNDERSCORE.sub(r"\\_", text.translate(MARKDOWN))


def _dressed(cell: str, escaped: Callable[[str], str], bold: str) -> str:
    if len(cell) > 4 and cell.startswith("**") and cell.endswith("**"):
        return bold.format(escaped(cell[2:-2]))
    return escaped(cell)


def _is_number(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


def _arrow(columns: Mapping[str, Sequence[Any]], kind: str) -> bytes:
    import pyarrow as pa

    table = pa.table({name: _array(values) for name, values in columns.items()})
    buffer = io.BytesIO()
    if kind == "parquet":
        from pyarrow.parquet import write_table

        write_table(table, buffer)
    else:
        from pyarrow.csv import write_csv

        write_csv(table, buffer)
    return buffer.getvalue()


def _array(values: Sequence[Any]) -> Any:
    """One type a column: text where values are of several kinds, where all are missing, and where
    no number type holds them all.
    """
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if (
        kinds
        and kinds <= {int, float}
        and (name := _number_type([value for value in values if isinstance(value, int)], kinds))
    ):
        return pa.array(values, getattr(pa, name)())
    return pa.array(
        [
            value if value is None else value if isinstance(value, str) else cell_text(value)
            for value in values
        ],
        pa.string(),
    )


def _number_type(integers: Sequence[int], kinds: Collection[type]) -> str | None:
    """Return the type that holds a column of numbers to the last digit, or None where none does, as
    for 2^64.
    """
    low, high = min(integers, default=0), max(integers, default=0)
    if float in kinds:
        return "float64" if low >= -EXACT and high <= EXACT else None
    if low >= -(2**63) and high < 2**63:
        return "int64"
    return "uint64" if low >= 0 and high < 2**64 else None


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


def sections_to_text(sections: Sequence[Section], width: int | None = None) -> str:
    """For a terminal; a table that is wider than ``width`` goes on below itself."""
    return "\n\n".join("\n".join(_lines(section, width)) for section in sections)


def sections_to_markdown(sections: Sequence[Section], title: str) -> str:
    """With a heading of the first order, and one of the second for each section."""
    blocks = [f"# {title}"]
    for section in sections:
        sides = ["left", *["right"] * (len(section.head) - 1)]
        table = (
            markdown_lines(
                section.head, [[_bold(cell) for cell in row] for row in section.rows], sides
            )
            if section.head
            else []
        )
        blocks += [
            f"## {section.title}" if section.title else "",
            "\n".join(table),
            *map(_in_a_file, section.notes),
        ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def sections_to_latex(sections: Sequence[Section], title: str) -> str:
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
        caption = " ".join(escape_latex(_sentence(word)) for word in words)
        body = latex_lines(section.head, rows, ["left", *["right"] * (len(section.head) - 1)])
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
