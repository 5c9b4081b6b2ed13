"""Tables as text, Markdown, LaTeX, CSV and Parquet."""

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
from kdgraph.runner.files import check_output_name, write_atomically
from kdgraph.runner.formulas import escape_cells, escape_formula, refuse_safe_csv

TEX = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        **{"\n": " ", "\r": " "},
        **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
        **{"±": r"$\pm$", "–": "--", "−": "$-$", "χ": r"$\chi$", "²": "$^2$"},
        **{"α": r"$\alpha$", "≥": r"$\geq$", "<": "$<$", ">": "$>$"},
    }
)
MARKDOWN = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "\\|*[`~$"},
        **{"<": "&lt;", "&": "&amp;", "\n": " ", "\r": " "},
    }
)
_OUTER_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
"""An underscore that may begin or end emphasis in Markdown; between letters it does not."""
EXACT = 2**53
"""Largest integer up to which a float64 represents all integers."""
GAP = 3
NARROWEST_NAMES = 24
"""Columns that names have on any terminal."""
NOTE_WIDTH = 120
"""Columns of notes if the output is not a terminal."""


@dataclass(frozen=True)
class Section:
    """A table with words around it; without columns it consists of words."""

    title: str
    head: Sequence[str] = ()  # the first column contains names, all others numbers
    rows: Sequence[Sequence[str]] = ()  # cells of the best end in MARK
    notes: Sequence[str] = field(default_factory=list)  # lines below the table


def file_kind(
    path: str | Path, kinds: Sequence[str], flag: str = "--output", *, makes_folder: bool = False
) -> str:
    """Return the ending, without its dot, of a file that will be written.

    UsageError, which names the ``flag``, is raised for an ending that is not among the kinds, for a
    folder, and for a file in a folder that does not exist unless the command makes it.
    """
    check_output_name(Path(path), flag)
    kind, folder = Path(path).suffix.removeprefix("."), Path(path).absolute().parent
    if kind not in kinds:
        *others, last = [f".{ending}" for ending in kinds]
        endings = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"{flag} must end in {endings}, got '{path}'")
    if not (makes_folder or folder.is_dir()):
        raise UsageError(f"{flag}: no folder '{Path(path).parent}'; make it first")
    return kind


def write_columns(
    columns: Mapping[str, Sequence[Any]], path: str | Path, *, escapes_formulas: bool = False
) -> None:
    """Write a table as .parquet, .csv, .md or .tex, by the ending of the path.

    None becomes null, in text an empty cell. ``escapes_formulas``, for .csv alone, puts a single
    quote before text that a spreadsheet would evaluate.
    """
    kind = file_kind(path, ("parquet", "csv", "md", "tex"))
    if escapes_formulas:
        refuse_safe_csv(str(path), is_csv=kind == "csv")
        columns = {escape_formula(name): escape_cells(values) for name, values in columns.items()}
    if kind in ("parquet", "csv"):
        content = _arrow_file(columns, kind)
    else:
        rows = [[cell_text(value) for value in row] for row in zip(*columns.values(), strict=True)]
        sides = ["right" if _is_numeric(values) else "left" for values in columns.values()]
        lines = (markdown_lines if kind == "md" else latex_lines)(list(columns), rows, sides)
        content = ("\n".join(lines) + "\n").encode()
    write_atomically(Path(path), content, "--output")


def sections_to_text(sections: Sequence[Section], width: int | None = None) -> str:
    """Return sections as text, separated by empty lines.

    A table that is wider than the terminal continues below, with its names again.
    """
    return "\n\n".join("\n".join(_text_lines(section, width)) for section in sections)


def sections_to_markdown(sections: Sequence[Section], title: str) -> str:
    """Return sections as Markdown, with a heading for each below the title."""
    blocks = [f"# {title}"]
    for section in sections:
        sides = ["left", *["right"] * (len(section.head) - 1)]
        cells = [[_bold(cell) for cell in row] for row in section.rows]
        blocks += [
            f"## {section.title}" if section.title else "",
            "\n".join(markdown_lines(section.head, cells, sides)) if section.head else "",
            *map(_file_note, section.notes),
        ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def sections_to_latex(sections: Sequence[Section], title: str) -> str:
    """Return a ``table`` for each section, with title and notes as the caption.

    Sections without a table are comments.
    """
    lines = [f"% {title}", r"% needs \usepackage{booktabs}"]
    for section in sections:
        words = [section.title, *map(_file_note, section.notes)]
        if not section.head:
            lines += ["", *(f"% {word}" for word in words if word)]
            continue
        rows = [[_bold(cell) for cell in row] for row in section.rows]
        caption = " ".join(escape_latex(_sentence(word)) for word in words)
        lines += [
            "",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            *latex_lines(section.head, rows, ["left", *["right"] * (len(section.head) - 1)]),
            r"\end{table}",
        ]
    return "\n".join(lines) + "\n"


def fold_columns(columns: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """Return the lines of columns, in as many blocks as the width needs.

    The first column contains names, which are repeated in every block; the others are numbers, at
    least one column in each block. Names that leave no room for one continue on the next line.
    Without a width there is one block.
    """
    sizes = [max(map(len, column)) for column in columns]
    names = [[name] for name in columns[0]]
    if width is not None and len(columns) > 1:
        room = max(NARROWEST_NAMES, width - 2 - GAP - max(sizes[1:]))
        if sizes[0] > room:
            names = [wrap_line(name, room) for name in columns[0]]
            sizes[0] = max(len(line) for lines in names for line in lines)
    blocks: list[list[int]] = []
    used = 0
    for i in range(1, len(columns)):
        used += GAP + sizes[i]
        if not blocks or (width is not None and used > width):
            blocks.append([])
            used = 2 + sizes[0] + GAP + sizes[i]
        blocks[-1].append(i)
    texts = []
    for block in blocks or [[]]:
        form = "  " + (" " * GAP).join([f"{{:<{sizes[0]}}}", *(f"{{:>{sizes[i]}}}" for i in block)])
        lines = []
        for row, (name, *more) in enumerate(names):
            lines.append(form.format(name, *(columns[i][row] for i in block)).rstrip())
            lines += [f"  {line}" for line in more]
        texts.append(lines)
    return texts


def wrap_line(text: str, width: int | None, indent: str = "  ") -> list[str]:
    """Break a line at spaces if it is wider than the terminal.

    Spaces at its beginning are kept, and a longer word, such as a path, stays in one piece. Further
    lines begin with the indent.
    """
    if width is None or len(text) <= width:
        return [text]
    return wrap(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def markdown_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str]
) -> list[str]:
    """Return the lines of a table in Markdown.

    A cell that begins and ends with ``**`` is bold. ``sides`` are "left" or "right", the alignment
    of each column.
    """
    rule = ["---:" if side == "right" else "---" for side in sides]
    body = [[_styled(cell, _escape_markdown, "**{}**") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in [head, rule, *body]]


def latex_lines(
    head: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str]
) -> list[str]:
    """Return the lines of a ``tabular`` of booktabs, as :func:`markdown_lines` does."""
    body = [
        " & ".join(_styled(cell, escape_latex, r"\textbf{{{}}}") for cell in row) + r" \\"
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
    """Return a value of any column as text; numbers have all their digits."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints unchanged, also behind the end of a row.

    A bracket or a star there would be an argument of the line break before it.
    """
    escaped = text.translate(TEX)
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def _escape_markdown(text: str) -> str:
    """Return text that Markdown prints unchanged in a cell of a table."""
    return _OUTER_UNDERSCORE.sub(r"\\_", text.translate(MARKDOWN))


def _styled(cell: str, escape: Callable[[str], str], bold: str) -> str:
    if len(cell) > 4 and cell.startswith("**") and cell.endswith("**"):
        return bold.format(escape(cell[2:-2]))
    return escape(cell)


def _text_lines(section: Section, width: int | None) -> list[str]:
    lines = wrap_line(section.title, width) if section.title else []
    columns = list(zip(section.head, *section.rows, strict=True))
    if columns:
        blocks = fold_columns([columns[0], *map(_aligned_marks, columns[1:])], width)
        for i, block in enumerate(blocks):
            lines += ([""] if i else []) + block
    for note in section.notes:
        lines += wrap(note, width or NOTE_WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


def _aligned_marks(column: Sequence[str]) -> list[str]:
    """Pad the cells of a column that contains marks, so that its numbers are aligned."""
    if not any(cell.endswith(MARK) for cell in column):
        return list(column)
    return [cell if cell.endswith(MARK) else cell + " " * len(MARK) for cell in column]


def _bold(cell: str) -> str:
    return f"**{cell.removesuffix(MARK)}**" if cell.endswith(MARK) else cell


def _file_note(note: str) -> str:
    return note.replace(MARK.strip(), "bold")


def _sentence(words: str) -> str:
    return words if words.endswith((".", ":", "!", "?")) else f"{words}."


def _is_numeric(values: Sequence[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in present
    )


def _arrow_file(columns: Mapping[str, Sequence[Any]], kind: str) -> bytes:
    import pyarrow as pa

    table = pa.table({name: _arrow_array(values) for name, values in columns.items()})
    buffer = io.BytesIO()
    if kind == "parquet":
        from pyarrow.parquet import write_table

        write_table(table, buffer)
    else:
        from pyarrow.csv import write_csv

        write_csv(table, buffer)
    return buffer.getvalue()


def _arrow_array(values: Sequence[Any]) -> Any:
    """Return a column; text if no type represents all values, or all are missing."""
    import pyarrow as pa

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds and kinds <= {int, float}:
        integers = [value for value in values if isinstance(value, int)]
        if number_type := _number_type(integers, kinds):
            return pa.array(values, getattr(pa, number_type)())
    texts = [value if value is None else cell_text(value) for value in values]
    return pa.array(texts, pa.string())


def _number_type(integers: Sequence[int], kinds: Collection[type]) -> str | None:
    """Return the type that represents all numbers to the last digit; None if none does."""
    low, high = min(integers, default=0), max(integers, default=0)
    if float in kinds:
        return "float64" if low >= -EXACT and high <= EXACT else None
    if low >= -(2**63) and high < 2**63:
        return "int64"
    return "uint64" if low >= 0 and high < 2**64 else None
