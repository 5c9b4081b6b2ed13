"""YAML files of config groups, read or refused in one line that names the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from kdgraph.config.messages import not_yaml
from kdgraph.config.preset_tables import TABLE, Loader, presets_of_folder
from kdgraph.errors import ConfigError


def option_files(folder: Path) -> list[Path]:
    """Return the files of all options below ``folder``, ``*.yaml``, sorted.

    An option of a table has the path that a file of its own would have.
    """
    paths = set(folder.rglob("*.yaml"))
    for table in [path for path in paths if path.name == TABLE]:
        paths |= {table.with_name(f"{name}.yaml") for name in presets_of_folder(table.parent)}
    return sorted(path for path in paths if path.name != TABLE)


def is_option(path: Path) -> bool:
    """Return whether an option is a file, or in the table of its folder."""
    return path.is_file() or (
        path.suffix == ".yaml" and path.stem in presets_of_folder(path.parent)
    )


def _preset(path: Path) -> str | None:
    return presets_of_folder(path.parent).get(path.stem) if path.suffix == ".yaml" else None


def read_text(path: Path) -> str:
    """Return the text of the file of an option, or what the table of its folder makes of it.

    Raises ConfigError if it is a folder or a link to nothing, cannot be opened, or is not UTF-8.
    """
    if (preset := _preset(path)) is not None:
        return preset
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        place = f"byte {error.start:,} (0x{error.object[error.start]:02x})"
        raise ConfigError(
            f"{path} is not text in UTF-8: {place} cannot be decoded; save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(f"{path}: {_problem(path, error)}") from error


def load_yaml(path: Path) -> Mapping[str, Any]:
    """Return the content of a config file; shared, so not for writing.

    Raises ConfigError if it is no text, no YAML, or no mapping.
    """
    text = read_text(path)
    try:
        values = _load_yaml(text)
    except yaml.YAMLError:
        try:
            yaml.safe_load(text)  # slower, but it names the character that stopped it
        except yaml.YAMLError as error:
            raise not_yaml(path, error) from error
        raise
    check_mapping(path, values or None)
    return values


@lru_cache(maxsize=4096)
def _load_yaml(text: str) -> Any:
    return yaml.load(text, Loader) or {}


def defaults_of(path: Path) -> list[Any]:
    """Return the defaults list of a file; empty if it has none that Hydra can read."""
    defaults = load_yaml(path).get("defaults")
    return defaults if isinstance(defaults, list) else []


def bases_of(path: Path, folders: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """Yield the files that an option builds on, and the prefix of their keys in it."""
    for entry in defaults_of(path):
        if not isinstance(entry, str) or entry == "_self_":
            continue
        source, _, package = entry.partition("@")
        if package.startswith("_global_"):
            continue
        candidates = (
            [folder / f"{source.strip('/')}.yaml" for folder in folders]
            if source.startswith("/")
            else [path.with_name(f"{source}.yaml")]
        )
        for file in candidates:
            if is_option(file):
                yield file, "" if package in ("", "_here_") else f"{package}."
                break


def _problem(path: Path, error: OSError) -> str:
    if path.is_dir():
        return "this is a folder, and an option is a file; give it another name"
    if path.is_symlink() and not path.exists():
        return (
            f"this is a link to {path.readlink()}, which does not exist; remove the link or mend it"
        )
    return f"{error.strerror or error}; change its rights, or give another --config-dir"


def check_mapping(path: Path, values: Any) -> None:
    """Raise ConfigError unless the content of a YAML file is a mapping, or empty."""
    if values is not None and not isinstance(values, dict):
        kind = "a list" if isinstance(values, list) else f"the value {values!r:.40}"
        raise ConfigError(f"{path} must have keys with values, such as 'name: mine', got {kind}")


def check_option(group: str, option: str, node: Any, folders: Sequence[Path]) -> None:
    """Raise ConfigError unless the node of an option names itself and its class.

    The file of the option is in the first of the folders that has it.
    """
    missing_keys = [
        key for key in ("name", "_target_") if not isinstance(node, dict) or key not in node
    ]
    files = [path for folder in folders if is_option(path := folder / group / f"{option}.yaml")]
    if missing_keys:
        place = files[0] if files else f"{group}={option}"
        meaning = {
            "name": "what runs call it",
            "_target_": "the import path of its class or function",
        }
        key = missing_keys[0]
        raise ConfigError(f"{place} has no '{key}', {meaning[key]}; add {key}: …")
