"""Command line of the studies of Luo et al. on published scores: it makes the file of scores and
feature maps, prints tables and draws.

A record is an ``.npz`` file with the softmax of all test images, ``predictions``, and their labels,
``ground_truth``, in the official order.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kdgraph.errors import DataError, UsageError


def read_record(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores Float64[n, K] and the labels Int[n] of a record."""
    with np.load(path) as arrays:
        if missing := {"predictions", "ground_truth"} - set(arrays.files):
            raise DataError(
                f"{path} has no array {' or '.join(sorted(missing))}; give a"
                " record with softmax outputs and labels"
            )
        return arrays["predictions"].astype(np.float64), arrays["ground_truth"].ravel().astype(
            np.intp
        )


@dataclass(frozen=True)
class ScoreStudy:
    """Commands of a study: ``features FILE.npz --record NAME=FILE``, ``figures``, ``tables``."""

    about: str | None  # docstring of its module
    # records by name → arrays of the file, a row for an image
    collect: Callable[[Mapping[str, Path]], Mapping[str, np.ndarray]]
    draw: Callable[[Path, Path], Iterable[Path]]  # folder of runs and folder of pictures → files
    pictures: Path  # default folder
    tables: Callable[[Path], str] | None = None  # folder of runs → text

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Do what the arguments name, by default those of the process."""
        options = self._parser().parse_args(arguments)
        if options.what == "features":
            arrays = self.collect(_named(options.record))
            np.savez_compressed(options.path, **arrays)  # pyright: ignore[reportArgumentType] - the stubs take the arrays for the switch behind them
            shapes = ", ".join(f"{name} {array.shape[1:]}" for name, array in arrays.items())
            print(f"{options.path}: {len(arrays['label']):,} images; {shapes}")
        elif options.what == "tables" and self.tables is not None:
            print(self.tables(options.outputs))
        else:
            for path in self.draw(options.outputs, options.to):
                print(path)

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            description=self.about, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        commands = parser.add_subparsers(dest="what", required=True)
        features = commands.add_parser("features", help="make the file of scores and feature maps")
        features.add_argument("path", type=Path, help="the .npz file to write")
        features.add_argument(
            "--record",
            action="append",
            required=True,
            metavar="NAME=FILE",
            help="softmax of the test images: predictions, ground_truth",
        )
        named = {"tables": "print what the runs have"} if self.tables is not None else {}
        for name, purpose in (named | {"figures": "draw it"}).items():
            command = commands.add_parser(name, help=purpose)
            command.add_argument(
                "outputs", type=Path, nargs="?", default=Path("outputs"), help="where the runs are"
            )
            if name == "figures":
                command.add_argument(
                    "--to", type=Path, default=self.pictures, help="where the pictures go"
                )
        return parser


def _named(words: Iterable[str]) -> dict[str, Path]:
    records: dict[str, Path] = {}
    for word in words:
        name, _, path = word.partition("=")
        if not path or name in records:
            raise UsageError(
                f"--record must be NAME=FILE, each name once, got {word!r};"
                " the name is that of the array of scores"
            )
        records[name] = Path(path)
    return records
