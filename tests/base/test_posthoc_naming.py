"""Names of classes in messages."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.wording import display_label, use_class_names


def test_display_label_maps_positions_to_labels():
    assert [display_label(label) for label in (0, "1", "any class")] == ["0", "1", "any class"]
    with use_class_names([10, "bee"]):
        assert [display_label(label) for label in (0, np.int64(1), "1", "any class", 2, -1)] == [
            "10",
            "bee",
            "bee",
            "any class",
            "2",
            "-1",
        ]


def test_class_names_are_reset_after_an_error():
    with pytest.raises(ZeroDivisionError), use_class_names(["ant"]):
        _ = 1 / 0
    assert display_label(0) == "0"
