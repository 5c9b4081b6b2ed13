"""Tables of READMEs from stored numbers: those of the page, and ``measured.csv``.

``measured.csv`` beside the README of a study holds the tables of numbers that no paper published,
such as ablations and times, one cell a row: :data:`MEASURED`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pandas as pd

from experiments.common.frames import where
from experiments.common.markdown import head, line
from experiments.reproduction.papers import NAMES
from experiments.reproduction.verdicts import VERDICTS
from kdgraph.config.yaml_files import is_option, read_text
from kdgraph.errors import UsageError, did_you_mean
from kdgraph.runner.files import write_atomically

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
# Columns of ``measured.csv``, one cell of a table a row. ``row`` joins several leading columns by
# ``JOINT``; ``value`` is a number or a text such as 27/4/25, ``spread`` a standard deviation or a
# range ("0.99 to 1"), ``n`` the number of repetitions. ``command`` makes the table, or has its
# settings where no command line is known; ``made`` is when and by which commit the numbers came
# into the repository, as far as its history has it.
MEASURED = ("table", "row", "column", "value", "spread", "n", "unit", "command", "made")
JOINT = " | "


@dataclass(frozen=True)
class Records:
    """Stored numbers behind a part of a README."""

    lines: Sequence[str] = ()  # of their table in Markdown
    values: frozenset[float] = frozenset()  # all numbers, at the precision of the records
    texts: Sequence[str] = ()  # with more numbers and counts such as "27 of 32"


def records_of(spec: str, folder: Path) -> Records:
    """Return the records that a marker names; see the module."""
    kind, *words = shlex.split(spec)
    if (kind, words[:1]) == ("python", ["-m"]):
        return _printed(tuple(words[1:]))
    named = [word for word in words if not re.match(r"\w+=", word)]
    options = {key: value for key, _, value in (w.partition("=") for w in words if w not in named)}
    if kind in NAMES and len(named) == 1:
        return _cells(kind, named[0], options)
    if kind == "verdicts" and len(named) == 1:
        return _verdicts(named[0])
    if kind == "claims" and len(named) > 1:
        return _claims(named[0], named[1:])
    if kind == "measured" and len(named) == 1:
        return _measured(folder, named[0], options)
    if kind == "conf" and len(named) == 1:
        return _preset(named[0])
    raise UsageError(
        f"{folder}/README.md has the marker '{spec}'; there are {', '.join(NAMES)} with the name of"
        " an item, verdicts, claims, measured, conf and python -m"
    )


def _cells(paper: str, item: str, options: dict[str, str]) -> Records:
    every = _stored("cells")
    rows = where(every, paper=paper, item=item)
    if rows.empty:
        items = sorted(set(every[every.paper == paper]["item"]))
        hint = did_you_mean(item, items, "; it has " + ", ".join(items))
        raise UsageError(f"docs/results/cells.csv has no '{item}' of {paper}{hint}")
    for key in (key for key in options if key not in ("rows", "columns", "variants")):
        rows = rows[rows[key].isin(options[key].split(","))]
    values = _floats(rows, ["value", "spread", "n_train", "radius", "level"])
    rows = rows[rows.n != "0"]
    values |= _floats(rows, ["ours", "sd", "comparable", "tolerance"])
    own = rows[rows.variant == ""]
    if "columns" in options:
        return Records(_crossed(rows, options), values)
    keys = ["row", "column", "dataset", "metric", "method", "n_train", "radius", "ood", "level"]
    shown = [name for name in keys if own[name].nunique() > 1] or ["metric"]
    if {"row", "column"} <= {*shown}:
        shown = ["row", "column"]
    shows_variants = options.get("variants", "yes") == "yes"
    titles = list(dict.fromkeys(rows.variant[rows.variant != ""])) if shows_variants else []
    lines = head([*shown, "published", "ours", *titles, "verdict"])
    for _, row in own.iterrows():
        same = rows[(rows[_identity(rows)] == row[_identity(rows)]).all(axis=1)]
        others = [_own(same[same.variant == title]) for title in titles]
        place = [_tidy(row[name]) for name in shown]
        verdict = row.verdict + (" (weak)" if row.weak == "True" else "")
        lines.append(line([*place, _published(row), _own(own.loc[[row.name]]), *others, verdict]))
    return Records(lines, values)


def _crossed(rows: pd.DataFrame, options: dict[str, str]) -> list[str]:
    """Return a table of "published / measured", rows and columns by columns of the records."""
    down, across = options["rows"].split(","), options["columns"].split(",")
    # Groups keep the order of the records, which is that of the paper.
    titles = dict.fromkeys(rows.variant) if options.get("variants") == "yes" else [""]
    columns = list(dict.fromkeys(map(tuple, rows[across].to_numpy())))
    lines = head([*down, *(_label(across, name) for name in columns)])
    for key in dict.fromkeys(map(tuple, rows[down].to_numpy())):
        at = rows[(rows[down] == list(key)).all(axis=1)]
        for title in titles:
            own = at[at.variant == title]
            if own.empty:
                continue
            cells = []
            for name in columns:
                cell = own[(own[across] == list(name)).all(axis=1)]
                if len(cell) > 1:
                    raise UsageError(f"{key} and {name} are of {len(cell)} numbers; name more rows")
                cells.append(
                    "–" if cell.empty
                    else _own(cell, with_n=False) if title
                    else f"{_published(cell.iloc[0])} / {_own(cell, with_n=False)}"
                )  # fmt: skip
            place = [*map(_tidy, key[:-1]), _tidy(key[-1]) + (f", {title}" if title else "")]
            lines.append(line([*place, *cells]))
    return lines


def _label(keys: Sequence[str], values: Sequence[str]) -> str:
    """Name a column: "kdf geodesic, n = 10,000" of a method and a number of rows."""
    symbols = {"n_train": "n", "radius": "r"}
    parts = [
        f"{symbols[key]} = {float(value):,g}" if key in symbols else _tidy(value)
        for key, value in zip(keys, values, strict=True)
        if value
    ]
    return ", ".join(parts)


def _verdicts(paper: str) -> Records:
    every = _stored("cells")
    rows = where(every, paper=paper, variant="")
    shown = [verdict for verdict in VERDICTS if (rows.verdict == verdict).any()]
    lines = head(["item", "numbers", *shown])
    for item in dict.fromkeys(rows["item"]):
        group = rows[rows["item"] == item].verdict
        if (group != "a setting").any():
            lines.append(
                line([item, f"{len(group):,}", *(f"{(group == v).sum():,}" for v in shown)])
            )
    lines.append(
        line(["all", f"{len(rows):,}", *(f"{(rows.verdict == v).sum():,}" for v in shown)])
    )
    return Records(lines)


def _claims(paper: str, names: Sequence[str]) -> Records:
    every = _stored("claims")
    every = every[every.paper == paper]
    if unknown := [name for name in names if name not in set(every.claim)]:
        hint = did_you_mean(unknown[0], sorted(set(every.claim)), "; see claims.csv")
        raise UsageError(f"docs/results/claims.csv has no '{unknown[0]}' of {paper}{hint}")
    rows = every[every.claim.isin(names)]
    lines = head(["claim", "holds", "measured"])
    for _, row in rows.iterrows():
        holds = "yes" if row.holds == "True" else "**no**"
        lines.append(line([row.text.replace("|", "\\|"), holds, row.found.replace("|", "\\|")]))
    return Records(lines, texts=[*rows.text, *rows.found])


def _measured(folder: Path, table: str, options: dict[str, str]) -> Records:
    every = read_measured(folder)
    rows = every[every.table == table]
    if rows.empty:
        hint = did_you_mean(table, sorted(set(every.table)), "; see its column table")
        raise UsageError(f"{folder}/measured.csv has no table '{table}'{hint}")
    leading = options.get("rows", "").split(",")
    columns = list(dict.fromkeys(rows.column))
    lines = head([*leading, *columns])
    by_place = {(row["row"], row.column): row for _, row in rows.iterrows()}
    for name in dict.fromkeys(rows["row"]):
        cells = [by_place.get((name, column)) for column in columns]
        keys = name.split(JOINT)
        if "rows" in options and len(keys) != len(leading):
            raise UsageError(
                f"{folder}/measured.csv: a row of '{table}' has {len(keys)} leading columns,"
                f" '{name}'; rows={','.join(leading)} names {len(leading)}"
            )
        lines.append(line([*keys, *("–" if c is None else _shown(c) for c in cells)]))
    return Records(lines, _floats(rows, ["value", "spread", "n"]), list(rows.value))


def _shown(cell: pd.Series) -> str:
    unit = f" {cell.unit}" if cell.unit else ""
    if not cell.spread:
        return cell.value + unit
    return (
        cell.value + (f" ({cell.spread})" if " to " in cell.spread else f" ± {cell.spread}") + unit
    )


@cache
def _printed(words: tuple[str, ...]) -> Records:
    if not words or not words[0].startswith("experiments."):
        raise UsageError(
            f"'python -m {' '.join(words)}' is no command of experiments; name a module of it"
        )
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UsageError(f"python -m {' '.join(words)} failed: {done.stderr.strip()[-300:]}")
    return Records(re.sub(r"\A# .*\n", "", done.stdout).strip().splitlines())


def _preset(name: str) -> Records:
    path = ROOT / "conf" / f"{name}.yaml"
    if not is_option(path):
        raise UsageError(f"conf/ has no {name}.yaml; name a preset by its path below conf/")
    return Records(texts=read_text(path).splitlines())


def read_measured(folder: Path) -> pd.DataFrame:
    """Return ``measured.csv`` of a folder, all text; empty where there is none."""
    path = folder / "measured.csv"
    if not path.exists():
        return pd.DataFrame(columns=list(MEASURED))
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    if tuple(frame.columns) != MEASURED:
        raise UsageError(f"{path} must have the columns {', '.join(MEASURED)}")
    if (twice := frame.duplicated(["table", "row", "column"])).any():
        cell = ", ".join(frame.loc[twice.idxmax(), ["table", "row", "column"]])
        raise UsageError(f"{path} has two values of {cell}; leave one")
    return frame


def record(folder: Path, table: str, printed: str, keys: int, command: str, made: str) -> None:
    """Put the first Markdown table of a text into ``measured.csv``, in place of that table.

    Cells are numbers, "v ± s", "v (a to b)", or any text; a column "seeds" or "n" becomes the
    number of repetitions of its row. ``keys`` is how many leading columns name a row.
    """
    tables = re.findall(r"(?:^\|.*\|$\n?)+", printed, re.MULTILINE)
    if not tables:
        raise UsageError("the standard input has no Markdown table; pipe the command into this one")
    titles, _, *body = [
        # Bold and italic numbers are numbers; the star of Cum* is a part of its name.
        [re.sub(r"(\*\*?)(.+?)\1", r"\2", cell).strip() for cell in row.strip("|").split(" | ")]
        for row in tables[0].strip().splitlines()
    ]
    rows = []
    for cells in body:
        named = dict(zip(titles, cells, strict=True))
        n = next((named[title] for title in ("seeds", "n") if title in named), "")
        for title in titles[keys:]:
            if title not in ("seeds", "n") and named[title] not in ("–", ""):
                value, spread = _split(named[title])
                rows.append(
                    [table, JOINT.join(cells[:keys]), title, value, spread, n, "", command, made]
                )
    frame = pd.DataFrame(rows, columns=list(MEASURED))
    if (twice := frame.duplicated(["row", "column"])).any():
        cell = ", ".join(frame.loc[twice.idxmax(), ["row", "column"]])
        raise UsageError(f"the table has two values of {cell}; name its rows and columns apart")
    old = read_measured(folder)
    new = pd.concat([old[old.table != table], frame])
    write_atomically(folder / "measured.csv", new.to_csv(index=False).encode(), "the folder")


def _split(cell: str) -> tuple[str, str]:
    if match := re.fullmatch(r"([-+−]?[\d.,]+) ± ([\d.,]+)", cell):
        return match[1], match[2]
    if match := re.fullmatch(r"([-+−]?[\d.,]+) \(([\d.,]+ to [\d.,]+)\)", cell):
        return match[1], match[2]
    return cell, ""


@cache
def _stored(name: str) -> pd.DataFrame:
    return pd.read_csv(RESULTS / f"{name}.csv", dtype=str, keep_default_na=False)


def _identity(rows: pd.DataFrame) -> list[str]:
    own = ["variant", "ours", "sd", "n", "comparable", "tolerance", "verdict", "weak", "made"]
    return [name for name in rows if name not in own]


def _published(row: pd.Series) -> str:
    if not row.value:
        return "–"
    printed = _fixed(float(row.value), int(row.decimals))
    if row["said"] in ("above", "below", "about"):
        printed = f"{row['said']} {printed}"
    if not row.comparable:
        return printed
    return f"{printed} (same tables {_fixed(float(row.comparable), int(row.decimals))})"


def _own(rows: pd.DataFrame, with_n: bool = True) -> str:
    if rows.empty:
        return "–"
    row = rows.iloc[0]
    # One decimal more than published, so that a difference below its last digit shows; bounds and
    # counts are published without decimals and their measurements are means.
    digits = max(int(row.decimals) + 1, 2) if row.value else 2
    spread = f" ± {_fixed(float(row.sd), digits)}" if row.sd and with_n else ""
    return _fixed(float(row["ours"]), digits) + spread + (f" (n = {row.n})" if with_n else "")


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _tidy(text: str) -> str:
    """Return a number without its ".0", and any other text as it is."""
    return text.removesuffix(".0") if re.fullmatch(r"\d+\.0", text) else text


def _floats(rows: pd.DataFrame, columns: Iterable[str]) -> frozenset[float]:
    numbers = (pd.to_numeric(rows[name], errors="coerce").dropna() for name in columns)
    return frozenset(float(value) for column in numbers for value in column)
