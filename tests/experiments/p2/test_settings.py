"""Settings of presets beside the printed ones."""

from __future__ import annotations

from experiments.common.published import read_published
from experiments.p2.settings import settings
from experiments.reproduction.papers import paper

PAPER = paper("p2")


def test_presets_have_the_printed_settings_but_for_counts() -> None:
    printed = read_published(PAPER.folder).query("kind == 'setting'")
    keys = ["item", "dataset", "metric", "method"]
    both = settings(20, 2).merge(printed, on=keys, suffixes=("", "_printed"))
    assert len(both) == len(settings(20, 2)) > 10
    others = both[both.value != both.value_printed]
    assert {*zip(others["item"], others.metric, strict=True)} == {
        ("Appendix, Ensemble Sampling", "networks"),
        ("Appendix, MNIST results", "ensembles"),
        ("Section II", "training rows"),  # 30,000 there, 50,000 in its appendix
    }
