"""Command line of a study: ``python -m experiments.p5.table1 outputs``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from experiments.common.claims import Claim, save_claims, verdicts
from experiments.common.runs import Record
from kdgraph.errors import KdgError


def study_parser(
    about: str | None,
    *,
    outputs: bool = False,
    pictures: str = "",
    keep: bool = False,
    to: Path | None = None,
    only: Collection[str] = (),
) -> argparse.ArgumentParser:
    """Return a parser with the usual arguments of a study, described by its docstring.

    These are the folder of runs, ``--figures`` or ``--to`` with a default folder of pictures,
    ``--keep DIR``, which saves claims for ``kdg reproduce``, and the choice of some parts.
    """
    parser = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if outputs:
        parser.add_argument(
            "outputs", type=Path, nargs="?", default=Path("outputs"), help="folder of the runs"
        )
    if pictures:
        parser.add_argument(
            "--figures", type=Path, default=Path(pictures), help="folder of the pictures"
        )
    if to is not None:
        parser.add_argument("--to", type=Path, default=to, help="folder of the pictures")
    if only:
        chosen = {"nargs": "*", "choices": list(only), "default": list(only)}
        parser.add_argument("--only", **chosen, help="these parts (default: all)")
    if keep:
        where = "folder of runs to save the claims in, where kdg reproduce finds them"
        parser.add_argument("--keep", type=Path, metavar="DIR", help=where)
    return parser


def print_comparison(
    read: Callable[[Path], list[Record]], compare_with_published: Callable[[list[Record]], str]
) -> None:
    """Print measured beside published numbers of the runs in a folder, or one line why not."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    in_one_line(lambda: print(compare_with_published(read(folder))))


def draw_pictures(about: str | None, draw: Callable[[Path, Path], Iterable[Path]], to: str) -> None:
    """Draw the runs below a folder and print the paths of the pictures, or one line why not."""
    options = study_parser(about, outputs=True, pictures=to).parse_args()
    in_one_line(lambda: print(*draw(options.outputs, options.figures), sep="\n"))


def print_claims(claims: Iterable[Claim], keep_in: Path | None, name: str) -> None:
    """Print the verdicts, and save the claims as ``name`` if a folder of runs is given."""
    tested = list(claims)
    print(verdicts(tested))
    if keep_in is not None:
        save_claims(tested, keep_in, name)


def in_one_line(main: Callable[[], object]) -> None:
    """Call ``main``; an error of kdgraph ends the process with one line, not with a traceback."""
    try:
        main()
    except KdgError as error:
        sys.exit(str(error))
