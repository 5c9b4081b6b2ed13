"""Components as config nodes: ``name``, ``_target_`` and the parameters of the class.

The class is the schema: its annotations have the types and ranges (:mod:`kdgraph.parameters`), its
signature the keys.
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
from kdgraph.extras import missing_library, needs_library
from kdgraph.parameters import allows_null, annotations_of, check_value

Node = Mapping[str, Any]
INJECTED = frozenset(
    {
        "estimator",
        "random_state",
        "n_jobs",
        "verbose",
        "report",
        "checkpoint",
        "layer_widths",
        "data_columns",
        "data_labels",
        "calibration",
        "cv",
    }
)
"""Parameters that a run sets; no config lists them."""

TOP_LEVEL_KEYS = frozenset({"dataset", "method", "metrics", "network", "ood", "parent", "protocol"})
"""Keys of the config, as messages name them without a group in front."""


def build(node: Node, **injected: Any) -> Any:
    """Return an instance of the component that ``node`` describes; None for ``_target_: null``.

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
    """Make errors about parameters name the keys of the config that set them.

    The name of a parameter in its class is ``degree=1``. What can be pasted behind a command is
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
    """Return the full key of each key in a node and its inner nodes that has a unique name."""
    full_keys: dict[str, list[str]] = {}
    nodes = [(path, node)]
    while nodes:
        prefix, values = nodes.pop()
        for key, value in values.items():
            full_keys.setdefault(str(key), []).append(f"{prefix}.{key}")
            if isinstance(value, Mapping):
                nodes.append((f"{prefix}.{key}", value))
    return {
        key: names[0]
        for key, names in full_keys.items()
        if len(names) == 1 and key not in TOP_LEVEL_KEYS
    }


def _built(value: Any, injected: Mapping[str, Any]) -> Any:
    if is_node(value):
        return build(value, **injected)
    return (
        {name: build(inner, **injected) for name, inner in value.items()}
        if are_named_nodes(value)
        else value
    )


def are_named_nodes(value: Any) -> bool:
    """Return whether a value of a config maps names to components."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(is_node(inner) for inner in value.values())
    )


def is_node(value: Any) -> bool:
    """Return whether a value of a config describes a component."""
    return isinstance(value, Mapping) and "_target_" in value


def given_options(node: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of a metric or a figure in a config.

    One of the user's own is imported by its ``_target_``, which registers its name.
    """
    if is_node(node):
        target_of(node or {})
    return {key: value for key, value in (node or {}).items() if key != "_target_"}


def target_of(node: Node, path: str = "component") -> Any:
    """Return the class or function that ``node['_target_']`` names, or None."""
    target = node.get("_target_")
    if target is None:
        return None
    module, _, name = str(target).rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        if library := missing_library(error):
            raise ConfigError(needs_library(f"{path}._target_: {target}", library)) from error
        raise ConfigError(
            f"{path}._target_: cannot import '{target}' ({error}); it must be on PYTHONPATH"
        ) from error


def parameters_of(target: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class's ``__init__`` (or of a function) that have a name.

    Those of the base class come with them if ``__init__`` passes others on, as XGBoost's does.
    """
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named: dict[str, inspect.Parameter] = {}
    for cls in target.__mro__[:-1] if isinstance(target, type) else (target,):
        if cls is not target and "__init__" not in vars(cls):
            continue
        parameters = _signature(cls).parameters
        named = {**{name: p for name, p in parameters.items() if p.kind in kinds}, **named}
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            break
    return named


@cache  # called for every point of a sweep
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
    more : annotations of keys that the node may have in addition to its class's parameters.
    inner : the same for nodes in it, at any depth, by their key.
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
    # An estimator and folds of its own belong to a class that is not fitted after a parent.
    if not hasattr(target, "calibration"):
        settable |= {"estimator", "cv"} & set(parameters) & set(node)
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
        for name, node_of_name in value.items() if are_named_nodes(value) else ():
            check_component(f"{path}.{key}.{name}", {"name": name, **node_of_name}, inner=inner)
    if target and hasattr(target, "_parameter_constraints"):
        _check_as_scikit_learn_does(path, build(node))


def check_options(
    path: str,
    options: Mapping[str, Any],
    annotations: Mapping[str, Any],
    known: Iterable[str] | None = None,
) -> None:
    """Raise unless every key is known and every value fits its annotation.

    Parameters
    ----------
    path : key of the options in the config.
    options : keys and values.
    annotations : by key.
    known : valid keys; default: those with an annotation.
    """
    known = set(annotations if known is None else known)
    for key, value in options.items():
        if key not in known:
            raise unknown_key(f"{path}.{key}", (f"{path}.{k}" for k in known))
        if key in annotations:
            check_value(f"{path}.{key}", value, annotations[key])


def _check_as_scikit_learn_does(path: str, estimator: Any) -> None:
    """Check an estimator by scikit-learn's own rules for its parameters, and raise one line."""
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
    """Return ``one of a, b`` for ``a str among {'b', 'a'}``, whose order is that of a set."""
    return re.sub(
        r"a str among \{([^}]*)\}",
        lambda match: "one of " + ", ".join(sorted(match[1].replace("'", "").split(", "))),
        rule,
    )
