"""What the benchmark of detection on tables prints at its end, of records whose numbers are
given.
"""

from __future__ import annotations

import numpy as np
from matplotlib.lines import Line2D

from experiments.tabular_ood.picture import rank_lines
from experiments.tabular_ood.ranking import compare_with_published, draw, ranks_of
from kdgraph.figures.style import BLACK, BLUE
from kdgraph.results.comparison.significance import Ranks
from tests.results.conftest import make_record


def run(
    dataset: str,
    method: str,
    auroc: float,
    oce: float,
    ece: float,
    sets: tuple[str, ...] = ("near", "noise"),
) -> dict:
    numbers = {"error": 0.1, "ece": ece} | {
        f"{metric}@{name}": value
        for name in sets
        for metric, value in (("auroc", auroc), ("oce", oce))
    }
    numbers |= {f"fpr95@{name}": 1 - auroc for name in sets}
    of_parent = {key: 0.3 if "auroc" in key else 0.5 for key in numbers}
    return make_record(dataset, method, values=numbers, of_parent=of_parent, simulated=False)


def runs(iso_ece: float, sets: tuple[str, ...] = ("near", "noise")) -> list[dict]:
    """Eight tables on which density is .01 above k-NN, and whitened KDF has half of isotonic
    regression's OCE at an ECE of .03.
    """
    records = []
    for i in range(8):
        name, more = f"table{i}", 0.001 * i
        records += [
            run(name, "knn", 0.8 + more, 0.4, 0.1, sets),
            run(name, "graph_density", 0.81 + more, 0.4, 0.1, sets),
            run(name, "isotonic", 0.7 + more, 0.4, iso_ece, sets),
            run(name, "kdf_whitened", 0.9 + more, 0.2, 0.03, sets),
        ]
    return records


def comparison_with(iso_ece: float) -> str:
    return compare_with_published(runs(iso_ece))


def test_methods_are_sorted_by_mean_rank_and_claims_follow():
    printed = comparison_with(0.029)
    lines = [
        line.split("|")[1].strip(" *") for line in printed.splitlines() if line.startswith("|")
    ]
    assert lines[2:7] == [
        "kdf_whitened",
        "graph_density",
        "knn",
        "isotonic",
        "random_forest (parent)",
    ]
    assert (
        "pass: AUROC of graph_density is not significantly below that of knn, the best of knn. +.010,"
        " 8/0/0" in printed
    )
    costs = (
        "kdf_whitened has an ECE of at most isotonic's + 0.003, and on average less OCE than all"
        " that have it too and are no gate"
    )
    assert f"pass: {costs}. ECE +.0010; OCE .200 against .400 of isotonic, 8/0/0" in printed
    assert (
        "pass: kdf_whitened has on average less OCE than all that is no gate. OCE .200 against"
        " .400 of" in printed
    )
    assert "Every method has a number on every set." in printed


def test_a_gate_that_costs_too_much_fails():
    printed = comparison_with(0.026)
    costs = (
        "kdf_whitened has an ECE of at most isotonic's + 0.003, and on average less OCE than all"
        " that have it too and are no gate"
    )
    assert f"FAIL: {costs}. ECE +.0040" in printed
    assert (
        "pass: kdf_whitened has on average less OCE than all that is no gate. OCE .200" in printed
    )


def xy_of(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def test_every_method_has_a_row_in_the_order_of_ranks():
    mean = {"a": 1.25, "b": 2.0, "c (parent)": 2.75, "d": 4.0}
    ranks = Ranks(mean, 8, 20.0, 12.0, 0.001, critical_difference=1.6)
    (axes,) = rank_lines({"AUROC": ranks}).axes
    lines = {line.get_gid(): line for line in axes.lines}
    points = {name: lines[f"rank {name}"] for name in mean}
    assert [xy_of(at)[0] for at in points.values()] == [(1.25, 0), (2.0, 1), (2.75, 2), (4.0, 3)]
    assert axes.yaxis_inverted(), "the best is at the top"
    assert [at.get_markerfacecolor() for at in points.values()] == [BLUE, BLUE, "white", BLACK]
    assert ranks.groups == [["a", "b", "c (parent)"], ["c (parent)", "d"]]
    first, second = (xy_of(lines[f"not told apart {i}"]) for i in range(2))
    assert [[round(y) for _, y in bar] for bar in (first, second)] == [[0, 2], [2, 3]]
    assert first[0][0] < second[0][0] < axes.get_xlim()[0], "beside each other, left of the axis"
    (shade,) = (patch for patch in axes.patches if patch.get_gid() == "shade")
    np.testing.assert_allclose(
        shade.get_extents().transformed(axes.transData.inverted()).intervalx, [1.25, 1.25 + 1.6]
    )
    assert (
        axes.get_title(loc="left") == "AUROC, 8 data sets"
        and axes.get_xlabel() == "mean rank; critical difference 1.6"
    )


def test_no_name_of_a_preset_is_shortened():
    mean = {"tabular_mlp energy_fine_tuning (parent)": 1.0, "kdf_whitened": 2.0, "odin": 3.0}
    ranks = Ranks(mean, 8, 20.0, 12.0, 0.001, critical_difference=1.6)
    figure = rank_lines({"AUROC": ranks, "OCE": ranks})
    texts = [text for axes in figure.axes for text in axes.texts]
    assert len(texts) == 6 and not any("…" in text.get_text() for text in texts)
    assert min(text.get_window_extent().x0 for text in texts) >= 0


def test_methods_with_unchanged_probabilities_have_no_rank(tmp_path):
    records = runs(0.03)
    for record in records:
        if record["method"] in ("knn", "graph_density"):
            record["metrics"] = [
                e | {"value": 0.5} if e["metric"] == "oce" else e for e in record["metrics"]
            ]
    result = ranks_of(records)
    assert list(result["AUROC"].mean) == [
        "kdf_whitened",
        "graph_density",
        "knn",
        "isotonic",
        "random_forest (parent)",
    ]
    assert list(result["OCE"].mean) == ["kdf_whitened", "isotonic", "random_forest (parent)"]
    drawn = draw(records, tmp_path / "ranks")
    assert [path.suffix for path in drawn] == [".svg", ".png"] and all(
        path.exists() for path in drawn
    )
