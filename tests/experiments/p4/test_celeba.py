"""Settings 2 and 3: what is swept has a row, whole rows are scored, and the tables of both are
printed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from experiments.common.published import read_published
from experiments.p4 import celeba, setting
from experiments.p4.celeba import SETTINGS
from kdgraph.config import conf_dir, plan
from kdgraph.config.components import parameters_of, target_of
from kdgraph.config.yaml_files import read_text
from tests.experiments.p4.test_setting import record, rows_of

HERE = Path(setting.__file__).parent
METRICS = [
    "group_mce",
    "group_mce_10",
    "group_mce_100",
    "ece",
    "mce",
    "nll",
    "brier",
    "mlce_pca",
    "mlce_pca_printed",
    "error",
]


def configs(name: str, *more: str) -> list:
    """What the experiment of a setting composes of one seed."""
    words = [
        f"experiment=paper/p4/{name}",
        "dataset.path=list_attr_celeba.parquet",
        "seed=0",
        *more,
    ]
    return [job.config for job in plan(words).jobs]


@pytest.mark.parametrize("name", SETTINGS)
def test_every_method_that_is_swept_has_a_row(name) -> None:
    swept = yaml.safe_load(read_text(conf_dir() / "experiment" / "paper" / "p4" / f"{name}.yaml"))[
        "hydra"
    ]["sweeper"]["params"]
    assert [method.strip() for method in swept["method"].split(",")] == [
        f"paper/p4/celeba/{method}" for method in SETTINGS[name].methods
    ]


@pytest.mark.slow
def test_every_method_gives_whole_rows() -> None:
    for config in configs("celeba_hair_color"):
        assert config.calibrator.get("fill_proba", True) or "fill_proba" not in parameters_of(
            target_of(config.calibrator)
        )


@pytest.mark.parametrize("name", SETTINGS)
def test_published_methods_and_metrics_run_or_have_a_reason(name) -> None:
    published = read_published(HERE)
    mine = published[published.dataset == name]
    here = SETTINGS[name]
    assert set(mine.method[mine.item == "Table 1"]) == {
        *filter(None, here.methods.values()),
        *here.not_run.values(),
    }
    assert set(mine.metric[mine.item == "Table 3"]) == {
        column for column, _ in here.overall.values()
    }
    assert set(mine.method[mine.item == "Table 2"]) - set(here.correlated.values()) == {
        "MLCE_0.2 (t-SNE)"
    }


def test_tables_have_an_ece_of_15_bins() -> None:
    measured = yaml.safe_load(
        (conf_dir() / "metrics" / "paper" / "p4" / "celeba.yaml").read_text()
    )["test"]
    for here in SETTINGS.values():
        assert {setting.WORST, *here.cells, *here.overall, *here.correlated, *here.own} <= set(
            measured
        )
    assert {options["bins"] for options in measured.values() if "bins" in options} == {15}


@pytest.mark.parametrize("name", SETTINGS)
def test_network_and_lore_are_set_as_in_the_paper(name) -> None:
    published = read_published(HERE)
    text = published[published.dataset == "celeba"].set_index("metric").value
    (config,) = configs(name, "method=choice(paper/p4/celeba/lore_pca_printed)")
    parent, lore = config.parent, config.calibrator
    trained = {
        "epochs": parent["max_epochs"],
        "learning rate": parent["learning_rate"],
        "rows of a batch": parent["batch_size"],
    }
    assert trained == {key: text[key] for key in trained}
    assert parent["patience"] is None
    assert (lore["bandwidth"], lore["bins"], lore["features"]["scale"]) == (0.4, 15, "none")
    assert lore["features"]["dimensions"] == text["dimensions of PCA"]


def test_each_setting_has_its_tables(monkeypatch: pytest.MonkeyPatch, capsys, tmp_path) -> None:
    result = {
        name: [
            record(m, s, name, METRICS, patience=None)
            for m in ("none", "lore_pca")
            for s in range(2)
        ]
        for name in SETTINGS
    }
    both = celeba.compare_with_published(
        [*result["celeba_hair_color"], *result["celeba_hair_type"], record("none", 0)]
    )
    headings = [line for line in both.splitlines() if line.startswith("## ")]
    assert headings == [
        (
            "## Luo et al., setting 2 (hair colour), on attributes: 2 seeds, network trained for 10"
            " epochs"
        ),
        (
            "## Luo et al., setting 3 (hair type), on attributes: 2 seeds, network trained for 10"
            " epochs"
        ),
    ]
    only = celeba.compare_with_published(result["celeba_hair_type"])
    assert both.endswith(only)
    rows = rows_of(only.split("\n\n")[1])
    assert list(rows) == ["none", "lore_pca", "lore_tsne, not run"]
    assert (rows["lore_pca"][1], rows["lore_pca"][7]) == (".154 ± .082", ".792 ± .007")
    assert rows["lore_tsne, not run"][:4] == ["–", ".235 ± .063", "–", "–"]
    assert celeba.compare_with_published([record("none", 0)]) == "no run of CelebA is there"

    tested = []
    monkeypatch.setattr(
        celeba,
        "runs_of",
        lambda name, folder, free: (
            tested.append((name, folder, free)) or result[name.split("/")[-1]]
        ),
    )
    print(celeba.compare_with_published(celeba.read(tmp_path)))
    assert capsys.readouterr().out == both + "\n"
    assert tested == [(f"paper/p4/{name}", tmp_path, ["dataset.path"]) for name in SETTINGS]
