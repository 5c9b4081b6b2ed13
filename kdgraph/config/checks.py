"""Checks of a config before its run starts.

Every key and value is checked, components fit together, and metrics and figures have their inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kdgraph.config.components import check_component, check_options, resolve_option
from kdgraph.config.data_sources import check_sources
from kdgraph.config.messages import unknown_key
from kdgraph.config.run_config import COMPONENTS, FigureOptions, RunConfig
from kdgraph.errors import ConfigError
from kdgraph.parameters import annotations_of

if TYPE_CHECKING:
    from kdgraph.base import FittedModel

_OPTIONS = Mapping[str, Any] | None


def check(config: RunConfig) -> None:
    """Import the components that a config names, build them once, and check all of it.

    Raises
    ------
    ConfigError, ParameterError
        One line that names the key, the rule and the way out.

    Examples
    --------
    >>> from kdgraph.config import check, compose, plan
    >>> check(compose(["dataset=spiral"]))
    >>> check(plan(["calibrator=isotonic", "gate=density", "gate.alpha=2"]).jobs[0].config)
    Traceback (most recent call last):
        ...
    kdgraph.errors.ParameterError: gate.alpha must be in (0, 1), got 2
    """
    from kdgraph.data.splits import split_options

    split_keys = split_options()
    for group in COMPONENTS:
        # The node of another data set, of OOD rows or of outliers, has the keys of a split too,
        # though its rows are not split.
        more = split_keys if group == "dataset" else None
        check_component(group, config.resolved(group), more, {"source": split_keys})
    check_sources(config.science())
    _check_metrics(config, _outputs_of(config.components.model))
    _check_figures(config)


def _outputs_of(model: FittedModel | None) -> set[str]:
    """Return the outputs that the parent or the method supports, and those that follow from them.

    If a function makes the parent, they are unknown before it has run: then all of them.
    """
    from kdgraph.base import OUTPUT_METHODS, FittedModel

    if model is None:
        return set(OUTPUT_METHODS)
    outputs = {
        output
        for output in OUTPUT_METHODS
        if model.supports(output) or FittedModel(model.parent).supports(output)
    }
    return outputs | ({"top_label", "ood_score"} if model.is_classifier else set())


def _check_metrics(config: RunConfig, outputs: set[str]) -> None:
    """Raise unless every metric exists, has these options, and has its inputs.

    The inputs are outputs of the parent or of the method, or belong to the rows.
    """
    from kdgraph.metrics import METRICS, check_metric, select_metric, space_option

    source, outputs = config.resolved("dataset").target, outputs | {"prior"}
    labelled = outputs | {"y", "X", "groups", "mean_abs_y"} | _truths_of(source)
    inputs = {
        "test": labelled,
        "calibration": labelled,
        "ood": outputs
        | ({"id_score"} if "ood_score" in outputs else set())
        # Without p-values, those of the OOD rows are named as missing.
        | {"id_p_value"},
        "grid": outputs | ({"truth"} if hasattr(source, "posterior_on_paper_grid") else set()),
    }
    check_options("metrics", config.metrics, dict.fromkeys([*inputs, "spaces"], _OPTIONS))
    for on, nodes in config.metrics.items():
        check_options(f"metrics.{on}", nodes or {}, dict.fromkeys(nodes or {}, _OPTIONS))
    for name, node in config.spaces.items():
        path = f"metrics.spaces.{name}"
        check_component(path, resolve_option(path, {"name": name, **node}))
    metric_of: dict[str, str] = {}
    for on, nodes in config.measures.items():
        for key, node in nodes.items():
            name, options = select_metric(key, node)
            _check_space(f"metrics.{on}.{key}", name, space_option(node), config.spaces)
            if name != (first := metric_of.setdefault(key, name)):
                raise ConfigError(
                    f"metrics.{on}.{key} is {name}, and elsewhere {first}; one of them needs"
                    " another name"
                )
            try:
                check_metric(name, inputs[on], options, source=str(config.dataset["name"]))
            except ConfigError as error:
                raise ConfigError(f"metrics.{on}: {error}") from error
            check_options(f"metrics.{on}.{key}", options, annotations_of(METRICS[name]))


def _check_space(path: str, metric: str, space: str | None, spaces: Mapping[str, Any]) -> None:
    """Raise unless a metric's feature space has a node, and the metric measures features."""
    from kdgraph.metrics import METRICS, needs

    if space is None:
        return
    if metric in METRICS and "X" not in needs(metric):
        raise ConfigError(
            f"{path}.space is for metrics that look at the rows' features, and {metric} does not;"
            " take it away"
        )
    if space not in spaces:
        names = ", ".join(spaces) or "none"
        raise ConfigError(
            f"{path}.space must be one of metrics.spaces ({names}), got {space!r};"
            " metrics=local_features has some"
        )


def _truths_of(source: Any) -> set[str]:
    """Return the inputs of metrics (:data:`kdgraph.metrics.INPUTS`) that only a simulation has."""
    methods = {"truth": "posterior", "true_distribution": "distribution"}
    return {name for name, method in methods.items() if hasattr(source, method)}


def _check_figures(config: RunConfig) -> None:
    keys = annotations_of(FigureOptions)
    check_options("figures", config.figures, keys)
    if removed := keys.keys() - config.figures:
        raise ConfigError(
            f"figures.{min(removed)} was removed, and no run can do without it; figures=none draws"
            " nothing"
        )
    check_options(
        "figures.draw", config.figures["draw"], dict.fromkeys(config.figures["draw"], _OPTIONS)
    )
    if not config.drawn:
        return
    from kdgraph.figures.run_figures import registered_figures

    figures = registered_figures()
    for name, options in config.drawn.items():
        if name not in figures:
            raise unknown_key(f"figures.draw.{name}", [f"figures.draw.{key}" for key in figures])
        check_options(
            f"figures.draw.{name}",
            options,
            {key: kind for key, kind in annotations_of(figures[name]).items() if key != "run"},
        )
