"""The verbs of ``kdg``. No science here, and no import that ``kdg --help`` does not need."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdgraph.errors import ConfigError, KdgError, NotAtHand, RunFailed, UsageError, did_you_mean

if TYPE_CHECKING:
    import argparse

    from kdgraph.config import Job, Plan
    from kdgraph.runner.launch import Outcome

HELP = """\
kdg: models that are honest about what they do not know

  kdg run [key=value …]        run an experiment; without arguments: dataset=spiral method=kdf
  kdg list [group]             what there is to choose from
  kdg show [key=value …]       the resolved config, and what a run of it would do
  kdg data list|get|check  data sets of openml.org: which are here, fetch some, are they whole
  kdg completion bash|zsh|fish
  kdg --help | --version

Choose an option of a group (dataset=digits), set a value (parent.n_estimators=100), or sweep over both:
  kdg run -m dataset=spiral,circle method=kdf,isotonic seed='range(0,5)'

Data sets are fetched before a run starts; kdg data get takes names, groups (cc18), patterns, numbers of OpenML, or key=value as in run.

Options of run and show
  -m                  sweep: every combination of the values
  --config-dir DIR    your own config groups, behind those of kdgraph
Options of run
  --json              print the record (of a sweep: the list of them) and nothing else
  --cfg job           print the config; with --resolve, -p PACKAGE as in Hydra
  --info, --help      Hydra's own views of the composed config

A run is done once: the same config gives the same directory, outputs/<dataset>/<method>/<id>, and force=true runs it again.
Exit codes: 0 done, 1 a run failed, 2 something that was given cannot be used, 130 interrupted.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """``kdg``: do what the arguments say and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without "◂" must not end a run
    try:
        return _verb(list(sys.argv[1:] if arguments is None else arguments))
    except KdgError as error:
        print(f"kdg: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("kdg: interrupted; finished stages are kept", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        return 0


def _verb(arguments: list[str]) -> int:
    verbs = {"run": _run, "list": _list, "show": _show, "data": _data, "completion": _completion}
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] == "--version":
        from kdgraph import __version__

        print(f"kdg {__version__}")
        return 0
    verb, *rest = arguments
    if verb not in verbs:
        hint = did_you_mean(verb, verbs, f"; known: {', '.join(verbs)}")
        raise UsageError(f"unknown verb '{verb}'" + (f"; overrides come after a verb: kdg run {verb}" if "=" in verb else hint))
    return verbs[verb](rest)


def _run(arguments: list[str]) -> int:
    """``kdg run``: check all jobs, run them, tell."""
    as_json = "--json" in arguments
    args = _hydra_arguments([a for a in arguments if a != "--json"])
    rest = [*args.flags, *args.overrides]
    if args.shell_completion or args.hydra_help:
        from kdgraph.runner.launch import with_hydra

        with_hydra(rest)
        return 0
    planned = _plan(args)
    from kdgraph.report.terminal import watching
    from kdgraph.runner.at_hand import by_reason, fetch_all
    from kdgraph.runner.launch import launch, with_hydra

    if args.help or args.cfg or args.info:
        with_hydra(rest)
        return 0
    before = {job.config.run_id for job in planned.jobs if job.config.done and not job.config.force}
    _check(planned, before)
    _make_folders(planned)
    todo = [job for job in planned.jobs if job.config.run_id not in before]
    if planned.multirun and not args.multirun:  # an experiment that is a sweep by itself, whose values may be swept over once more
        rest = ["--multirun", *rest]
    with watching() as watch:
        watch.begin("data")
        absent = fetch_all(todo, watch.note)
        if absent and not planned.multirun:
            raise next(iter(absent.values())).error
        outcomes = launch(planned, rest, watch, skipped=frozenset(absent))
    code = _tell(outcomes, planned, before, as_json)
    for reason, names in by_reason(absent.values()).items():
        print(f"kdg: not runnable: {', '.join(names)} ({reason})", file=sys.stderr)
    return code or (0 if outcomes else NotAtHand.exit_code)


def _show(arguments: list[str]) -> int:
    """``kdg show``: the config as YAML, with what would happen as comments."""
    planned = _plan(_hydra_arguments(arguments))
    _check(planned, set())
    from kdgraph.report.preview import preview, summary
    from kdgraph.runner.at_hand import not_here

    absent = not_here(planned.jobs)
    if not planned.multirun:
        import yaml

        config = planned.jobs[0].config
        nodes = {**config.science(), "n_jobs": config.n_jobs, "force": config.force, "out": config.out}
        print(yaml.safe_dump(nodes, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120), end="")
    for job in planned.jobs:
        print(preview(job.config, absent.get(job.config.run_id)))
    if planned.multirun:
        print(summary(planned.jobs, absent))
    return 0


def _list(arguments: list[str]) -> int:
    """``kdg list``: groups and their options with their first comment."""
    from kdgraph.report.options import listing

    args = _hydra_arguments(arguments)
    if len(args.overrides) > 1:
        raise UsageError(f"list takes one group, got {' '.join(args.overrides)}")
    print(listing(_folders(args.config_dir), args.overrides[0] if args.overrides else None))
    return 0


def _data(arguments: list[str]) -> int:
    """``kdg data``: what is in the cache of openml.org, fetch more, check it."""
    from kdgraph.data_verbs import VERBS, run_verb

    verb, *words = arguments or [""]
    if verb not in VERBS:
        raise UsageError(f"data takes one of {', '.join(VERBS)}, got {verb or 'nothing'}")
    args = _hydra_arguments(words)
    return run_verb(verb, args.overrides, args.config_dir, _folders(args.config_dir))


def _completion(arguments: list[str]) -> int:
    from kdgraph.completion import SCRIPTS

    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        raise UsageError(f"completion takes one of {', '.join(SCRIPTS)}, got {' '.join(arguments) or 'nothing'}")
    print(SCRIPTS[arguments[0]], end="")
    return 0


def _plan(args: argparse.Namespace) -> Plan:
    from kdgraph.config import plan

    return plan(args.overrides, multirun=args.multirun, config_dir=args.config_dir)


def _check(planned: Plan, before: set[str]) -> None:
    """All jobs are checked before the first one runs; one that is done was checked when it ran."""
    from kdgraph.config import check

    for job in planned.jobs:
        if job.config.run_id not in before:
            check(job.config)


def _make_folders(planned: Plan) -> None:
    for out in {job.config.out for job in planned.jobs}:
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"out must be a folder that files can be written to, got '{out}' ({error.strerror})") from error


def _tell(outcomes: Sequence[Outcome], planned: Plan, before: set[str], as_json: bool) -> int:
    """Print records or tables, then failures; returns the exit code."""
    done = [(outcome.job, outcome.record) for outcome in outcomes if outcome.record]
    failed = [outcome for outcome in outcomes if not outcome.record]
    if failed and not planned.multirun:
        _raise(failed[0])
    if as_json:
        import json

        records = [record for _, record in done]
        print(json.dumps(records if planned.multirun else records[0], indent=1, ensure_ascii=False))
    elif done:
        _print_tables(done, planned.multirun, before)
    if failed:
        print(f"kdg: {len(failed)} of {len(outcomes)} runs failed; they are tried again next time:", file=sys.stderr)
        for outcome in failed:
            print(f"  {outcome.job.config.run_dir}/error.txt   {outcome.failure}", file=sys.stderr)
    return 1 if failed else 0


def _print_tables(done: Sequence[tuple[Job, Any]], multirun: bool, before: set[str]) -> None:
    from kdgraph.report.terminal import show

    if not multirun:
        from kdgraph.report.run_table import run_table

        ((job, record),) = done
        show(run_table(record, str(job.config.run_dir), before=job.config.run_id in before))
        return
    from kdgraph.report.sweep_table import Done, sweep_table, sweep_warnings

    runs = [Done(record, job.swept) for job, record in done]
    show(sweep_table(runs))
    if said := sweep_warnings(runs):
        show("\n" + said)
    found = sum(job.config.run_id in before for job, _ in done)
    show(f"\n{len(done)} runs in {done[0][0].config.out}" + (f", {found} of them done before" if found else ""))


def _raise(outcome: Outcome) -> None:
    """The failure of a single run as an error of ours."""
    if isinstance(outcome.error, KdgError):
        raise outcome.error
    trace = outcome.job.config.run_dir / "error.txt"
    raise RunFailed(f"the run failed: {outcome.failure}" + (f" (traceback in {trace})" if trace.exists() else "")) from outcome.error


def _hydra_arguments(arguments: list[str]) -> argparse.Namespace:
    """Hydra's own flags and the overrides, in any order; ``flags`` is everything but the overrides."""
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    parser.error = _refuse  # type: ignore[method-assign]
    args = parser.parse_intermixed_args(arguments)
    if args.config_path or args.config_name or args.experimental_rerun:
        raise UsageError("kdg has one primary config; add your own groups with --config-dir DIR")
    args.flags = [argument for argument in arguments if argument not in args.overrides]
    return args


def _refuse(message: str) -> Any:
    raise UsageError(f"{message}; 'kdg --help' lists the options")


def _folders(config_dir: str | None) -> list[Path]:
    from kdgraph.config import conf_dir

    if config_dir and not Path(config_dir).is_dir():
        raise ConfigError(f"--config-dir must be a folder of config groups, got '{config_dir}', which is no folder")
    return [conf_dir(), *([Path(config_dir)] if config_dir else [])]
