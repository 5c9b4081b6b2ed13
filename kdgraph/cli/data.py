"""Command ``kdg data``: list, fetch and check data sets of openml.org, and their cache."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from kdgraph.cli.arguments import CommandParser
from kdgraph.errors import DataError, DataNotAvailable, UsageError, did_you_mean
from kdgraph.wording import counted, print_note

_NAMES_HELP = (
    "an option of the group dataset, a group of them (cc18), a pattern ('cc18/mfeat_*'), or a"
    " number of OpenML"
)
Reporter = Callable[[str], None]
"""Prints a line about a download."""


@dataclass(frozen=True)
class Wanted:
    """A data set to fetch.

    ``name`` is an option, a source or a number, ``id`` the number of OpenML, if it has one.
    ``fetch`` reports each download.
    """

    name: str
    id: int | None
    fetch: Callable[[Reporter], Any]


def main(arguments: list[str]) -> int:
    """List, fetch or check data sets, and return the exit code."""
    actions = parser().actions
    action, *rest = arguments or [""]
    if action not in actions:
        raise UsageError(f"data takes one of {', '.join(actions)}, got {action or 'nothing'}")
    args = actions[action].parse(rest)
    from kdgraph.config.catalogue import Catalogue
    from kdgraph.config.composer import config_folders

    ids = Catalogue(config_folders(args.config_dir)).openml_ids()
    if action == "get":
        return _get(args.words, ids, args.config_dir)
    return _list(args.words, ids) if action == "list" else _check(args.words, ids)


def parser() -> CommandParser:
    """Return the parser of the command; its ``actions`` have parsers of their own."""
    fails = "a data set could not be fetched, or is damaged"
    list_ = CommandParser(
        "data list",
        "List the data sets of openml.org that options name, with their size where they are in the"
        " cache. Nothing is fetched.",
        examples=["kdg data list", "kdg data list 'cc18/mfeat_*'"],
    )
    get = CommandParser(
        "data get",
        "Fetch data sets of openml.org into the cache, before runs on a machine without a network."
        " What is there is not fetched again.",
        examples=["kdg data get cc18/adult 44", "kdg data get dataset=openml dataset.id=1590"],
        fails=fails,
    )
    check = CommandParser(
        "data check",
        "Read the data sets in the cache, and list those whose files are damaged.",
        examples=["kdg data check", "kdg data check cc18"],
        fails=fails,
    )
    for action in (list_, check):
        action.add_argument(
            "words", nargs="*", metavar="name", help=f"{_NAMES_HELP} (default: all)"
        )
    get.add_argument(
        "words",
        nargs="*",
        metavar="name|key=value",
        help=f"{_NAMES_HELP}; or overrides as in 'kdg run': what a run with them needs",
    )
    parser = CommandParser(
        "data",
        "List, fetch and check data sets of openml.org. They are in the folder that"
        " OPENML_CACHE_DIR names.",
        examples=["kdg data list cc18", "kdg data get cc18/adult 44", "kdg data check"],
        fails=fails,
    )
    parser.add_argument(
        "action",
        choices=("list", "get", "check"),
        help="'kdg data get --help' explains an action",
    )
    parser.add_argument("words", nargs="*", metavar="name", help=_NAMES_HELP)
    for action in (list_, get, check, parser):
        action.add_config_dir()
    parser.actions = {"list": list_, "get": get, "check": check}
    return parser


def _list(words: Sequence[str], ids: dict[str, int]) -> int:
    from kdgraph.data.openml.cache import cache_folder, cached_size, is_cached
    from kdgraph.report.data_table import dataset_table

    chosen = _named(words, ids)
    sizes = {id: cached_size(id) for id in set(chosen.values()) if _is_cached(is_cached, id)}
    print(dataset_table(chosen, sizes, cache_folder()))
    return 0


def _check(words: Sequence[str], ids: dict[str, int]) -> int:
    from kdgraph.data.openml.cache import cache_folder, cached_ids, check_cached
    from kdgraph.report.data_table import check_table

    cached = cached_ids()
    wanted = set(_named(words, ids).values()) if words else set(cached)
    with _bar(len(cached)) as step:
        results = [
            step(f"reading {id}", lambda id=id: check_cached(id)) for id in cached if id in wanted
        ]
    print(check_table(results, cache_folder()))
    damaged = [result.problem for result in results if result.problem]
    for problem in damaged:
        print_note(problem)
    return 1 if damaged else 0


def _get(words: Sequence[str], ids: dict[str, int], config_dir: str | None) -> int:
    from kdgraph.data.openml.cache import cache_folder
    from kdgraph.data.openml.client import unavailability_reason
    from kdgraph.runner.availability import MissingData, by_reason

    if not words:
        what = (
            "names or groups ('kdg data list' shows them), numbers of OpenML, or overrides:"
            " dataset=…, experiment=…"
        )
        raise UsageError(f"data get takes {what}")
    overrides = [word for word in words if "=" in word]
    names = [word for word in words if "=" not in word]
    wanted = [
        *(_by_id(name, id) for name, id in _named(names, ids).items() if names),
        *_by_config(overrides, config_dir),
    ]
    fetched, absent, damaged = 0, list[MissingData](), list[str]()
    with _bar(len(wanted)) as step:
        for item in wanted:
            downloads: list[str] = []
            try:
                step(
                    item.name,
                    lambda item=item, downloads=downloads: _fetch(item, downloads.append),
                    item.id,
                )
            except DataNotAvailable as error:
                absent.append(MissingData(item.name, unavailability_reason(error), error))
            except DataError as error:
                damaged.append(str(error))
            else:
                fetched += bool(downloads)
    print(
        f"{len(wanted) - len(absent) - len(damaged)} of {counted(len(wanted), 'data set')}"
        f" {'is' if len(wanted) == 1 else 'are'} in {cache_folder()}, {fetched}"
        " of them fetched now"
    )
    for reason, missing in by_reason(absent).items():
        print_note(f"not at hand: {', '.join(missing)} ({reason})")
    for problem in damaged:
        print_note(problem)
    return 1 if absent or damaged else 0


def _fetch(wanted: Wanted, report: Reporter) -> None:
    """Fetch a data set unless it is in the cache, and check the file there without its rows.

    Raises DataNotAvailable if it cannot be fetched, DataError if it is damaged.
    """
    from kdgraph.data.openml.cache import check_file, find_cached

    wanted.fetch(report)
    if wanted.id is not None and (data := find_cached(wanted.id)) is not None:
        check_file(data)


def _by_id(name: str, id: int) -> Wanted:
    from kdgraph.data.openml.client import fetch_dataset

    return Wanted(name, id, lambda report: fetch_dataset(id, report))


def _by_config(overrides: Sequence[str], config_dir: str | None) -> list[Wanted]:
    """Return the data sets that the runs of a command line need.

    Other values than options of groups do not matter, so one seed is enough.
    """
    if not overrides:
        return []
    from kdgraph.config import check, plan
    from kdgraph.runner.availability import sources

    seed = [] if any(re.match(r"seed=", word) for word in overrides) else ["seed=0"]
    jobs = plan([*overrides, *seed], multirun=True, config_dir=config_dir).jobs
    for job in jobs:
        check(job.config)
    return [
        Wanted(name, getattr(source, "id", None), source.prefetch) for name, source in sources(jobs)
    ]


def _named(words: Sequence[str], ids: dict[str, int]) -> dict[str, int]:
    """Return number by name of the data sets that ``words`` name; all of them without words.

    A word is an option, a folder of options, a pattern or a number.
    """
    if not words:
        return ids
    chosen: dict[str, int] = {}
    for word in words:
        if word.isdigit():
            chosen.setdefault(word, int(word))
            continue
        matches = {
            name: id
            for name, id in ids.items()
            if name == word or name.startswith(f"{word}/") or fnmatch(name, word)
        }
        if not matches:
            hint = did_you_mean(word, ids, "; 'kdg data list' shows those of openml.org")
            raise UsageError(f"no data set or group named '{word}'{hint}")
        chosen |= matches
    return chosen


def _is_cached(is_cached: Callable[[int], bool], id: int) -> bool:
    """Return whether a data set is in the cache, damaged or not."""
    try:
        return is_cached(id)
    except DataError:
        return True


@contextmanager
def _bar(total: int) -> Iterator[Callable[..., Any]]:
    """Yield a function that does a step and shows it on a bar on stderr, with the bytes so far.

    Where stderr is no terminal, it shows nothing.
    """
    if not sys.stderr.isatty():
        yield lambda name, do, id=None: do()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text

    from kdgraph.data.openml.cache import cached_size
    from kdgraph.report.data_table import size_text

    class Arrived(ProgressColumn):
        def render(self, task: Any) -> Text:
            return Text(size_text(cached_size(task.fields["id"])) if task.fields["id"] else "")

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        Arrived(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total, id=None)

        def step(name: str, do: Callable[[], Any], id: int | None = None) -> Any:
            progress.update(task, description=name, id=id)
            try:
                return do()
            finally:
                progress.advance(task)

        yield step
