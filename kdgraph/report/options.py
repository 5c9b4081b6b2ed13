"""What there is to choose from: config groups, their options, and the first comment of each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kdgraph.config.yaml_files import option_files, read_text
from kdgraph.errors import ConfigError, did_you_mean


def listing(folders: Sequence[Path], group: str | None = None) -> str:
    """Options of one group, or of all, each with its one line."""
    groups = _groups(folders)
    if group is not None and group not in groups:
        raise ConfigError(
            f"no group named '{group}'"
            + did_you_mean(group, groups, f"; known: {', '.join(groups)}")
        )
    shown = groups if group is None else {group: groups[group]}
    width = max((len(name) for options in shown.values() for name in options), default=0)
    blocks = [
        [name, *(f"  {option:<{width}}  {line}".rstrip() for option, line in options.items())]
        for name, options in shown.items()
    ]
    return "\n".join("\n".join(block) for block in blocks)


def _groups(folders: Sequence[Path]) -> dict[str, dict[str, str]]:
    """Group → option → its line; of two files of the same name the first folder's counts, as in
    Hydra.
    """
    groups: dict[str, dict[str, str]] = {}
    for folder in folders:
        for path in option_files(folder):
            group, *option = path.relative_to(folder).with_suffix("").parts
            if option and not path.stem.startswith("_"):
                groups.setdefault(group, {}).setdefault("/".join(option), first_comment(path))
    return dict(sorted(groups.items()))


def first_comment(path: Path) -> str:
    """The first line of comment that is not a directive to Hydra; empty if there is none."""
    for line in read_text(path).splitlines():
        if line.startswith("#") and "@package" not in line:
            return line.lstrip("# ").strip()
    return ""
