"""Figures of a study: the runs of every method on the seeds that all have, and the numbers that
their records and tables hold.
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

from experiments.p4 import figures
from experiments.p4.figures import FIGURES, LABELS, label_of, study_of
from kdgraph.errors import DataError

METHODS = ["none", "lore_tsne_spread", "histogram"]
BANDWIDTHS = [0.1, 0.4, 1.6]
SEEDS = 3


def rows(of: str, level: float) -> dict[str, list[dict]]:
    """Tables of one model, whose numbers all grow with ``level``; rows of another set are in them
    too.
    """
    lce = [
        {
            "of": of,
            "on": "test",
            "bandwidth": b,
            "lce": 0.1 * level / b,
            "mlce": 0.2 * level,
            "n_eff": 9 * b,
            "mlce_n_eff": b,
        }
        for b in BANDWIDTHS
    ]
    lce += [row | {"on": "calibration", "lce": 0.9} for row in lce]
    group = [
        {
            "of": of,
            "on": "test",
            "group": g,
            "rows": 10,
            "error": 0.2,
            "confidence": 0.7 + level / 10,
            "mce": level,
            "worst_rows": 2,
        }
        for g in ("a", "b")
    ]
    return {"lce_by_bandwidth_tsne": lce, "lce_by_bandwidth_pca": lce, "by_group": group}


@pytest.fixture
def runs(tmp_path):
    """Records of two methods, and their folders; the second has no run of the last seed. The parent
    has level .5, a method .1.
    """
    records = []
    for place, method in enumerate(["lore_tsne_spread-as_in_paper", "histogram"]):
        for seed in range(SEEDS - place):
            rng = np.random.default_rng((place, seed))
            folder = tmp_path / "crime" / method / f"{place}{seed}"
            (folder / "tables").mkdir(parents=True)
            levels = {"parent": 0.5 + seed / 100, "calibrated": 0.1 + place / 10 + seed / 100}
            both = [rows(of, level) for of, level in levels.items()]
            for key in both[0]:
                pd.DataFrame(both[0][key] + both[1][key]).to_csv(
                    folder / "tables" / f"{key}.csv", index=False
                )
            names = ["group_mce", *figures.CORRELATED]
            entries = [
                {"of": of, "on": "test", "metric": name, "value": level + rng.uniform(0, 0.01)}
                for of, level in levels.items()
                for name in names
            ]
            entries += [entry | {"on": "calibration", "value": 9.0} for entry in entries]
            files = {"tables": {key: f"tables/{key}.csv" for key in both[0]}}
            records.append(
                {
                    "method": method,
                    "seed": seed,
                    "run_id": folder.name,
                    "metrics": entries,
                    "files": files,
                }
            )
    return records, tmp_path


def test_a_study_has_the_seeds_of_all_methods_and_one_parent(runs) -> None:
    study = study_of(*runs, METHODS)
    assert study.seeds == [0, 1]
    result = study.metric("group_mce")
    assert list(result) == ["no recalibration", "LoRe, t-SNE", "histogram"]
    np.testing.assert_allclose(result["no recalibration"], [0.5, 0.51], atol=0.01)
    np.testing.assert_allclose(result["LoRe, t-SNE"], [0.1, 0.11], atol=0.01)
    np.testing.assert_allclose(result["histogram"], [0.2, 0.21], atol=0.01)
    places, lce = study.table("lce_by_bandwidth_tsne", "bandwidth", "lce")
    assert places == BANDWIDTHS
    np.testing.assert_allclose(
        lce["histogram"], [[0.1 * level / b for b in BANDWIDTHS] for level in (0.2, 0.21)]
    )


def test_figures_show_what_the_tables_hold(runs) -> None:
    study = study_of(*runs, METHODS)
    lce = FIGURES["lce"](study)
    assert [axes.get_title() for axes in lce.axes if axes.get_title()] == [
        "t-SNE",
        "principal components",
    ]
    lines = {line.get_label(): line for line in lce.axes[0].lines}
    np.testing.assert_allclose(lines["LoRe, t-SNE"].get_ydata(), 0.2 * 0.105)
    error, gap = FIGURES["groups"](study).axes
    np.testing.assert_allclose(error.images[0].get_array()[0], 0.505)
    np.testing.assert_allclose(gap.images[0].get_array()[0], 0.7 + 0.0505 + 0.2 - 1)
    dots = FIGURES["correlation"](study)
    assert [axes.get_xlabel() for axes in dots.axes] == list(figures.CORRELATED.values())
    assert "small: one of 2 seeds; large: their mean" in [text.get_text() for text in dots.texts]


def test_missing_runs_are_named(runs) -> None:
    records, folder = runs
    with pytest.raises(
        DataError, match=r"^no run of mmce; run them, or name others with --methods$"
    ):
        study_of(records, folder, [*METHODS, "mmce"])
    apart = [
        record for record in records if (record["method"] == "histogram") == (record["seed"] == 0)
    ]
    with pytest.raises(
        DataError,
        match=(
            r"^no seed has a run of each of none, lore_tsne_spread, histogram; name fewer with --methods$"
        ),
    ):
        study_of(apart, folder, METHODS)


def test_methods_of_the_paper_and_others_have_names() -> None:
    assert next(iter(LABELS)) == "none"
    assert (label_of("lore_geodesic"), label_of("bin_mean_shift")) == (
        "LoRe, geodesic",
        "bin mean shift",
    )


def test_the_module_draws_the_chosen_figures(runs, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    records, folder = runs
    monkeypatch.setattr(figures, "runs_of", lambda experiment, where, free: records)
    drawn = []
    monkeypatch.setattr(
        figures,
        "study_of",
        lambda records, folder, methods: (
            drawn.append(methods) or study_of(records, folder, methods)
        ),
    )
    monkeypatch.setattr(
        sys, "argv", ["figures", str(folder), "--only", "groups", "--to", str(folder / "drawn")]
    )
    figures.main()
    assert drawn == [METHODS]  # all that were run, in the order of the key
    paths = [folder / "drawn" / f"crime_long_groups.{kind}" for kind in ("svg", "pdf")]
    assert capsys.readouterr().out.splitlines() == [str(path) for path in paths]
    assert all(path.stat().st_size > 10_000 for path in paths)
