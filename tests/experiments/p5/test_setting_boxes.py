"""Tests of box plots of repetitions by setting."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.p5.setting_boxes import plot_boxes_by_setting


def artists_by_gid(axes, gid):
    return list(axes.findobj(lambda artist: artist.get_gid() == gid))


def test_boxes_extend_between_quartiles(assert_legible):
    rng = np.random.default_rng(0)
    values = {
        "MSE": {
            f"10{e}": {name: rng.lognormal(size=20) for name in ("NN", "isotonic", "local_pit")}
            for e in "³⁴⁵"
        }
    }
    values["coverage"] = {"10³": {"NN": np.array([0.9, 0.94, 0.96]), "local_pit": np.array([0.95])}}
    figure = plot_boxes_by_setting(values, "rows", {"coverage": 0.95}, log=("MSE",))
    first, second = figure.axes
    for i, box in enumerate(artists_by_gid(first, "box isotonic")):
        heights = box.get_path().vertices[:, 1]
        quartiles = np.quantile(list(values["MSE"].values())[i]["isotonic"], [0.25, 0.75])
        np.testing.assert_allclose([heights.min(), heights.max()], quartiles)
    assert (
        first.get_yscale() == "log"
        and second.get_yscale() == "linear"
        and not artists_by_gid(second, "box isotonic")
    )
    assert list(artists_by_gid(second, "ideal")[0].get_ydata()) == [
        0.95,
        0.95,
    ] and not artists_by_gid(first, "ideal")
    assert_legible(figure)


@pytest.mark.parametrize("panels", [{"MSE": {"1": {"a": np.empty(0)}}}, {}])
def test_panels_without_values_raise(panels):
    with pytest.raises(ValueError, match=r"^boxes_by_setting needs at least one panel"):
        plot_boxes_by_setting(panels, "rows")
