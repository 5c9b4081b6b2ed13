"""Command ``kdg repair``: a fitted model with its repair, in one file."""

from __future__ import annotations

import argparse
import shlex
import warnings
from pathlib import Path

from kdgraph.cli.arguments import (
    NOT_WRITTEN,
    FittedModelParser,
    errors_by_option,
    fitted_model_overrides,
)
from kdgraph.errors import UsageError
from kdgraph.wording import counted, print_note

SUFFIX = ".kdg"
"""End of the name of a model file."""
_NOTES = """\
All rows of the file fit the repair. All of them calibrate; 70 % give the density of a gate. A \
kernel density forest takes 70 % for its density, and 30 % calibrate it. How well a repair does is \
measured by 'kdg check', which holds rows out.

The file has the model, the repair, and the columns, categories and missing values of the rows. \
'kdg predict --model' predicts files with it, and kdgraph.load(FILE).predict_proba(frame) data \
frames, without Hydra. It carries a keyed digest of yours, as the models of runs do; other users \
need --trust, or trust=True."""


def main(arguments: list[str]) -> int:
    """Write the repaired model and return the exit code."""
    command = parser()
    args = command.parse(arguments)
    with errors_by_option(command.option_of):
        return _repair(args)


def _repair(args: argparse.Namespace) -> int:
    output = Path(args.output)
    if output.suffix != SUFFIX:
        raise UsageError(f"--output {output}: a model file ends in {SUFFIX}, got '{output.suffix}'")
    from kdgraph.runner.files import check_writable, refuse_inputs, wrap_os_errors

    refuse_inputs(output, {"--model": args.model, "--data": args.data}, "--output")
    from kdgraph.config import check, compose
    from kdgraph.persistence import SaveError, save
    from kdgraph.runner.repair import repair

    method = f"method={args.method}"
    config = compose([method, *fitted_model_overrides(args), f"seed={args.seed}", "figures=none"])
    check(config)
    check_writable(output.absolute().parent, "--output")  # before rows are read and fitted
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        repaired = repair(config)
        with wrap_os_errors(output, "--output"):
            try:
                save(repaired.model, output)
            except SaveError as error:
                raise UsageError(
                    f"--output {output}: the model cannot be saved ({error})"
                ) from error
    for message in dict.fromkeys(str(item.message) for item in caught):
        print_note(message)
    print(
        f"{output}   {args.model} with {args.method}, fitted on {counted(repaired.n_rows, 'row')}"
    )
    words = ["--model", str(output), "--input", "new.csv", "--output", "predictions.csv"]
    print(f"  kdg predict {shlex.join(words)}")
    return 0


def parser() -> FittedModelParser:
    """Return the parser of the command."""
    parser = FittedModelParser(
        "repair",
        "Fit a repair of a model that you have fitted, on all rows of a file, and write the"
        " repaired model into one file.",
        notes=_NOTES,
        examples=[
            "kdg repair --model m.txt --data new.csv --target y --method kdf --output m.kdg",
            "kdg predict --model m.kdg --input july.csv --output predictions.csv",
        ],
        fails=NOT_WRITTEN,
    )
    parser.option_of["method"] = "--method"
    parser.add_argument(
        "--method",
        required=True,
        metavar="METHOD",
        help="the repair, an option of the group method: isotonic, gated_isotonic, kdf, …; 'kdg"
        " check' finds out which helps, and 'kdg list method' shows all",
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="the model file, *.kdg")
    return parser
