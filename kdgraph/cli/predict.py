"""Command ``kdg predict``: predictions of the model of a finished run, or of a repaired one."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import NOT_WRITTEN, CommandParser, whole_number
from kdgraph.errors import UsageError
from kdgraph.runner.formulas import SAFE_CSV_HELP, refuse_safe_csv
from kdgraph.wording import counted, print_note

if TYPE_CHECKING:
    from kdgraph.deployment import DeployedModel
    from kdgraph.runner.prediction.predict import PredictionCounts

_CHUNK = 32_768
_NOTES = """\
The output has a row for each row of the input, in its order: row (from 0), predicted, confidence \
(of the predicted class), ood_score, and probability_CLASS for each class. The OOD score of kernel \
density forests, networks and gates is the log density floor minus the log density at the nearest \
polytope: above 0 the row is farther from the training data than the floor allows, and the \
probabilities blend to the prior. That of a detector is above 0 beyond its threshold; a detector \
of sets, such as tood, has none for a row. Other models have no density: their score is minus the \
confidence. For a regression the columns are row, mean, and quantiles from q0.025 to q0.975; for a \
conformal one low0.5, high0.5, low0.95 and high0.95 too, the ends of intervals with at least this \
coverage. A run with conformal=… has set_size too, and in_set_CLASS, true for the classes of the \
set. A run with a detector of rows has ood_p_value; --fdr adds ood_flagged, true for rows out of \
distribution. Labels in a .csv are written unchanged; a spreadsheet takes one such as =1+1 for a \
formula, unless you give --safe-csv, or write .parquet.

Many rows are predicted in parts of 65,536, in the folder OUTPUT.parts, which become the output at \
the end. If the command is interrupted or killed, the same command goes on after the parts that \
are finished; if the input, the model or an option has changed, it begins again. Parts take as \
much disk as the output.

A model is like a program: reading one can run code of its maker's choosing. Files that kdg makes \
carry a keyed digest of yours, and only these are read. The key is made on first use, for you \
alone, in ~/.config/kdgraph/model.key; KDGRAPH_KEY_FILE=FILE names another, which a group or \
several machines can share. A run that somebody else made needs --trust, with which you vouch for \
its origin: kdg then still refuses classes that are not known to be harmless, and fields that \
replace methods, but promises nothing."""


def main(arguments: list[str]) -> int:
    """Predict and return the exit code."""
    args = parser().parse(arguments)
    output, new = Path(args.output), Path(args.input)
    _check(output, {"--input": new, "--model": args.model})
    if args.safe_csv:
        refuse_safe_csv(args.output, is_csv=output.suffix.lower() == ".csv")
    from kdgraph.runner.prediction.predict import SavedModel, predict
    from kdgraph.runner.prediction.rows import NewRows

    names = tuple(name for name in args.trust if name is not None)
    is_run = args.run is not None
    model = Path(args.run if is_run else args.model)
    source = SavedModel(model, is_run, names or bool(args.trust))
    saved = source.load()

    rows = NewRows(new, saved.schema, args.unseen, print_note)
    with _bar() as progress:
        done = predict(
            source,
            rows,
            output,
            chunk=args.chunk,
            fdr=args.fdr,
            escapes_formulas=args.safe_csv,
            n_jobs=args.jobs,
            progress=progress,
            note=print_note,
        )
    for name, n in done.became_missing.items():
        if n:
            print_note(
                f"{n:,} cells of '{name}' have a category that the training data do not have: read"
                " as missing"
            )
    print(_summary(saved, done, output))
    if done.n_flagged is not None:
        print(
            f"{counted(done.n_flagged, 'row')} flagged as out of distribution at a false discovery"
            f" rate of {args.fdr:g}"
        )
    return 0


def parser() -> CommandParser:
    """Return the parser of the command."""
    parser = CommandParser(
        "predict",
        "Predict new rows with the calibrated model of a finished run, or with a repaired model:"
        " probabilities and an OOD score, or quantiles.",
        notes=_NOTES,
        examples=[
            "kdg predict --run outputs/adult/kdf/1cb9f0a2 --input new.csv --output out.csv",
            "kdg predict --run shared/1cb9f0a2 --input new.csv --output out.csv --trust",
            "kdg predict --model repaired.kdg --input new.csv --output out.csv",
        ],
        fails=f"{NOT_WRITTEN}, or a process that predicts was ended",
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--run",
        metavar="DIR",
        help="directory of the run, of which the folder model/ is enough",
    )
    source.add_argument("--model", metavar="FILE", help="model file of 'kdg repair'")
    parser.add_argument(
        "--input",
        required=True,
        metavar="FILE",
        help=".csv, .tsv, .parquet, .arff, or .npz with an array X",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help=".parquet or .csv")
    parser.add_argument(
        "--chunk",
        type=whole_number(1, "a number of rows"),
        default=_CHUNK,
        metavar="N",
        help=f"rows that a process reads at a time (default: {_CHUNK:,}); changes no number",
    )
    parser.add_argument(
        "--jobs",
        type=_processes,
        default=1,
        metavar="N",
        help=(
            "processes that predict, each with the model in memory; -1: one for each core (default:"
            " 1); changes no byte of the output"
        ),
    )
    parser.add_argument(
        "--fdr",
        type=_fraction,
        metavar="Q",
        help="flag rows out of distribution, at this false discovery rate among the flagged rows",
    )
    parser.add_argument("--safe-csv", action="store_true", help=SAFE_CSV_HELP)
    parser.add_argument(
        "--unseen",
        choices=("refuse", "missing"),
        default="refuse",
        help="treatment of categories that the training data do not have (default: refuse)",
    )
    parser.add_argument(
        "--trust",
        action="append",
        default=[],
        nargs="?",
        metavar="NAME",
        help=(
            "read the model though your key did not make it and it can run code, because you know"
            " and trust its origin; with a NAME, it may also import that class or package (may be"
            " given more than once)"
        ),
    )
    return parser


def _processes(text: str) -> int:
    if text == "-1":
        from joblib import cpu_count

        return cpu_count()
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"must be a number of processes from 1, or -1, got '{text}'"
        )
    return int(text)


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"must be a number between 0 and 1, got '{text}'")
    return value


def _check(output: Path, inputs: Mapping[str, str | Path | None]) -> None:
    from kdgraph.runner.files import refuse_inputs

    if output.suffix.lower() not in (".parquet", ".pq", ".csv"):
        raise UsageError(
            f"--output {output}: the ending chooses the format, and must be .parquet or .csv"
        )
    refuse_inputs(output, inputs, "--output")


@contextmanager
def _bar() -> Iterator[Callable[[int, float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("predict"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("predict", total=1.0, rows=0)
        yield lambda rows, fraction: bar.update(task, completed=fraction, rows=rows)


def _summary(saved: DeployedModel, counts: PredictionCounts, output: Path) -> str:
    line = f"{output}   {counted(counts.n_rows, 'row')}"
    above = f"{line}, {counts.n_ood:,} of them ({counts.n_ood / counts.n_rows:.1%})"
    return {
        "density": f"{above} below the density floor",
        "detector": f"{above} out of distribution by the detector's threshold",
        "confidence": f"{line}; the model has no density, so ood_score is minus the confidence",
        "sets": (
            f"{line}; the detector scores sets of rows, not single rows, so there is no ood_score"
        ),
        "none": line,
    }[saved.schema.ood_score]
