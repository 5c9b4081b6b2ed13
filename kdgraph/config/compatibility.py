"""Components that fit together: a parent with its rows, and each component with the one below it.

The classes of the components decide: by the methods that they have, by scikit-learn's tags, by
``required_method``, the method that a component needs of the one below it, and by
``required_partition``, the kind of its partition. A component with ``takes_groups`` needs the group
of each row, which no component above it can pass on. What follows from classes is refused before a
run starts; the rest once the rows are read, still before anything is fitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from kdgraph.config.models import RunComponents, is_fitted_elsewhere, upstream_of
from kdgraph.errors import ConfigError
from kdgraph.quoting import override

if TYPE_CHECKING:
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


def check_components(run: RunComponents) -> None:
    """Raise ConfigError unless the components of a run go together, and with its data set.

    A parent that a function makes is not known yet, and nothing is checked.
    """
    parent = run.parent
    if parent is None:
        return
    _check_fitted_parent(run)
    if run.calibration == "cross_fit" and not getattr(parent, "learns_from_rows", True):
        raise ConfigError(
            f"calibration=cross_fit fits the parent on folds, and {run.choice('parent')} trains"
            " nothing; choose calibration=held_out"
        )
    check_task(run.names["parent"], parent, run.names["dataset"], task_of(run.source))
    _check_parent_protocol(run)
    for group, component in run.after.items():
        below, upstream = upstream_of(group, parent, run.after)
        if group != "conformal":
            _check_calibration(run, group, component)
        check_upstream(group, run.names[group], component, upstream, run.choice(below))
        _check_fitted_partition(run, group, component)
        _check_transductive(run, group, component)
        _check_ood_rows(run, group, component)
    _check_protocol_matters(run)


def _check_fitted_parent(run: RunComponents) -> None:
    """Raise :class:`ConfigError` for what a model from a file cannot follow or be followed by.

    Its rows must be in the units that it was fitted on, and a kernel density graph needs its own
    partition: that of another forest would replace its probabilities instead of repairing them.
    """
    if not is_fitted_elsewhere(run.parent):
        return
    from kdgraph.parents import Preprocess

    name = run.choice("parent")
    if run.scale != "none":
        raise ConfigError(
            f"dataset.scale={run.scale} changes the rows, and {name} takes them as they are in the"
            " data; give dataset.scale=none"
        )
    if run.preprocess != Preprocess():
        raise ConfigError(
            f"{run.choice('preprocess')} encodes rows for a parent that is fitted here, and {name}"
            " takes them as they are; leave preprocess=default"
        )
    for key, graph in _graphs_in(run.after.get("calibrator"), "calibrator"):
        kinds = ("network",) if graph.required_partition == "network" else ("forest", "boosted")
        if run.parent.own_partition() not in kinds:
            needed = "trees" if "forest" in kinds else "a network"
            shown = run.choice(key) if key == "calibrator" else key
            raise ConfigError(
                f"{shown} needs the partition of {needed}, which cannot be read of the model in"
                f" {run.parent.path}; choose method=gated_isotonic, method=isotonic or another"
                " calibrator"
            )


def _is_graph(component: Any) -> bool:
    """Return whether a component predicts by a kernel density graph."""
    modules = (cls.__module__ for cls in type(component).__mro__)
    if not any(module.startswith("kdgraph.density.") for module in modules):
        return False  # and what compiles is not imported
    from kdgraph.density.classifiers import GraphClassifier

    return isinstance(component, GraphClassifier)


def _graphs_in(component: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yield key and kernel density graph for a component and those that are its parameters."""
    if _is_graph(component):
        yield key, component
    inner: Mapping[str, Any] = {}
    if isinstance(component, Mapping):
        inner = component
    elif hasattr(component, "get_params") and not isinstance(component, type):
        inner = component.get_params(deep=False)
    for name, value in inner.items():
        if name != "estimator":  # the parent, which is not part of it
            yield from _graphs_in(value, f"{key}.{name}")


def _check_fitted_partition(run: RunComponents, group: str, component: Any) -> None:
    """Raise :class:`ConfigError` for a component that needs another partition than the model's.

    Where a model from a file has none that can be read, a forest takes its place.
    """
    required = getattr(component, "required_partition", None)
    if not is_fitted_elsewhere(run.parent) or required is None:
        return
    from kdgraph.geometry import KIND_NAMES

    kind = run.parent.own_partition()
    if (kind or "forest") not in _suitable_kinds(required):
        what = f"is {KIND_NAMES[kind]}" if kind else "is no network whose layers can be read"
        raise ConfigError(
            f"{run.choice(group)} needs the partition of {_NEEDED_PARTITION[required]}, and the"
            f" model in {run.parent.path} {what}; choose another {group}"
        )


def uses_training_rows(run: RunComponents) -> bool:
    """Return whether training rows have a use: something is fitted on them.

    A model from a file needs none. Components that estimate a density need them, local calibration
    may need a forest of its own where the model has no partition, and the errors of a regressor
    without distributions have to be measured.
    """
    if not is_fitted_elsewhere(run.parent):
        return True
    from kdgraph.base.posthoc import any_requires_training_rows

    if any_requires_training_rows(run.after.values()) or run.parent.needs_errors():
        return True
    return not run.parent.has_partition() and any(map(uses_locations, run.after.values()))


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


def falls_back_to_prior(run: RunComponents) -> bool:
    """Return whether probabilities tend to the class prior far from the training data.

    Those of a density gate and of a kernel density graph with a floor do.
    """
    calibrator = run.after.get("calibrator")
    return "gate" in run.after or (
        _is_graph(calibrator) and getattr(calibrator, "alpha", 0.0) is not None
    )


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
    name: str, parent: Any, dataset: str, task: Task | None, as_classes: str = ""
) -> None:
    """Raise ConfigError for a classifier on a regression, or the other way round.

    ``name`` is that of the parent in the config. The task is None where it is unknown.
    ``as_classes`` is the beginning of the way out, or "".
    """
    is_classifier, is_regressor = (
        hasattr(parent, method) for method in ("predict_proba", "predict_dist")
    )
    if task == "regression" and not is_regressor:
        no_distributions = "predicts no distributions (it has no predict_dist)"
        raise ConfigError(
            f"dataset={dataset} is for regression, and parent={name}"
            f" {'is a classifier' if is_classifier else no_distributions}; {as_classes}choose a"
            f" data set with classes, or what is for regression: {FOR_REGRESSION}"
        )
    if task == "classification" and not is_classifier:
        no_probabilities = "predicts no probabilities (it has no predict_proba)"
        raise ConfigError(
            f"dataset={dataset} has classes, and parent={name}"
            f" {'is for regression' if is_regressor else no_probabilities}; choose another, such as"
            " parent=random_forest"
        )


def check_rows(name: str, parent: Any, train: Dataset) -> None:
    """Raise :class:`ConfigError` for a parent of this name that cannot be fitted on such rows."""
    from kdgraph.parents import PrecomputedScores

    if train.has_scores and not isinstance(parent, PrecomputedScores):
        raise ConfigError(
            f"dataset={train.name} has class scores and nothing to train on; choose parent=scores"
        )
    if isinstance(parent, PrecomputedScores) and not train.has_scores:
        raise ConfigError(
            f"dataset={train.name} has rows to train on, and parent={name} trains nothing; choose"
            " parent=random_forest"
        )
    check_task(name, parent, train.name, train.task, _as_classes(train))
    if train.are_images and not takes(parent, "three_d_array"):
        flat = ", or vectors of pixels: dataset.flat=true" if "flat" in train.facts else ""
        raise ConfigError(
            f"dataset={train.name} has images, and parent={name} takes vectors; choose a network:"
            f" parent=cnn{flat}"
        )
    if not train.are_images and not takes(parent, "two_d_array"):
        raise ConfigError(
            f"dataset={train.name} has vectors, and parent={name} takes images; choose another:"
            " parent=mlp"
        )


def takes(estimator: Any, kind: Literal["two_d_array", "three_d_array"]) -> bool:
    """Return scikit-learn's tag of that name: ``X`` may have two axes, or more.

    An estimator without tags, or one that validates nothing, accepts both.
    """
    if not hasattr(estimator, "__sklearn_tags__"):
        return True
    tags = estimator.__sklearn_tags__()
    return tags.no_validation or getattr(tags.input_tags, kind)


def _check_calibration(run: RunComponents, group: str, component: Any) -> None:
    """Raise ConfigError for a component that cannot be calibrated in the way of the config."""
    from kdgraph.base.frozen import is_bagged

    if run.calibration == "held_out":
        return
    choice, way = run.choice(group), f"calibration={run.calibration}"
    if run.protocol == "paper" and getattr(component, "paper_protocol", None) is not None:
        raise ConfigError(
            f"protocol=paper fits {choice} on test or OOD rows, and {way} on training rows; choose"
            " calibration=held_out"
        )
    if not hasattr(component, "calibration"):
        raise ConfigError(
            f"{choice} is calibrated on held-out rows only; choose calibration=held_out"
        )
    takes_oob = getattr(component, "takes_out_of_bag_outputs", lambda: False)()
    if run.calibration == "oob" and takes_oob and not is_bagged(run.parent):
        raise ConfigError(
            f"{way} needs a forest with bootstrap=true, and {run.choice('parent')} is none; choose"
            " calibration=cross_fit or held_out, or parent=random_forest"
        )


def _check_parent_protocol(run: RunComponents) -> None:
    """Raise ConfigError for a parent that trains on the rows to predict where it must not.

    It may with ``protocol=paper``, and no row can then calibrate with outputs of parents of folds.
    """
    if getattr(run.parent, "paper_protocol", None) is None:
        return
    trained = f"{run.choice('parent')} trains its encoder on the rows to predict"
    if run.protocol != "paper":
        raise ConfigError(
            f"{trained}, so it sees test rows; set protocol=paper, or"
            " parent.encoder.unlabelled_epochs=0"
        )
    if run.calibration != "held_out":
        raise ConfigError(
            f"{trained}, and calibration={run.calibration} on training rows; choose"
            " calibration=held_out"
        )


def trains_on_unlabelled(run: RunComponents) -> bool:
    """Return whether the parent is trained on test and OOD rows too, as in its paper."""
    return run.protocol == "paper" and getattr(run.parent, "paper_protocol", None) is not None


def _check_protocol_matters(run: RunComponents) -> None:
    """Raise ConfigError for ``protocol=paper`` if no component is fitted otherwise under it.

    The run would have the numbers of ``protocol=strict``, and every table would mark it as fitted
    on test rows. The parent alone, the baseline of a sweep over calibrators, is not refused, and
    nor are scores of a file: its features, such as a t-SNE, may have been fitted on test rows.
    """
    if run.protocol != "paper" or not run.after:
        return
    from kdgraph.parents import PrecomputedScores

    if isinstance(run.parent, PrecomputedScores):
        return
    components = (run.parent, *run.after.values())
    if all(getattr(component, "paper_protocol", None) is None for component in components):
        raise ConfigError(
            "protocol=paper fits components on test or OOD rows where their paper does, and that of"
            f" {' '.join(map(run.choice, run.after))} does not; leave protocol=strict"
        )


def is_fitted_with_ood(run: RunComponents) -> bool:
    """Return whether a component is fitted with the OOD rows of the run, as in its paper."""
    return run.protocol == "paper" and any(
        getattr(component, "paper_protocol", None) == "ood" for component in run.after.values()
    )


def _check_ood_rows(run: RunComponents, group: str, component: Any) -> None:
    """Raise ConfigError for a component whose paper fits it with OOD rows, if there are none."""
    needs_ood = run.protocol == "paper" and getattr(component, "paper_protocol", None) == "ood"
    if needs_ood and not run.has_ood:
        raise ConfigError(
            f"{run.choice(group)} is fitted with rows out of distribution under protocol=paper, and"
            f" {run.choice('ood')} has none; choose some, such as ood=noise, or leave"
            " protocol=strict"
        )


def _check_transductive(run: RunComponents, group: str, component: Any) -> None:
    """Raise ConfigError for a component that embeds the rows to predict with those of its fit.

    It sees test rows, which ``protocol=paper`` permits, and predicts no other rows at all.
    """
    if getattr(component, "paper_protocol", None) != "transductive":
        return
    if run.protocol != "paper":
        raise ConfigError(
            f"{run.choice(group)} embeds the rows to predict together with those it is fitted on,"
            " so it sees test rows; set protocol=paper, or choose another map:"
            f" {group}.features.reduce=pca"
        )
    ways_out = {"ood=none": run.has_ood, "metrics=top_label": run.has_grid}
    if overrides := [override for override, is_needed in ways_out.items() if is_needed]:
        raise ConfigError(
            f"{run.choice(group)} predicts no rows that were not embedded with the calibration"
            " rows, such as those out of distribution or on a grid; choose"
            f" {' '.join(overrides)}"
        )


def check_upstream(group: str, name: str, component: Any, upstream: Any, choice: str) -> None:
    """Raise ConfigError for a component that does not fit the one that it is fitted on.

    It may need a method, such as ``predict_proba``, a kind of partition, or the groups of rows.
    ``choice`` is the override that chose ``upstream``: ``parent=mlp``.
    """
    from kdgraph.geometry import KIND_NAMES, partition_kind

    needed = getattr(component, "required_method", None)
    if needed == "predict_proba" and getattr(upstream, "takes_groups", False):
        raise ConfigError(
            f"{choice} needs the group of each row, and {group}={name} does not pass it on;"
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
            f"{group}={name} needs {what}, and {choice} predicts none; choose {group}=none{way_out}"
        )
    required, kind = getattr(component, "required_partition", None), partition_kind(upstream)
    if required is not None and kind is not None and kind not in _suitable_kinds(required):
        raise ConfigError(
            f"{group}={name} needs the partition of {_NEEDED_PARTITION[required]}, and"
            f" {choice} is {KIND_NAMES[kind]}; choose {_PARENT_WITH[required]}"
        )
