"""What goes with what: a parent with its rows, and each part with what it stands on.

Parts say it themselves: by the methods that they have, by scikit-learn's tags, by ``required_method``,
the method that a part needs of its parent, and by ``required_partition``, the kind that it must be; a ground
says by ``takes_groups`` that it is told whom a row belongs to, and what stands on it has no way to
tell it. What is known of classes is refused before a run starts; the rest once the rows are there,
still before anything is fitted.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from kdgraph.config.components import Node, build, errors_by_key, target_of
from kdgraph.config.run_config import RunConfig
from kdgraph.errors import ConfigError
from kdgraph.quoting import override

if TYPE_CHECKING:
    from kdgraph.base import FittedModel
    from kdgraph.data.dataset import Dataset

Task = Literal["classification", "regression"]
_GIVES = {"predict_proba": "class probabilities", "predict_dist": "predictive distributions"}
"""Method of a parent → what it gives, in words."""
_SUCH = {"forest": "parent=random_forest", "network": "parent=mlp"}
FOR_REGRESSION = "method=local_pit"


def unfitted(config: RunConfig) -> FittedModel | None:
    """The model that a config describes, of parts that go together and are not fitted; None where a
    function makes the parent.

    Such a function may read a file or train: it is called when the run needs what it makes.
    """
    from kdgraph.base import FittedModel

    if not inspect.isclass(target_of(config.parent)):
        return None
    with errors_by_key("parent", config.parent):
        parent = build(config.parent)
    after: dict[str, Any] = {}
    check_task(config.parent, parent, str(config.dataset["name"]), task_of(build(config.dataset)))
    for group, node in config.after.items():
        below, ground = ground_of(group, parent, after)
        with errors_by_key(group, node):
            part = build(node, estimator=ground)
        if part is not None:
            check_ground(group, node, part, ground, f"{below}={getattr(config, below)['name']}")
            check_protocol(group, node, part, config.protocol)
            check_sets(group, node, part, config)
            after[group] = part
    return FittedModel(parent, after)


def ground_of(group: str, parent: Any, after: Mapping[str, Any]) -> tuple[str, Any]:
    """What the part of a group stands on, with its own group: the gate on the calibrator, if there
    is one, all others on the parent.
    """
    return (
        ("calibrator", after["calibrator"])
        if group == "gate" and "calibrator" in after
        else ("parent", parent)
    )


def task_of(source: Any) -> Task | None:
    """What a source says of its rows before it has any; None where only they can tell."""
    from kdgraph.data.dataset import Simulation

    if isinstance(source, Simulation):
        return "classification" if len(source.classes) else "regression"
    said = getattr(source, "task", None)
    return said if said in ("classification", "regression") else None


def _as_classes(train: Dataset) -> str:
    """Return the remedy for whole numbers that are a regression only because they have many values;
    empty for any other.
    """
    if "whole_values" not in train.facts:
        return ""
    return (
        f"{override('dataset.task', 'classification')} takes its {train.facts['whole_values']:,}"
        " whole numbers as classes; else "
    )


def check_task(
    parent: Node, estimator: Any, dataset: str, task: Task | None, as_classes: str = ""
) -> None:
    """Raise :class:`ConfigError` for a classifier on a regression, or the other way round;
    ``as_classes`` begins the way out.
    """
    name, is_classifier = f"parent={parent['name']}", hasattr(estimator, "predict_proba")
    if task == "regression" and not hasattr(estimator, "predict_dist"):
        what = (
            "is a classifier"
            if is_classifier
            else "predicts no distributions (it has no predict_dist)"
        )
        remedy = (
            f"{as_classes}choose a data set with classes, or what is for regression:"
            f" {FOR_REGRESSION}"
        )
        raise ConfigError(f"dataset={dataset} is for regression, and {name} {what}; {remedy}")
    if task == "classification" and not is_classifier:
        what = (
            "is for regression"
            if hasattr(estimator, "predict_dist")
            else "predicts no probabilities (it has no predict_proba)"
        )
        raise ConfigError(
            f"dataset={dataset} has classes, and {name} {what}; choose another, such as"
            " parent=random_forest"
        )


def check_rows(parent: Node, estimator: Any, train: Dataset) -> None:
    """Raise :class:`ConfigError` for a parent that cannot learn from such rows."""
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
    """Whether X may have two axes, or more, as scikit-learn's tag of that name says; who has no
    tags, or checks nothing, takes all.
    """
    if not hasattr(estimator, "__sklearn_tags__"):
        return True
    tags = estimator.__sklearn_tags__()
    return tags.no_validation or getattr(tags.input_tags, kind)


def check_protocol(group: str, node: Node, part: Any, protocol: str) -> None:
    """Raise :class:`ConfigError` for a part that has to see the test rows, as its paper shows them
    to it, without ``protocol=paper``.
    """
    if protocol != "paper" and getattr(part, "paper_protocol", None) == "transductive":
        what = (
            f"{group}={node['name']} embeds the rows to predict together with those it is fitted on"
        )
        raise ConfigError(
            f"{what}, so it sees test rows; say protocol=paper, or choose another map:"
            f" {group}.features.reduce=pca"
        )


def asks_ood(config: RunConfig) -> bool:
    """Whether a part is fitted with the run's rows out of distribution, as its paper does."""
    return config.protocol == "paper" and any(
        getattr(target_of(node), "paper_protocol", None) == "ood" for node in config.after.values()
    )


def check_sets(group: str, node: Node, part: Any, config: RunConfig) -> None:
    """Raise :class:`ConfigError` for a part that has no place for rows beside those of the data
    set, where it is asked about such; or that its paper fits with rows out of distribution, where
    there are none.
    """
    if asks_ood(config) and part.paper_protocol == "ood" and target_of(config.ood) is None:
        what = (
            f"{group}={node['name']} is fitted with rows out of distribution under protocol=paper,"
            f" and ood={config.ood['name']} has none"
        )
        raise ConfigError(f"{what}; choose some, such as ood=noise, or leave protocol=held_out")
    if getattr(part, "paper_protocol", None) != "transductive":
        return
    others = {
        "ood=none": target_of(config.ood) is not None,
        "metrics=top_label": bool(config.metrics.get("grid")),
    }
    if asked := [name for name, is_asked in others.items() if is_asked]:
        what = (
            f"{group}={node['name']} says nothing of rows that were not embedded with the"
            " calibration rows"
        )
        raise ConfigError(
            f"{what}, such as those out of distribution or on a grid; choose {' '.join(asked)}"
        )


def check_ground(group: str, node: Node, part: Any, ground: Any, called: str) -> None:
    """Raise :class:`ConfigError` for a part that needs what its ground, ``called`` so, does not
    give or is not.
    """
    from kdgraph.geometry import partition_kind

    needed = getattr(part, "required_method", None)
    if needed == "predict_proba" and getattr(ground, "takes_groups", False):
        what = (
            f"{called} wants to know the group of each row, and {group}={node['name']} does not"
            " tell it"
        )
        raise ConfigError(
            f"{what}; choose {group}=none, or a calibrator that treats no group apart:"
            " calibrator=isotonic"
        )
    if needed is not None and not hasattr(ground, needed):
        what = _GIVES.get(needed, needed)
        fill = (
            f", or {called.partition('=')[0]}.fill_proba=true"
            if hasattr(ground, "fill_proba")
            else ""
        )
        of_regression = group == "calibrator" and hasattr(ground, "predict_dist")
        more = f", or what is for regression: method=linear {called}" if of_regression else fill
        raise ConfigError(
            f"{group}={node['name']} needs {what}, and {called} gives none; choose"
            f" {group}=none{more}"
        )
    wanted, kind = getattr(part, "required_partition", None), partition_kind(ground)
    if wanted is not None and kind is not None and wanted != kind:
        raise ConfigError(
            f"{group}={node['name']} stands on a {wanted}, and {called} is a {kind}; choose"
            f" {_SUCH[wanted]}"
        )
