"""Command line of a study: ``python -m experiments.p5.table1 outputs``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from experiments.common.claims import Claim, save_claims, verdicts
from experiments.common.runs import Record
from kdgraph.errors import KdgError


def study_options(
    about: str | None,
    *,
    outputs: bool = False,
    pictures: str = "",
    keep: bool = False,
    to: Path | None = None,
    only: Collection[str] = (),
    scales: Collection[str] = (),
    seeds: int | None = None,
    jobs: int | None = None,
    free: bool = False,
    more: Mapping[str, Mapping[str, Any]] | None = None,
    arguments: list[str] | None = None,
) -> argparse.Namespace:
    """Return the parsed arguments of a study, by default those of the process.

    These are the folder of runs, ``--figures`` or ``--to`` with a default folder of pictures,
    ``--keep DIR``, which saves claims for ``kdg reproduce``, the choice of some parts, the scale,
    numbers of seeds and processes, config keys in which runs may differ, and ``more`` arguments, by
    name the options of argparse. The description is ``about``, the docstring of the study.
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
    if scales:
        of_scale = {"choices": list(scales), "default": "smoke"}
        parser.add_argument("--scale", **of_scale, help="sizes of the study (default: smoke)")
    if seeds is not None:
        parser.add_argument("--seeds", type=int, default=seeds, help=f"how many (default: {seeds})")
    if jobs is not None:
        parser.add_argument("--jobs", type=int, default=jobs, help="processes; -1: one a core")
    if free:
        keys = "config keys in which runs may differ from the experiment's"
        parser.add_argument("--free", nargs="*", default=[], metavar="KEY", help=keys)
    if keep:
        where = "folder of runs to save the claims in, where kdg reproduce finds them"
        parser.add_argument("--keep", type=Path, metavar="DIR", help=where)
    for name, options in (more or {}).items():
        parser.add_argument(name, **options)
    return parser.parse_args(arguments)


def print_comparison(
    read: Callable[[Path], list[Record]], compare_with_published: Callable[[list[Record]], str]
) -> None:
    """Print measured beside published numbers of the runs in a folder, or one line why not."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "outputs")
    in_one_line(lambda: print(compare_with_published(read(folder))))


def print_and_draw(
    about: str | None,
    read: Callable[[Path], list[Record]],
    compare_with_published: Callable[[list[Record]], str],
    draw: Callable[[list[Record], Path], object],
    to: str,
) -> None:
    """Print the comparison of the runs below a folder, and draw them, or print one line why not."""
    options = study_options(about, outputs=True, pictures=to)

    def print_then_draw() -> None:
        records = read(options.outputs)
        print(compare_with_published(records))
        draw(records, options.figures)

    in_one_line(print_then_draw)


def draw_pictures(about: str | None, draw: Callable[[Path, Path], Iterable[Path]], to: str) -> None:
    """Draw the runs below a folder and print the paths of the pictures, or one line why not."""
    options = study_options(about, outputs=True, pictures=to)
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
