"""Sets of test rows of which a fraction is out of distribution."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.config.data_sources import files_read
from kdgraph.data import Dataset
from kdgraph.data.dataset import OodSet, Splits
from kdgraph.data.ood import Contaminated, GaussianNoise, Sphere
from kdgraph.errors import ConfigError, DataNotAvailable, ParameterError


def numbered_splits(n_test: int = 50) -> Splits:
    """Return splits whose test rows have the value of their number, below 100."""
    train = Dataset.from_labels("toy", np.arange(40.0)[:, None], np.arange(40) % 2)
    test = Dataset.from_labels("toy", np.arange(float(n_test))[:, None], np.arange(n_test) % 2)
    return Splits(train, train, test)


class Hundreds:
    """Source of rows from 100 upwards."""

    def __init__(self, n: int = 80) -> None:
        self.n = n

    def sets(self, splits, rng):
        return [OodSet("hundreds", 100 + np.arange(float(self.n))[:, None], {"k": 1.0})]


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_share_is_the_fraction_of_rows_of_the_source():
    source = Contaminated(Hundreds(), shares=[0, 0.001, 0.1, 0.55, 1], n=40)
    sets = list(source.sets(numbered_splits(), rng()))
    assert [ood_set.params for ood_set in sets] == [
        {"k": 1.0, "share": share} for share in (0.0, 0.001, 0.1, 0.55, 1.0)
    ]
    assert [int((ood_set.X >= 100).sum()) for ood_set in sets] == [0, 1, 4, 22, 40]
    assert {len(ood_set.X) for ood_set in sets} == {40}
    assert all(len(np.unique(ood_set.X)) == 40 for ood_set in sets)  # no row is there twice
    assert sets[2].name == "hundreds" and sets[2].facts == {"contamination": "4 of 40 rows"}


def test_sets_are_nested_by_their_fraction_of_outliers():
    few, many = Contaminated(Hundreds(), shares=[0.2, 0.5], n=20).sets(numbered_splits(), rng())
    outliers = [set(ood_set.X[ood_set.X >= 100].tolist()) for ood_set in (few, many)]
    inliers = [set(ood_set.X[ood_set.X < 100].tolist()) for ood_set in (few, many)]
    assert outliers[0] < outliers[1] and inliers[1] < inliers[0]


def test_a_share_is_drawn_as_it_is_without_the_others():
    together = list(Contaminated(Hundreds(), shares=[0.1, 0.5]).sets(numbered_splits(), rng()))
    (alone,) = Contaminated(Hundreds(), shares=[0.5]).sets(numbered_splits(), rng())
    np.testing.assert_array_equal(together[1].X, alone.X)


@pytest.mark.parametrize(("n_test", "n_outliers", "n"), [(30, 80, 30), (50, 8, 8)])
def test_sets_have_no_more_rows_than_either_kind(n_test, n_outliers, n):
    sets = Contaminated(Hundreds(n_outliers)).sets(numbered_splits(n_test), rng())
    assert {len(ood_set.X) for ood_set in sets} == {n}


def test_every_set_of_a_family_is_mixed():
    sets = list(Contaminated(Sphere([1.0, 2.0]), shares=[0.5]).sets(numbered_splits(), rng()))
    assert [ood_set.params for ood_set in sets] == [
        {"radius": 1.0, "share": 0.5},
        {"radius": 2.0, "share": 0.5},
    ]


def test_unusable_options_are_refused():
    with pytest.raises(ParameterError, match="outliers must be a source of out-of-distribution"):
        Contaminated(3)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"shares must have at least one number, got \[\]"):
        Contaminated(GaussianNoise(), shares=[])
    with pytest.raises(ParameterError, match="shares"):
        Contaminated(GaussianNoise(), shares=[1.5])


def test_data_of_the_source_are_fetched():
    class Unavailable(Hundreds):
        def prefetch(self, progress=None):
            raise DataNotAvailable("not in the cache")

    Contaminated(Hundreds()).prefetch()
    with pytest.raises(DataNotAvailable, match="not in the cache"):
        Contaminated(Unavailable()).prefetch()


def test_data_set_of_the_outliers_is_found_in_the_config(tmp_path):
    words = ["dataset=wine", "ood=contaminated", "+ood@ood.outliers=dataset"]
    config = compose([*words, "ood.outliers.columns=cycle", "ood.outliers.name=iris"])
    assert config.ood["outliers"]["source"]["name"] == "iris"
    rows = {"_target_": "kdgraph.data.tables.TableFile", "path": str(tmp_path / "rows.csv")}
    science = {**config.science(), "ood": {"outliers": {"source": rows}}}
    assert "ood.outliers.path" in files_read(science)
    message = r"ood\.outliers\.name=wine is what dataset=wine trains on"
    with pytest.raises(ConfigError, match=message):
        compose([*words, "ood.outliers.name=wine"])


def test_run_records_auroc_by_contamination(tmp_path, capsys):
    main(
        [
            *("run", "dataset=wine", "method=set_ks", "detector.set_size=20"),
            *("detector.repeats=20", "ood=contaminated", "figures=none", f"out={tmp_path}"),
        ]
    )
    assert "AUROC of sets of 20 rows on noise, share 1" in capsys.readouterr().out
    (path,) = tmp_path.rglob("result.json")
    entries = [
        entry
        for entry in json.loads(path.read_text())["metrics"]
        if entry["metric"] == "auroc" and entry["of"] == "calibrated"
    ]
    assert [entry["params"] for entry in entries] == [
        {"share": share} for share in (0.05, 0.1, 0.2, 0.5, 1.0)
    ]
    assert {entry["n_of"] for entry in entries} == {"sets of 20 rows"}
    by_share = [entry["value"] for entry in entries]
    assert by_share[-1] == 1.0 and by_share[0] < 0.9
