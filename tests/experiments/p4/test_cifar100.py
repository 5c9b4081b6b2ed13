"""Figure 8 from a record of scores: the file of scores and their t-SNE, and the picture of runs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from experiments.p4 import cifar100
from experiments.p4.figures import Study
from kdgraph.data.tables import ScoreFile
from kdgraph.errors import DataError


def test_the_file_has_the_first_rows_and_a_map_of_their_logits(tmp_path) -> None:
    """Rows of a one-sided softmax have a score of 0, whose logit is not finite."""
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(4), size=60).astype(np.float32)
    scores[0] = [1, 0, 0, 0]
    labels = rng.integers(4, size=60)
    np.savez(tmp_path / "softmax.npz", predictions=scores, ground_truth=labels[:, None])
    arrays = cifar100.collect({"wideresnet": tmp_path / "softmax.npz"}, 50)
    assert arrays["label"].tolist() == labels[:50].tolist()
    np.testing.assert_allclose(arrays["wideresnet"], scores[:50], rtol=1e-6)
    assert arrays["logits_tsne"].shape == (50, 3) and np.isfinite(arrays["logits_tsne"]).all()
    np.savez(tmp_path / "made.npz", **arrays)
    data = ScoreFile(
        str(tmp_path / "made.npz"), scores="wideresnet", features=["logits_tsne"]
    ).load()
    assert data.layer_widths == (("logits_tsne", 3),) and len(data.y) == 50


def test_the_picture_has_both_kinds_of_bins(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    rows = [
        {
            "method": m,
            "seed": s,
            "bandwidth": b,
            "mlce": 0.3,
            "lce": 0.1,
            "mlce_n_eff": 5,
            "n_eff": 9,
        }
        for m in cifar100.METHODS
        for s in range(2)
        for b in (0.1, 1.0)
    ]
    made = Study(
        list(cifar100.METHODS),
        [0, 1],
        pd.DataFrame(),
        {key: pd.DataFrame(rows) for key in cifar100.SPACES},
    )
    with pytest.raises(
        DataError,
        match=(r"^the map is that of one record's own logits, got 2 records; give one --record$"),
    ):
        cifar100.collect(dict.fromkeys(("a", "b"), tmp_path))
    with pytest.raises(DataError, match="no run of none, temperature"):
        cifar100.study(tmp_path)
    monkeypatch.setattr(cifar100, "study", lambda outputs: made)
    figure = cifar100.figure8(tmp_path)
    paths = cifar100.draw(tmp_path, tmp_path / "drawn")
    assert [path.name for path in paths] == ["cifar100_lce.svg", "cifar100_lce.pdf"]
    titles = " ".join(axis.get_title() for axis in figure.axes)
    assert all(title in titles for title in cifar100.SPACES.values())
