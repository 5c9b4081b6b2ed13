"""What the rows look like."""

from __future__ import annotations

from typing import Any

from kdgraph.answers import Predictions
from kdgraph.figures.of_run.drawing import Drawing, parameter_of, title_of
from kdgraph.figures.of_run.registry import run_figure

MOST_CLASSES = 4
"""Of which a training image is shown among the examples."""


@run_figure("example_images")
def example_images_of_run(run: Drawing) -> Any:
    """A training image of each of a few classes, and one of each family out of distribution, from the set that is farthest out."""
    from kdgraph.figures import image_row

    train = run.splits.train
    if not train.are_images or train.X.shape[1] not in (1, 3):
        return None
    shown = {str(label): train.X[train.y == k][0] for k, label in enumerate(train.classes[:MOST_CLASSES].tolist())}
    for family in run.families():
        farthest = max(family, key=distance_from_training)
        if farthest.example is not None:
            shown[title_of(farthest)] = farthest.example
    return image_row(list(shown.values()), list(shown))


def distance_from_training(found: Predictions) -> float:
    """How far a set's parameter is from where its family meets the training data; the value itself where it does not say."""
    if len(found.params) != 1:
        return 0.0
    value = parameter_of(found)[1]
    return min((abs(value - known) for known in found.id_values), default=value)
