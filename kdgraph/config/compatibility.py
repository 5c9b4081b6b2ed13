"""Components that fit together: a parent with its rows, and each component with the one below it.

The classes of the components decide: by the methods that they have, by scikit-learn's tags, by
``required_method``, the method that a component needs of the one below it, and by
``required_partition``, the kind of its partition. A component with ``takes_groups`` needs the group
of each row, which no component above it can pass on. What follows from classes is refused before a
run starts; the rest once the rows are read, still before anything is fitted.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kdgraph.config.components import Node, errors_by_key, target_of
from kdgraph.config.models import unfitted_model, upstream_of
from kdgraph.config.run_config import RunConfig
from kdgraph.errors import ConfigError
from kdgraph.quoting import override

if TYPE_CHECKING:
    from kdgraph.base import FittedModel
    from kdgraph.data.dataset import Dataset
    from kdgraph.parameters import RequiredPartition

Task = Literal["classification", "regression"]
_RESULT_OF = {"predict_proba": "class probabilities", "predict_dist": "predictive distributions"}
"""Method of a parent → its result, in words."""
_PARENT_WITH = {
    "forest": "parent=random_forest",
    "network": "parent=mlp",
    "trees": "parent=random_forest or parent=hist_gradient_boosting",
}
"""Required partition → override that chooses a parent with it."""
_NEEDED_PARTITION = {"forest": "a forest", "network": "a network", "trees": "trees"}
"""Required partition → its name in messages."""
FOR_REGRESSION = "method=local_pit"
"""Override that chooses a method for regression."""


def check_model(config: RunConfig, model: FittedModel) -> None:
    """Raise ConfigError unless the components of a model go together, and with the data set.

    ``model`` is that of :func:`~kdgraph.config.models.unfitted_model`.
    """
    parent = model.parent
    if is_fitted_elsewhere(parent):
        with errors_by_key("parent", config.parent):
            parent.check_file()
    check_fitted_parent(config, parent)
    after: dict[str, Any] = {}
    if config.calibration == "cross_fit":
        check_can_be_cloned(config.parent, parent)
    source = config.component("dataset").build()
    check_task(config.parent, parent, str(config.dataset["name"]), task_of(source))
    check_parent_protocol(config, parent)
    for group, component in model.post_hoc.items():
        node, (below, upstream) = config.after[group], upstream_of(group, parent, after)
        if group != "conformal":
            check_calibration(group, node, component, parent, config)
        check_upstream(
            group, node, component, upstream, f"{below}={getattr(config, below)['name']}"
        )
        check_fitted_partition(group, node, component, parent)
        check_protocol(group, node, component, config.protocol)
        check_ood_rows(group, node, component, config)
        after[group] = component
    check_protocol_matters(config, parent, after)


def is_fitted_elsewhere(parent: Any) -> bool:
    """Return whether a parent is a model from a file, which is not trained here."""
    return hasattr(parent, "check_file")


def check_fitted_parent(config: RunConfig, parent: Any) -> None:
    """Raise :class:`ConfigError` for what a model from a file cannot follow or be followed by.

    Its rows must be in the units that it was fitted on, and a kernel density graph needs its own
    partition: that of another forest would replace its probabilities instead of repairing them.
    """
    if not is_fitted_elsewhere(parent):
        return
    from kdgraph.parents import Preprocess

    name = f"parent={config.parent['name']}"
    if config.dataset.get("scale", "none") != "none":
        raise ConfigError(
            f"dataset.scale={config.dataset['scale']} changes the rows, and {name} takes them as"
            " they are in the data; give dataset.scale=none"
        )
    if config.component("preprocess").build() != Preprocess():
        raise ConfigError(
            f"preprocess={config.preprocess['name']} encodes rows for a parent that is fitted here,"
            f" and {name} takes them as they are; leave preprocess=default"
        )
    for key, target in _targets_in(config.calibrator, "calibrator"):
        kinds = _partitions_of_graph(target)
        if kinds and parent.own_partition() not in kinds:
            needed = "trees" if "forest" in kinds else "a network"
            shown = f"={config.calibrator['name']}" if key == "calibrator" else ""
            raise ConfigError(
                f"{key}{shown} needs the partition of {needed}, which cannot be read of the model"
                f" in {parent.path}; choose method=gated_isotonic, method=isotonic or another"
                " calibrator"
            )


def _partitions_of_graph(target: str) -> tuple[str, ...]:
    """Return the kinds of partitions of a kernel density graph, none of another component."""
    if not target.startswith("kdgraph.density."):
        return ()
    from kdgraph.density.classifiers import GraphClassifier

    graph = target_of({"_target_": target})
    if not (inspect.isclass(graph) and issubclass(graph, GraphClassifier)):
        return ()
    return ("network",) if graph.required_partition == "network" else ("forest", "boosted")


def _targets_in(node: Node, key: str) -> Iterator[tuple[str, str]]:
    if "_target_" in node:
        yield key, str(node["_target_"])
    for name, value in node.items():
        if isinstance(value, Mapping):
            yield from _targets_in(value, f"{key}.{name}")


def check_fitted_partition(group: str, node: Node, component: Any, parent: Any) -> None:
    """Raise :class:`ConfigError` for a component that needs another partition than the model's.

    Where a model from a file has none that can be read, a forest takes its place.
    """
    required = getattr(component, "required_partition", None)
    if not is_fitted_elsewhere(parent) or required is None:
        return
    from kdgraph.geometry import KIND_NAMES

    kind = parent.own_partition()
    if (kind or "forest") not in _suitable_kinds(required):
        what = f"is {KIND_NAMES[kind]}" if kind else "is no network whose layers can be read"
        raise ConfigError(
            f"{group}={node['name']} needs the partition of {_NEEDED_PARTITION[required]}, and the"
            f" model in {parent.path} {what}; choose another {group}"
        )


def uses_training_rows(config: RunConfig) -> bool:
    """Return whether training rows have a use: something is fitted on them.

    A model from a file needs none. Components that estimate a density need them, local calibration
    may need a forest of its own where the model has no partition, and the errors of a regressor
    without distributions have to be measured. Raises ConfigError if a model from a file and the
    other components do not go together: rows are read next.
    """
    if not hasattr(config.component("parent").target, "check_file"):
        return True
    from kdgraph.base.posthoc import any_requires_training_rows

    model = unfitted_model(config)
    if model is None:
        return True
    check_model(config, model)
    if any_requires_training_rows(model.post_hoc.values()) or model.parent.needs_errors():
        return True
    return not model.parent.has_partition() and any(
        uses_locations(component) for component in model.post_hoc.values()
    )


def uses_locations(component: Any) -> bool:
    """Return whether a component that estimates no density compares locations of rows."""
    return hasattr(component, "features") or getattr(component, "kernel", None) == "geodesic"


def calibrates_on_all_rows(parent: Any, calibrator: Any) -> bool:
    """Return whether rows that train may calibrate, too.

    To a model from a file all rows are new. Rows that give the density of a gate have no part in a
    calibrator that neither has a density nor compares locations, so that all of them calibrate it.
    """
    from kdgraph.base.posthoc import any_requires_training_rows

    return (
        is_fitted_elsewhere(parent)
        and not any_requires_training_rows([calibrator])
        and not uses_locations(calibrator)
        and getattr(calibrator, "calibration", "held_out") == "held_out"
    )


def falls_back_to_prior(config: RunConfig) -> bool:
    """Return whether probabilities tend to the class prior far from the training data.

    Those of a density gate and of a kernel density graph with a floor do.
    """
    if config.gate.get("_target_") is not None:
        return True
    has_floor = config.calibrator.get("alpha", 0.0) is not None
    return has_floor and bool(_partitions_of_graph(str(config.calibrator.get("_target_"))))


def _suitable_kinds(required: RequiredPartition) -> tuple[str, ...]:
    return ("forest", "boosted") if required == "trees" else (required,)


def task_of(source: Any) -> Task | None:
    """Return the task of a source; None where only its rows decide it."""
    from kdgraph.data.dataset import Simulation

    if isinstance(source, Simulation):
        return "classification" if len(source.classes) else "regression"
    task = getattr(source, "task", None)
    return task if task in ("classification", "regression") else None


def _as_classes(train: Dataset) -> str:
    """Return the remedy for whole numbers that could be classes; "" for other targets."""
    if "whole_values" not in train.facts:
        return ""
    return (
        f"{override('dataset.task', 'classification')} takes its {train.facts['whole_values']:,}"
        " whole numbers as classes; else "
    )


def check_task(
    parent: Node, estimator: Any, dataset: str, task: Task | None, as_classes: str = ""
) -> None:
    """Raise ConfigError for a classifier on a regression, or the other way round.

    ``estimator`` is what the node of the parent describes. The task is None where it is unknown.
    ``as_classes`` is the beginning of the way out, or "".
    """
    is_classifier, is_regressor = (
        hasattr(estimator, method) for method in ("predict_proba", "predict_dist")
    )
    if task == "regression" and not is_regressor:
        no_distributions = "predicts no distributions (it has no predict_dist)"
        raise ConfigError(
            f"dataset={dataset} is for regression, and parent={parent['name']}"
            f" {'is a classifier' if is_classifier else no_distributions}; {as_classes}choose a"
            f" data set with classes, or what is for regression: {FOR_REGRESSION}"
        )
    if task == "classification" and not is_classifier:
        no_probabilities = "predicts no probabilities (it has no predict_proba)"
        raise ConfigError(
            f"dataset={dataset} has classes, and parent={parent['name']}"
            f" {'is for regression' if is_regressor else no_probabilities}; choose another, such as"
            " parent=random_forest"
        )


def check_rows(parent: Node, estimator: Any, train: Dataset) -> None:
    """Raise :class:`ConfigError` for a parent that cannot be fitted on such rows."""
    from kdgraph.parents import PrecomputedScores

    name = f"parent={parent['name']}"
    if train.has_scores and not isinstance(estimator, PrecomputedScores):
        raise ConfigError(
            f"dataset={train.name} has class scores and nothing to train on; choose parent=scores"
        )
    if isinstance(estimator, PrecomputedScores) and not train.has_scores:
        raise ConfigError(
            f"dataset={train.name} has rows to train on, and {name} trains nothing; choose"
            " parent=random_forest"
        )
    check_task(parent, estimator, train.name, train.task, _as_classes(train))
    if train.are_images and not takes(estimator, "three_d_array"):
        flat = ", or vectors of pixels: dataset.flat=true" if "flat" in train.facts else ""
        raise ConfigError(
            f"dataset={train.name} has images, and {name} takes vectors; choose a network:"
            f" parent=cnn{flat}"
        )
    if not train.are_images and not takes(estimator, "two_d_array"):
        raise ConfigError(
            f"dataset={train.name} has vectors, and {name} takes images; choose another: parent=mlp"
        )


def takes(estimator: Any, kind: Literal["two_d_array", "three_d_array"]) -> bool:
    """Return scikit-learn's tag of that name: ``X`` may have two axes, or more.

    An estimator without tags, or one that validates nothing, accepts both.
    """
    if not hasattr(estimator, "__sklearn_tags__"):
        return True
    tags = estimator.__sklearn_tags__()
    return tags.no_validation or getattr(tags.input_tags, kind)


def check_can_be_cloned(node: Node, parent: Any) -> None:
    """Raise ConfigError for a parent that learns nothing from rows, so that folds are pointless."""
    if not getattr(parent, "learns_from_rows", True):
        raise ConfigError(
            f"calibration=cross_fit fits the parent on folds, and parent={node['name']} trains"
            " nothing; choose calibration=held_out"
        )


def check_calibration(
    group: str, node: Node, component: Any, parent: Any, config: RunConfig
) -> None:
    """Raise ConfigError for a component that cannot be calibrated in the way of the config."""
    from kdgraph.base.frozen import is_bagged

    way = f"calibration={config.calibration}"
    if config.calibration == "held_out":
        return
    if config.protocol == "paper" and getattr(component, "paper_protocol", None) is not None:
        raise ConfigError(
            f"protocol=paper fits {group}={node['name']} on test or OOD rows, and {way} on training"
            " rows; choose calibration=held_out"
        )
    if not hasattr(component, "calibration"):
        raise ConfigError(
            f"{group}={node['name']} is calibrated on held-out rows only; choose"
            " calibration=held_out"
        )
    takes_oob = getattr(component, "takes_out_of_bag_outputs", lambda: False)()
    if config.calibration == "oob" and takes_oob and not is_bagged(parent):
        raise ConfigError(
            f"{way} needs a forest with bootstrap=true, and parent={config.parent['name']} is none;"
            " choose calibration=cross_fit or held_out, or parent=random_forest"
        )


def check_protocol(group: str, node: Node, component: Any, protocol: str) -> None:
    """Raise ConfigError for a component that needs test rows, unless ``protocol=paper``."""
    if protocol != "paper" and getattr(component, "paper_protocol", None) == "transductive":
        raise ConfigError(
            f"{group}={node['name']} embeds the rows to predict together with those it is fitted"
            f" on, so it sees test rows; set protocol=paper, or choose another map:"
            f" {group}.features.reduce=pca"
        )


def check_parent_protocol(config: RunConfig, parent: Any) -> None:
    """Raise ConfigError for a parent that trains on the rows to predict where it must not.

    It may with ``protocol=paper``, and no row can then calibrate with outputs of parents of folds.
    """
    if getattr(parent, "paper_protocol", None) is None:
        return
    name = f"parent={config.parent['name']}"
    if config.protocol != "paper":
        raise ConfigError(
            f"{name} trains its encoder on the rows to predict, so it sees test rows; set"
            " protocol=paper, or parent.encoder.unlabelled_epochs=0"
        )
    if config.calibration != "held_out":
        raise ConfigError(
            f"{name} trains its encoder on the rows to predict, and"
            f" calibration={config.calibration} on training rows; choose calibration=held_out"
        )


def trains_on_unlabelled(config: RunConfig) -> bool:
    """Return whether the parent is trained on test and OOD rows too, as in its paper."""
    parent = config.component("parent")
    if config.protocol != "paper" or not inspect.isclass(parent.target):
        return False
    return getattr(parent.build(), "paper_protocol", None) is not None


def check_protocol_matters(config: RunConfig, parent: Any, after: Mapping[str, Any]) -> None:
    """Raise ConfigError for ``protocol=paper`` if no component is fitted otherwise under it.

    The run would have the numbers of ``protocol=strict``, and every table would mark it as fitted
    on test rows. The parent alone, the baseline of a sweep over calibrators, is not refused, and
    nor are scores of a file: its features, such as a t-SNE, may have been fitted on test rows.
    """
    if config.protocol != "paper" or not after:
        return
    from kdgraph.parents import PrecomputedScores

    if isinstance(parent, PrecomputedScores):
        return
    components = (parent, *after.values())
    if all(getattr(component, "paper_protocol", None) is None for component in components):
        choices = " ".join(f"{group}={getattr(config, group)['name']}" for group in after)
        raise ConfigError(
            "protocol=paper fits components on test or OOD rows where their paper does, and that of"
            f" {choices} does not; leave protocol=strict"
        )


def is_fitted_with_ood(config: RunConfig) -> bool:
    """Return whether a component is fitted with the OOD rows of the run, as in its paper."""
    return config.protocol == "paper" and any(
        getattr(config.component(group).target, "paper_protocol", None) == "ood"
        for group in config.after
    )


def check_ood_rows(group: str, node: Node, component: Any, config: RunConfig) -> None:
    """Raise ConfigError for a component that needs OOD rows, or that cannot predict any.

    The first kind is fitted with OOD rows in its paper. The second kind embeds the rows that it
    predicts together with those that it is fitted on.
    """
    if (
        is_fitted_with_ood(config)
        and component.paper_protocol == "ood"
        and config.component("ood").target is None
    ):
        raise ConfigError(
            f"{group}={node['name']} is fitted with rows out of distribution under protocol=paper,"
            f" and ood={config.ood['name']} has none; choose some, such as ood=noise, or leave"
            " protocol=strict"
        )
    if getattr(component, "paper_protocol", None) != "transductive":
        return
    ways_out = {
        "ood=none": config.component("ood").target is not None,
        "metrics=top_label": bool(config.metrics.get("grid")),
    }
    if overrides := [override for override, is_needed in ways_out.items() if is_needed]:
        raise ConfigError(
            f"{group}={node['name']} predicts no rows that were not embedded with the calibration"
            " rows, such as those out of distribution or on a grid; choose"
            f" {' '.join(overrides)}"
        )


def check_upstream(group: str, node: Node, component: Any, upstream: Any, choice: str) -> None:
    """Raise ConfigError for a component that does not fit the one that it is fitted on.

    It may need a method, such as ``predict_proba``, a kind of partition, or the groups of rows.
    ``choice`` is the override that chose ``upstream``: ``parent=mlp``.
    """
    from kdgraph.geometry import KIND_NAMES, partition_kind

    needed = getattr(component, "required_method", None)
    if needed == "predict_proba" and getattr(upstream, "takes_groups", False):
        raise ConfigError(
            f"{choice} needs the group of each row, and {group}={node['name']} does not pass it on;"
            f" choose {group}=none, or a calibrator that treats no group apart: calibrator=isotonic"
        )
    if needed is not None and not hasattr(upstream, needed):
        what = _RESULT_OF.get(needed, needed)
        fill = (
            f", or {choice.partition('=')[0]}.fill_proba=true"
            if hasattr(upstream, "fill_proba")
            else ""
        )
        is_regressor = group == "calibrator" and hasattr(upstream, "predict_dist")
        way_out = f", or what is for regression: method=linear {choice}" if is_regressor else fill
        raise ConfigError(
            f"{group}={node['name']} needs {what}, and {choice} predicts none; choose"
            f" {group}=none{way_out}"
        )
    required, kind = getattr(component, "required_partition", None), partition_kind(upstream)
    if required is not None and kind is not None and kind not in _suitable_kinds(required):
        raise ConfigError(
            f"{group}={node['name']} needs the partition of {_NEEDED_PARTITION[required]}, and"
            f" {choice} is {KIND_NAMES[kind]}; choose {_PARENT_WITH[required]}"
        )
