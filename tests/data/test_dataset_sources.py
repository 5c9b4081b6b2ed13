from __future__ import annotations

import pytest

from kdgraph.data import (
    OodSource,
    PosteriorSimulation,
    RegressionSimulation,
    Simulation,
    Table,
    ood,
)
from kdgraph.data.simulations import Heteroscedastic, Moons, Spiral
from kdgraph.data.tables import SklearnTable


def test_what_a_source_can_do_says_what_it_is():
    kinds = (Simulation, PosteriorSimulation, RegressionSimulation, Table, OodSource)
    found = [
        [isinstance(source, kind) for kind in kinds]
        for source in (Moons(), Spiral(), Heteroscedastic(), SklearnTable("iris"))
    ]
    assert found == [
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, False, True, False, False],
        [False, False, False, True, False],
    ]


@pytest.mark.parametrize("name", ood.__all__)
def test_what_draws_rows_out_of_distribution_is_no_other_source(name):
    needed = {
        "OtherDataset": {"source": Spiral()},
        "CompositeOod": {"sources": {"noise": ood.UniformNoise()}},
    }
    source = getattr(ood, name)(**needed.get(name, {}))
    assert isinstance(source, OodSource) and not isinstance(source, Simulation | Table)
