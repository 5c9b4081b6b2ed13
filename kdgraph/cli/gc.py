"""Command ``kdg gc``: delete store entries that no finished run refers to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import CommandParser
from kdgraph.errors import UsageError
from kdgraph.wording import counted, print_note

if TYPE_CHECKING:
    from kdgraph.runner.cleanup import Garbage

_MEANINGS = {
    "fit": "parents",
    "cross_fit": "parents of the folds of cross-fitting",
    "calibrate": "calibrated models",
    "evaluate": "predictions",
    "parent_outputs": "predictions of parents",
    "checkpoints": "trainings that were cut off, which would begin anew",
    "leftovers": "of processes that were killed",
    "older version": "entries that this version does not read",
}
_UNITS = ("B", "kB", "MB", "GB", "TB")


def main(arguments: list[str]) -> int:
    """Print what can go, delete it after a confirmation, and return the exit code."""
    args = parser().parse(arguments)
    out = Path(args.out)
    if not out.is_dir():
        raise UsageError(f"--out {out}: there is no such folder")
    from kdgraph.results.records import no_finished_run
    from kdgraph.runner.cleanup import damaged_records, delete, find_garbage, has_runs

    if not has_runs(out):
        raise no_finished_run(out)
    for line in damaged_records(out):
        print_note(line)
    files = find_garbage(out)
    print(_overview(files, out))
    if not files or args.dry_run or not (args.yes or _confirmed()):
        return 0
    deleted = delete(out, files)
    print(f"deleted {counted(len(deleted), 'file')}, {_size(sum(file.frees for file in deleted))}")
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "gc",
        "Delete the entries of the store that no finished run refers to, after a confirmation:"
        " models and predictions of runs that were deleted, interrupted trainings, and leftovers"
        " of killed processes.",
        notes="Finished runs have their own models in model/, as other names (hard links) of the"
        " store's files: the disk space of these is freed only when the run is deleted too."
        " Entries of runs that are running are never deleted.",
        examples=["kdg gc --dry-run", "kdg gc --out /scratch/outputs --yes"],
    )
    parser.add_out("the runs and the store")
    parser.add_argument("--yes", action="store_true", help="delete without a confirmation")
    parser.add_argument(
        "--dry-run", action="store_true", help="print what would be deleted, and delete nothing"
    )
    return parser


def _overview(files: Sequence[Garbage], out: Path) -> str:
    if not files:
        return f"nothing to delete: finished runs refer to all that the store in {out} has"
    kinds = {
        kind: [file for file in files if file.kind == kind]
        for kind in dict.fromkeys(file.kind for file in files)
    }
    lines = [
        f"  {kind:<14} {len(members):>7,}  {_size(sum(file.frees for file in members)):>9}  "
        f" {_MEANINGS.get(kind, '')}".rstrip()
        for kind, members in kinds.items()
    ]
    total = (
        f"{counted(len(files), 'file')} of the store in {out} that no finished run refers to,"
        f" {_size(sum(file.frees for file in files))}"
    )
    return "\n".join([total, *lines])


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "kdg gc deletes after a confirmation, and standard input is no terminal; give --yes, or"
            " --dry-run to look only"
        )
    return input("delete them? [y/N] ").strip().lower() in ("y", "yes")


def _size(n: float) -> str:
    for unit in _UNITS:
        if n < 1000 or unit == _UNITS[-1]:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    raise AssertionError
