"""Checks of the nodes of trees, which the formats of several libraries share.

Compiled code follows children and features without checks of their bounds, so that an edited file
could end the process, read memory that is not its own or never return. Original to kdgraph.
"""

from __future__ import annotations

import numpy as np

LEADS_NOWHERE = "a node leads nowhere"
NO_CATEGORIES = "a node splits on categories that are not there"
_MAX_DEPTH = 500
"""Number of levels of the deepest tree; libraries write a tree by recursion."""


def problem_of_tree(
    left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int
) -> str | None:
    """Return what is wrong with the nodes of a tree, or None.

    Children, Int[n], are numbers of nodes; they and the features, Int[n], are negative for leaves.

    >>> problem_of_tree(np.array([1, -1, -1]), np.array([9, -1, -1]), np.zeros(3), 1)
    'a node leads nowhere'
    """
    n = len(left)
    if not n == len(right) == len(feature):
        return "arrays of different lengths"
    numbers = np.arange(n)
    for child in (left, right):
        # A child with a larger number excludes cycles.
        if ((child >= 0) & ((child <= numbers) | (child >= n))).any():
            return LEADS_NOWHERE
    children = np.concatenate([left, right])
    # A node with two parents would be written twice, its children four times, and so on; one
    # without a parent was pruned.
    if (np.bincount(children[children >= 0], minlength=n) > (numbers > 0)).any():
        return LEADS_NOWHERE
    is_split = (left >= 0) | (right >= 0)
    if ((feature >= n_features) | (is_split & (feature < 0))).any():
        return "a node splits on a feature that does not exist"
    level, depth = np.zeros(1, dtype=np.int64), 0
    while len(level):
        level = np.concatenate([left[level], right[level]])
        level, depth = level[level >= 0], depth + 1
        if depth > _MAX_DEPTH:
            return f"a tree has more than {_MAX_DEPTH} levels"
    return None
