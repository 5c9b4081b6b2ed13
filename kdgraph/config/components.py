"""Components as config nodes: ``name``, ``_target_`` and the parameters of that class's
``__init__``.

The class is the schema. Its annotations say the types and ranges (:mod:`kdgraph.parameters`), its
signature which keys exist.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from kdgraph.config.messages import unknown_key
from kdgraph.errors import ConfigError, ParameterError, UsageError
from kdgraph.parameters import allows_null, annotations_of, check_value

Node = Mapping[str, Any]
INJECTED = frozenset(
    {"estimator", "random_state", "n_jobs", "verbose", "report", "checkpoint", "layer_widths"}
)
"""Parameters that a run provides, or for which it has a way of its own (``verbose``); no config
lists them.
"""

GROUPS = frozenset({"dataset", "method", "metrics", "network", "ood", "parent", "protocol"})
"""Keys of the config itself, which a message means where it has them without a group in front."""


def build(node: Node, **injected: Any) -> Any:
    """Instantiate the component that ``node`` describes; ``_target_: null`` gives None.

    A parameter that is a node itself, or a mapping of nodes, is built first. ``injected`` values
    reach only a class that has a parameter of that name; keys that are no parameters of the class
    (``name``, the row counts of a data set) stay out.
    """
    target = target_of(node)
    if target is None:
        return None
    known = parameters_of(target)
    given = {key: _built(value, injected) for key, value in node.items() if key in known}
    return target(**given, **{key: value for key, value in injected.items() if key in known})


@contextmanager
def errors_by_key(path: str, node: Node) -> Iterator[None]:
    """Let errors about parameters name the keys of the config that set them.

    A class knows its parameter as ``degree=1``. What can be pasted behind a command is
    ``recalibrator.degree=1``.

    Parameters
    ----------
    path : key of ``node`` in the config, such as ``recalibrator``.
    node : what is built or fitted inside the block.
    """
    try:
        yield
    except UsageError as error:
        keys = _unique_keys(path, node)
        named = re.sub(
            r"(?<![\w.=/])([a-z]\w*)(?=[\w.]*=)",
            lambda word: keys.get(word[1], word[1]),
            str(error),
        )
        error.args = (named,)
        raise


def _unique_keys(path: str, node: Node) -> dict[str, str]:
    """Return each key of a node and of nodes in it, with its full key, unless two have the same
    name.
    """
    found: dict[str, list[str]] = {}
    inside = [(path, node)]
    while inside:
        where, values = inside.pop()
        for key, value in values.items():
            found.setdefault(str(key), []).append(f"{where}.{key}")
            if isinstance(value, Mapping):
                inside.append((f"{where}.{key}", value))
    return {key: paths[0] for key, paths in found.items() if len(paths) == 1 and key not in GROUPS}


def _built(value: Any, injected: Mapping[str, Any]) -> Any:
    if is_node(value):
        return build(value, **injected)
    return (
        {name: build(inner, **injected) for name, inner in value.items()}
        if are_named_nodes(value)
        else value
    )


def are_named_nodes(value: Any) -> bool:
    """Whether a value of a config maps names to components."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(is_node(inner) for inner in value.values())
    )


def is_node(value: Any) -> bool:
    """Whether a value of a config describes a component."""
    return isinstance(value, Mapping) and "_target_" in value


def given_options(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Options of a metric or a figure in a config; one that is not ours is imported by its
    ``_target_``, and known by its name then.
    """
    if is_node(node):
        target_of(node or {})
    return {key: value for key, value in (node or {}).items() if key != "_target_"}


def target_of(node: Node, path: str = "component") -> Any:
    """The class or function that ``node['_target_']`` names, or None."""
    where = node.get("_target_")
    if where is None:
        return None
    module, _, name = str(where).rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(
            f"{path}._target_: cannot import '{where}' ({error}); it must be on PYTHONPATH"
        ) from error


def parameters_of(target: Any) -> dict[str, inspect.Parameter]:
    """Parameters of a class's ``__init__`` (or of a function) that can be given by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {name: p for name, p in _signature(target).parameters.items() if p.kind in kinds}


@cache  # every point of a sweep asks
def _signature(target: Any) -> inspect.Signature:
    return inspect.signature(target)


def check_component(
    path: str,
    node: Any,
    more: Mapping[str, Any] | None = None,
    inner: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Raise a one-line error unless ``node`` is a component that can be built.

    Parameters
    ----------
    path : its key in the config, such as ``parent``.
    node : the resolved node.
    more : annotations of further keys that the node may have beside the parameters of its class.
    inner : the same of nodes in it, however deep, by the key that they have.
    """
    if not isinstance(node, Mapping) or not isinstance(node.get("name"), str):
        raise ConfigError(
            f"{path} must be the name of one of its options, got {node!r}; 'kdg list {path}' shows"
            " them"
        )
    if not re.fullmatch(r"[\w.-]+", node["name"]):
        raise ConfigError(
            f"{path}.name must be made of letters, digits, '_', '-' and '.', got {node['name']!r}"
        )
    target = target_of(node, path)
    annotations = {**(annotations_of(target) if target else {}), **(more or {})}
    parameters = parameters_of(target) if target else {}
    settable = set(parameters) - INJECTED
    for key in (
        key
        for key, parameter in parameters.items()
        if key in settable and parameter.default is inspect.Parameter.empty
    ):
        if key not in node:
            raise ConfigError(
                f"{path}.{key} is missing, and {node['_target_']} has no default for it; add"
                f" +{path}.{key}=…"
            )
        if node[key] is None and not allows_null(annotations.get(key, Any)):
            raise ConfigError(
                f"{path}.{key} is missing, and no run can do without it; add {path}.{key}=…"
            )
    check_options(
        path,
        {k: v for k, v in node.items() if k not in ("name", "_target_")},
        annotations,
        settable | set(more or {}),
    )
    for key, value in node.items():
        if is_node(value):
            check_component(f"{path}.{key}", {"name": key, **value}, (inner or {}).get(key), inner)
        for name, of_name in value.items() if are_named_nodes(value) else ():
            check_component(f"{path}.{key}.{name}", {"name": name, **of_name}, inner=inner)
    if target and hasattr(target, "_parameter_constraints"):
        _check_as_scikit_learn_does(path, build(node))


def check_options(
    path: str,
    options: Mapping[str, Any],
    annotations: Mapping[str, Any],
    known: Iterable[str] | None = None,
) -> None:
    """Check keys against ``known`` (default: what is annotated) and values against
    ``annotations``.
    """
    known = set(annotations if known is None else known)
    for key, value in options.items():
        if key not in known:
            raise unknown_key(f"{path}.{key}", (f"{path}.{k}" for k in known))
        if key in annotations:
            check_value(f"{path}.{key}", value, annotations[key])


def _check_as_scikit_learn_does(path: str, estimator: Any) -> None:
    """Ask scikit-learn for its own parameter rules and say what it says in our words."""
    try:
        estimator._validate_params()
    except ValueError as error:
        match = re.fullmatch(
            r"The '(\w+)' parameter of \w+ must be (.*)\. Got (.*) instead\.", str(error), re.DOTALL
        )
        if not match:
            raise ParameterError(f"{path}: {error}") from error
        raise ParameterError(
            f"{path}.{match[1]} must be {_ordered(match[2])}, got {match[3]}"
        ) from error


def _ordered(rule: str) -> str:
    """``a str among {'b', 'a'}``, whose order changes from process to process, as ``one of a,
    b``.
    """
    return re.sub(
        r"a str among \{([^}]*)\}",
        lambda found: "one of " + ", ".join(sorted(found[1].replace("'", "").split(", "))),
        rule,
    )
