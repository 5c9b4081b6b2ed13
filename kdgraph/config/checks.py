"""Whether a run can be done, asked before it starts: every key and value, what goes with what, what
can be measured and drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kdgraph.config.compatibility import unfitted
from kdgraph.config.components import check_component, check_options, is_node, target_of
from kdgraph.config.data_sources import check_outliers, ood_sets
from kdgraph.config.messages import unknown_key
from kdgraph.config.run_config import COMPONENTS, FigureOptions, RunConfig
from kdgraph.errors import ConfigError
from kdgraph.parameters import annotations_of

_OPTIONS = Mapping[str, Any] | None


def check(config: RunConfig) -> None:
    """Import what the config names and check it all; raise what is wrong in one line.

    Raises
    ------
    ConfigError, ParameterError
        One line that names the key, the rule and the way out.
    """
    from kdgraph.data.splits import split_options

    for path in COMPONENTS:
        more = split_options() if path == "dataset" else None
        # The node of another data set, of what is out of distribution or of outliers, is a whole
        # one, though it is not split.
        check_component(path, getattr(config, path), more, {"source": split_options()})
    check_outliers(config.science())
    _check_other_data("ood", config.ood, config.dataset)
    _check_metrics(config, _said_in(config))
    _check_figures(config)


def _check_other_data(path: str, ood: Mapping[str, Any], dataset: Mapping[str, Any]) -> None:
    """What is out of distribution must not be what is trained on, which can go by two names; of
    several sources, none.
    """
    for where, node in ood_sets(path, ood):
        source: Mapping[str, Any] = node.get("source") or {}
        if not is_node(source):
            continue
        if source["name"] == dataset["name"] or (
            source.get("id") is not None and source["id"] == dataset.get("id")
        ):
            what = (
                f"{where}.name={source['name']} is what dataset={dataset['name']} trains on, so its"
                " rows are in distribution"
            )
            raise ConfigError(f"{what}; choose another: 'kdg list dataset' shows them")


def _said_in(config: RunConfig) -> set[str]:
    """What parent or method can be asked, and what follows from it; of a parent that a function
    makes nobody knows before.
    """
    from kdgraph.base import OUTPUT_METHODS, FittedModel

    model = unfitted(config)
    if model is None:
        return set(OUTPUT_METHODS)
    said = {
        answer
        for answer in OUTPUT_METHODS
        for each in (model, FittedModel(model.parent))
        if each.supports(answer)
    }
    return said | ({"top_label", "ood_score"} if model.is_classifier else set())


def _check_metrics(config: RunConfig, said: set[str]) -> None:
    """Every metric exists, has these options, and parent or method give what it needs; who does not
    has no value of it.
    """
    from kdgraph.metrics import METRICS, check_metric, select_metric, space_option

    source, said = target_of(config.dataset), said | {"prior"}
    labelled = said | {"y", "X", "groups", "mean_abs_y"} | _truths_of(source)
    inputs = {
        "test": labelled,
        "calibration": labelled,
        "ood": said | ({"id_score"} if "ood_score" in said else set()),
        "grid": said | ({"truth"} if hasattr(source, "posterior_on_paper_grid") else set()),
    }
    check_options("metrics", config.metrics, dict.fromkeys([*inputs, "spaces"], _OPTIONS))
    for on, wanted in config.metrics.items():
        check_options(f"metrics.{on}", wanted or {}, dict.fromkeys(wanted or {}, _OPTIONS))
    for name, node in config.spaces.items():
        check_component(f"metrics.spaces.{name}", {"name": name, **node})
    named: dict[str, str] = {}
    for on, wanted in config.measures.items():
        for key, node in wanted.items():
            name, options = select_metric(key, node)
            _check_space(f"metrics.{on}.{key}", name, space_option(node), config.spaces)
            if name != (known := named.setdefault(key, name)):
                raise ConfigError(
                    f"metrics.{on}.{key} is {name}, and elsewhere {known}; one of them needs"
                    " another name"
                )
            try:
                check_metric(name, inputs[on], options, source=str(config.dataset["name"]))
            except ConfigError as error:
                raise ConfigError(f"metrics.{on}: {error}") from error
            check_options(f"metrics.{on}.{key}", options, annotations_of(METRICS[name]))


def _check_space(path: str, metric: str, space: str | None, spaces: Mapping[str, Any]) -> None:
    """A space has a node, and is only for metrics of the rows' features; those out of distribution
    have none.
    """
    from kdgraph.metrics import METRICS, needs

    if space is None:
        return
    if metric in METRICS and "X" not in needs(metric):
        raise ConfigError(
            f"{path}.space is for metrics that look at the rows' features, and {metric} does not;"
            " take it away"
        )
    if space not in spaces:
        known = ", ".join(spaces) or "none"
        raise ConfigError(
            f"{path}.space must be one of metrics.spaces ({known}), got {space!r};"
            " metrics=local_features has some"
        )


def _truths_of(source: Any) -> set[str]:
    """What a source knows of its rows that nobody can observe, by the names of
    :data:`kdgraph.metrics.INPUTS`.
    """
    known = {"truth": "posterior", "true_distribution": "distribution"}
    return {name for name, method in known.items() if hasattr(source, method)}


def _check_figures(config: RunConfig) -> None:
    """Every figure exists and has these options."""
    wanted = annotations_of(FigureOptions)
    check_options("figures", config.figures, wanted)
    if removed := wanted.keys() - config.figures:
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

    known = registered_figures()
    for name, options in config.drawn.items():
        if name not in known:
            raise unknown_key(f"figures.draw.{name}", [f"figures.draw.{other}" for other in known])
        check_options(
            f"figures.draw.{name}",
            options,
            {key: kind for key, kind in annotations_of(known[name]).items() if key != "run"},
        )
