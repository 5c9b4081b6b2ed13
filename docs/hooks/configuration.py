"""Pages of the configuration, made of the YAML of conf/: a page for each group.

Each option has its sentence, its class, what it builds on and the keys that its file sets, with
their defaults, and values and meaning of each from the docstring of its class. Interpolations such as
``${network}`` are explained, and one that this module cannot explain stops the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from docstrings import autoref  # this and presets are hooks beside this one
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.utils.meta import get_data
from presets import cell, code, owner, values_of

from kdgraph.config.catalogue import (
    GROUPS,
    KINDS,
    TASKS,
    Catalogue,
    Component,
    first_comment,
    flat,
    keys_of,
    read_component,
)
from kdgraph.config.meanings import described, meaning, meanings
from kdgraph.config.preset_tables import TABLE
from kdgraph.config.run_config import RunConfig
from kdgraph.config.yaml_files import read_text

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
FOLDER = "configuration"
LISTED = ("method", "experiment")
"""Groups whose options choose options of other groups: tables, not a section for each."""
HEAD_OF_KEYS = ("| key | default | values | meaning |", "|---|---|---|---|")
NETWORK = "mlp"
"""Option of the group ``network`` that ``${network}`` is, unless another is chosen."""
INTERPOLATIONS = {
    r"\$\{file_stem:\$\{\.path\}.*\}": "the name of the file in `path`, without its ending",
    r"\$\{dataset:\$\{other_than:.*,(\w+),(\w+)\}\}": r"`\1`, or `\2` where the data set is `\1`",
    r"\$\{other_than:.*,(\w+),(\w+)\}": r"`\1`, or `\2` where the data set is `\1`",
    r"\$\{dataset:\$\{\.name\}\}": "the node of the data set that `name` names",
    r"\$\{dataset:([\w/]+)\}": r"the node of the data set `\1`",
    r"\$\{oc\.select:([\w.]+),null\}": r"`\1` of the run, or `null` without it",
    r"\$\{dataset\}": "the node of the run's data set",
    r"\$\{(dataset\.\w+)\}": r"`\1` of the run",
    r"\$\{(out|seed|n_jobs)\}": r"the value of `\1`",
    r"\$\{\.\.?(\w+(?:\.\w+)*)\}": r"the value of `\1` beside it",
}
"""Pattern of an interpolation in a value → what it becomes."""


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages, and put those of groups below the first one in the navigation."""
    catalogue = Catalogue([CONF])
    pages = {"index": overview(catalogue)}
    pages |= {group: group_page(group, catalogue, method_anchors()) for group in catalogue.groups}
    for name, content in pages.items():
        files.append(File.generated(config, f"{FOLDER}/{name}.md", content=content))
    part = next(entry["Command line"] for entry in config.nav or [] if "Command line" in entry)
    groups = [{name: f"{FOLDER}/{name}.md"} for name in pages if name != "index"]
    part.append({"Configuration": [f"{FOLDER}/index.md", *groups]})
    return files


def overview(catalogue: Catalogue) -> str:
    """Return the page about the whole config: groups, keys outside of groups, and launchers."""
    lines = [
        "# Configuration",
        "",
        "A run is described by one config, which is composed of options of the groups below and of"
        " values. `group=option` chooses an option, `group.key=value` sets a value,"
        " `+group.key=value` adds a key that a file does not list, `~group.key` removes one:",
        "",
        "    kdg run dataset=digits method=kdf calibrator.alpha=0.01",
        "",
        "`kdg list GROUP` prints the options of a group, and `kdg show …` the composed config with"
        " the meaning of each key. Pages of this part are made of the same files, `conf/` of the"
        " repository.",
        "",
        "Files are composed in this order, and what comes later wins: `config.yaml`, an option of"
        " each group, the method, the data set, the experiment, then the command line. Your own"
        " options stand in the folder of `--config-dir`: a file `gate/custom.yaml` there is"
        " `gate=custom`.",
        "",
        "## Groups {#groups}",
        "",
    ]
    rows = ["| group | purpose | options, default |", "|---|---|---|"]
    for group, options in catalogue.groups.items():
        default = catalogue.defaults.get(group)
        count = f"{len(options)}, `{default}`" if default else f"{len(options)}"
        rows.append(f"| [`{group}`]({group}.md) | {GROUPS[group]} | {count} |")
    lines += stacked(*rows)
    rows = [
        key_line(name, value, "", described(RunConfig, name))
        for name, value in flat(keys_of(CONF / "config.yaml")).items()
        if not name.startswith("hydra")
    ]
    lines += ["", "## Keys outside of groups {#keys}", "", *stacked(*HEAD_OF_KEYS, *rows)]
    lines += [
        "",
        "## Launchers of sweeps {#launchers}",
        "",
        "`hydra/launcher=…` names where the runs of a sweep are done: `processes` is the default;"
        " `basic` does one after the other; `submitit_slurm` and `submitit_local` are jobs of"
        " SLURM; and those below."
        " [Clusters](../cluster.md) has examples.",
        "",
    ]
    for launcher in sorted((CONF / "hydra" / "launcher").glob("*.yaml")):
        lines += option_section("hydra/launcher", launcher.stem, launcher, level=3)
    lines += [
        "## Interpolations {#interpolations}",
        "",
        "A value `${key}` becomes the value of that key when the config is composed. Two dots in"
        " front are the node around. kdgraph adds `${file_stem:path}`, the name of a file without"
        " its ending; `${dataset:name}`, the node of another data set; and"
        " `${other_than:a,b,c}`, the first of `b` and `c` that is not `a`. `${network}` in an"
        " option of the group `method` is the option of the group `network`; these pages show it"
        f" as `{NETWORK}`, the default. `kdg show` prints what each has become.",
    ]
    return "\n".join([*lines, ""])


def group_page(group: str, catalogue: Catalogue, anchors: Mapping[str, str]) -> str:
    """Return the page of a group."""
    options = catalogue.groups[group]
    default = catalogue.defaults.get(group)
    purpose = GROUPS[group]
    lines = [
        f"# Configuration of {group}",
        "",
        f"{purpose[:1].upper()}{purpose[1:]}. {len(options)} options"
        + (f"; `{group}={default}` unless another is chosen." if default else "."),
        "",
        f"    kdg list {group}",
        "",
    ]
    own = {name: path for name, path in options.items() if "/" not in name}
    if group == "method":
        lines += [
            "*by network*: the parent is the option of the group [network](network.md), which is"
            f" `{NETWORK}` for vectors and `lenet` for images, unless `network=…` names another.",
            "",
        ]
    if group in LISTED:
        lines += listed(group, own, catalogue, anchors)
    else:
        bases = sorted(path for path in (CONF / group).glob("_*.yaml") if path.name != TABLE)
        if len(own) > 12:
            lines += contents(group, own, catalogue)
        for name, path in own.items():
            lines += option_section(group, name, path)
        if bases:
            lines += ["## Files that options build on {#bases}", ""]
            lines += [
                "No option is one of these alone; their keys are keys of what builds on them."
            ]
            lines += [""]
        for path in bases:
            lines += option_section(group, path.stem, path, level=3)
    folders: dict[str, dict[str, Path]] = {}
    for name, path in options.items():
        if "/" in name:
            folders.setdefault(name.rpartition("/")[0], {})[name] = path
    for folder, inside in folders.items():
        title = f"Options {group}={folder}/…"
        lines += [f"## {title} {{#{folder.replace('/', '-')}}}", "", *table(group, inside)]
    return "\n".join(lines)


def contents(group: str, options: Mapping[str, Path], catalogue: Catalogue) -> list[str]:
    """Return a table of a group's options, by kind where they have one: name and sentence."""
    kind_of = {
        "dataset": catalogue.kind,
        "calibrator": lambda name: catalogue.task("calibrator", name),
    }.get(group, lambda name: "")
    kinds: dict[str, list[str]] = {}
    for name in options:
        kinds.setdefault(kind_of(name), []).append(name)
    lines = []
    order = [*KINDS.values(), *TASKS, ""]
    for kind, names in sorted(kinds.items(), key=lambda item: order.index(item[0])):
        lines += [f"**{kind[:1].upper()}{kind[1:]}**", ""] if kind else []
        rows = [f"| [`{name}`](#{name}) | {cell(sentence(options[name]))} |" for name in names]
        lines += stacked("| option | |", "|---|---|", *rows)
    return lines


def listed(
    group: str, options: Mapping[str, Path], catalogue: Catalogue, anchors: Mapping[str, str]
) -> list[str]:
    """Return tables of options that choose options of other groups, by task."""
    lines = []
    for task in TASKS:
        inside = {
            name: path for name, path in options.items() if catalogue.task(group, name) == task
        }
        if inside:
            lines += [f"## {task[:1].upper()}{task[1:]}", "", *table(group, inside, anchors)]
    return lines


def table(
    group: str, options: Mapping[str, Path], anchors: Mapping[str, str] | None = None
) -> list[str]:
    """Return a table of options: name, sentence, and what each chooses and sets."""
    lines = ["| option | | chooses and sets |", "|---|---|---|"]
    for name, path in options.items():
        link = (anchors or {}).get(name)
        shown = f"[`{name}`]({link})" if link else f"`{name}`"
        lines.append(f"| {shown} | {cell(sentence(path))} | {', '.join(settings(group, path))} |")
    return stacked(*lines)


def option_section(group: str, name: str, path: Path, level: int = 2) -> list[str]:
    """Return the section of an option: sentence, class, bases, and the keys of its file."""
    component = read_component(path, [CONF])
    heading = f"{group}={name}" if not name.startswith("_") else name
    lines = [f"{'#' * level} `{heading}` {{#{name}}}", "", f"{cell(sentence(path))}.", ""]
    chosen = list(choices(group, path))
    bases = [link for link in chosen if not link.startswith("`")]
    others = [link for link in chosen if link.startswith("`")]
    about = [f"Class {class_link(component.target)}."] if component.target else []
    about += [f"Builds on {' and '.join(bases)}."] if bases else []
    about += [f"Chooses {', '.join(others)}, unless the command line does."] if others else []
    lines += [" ".join(about), ""] if about else []
    texts = meanings({group: component.node})
    rows = [
        key_row(f"{group}.{key}", value, component, texts)
        for key, value in rows_of(group, keys_of(path), texts)
        if key not in ("name", "_target_") or "${" in value
    ]
    return [*lines, *(stacked(*HEAD_OF_KEYS, *rows) if rows else [])]


def stacked(*table: str) -> list[str]:
    """Return a table whose cells stand below each other on a narrow screen (site.css)."""
    kind = "keys" if table[:2] == HEAD_OF_KEYS else "options"
    return [f'<div class="stacked {kind}" markdown>', "", *table, "", "</div>", ""]


def rows_of(
    group: str, node: Mapping[str, Any], texts: Mapping[str, str], prefix: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield keys with their values, and mappings that have a meaning with an empty one."""
    for name, value in node.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            if texts.get(f"{group}.{key}"):
                yield key, ""
            yield from rows_of(group, value, texts, f"{key}.")
        else:
            yield from flat({key: value}).items()


def key_row(path: str, value: str, component: Component, texts: Mapping[str, str]) -> str:
    """Return a line of a table of keys of a component, with the meaning that it has in a config."""
    key = path.partition(".")[2]
    factory = owner(key, component)
    values = values_of(factory, key) if factory else ""
    return key_line(key, value, values, texts.get(path) or meaning(factory, path))


def key_line(key: str, value: str, values: str, text: str) -> str:
    """Return a line of a table of keys."""
    return f"| `{key}` | {default_of(value)} | {cell(values)} | {cell(text)} |"


def default_of(value: str) -> str:
    """Return a default, and what an interpolation in it becomes."""
    text = value.strip("\"'") if "${" in value else value
    return with_explanation(code(text), text) if text else ""


def with_explanation(shown: str, text: str) -> str:
    """Return Markdown of a value and, in parentheses, what its interpolations become.

    >>> with_explanation("`1`", "1")
    '`1`'
    >>> with_explanation("`parent=${network}_oe`", "${network}_oe")
    '`parent=mlp_oe` by [network](network.md)'
    >>> with_explanation("`${seed}`", "${seed}")
    '`${seed}` (the value of `seed`)'
    """
    if "${network}" in text:
        return f"{shown.replace('${network}', NETWORK)} by [network](network.md)"
    if "${" not in text:
        return shown
    for pattern, words in INTERPOLATIONS.items():
        if match := re.search(pattern, text):
            return f"{shown} ({match.expand(words)})"
    raise PluginError(f"{text}: docs/hooks/configuration.py has no words for this interpolation")


def choices(group: str, path: Path) -> Iterator[str]:
    """Yield what the defaults list of a file has: links to bases, and ``group=option`` as code."""
    for entry in load(path).get("defaults", []):
        if isinstance(entry, dict):
            for key, option in entry.items():
                where = str(key).removeprefix("override ").lstrip("/").partition("@")[0]
                yield with_explanation(f"`{where}={option}`", str(option))
        elif entry != "_self_":
            source, _, package = str(entry).partition("@")
            base, name = source[1:].split("/", 1) if source[0] == "/" else (group, source)
            node = "" if package in ("", "_here_", "_global_") else f" as `{package}`"
            page = "" if base == group else f"{base}.md"
            if base in LISTED and base == group:
                yield from choices(group, CONF / base / f"{name}.yaml")
            elif "/" in name or base in LISTED:
                yield f"<code>{base}={name}</code>{node}"
            else:
                yield f"[`{name}`]({page}#{name}){node}"


def settings(group: str, path: Path) -> list[str]:
    """Return what a preset chooses and sets, without what stands in the files of its choices."""
    node = load(path)
    parts = list(choices(group, path))
    swept = ((node.pop("hydra", None) or {}).get("sweeper") or {}).get("params") or {}
    for key, value in flat({**node, **swept}).items():
        if key.partition(".")[0] not in ("defaults", "name", "_target_"):
            text = f"{key}={value}"
            shown = text if len(text) <= 90 else f"{text[:87]}…"
            parts.append(with_explanation(code(shown), value if "${" in shown else ""))
    return parts


def load(path: Path) -> dict[str, Any]:
    """Return the content of a YAML file, which may have nothing but comments."""
    return yaml.safe_load(read_text(path)) or {}


def sentence(path: Path) -> str:
    """Return the sentence with which a file begins, without its full stop."""
    return first_comment(path).rstrip(".")


def class_link(target: str) -> str:
    """Return the name of a class, a link where the reference has it."""
    name = target.rpartition(".")[2]
    if not target.startswith("kdgraph."):
        return f"`{target}`"
    return autoref(target, name)


def method_anchors() -> dict[str, str]:
    """Return the place of each method among the pages of docs/methods, relative to a group's."""
    anchors = {}
    for path in sorted((ROOT / "docs" / "methods").rglob("*.md")):
        _, values = get_data(path.read_text(encoding="utf-8"))
        uri = path.relative_to(ROOT / "docs").as_posix()
        anchors |= {preset: f"../{uri}#{preset}" for preset in values.get("presets", [])}
    return anchors
