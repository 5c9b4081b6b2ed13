"""Presets of a few lines each, many in one file.

A folder of a config group may have a file ``_presets.yaml``, a mapping of presets by name. Each is
as good as a file of its own, and has what differs from the others::

    _each_: {package: dataset, defaults: [/dataset/openml@_here_, _self_], about: "{about} ({id})"}
    iris: {about: Irises, set: {id: 61}}

``_each_`` is the rule: the ``package`` of Hydra, its ``defaults`` list, a format of the summary,
and ``named: true`` where a preset has its own name as a value. A preset has

- ``about``: its summary, the first comment of a file;
- ``check``: place and use in ``kdg check``;
- ``base``: options that it builds on, the first entries of its defaults list;
- ``choose``: group → option that it overrides;
- ``set``: other values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from kdgraph.config.messages import not_yaml
from kdgraph.errors import ConfigError

TABLE = "_presets.yaml"
_ENTRIES = frozenset({"about", "check", "base", "choose", "set"})
_RULE = frozenset({"package", "defaults", "about", "named"})
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Table(Mapping[str, str]):
    """Presets of a table; the text of each is made on first access."""

    def __init__(self, path: Path, rule: Mapping[str, Any], presets: Mapping[str, Any]) -> None:
        self._path, self._rule, self._presets = path, rule, presets
        self._texts: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._texts:
            self._texts[name] = _text(self._path, name, self._rule, self._presets[name])
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._presets)

    def __len__(self) -> int:
        return len(self._presets)


def presets_of_folder(folder: Path) -> Mapping[str, str]:
    """Return the presets of the table of a folder, name → text as of a YAML file.

    It is empty if there is no table. Raises ConfigError if the table has another form; access to
    a preset does if that has another form, or is a file as well.
    """
    table = folder / TABLE
    try:
        stamp = table.stat()
    except OSError:
        return {}
    return _presets(table, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=256)
def _presets(table: Path, changed: int, size: int) -> Mapping[str, str]:
    del changed, size  # part of the key alone
    try:
        content = yaml.load(table.read_text(encoding="utf-8"), Loader) or {}
    except yaml.YAMLError as error:
        raise not_yaml(table, error) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{table} cannot be read as text in UTF-8: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{table} must have presets by name, got {content!r:.60}")
    rule = content.pop("_each_", {})
    if not isinstance(rule, dict) or rule.keys() - _RULE:
        raise ConfigError(f"{table}: _each_ may have {', '.join(sorted(_RULE))}, got {rule!r:.60}")
    return _Table(table, rule, {str(name): preset for name, preset in content.items()})


def _text(table: Path, name: str, rule: Mapping[str, Any], preset: Any) -> str:
    """Return a preset as the text of a YAML file."""
    is_preset = isinstance(preset, dict) and "about" in preset and not preset.keys() - _ENTRIES
    if not is_preset or any(
        not isinstance(preset.get(key, kind()), kind)
        for key, kind in (("base", list), ("choose", dict), ("set", dict))
    ):
        raise ConfigError(
            f"{table}: {name} must have about: …, and may have check: …, base: […], choose: {{…}}"
            f" and set: {{…}}, got {preset!r:.60}"
        )
    if table.with_name(f"{name}.yaml").exists():
        raise ConfigError(f"{name} is in {table} and a file beside it; remove one of them")
    values = preset.get("set", {})
    try:
        about = str(rule.get("about", "{about}")).format_map({**values, "about": preset["about"]})
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"{table}: {name} has no value for about of _each_, {rule['about']!r}"
        ) from error
    lines = [f"# @package {rule['package']}"] if "package" in rule else []
    lines.append(f"# {about}")
    if "check" in preset:
        lines.append(f"# place in kdg check: {preset['check']}")
    chosen = [{f"override /{group}": option} for group, option in preset.get("choose", {}).items()]
    defaults = [*preset.get("base", ()), *rule.get("defaults", ()), *chosen]
    content = {
        **({"defaults": defaults} if defaults else {}),
        **({"name": name} if rule.get("named") else {}),
        **values,
    }
    body = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    return "\n".join([*lines, body if content else ""])
