"""Settings of presets beside the printed ones."""

from __future__ import annotations

import pytest

from experiments.common.published import read_published
from experiments.p1.settings import settings
from experiments.reproduction.papers import paper

PAPER = paper("p1")

OTHERWISE = {
    ("Section 5", "bins of MCE"),  # 10 edges, as the authors' code has it
    ("Section 5", "share of rows that fit (%)"),  # 90, likewise
    ("Section 5.1.1", "rows at a radius"),  # over ten seeds as many
    ("Appendix C", "variance of the noise"),  # of the spiral, as the figures are drawn
    ("Appendix C", "radius, class 0"),  # printed the other way round
    ("Appendix C", "radius, class 1"),
}
"""Settings that are known to be others than the printed ones."""


@pytest.fixture(scope="module")
def both():
    keys = ["item", "dataset", "metric", "method"]
    printed = read_published(PAPER.folder).query("kind == 'setting'")
    return settings().merge(printed, on=keys, suffixes=("", "_printed"))


@pytest.mark.slow
def test_each_setting_is_printed_in_the_paper(both) -> None:
    assert len(both) == len(settings()) > 30


@pytest.mark.slow
def test_presets_have_the_printed_settings_but_for_some(both) -> None:
    others = both[(both.value / both.value_printed - 1).abs() > 1e-9]
    assert {*zip(others["item"], others.metric, strict=True)} == OTHERWISE
