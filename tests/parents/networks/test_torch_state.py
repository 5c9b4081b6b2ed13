"""Inference does not depend on other rows, on the position of a row, or on threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from joblib import parallel_config
from torch import nn

from kdgraph.parents.networks.torch_state import (
    inference_batch_size,
    map_batches,
    record_layers,
    to_float32,
)

MODULES = {
    # Odd widths and few outputs: without _WideProducts, torch's product of (7, 17, 3) depends on
    # the place of the row.
    "narrow": (
        (7,),
        nn.Sequential(nn.Linear(7, 17), nn.ReLU(), nn.Linear(17, 5), nn.ReLU(), nn.Linear(5, 3)),
    ),
    "wide": ((50,), nn.Sequential(nn.Linear(50, 301), nn.ReLU(), nn.Linear(301, 2))),
    "one output, no bias": (
        (13,),
        nn.Sequential(nn.Linear(13, 65, bias=False), nn.Tanh(), nn.Linear(65, 1, bias=False)),
    ),
    "smooth": (
        (7,),
        nn.Sequential(
            nn.Linear(7, 17), nn.BatchNorm1d(17), nn.GELU(), nn.Linear(17, 3), nn.Softmax(dim=1)
        ),
    ),
    "images": (
        (3, 13, 17),
        nn.Sequential(
            nn.Conv2d(3, 5, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(5 * 5 * 7, 10)
        ),
    ),
    "normed images": (
        (1, 20, 20),
        nn.Sequential(
            nn.Conv2d(1, 3, 5, bias=False),
            nn.BatchNorm2d(3),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(768, 3),
        ),
    ),
}


@pytest.fixture(scope="module", params=MODULES)
def case(request):
    """Return the shape of a row, a module, rows for more than three batches, and outputs."""
    shape, module = MODULES[request.param]
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3 * inference_batch_size(shape) + 37, *shape))
    return shape, module.eval(), X, run(module, X, shape)


def run(module, X, shape, n_jobs=None):
    return map_batches(X, lambda batch: (module(batch),), input_shape=shape, n_jobs=n_jobs)[0]


def test_results_equal_those_of_the_module(case):
    _, module, X, outputs = case
    with torch.no_grad():
        expected = module.double()(torch.from_numpy(X)).numpy()
    module.float()
    # Float32 rounds each of a few hundred terms by at most 6e-8 of its size.
    np.testing.assert_allclose(outputs, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_thread_count_does_not_change_results(case, n_jobs):
    shape, module, X, outputs = case
    assert np.array_equal(run(module, X, shape, n_jobs), outputs)


def test_uses_threads_under_any_joblib_configuration(case):
    shape, module, X, outputs = case
    with parallel_config(backend="loky", n_jobs=2):
        assert np.array_equal(run(module, X, shape, 2), outputs)


@pytest.mark.parametrize("seed", range(3))
def test_rows_keep_their_order(case, seed):
    shape, module, X, outputs = case
    order = np.random.default_rng(seed).permutation(len(X))
    assert np.array_equal(run(module, X[order], shape), outputs[order])


def test_results_do_not_depend_on_other_rows(case):
    shape, module, X, outputs = case
    for row in np.random.default_rng(1).choice(len(X), 8, replace=False):
        assert np.array_equal(run(module, X[row : row + 1], shape), outputs[row : row + 1])
    for part in (slice(1, None), slice(5, 38), slice(None, None, 2), slice(None, None, -1)):
        assert np.array_equal(run(module, X[part], shape), outputs[part])


def test_user_thread_count_changes_nothing_and_is_restored(case):
    """Compare results under several thread counts of the user."""
    shape, module, X, outputs = case
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert np.array_equal(run(module, X, shape, 2), outputs)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_every_batch_is_full_and_runs_on_one_thread():
    batch_sizes = []

    def look(batch):
        batch_sizes.append(
            (
                tuple(batch.shape),
                torch.get_num_threads(),
                torch.is_inference_mode_enabled(),
                batch.dtype,
            )
        )
        return batch.sum(dim=1), batch.numpy()[:, :1] > 0

    X = np.ones((600, 3))
    sums, positive = map_batches(X, look, input_shape=(3,), n_jobs=2)
    assert batch_sizes == [((256, 3), 1, True, torch.float32)] * 3
    assert (
        np.array_equal(sums, np.full(600, 3, np.float32))
        and positive.shape == (600, 1)
        and positive.dtype == bool
    )


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((2,), 256), ((5000,), 256), ((1, 8, 8), 256), ((3, 32, 32), 64), ((3, 224, 224), 8)],
)
def test_batch_size_follows_from_the_row_shape(shape, rows):
    assert inference_batch_size(shape) == rows


def test_error_in_a_thread_restores_torch():
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        run(nn.Linear(4, 2), np.ones((600, 3)), (3,), 2)
    assert torch.get_num_threads() == before


def test_to_float32_keeps_directions():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 6))
    large_rows = X * np.logspace(0, 300, 50)[:, None]
    narrowed = to_float32(large_rows).astype(float)
    # The bound is the float32 next to 1e15.
    assert np.isfinite(narrowed).all() and np.abs(narrowed).max() < 1.0000001e15
    cosine = (narrowed * X).sum(1) / np.linalg.norm(narrowed, axis=1) / np.linalg.norm(X, axis=1)
    assert (
        cosine > 1 - 1e-12
    ).all()  # six numbers rounded by 6e-8 turn a direction by at most their square
    small_rows = np.abs(large_rows).max(1) <= 1e15
    assert (
        np.array_equal(
            narrowed[small_rows], large_rows[small_rows].astype(np.float32).astype(float)
        )
        and 0 < small_rows.sum() < 50
    )


def test_to_float32_at_the_limits_of_float64():
    largest = np.finfo(float).max
    X = np.array([[largest, -largest, 0.0], [5e-324, 1e-50, 0.0], [1e15, -1e15, 1.0]])
    assert np.array_equal(
        to_float32(X),
        np.array([[1e15, -1e15, 0.0], [0.0, 0.0, 0.0], [1e15, -1e15, 1.0]], np.float32),
    )
    image = np.full((2, 1, 2, 2), -largest)
    assert np.array_equal(to_float32(image), np.full((2, 1, 2, 2), -1e15, np.float32))
    single = np.ones((3, 2), np.float32)
    assert to_float32(single) is single


def test_recorded_outputs_are_copies_and_hooks_are_removed():
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)).eval()
    batch = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    with (
        torch.no_grad(),
        record_layers(module, ["", "0", "1"]) as run_it,
        record_layers(module, ["2"], record_inputs=True) as into_last,
    ):
        outputs, before, after = run_it(batch)
        (entering,) = into_last(batch)
        expected = batch @ module[0].weight.T + module[0].bias
        torch.testing.assert_close(before, expected)
        assert (
            (before < 0).any()
            and torch.equal(after, before.relu())
            and torch.equal(entering, after)
        )
        assert torch.equal(outputs, module(batch))
    assert not any(part._forward_hooks for part in module.modules())


def test_recording_rejects_a_layer_that_does_not_run():
    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    with (
        record_layers(Half().eval(), ["unused"]) as run_it,
        pytest.raises(ValueError, match="did not run") as caught,
    ):
        run_it(torch.zeros(1, 2))
    assert (
        str(caught.value)
        == "layer 'unused' did not run when the module did: it gives nothing; choose one that the"
        " module calls"
    )
