"""What is put together from few compositions is what Hydra composes."""

from __future__ import annotations

import itertools
import random

import pytest
from omegaconf import OmegaConf

from kdgraph.config.choices import Composition, Footprint, Footprints
from kdgraph.config.composer import Composer, conf_dir
from kdgraph.config.planning import plan
from kdgraph.quoting import as_value

METHODS = ["kdf", "kdn", "local_pit", "leaf_box", "csts"]
DATA_SETS = ["spiral", "cc18/adult", "shapes", "friedman1", "scores"]


@pytest.fixture(scope="module")
def hydra():
    """Return a function from overrides to the nodes and options that Hydra composes."""
    composer = Composer()

    def composed(overrides):
        with composer.errors_in_one_line():
            whole = OmegaConf.to_container(composer.compose(overrides))
            options = dict(composer.compose(overrides).hydra.runtime.choices)
        whole.pop("hydra")
        return whole, options

    return composed


def compositions(points):
    """Return the nodes of each point, and the number of compositions that Hydra made for all."""
    composer, calls = Composer(), []
    load = composer.loader.load_configuration
    composer.loader.load_configuration = lambda *args, **kwargs: (
        calls.append(args) or load(*args, **kwargs)
    )
    with composer.errors_in_one_line():
        return [composer._composition(tuple(point), of_many=True) for point in points], len(calls)


SWEEPS = {
    "data sets and methods": (["dataset", "method"], [DATA_SETS, METHODS], []),
    "three groups": (["dataset", "gate", "detector"], [DATA_SETS[:3], ["none", "forest"], ["msp", "knn"]], []),
    "a network that methods look at": (["network", "method"], [["mlp", "cnn"], ["kdf", "kdn", "sigmoid"]], []),
    "a data set that chooses a method": (["dataset", "seed"], [["spiral", "shapes", "friedman1"], ["0"]], []),
    "a data set that an experiment looks at": (
        ["dataset", "method"],
        [["paper/p3/newsgroups_computer", "paper/p3/news"], ["paper/p3/text/knn", "paper/p3/text/msp"]],
        ["experiment=paper/p3/text"],
    ),
    "a value that another file sets": (
        ["dataset", "method"], [["wine", "digits"], ["kdf", "knn"]], ["experiment=bench/openml", "+ood.more=1"]
    ),
}  # fmt: skip


@pytest.mark.parametrize(("groups", "options", "fixed"), SWEEPS.values(), ids=SWEEPS)
def test_every_point_is_what_hydra_composes(hydra, groups, options, fixed):
    points = [
        [*(f"{group}={option}" for group, option in zip(groups, point, strict=True)), *fixed]
        for point in itertools.product(*options)
    ]
    for point, composition in zip(points, compositions(points)[0], strict=True):
        nodes, chosen = hydra(point)
        assert composition.nodes == nodes
        assert {key: composition.options[key] for key in groups if key != "seed"} == {
            key: chosen[key] for key in groups if key != "seed"
        }
        assert composition.options.get("network") == chosen.get("network")


@pytest.mark.slow
def test_any_pair_of_options_is_what_hydra_composes(hydra):
    composer, draw = Composer(), random.Random(0)
    groups = ("dataset", "method", "ood", "metrics", "gate", "detector")
    options = {group: composer.options(group) for group in groups}
    for _ in range(8):
        chosen = draw.sample(groups, 3)
        pairs = [draw.sample(options[group], 2) for group in chosen]
        points = [
            [f"{group}={option}" for group, option in zip(chosen, point, strict=True)]
            for point in itertools.product(*pairs)
        ]
        for point, composition in zip(points, compositions(points)[0], strict=True):
            assert composition.nodes == hydra(point)[0], point


def test_independent_choices_take_a_sum_of_compositions():
    points = [
        [f"dataset={data_set}", f"method={method}"]
        for data_set in ("spiral", "circle", "wine", "iris", "digits")
        for method in ("kdf", "kdn", "isotonic", "sigmoid")
    ]
    assert compositions(points)[1] == 5 + 4 - 1


def test_options_that_write_to_the_same_node_are_composed_by_hydra():
    points = [
        [f"dataset={name}", f"method={method}"]
        for name in ("friedman1", "friedman2")
        for method in ("local_pit", "density_pit")
    ]
    assert compositions(points)[1] == 4


def test_footprint_of_an_option_follows_what_it_chooses():
    footprints = Footprints([conf_dir()], frozenset())
    assert footprints.of("method", "kdf") == Footprint(
        frozenset({"method", "parent", "calibrator"})
    )
    assert footprints.of("method", "kdn").reads == {"network"}
    assert {"method", "parent", "network"} <= footprints.of("dataset", "shapes").writes
    explicit = Footprints([conf_dir()], frozenset({"method", "network"}))
    assert explicit.of("dataset", "shapes").writes.isdisjoint({"method", "parent", "network"})


def test_files_that_are_not_understood_have_no_footprint(tmp_path):
    (tmp_path / "config.yaml").write_text("defaults: [{part: a}]\n")
    (tmp_path / "part").mkdir()
    for name, defaults in {
        "a": "[]",
        "b": "[optional /other: x]",
        "c": "[{/other: [x, y]}]",
    }.items():
        (tmp_path / "part" / f"{name}.yaml").write_text(f"defaults: {defaults}\n")
    footprints = Footprints([tmp_path], frozenset())
    assert footprints.of("part", "a") == Footprint(frozenset({"part"}))
    assert footprints.of("part", "b") is footprints.of("part", "c") is None
    assert footprints.of("part", "missing") is None


@pytest.mark.parametrize("content", [b"a: [\n", b"- a\n", b"\xe9", b"defaults: 3\n"])
def test_a_file_that_is_not_chosen_may_be_anything(tmp_path, content):
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "broken.yaml").write_bytes(content)
    jobs = plan(["dataset=wine,iris", "method=kdn,kdf"], multirun=True, config_dir=tmp_path).jobs
    assert [job.config.method for job in jobs] == ["kdn", "kdf"] * 2


NODES = {
    "seed": 0,
    "text": "${seed}",
    "level": {"word": "a", "list": [1, 2], "sibling": "${.word}", "deep": {"up": "${..word}"}},
    "apart": {"number": 1.5, "nothing": None},
}


@pytest.mark.parametrize(
    "values",
    [
        [("seed", 3)],
        [("level.word", "b")],
        [("apart.number", 2), ("apart.nothing", [1, "x"])],
        [("level.list", [])],
        [("seed", 3), ("apart.number", None)],
        [("apart.number", "${seed}")],
    ],
)
def test_values_are_set_as_omegaconf_sets_them(values):
    config = OmegaConf.create(NODES)
    for key, value in values:
        OmegaConf.update(config, key, value, merge=True)
    composition = Composition(NODES, {})
    assert composition.with_values(values) == OmegaConf.to_container(config, resolve=True)
    assert composition.with_values([]) == OmegaConf.to_container(
        OmegaConf.create(NODES), resolve=True
    )


@pytest.mark.parametrize(
    "key", ["level", "missing", "level.missing", "text", "level.sibling", "seed.x"]
)
def test_values_that_only_hydra_can_set_are_left_to_it(key):
    assert Composition(NODES, {}).with_values([(key, 1)]) is None


def test_a_point_with_values_is_what_a_run_alone_is():
    words = [
        "dataset=wine,circle",
        "method=kdf,isotonic",
        "parent.max_features=sqrt,0.5",
        "seed=0,7",
    ]
    for job in plan(words, multirun=True).jobs:
        assert job.config == plan(job.overrides).jobs[0].config
        assert job.config.origin == plan(job.overrides).jobs[0].config.origin


def test_the_words_that_a_config_was_composed_from_compose_it_again(tmp_path):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "mine.yaml").write_text(
        "defaults: [circle@_here_, _self_]\nname: mine\n"
    )
    words = ["experiment=bench/simulations", "dataset=mine", "method=kdf", "seed=3"]
    how = ["n_jobs=1", "force=true", "save=false", "out=elsewhere", "hydra/launcher=basic"]
    config = plan([*words, *how], config_dir=tmp_path).jobs[0].config
    assert sorted(config.origin.overrides) == sorted(words)
    assert config.origin.experiment == "bench/simulations"
    assert config.origin.config_dir == str(tmp_path)
    assert (
        plan(config.origin.overrides, config_dir=config.origin.config_dir).jobs[0].config.run_id
        == config.run_id
    )
    assert plan([f"out={as_value('a b')}"]).jobs[0].config.origin.overrides == ()
