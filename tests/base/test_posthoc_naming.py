"""Classes are called by their labels within a block, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.base.posthoc import display_label, use_class_names


def test_positions_are_called_by_labels_and_words_stay():
    assert [display_label(word) for word in (0, "1", "any class")] == ["0", "1", "any class"]
    with use_class_names([10, "bee"]):
        assert [display_label(word) for word in (0, np.int64(1), "1", "any class", 2, -1)] == [
            "10",
            "bee",
            "bee",
            "any class",
            "2",
            "-1",
        ]


def test_a_block_that_fails_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError), use_class_names(["ant"]):
        _ = 1 / 0
    assert display_label(0) == "0"
