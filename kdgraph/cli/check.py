"""Command ``kdg check``: a fitted model on rows that it has not seen, and what would repair it."""

from __future__ import annotations

import argparse
import shlex
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kdgraph.cli.arguments import (
    NOT_WRITTEN,
    FittedModelParser,
    comma_separated,
    errors_by_option,
    fitted_model_overrides,
    is_array_file,
    name_options,
    whole_number,
)
from kdgraph.errors import RunFailed, UsageError
from kdgraph.quoting import as_value
from kdgraph.wording import counted, print_note

if TYPE_CHECKING:
    from kdgraph.config import Job, RunConfig
    from kdgraph.data.dataset import Dataset
    from kdgraph.fitted import FittedParent
    from kdgraph.report.page.model_page import ModelPage
    from kdgraph.results.model_check.expected import Agreement
    from kdgraph.results.model_check.numbers import ModelCheck
    from kdgraph.results.records import FinishedRun

OF_PARTITION = {"forest": "trees", "boosted": "trees", "network": "a network"}
"""Kind of the model's own partition → what a repair is for that needs it."""
OF_NUMBERS = ("shifted", "far", "noise")
"""Sources of rows out of distribution, of the config, that need numeric columns."""
_NOTES = """\
The rows are divided into folds. Each repair is fitted on all folds but one and measured on that \
one, so that every row is predicted by a repair that has not seen it; the model itself must not \
have seen any. The model and its repairs meet the same rows out of distribution: columns permuted, \
shifted, far away, noise.

The repair with the least negative log-likelihood is chosen. A bootstrap of the rows gives the \
interval of what it gains, how often it is chosen, and which others are not clearly worse. If the \
best density gate is one of these, and costs at most .01 nats, it is recommended, since it alone \
changes what the model predicts far from its data. A gate that costs more is named with its cost, \
for rows that may come from elsewhere.

The page is one HTML file without a script. The runs are in --out, and 'kdg table', 'compare' and \
'report' read them."""


def main(arguments: list[str]) -> int:
    """Run the repairs, write the page, print the result and return the exit code."""
    command = parser()
    args = command.parse(arguments)
    with errors_by_option(command.option_of):
        return _check(args, command.option_of, arguments)


def _check(args: argparse.Namespace, option_of: Mapping[str, str], arguments: list[str]) -> int:
    output = Path(args.output)
    from kdgraph.results.export import file_kind
    from kdgraph.runner.files import check_writable, refuse_inputs, write_atomically

    inputs = {"--model": args.model, "--data": args.data, "--ood": args.ood}
    inputs["--expect"] = args.expect
    refuse_inputs(output, inputs, "--output")
    file_kind(output, ("html",), makes_folder=True)
    check_writable(output.absolute().parent, "--output")  # before runs that take minutes
    from kdgraph.config import check, plan
    from kdgraph.config.compatibility import falls_back_to_prior
    from kdgraph.config.components import build
    from kdgraph.report.model_check import NO_ADVICE, advice, reading_sentence
    from kdgraph.report.page.model_page import render_model_page
    from kdgraph.report.terminal import show, terminal_width
    from kdgraph.results.export import sections_to_text
    from kdgraph.results.model_check.folds import measure_models, pool_folds
    from kdgraph.runner.stages import fit, split

    shared = _shared_overrides(args)
    config = plan(["method=none", *shared]).jobs[0].config
    kind = _own_partition(config)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the runs have them, and so has the page
        check(config)
        # An error of the rows or of their columns ends it here, before many runs have it.
        splits = split(config.dataset, config.seed, trains=False)
        parent = fit(config.parent, splits.train, seed=config.seed, n_jobs=1)
        agreement = _agreement(parent, build(config.dataset).load(), args)
    if splits.train.is_categorical.size and splits.train.is_categorical.all():
        # Categories can be permuted, and not shifted.
        shared = [*(f"~ood.sources.{name}" for name in OF_NUMBERS), *shared]
    methods = args.methods or _candidates(kind, has_groups=args.group is not None)
    jobs, runs = _run_folds(methods, shared, args, option_of)
    configs = {name: of_method[0].config for name, of_method in jobs.items()}
    gates = frozenset(
        name for name, config in configs.items() if falls_back_to_prior(config.components)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        table = build(next(iter(configs.values())).dataset).load()
        measured = pool_folds(runs, table, gates)
        measured = measure_models(measured, runs, configs, args.ood and Path(args.ood))
    agrees = agreement is None or not agreement.n_different
    # Repairs are for the user's model alone, so not for one that predicts otherwise.
    repairs = _repairs(measured, args) if agrees else []
    reading = reading_sentence(measured, agreement, args.expect)
    recommendation = advice(measured) if agrees else NO_ADVICE
    page = _page(
        measured, (reading, recommendation), repairs, configs, runs, table, args, arguments
    )
    content = render_model_page(page).encode()
    write_atomically(output, content, "--output")
    show(sections_to_text(page.sections[:1], terminal_width()))
    show("\n" + "\n".join([*page.verdict, page.advice]))
    for caption, command in repairs:
        show(f"\n{caption}\n{command}")
    n_runs = sum(map(len, runs.values()))
    print(f"\n{output}   {counted(n_runs, 'run')} in {args.out}   {len(content) / 1e6:.1f} MB")
    return 0


def parser() -> FittedModelParser:
    """Return the parser of the command."""
    parser = FittedModelParser(
        "check",
        "Check a classifier that you have fitted on rows that it has not seen: accuracy,"
        " calibration, groups, confidence far from the data; and find out which repair helps"
        " most. Writes one page.",
        notes=_NOTES,
        examples=[
            "kdg check --model model.txt --data new.csv --target income --group sex",
            "kdg check --model m.pkl --trust --data new.csv --target y dataset.drop=[id]",
        ],
        fails=f"runs of every repair failed, or {NOT_WRITTEN}",
    )
    parser.option_of |= {
        "dataset.group": "--group",
        "dataset.folds": "--folds",
        "dataset.max_test": "--max-rows",
        "dataset.max_learn": "--max-rows",
        "method": "--methods",
        "out": "--out",
    }
    parser.add_argument(
        "--group", metavar="COLUMN", help="column of the subgroups that are measured apart"
    )
    parser.add_argument(
        "--methods",
        type=comma_separated,
        metavar="NAMES",
        help="repairs to compare, options of the group method with commas between them (default:"
        " those that suit the model)",
    )
    parser.add_argument(
        "--folds",
        type=whole_number(2, "a number of folds"),
        default=5,
        metavar="N",
        help="number of folds (default: 5)",
    )
    parser.add_argument(
        "--max-rows",
        type=int,
        default=20_000,
        metavar="N",
        help="rows to use at most, drawn at random (default: 20,000)",
    )
    parser.add_argument(
        "--ood", metavar="FILE", help="rows that the model should not know, with the same columns"
    )
    parser.add_argument(
        "--expect",
        metavar="FILE",
        help="what your library predicts for the rows of --data, in their order: a column of"
        " probabilities for each class, or one of labels; the page states whether the model was"
        " read as you use it",
    )
    parser.add_argument(
        "--output", default="check.html", metavar="FILE", help="the page (default: check.html)"
    )
    parser.add_out()
    return parser


def _shared_overrides(args: argparse.Namespace) -> list[str]:
    """Return the overrides that all runs share, those of the user last."""
    words = [
        *("ood=model_check", "metrics=model_check", "figures=none"),
        f"out={as_value(args.out)}",
        *fitted_model_overrides(args),
    ]
    folds = [
        f"dataset.folds={args.folds}",
        f"dataset.max_test={-(-args.max_rows // args.folds)}",
        f"dataset.max_learn={args.max_rows - args.max_rows // args.folds}",
    ]
    if args.group is not None:
        if is_array_file(args.data):
            raise UsageError(
                f"--group {args.group}: {args.data} has no columns; its array 'groups' has the"
                " group of each row"
            )
        folds.append(f"dataset.group={as_value(args.group)}")
    position = len(words) - len(args.overrides)
    return [*words[:position], *folds, *words[position:]]


def _own_partition(config: RunConfig) -> str | None:
    """Return the kind of the partition that is read from the model, None without any.

    A regressor raises UsageError.
    """
    from sklearn.base import is_classifier

    from kdgraph.config.components import build, errors_by_key

    with errors_by_key("parent", config.parent):
        parent = build(config.parent)
        parent.check_file()
        if not is_classifier(parent):
            raise UsageError(
                f"--model {parent.path} predicts numbers, and kdg check takes classifiers; compare"
                " recalibrators with 'kdg run -m parent=fitted method=global_pit,local_pit …' and"
                " 'kdg compare'"
            )
        return parent.own_partition()


def _agreement(parent: FittedParent, table: Dataset, args: argparse.Namespace) -> Agreement | None:
    """Return the comparison of the model with what the user's library predicts, if that is given.

    A file with other rows or columns raises UsageError.
    """
    if args.expect is None:
        return None
    import numpy as np

    from kdgraph.results.model_check.expected import compare_with_file

    order = np.argsort(parent.class_order_)
    position = np.argsort(order)
    return compare_with_file(
        Path(args.expect),
        parent.predict_proba(table.X)[:, order],
        position[parent.predict(table.X)],
        table.classes[order].tolist(),
    )


def _candidates(kind: str | None, *, has_groups: bool) -> list[str]:
    """Return the repairs that suit a model: its own partition and groups allow more."""
    from kdgraph.config.catalogue import Catalogue
    from kdgraph.config.composer import conf_dir

    suitable = {"any model", OF_PARTITION.get(str(kind)), "groups of rows" if has_groups else None}
    repairs = Catalogue([conf_dir()]).repairs()
    return [method for method, use in repairs.items() if use in suitable]


def _run_folds(
    methods: Sequence[str],
    shared: Sequence[str],
    args: argparse.Namespace,
    option_of: Mapping[str, str],
) -> tuple[dict[str, list[Job]], dict[str, list[FinishedRun]]]:
    """Run each method in each fold; return jobs and runs of the methods without a failure."""
    from kdgraph.config import plan
    from kdgraph.report.terminal import report_progress
    from kdgraph.results.records import FinishedRun
    from kdgraph.runner.plan import run_plan

    first = args.seed * args.folds
    seeds = f"seed=range({first},{first + args.folds})"
    planned = plan([f"method={','.join(methods)}", *shared, seeds], multirun=True)
    with report_progress() as reporter:
        result = run_plan(planned, reporter)
    jobs: dict[str, list[Job]] = {method: [] for method in methods}
    runs: dict[str, list[FinishedRun]] = {method: [] for method in methods}
    failures: dict[str, str] = {}
    for outcome in result.outcomes:
        method = methods[0] if len(methods) == 1 else outcome.job.swept["method"]
        if outcome.record is None:
            failures.setdefault(method, name_options(str(outcome.failure), option_of))
        else:
            jobs[method].append(outcome.job)
            runs[method].append(FinishedRun(outcome.job.run_dir, outcome.record))
    for failure in dict.fromkeys(failures.values()):
        names = [name for name, of_method in failures.items() if of_method == failure]
        print_note(f"left out: {', '.join(names)} ({failure})")
    for name in failures:
        del jobs[name], runs[name]
    if not runs:
        raise RunFailed("the runs of every repair failed, so that there is nothing to compare")
    return jobs, runs


def _page(
    measured: ModelCheck,
    sentences: tuple[str, str],
    repairs: Sequence[tuple[str, str]],
    configs: Mapping[str, RunConfig],
    runs: Mapping[str, Sequence[FinishedRun]],
    table: Dataset,
    args: argparse.Namespace,
    arguments: Sequence[str],
) -> ModelPage:
    """Return the content of the page.

    ``sentences``: whether the model was read as it is, and which repair is recommended.
    """
    from kdgraph.report.model_check import figures, recommended, sections, verdict
    from kdgraph.report.page.model_page import ModelPage

    record = next(iter(runs.values()))[0].record
    n, k = len(measured.y), len(measured.classes)
    return ModelPage(
        title=f"Check of {Path(args.model).name}",
        subtitle=(
            f"{n:,} rows of {Path(args.data).name}, {k} classes, {measured.folds} folds;"
            f" {record['dataset']['n_features']} columns"
        ),
        verdict=[sentences[0], *verdict(measured)],
        sections=sections(measured),
        figures=figures(measured),
        advice=sentences[1],
        programs=_programs(repairs, recommended(measured), configs, table, args),
        guide=_guide(measured, args),
        warnings=_warnings(runs),
        command=shlex.join(["kdg", "check", *arguments]),
    )


def _repairs(measured: ModelCheck, args: argparse.Namespace) -> list[tuple[str, str]]:
    """Return captions with commands: the advised repair, and a gate that costs more than it."""
    from kdgraph.report.model_check import cost_of_gate, recommended
    from kdgraph.results.model_check.numbers import UNREPAIRED

    gate, advised, repairs = measured.gated, recommended(measured), []
    if advised != UNREPAIRED:
        repairs.append(("Fit it on all rows and write one file:", _repair_command(advised, args)))
    if gate not in (None, advised):
        caption = f"Where rows may come from elsewhere, {gate} at {cost_of_gate(measured)}:"
        repairs.append((caption, _repair_command(gate, args)))
    return repairs


def _programs(
    repairs: Sequence[tuple[str, str]],
    advised: str,
    configs: Mapping[str, RunConfig],
    table: Dataset,
    args: argparse.Namespace,
) -> list[tuple[str, str]]:
    from kdgraph.config.compatibility import uses_training_rows
    from kdgraph.report.program import repair_program

    if not repairs:
        return []
    programs = [
        *repairs,
        (
            "Predict with that file, in a process that needs no configuration:",
            "import pandas as pd\n\nimport kdgraph\n\n"
            f'model = kdgraph.load("{_repaired_file(args)}")\n'
            'print(model.predict_proba(pd.read_csv("new.csv")))',
        ),
    ]
    config = configs.get(advised)
    model = None if config is None else config.components.model
    if args.target is None or config is None or model is None or model.takes_groups:
        return programs  # a program would have to pass the groups of each row on
    program = repair_program(
        config.after,
        model=config.parent,
        data=args.data,
        target=args.target,
        text=[
            column.name
            for column in table.source_columns
            if column.declared and not column.holds_numbers_as_names
        ],
        trains=uses_training_rows(config.components),
    )
    return [*programs, ("The same with the library alone:", program)]


def _repair_command(method: str, args: argparse.Namespace) -> str:
    words = ["--model", args.model, *(["--trust"] if args.trust else []), "--data", args.data]
    words += [] if args.target is None else ["--target", args.target]
    words += [] if args.group is None else [f"dataset.group={as_value(args.group)}"]
    words += [*args.overrides, "--method", method, "--output", _repaired_file(args)]
    return f"kdg repair {shlex.join(words)}"


def _repaired_file(args: argparse.Namespace) -> str:
    """Return the name of the repaired model: another one than that of a model repaired before."""
    return "repaired_again.kdg" if Path(args.model).name == "repaired.kdg" else "repaired.kdg"


def _guide(measured: ModelCheck, args: argparse.Namespace) -> list[str]:
    from kdgraph.results.model_check.folds import MAX_GIVEN_ROWS

    n, folds = len(measured.y), measured.folds
    paragraphs = [
        f"The {n:,} rows were divided into {folds} folds, by class. Each repair was fitted on the"
        f" rows of {folds - 1} folds and predicted those of the other: no row is predicted by a"
        " repair that was fitted on it. That the model itself has seen none of these rows is for"
        " you to know.",
        "All rows of a fit calibrate, and 70 % of them give the density of a gate. A kernel density"
        " forest or network takes 70 % for its density, and 30 % calibrate it. Rows out of"
        " distribution are made of the test rows of each fold.",
        "The choice is by the negative log-likelihood of the pooled test rows. Intervals are of a"
        " bootstrap over rows, 2,000 resamples; another division into folds is not in them, and"
        " --seed 1 shows it.",
    ]
    if measured.units is not None:
        paragraphs.append(
            "Rows of one unit (dataset.split_groups) are in one fold, and are drawn"
            " together by the bootstrap."
        )
    if n >= args.max_rows:
        paragraphs.append(f"No more than {args.max_rows:,} rows were used (--max-rows).")
    if args.ood is not None:
        paragraphs.append(
            f"At most {MAX_GIVEN_ROWS:,} rows of {args.ood} were predicted by the model and the"
            " repairs of the first fold; categories that the data do not have were read as missing."
        )
    return paragraphs


def _warnings(runs: Mapping[str, Sequence[FinishedRun]]) -> list[str]:
    """Return the warnings of all runs, each once, with the methods that gave it."""
    methods: dict[str, list[str]] = {}
    for name, of_method in runs.items():
        for run in of_method:
            for warning in run.record["warnings"]:
                named = methods.setdefault(str(warning["message"]), [])
                if name not in named:
                    named.append(name)
    return [
        message if len(named) == len(runs) else f"{', '.join(named)}: {message}"
        for message, named in methods.items()
    ]
