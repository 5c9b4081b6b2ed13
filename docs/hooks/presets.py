"""Parts, commands and parameters of methods, from conf/, below the text of pages of docs/methods.

A page names its presets in its front matter (``presets: [kdf, kdf_whitened]``). What stands in
YAML, in annotations and in docstrings is read there, so that the site has what a run would use.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from kdgraph.config.catalogue import Component, Key, first_comment, flat, read_component
from kdgraph.errors import ParameterError
from kdgraph.parameters import annotations_of, check_value

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
FAMILIES = {
    "density": "Kernel density graphs",
    "calibration": "Class probabilities",
    "top_label": "Confidence class by class",
    "local": "Confidence place by place",
    "exposure": "Training with outliers",
    "detection": "Out-of-distribution scores",
    "regression": "Predictive distributions",
}
GROUPS = ("parent", "calibrator", "gate", "detector", "recalibrator", "conformal")
ENTRY = re.compile(r"^([*\w]+(?:, [*\w]+)*) : (.*)$")
HAND_WRITTEN = re.compile(r"^<!-- methods -->$", re.MULTILINE)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Put the pages of methods into the navigation, family by family."""
    methods = next(entry["Methods"] for entry in config.nav or [] if "Methods" in entry)
    for folder, title in FAMILIES.items():
        pages = sorted(
            file.src_uri for file in files if file.src_uri.startswith(f"methods/{folder}/")
        )
        methods.append({title: pages})
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Append the presets of a page, and replace the mark for the list of all methods."""
    if page.file.src_uri == "methods/index.md":
        markdown = HAND_WRITTEN.sub(lambda _: listing(files), markdown)
    presets = page.meta.get("presets", [])
    return (
        "\n".join([markdown, *sections(presets, page.meta.get("run", {}))]) if presets else markdown
    )


def pages_of(files: Files) -> dict[str, File]:
    """Return the page of each preset."""
    pages = {}
    for file in files:
        front = (
            re.match(r"---\n(.*?)\n---\n", file.content_string, re.DOTALL)
            if file.src_uri.startswith("methods/")
            else None
        )
        for preset in yaml.safe_load(front[1]).get("presets", []) if front else ():
            pages[preset] = file
    return pages


def listing(files: Files) -> str:
    """Return a table for each family: preset and its first line."""
    pages, lines = pages_of(files), []
    for folder, title in FAMILIES.items():
        inside = {
            preset: file
            for preset, file in sorted(pages.items())
            if file.src_uri.startswith(f"methods/{folder}/")
        }
        lines += [f"## {title}", "", "| method | |", "|---|---|"]
        for preset, file in inside.items():
            sentence = first_comment(CONF / "method" / f"{preset}.yaml")
            lines.append(
                f"| [`{preset}`]({file.src_uri.removeprefix('methods/')}#{preset}) | {cell(sentence)} |"
            )
        lines.append("")
    return "\n".join(lines)


def sections(presets: list[str], runs: dict[str, str]) -> list[str]:
    """Return a section for each preset; of a component that was shown before, the differences."""
    lines = ["## Presets and parameters", ""]
    shown: dict[str, tuple[str, Component]] = {}
    for preset in presets:
        parts, settings = method(preset)
        regression = parts.pop("regression", None) is not None
        run = runs.get(
            preset, runs.get("all", "dataset=heteroscedastic" if regression else "dataset=spiral")
        )
        lines += [
            f"### `{preset}` {{#{preset}}}",
            "",
            f"{first_comment(CONF / 'method' / f'{preset}.yaml')}.",
            "",
        ]
        lines += [f"    kdg run {run} method={preset}", ""]
        set_here = "".join(f", with `{key}={value}`" for key, value in settings.items())
        lines += [
            "Parts: "
            + ", ".join(f"{group} `{name}`" for group, name in parts.items())
            + f"{set_here}.",
            "",
        ]
        for group, name in own(parts).items():
            lines += parameters(group, name, shown)
    return lines


def method(preset: str) -> tuple[dict[str, str], dict[str, str]]:
    """Parts of a preset by group, and what else it sets."""
    path = CONF / "method" / f"{preset}.yaml"
    if not path.is_file():
        raise PluginError(f"there is no method '{preset}' in conf/method")
    node = yaml.safe_load(path.read_text(encoding="utf-8"))
    parts: dict[str, str] = {}
    for entry in node.pop("defaults"):
        if entry == "_regression":
            parts["regression"] = entry
        else:
            ((override, name),) = entry.items()
            group = override.removeprefix("override /")
            parts |= {group: name} if group in GROUPS else {}
    return parts, flat(node)


def own(parts: dict[str, str]) -> dict[str, str]:
    """The parts that make the method what it is: what stands after the parent, or else the
    parent.
    """
    after = {group: name for group, name in parts.items() if group != "parent" and name != "none"}
    parent = parts["parent"]
    if parent.startswith("${network}_"):
        return {"parent": parent.removeprefix("${network}"), **after}
    return after or ({} if parent in ("random_forest", "${network}") else {"parent": parent})


def parameters(group: str, name: str, shown: dict[str, tuple[str, Component]]) -> list[str]:
    """A table of a component's keys, or of those that differ from one of the same class that was
    shown before.
    """
    component = read_component(CONF / group / f"{name}.yaml", [CONF])
    if not component.target:
        return []
    label = f"{group} `{name}`" if not name.startswith("_") else f"what {group} `…{name}` adds"
    target = (
        f"[`{component.target.rpartition('.')[2]}`][{component.target}]"
        if component.target.startswith("kdgraph.")
        else f"`{component.target}`"
    )
    before = shown.get(component.target)
    shown.setdefault(component.target, (label, component))
    keys = (
        component.keys
        if before is None
        else {name: key for name, key in component.keys.items() if before[1].keys.get(name) != key}
    )
    keys = {name: key for name, key in keys.items() if not name.endswith("_target_")}
    if before is not None and not keys:
        return []
    title = (
        f"Parameters of {label}, which is {target}:"
        if before is None
        else f"As {before[0]}, but of {label}:"
    )
    head = ["", "| key | default | is | meaning |", "|---|---|---|---|"]
    return [title, *head, *(row(name, key, component) for name, key in keys.items()), ""]


def row(name: str, key: Key, component: Component) -> str:
    """Return a line of the table: the annotation's rule, and the comment or else the docstring."""
    owner = f"{name.rpartition('.')[0]}._target_"
    target = component.keys.get(owner, Key(component.target, "")).default
    parameter = name.rpartition(".")[2]
    factory = imported(target)
    meaning = key.meaning or described(factory, parameter)
    words = cell(rule(factory, parameter))
    return f"| `{name}` | {code(key.default)} | {words} | {cell(meaning)} |"


def imported(target: str) -> Any:
    """Return the class that a config names."""
    module, _, name = target.rpartition(".")
    return getattr(import_module(module), name)


def rule(factory: Any, name: str) -> str:
    """Return the values that a parameter may have, in the words of its error; "" if any."""
    try:
        check_value(name, object(), annotations_of(factory).get(name, Any))
    except ParameterError as error:
        return (
            str(error)
            .removeprefix(f"{name} must be ")
            .rpartition(", got ")[0]
            .replace("one of ", "")
        )
    return ""


def described(factory: Any, name: str) -> str:
    """What docstrings of a class, and of those that it derives from, say of a parameter of ours."""
    for cls in inspect.getmro(factory) if inspect.isclass(factory) else ():
        names: list[str] = []
        said: list[str] = []
        for line in (
            inspect.cleandoc(cls.__doc__ or "").splitlines()
            if cls.__module__.startswith("kdgraph.")
            else ()
        ):
            entry = ENTRY.match(line)
            if entry or not line.startswith("    "):
                if name in names:
                    break
                names, said = (entry[1].split(", "), [entry[2]]) if entry else ([], [])
            else:
                said.append(line.strip())
        if name in names and not said[0].startswith(("as in ", "those of ", "see Notes")):
            return " ".join(said)
    return ""


def cell(text: str) -> str:
    """Text that stands in a table."""
    text = re.sub(
        r":(?:class|func|meth|data|mod|attr):`~?(?:[\w.]*\.)?(\w+)`",
        r"`\1`",
        text.replace("``", "`"),
    )
    return re.sub(r"(?<!`)<(\w)", r"&lt;\1", text).replace("|", "\\|").replace("$", "&#36;")


def code(text: str) -> str:
    """A value in a table, which may be nothing."""
    return f"`{text}`".replace("|", "\\|") if text else ""
