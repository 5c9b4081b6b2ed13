"""Several sources of rows out of distribution in one run."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest

from kdgraph.cli import main
from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.data import Dataset
from kdgraph.data.dataset import OodSet
from kdgraph.data.ood import Box, CompositeOod, GaussianNoise, Sphere
from kdgraph.errors import ConfigError, DataNotAvailable, ParameterError
from kdgraph.report.run_table import run_table
from tests.data.ood import trained


@dataclass
class Away:
    """A source whose rows are not at hand; asked twice, it gives one set before it says so."""

    first: int = 0

    def prefetch(self, progress=None) -> None:
        raise DataNotAvailable("nobody has it")

    def sets(self, splits, rng):
        for i in range(self.first):
            yield OodSet(f"part {i}", np.zeros((2, 2)))
        raise DataNotAvailable("nobody has it")


def splits():
    return trained.on(
        Dataset.from_labels("toy", np.random.default_rng(0).normal(size=(30, 2)), np.arange(30) % 2)
    )


def drawn(several: CompositeOod) -> dict:
    return {
        (each.name, *each.params.items()): each
        for each in several.sets(splits(), np.random.default_rng(7))
    }


def test_a_single_set_has_the_name_of_its_key_and_one_of_many_its_own_behind_it():
    found = drawn(
        CompositeOod(
            {
                "blob": GaussianNoise(n=3),
                "shell": Sphere([1.0, 2.0], n=3),
                "sphere": Sphere([1.0, 2.0], n=3),
            }
        )
    )
    assert list(found) == [
        ("blob", ("std", 1.0)),
        ("shell/sphere", ("radius", 1.0)),
        ("shell/sphere", ("radius", 2.0)),
        ("sphere", ("radius", 1.0)),
        ("sphere", ("radius", 2.0)),
    ]


def test_no_source_changes_the_rows_of_another():
    both = drawn(CompositeOod({"blob": GaussianNoise(n=5), "box": Box(n=5)}))
    other_way = drawn(
        CompositeOod({"more": Sphere([3.0], n=5), "box": Box(n=5), "blob": GaussianNoise(n=5)})
    )
    for name, each in both.items():
        np.testing.assert_array_equal(each.X, other_way[name].X)
    twins = drawn(CompositeOod({"a": GaussianNoise(n=5), "b": GaussianNoise(n=5)}))
    assert not np.array_equal(*(each.X for each in twins.values()))


def test_sets_are_drawn_one_at_a_time():
    """Two of them, to know whether there are more."""
    asked = []

    class Counted:
        def sets(self, splits, rng):
            for i in range(5):
                asked.append(i)
                yield OodSet("many", np.zeros((1, 2)), {"i": i})

    sets = CompositeOod({"key": Counted()}).sets(splits(), np.random.default_rng(0))
    next(sets)
    assert asked == [0, 1]
    assert len(list(sets)) == 4


def test_what_is_not_at_hand_is_refused():
    several = CompositeOod({"blob": GaussianNoise(n=3), "far": Away()})
    for ask in (several.prefetch, lambda: drawn(several)):
        with pytest.raises(DataNotAvailable, match=r"^nobody has it$"):
            ask()


def test_or_skipped_with_a_warning_that_names_it():
    several = CompositeOod(
        {"far": Away(), "blob": GaussianNoise(n=3), "half": Away(1)}, missing="skip"
    )
    told = []
    several.prefetch(told.append)
    several.prefetch()
    assert told == ["far is skipped: nobody has it", "half is skipped: nobody has it"]
    with pytest.warns(UserWarning, match="^(far|half) is skipped: nobody has it$") as heard:
        found = drawn(several)
    assert [str(each.message).split()[0] for each in heard] == ["far", "half"]
    assert [name[0] for name in found] == ["blob"]


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
def test_what_are_no_sources(sources, sentence):
    with pytest.raises(ParameterError, match=sentence):
        CompositeOod(sources)


def test_options_of_the_group_are_sources_by_any_key():
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
    several = build(config.ood)
    assert isinstance(several.sources["far"], Sphere) and several.sources["far"].radii == [9]
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
def test_what_cannot_be_composed(arguments, sentence):
    with pytest.raises((ConfigError, ParameterError)) as caught:
        compose(["dataset=wine", "ood=composite", *arguments])
    assert str(caught.value).startswith(sentence)


def test_a_file_among_them_is_part_of_the_run_id(tmp_path):
    path = tmp_path / "other.csv"
    given = [
        "dataset=wine",
        "ood=composite",
        "+ood@ood.sources.other=dataset",
        "ood.sources.other.columns=cycle",
    ]
    mine = f"{{name: mine, _target_: kdgraph.data.tables.TableFile, path: {path}, target: y}}"
    ids = []
    for rows in ("x,y\n1,a\n2,b\n", "x,y\n1,a\n3,b\n"):
        path.write_text(rows)
        ids.append(
            compose(
                [*given, f"ood.sources.other.source={mine}", "ood.sources.other.name=mine"]
            ).run_id
        )
    assert ids[0] != ids[1]


QUICK = ["parent.n_estimators=5", "n_jobs=1", "metrics=default", "figures=none"]


def test_near_and_far_of_a_table_in_one_run(tmp_path, capsys):
    said = [
        "run",
        "--json",
        "dataset=iris",
        "dataset.left_out=1",
        "ood=near_to_far",
        "method=kdf",
        *QUICK,
        f"out={tmp_path}",
    ]
    assert main(said) == 0
    record = json.loads(capsys.readouterr().out)
    names = ["near", "permuted", "shifted", "other", "noise"]
    assert [
        m["ood"] for m in record["metrics"] if (m["metric"], m["of"]) == ("auroc", "calibrated")
    ] == names
    told = {each["name"]: each["source"] for each in record["ood_sets"]}
    assert (
        told["near"]["classes"] == record["dataset"]["source"]["left_out"]
        and len(told["near"]["classes"]) == 1
    )
    assert told["other"]["set"] == "digits"
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
def test_a_table_of_two_classes_goes_on_without_the_near_ones(tmp_path, capsys):
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
    said = capsys.readouterr().out
    assert (
        "warning (evaluate): near is skipped: no class of breast_cancer is left out; name some, or"
        " give their number" in said
    )
    assert "other (digits): 1,000 at random of 1,797 rows; 30 of 61 numeric columns" in said


def test_the_other_table_is_another_one():
    assert (
        compose(["dataset=digits", "ood=near_to_far"]).ood["sources"]["other"]["name"]
        == "breast_cancer"
    )
    assert (
        compose(["dataset=wine", "ood=near_to_far"]).ood["sources"]["other"]["source"]["loader"]
        == "digits"
    )
    given = ["dataset=wine", "ood=near_to_far", "ood.sources.other.name=iris"]
    assert compose(given).ood["sources"]["other"]["source"]["loader"] == "iris"


@pytest.mark.slow
def test_sweeps_side_by_side_come_to_the_same_ids(tmp_path, capsys):
    swept = [
        "dataset=iris,wine",
        "dataset.left_out=null,1",
        "ood=near_to_far",
        "method=kdf",
        *QUICK,
        f"out={tmp_path}",
    ]
    assert (
        main(["run", "--json", "-m", *swept, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"])
        == 0
    )
    records = json.loads(capsys.readouterr().out)
    assert [(len(r["ood_sets"]), r["dataset"]["name"]) for r in records] == [
        (3, "iris"),
        (4, "iris"),
        (3, "wine"),
        (4, "wine"),
    ]


def test_what_the_store_keeps_belongs_to_the_sets_that_were_at_hand(tmp_path, monkeypatch):
    """Answers are kept in the order of the sets: with another set at hand, those of an earlier run
    are not its.
    """
    from kdgraph.runner.stages import split
    from kdgraph.runner.stored import stage_keys

    monkeypatch.chdir(tmp_path)
    source = "{name: other,_target_: kdgraph.data.tables.ArrayFile,path: other.npz}"
    away = f"+ood.sources.other={{_target_: kdgraph.data.ood.OtherDataset,source: {source}}}"
    config = compose(["dataset=iris", "ood=composite", "ood.missing=skip", away])
    rows = split(config.dataset, 0)
    without = stage_keys(config, rows)
    np.savez("other.npz", X=np.zeros((4, 4)), y=np.arange(4) % 2)
    with_it = stage_keys(compose(["dataset=iris", "ood=composite", "ood.missing=skip", away]), rows)
    assert {stage for stage in without if without[stage] != with_it[stage]} == {
        "parent_says",
        "evaluate",
    }
    assert (
        CompositeOod({"a": Away(), "b": Box()}, missing="skip").absent() == ["a"]
        and CompositeOod({"a": Away()}).absent() == []
    )
