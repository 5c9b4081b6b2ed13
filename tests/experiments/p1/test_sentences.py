"""Tests of the sentences of Dey et al. on example numbers: every claim can hold and
can fail.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.common.claims import Claim
from experiments.p1 import claims as p1
from experiments.p1 import scaling
from experiments.p1.cc18.records import Tables
from experiments.p1.figures import posteriors
from tests.experiments.sentences import SEEDS, all_are, held, jitter


def plane(geodesic: float, far: float) -> pd.DataFrame:
    rows = []
    for seed in range(3):
        shared = {"dataset": "spiral", "parent": "random_forest", "n_train": 1000, "seed": seed}
        for model, value in (("parent", 0.2), ("geodesic", geodesic), ("euclidean", 0.19)):
            rows += [
                {**shared, "model": model, "on": on, "metric": metric, "at": np.nan, "value": value}
                for on, metric in (("test", "error"), ("grid", "hellinger"))
            ]
        rows += [
            {
                **shared,
                "model": "geodesic",
                "on": "ood",
                "metric": "mmc",
                "at": at,
                "value": 0.5 + far * at,
            }
            for at in (5.0, 10.0)
        ]
    return pd.DataFrame(rows)


def test_claims_on_the_plane() -> None:
    good, bad = plane(0.1, 1e-4), plane(0.3, 0.01)
    assert (
        all_are(p1.claims_on_plane(good), True)
        == all_are(p1.claims_on_plane(bad), False)
        == {"fig1_accuracy", "fig1_hellinger", "fig1_geodesic", "intro"}
    )
    assert (
        all_are(p1.claims_on_far_rows(good), True)
        == all_are(p1.claims_on_far_rows(bad), False)
        == {"fig1_prior", "intro"}
    )


def test_claims_on_trunk() -> None:
    def trunk(geodesic: tuple[float, float], euclidean: tuple[float, float]) -> pd.DataFrame:
        shared = {"parent": "mlp", "variant": "reference", "on": "test", "n_train": 1000}
        rows = [
            {
                **shared,
                "model": model,
                "n_dims": n_dims,
                "metric": metric,
                "seed": seed,
                "value": value + jitter(seed) * n_dims / 100,
            }
            for model, values in (("geodesic", geodesic), ("euclidean", euclidean))
            for n_dims, value in zip((2, 10, 100), (9.0, *values), strict=True)
            for metric in ("error", "hellinger")
            for seed in SEEDS
        ]
        return pd.DataFrame(rows)

    assert all_are(p1.claims_on_trunk(trunk((0.2, 0.1), (0.3, 0.35))), True) == {"fig1_trunk"}
    assert all_are(p1.claims_on_trunk(trunk((0.3, 0.35), (0.2, 0.1))), False) == {"fig1_trunk"}
    assert not list(p1.claims_on_trunk(trunk((0.2, 0.1), (0.3, 0.35)).query("model == 'geodesic'")))
    assert not list(p1.claims_on_trunk(pd.DataFrame()))


@pytest.mark.parametrize(("model", "holds"), [(0.05, True), (0.3, False)])
def test_claims_on_posterior_maps(model, holds) -> None:
    rows = [
        {
            "dataset": dataset,
            "parent": parent,
            "variant": "kdgraph",
            "seed": s,
            "part": part,
            "of_model": model + jitter(s),
            "of_parent": 0.2,
        }
        for dataset in ("spiral", "circle")
        for parent in posteriors.METHODS
        for part in posteriors.PARTS
        for s in SEEDS
    ]
    assert all_are(posteriors.claims(pd.DataFrame(rows)), holds) == {"fig4"}


def test_claims_on_fewer_polytopes_and_an_encoder() -> None:
    def pruned(factor: float, cost: float) -> pd.DataFrame:
        shared = {"method": "KDF", "simulation": "spiral"}
        both = {
            "all": (0.1, 0.05, 4.0, 2.0),
            "tenth": (0.1 + cost, 0.05 + cost, 4.0 * factor, 2.0 * factor),
        }
        columns = ("error", "ECE", "fit", "predict")
        rows = [
            {
                **shared,
                "kept": stored,
                "seed": s,
                **{name: value + jitter(s) for name, value in zip(columns, values, strict=True)},
            }
            for stored, values in both.items()
            for s in SEEDS
        ]
        return pd.DataFrame(rows)

    def behind(power: float) -> pd.DataFrame:
        seconds = {
            "pixels": lambda n: n / 1000,
            "embedding": lambda n: 0.5 * (n / 1000) ** power * (1 if power < 1 else 4),
        }
        rows = [
            {
                "rows": n,
                "seed": s,
                "place": place,
                "fit": of(n) * (1 + jitter(s)),
                "predict": of(n) * (1 + jitter(s)),
            }
            for place, of in seconds.items()
            for n in scaling.IMAGES
            for s in SEEDS
        ]
        return pd.DataFrame(rows)

    assert all_are(
        [*scaling.claims_on_pruning(pruned(0.5, 0.001)), *scaling.claims_on_encoder(behind(0.5))],
        True,
    ) == {"pruning", "encoder_scales"}
    assert all_are(
        [*scaling.claims_on_pruning(pruned(1.5, 0.02)), *scaling.claims_on_encoder(behind(2.0))],
        False,
    ) == {"pruning", "encoder_scales"}


def many(own: tuple[float, float, float], others: tuple[float, float, float]) -> Tables:
    """Thirty-two tables with the parent's error, ECE and OCE at .2, .1 and .3."""
    rng = np.random.default_rng(0)
    values = {"parent": (0.2, 0.1, 0.3), "kdf": own, "isotonic": others, "sigmoid": others}
    rows = [
        {
            "dataset": f"t{i}",
            "method": method,
            "seed": 0,
            "error": e,
            "ece_by_edges": c,
            "oce@5": o * (1 + 1e-3 * rng.random()),
        }
        for i in range(32)
        for method, (e, c, o) in values.items()
    ]
    return Tables(
        "random_forest",
        pd.DataFrame(rows).set_index(["dataset", "method", "seed"]),
        {f"t{i}": 100 for i in range(32)},
        {},
        {},
    )


def of_tables(result: Tables) -> list[Claim]:
    """Return the claims on the same tables in distribution and far away."""
    return [*p1.in_distribution_of_tables(result), *p1.far_rows_of_tables(result)]


def test_claims_on_many_tables() -> None:
    good = held(of_tables(many((0.19, 0.05, 0.02), (0.21, 0.05, 0.3))))
    assert set(good) == {
        "fig2_error",
        "abstract",
        "intro",
        "forest_uncalibrated",
        "fig2_oce",
        "id_methods_id",
        "fig2_id_error",
        "id_methods_ood",
        "fig2_ece",
    }
    assert all(verdicts == {True} for verdicts in good.values()), good
    bad = held(of_tables(many((0.25, 0.2, 0.4), (0.1, 0.15, 0.05))))
    assert all(
        verdicts == {False} for name, verdicts in bad.items() if name != "forest_uncalibrated"
    ), bad
    assert bad["forest_uncalibrated"] == {True, False}  # the forest itself is as it was


@pytest.mark.parametrize(("own", "parent", "holds"), [(0.6, 0.95, True), (0.9, 0.5, False)])
def test_claims_on_shapes(own, parent, holds, monkeypatch, tmp_path) -> None:
    rows = [
        {
            "on": "ood",
            "metric": "mmc",
            "ood": "size",
            "param": "size",
            "model": model,
            "at": at,
            "id": at == 1.0,
            "seed": 0,
            "value": value,
        }
        for model, inside, outside in (("kdn", 0.8, own), ("parent", 0.99, parent))
        for at, value in ((1.0, inside), (2.0, outside))
    ]
    monkeypatch.setattr(p1, "runs_of", lambda *_: [])
    monkeypatch.setattr(p1, "numbers_of", lambda _: pd.DataFrame(rows))
    assert held(p1.shapes(tmp_path)) == {"fig3": {holds}}
