"""Meanings of the keys of a config, from the docstrings of what its nodes name.

The meaning of a key is the description of the parameter in the docstring of its class or function,
or of a base of it. Keys of the run itself are described by :class:`~kdgraph.config.RunConfig`.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from kdgraph.config.components import is_node, target_of
from kdgraph.docstrings import described_names
from kdgraph.errors import ParameterError
from kdgraph.parameters import annotations_of, check_value

OF_RUNS = {
    "dataset.folds": "Number of folds of cross-validation: with n, the seeds 0 to n - 1 test each"
    " row once, as with `-m seed='range(0,n)'`. None: test rows are drawn.",
    "conformal.calibration_size": "Fraction of the calibration rows that calibrator and gate never"
    " use.",
    "hydra/launcher.address": "Address of the scheduler of Dask (tcp://host:8786) or of the cluster"
    " of Ray (host:6379, or auto); null: workers on this machine.",
    "hydra/launcher.cpus_per_task": "Cores of a run.",
    "hydra/launcher.n_jobs": "Largest number of runs at a time on this machine; -1: as many as it"
    " has cores.",
    "metrics.test": "Metrics of the test rows, which have labels, by name.",
    "metrics.calibration": "Metrics of the calibration rows, in sample.",
    "metrics.ood": "Metrics of each set of out-of-distribution rows, which have no labels.",
    "metrics.grid": "Metrics on the square grid of a simulation of two features, without labels.",
    "metrics.spaces": "Feature maps by name, which metrics have as option `space`; they are fitted"
    " on the measured rows without labels.",
}
"""Key to which runs give a meaning of their own → this meaning."""
_ROLE = re.compile(r":(?:class|func|meth|data|mod|attr|exc):`~?(?:[\w.]*\.)?(\w+)`")
_REFERENCE = re.compile(
    r"(?:^\s*|[;,]\s+|\.\s+)see\s+:(?:class|data):`~?(?P<name>[\w.]+)`(?:;\s+(?P<rest>[^.]*\.))?\.?",
    re.IGNORECASE,
)
"""Reference to the description of the same parameter by a class, or to that of a type."""
_WORD = re.compile(r"\w+(?=,| or |$)")
_YAML = {"None": "null", "True": "true", "False": "false"}
_CONSTANT = re.compile(r"\b(?:None|True|False)\b(?! of )")
_ELSEWHERE = ("as in ", "those of ", "see Notes")
"""Beginnings of an entry of a docstring that refers to another docstring."""


def described(target: Any, name: str) -> str:
    """Return the description of a parameter or attribute, without its type; empty for none.

    Parameters
    ----------
    target : class or function
        The classes that it derives from may have the description. Of a class of another library
        it is the first sentence.
    name : str
        Name of the parameter.
    """
    for owner in inspect.getmro(target) if isinstance(target, type) else (target,):
        head, _, text = _entries(owner).get(name, "").partition("\n")
        kind = head.partition(" : ")[2]
        if kind.startswith(_ELSEWHERE):
            continue
        if not str(owner.__module__).startswith("kdgraph."):
            if text:
                return plain(_first_sentence(text))
            continue
        if not text:  # a description behind the colon
            text = kind[:1].upper() + kind[1:]
        if text:
            return plain(_with_reference(owner, name, text))
    return ""


def _with_reference(owner: Any, name: str, text: str) -> str:
    """Return a description with the one that it refers to, of a type or by another class."""
    match = _REFERENCE.search(text)
    if match is None:
        return text
    module, _, last = match["name"].rpartition(".")
    owners = inspect.getmro(owner) if isinstance(owner, type) else (owner,)
    modules = [module] if module else [each.__module__ for each in owners]
    places = [import_module(each) for each in modules]
    place = next((place for place in places if hasattr(place, last)), places[0])
    referred = getattr(place, last, None)
    rest = match["rest"] or ""
    if not inspect.isclass(referred):
        lead, followed = text[: match.start()].strip(), _type_doc(place, last)
        sentence = f"{rest[:1].upper()}{rest[1:]}{text[match.end() :]}"
        return f"{lead}. {followed} {sentence}".removeprefix(". ") if followed else text
    inherited = _entries(referred).get(name) == _entries(owner)[name]
    followed = "" if inherited else described(referred, name)
    if not followed:
        return text
    subject = re.split(r" (?:is|are|have) ", rest)[0].removeprefix("the ")
    # Of an entry of several parameters the rest is about those whose description has its subject.
    return f"{followed} {rest[:1].upper()}{rest[1:]}" if subject in followed else followed


@cache
def _type_doc(module: Any, name: str) -> str:
    """Return the docstring below an alias of a type, without its first line if there are more."""
    body = ast.parse(inspect.getsource(module)).body
    for assigned, doc in itertools.pairwise(body):
        if isinstance(assigned, ast.Assign) and isinstance(doc, ast.Expr):
            names = [target.id for target in assigned.targets if isinstance(target, ast.Name)]
            if name in names:
                first, _, rest = inspect.cleandoc(ast.literal_eval(doc.value)).partition("\n\n")
                return rest or first
    return ""


@cache
def _entries(owner: Any) -> Mapping[str, str]:
    doc = inspect.cleandoc(getattr(owner, "__doc__", None) or "")
    return {**described_names(doc, "Attributes"), **described_names(doc)}


def _first_sentence(text: str) -> str:
    return re.split(r"\.(?:\s|$)|\n *(?:-|\.\.) ", text, maxsplit=1)[0].strip(" :\n") + "."


def plain(text: str) -> str:
    r"""Return the text of a docstring in one line, without markup, and constants as YAML has them.

    >>> plain("See :class:`~kdgraph.Gate`, or\n    ``None``.")
    'See `Gate`, or `null`.'
    """
    text = " ".join(_ROLE.sub(r"`\1`", text).replace("``", "`").split()).replace(" . ", ". ")
    return _CONSTANT.sub(lambda match: _YAML[match[0]], text)


def prose(function: Any, options: Iterable[str] | None) -> str:
    """Return the first line of a docstring, and what follows where options have no section."""
    text = re.split(r"\n\n\w+\n-{3,}\n", inspect.getdoc(function) or "", maxsplit=1)[0]
    in_prose = set(options or ()) - _entries(function).keys()
    return plain(text if in_prose else text.partition("\n\n")[0])


def rule(target: Any, name: str) -> str:
    """Return the values that a parameter may have, in the words of its error; "" for any.

    >>> from kdgraph.calibration import ScoreMap
    >>> rule(ScoreMap, "method")
    'one of isotonic, sigmoid, temperature'
    """
    try:
        check_value(name, object(), annotations_of(target).get(name, Any))
    except ParameterError as error:
        return str(error).removeprefix(f"{name} must be ").rpartition(", got ")[0]
    return ""


def meanings(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the meanings of the keys of a composed config, by dotted key.

    Parameters
    ----------
    config : mapping
        Group or key → node or value.
    """
    return {key: text for key, text in _of_run(config) if text}


def _of_run(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from kdgraph.config.run_config import FigureOptions, RunConfig
    from kdgraph.figures.run_figures import registered_figures
    from kdgraph.metrics import METRICS

    for group, node in config.items():
        if not isinstance(node, Mapping):
            yield group, described(RunConfig, group)
        for path, inner in _nodes_in(group, node):
            yield from _of_node(path, inner)
    metrics = config.get("metrics", {})
    yield from ((f"metrics.{key}", OF_RUNS.get(f"metrics.{key}", "")) for key in metrics)
    yield from _of_functions(
        (f"metrics.{rows}.{name}", METRICS.get(metric_name(name, options)), options)
        for rows, nodes in metrics.items()
        if rows != "spaces"
        for name, options in (nodes or {}).items()
    )
    figures = config.get("figures", {})
    yield from ((f"figures.{key}", described(FigureOptions, key)) for key in figures)
    yield from _of_functions(
        (f"figures.draw.{name}", registered_figures().get(name), options)
        for name, options in figures.get("draw", {}).items()
    )


def metric_name(key: str, options: Mapping[str, Any] | None) -> str:
    """Return the metric that a key selects: that of its option, or the one of its name."""
    return str((options or {}).get("metric", key))


def meaning(target: Any, path: str) -> str:
    """Return the meaning of a key of a component, and its values where they are few.

    Parameters
    ----------
    target : class, function or None
        What the component of the key names.
    path : str
        Key of the config, such as ``dataset.n_train``.
    """
    if path in OF_RUNS:
        return OF_RUNS[path]
    from kdgraph.data.sizes import SplitSizes
    from kdgraph.data.splits import make_splits

    name = path.rpartition(".")[2]
    of_rows = (SplitSizes, make_splits) if path.startswith("dataset.") else ()
    for source in filter(None, (target, *of_rows)):
        if text := described(source, name):
            values = rule(source, name)
            missing = [word for word in _WORD.findall(values) if word not in text]
            few = values.startswith("one of ") and missing
            return f"{text} {values.replace('one of', 'One of', 1)}." if few else text
    return ""


def _of_node(path: str, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the meanings of the keys of a component, and of the components in it."""
    target = target_of(node, path)
    for key, value in node.items():
        if target is not None and key not in ("name", "_target_"):
            yield f"{path}.{key}", meaning(target, f"{path}.{key}")
        for inner, nested in _nodes_in(f"{path}.{key}", value):
            yield from _of_node(inner, nested)


def _nodes_in(path: str, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if is_node(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _nodes_in(f"{path}.{key}", inner)


def _of_functions(nodes: Iterable[tuple[str, Any, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the meanings of functions and of their options, each once.

    ``nodes`` has key, function and options of each.
    """
    seen: set[tuple[Any, str]] = set()
    for path, function, options in nodes:
        for name in ("", *(options or {})) if function is not None else ():
            if (function, name) not in seen:
                seen.add((function, name))
                key = f"{path}.{name}".rstrip(".")
                yield key, described(function, name) if name else prose(function, options)
