"""PIT maps that differ by row, against the weighted map of a single row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from kdgraph.distributions import (
    Normal,
    RankedEcdf,
    Recalibrated,
    ScipyFamily,
    ScoredEcdf,
    WeightedEcdf,
)
from kdgraph.distributions.row_pit_maps import RowBuffer
from kdgraph.persistence import from_bytes, to_bytes


def neighbour_pits(n: int = 6, k: int = 9, c: int = 30, seed: int = 0):
    """Return PIT values with ties and one beyond 1, neighbours, and weights exact in float32."""
    rng = np.random.default_rng(seed)
    pits = np.r_[rng.integers(1, 20, size=c - 1) / 20, 9.5]
    rows = np.stack([rng.choice(c, size=k, replace=False) for _ in range(n)])
    weights = rng.integers(0, 4, size=(n, k)) / 4
    weights[:, 0] = 0.5
    return pits, rows, weights


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 12))
def test_each_row_equals_the_ecdf_of_its_pit_values(seed, k):
    pits, rows, weights = neighbour_pits(k=k, seed=seed)
    combined = RankedEcdf.from_pits(pits, rows, weights)
    q, p = np.array([0.0, 0.025, 0.25, 0.5, 0.75, 1.0]), np.r_[pits[:8], 0.01, 0.333, 0.99, 12.0]
    for i in range(6):
        row_map = WeightedEcdf.from_pits(pits[rows[i]], weights[i])
        assert combined.ppf(q)[i].tolist() == row_map.ppf(q).tolist()
        np.testing.assert_allclose(combined.cdf(np.tile(p, (6, 1)))[i], row_map.cdf(p), rtol=1e-14)


BASES = {
    "normal": Normal(np.arange(6.0), np.linspace(1, 2, 6)),
    "gamma of one shape": ScipyFamily(
        "gamma", {"a": np.full(6, 3.0), "scale": np.linspace(1, 2, 6)}
    ),
    "gammas": ScipyFamily("gamma", {"a": np.linspace(1, 5, 6)}),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("scored", [False, True])
def test_moments_and_crps_match_the_sample_of_each_row(base, scored, monkeypatch):
    """Blocks of one row give the same bits; float32 stores scores to 6e-8."""
    pits, rows, weights = neighbour_pits()
    pits = np.minimum(pits, 0.999)
    scores = stats.norm.ppf(pits)[rows]
    pit_map = (
        ScoredEcdf.from_scores(scores, weights)
        if scored
        else RankedEcdf.from_pits(pits, rows, weights)
    )
    base_distribution, y = BASES[base], np.random.default_rng(1).normal(size=6) + 3
    recalibrated = Recalibrated(base_distribution, pit_map)
    for i in range(6):
        x, w = base_distribution[i].ppf(pits[rows[i]][None])[0], weights[i] / weights[i].sum()
        mean = x @ w
        crps = np.abs(x - y[i]) @ w - w @ np.abs(x[:, None] - x) @ w / 2
        expected = [mean, (x - mean) ** 2 @ w, crps]
        np.testing.assert_allclose(
            [recalibrated.mean()[i], recalibrated.var()[i], recalibrated.crps(y)[i]],
            expected,
            rtol=2e-6 if scored else 1e-10,
        )
        order = np.argsort(x)
        cumulative = np.cumsum(w[order])
        assert recalibrated.ppf(0.4)[i] == pytest.approx(
            x[order][np.searchsorted(cumulative, 0.4 * (1 - 1e-12))], rel=1e-6
        )
        assert recalibrated.cdf(np.full(6, 4.0))[i] == pytest.approx(w[x <= 4.0].sum(), abs=1e-12)
    combined = recalibrated.mean(), recalibrated.crps(y), recalibrated.ppf(0.4)
    monkeypatch.setattr("kdgraph.distributions.base.BLOCK_VALUES", 9)
    np.testing.assert_array_equal(
        (recalibrated.mean(), recalibrated.crps(y), recalibrated.ppf(0.4)), combined
    )


@pytest.mark.parametrize("family", ["normal", "gamma of one shape"])
def test_standardised_residuals_replace_pit_values(family, monkeypatch):
    """Compare loc + scale·z of standardised outcomes z with the quantiles of each row."""
    base = BASES[family]
    rng = np.random.default_rng(0)
    y = base.ppf(rng.random((6, 1)))[:, 0]
    rows = np.stack([rng.permutation(6)[:4] for _ in range(6)])
    recalibrated = Recalibrated(
        base, RankedEcdf.from_pits(base.extended_cdf(y), rows, np.ones((6, 4)))
    )
    form = base.standard_form()
    z = (y - form.loc) / form.scale
    np.testing.assert_allclose(
        recalibrated.mean(), form.loc + form.scale * z[rows].mean(axis=1), rtol=1e-9
    )
    by_residuals = recalibrated.mean(), recalibrated.var(), recalibrated.crps(y)
    monkeypatch.setattr(type(base), "standard_form", lambda self: None)
    np.testing.assert_allclose(
        (recalibrated.mean(), recalibrated.var(), recalibrated.crps(y)), by_residuals, rtol=1e-9
    )


def test_families_with_different_shapes_have_no_standard_form():
    assert BASES["gammas"].standard_form() is None


def test_row_buffer_joins_blocks_of_different_widths():
    """Padding a row with weights of 0 changes no bit."""
    pits, rows, weights = neighbour_pits(k=9)
    parts = [
        RankedEcdf.from_pits(pits, rows[:2, :5], weights[:2, :5]),
        RankedEcdf.from_pits(pits, rows[2:], weights[2:]),
    ]
    for order in ((0, 1), (1, 0)):
        buffer = RowBuffer(6)
        for i in order:
            buffer.append(parts[i])
        combined, first = buffer.result(), 0
        base = Normal(np.zeros(6), np.ones(6))
        for i in order:
            block_rows = slice(first, first := first + len(parts[i]))
            single_block = Recalibrated(base[block_rows], parts[i])
            from_buffer = Recalibrated(base, combined)[block_rows]
            for statistic in (
                Recalibrated.mean,
                Recalibrated.var,
                lambda d: d.crps(np.ones(len(d))),
                lambda d: d.ppf(1.0),
                lambda d: d.cdf(0.1),
            ):
                np.testing.assert_array_equal(statistic(from_buffer), statistic(single_block))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.floats(-3, 3), st.floats(0.001, 0.999))
def test_cdf_and_ppf_are_monotone_inverses(seed, y, q):
    """The cdf increases from 0 to 1; ppf(q) is the smallest value with cdf >= q."""
    pits, rows, weights = neighbour_pits(seed=seed)
    pits = np.minimum(pits, 0.999)
    for pit_map in (
        RankedEcdf.from_pits(pits, rows, weights),
        ScoredEcdf.from_scores(stats.norm.ppf(pits)[rows], weights),
    ):
        recalibrated = Recalibrated(Normal(np.zeros(6), np.ones(6)), pit_map)
        low, high = recalibrated.cdf(np.full(6, y)), recalibrated.cdf(np.full(6, y + 1))
        assert ((low >= 0) & (low <= high) & (high <= 1)).all()
        x = recalibrated.ppf(q)
        assert (recalibrated.cdf(x + 1e-6) >= q - 1e-12).all() and (
            recalibrated.cdf(x - 1e-5) < q
        ).all()
        assert (np.diff(recalibrated.ppf(np.linspace(0, 1, 21)), axis=1) >= 0).all()


def test_effective_sample_sizes_and_saved_maps():
    pits, rows, weights = neighbour_pits()
    pit_map = RankedEcdf.from_pits(pits, rows, weights)
    np.testing.assert_allclose(pit_map.n_eff, weights.sum(axis=1) ** 2 / (weights**2).sum(axis=1))
    for row_map in (pit_map, ScoredEcdf.from_scores(pits[rows], weights)):
        loaded = from_bytes(to_bytes(Recalibrated(BASES["normal"], row_map)), "it").value
        np.testing.assert_array_equal(
            loaded.ppf(0.3), Recalibrated(BASES["normal"], row_map).ppf(0.3)
        )


@pytest.mark.parametrize("bad", [0.0, 1.0, np.nan])
def test_rejects_pit_values_without_a_quantile(bad):
    with pytest.raises(ValueError, match=r"^PIT values must be numbers, none of them 0 or 1$"):
        RankedEcdf.from_pits(np.array([0.5, bad]), np.array([[0, 1]]), np.ones((1, 2)))


def test_many_neighbours_take_little_memory():
    """A neighbour takes 6 bytes, so 1,000 neighbours of 10,000 rows take 60 MB; here 100 rows."""
    rng = np.random.default_rng(0)
    pit_map = RankedEcdf.from_pits(
        rng.random(1000), rng.integers(0, 1000, size=(100, 1000)), rng.random((100, 1000))
    )
    assert pit_map.ranks.nbytes + pit_map.weights.nbytes == 600_000
