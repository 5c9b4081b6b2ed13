"""Errors of Hydra and OmegaConf in one line: the value, the rule, the way out."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kdgraph.errors import ConfigError, did_you_mean
from kdgraph.extras import needs_library
from kdgraph.quoting import as_value, override
from kdgraph.wording import printable

Options = Callable[[str], list[str]]
"""Function from a config group to the names of its options."""
CLUSTER_LAUNCHERS = ("submitit_local", "submitit_slurm")
"""Options of ``hydra/launcher`` that come with the extra ``cluster``."""
MOST_NAMED = 40
"""Options that a message names one by one."""
PAPER = "paper/"
"""Folder of a group for presets that repeat the setting of a paper."""


def unknown_key(key: str, known: Iterable[str]) -> ConfigError:
    """Return the error for a key that no config has.

    Its siblings among ``known`` (full keys) are named if none of them is similar.
    """
    parent, _, leaf = key.rpartition(".")
    siblings = sorted(
        {k.rpartition(".")[2] for k in known if k.rpartition(".")[0] == parent} - {leaf, "_target_"}
    )
    close = difflib.get_close_matches(leaf, siblings, n=1, cutoff=0.6)
    prefix = f"{parent}." if parent else ""
    if close:
        return ConfigError(f"unknown key '{key}'; did you mean '{prefix}{close[0]}'?")
    return ConfigError(
        f"unknown key '{key}'"
        + (f" ({parent or 'the config'} has: {', '.join(siblings)})" if siblings else "")
    )


def not_yaml(path: object, error: BaseException) -> ConfigError:
    """Return the error for a file that a YAML reader refuses, with the line where it stopped."""
    mark = getattr(error, "problem_mark", None)
    line = "" if mark is None else f", line {mark.line + 1}"
    return ConfigError(
        f"{path}{line}: not YAML ({getattr(error, 'problem', None) or 'cannot be read'})"
    )


def unknown_group(group: str, known: Iterable[str]) -> ConfigError:
    """Return the error for an unknown config group whose name has a slash."""
    names = sorted(known)
    return ConfigError(
        f"no config group named '{group}'{did_you_mean(group, names)} (there are:"
        f" {', '.join(names)})"
    )


def unknown_option(group: str, name: str, known: Iterable[str]) -> ConfigError:
    """Return the error for ``group=name`` where the group has no such option."""
    names = sorted(known)
    if group == "hydra/launcher" and name in CLUSTER_LAUNCHERS:
        return ConfigError(needs_library(f"{group}={name}", "submitit"))
    hint = did_you_mean(name, names)
    others = (
        f"(available: {', '.join(names)})"
        if len(names) <= MOST_NAMED
        else f"({list_command(group, names)} shows all {len(names)})"
    )
    return ConfigError(f"no {group} named '{name}'{hint} {others}")


def no_name_of_an_option(group: str, value: Any) -> ConfigError:
    """Return the error for a group whose value is no name, or refers to another key."""
    shown = "" if group.startswith("hydra/") else f"; 'kdg list {group}' shows them"
    text = f"'{value}'" if isinstance(value, str) else as_value(value)
    return ConfigError(
        f"{group} takes the name of one of its options, got {printable(text)}{shown}"
    )


def list_command(group: str, names: Iterable[str]) -> str:
    """Return the quoted command that lists all options of a group.

    Without ``--all`` the command leaves out the presets of papers.
    """
    has_presets = any(name.startswith(PAPER) for name in names)
    return f"'kdg list {group}{' --all' if has_presets else ''}'"


def config_error(
    error: BaseException,
    keys: Callable[[], Iterable[str]],
    options: Options,
    groups: Callable[[], Iterable[str]],
    can_be_read: Callable[[str], bool],
) -> ConfigError:
    """Return the error of one line for an exception of Hydra, OmegaConf or a YAML reader.

    ``keys`` returns every full key of the config, for "did you mean", ``options`` the names of a
    group's options, and ``groups`` those of all groups. ``can_be_read`` returns whether a word of a
    shell has the grammar of an override.
    """
    causes = list(_causes(error))
    for cause in causes:
        if missing := getattr(cause, "missing_cfg_file", None):
            # A group of Hydra has two words. Of others the rest may be a folder in the group.
            words = str(missing).split("/")
            depth = 2 if words[0] == "hydra" else 1
            group, name = "/".join(words[:depth]), "/".join(words[depth:])
            if not name:
                return ConfigError(
                    f"{group} has no name; 'kdg list {group}' shows its options"
                    if group in groups()
                    else _first_line(cause)
                )
            chooser = re.match(r"In '(?!config'|hydra/config')(.*)': ", str(cause))
            named_in = f"; it is named in {chooser[1]}" if chooser else ""
            return ConfigError(f"{unknown_option(group, name, options(group))}{named_in}")
    text = str(causes[0])
    prefix = f"{ConfigError.__name__} raised while resolving interpolation: "
    if message := text.partition(prefix)[2]:
        return ConfigError(message.splitlines()[0])
    if text.startswith("Ambiguous value for argument"):
        argument = text.split("'")[1]
        key, _, values = argument.partition("=")
        as_list, as_text = shlex.quote(f"{key}=[{values}]"), override(key, values)
        rule = "add -m to run them all"
        return ConfigError(
            f"'{argument}' is a sweep: {rule}, or write {as_list} for a list, {as_text} for text"
        )
    if match := re.match(r"Could not append to config\. An item is already at '(.*)'\.", text):
        return ConfigError(f"'{match[1]}' exists already, and '+' adds a new key; leave '+' out")
    if text.startswith("Config group override must be"):
        way_out = "'kdg list' shows them, 'none' is one where it may be absent"
        return ConfigError(f"a config group takes the name of one of its options; {way_out}")
    if text.startswith("Could not override") and (key := getattr(causes[-1], "full_key", None)):
        return (
            unknown_group(str(key), groups()) if "/" in str(key) else unknown_key(str(key), keys())
        )
    if word := getattr(causes[0], "override", None):
        return _unreadable(str(word), _first_line(causes[-1]), can_be_read)
    return _about_the_root(causes[-1])


def _unreadable(word: str, why: str, can_be_read: Callable[[str], bool]) -> ConfigError:
    if "=" not in word:
        way_out = "a value that has blanks stands in quotes: 'key=\"a b\"'"
        return ConfigError(f"'{word}' has no value; write {shlex.quote(word)}=…, or {way_out}")
    key, _, value = word.partition("=")
    problem = f"cannot read '{word}' ({why})"
    if not value.lstrip().startswith(("[", "{")) and can_be_read(override(key, value)):
        return ConfigError(f"{problem}; if it is text, write {override(key, value)}")
    rule = "brackets come in pairs, and text with other signs in quotes"
    return ConfigError(f"{problem}; {rule}: 'key=[\"a (b)\"]'")


def _about_the_root(root: BaseException) -> ConfigError:
    key = getattr(root, "full_key", None)
    if mark := getattr(root, "problem_mark", None):
        return not_yaml(mark.name, root)
    return ConfigError(f"{key}: {_first_line(root)}" if key else _first_line(root))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, and so on down to the root."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
