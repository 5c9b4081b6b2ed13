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


def test_sources_implement_the_protocols_of_their_kind():
    kinds = (Simulation, PosteriorSimulation, RegressionSimulation, Table, OodSource)
    implements = [
        [isinstance(source, kind) for kind in kinds]
        for source in (Moons(), Spiral(), Heteroscedastic(), SklearnTable("iris"))
    ]
    assert implements == [
        [True, False, False, False, False],
        [True, True, False, False, False],
        [True, False, True, False, False],
        [False, False, False, True, False],
    ]


@pytest.mark.parametrize("name", ood.__all__)
def test_ood_sources_implement_only_their_protocol(name):
    parameters = {
        "OtherDataset": {"source": Spiral()},
        "Contaminated": {"outliers": ood.UniformNoise()},
        "CompositeOod": {"sources": {"noise": ood.UniformNoise()}},
    }
    source = getattr(ood, name)(**parameters.get(name, {}))
    assert isinstance(source, OodSource) and not isinstance(source, Simulation | Table)
