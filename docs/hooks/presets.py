"""Gallery of methods, and the picture, command, parts and parameters of each preset.

A page of docs/methods has a text and names its presets in its front matter (``presets: [kdf,
kdf_whitened]``). What is in YAML, in annotations and in docstrings is read there, so that the site
has what a run would use. Pictures and their costs come from docs/draw_methods.py, which writes
docs/methods/drawn.csv; docs/methods/captions.yaml has a caption for each kind of picture.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.utils.meta import get_data

from kdgraph.config import compose
from kdgraph.config.catalogue import Component, first_comment, flat, read_component
from kdgraph.config.components import target_of
from kdgraph.config.meanings import meaning, rule
from kdgraph.config.yaml_files import is_option, read_text

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
METHODS = ROOT / "docs" / "methods"
PICTURES = ROOT / "docs" / "pictures" / "methods"
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
PARTS = ("When", "Cost", "Source")
"""Paragraphs of a page that a card of the gallery shows, in its order."""
NETWORK = "${network}"
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
    """Append the presets of a page, and replace the mark for the gallery."""
    if page.file.src_uri == "methods/index.md":
        return HAND_WRITTEN.sub(lambda _: gallery(files), markdown)
    presets = page.meta.get("presets", [])
    return "\n".join([markdown, *sections(presets, page.meta)]) if presets else markdown


def pages_of(files: Files) -> dict[str, tuple[File, dict[str, Any]]]:
    """Return source path → file and front matter of each page of methods, in alphabetical order."""
    pages = {}
    for file in sorted(files, key=lambda file: file.src_uri):
        if file.src_uri.startswith("methods/") and file.src_uri.endswith(".md"):
            _, front = get_data(file.content_string)
            if front:
                pages[file.src_uri] = (file, front)
    return pages


def gallery(files: Files) -> str:
    """Return for each family a card for each page, and a table of all presets."""
    pages, lines = pages_of(files), []
    for folder, title in FAMILIES.items():
        family = {uri: page for uri, page in pages.items() if uri.startswith(f"methods/{folder}/")}
        cards = [card(file, front) for file, front in family.values()]
        lines += [f"## {title}", "", '<div class="gallery" markdown>', "", *cards, "</div>", ""]
        lines += ["| preset | what it is |", "|---|---|"]
        targets = {
            preset: file.src_uri.removeprefix("methods/")
            for file, front in family.values()
            for preset in front["presets"]
        }
        for preset, target in sorted(targets.items()):
            sentence = first_comment(CONF / "method" / f"{preset}.yaml")
            lines.append(f"| [`{preset}`]({target}#{preset}) | {cell(sentence)} |")
        lines.append("")
    return "\n".join(lines)


def card(file: File, front: Mapping[str, Any]) -> str:
    """Return the card of a page: title, picture of its first preset, when to use it, what it costs
    and where it is from.
    """
    text, target = file.content_string, file.src_uri.removeprefix("methods/")
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    heading = title[1] if title else target
    first = front["presets"][0]
    source = picture_of(first, front)
    lines = ['<div class="card" markdown>', "", f"### [{heading}]({target})", ""]
    lines += [f"[![{first}](../pictures/methods/{source}.png)]({target}#{first})", ""]
    for name in PARTS:
        lines += [f"**{name}.** {moved(paragraph(text, name), target)}", ""]
    return "\n".join([*lines, "</div>", ""])


def paragraph(text: str, name: str) -> str:
    r"""Return the first paragraph that a page has under a name such as **When.**; "" for none.

    >>> paragraph("**When.** Always,\nthat is.\n\n**Limits.** None.", "When")
    'Always, that is.'
    """
    match = re.search(rf"^\*\*{name}\.\*\* (.*?)(?=\n\n|\Z)", text, re.DOTALL | re.MULTILINE)
    if match is None:
        return ""
    # A table belongs to its page.
    return " ".join(line for line in match[1].splitlines() if not line.startswith("|")).rstrip(":")


def moved(text: str, page: str) -> str:
    """Return text of a page with links from the gallery, one folder above.

    >>> moved("as [LoRe](lore.md), [sets](../../sets.md), [x](https://x.org)", "local/groups.md")
    'as [LoRe](local/lore.md), [sets](../sets.md), [x](https://x.org)'
    """
    folder = page.partition("/")[0]

    def link(match: re.Match[str]) -> str:
        target = match[1]
        if "://" in target:
            return match[0]
        return (
            f"]({target.removeprefix('../') if target.startswith('../') else f'{folder}/{target}'})"
        )

    return re.sub(r"\]\(([^()\s]+)\)", link, text)


@cache
def drawn() -> dict[str, dict[str, str]]:
    """Return preset → row of drawn.csv: its figure, the words that were run, and what they cost."""
    with (METHODS / "drawn.csv").open(newline="", encoding="utf-8") as file:
        return {row["preset"]: row for row in csv.DictReader(file)}


@cache
def captions() -> dict[str, str]:
    """Return figure → caption."""
    return yaml.safe_load((METHODS / "captions.yaml").read_text(encoding="utf-8"))


def picture_of(preset: str, front: Mapping[str, Any]) -> str:
    """Return the preset whose picture a preset has: mostly its own."""
    source = front.get("picture", {}).get(preset, preset)
    if not (PICTURES / f"{source}.png").is_file() or source not in drawn():
        raise PluginError(f"no picture of method '{source}'; python docs/draw_methods.py {source}")
    return source


def picture(preset: str, front: Mapping[str, Any]) -> list[str]:
    """Return the picture of a preset with its caption."""
    source = picture_of(preset, front)
    row = drawn()[source]
    whose = "" if source == preset else f" This is the picture of `{source}`, of the same family."
    return [
        f"![{preset}](../../pictures/methods/{source}.png)",
        "",
        f"*{captions()[row['figure']]}{whose} `kdg run {row['overrides']}`, seed 0.*",
        "",
    ]


def cost(preset: str) -> list[str]:
    """Return what a preset was measured to cost, beside its parent."""
    if (row := drawn().get(preset)) is None:
        return []
    rows, parent, after = int(row["rows"]), float(row["parent_fit"]), float(row["after_fit"])
    alone, predict = float(row["parent_predict"]), float(row["predict"])
    words = f"Measured on these {rows:,} rows, processor time of one core: the "
    if after == 0:
        words += f"fit takes {seconds(parent)}, a prediction {alone:.2g} µs a row."
    else:
        words += (
            f"parent's fit takes {seconds(parent)}, what is fitted after it {seconds(after)}; a"
            f" prediction takes {predict:.2g} µs a row, of the parent alone {alone:.2g} µs."
        )
    return [words, ""]


def seconds(value: float) -> str:
    """Return a duration with two digits.

    >>> seconds(0.00123), seconds(1.44)
    ('1.2 ms', '1.4 s')
    """
    return f"{1000 * value:.2g} ms" if value < 0.1 else f"{value:.2g} s"


def sections(presets: list[str], front: Mapping[str, Any]) -> list[str]:
    """Return a section for each preset; of a component that was shown before, the differences."""
    runs = front.get("run", {})
    lines = ["## Presets and parameters", ""]
    shown: dict[str, tuple[str, Component]] = {}
    for preset in presets:
        parts, settings = method(preset)
        regression = parts.pop("regression", None) is not None
        dataset = "heteroscedastic" if regression else "spiral"
        run = runs.get(preset, runs.get("all", f"dataset={dataset}"))
        summary = first_comment(CONF / "method" / f"{preset}.yaml")
        listed = ", ".join(part(group, name, preset) for group, name in parts.items())
        listed += "".join(f", with `{key}={value}`" for key, value in settings.items())
        lines += [f"### `{preset}` {{#{preset}}}", "", f"{summary}.", "", *picture(preset, front)]
        lines += [f"    kdg run {run} method={preset}", "", f"Parts: {listed}.", "", *cost(preset)]
        for group, name in own(parts).items():
            lines += parameters(group, name, shown, preset)
    return lines


def part(group: str, name: str, preset: str) -> str:
    """Return a part as a page names it; the network as the one of the default.

    >>> part("calibrator", "kdn", "kdn")
    'calibrator `kdn`'
    >>> part("parent", "${network}_acet", "acet")
    'parent `mlp_acet` (on the default network; `network=tabular_mlp` takes `tabular_mlp_acet`)'
    """
    if NETWORK not in name:
        return f"{group} `{name}`"
    other = name.replace(NETWORK, "tabular_mlp")
    return (
        f"{group} `{default_parent(preset)}` (on the default network; `network=tabular_mlp` takes"
        f" `{other}`)"
    )


@cache
def default_parent(preset: str) -> str:
    """Return the parent of a method without any other word, as Hydra composes it."""
    # Metrics decide nothing here; these go with every method that has a network.
    return str(compose([f"method={preset}", "ood=none", "metrics=top_label"]).parent["name"])


def method(preset: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parts of a preset by group, and the other values that it sets."""
    path = CONF / "method" / f"{preset}.yaml"
    if not is_option(path):
        raise PluginError(f"there is no method '{preset}' in conf/method")
    node = yaml.safe_load(read_text(path))
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
    """Return the parts after the parent, which make the method, or else the parent."""
    after = {group: name for group, name in parts.items() if group != "parent" and name != "none"}
    parent = parts["parent"]
    if parent.startswith(f"{NETWORK}_"):
        return {"parent": parent.removeprefix(NETWORK), **after}
    return after or ({} if parent in ("random_forest", NETWORK) else {"parent": parent})


def parameters(
    group: str, name: str, shown: dict[str, tuple[str, Component]], preset: str
) -> list[str]:
    """Return a table of a component's keys, or of those that differ from an earlier one of its class."""
    component = read_component(CONF / group / f"{name}.yaml", [CONF])
    if not component.target:
        return []
    label = f"{group} `{name}`"
    if name.startswith("_"):
        label = f"what {group} `{default_parent(preset)}` adds to its network"
    target = (
        f"[`{component.target.rpartition('.')[2]}`][{component.target}]"
        if component.target.startswith("kdgraph.")
        else f"`{component.target}`"
    )
    title = f"Parameters of {label}, which is {target}:"
    keys = {name: key for name, key in component.keys.items() if not name.endswith("_target_")}
    if before := shown.get(component.target):
        title = f"As {before[0]}, but of {label}:"
        keys = {name: key for name, key in keys.items() if before[1].keys.get(name) != key}
        if not keys:
            return []
    shown.setdefault(component.target, (label, component))
    head = ["", "| key | default | is | meaning |", "|---|---|---|---|"]
    return [title, *head, *(row(name, key, component) for name, key in keys.items()), ""]


def row(name: str, value: str, component: Component) -> str:
    """Return a line of the table: default, the annotation's rule, and the docstring's meaning."""
    factory = owner(name, component)
    words = values_of(factory, name)
    return f"| `{name}` | {code(value)} | {cell(words)} | {cell(meaning(factory, name))} |"


def owner(key: str, component: Component) -> Any:
    """Return the class of a component, or of the node in it, that a key is a parameter of."""
    target = component.keys.get(f"{key.rpartition('.')[0]}._target_", component.target)
    return target_of({"_target_": target or None})


def values_of(factory: Any, key: str) -> str:
    """Return the values that a parameter may have; "" if any."""
    return rule(factory, key.rpartition(".")[2]).replace("one of ", "")


def cell(text: str) -> str:
    """Return a text for the cell of a table."""
    return re.sub(r"(?<!`)<(\w)", r"&lt;\1", text).replace("|", "\\|").replace("$", "&#36;")


def code(text: str) -> str:
    """Return a value for the cell of a table, "" for none."""
    return f"`{text}`".replace("|", "\\|") if text else ""
