"""Which numbers of the paper are made again: keys of records are those of what was published, and
nothing is passed over in silence.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import yaml

from experiments.common.published import ABOUT, read_published
from experiments.p4 import crime, setting
from experiments.p4.setting import OWN_UNITS, REFITTED, entries, measured
from experiments.reproduction.papers import paper
from experiments.reproduction.reasons import MISSING, reasons_of
from experiments.reproduction.studies import SCALES
from experiments.reproduction.verdicts import cells_of
from kdgraph.config import conf_dir
from tests.experiments.p4.test_setting import METRICS, record

PAPER = paper("p4")

SEEDS = 5
LOCAL = ["mlce_tsne", "mlce_pca", "mlce_tsne_printed", "mlce_pca_printed"]
KEYS = ["item", "dataset", "metric", "method"]


@pytest.fixture(scope="module")
def frame():
    """Numbers of every method that the experiment has."""
    return pd.DataFrame(
        entries(
            record(m, s, metrics=[*METRICS, *LOCAL])
            for m in crime.SETTING.methods
            for s in range(SEEDS)
        )
    )


@pytest.fixture(scope="module")
def result(frame):
    return measured(frame, crime.SETTING)


def values(frame: pd.DataFrame, method: str, metric: str) -> np.ndarray:
    return (
        frame[(frame.method == method) & (frame.metric == metric)]
        .sort_values("seed")
        .value.to_numpy()
    )


def of(result: pd.DataFrame, item: str, metric: str, method: str, variant: str = "") -> np.ndarray:
    same = (
        (result.item == item)
        & (result.metric == metric)
        & (result.method == method)
        & (result.variant == variant)
    )
    return result[same].sort_values("seed").value.to_numpy()


def test_every_number_of_the_setting_is_there_and_no_other(result) -> None:
    published = read_published(PAPER.folder)
    assert [name for name in published if name not in ABOUT | PAPER.about] == KEYS
    wanted = published[(published.dataset == "crime") & (published.kind == "table")]
    own = result[result.variant == ""]
    assert set(map(tuple, own[KEYS].to_numpy())) == set(map(tuple, wanted[KEYS].to_numpy()))
    assert (own.groupby(KEYS).size() == SEEDS).all()
    assert set(map(tuple, result[KEYS].to_numpy())) == set(
        map(tuple, wanted[KEYS].to_numpy())
    )  # nor has a variant another place


def test_numbers_are_in_published_units_and_places(frame, result) -> None:
    np.testing.assert_array_equal(
        of(result, "Table 1", "max group MCE", "group histogram"),
        values(frame, "group_histogram", "group_mce"),
    )
    np.testing.assert_array_equal(
        of(result, "Table 3", "ECE in percent", "mmce"), 100 * values(frame, "mmce", "ece")
    )
    np.testing.assert_array_equal(
        of(result, "Table 3", "NLL", "none"), values(frame, "none", "nll_top")
    )
    for variant, method in (
        ("", "lore_pca_spread"),
        (OWN_UNITS, "lore_pca_printed"),
        (REFITTED, "lore_pca"),
        ("simplest γ and bins", "lore_free"),
    ):
        np.testing.assert_array_equal(
            of(result, "Table 1", "max group MCE", "LoRe PCA", variant),
            values(frame, method, "group_mce"),
        )


@pytest.mark.parametrize(
    ("variant", "end", "metric"),
    [
        ("", "_spread", "mlce_tsne"),
        (OWN_UNITS, "_printed", "mlce_tsne_printed"),
        (REFITTED, "", "mlce_tsne"),
    ],
)
def test_a_correlation_is_over_the_nine_methods_of_the_paper(
    frame, result, variant, end, metric
) -> None:
    """The mean of pseudo-values is n r − (n − 1) times the mean r without a seed, and a seed's is
    what it alone changes.
    """
    methods = [
        "none",
        "temperature",
        "histogram",
        "isotonic",
        "mmce",
        "group_temperature",
        "group_histogram",
    ]
    methods += [f"lore_tsne{end}", f"lore_pca{end}"]
    both = np.array(
        [[values(frame, method, name) for method in methods] for name in (metric, "group_mce")]
    )  # of each, methods by seeds
    r = np.corrcoef(both.reshape(2, -1))[0, 1]
    without = np.array(
        [np.corrcoef(np.delete(both, seed, axis=2).reshape(2, -1))[0, 1] for seed in range(SEEDS)]
    )
    own = of(result, "Table 2", "correlation with max group MCE", "MLCE_0.2 (t-SNE)", variant)
    np.testing.assert_allclose(
        own, SEEDS * r - (SEEDS - 1) * without, rtol=1e-9
    )  # sums in another order


def test_correlation_of_one_seed_is_itself(frame) -> None:
    own = measured(frame[frame.seed == 0], crime.SETTING)
    assert len(of(own, "Table 2", "correlation with max group MCE", "ECE")) == 1
    assert (
        len(measured(frame[(frame.seed == 0) & (frame.method == "none")], crime.SETTING)) == 4
    )  # of some methods it is another number


def test_correlation_is_over_the_common_seeds(frame) -> None:
    few = frame[(frame.seed < 3) | ~frame.method.isin(["lore_tsne", "lore_pca"])]
    own, of_three = (
        measured(few, crime.SETTING),
        measured(frame[frame.seed < 3], crime.SETTING),
    )
    row = ("Table 2", "correlation with max group MCE", "ECE")
    assert len(of(own, *row)) == SEEDS and len(of(own, *row, REFITTED)) == 3
    np.testing.assert_array_equal(of(own, *row, REFITTED), of(of_three, *row, REFITTED))


def test_both_networks_are_read_and_mmce_has_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    made = {
        crime.EXPERIMENT: [record(m, s) for m in ("none", "mmce") for s in range(2)],
        crime.STOPPED: [record(m, s) for m in ("none", "mmce_stopped", "mmce") for s in range(2)],
    }
    monkeypatch.setattr(
        crime, "runs_of", lambda name, folder: made.get(name, []) if folder == tmp_path else []
    )
    variants = crime.measured(tmp_path)
    first = variants[variants.item == "Table 1"]
    assert sorted(zip(first.method, first.variant, first.seed, strict=True)) == sorted(
        (method, variant, seed)
        for method in ("none", "mmce")
        for variant in ("", crime.EARLY)
        for seed in range(2)
    )
    mmce = values(pd.DataFrame(entries(made[crime.STOPPED])), "mmce_stopped", "group_mce")
    np.testing.assert_array_equal(
        of(variants, "Table 1", "max group MCE", "mmce", crime.EARLY), mmce
    )
    assert crime.measured(tmp_path / "empty").empty
    # MMCE's network of 60 epochs is the same whichever experiment its run is of.
    made[crime.STOPPED] = [record("mmce", s) for s in range(2)]
    for each in made[crime.STOPPED]:
        each["config"]["parent"]["loss"] = "mmce"
    assert set(crime.measured(tmp_path).variant) == {""}
    cells = cells_of(PAPER, read_published(PAPER.folder), variants)
    assert (
        sum(cell.measured is not None for cell in cells) == 2 * 4
    )  # one of Table 1 and three of Table 3
    assert next(iter(cells)).variants.keys() == {crime.EARLY}


def test_other_readings_of_the_text_are_variants(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    methods = ["none", "isotonic", "isotonic_labels", "lore_pca_spread", "lore_pca_mass"]
    made = {
        crime.READINGS: [
            record(m, s, metrics=[*METRICS, "ece_15"]) for m in methods for s in range(2)
        ],
        crime.INCOME: [record(m, s, metrics=METRICS) for m in methods[:2] for s in range(2)],
    }
    monkeypatch.setattr(crime, "runs_of", lambda name, folder: made.get(name, []))
    variants = crime.measured(tmp_path)
    frame = pd.DataFrame(entries(made[crime.READINGS]))
    assert set(variants.item) == {"Table 1", "Table 3"} and "" not in set(variants.variant)
    for row, variant, method, metric in (
        (("Table 1", "max group MCE", "isotonic"), crime.LABELS, "isotonic_labels", "group_mce"),
        (("Table 3", "NLL", "isotonic"), crime.LABELS, "isotonic_labels", "nll_top"),
        (("Table 3", "Brier", "LoRe PCA"), crime.MASS, "lore_pca_mass", "brier_top"),
    ):
        np.testing.assert_array_equal(of(variants, *row, variant), values(frame, method, metric))
    np.testing.assert_array_equal(
        of(variants, "Table 3", "ECE in percent", "LoRe PCA", crime.BINS_15),
        100 * values(frame, "lore_pca_spread", "ece_15"),
    )
    incomes = variants[variants.variant == crime.BY_INCOME]
    assert set(zip(incomes["item"], incomes.method, strict=True)) == {
        ("Table 1", "none"),
        ("Table 1", "isotonic"),
    }


def test_run_methods_are_those_of_the_experiments() -> None:
    swept = yaml.safe_load((conf_dir() / "experiment" / "paper" / "p4" / "crime.yaml").read_text())[
        "hydra"
    ]["sweeper"]["params"]["method"]
    known = {method.strip() for method in swept.split(",")}
    for size in PAPER.studies[0].sizes.values():
        tested: dict[str, set[str]] = {}
        for experiment, *words in size.runs:
            methods = words[0].removeprefix("method=").split(",") if words else []
            tested.setdefault(experiment.removeprefix("experiment="), set()).update(methods)
        assert tested.keys() == {crime.EXPERIMENT, crime.STOPPED, crime.READINGS, crime.INCOME}
        assert set().union(*tested.values()) <= known
        names = {method.split("/")[-1] for method in tested[crime.EXPERIMENT]}
        assert names == set(crime.SETTING.stands_for)
        names = {method.split("/")[-1] for method in tested[crime.STOPPED]}
        assert set(crime.STOPPED_SETTING.in_paper) <= names <= set(crime.STOPPED_SETTING.stands_for)
    assert set(PAPER.studies[0].sizes) <= set(SCALES)


def test_every_result_is_made_or_has_a_reason() -> None:
    published = read_published(PAPER.folder)
    reasons = [reason for reason in reasons_of(PAPER.folder) if reason.kind == MISSING]
    results = published[published.kind != "setting"]
    made = (results.dataset == crime.SETTING.dataset) & results.item.map(
        lambda item: PAPER.study_of(item) is not None
    )
    missing = results.apply(
        lambda row: sum(reason.applies_to(dict(row)) for reason in reasons), axis=1
    )
    assert ((missing == 1) == ~made).all() and (missing <= 1).all()
    assert made.sum() == 9 + 6 + 3 * 7


def test_every_reason_applies_to_a_number() -> None:
    published = [dict(row) for _, row in read_published(PAPER.folder).iterrows()]
    for reason in reasons_of(PAPER.folder):
        assert set(reason.where) <= set(KEYS) and any(
            reason.applies_to(row) for row in published
        ), reason
    assert set(PAPER.better) <= {row["metric"] for row in published}
    assert setting.CORRELATION not in PAPER.better  # that one is larger is worth nothing in itself


def test_settings_are_those_of_the_main_columns_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    config = {
        "dataset": {"group": ["a", "b", "c", "d"]},
        "parent": {
            "hidden": [100, 50],
            "dropout": [0.1, 0.4],
            "batch_size": 64,
            "learning_rate": 0.001,
        },
        "metrics": {
            "test": {"ece": {"bins": 7}},
            "spaces": {"pca": {"dimensions": 20}, "tsne": {"dimensions": 2}},
        },
        "calibrator": {"bandwidth": 0.3},
    }
    methods = ["none", "lore_pca_spread", "lore_tsne_spread-as_in_paper", "lore_pca"]
    made = [record(method, seed) for method in methods for seed in range(3)]
    made.append(record("mmce", 0))
    for each in made:
        each["config"] = config | {"parent": config["parent"] | {"loss": "cross_entropy"}}
        each["dataset"]["classes"] = ["no", "yes"]
    made[-1]["config"] = config | {"parent": {"loss": "mmce", "hidden": [3]}}
    monkeypatch.setattr(crime, "runs_of", lambda name, folder: made)
    variants = crime.settings(tmp_path)
    published = read_published(PAPER.folder)
    settings = published[published.kind == "setting"]
    known = set(settings[KEYS].fillna("").itertuples(index=False, name=None))
    assert set(variants[KEYS].fillna("").itertuples(index=False, name=None)) <= known
    assert not variants.duplicated([*KEYS, "seed"]).any()
    means = variants.groupby(["item", "metric"]).value.mean()
    assert means["Section 5.1", "training rows"] == 994 and means["Section 5.3", "seeds"] == 3
    assert means["Section 5.3", "groups"] == 4 and means["Section 5.3", "classes"] == 2
    assert means["Appendix A", "bins"] == 7 and means["Appendix A.2", "units of a layer"] == 75
    dropout = means["Appendix A.2", "dropout after the last hidden layer"]
    assert dropout == pytest.approx(0.4, rel=1e-12)
    assert means["Section 4", "bandwidth of LoRe"] == pytest.approx(0.3, rel=1e-12)
    cells = cells_of(PAPER, published, variants)
    assert {cell.verdict for cell in cells if cell.measured is not None} == {"a setting"}
