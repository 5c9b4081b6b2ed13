"""Figures on PhANNs: curves are the calibrators' own, numbers agree with naive ones, and a claim
that does not hold is told.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import StepPatch
from sklearn.frozen import FrozenEstimator

from experiments.common.claims import Claim, verdicts
from experiments.p2.figures import bars, curves, densities, joint, schematics
from experiments.p2.figures.claims import BIN, claims, claims_on_studies, held_out, spread
from experiments.p2.figures.study import LABELS, ORDER, Study, rows_at, study_of
from kdgraph.base import FittedModel
from kdgraph.calibration.top_label import (
    ClassPrecision,
    CumulativeConfidence,
    HistogramBinning,
    IsotonicConfidence,
    KernelDensityConfidence,
)
from kdgraph.parents import PrecomputedScores

CALIBRATORS = {
    "precision": (ClassPrecision, {}),
    "histogram": (HistogramBinning, {}),
    "kde_b_mon": (KernelDensityConfidence, {"bandwidth": "b_mon", "step": 0.005}),
    "kde": (KernelDensityConfidence, {"step": 0.005}),
    "kde_b_mon4": (KernelDensityConfidence, {"bandwidth": "b_mon4", "step": 0.005}),
    "kde_b_opt": (KernelDensityConfidence, {"bandwidth": "b_opt", "step": 0.005}),
    "cum": (CumulativeConfidence, {"theta": "none"}),
    "cum_plus": (CumulativeConfidence, {"theta": "median"}),
    "cum_star": (CumulativeConfidence, {"theta": "best"}),
    "isotonic_top_label": (IsotonicConfidence, {}),
}
PER_CLASS = 60


@pytest.fixture(scope="module")
def study() -> Study:
    """As many rows of each class, whose scores stand in the middle of bins as those of PhANNs do;
    higher ones are right more often.
    """
    rng = np.random.default_rng(0)
    k = len(ORDER)
    predicted = np.repeat(np.arange(k), PER_CLASS)
    score = (rng.integers(20, 100, len(predicted)) + 0.5) * BIN
    X = np.concatenate([rows_at(score[predicted == each], each, k) for each in range(k)])
    correct = rng.random(len(X)) < score**1.5
    y = np.where(correct, predicted, (predicted + 1) % k)
    parent = PrecomputedScores().fit(X)
    models = {"none": FittedModel(parent)}
    for method, (kind, options) in CALIBRATORS.items():
        models[method] = FittedModel(
            parent,
            {
                "calibrator": (
                    kind(FrozenEstimator(parent), **options).fit(
                        X, y, X_calibration=X, y_calibration=y
                    )
                )
            },
        )
    return Study(X, y, ORDER, models)


def test_rows_at_a_score_are_predicted_as_the_class() -> None:
    rows = rows_at(np.array([0.15, 0.5, 1.0]), 2, 11)
    np.testing.assert_allclose(rows.sum(axis=1), 1)
    assert rows.argmax(axis=1).tolist() == [2, 2, 2] and rows[:, 2].tolist() == [0.15, 0.5, 1.0]
    with pytest.raises(
        ValueError, match=r"^a score of 0.05 may be no largest one of 11: it must be above 1/11$"
    ):
        rows_at(np.array([0.05]), 0, 11)


def test_a_curve_is_the_confidence_of_the_calibrator(study) -> None:
    scores = np.array([0.21, 0.85])
    score, right = (
        study.top_label.confidence[study.predicted_as("HTJ")],
        study.correct[study.predicted_as("HTJ")],
    )
    by_hand = [right[(score > low) & (score <= low + 0.1)].mean() for low in (0.2, 0.8)]
    np.testing.assert_allclose(study.curve("histogram", "HTJ", scores), by_hand)
    np.testing.assert_allclose(
        study.curve("cum", "HTJ", scores), [right[score >= at].mean() for at in scores]
    )
    np.testing.assert_allclose(study.curve("none", "HTJ", scores), scores)


def test_nll_is_that_of_every_row_of_the_class(study) -> None:
    for method in ("none", "kde", "cum_star"):
        for name in ("HTJ", "Other"):
            losses = []
            for row in study.predicted_as(name):
                c = (
                    study.models[method]
                    .predict_outputs(["top_label"], study.X[[row]])["top_label"]
                    .confidence[0]
                )
                losses.append(-np.log(c if study.y[row] == ORDER.index(name) else 1 - c))
            assert study.nll[method][name] == pytest.approx(np.mean(losses), rel=1e-9)


def test_table_has_classes_and_methods_in_the_order_of_the_paper(study) -> None:
    lines = bars.nll_table(study).splitlines()
    assert [cell.strip() for cell in lines[0].split("|")[3:-1]] == list(LABELS.values())
    assert [line.split("|")[1].strip() for line in lines[2:]] == list(ORDER)
    assert all(line.count("**") >= 2 for line in lines[2:])
    assert len(bars.bandwidth_table(study).splitlines()) == 2 + len(ORDER)


def test_groups_of_classifiers_are_ordered_by_information() -> None:
    (axes,) = schematics.figure2().axes
    figure, printed = axes.figure, [text.get_text() for text in axes.texts]
    assert [text for text in printed if text.startswith("Conf")] == [
        f"Conf{k} = P(right | k{more})" for k, more in ((1, ""), (2, ", S"), (3, ", Y"))
    ]
    assert figure is not None
    figure.canvas.draw()
    assert max(text.get_window_extent().x1 for text in axes.texts) < figure.bbox.width


def test_a_histogram_becomes_a_confidence_bin_by_bin(study) -> None:
    left, right = schematics.figure3(study, "HTJ").axes
    of_right, of_wrong = study.scores("HTJ")
    by_hand = [np.histogram(scores, np.linspace(0, 1, 11))[0] for scores in (of_right, of_wrong)]
    drawn = {
        str(patch.get_label()): np.asarray(patch.get_data()[0])
        for patch in left.patches
        if isinstance(patch, StepPatch)
    }
    np.testing.assert_allclose(drawn["right"], by_hand[0])
    np.testing.assert_allclose(drawn["wrong"], by_hand[0] + by_hand[1])
    (share,) = [patch.get_data()[0] for patch in right.patches if isinstance(patch, StepPatch)]
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(share, by_hand[0] / (by_hand[0] + by_hand[1]))
    assert f"{by_hand[0][5]} right of {by_hand[0][5] + by_hand[1][5]}" in [
        text.get_text() for text in left.texts
    ]


def test_a_density_is_the_sum_of_its_kernels() -> None:
    scores, at = np.array([0.2, 0.5, 0.5, 0.9]), np.linspace(-1, 2, 3001)
    result = densities.density(scores, at, 0.05)
    naive = np.mean(
        [np.exp(-((at - s) ** 2) / (2 * 0.05**2)) / np.sqrt(2 * np.pi) / 0.05 for s in scores],
        axis=0,
    )
    np.testing.assert_allclose(result, naive, rtol=1e-9, atol=1e-12)
    assert np.trapezoid(result, at) == pytest.approx(1, abs=1e-6)


def test_new_true_rows_only_raise_confidence(study) -> None:
    right, wrong = study.scores("HTJ")
    result = densities.added(study, n=300, true_before=2 * len(right))
    assert result.n_right == 150 and set(result.new) <= set(right)
    np.testing.assert_array_equal(result.wrong, wrong)
    before, same, _ = result.confidence.values()
    assert (same - before).min() > 0
    mine, k = study.predicted_as("HTJ"), ORDER.index("HTJ")
    score = np.append(study.top_label.confidence[mine], result.new)
    is_right = np.append(study.correct[mine], np.ones(150, dtype=bool))
    c = study.curve("kde", ORDER[k], score)
    assert result.nll["before"] == pytest.approx(-np.log(np.where(is_right, c, 1 - c)).mean())
    assert result.nll["after, at the same bandwidth"] < result.nll["before"]


def test_spread_scores_stay_in_their_bins_and_keep_their_class(study) -> None:
    X = spread(study, np.random.default_rng(0))
    np.testing.assert_allclose(X.sum(axis=1), 1)
    assert (X.argmax(axis=1) == study.top_label.predicted).all()
    score = X.max(axis=1)
    assert (np.floor(study.top_label.confidence / BIN) == np.floor(score / BIN + 1e-9)).all()
    assert len(np.unique(score)) > len(np.unique(study.top_label.confidence))


def verdict_by_text(study) -> dict[str, bool]:
    return {claim.text: claim.holds for claim in claims(study)}


def test_claims_hold_or_fail_by_the_numbers(study, monkeypatch) -> None:
    here = verdict_by_text(study)
    order = "b_mon > b_mon2 > b_mon4 on every class"
    assert not here[order]  # classes of 60 rows have ties
    with monkeypatch.context() as patched:
        fitted, apart = Study.learnt, {"kde_b_mon": 0.3, "kde": 0.2, "kde_b_mon4": 0.1}
        patched.setattr(
            Study,
            "learnt",
            lambda self, what, method: (
                dict.fromkeys(ORDER, apart[method])
                if what == "bandwidth" and method in apart
                else fitted(self, what, method)
            ),
        )
        assert verdict_by_text(study)[order]
    turned = replace(
        study,
        models={
            **study.models,
            "kde_b_mon": study.models["kde_b_mon4"],
            "kde_b_mon4": study.models["kde_b_mon"],
        },
    )
    assert not verdict_by_text(turned)[order]
    (calibrated,) = [
        text
        for text in here
        if text.startswith("KDE(b_mon2) is better than uncalibrated on every class")
    ]
    assert here[calibrated]
    assert not verdict_by_text(
        replace(study, models={**study.models, "none": study.models["kde"]})
    )[calibrated]


def test_the_claim_on_minor_capsid_reads_its_precision(study) -> None:
    mine = study.predicted_as("Minor capsid")
    y = study.y.copy()
    y[mine] = (ORDER.index("Minor capsid") + 1) % len(ORDER)
    y[mine[:4]] = ORDER.index("Minor capsid")  # 4 of 60 are .07
    first = next(claims(replace(study, y=y)))
    assert first.holds and first.measured == "4 of 60: .067"
    assert not next(claims(study)).holds


def test_held_out_halves_share_no_row(study) -> None:
    alone = replace(
        study, models={method: study.models[method] for method in ("none", "histogram")}
    )
    (half,) = held_out(alone, 1)
    assert len(half.y) == len(study.y) / 2
    in_sample = alone.fitted_to(half.X, half.y)
    assert np.mean(list(half.nll["histogram"].values())) > np.mean(
        list(in_sample.nll["histogram"].values())
    )


def test_claims_of_several_count_those_that_hold(study) -> None:
    first, *_ = claims_on_studies([study])
    assert first.measured.startswith(f"in {int(first.holds)} of 1 draws")


def test_verdicts_are_pass_or_fail_with_a_count() -> None:
    tested = verdicts([Claim("a", True, "1"), Claim("b", False, "2")])
    assert tested == "- pass: a. 1\n- FAIL: b. 2\n\n1 of 2 hold."


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        joint.figure1,
        joint.figure1_scores,
        curves.figure7,
        curves.figure8,
        curves.figure13,
        densities.figure5,
        bars.figure17,
    ],
)
def test_curves_have_the_scale_of_the_paper(study, draw) -> None:
    figure = draw(study)
    figure.canvas.draw()
    if draw in (curves.figure7, curves.figure8, curves.figure13):
        assert {axes.xaxis.get_major_formatter()(1.0) for axes in figure.axes} == {"10"}


def test_a_cloud_has_a_dot_for_each_row_of_its_class(study) -> None:
    """Class Other has a panel where it has rows, and none where its predictions are all wrong."""
    figure = curves.clouds(study, ["histogram"], curves.with_scores(study), ["kde"])
    for axes, name in zip(figure.axes, ORDER, strict=True):
        (cloud,) = (line for line in axes.lines if line.get_gid() == "cloud histogram")
        mine = study.predicted_as(name)
        shown = study.top_label.confidence[mine] >= 0.15
        np.testing.assert_array_equal(
            cloud.get_ydata(), study.confidence["histogram"].confidence[mine][shown]
        )
        assert any(line.get_gid() == "curve KDE(b_mon2)" for line in axes.lines)
    others = np.where(study.y == ORDER.index("Other"), 0, study.y)
    without = replace(study, y=others)
    assert curves.with_scores(without) == [name for name in ORDER if name != "Other"]
    assert "none of class Other" in {
        text.get_text().rpartition("; ")[2]
        for text in curves.clouds(without, ["kde"], curves.with_scores(without)).texts
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "draw",
    [
        curves.figure9,
        curves.figure14,
        lambda study: densities.figure15(study, densities.added(study)),
    ],
)
def test_figures_of_many_panels_are_drawn(study, draw) -> None:
    draw(study).canvas.draw()


def test_figure_6_of_another_data_set(study) -> None:
    figure = densities.figure6(study.X, study.y, 2, "made up")
    left, right = figure.axes
    assert len(left.lines) == 3 and len(right.lines) == 2


@pytest.mark.slow
def test_runs_are_read_with_their_models(study, kdg, tmp_path) -> None:
    labels = np.array(ORDER)[study.y]
    pd.DataFrame(study.X, columns=list(ORDER)).assign(label=labels).to_parquet(
        tmp_path / "rows.parquet"
    )
    code, _, err = kdg(
        "run",
        "-m",
        "experiment=paper/p2/phanns",
        "dataset.path=rows.parquet",
        "calibrator=none,paper/p2/histogram",
        "hydra/launcher=basic",
    )
    assert code == 0, err
    result = study_of(tmp_path / "outputs")
    assert (
        result is not None
        and set(result.models) == {"none", "histogram"}
        and len(result.y) == len(study.y)
    )
    assert result.nll["histogram"] == pytest.approx(study.nll["histogram"])
    assert study_of(tmp_path / "nothing") is None
