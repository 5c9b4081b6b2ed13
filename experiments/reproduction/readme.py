"""Write the tables of the READMEs of experiments from stored records, and look for the numbers of
their prose in these records.

``python -m experiments.reproduction.readme`` writes the tables of all READMEs again,
``… readme p1 p1/cc18`` those of two folders, and ``… readme --check`` changes nothing and ends with
exit code 1 where a table or a number of the prose is not that of the records. A README holds

    <!-- numbers: p1 "Figure 1" rows=dataset,method columns=metric,n_train -->
    (a table, which the command writes)
    <!-- end of numbers -->

and, where prose rests on records that no table shows, a line ``<!-- records: claims id_floor -->``.
After the colon is one of:

``p1 "Figure 1"``
    Published numbers of this table, figure or section beside the measured ones, from
    ``docs/results/cells.csv``.
    Further words choose rows (``method=kdf,kdn``), or turn the list into a table of
    "published / measured" with ``rows=`` and ``columns=``. The list has a column for each variant
    unless ``variants=no``, the table a row for each where ``variants=yes``.
``verdicts p1``
    How many numbers of each item match, differ, and so on.
``claims p1 id_floor …``
    The parts of these claims, from ``docs/results/claims.csv``.
``measured "simulations" rows=data,method``
    A table of ``measured.csv`` beside the README; ``rows=`` names its leading columns.
``python -m experiments.p1.cc18 docs/results``
    What this command prints; for commands that need the records of the repository alone.
``conf experiment/paper/p1/shapes``
    The values of a preset.

``python -m experiments.p1.tables outputs | python -m experiments.reproduction.readme p1 --record
simulations --keys 2 --command '…' --made '…'`` puts the first Markdown table of the standard input
into ``measured.csv``, in place of what that table was there.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.reproduction.readme_tables import ROOT, Records, record, records_of
from kdgraph.errors import KdgError, UsageError, did_you_mean
from kdgraph.runner.files import write_atomically

EXPERIMENTS = ROOT / "experiments"
BLOCK = re.compile(
    r"^<!-- numbers: (?P<spec>.+?) -->\n(?P<body>.*?)^<!-- end of numbers -->$",
    re.MULTILINE | re.DOTALL,
)
RECORDS = re.compile(r"^<!-- records: (?P<spec>.+?) -->$", re.MULTILINE)
# Parts of a README that carry no measured number: code, links, comments, names of sections.
SKIPPED = re.compile(
    r"^```.*?^```$|^ {4}\S[^\n]*$|`[^`\n]+`|<!--.*?-->|\]\([^)\s]*\)"
    # Parts of a text and versions are no measurements, nor is the level of an interval.
    r"|\b(?:Sections?|Appendix|Eqs?\.|Figures?|Tables?|Python)[ \n]+[\dA-Z]+(?:\.[\dA-Z]+)*"
    r"(?:(?:,| and| to)[ \n][\dA-Z]+(?:\.[\dA-Z]+)+)*"
    r"|\b95 % (?=confidence|interval)",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(
    r"(?<![\w.,])(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?)(?:e(?P<power>[-−]?\d+))?"
    r"(?P<percent>\s?%)?(?![\w])"
)
SHOWN = 5  # Numbers without a record that a message names
COUNT = re.compile(r"(?<![\w.,])(\d[\d,]*) of (?:the )?(\d[\d,]*)(?![\w]|\.\d|,\d)")


@dataclass
class Pool:
    """Numbers that the prose of one section may carry: those of the section's records."""

    values: set[float] = field(default_factory=set)
    counts: set[tuple[str, str]] = field(default_factory=set)

    def add(self, records: Records) -> None:
        """Add all numbers of some records, and those of their texts as they are printed."""
        self.values |= {abs(value) for value in records.values}
        for text in [*records.lines, *records.texts]:
            self.values |= {_parsed(match)[0] for match in numbers(text)}
            self.counts |= {(_plain(a), _plain(b)) for a, b in COUNT.findall(text)}

    def has(self, match: re.Match[str]) -> bool:
        """Return whether a record rounds to a printed number.

        A value v supports a number that is printed with d decimals where it differs by at most half
        a unit of the last decimal, 0.5 · 10^-d, the rounding error of printing; the sign is that of
        the sentence around it ("lower by .01"). A percentage is supported by a percentage or by a
        fraction.
        """
        number, unit = _parsed(match)
        factors = (1.0, 100.0) if match["percent"] else (1.0,)
        # 1e-9 of a unit, because 0.0885 and its neighbours have no exact binary form.
        half = unit * (0.5 + 1e-9)
        return any(abs(v * factor - number) <= half for v in self.values for factor in factors)


def write(path: Path) -> bool:
    """Write the tables of a README again; return whether it changed."""
    before = path.read_text(encoding="utf-8")
    after = rendered(before, path.parent)
    if after != before:
        write_atomically(path, after.encode(), "the README")
    return after != before


def rendered(text: str, folder: Path) -> str:
    """Return the text of a README with every table as the records have it."""
    starts = re.findall(r"^<!-- numbers: ", text, re.MULTILINE)
    if len(starts) != (ends := len(BLOCK.findall(text))):
        raise UsageError(
            f"{folder}/README.md opens {len(starts)} tables with <!-- numbers: … --> and ends"
            f" {ends}; end each with <!-- end of numbers --> on its own line"
        )
    return BLOCK.sub(lambda match: _block(match["spec"], folder), text)


def unsupported(text: str, folder: Path) -> list[str]:
    """Return "heading: number" of each number of the prose that no record of its section rounds to.

    A section begins at a heading of the first or second level. Its records are those of its tables
    and of its lines ``<!-- records: … -->``. Looked for are numbers with a decimal point or a
    percent sign, as :meth:`Pool.has` compares them, and counts, "27 of 32", which a text of the
    records must have literally.
    """
    missing = []
    for title, pool, prose in sections(text, folder):
        missing += [f"{title}: {m[0].strip()}" for m in numbers(prose) if not pool.has(m)]
        missing += [
            f"{title}: {match[0]}"
            for match in COUNT.finditer(prose)
            if (_plain(match[1]), _plain(match[2])) not in pool.counts
        ]
    return missing


def sections(text: str, folder: Path) -> Iterator[tuple[str, Pool, str]]:
    """Yield of each section its title, the numbers of its records, and its prose."""
    for section in re.split(r"^(?=##? )", text, flags=re.MULTILINE):
        pool = Pool()
        for result in [*BLOCK.finditer(section), *RECORDS.finditer(section)]:
            pool.add(records_of(result["spec"], folder))
        title = section.partition("\n")[0].lstrip("# ")
        yield title, pool, SKIPPED.sub(" ", BLOCK.sub(" ", section))


def _block(spec: str, folder: Path) -> str:
    lines = "\n".join(records_of(spec, folder).lines)
    return f"<!-- numbers: {spec} -->\n\n{lines}\n\n<!-- end of numbers -->"


def numbers(text: str) -> Iterator[re.Match[str]]:
    """Yield the numbers of a text with a decimal point or a percent sign."""
    return (
        match
        for match in NUMBER.finditer(text)
        if re.search(r"\d", match["digits"]) and ("." in match["digits"] or match["percent"])
    )


def _parsed(match: re.Match[str]) -> tuple[float, float]:
    power = int((match["power"] or "0").replace("−", "-"))
    decimals = len(match["digits"].partition(".")[2])
    return float(_plain(match["digits"])) * 10.0**power, 10.0 ** (power - decimals)


def _plain(digits: str) -> str:
    return digits.replace(",", "")


def readmes(names: Sequence[str] = ()) -> list[Path]:
    """Return the READMEs of the folders that are named, of all where none is."""
    paths = {path.parent.relative_to(EXPERIMENTS).as_posix(): path
             for path in sorted(EXPERIMENTS.rglob("README.md"))}  # fmt: skip
    for name in names:
        if name not in paths:
            hint = did_you_mean(name, paths, "; there are " + ", ".join(paths))
            raise UsageError(f"experiments/{name} has no README.md{hint}")
    return [paths[name] for name in names or paths]


def main() -> None:
    """Write or check READMEs, or record a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", help="folders of experiments/ (default: all)")
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where stale")
    parser.add_argument("--record", metavar="TABLE", help="put standard input into measured.csv")
    parser.add_argument("--keys", type=int, default=1, help="leading columns that name a row")
    parser.add_argument("--command", default="", help="what made the table")
    parser.add_argument("--made", default="", help="when, and by which commit")
    options = parser.parse_args()
    try:
        paths = readmes(options.folders)
        if options.record:
            if len(paths) != 1:
                raise UsageError(f"--record needs one folder, got {len(paths)}; name it")
            folder, text = paths[0].parent, sys.stdin.read()
            record(folder, options.record, text, options.keys, options.command, options.made)
            return
        stale = 0
        for path in paths:
            name, text = path.relative_to(ROOT), path.read_text(encoding="utf-8")
            if not options.check and write(path):
                print(f"{name}: written")
            elif options.check and rendered(text, path.parent) != text:
                print(f"{name}: a table is not that of the records; run this without --check")
                stale += 1
            if missing := unsupported(text, path.parent):
                more = f" and {len(missing) - SHOWN:,} more" if len(missing) > SHOWN else ""
                print(f"{name}: no record of its section has {'; '.join(missing[:SHOWN])}{more}")
                stale += options.check
    except KdgError as error:
        sys.exit(str(error))
    sys.exit(min(stale, 1))


if __name__ == "__main__":
    main()
