"""Tests of the names of models in figures."""

from __future__ import annotations

import pytest

from kdgraph.figures.model_names import figure_names, paper_name


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("random_forest", "Random forest"),
        ("kdf_whitened", "KDF whitened"),
        ("cstswa_pooled", "CSTSWA, pooled"),
        ("venn_abers_pooled", "Venn-Abers, pooled"),
        ("mlp_oe", "MLP OE"),
        ("lore_tsne", "LoRe t-SNE"),
        ("localised_conformal_pit", "Localised conformal PIT"),
        ("kdf parent.n_estimators=10", "KDF parent.n_estimators=10"),
    ],
)
def test_keys_become_names_of_papers(key, name):
    assert paper_name(key) == name


@pytest.mark.parametrize("name", ["_rf", "My_forest", "v1.2", "$x_1$", "two__words", ""])
def test_names_that_a_user_chose_are_unchanged(name):
    assert paper_name(name) == name


def test_components_are_joined_and_a_gate_is_called_a_gate():
    parent = {"name": "random_forest"}
    gate = {"calibrator": {"name": "isotonic"}, "gate": {"name": "density"}}
    assert figure_names(parent, gate) == ("Random forest", "Isotonic + density gate")
    gate["calibrator"] = {"name": "none"}
    assert figure_names(parent, gate)[1] == "Density gate"
    assert figure_names(parent, {"calibrator": {"name": "none"}}) == ("Random forest", "Unchanged")
    assert figure_names({"name": "kdf"}, {"calibrator": {"name": "kdf"}}) == (
        "KDF",
        "KDF (calibrated)",
    )
