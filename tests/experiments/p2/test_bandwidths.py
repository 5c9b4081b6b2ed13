"""Kernel densities on halves of a record: what each row of the study is, against a fit by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import train_test_split

from experiments.common.claims import saved_claims
from experiments.p2 import bandwidths
from experiments.p2.bandwidths import (
    ALL_ROWS,
    FIXED,
    PRECISION,
    REFLECTED,
    RULE,
    Record,
    claims,
    forest_record,
    study,
    table,
)


@pytest.fixture(scope="module")
def record() -> Record:
    """Scores of three classes that are calibrated, but for the last, whose rows are always
    right.
    """
    rng = np.random.default_rng(0)
    X = rng.dirichlet(np.ones(3), 800)
    y = np.array([2 if row.argmax() == 2 else rng.choice(3, p=row) for row in X])
    return Record("made", X, y)


def confidence(
    record: Record, held: np.ndarray, at: np.ndarray, k: int, bandwidth: float, images: bool
) -> np.ndarray:
    """Kernel sums of right rows by those of all rows that are predicted as k."""
    mine = held[record.X[held].argmax(axis=1) == k]
    sums = []
    for right in (True, False):
        score = record.X[mine, k][(record.y[mine] == k) == right]
        places = np.concatenate([score, -score, 2 - score]) if images else score
        sums.append(np.exp(-(((at[:, None] - places) / bandwidth) ** 2) / 2).sum(axis=1))
    return sums[0] / (sums[0] + sums[1])


def test_a_row_is_a_fit_on_one_half_applied_to_the_other(record) -> None:
    result = study(record, 1).set_index("method")
    held, use = train_test_split(np.arange(800), test_size=0.5, stratify=record.y, random_state=0)
    text = {True: np.ones(len(use)), False: np.ones(len(use))}
    for k in (0, 1):
        rows = record.X[use].argmax(axis=1) == k
        for images in text:
            text[images][rows] = confidence(record, held, record.X[use][rows, k], k, 0.1, images)
    right = record.X[use].argmax(axis=1) == record.y[use]
    for images, method in ((False, "0.1"), (True, f"0.1 {REFLECTED}")):
        clipped = text[images].clip(1e-12, 1 - 1e-12)
        assert result.nll[method] == pytest.approx(
            -np.log(np.where(right, clipped, 1 - clipped)).mean(), rel=1e-3
        )  # a grid of 512 scores
    assert result.moved[f"0.1 {REFLECTED}"] == pytest.approx(
        np.abs(text[True] - text[False]).mean(), rel=0.02
    )
    assert result.loc[RULE, ["curves", "classes"]].tolist() == [
        2,
        2,
    ]  # the third class has no wrong row


def test_fits_and_their_claims(record, tmp_path, monkeypatch, capsys) -> None:
    both = {f"{width}{end}" for width in (*FIXED, RULE) for end in ("", f" {REFLECTED}")} | {
        PRECISION
    }
    result = study(record, 2)
    assert set(result.method) == both | {ALL_ROWS} and set(result.seed) == {0, 1}
    alone = Record("counts", record.X, record.y, has_other_scores=False)
    assert set(study(alone, 1).method) == both
    assert {name for each in claims("made", result) for name in each.sentences} == {
        "bulletproof_bandwidth",
        "boundary",
        "only_positives",
    }
    assert table(result).count("\n") == 1 + len(both) + 1 + 2
    np.savez(tmp_path / "scores.npz", predictions=record.X, ground_truth=record.y)
    words = [
        "bandwidths",
        str(tmp_path / "scores.npz"),
        "--forests",
        "--seeds",
        "2",
        "--keep",
        str(tmp_path),
    ]
    monkeypatch.setattr("sys.argv", words)
    bandwidths.main()
    assert "## scores: 800 rows" in capsys.readouterr().out
    assert [each.text for each in saved_claims(tmp_path, "p2_bandwidths")] == [
        each.text for each in claims("scores", result)
    ]


def test_a_forest_scores_rows_that_it_did_not_learn(monkeypatch) -> None:
    monkeypatch.setattr(bandwidths, "TREES", 10)
    result = forest_record("digits")
    assert result.X.shape == (899, 10)
    np.testing.assert_allclose(result.X.sum(axis=1), 1)
    assert 0.8 < (result.X.argmax(axis=1) == result.y).mean() < 0.99
