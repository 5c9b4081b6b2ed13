"""Which numbers of the paper are made again: keys of records are those of what was published, and nothing is passed over in silence."""

from __future__ import annotations

import numpy as np
import pytest
import yaml

from experiments.common.published import ABOUT, read_published
from experiments.p3 import tabular
from experiments.p3.paper import PAPER
from experiments.reproduction.reasons import MISSING, reasons_of
from experiments.reproduction.verdicts import cells_of
from kdgraph.config import conf_dir
from tests.experiments.p3.made import record

SETS = [*tabular.TABLES, *tabular.NOISE]
KEYS = ["item", "dataset", "metric", "method", "ood", "setting"]
NOT_YET = {
    "Section 4": "medians of APHD are in the runs of Figure 3, and have no study yet",
    "Section 6": "as Section 4",
    "Table 2": "runs of reviews of movies against AG News exist; its other texts have no data set in conf/",
    "Table 3": "runs of images exist; MedMNIST has no set in conf/",
    "Table 4": "runs of images exist, of files of the user's own",
    "Table 5": "means over sets of which some are not at hand",
    "Table 6": "runs of texts exist, of files of the user's own",
    **{f"Appendix E, table {i}": "as Tables 2 to 6" for i in range(1, 11)},
}
"""What could be read and has no study, and why."""


@pytest.fixture
def found(monkeypatch, tmp_path):
    """Numbers .90 against noise, .95 against tables; .01 more in the second seed and .04 more with shuffled labels."""

    def value(method: str, seed: int):
        return lambda name, _: 0.90 + 0.05 * (name not in tabular.NOISE) + 0.01 * seed + 0.04 * (method == "tood_shuffled")

    records = [
        record(f"{own}_6", method, seed, [*(name for name in SETS if name != own), "electricity_own_range"], value(method, seed))
        for own in tabular.TABLES
        for method in ("tood_given", "tood_shuffled", "knn")
        for seed in (0, 1)
    ]
    monkeypatch.setattr(tabular, "runs_of", lambda name, folder: records if (name, folder) == (tabular.EXPERIMENT, tmp_path) else [])
    assert tabular.measured(tmp_path / "empty").empty
    return tabular.measured(tmp_path)


def test_every_cell_of_table_1_is_there_and_no_other(found) -> None:
    published = read_published(PAPER.folder)
    assert set(published) - ABOUT - PAPER.about == set(KEYS)
    wanted = published[published.item == "Table 1"].fillna({"setting": ""})
    for variant in ("", "labels shuffled"):
        own = found[found.variant == variant]
        assert set(map(tuple, own[KEYS].to_numpy())) == set(map(tuple, wanted[KEYS].to_numpy()))
        assert len(own) == 2 * len(wanted) and set(own.seed) == {0, 1}


def test_numbers_are_percentages_in_their_places(found) -> None:
    cells = {(c.published["dataset"], c.published["ood"]): c for c in cells_of(PAPER, read_published(PAPER.folder), found) if c.ours}
    assert len(cells) == 12
    for (_, ood), cell in cells.items():
        mean = 90.5 if ood in tabular.NOISE else 95.5
        assert cell.ours is not None
        np.testing.assert_allclose([cell.ours.mean, cell.variants["labels shuffled"].mean], [mean, mean + 4], rtol=1e-12)
    assert cells["diabetes130us", "uniform"].verdict == "differs"
    assert cells["electricity", "uniform"].verdict == "lost in the text"


def test_what_is_run_are_methods_of_the_experiment() -> None:
    swept = yaml.safe_load((conf_dir() / "experiment" / "paper" / "p3" / "tabular.yaml").read_text())["hydra"]["sweeper"]["params"][
        "method"
    ]
    for size in PAPER.studies[0].sizes.values():
        ((experiment, methods),) = size.runs
        assert experiment == "experiment=paper/p3/tabular"
        assert set(methods.removeprefix("method=").split(",")) <= {name.strip() for name in swept.split(",")}


def test_every_item_is_made_or_said_to_be_not_yet() -> None:
    published = read_published(PAPER.folder)
    results = published[(published.kind != "setting") & published.value.notna()]
    assert not any(reason.kind == MISSING for reason in reasons_of(PAPER.folder)), "which speaks of items that could not be run"
    made = {item for study in PAPER.studies for item in study.items}
    assert set(results.item) - made == set(NOT_YET) and not made & set(NOT_YET)


def test_every_reason_speaks_of_a_number() -> None:
    published = [dict(row) for _, row in read_published(PAPER.folder).iterrows()]
    for reason in reasons_of(PAPER.folder):
        assert set(reason.of) <= set(KEYS) and any(reason.is_of(row) for row in published), reason
    assert set(PAPER.better) <= {row["metric"] for row in published}
