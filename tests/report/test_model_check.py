"""Words and page of a checked model, for each outcome."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import numpy as np
import pytest

from kdgraph.report.model_check import (
    advice,
    classes_section,
    cost_of_gate,
    far_section,
    figures,
    groups_section,
    recommended,
    repairs_section,
    sections,
    verdict,
)
from kdgraph.report.page.model_page import ModelPage, render_model_page
from kdgraph.report.program import repair_program
from kdgraph.results.model_check.numbers import UNREPAIRED, FarRows, ModelCheck, PooledPredictions
from tests.report.conftest import width_of_content


def proba_of(second):
    return np.column_stack([1 - second, second])


def make_check(*, sharpen=3.0, gate=1.05, repair=1.0, groups=False, n=1000, seed=0):
    """Return a check whose model, repair and gate scale the true logits by these factors."""
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.05, 0.95, n)
    y = (rng.random(n) < truth).astype(int)
    logit = np.log(truth / (1 - truth))
    far = {UNREPAIRED: (0.99, None), "isotonic": (0.9, None), "gated_isotonic": (0.51, 0.98)}
    scales = {UNREPAIRED: sharpen, "isotonic": repair, "gated_isotonic": gate}
    return ModelCheck(
        y=y,
        classes=["no", "yes"],
        methods={
            name: PooledPredictions(
                proba_of(1 / (1 + np.exp(-scale * logit))),
                {"far": FarRows(np.full(50, far[name][0]), far[name][1])},
                fit_seconds=0.5,
                predict_ms=12.0,
            )
            for name, scale in scales.items()
        },
        gates=frozenset(["gated_isotonic"]),
        groups=np.arange(n) % 3 if groups else None,
        group_names=("a", "b", "c") if groups else (),
    )


def test_a_repair_that_helps_and_a_gate_that_costs_nothing():
    check = make_check()
    calibration, best, others, far = verdict(check)
    assert re.fullmatch(
        r"The model is not calibrated: ECE 0\.1\d\d, where chance alone gives 0\.0\d\d"
        r" \(p < \.001\)\.",
        calibration,
    )
    assert best.startswith("isotonic helps most: it lowers the NLL by 0.") and " nats (95 %" in best
    assert others == "Not clearly worse: gated_isotonic."
    assert "the mean confidence of the model is 0.990" in far
    assert far.endswith("nats higher than with isotonic, not clearly.")
    assert recommended(check) == "gated_isotonic"
    assert advice(check) == (
        "gated_isotonic is recommended: it is not clearly worse than isotonic, and it falls back to"
        " the shares of the classes far from the data."
    )


def test_a_gate_that_is_clearly_worse_is_not_recommended():
    check = make_check(gate=2.5)
    assert recommended(check) == "isotonic"
    assert verdict(check)[-1].endswith("than with isotonic, clearly.")


def test_without_a_clear_gain_the_model_stays_as_it_is():
    check = make_check(sharpen=1.0, gate=2.5, repair=1.0, seed=2)
    assert verdict(check)[0].startswith("Nothing shows that the model is not calibrated: ECE")
    assert verdict(check)[1] == "No repair has a lower NLL than the model as it is."
    assert recommended(check) == UNREPAIRED
    unclear = make_check(sharpen=1.1, gate=2.5)
    assert "No repair is clearly better: isotonic has the least NLL" in verdict(unclear)[1]
    assert recommended(unclear) == UNREPAIRED


def test_a_gate_equal_to_the_best_within_noise_is_not_recommended():
    """With 40 rows a gate that costs a lot is not clearly worse."""
    check = make_check(sharpen=1.0, gate=1.8, repair=1.0, n=40, seed=2)
    assert "gated_isotonic" in check.choice.as_good
    assert check.choice.methods["gated_isotonic"].behind.value > 0.01
    assert recommended(check) == UNREPAIRED
    assert verdict(check)[-1].endswith("nats higher than that of the model as it is, not clearly.")
    assert advice(check) == "No repair is clearly worth its cost: keep the model as it is."
    cost = check.choice.methods["gated_isotonic"].behind.value
    assert cost_of_gate(check) == f"an NLL {cost:.3f} nats higher than that of the model as it is"


def test_without_a_gate_the_words_are_of_the_model_alone():
    check = make_check()
    methods = {name: check.methods[name] for name in (UNREPAIRED, "isotonic")}
    bare = replace(check, methods=methods, gates=frozenset())
    assert bare.gated is None and recommended(bare) == "isotonic"
    assert re.search(
        r"is 0\.990, and the largest class has a share of 0\.5\d\d\.$", verdict(bare)[-1]
    )
    assert [row[-1] for row in far_section(bare).rows] == ["–", "–"]


def test_the_tables_have_the_numbers():
    check = make_check(groups=True)
    table = repairs_section(check)
    by_name = {row[0]: row for row in table.rows}
    assert list(by_name) == ["the model as it is", "isotonic", "gated_isotonic"]
    loss = check.choice.methods["isotonic"]
    assert by_name["isotonic"][1] == f"{loss.loss:.3f} ◂"
    assert by_name["isotonic"][2] == f"{loss.gain.value:+.3f}"
    assert by_name["isotonic"][-2:] == ["0.50", "12"]
    groups = groups_section(check)
    assert groups is not None and len(groups.rows) == 3 * 3
    fractions = [float(row[1]) for row in classes_section(check).rows]
    assert sum(fractions) == pytest.approx(1, abs=0.001)
    many = replace(check, classes=[str(k) for k in range(21)])
    assert classes_section(many) is None
    assert {section.title for section in sections(check)} >= set(figures(check))


def test_numbers_below_zero_have_the_minus_sign_of_the_figures():
    check = make_check(sharpen=1.0, repair=3.0, gate=2.5, groups=True, seed=2)
    words = [*verdict(check), *(c for s in sections(check) for row in s.rows for c in row)]
    assert repairs_section(check).rows[1][2].startswith("−0.")
    assert not [word for word in words if re.search(r"-\d", word)]


def test_names_from_files_are_text_in_the_page():
    check = make_check()
    evil = "<script>alert(1)</script>"
    page = ModelPage(
        title=f"Check of {evil}",
        subtitle=evil,
        verdict=[evil],
        sections=[replace(repairs_section(check), rows=[[evil] * 10])],
        figures=figures(check),
        advice=evil,
        programs=[(evil, evil)],
        guide=[evil],
        warnings=[evil],
        command=evil,
    )
    page_source = render_model_page(page)
    assert "<script" not in page_source and page_source.count("&lt;script&gt;") >= 17
    assert "script-src 'none'" in html.unescape(page_source) and "img-src data:" in page_source
    assert page_source.count("<img") == 1  # of the only section
    assert render_model_page(page) == page_source


@pytest.mark.slow
def test_the_page_fits_into_a_phone(phone, tmp_path):
    check = make_check(groups=True)
    page = ModelPage(
        title="Check of a_model_with_a_long_name_" + 3 * "and_no_space_",
        subtitle="2,000 rows",
        verdict=["The model is not calibrated."],
        sections=sections(check),
        figures=figures(check),
        advice="kdg repair --model m.joblib",
        programs=[("Python", "from kdgraph.calibration import " + 20 * "OneLongName")],
        guide=["NLL"],
        warnings=["a warning"],
        command="kdg check --model m.joblib --data " + 30 * "folder/" + "data.csv",
    )
    (tmp_path / "check.html").write_text(render_model_page(page), encoding="utf-8")
    phone.get((tmp_path / "check.html").as_uri())
    assert width_of_content(phone) <= 390


def test_the_program_makes_the_components_of_the_config():
    nodes = {
        "calibrator": {
            "name": "best",
            "_target_": "kdgraph.calibration.BestCalibrator",
            "candidates": {
                "sigmoid": {"_target_": "kdgraph.calibration.ScoreMap", "method": "sigmoid"}
            },
            "folds": 5,
            "default": "sigmoid",
        },
        "gate": {
            "name": "forest",
            "_target_": "kdgraph.density.DensityGate",
            "partition": {
                "_target_": "sklearn.ensemble.ExtraTreesClassifier",
                "n_estimators": 10,
            },
            "alpha": 0.05,
        },
    }
    program = repair_program(
        nodes,
        model={"path": "m.pkl", "trust": True},
        data="rows.parquet",
        target="y",
        text=["zip"],
        trains=True,
    )
    calls = [line for line in program.splitlines() if line.startswith(("calibrator =", "gate ="))]
    assert calls == [
        "calibrator = BestCalibrator(FrozenEstimator(parent), candidates={'sigmoid':"
        " ScoreMap(None, method='sigmoid')}, default='sigmoid', random_state=0)",
        "gate = DensityGate(FrozenEstimator(calibrator),"
        " partition=ExtraTreesClassifier(n_estimators=10), alpha=0.05, random_state=0)",
    ]
    assert "pd.read_parquet('rows.parquet')" in program
    assert "load_fitted('m.pkl', trust=True).fit(X[:n], y[:n])" in program
    compile(program, "program.py", "exec")
