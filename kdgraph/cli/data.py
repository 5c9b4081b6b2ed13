"""``kdg data list``, ``get`` and ``check``: the data sets of openml.org that configurations name,
and the cache that they are in.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from kdgraph.cli.hydra_arguments import hydra_arguments
from kdgraph.config.messages import not_yaml
from kdgraph.config.yaml_files import check_mapping, option_files, read_text
from kdgraph.errors import DataError, DataNotAvailable, UsageError, did_you_mean

ACTIONS = ("list", "get", "check")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """A data set to fetch: what it is called, its number if it has one, and how."""

    name: str
    id: int | None
    fetch: Callable[[Tell], Any]


def main(arguments: list[str]) -> int:
    """Do what ``kdg data ACTION WORDS`` asks for and return the exit code.

    ``WORDS`` are names of data sets and of groups of them, patterns such as ``cc18/mfeat_*``,
    numbers of OpenML; for ``get`` also overrides.
    """
    action, *rest = arguments or [""]
    if action not in ACTIONS:
        raise UsageError(f"data takes one of {', '.join(ACTIONS)}, got {action or 'nothing'}")
    args = hydra_arguments(rest)
    from kdgraph.config.composer import config_folders

    ids = openml_ids(config_folders(args.config_dir))
    if action == "get":
        return _get(args.overrides, ids, args.config_dir)
    return _list(args.overrides, ids) if action == "list" else _check(args.overrides, ids)


def openml_ids(folders: Sequence[Path]) -> dict[str, int]:
    """Number of OpenML by option of the group ``dataset``, of the options that have one.

    Read from the files, since composing a hundred of them takes 10 s: an ``id`` of its own, or of
    the file that it builds on.
    """
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in folders
        for path in _options(folder)
    }
    found = {
        name.removeprefix("dataset/"): _id_in(path, files) for name, path in sorted(files.items())
    }
    return {name: id for name, id in found.items() if id is not None}


def _options(folder: Path) -> list[Path]:
    return option_files(folder / "dataset")


def _id_in(path: Path, files: dict[str, Path]) -> int | None:
    import yaml

    try:
        node = yaml.safe_load(read_text(path)) or {}
    except yaml.YAMLError as error:
        raise not_yaml(path, error) from error
    check_mapping(path, node)
    if isinstance(node.get("id"), int):
        return node["id"]
    defaults = node.get("defaults")
    bases = [
        str(base).partition("@")[0] for base in (defaults if isinstance(defaults, list) else [])
    ]
    paths = [
        files.get(base.lstrip("/") if base.startswith("/") else f"dataset/{base}") for base in bases
    ]
    return next(
        (id for base in paths if base and base != path and (id := _id_in(base, files)) is not None),
        None,
    )


def _list(words: Sequence[str], ids: dict[str, int]) -> int:
    from kdgraph.data.openml.cache import cache_folder, cached_size, is_cached
    from kdgraph.report.data_table import dataset_table

    chosen = _named(words, ids)
    here = {id: cached_size(id) for id in set(chosen.values()) if _quietly(is_cached, id)}
    print(dataset_table(chosen, here, cache_folder()))
    return 0


def _check(words: Sequence[str], ids: dict[str, int]) -> int:
    from kdgraph.data.openml.cache import cache_folder, cached_ids, check_cached
    from kdgraph.report.data_table import check_table

    here = cached_ids()
    wanted = set(_named(words, ids).values()) if words else set(here)
    with _bar(len(here)) as step:
        found = [
            step(f"reading {id}", lambda id=id: check_cached(id)) for id in here if id in wanted
        ]
    print(check_table(found, cache_folder()))
    damaged = [each.problem for each in found if each.problem]
    for problem in damaged:
        print(f"kdg: {problem}", file=sys.stderr)
    return 1 if damaged else 0


def _get(words: Sequence[str], ids: dict[str, int], config_dir: str | None) -> int:
    from kdgraph.data.openml.cache import cache_folder
    from kdgraph.runner.availability import MissingData, by_reason, unavailability_reason

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
    fetched, absent = 0, list[MissingData]()
    with _bar(len(wanted)) as step:
        for each in wanted:
            told: list[str] = []
            try:
                step(each.name, lambda each=each, told=told: each.fetch(told.append), each.id)
            except DataNotAvailable as error:
                absent.append(MissingData(each.name, unavailability_reason(error), error))
            else:
                fetched += bool(told)
    print(
        f"{len(wanted) - len(absent)} of {len(wanted)} data sets are in {cache_folder()}, {fetched}"
        " of them fetched now"
    )
    for reason, missing in by_reason(absent).items():
        print(f"kdg: not at hand: {', '.join(missing)} ({reason})", file=sys.stderr)
    return 1 if absent else 0


def _by_id(name: str, id: int) -> Wanted:
    from kdgraph.data.openml.client import fetch_dataset

    return Wanted(name, id, lambda tell: fetch_dataset(id, tell))


def _by_config(overrides: Sequence[str], config_dir: str | None) -> list[Wanted]:
    """What the runs of a command line need; other values than options of groups do not matter, so
    one seed will do.
    """
    if not overrides:
        return []
    from kdgraph.config import check, plan
    from kdgraph.runner.availability import sources

    one = [] if any(re.match(r"seed=", word) for word in overrides) else ["seed=0"]
    jobs = plan([*overrides, *one], multirun=True, config_dir=config_dir).jobs
    for job in jobs:
        check(job.config)
    return [
        Wanted(name, getattr(source, "id", None), source.prefetch) for name, source in sources(jobs)
    ]


def _named(words: Sequence[str], ids: dict[str, int]) -> dict[str, int]:
    """What ``words`` mean: all if there are none, an option, a folder of options, a pattern, or a
    number.
    """
    if not words:
        return ids
    chosen: dict[str, int] = {}
    for word in words:
        if word.isdigit():
            chosen.setdefault(word, int(word))
            continue
        found = {
            name: id
            for name, id in ids.items()
            if name == word or name.startswith(f"{word}/") or fnmatch(name, word)
        }
        if not found:
            hint = did_you_mean(word, ids, "; 'kdg data list' shows those of openml.org")
            raise UsageError(f"no data set or group named '{word}'{hint}")
        chosen |= found
    return chosen


def _quietly(ask: Callable[[int], bool], id: int) -> bool:
    """A damaged one is there; ``kdg data check`` says what is wrong with it."""
    try:
        return ask(id)
    except DataError:
        return True


@contextmanager
def _bar(total: int) -> Iterator[Callable[..., Any]]:
    """A function that does a step and shows it on a bar on stderr, with the bytes that have
    arrived; silent if nobody looks.
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
