"""``kdg gc``: delete what the store keeps for no finished run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.flags import Flags
from kdgraph.errors import UsageError

if TYPE_CHECKING:
    from kdgraph.runner.cleanup import Garbage

_WHAT = {
    "fit": "parents",
    "calibrate": "calibrated models",
    "evaluate": "predictions",
    "parent_outputs": "predictions of parents",
    "checkpoints": "trainings that were cut off, which would begin anew",
    "leftovers": "of processes that were killed",
    "older version": "entries that this version does not read",
}
_UNITS = ("B", "kB", "MB", "GB", "TB")


def main(arguments: list[str]) -> int:
    """Show, ask, delete; returns the exit code."""
    args = _parser().parse_args(arguments)
    out = Path(args.out)
    if not out.is_dir():
        raise UsageError(f"--out {out}: there is no such folder")
    from kdgraph.runner.cleanup import damaged_records, delete, find_garbage

    for line in damaged_records(out):
        print(f"kdg: {line}", file=sys.stderr)
    files = find_garbage(out)
    print(_told(files, out))
    if not files or args.dry_run or not (args.yes or _agreed()):
        return 0
    gone = delete(out, files)
    print(f"deleted {_counted(len(gone))}, {_size(sum(each.frees for each in gone))}")
    return 0


def _parser() -> Flags:
    parser = Flags("gc", "Delete what the store keeps for no finished run.", _MORE)
    parser.add_argument(
        "--out",
        default="outputs",
        metavar="DIR",
        help="where the runs and the store are (default: outputs)",
    )
    parser.add_argument("--yes", action="store_true", help="delete without asking")
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be deleted, and delete nothing"
    )
    return parser


_MORE = """\
Finished runs keep their own models in model/, which are other names of the store's files: what both have is deleted from
the disk only when the run is deleted too. Entries of runs that are at work are never touched."""


def _told(files: Sequence[Garbage], out: Path) -> str:
    if not files:
        return f"nothing to delete: finished runs refer to all that the store in {out} has"
    kinds = {
        kind: [each for each in files if each.kind == kind]
        for kind in dict.fromkeys(each.kind for each in files)
    }
    lines = [
        f"  {kind:<14} {len(some):>7,}  {_size(sum(each.frees for each in some)):>9}  "
        f" {_WHAT.get(kind, '')}".rstrip()
        for kind, some in kinds.items()
    ]
    total = (
        f"{_counted(len(files))} of the store in {out} that no finished run refers to,"
        f" {_size(sum(each.frees for each in files))}"
    )
    return "\n".join([total, *lines])


def _agreed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError(
            "kdg gc asks before it deletes, and nobody is there to answer; give --yes, or --dry-run"
            " to look only"
        )
    return input("delete them? [y/N] ").strip().lower() in ("y", "yes")


def _counted(n: int) -> str:
    return f"{n:,} file{'s' * (n != 1)}"


def _size(n: float) -> str:
    for unit in _UNITS:
        if n < 1000 or unit == _UNITS[-1]:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    raise AssertionError
