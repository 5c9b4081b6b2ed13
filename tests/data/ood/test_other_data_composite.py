"""Several sources of out-of-distribution rows in one run."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.data import Dataset
from kdgraph.data.dataset import OodSet
from kdgraph.data.ood import Box, CompositeOod, GaussianNoise, Sphere
from kdgraph.errors import ConfigError, DataNotAvailable, ParameterError
from kdgraph.report.run_table import run_table
from tests.data.ood.splits import identical_splits


@dataclass
class UnavailableSource:
    """Source that yields ``n_sets`` sets and then raises, since its data are not available."""

    n_sets: int = 0

    def prefetch(self, progress=None) -> None:
        raise DataNotAvailable("not in the cache")

    def sets(self, splits, rng):
        for i in range(self.n_sets):
            yield OodSet(f"part {i}", np.zeros((2, 2)))
        raise DataNotAvailable("not in the cache")


def gaussian_splits():
    return identical_splits(
        Dataset.from_labels("toy", np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2)
    )


def draw_sets_by_name(composite: CompositeOod) -> dict:
    return {
        (ood_set.name, *ood_set.params.items()): ood_set
        for ood_set in composite.sets(gaussian_splits(), np.random.default_rng(7))
    }


def test_set_names_begin_with_the_key_of_their_source():
    sets = draw_sets_by_name(
        CompositeOod(
            {
                "blob": GaussianNoise(n=3),
                "shell": Sphere([1.0, 2.0], n=3),
                "sphere": Sphere([1.0, 2.0], n=3),
            }
        )
    )
    assert list(sets) == [
        ("blob", ("std", 1.0)),
        ("shell/sphere", ("radius", 1.0)),
        ("shell/sphere", ("radius", 2.0)),
        ("sphere", ("radius", 1.0)),
        ("sphere", ("radius", 2.0)),
    ]


def test_rows_of_a_source_do_not_depend_on_other_sources():
    sets = draw_sets_by_name(CompositeOod({"blob": GaussianNoise(n=5), "box": Box(n=5)}))
    reordered_sets = draw_sets_by_name(
        CompositeOod({"more": Sphere([3.0], n=5), "box": Box(n=5), "blob": GaussianNoise(n=5)})
    )
    for name, ood_set in sets.items():
        np.testing.assert_array_equal(ood_set.X, reordered_sets[name].X)
    sets_of_equal_sources = draw_sets_by_name(
        CompositeOod({"a": GaussianNoise(n=5), "b": GaussianNoise(n=5)})
    )
    assert not np.array_equal(*(ood_set.X for ood_set in sets_of_equal_sources.values()))


def test_sets_are_drawn_on_demand():
    """Check that two sets are drawn in advance, to detect a source with a single set."""
    drawn_indices = []

    class CountingSource:
        def sets(self, splits, rng):
            for i in range(5):
                drawn_indices.append(i)
                yield OodSet("many", np.zeros((1, 2)), {"i": i})

    sets = CompositeOod({"key": CountingSource()}).sets(gaussian_splits(), np.random.default_rng(0))
    next(sets)
    assert drawn_indices == [0, 1]
    assert len(list(sets)) == 4


def test_unavailable_source_is_refused_by_default():
    composite = CompositeOod({"blob": GaussianNoise(n=3), "far": UnavailableSource()})
    for method in (composite.prefetch, lambda: draw_sets_by_name(composite)):
        with pytest.raises(DataNotAvailable, match=r"^not in the cache$"):
            method()


def test_unavailable_source_is_skipped_with_a_warning():
    composite = CompositeOod(
        {"far": UnavailableSource(), "blob": GaussianNoise(n=3), "half": UnavailableSource(1)},
        missing="skip",
    )
    messages = []
    composite.prefetch(messages.append)
    composite.prefetch()
    assert messages == ["far is skipped: not in the cache", "half is skipped: not in the cache"]
    with pytest.warns(UserWarning, match="^(far|half) is skipped: not in the cache$") as caught:
        sets = draw_sets_by_name(composite)
    assert [str(warning.message).split()[0] for warning in caught] == ["far", "half"]
    assert [name[0] for name in sets] == ["blob"]


@pytest.mark.parametrize(
    ("sources", "sentence"),
    [
        (
            {},
            (
                "^sources must name at least one source of out-of-distribution rows, got none; or"
                " choose ood=none$"
            ),
        ),
        ({"none": None}, "^sources.none must be a source of out-of-distribution rows, got None$"),
        ([], "^sources must be a mapping, got \\[\\]$"),
    ],
)
def test_invalid_sources_are_refused(sources, sentence):
    with pytest.raises(ParameterError, match=sentence):
        CompositeOod(sources)


def test_sources_of_a_config_may_have_any_key():
    config = compose(
        [
            "dataset=wine",
            "ood=composite",
            "~ood.sources.noise",
            "+ood@ood.sources.far=sphere",
            "ood.sources.far.radii=[9]",
        ]
    )
    assert list(config.ood["sources"]) == ["gaussian", "far"]
    composite = build(config.ood)
    assert isinstance(composite.sources["far"], Sphere) and composite.sources["far"].radii == [9]
    assert (
        config.run_id
        != compose(
            ["dataset=wine", "ood=composite", "~ood.sources.noise", "+ood@ood.sources.far=sphere"]
        ).run_id
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["ood.sources.noise.m=3"], "unknown key 'ood.sources.noise.m'"),
        (["+ood.sources.noise.n_test=3"], "unknown key 'ood.sources.noise.n_test'"),
        (["ood.missing=drop"], "ood.missing must be one of refuse, skip, got 'drop'"),
        (
            ["+ood@ood.sources.other=dataset", "ood.sources.other.name=wine"],
            (
                "ood.sources.other.name=wine is what dataset=wine trains on, so its rows are in"
                " distribution"
            ),
        ),
    ],
)
def test_invalid_configs_of_sources_are_refused(arguments, sentence):
    with pytest.raises((ConfigError, ParameterError)) as caught:
        compose(["dataset=wine", "ood=composite", *arguments])
    assert str(caught.value).startswith(sentence)


def test_content_of_a_source_file_is_part_of_the_run_id(tmp_path):
    path = tmp_path / "other.csv"
    overrides = [
        "dataset=wine",
        "ood=composite",
        "+ood@ood.sources.other=dataset",
        "ood.sources.other.columns=cycle",
    ]
    source = f"{{name: custom, _target_: kdgraph.data.tables.TableFile, path: {path}, target: y}}"
    ids = []
    for rows in ("x,y\n1,a\n2,b\n", "x,y\n1,a\n3,b\n"):
        path.write_text(rows)
        ids.append(
            compose(
                [*overrides, f"ood.sources.other.source={source}", "ood.sources.other.name=custom"]
            ).run_id
        )
    assert ids[0] != ids[1]


QUICK = ["parent.n_estimators=5", "n_jobs=1", "metrics=default", "figures=none"]


def test_run_on_sets_from_near_to_far(tmp_path, capsys):
    arguments = [
        "run",
        "--json",
        "dataset=iris",
        "dataset.left_out=1",
        "ood=near_to_far",
        "method=kdf",
        *QUICK,
        f"out={tmp_path}",
    ]
    assert main(arguments) == 0
    record = json.loads(capsys.readouterr().out)
    names = ["near", "permuted", "shifted", "other", "noise"]
    assert [
        m["ood"] for m in record["metrics"] if (m["metric"], m["of"]) == ("auroc", "calibrated")
    ] == names
    sources = {ood_set["name"]: ood_set["source"] for ood_set in record["ood_sets"]}
    assert (
        sources["near"]["classes"] == record["dataset"]["source"]["left_out"]
        and len(sources["near"]["classes"]) == 1
    )
    assert sources["other"]["set"] == "digits"
    text = run_table(record, "x")
    lines = text.splitlines()
    start = next(
        i
        for i, line in enumerate(lines)
        if line.startswith("  out of distribution   rows   random_forest")
    )
    assert [line.split()[0] for line in lines[start + 1 : start + 6]] == names
    assert (
        "near (left_out): 50 at random of 50 rows, class " in text
        and "other (digits): 1,000 at random of 1,797 rows; " in text
    )


@pytest.mark.filterwarnings("default:near is skipped")
def test_run_on_two_classes_skips_the_near_set(tmp_path, capsys):
    assert (
        main(
            [
                "run",
                "dataset=breast_cancer",
                "ood=near_to_far",
                "method=kdf",
                *QUICK,
                f"out={tmp_path}",
            ]
        )
        == 0
    )
    output = capsys.readouterr().out
    assert (
        "warning (evaluate): near is skipped: no class of breast_cancer is left out; name some, or"
        " give their number" in output
    )
    assert "other (digits): 1,000 at random of 1,797 rows; 30 of 61 numeric columns" in output


def test_other_table_differs_from_the_training_table():
    assert (
        compose(["dataset=digits", "ood=near_to_far"]).ood["sources"]["other"]["name"]
        == "breast_cancer"
    )
    assert (
        compose(["dataset=wine", "ood=near_to_far"]).ood["sources"]["other"]["source"]["loader"]
        == "digits"
    )
    overrides = ["dataset=wine", "ood=near_to_far", "ood.sources.other.name=iris"]
    assert compose(overrides).ood["sources"]["other"]["source"]["loader"] == "iris"


@pytest.mark.slow
def test_parallel_sweep_finds_the_available_sets(tmp_path, capsys):
    overrides = [
        "dataset=iris,wine",
        "dataset.left_out=null,1",
        "ood=near_to_far",
        "method=kdf",
        *QUICK,
        f"out={tmp_path}",
    ]
    assert (
        main(
            [
                "run",
                "--json",
                "-m",
                *overrides,
                "hydra/launcher=processes",
                "hydra.launcher.n_jobs=2",
            ]
        )
        == 0
    )
    records = json.loads(capsys.readouterr().out)
    assert [(len(r["ood_sets"]), r["dataset"]["name"]) for r in records] == [
        (3, "iris"),
        (4, "iris"),
        (3, "wine"),
        (4, "wine"),
    ]


def test_stage_keys_depend_on_the_available_sets(tmp_path, monkeypatch):
    """Check that outputs of an earlier run are not reused if another set has become available.

    Stored outputs are in the order of the sets.
    """
    from kdgraph.runner.stages import split
    from kdgraph.runner.stored_stages import stage_keys

    monkeypatch.chdir(tmp_path)
    source = "{name: other,_target_: kdgraph.data.tables.ArrayFile,path: other.npz}"
    away = f"+ood.sources.other={{_target_: kdgraph.data.ood.OtherDataset,source: {source}}}"
    config = compose(["dataset=iris", "ood=composite", "ood.missing=skip", away])
    rows = split(config.dataset, 0)
    without = stage_keys(config, rows)
    np.savez("other.npz", X=np.zeros((4, 4)), y=np.arange(4) % 2)
    with_it = stage_keys(compose(["dataset=iris", "ood=composite", "ood.missing=skip", away]), rows)
    assert {stage for stage in without if without[stage] != with_it[stage]} == {
        "parent_outputs",
        "evaluate",
    }
    assert (
        CompositeOod({"a": UnavailableSource(), "b": Box()}, missing="skip").absent() == ["a"]
        and CompositeOod({"a": UnavailableSource()}).absent() == []
    )
