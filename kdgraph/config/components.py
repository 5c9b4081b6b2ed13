"""Components as config nodes: ``name``, ``_target_`` and the parameters of the class.

The class is the schema: its annotations have the types and ranges (:mod:`kdgraph.parameters`), its
signature the keys. A node is resolved to its class once, is checked, and builds what it describes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, TypeGuard

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


@dataclass(frozen=True, eq=False)
class ResolvedNode:
    """A node of a config, whose class and those of the nodes in it are imported.

    ``inner`` maps parameters, or names, to resolved nodes.
    """

    node: Node
    target: Any
    inner: Mapping[str, ResolvedNode | Mapping[str, ResolvedNode]]

    def build(self, **injected: Any) -> Any:
        """Return an instance; None for ``_target_: null``.

        ``injected`` values reach only a class that has a parameter of that name, nodes in this one
        too; keys that are no parameters of the class (``name``, the row counts of a data set) stay
        out.
        """
        if self.target is None:
            return None
        known = parameters_of(self.target)
        given = {key: self._built(key, injected) for key in self.node if key in known}
        return self.target(
            **given, **{key: value for key, value in injected.items() if key in known}
        )

    def _built(self, key: str, injected: Mapping[str, Any]) -> Any:
        inner = self.inner.get(key)
        if inner is None:
            return self.node[key]
        if isinstance(inner, ResolvedNode):
            return inner.build(**injected)
        return {name: node.build(**injected) for name, node in inner.items()}


def resolve(node: Node, path: str = "component") -> ResolvedNode:
    """Return a node with its class, and those of the nodes that are parameters of the class.

    A ``_target_`` that cannot be imported raises ConfigError with its key, which begins with
    ``path``.
    """
    target = target_of(node, path)
    inner: dict[str, ResolvedNode | Mapping[str, ResolvedNode]] = {}
    for key in parameters_of(target) if target is not None else ():
        value = node.get(key)
        if is_node(value):
            inner[key] = resolve(value, f"{path}.{key}")
        elif are_named_nodes(value):
            inner[key] = {
                name: resolve(nested, f"{path}.{key}.{name}") for name, nested in value.items()
            }
    return ResolvedNode(node, target, inner)


def resolve_option(group: str, node: Any) -> ResolvedNode:
    """Return the resolved node of a group; ConfigError if it has no name for files and tables."""
    _check_name(group, node)
    return resolve(node, group)


def build(node: Node, **injected: Any) -> Any:
    """Return an instance of the component that ``node`` describes; None for ``_target_: null``."""
    return resolve(node).build(**injected)


@contextmanager
def errors_by_key(path: str, node: Node) -> Iterator[None]:
    """Make errors about parameters name the keys of the config that set them.

    The name of a parameter in its class is ``degree=1``. What can be pasted behind a command is
    ``recalibrator.degree=1``, where ``path`` is ``recalibrator``, the key of ``node``.
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


def are_named_nodes(value: Any) -> TypeGuard[Mapping[str, Node]]:
    """Return whether a value of a config maps names to components."""
    return (
        isinstance(value, Mapping)
        and bool(value)
        and all(is_node(inner) for inner in value.values())
    )


def is_node(value: Any) -> TypeGuard[Node]:
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
        is_of_paper = module.startswith("experiments.")
        way_out = "run kdg in a checkout of kdgraph" if is_of_paper else "it must be on PYTHONPATH"
        raise ConfigError(
            f"{path}._target_: cannot import '{target}' ({error}); {way_out}"
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
    component: ResolvedNode,
    more: Mapping[str, Any] | None = None,
    inner: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Raise a one-line error unless the component at the key ``path`` can be built.

    ``more`` has annotations of keys that the node may have in addition to its class's parameters;
    ``inner`` the same for nodes in it, at any depth, by their key.
    """
    node, target = component.node, component.target
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
    for key, value in component.inner.items():
        is_one = isinstance(value, ResolvedNode)
        nested = {key: value} if is_one else value
        for name, of_name in nested.items():
            key_of_name = f"{path}.{key}" if is_one else f"{path}.{key}.{name}"
            _check_name(key_of_name, {"name": name, **of_name.node})
            extra = (inner or {}).get(key) if is_one else None
            check_component(key_of_name, of_name, extra, inner)
    if target and hasattr(target, "_parameter_constraints"):
        _check_as_scikit_learn_does(path, component.build())


def _check_name(path: str, node: Any) -> None:
    if not isinstance(node, Mapping) or not isinstance(node.get("name"), str):
        raise ConfigError(
            f"{path} must be the name of one of its options, got {node!r}; 'kdg list {path}' shows"
            " them"
        )
    if not re.fullmatch(r"[\w.-]+", node["name"]):
        raise ConfigError(
            f"{path}.name must be made of letters, digits, '_', '-' and '.', got {node['name']!r}"
        )


def check_options(
    path: str,
    options: Mapping[str, Any],
    annotations: Mapping[str, Any],
    known: Iterable[str] | None = None,
) -> None:
    """Raise unless every key is known and every value fits its annotation.

    ``path`` is the key of the options in the config. Keys with an annotation are known by default.
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
