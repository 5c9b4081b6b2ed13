"""Configs of kept compositions are those that Hydra composes of the same words."""

from __future__ import annotations

import itertools
import random

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from kdgraph.config.composer import METHOD, Composer, conf_dir
from kdgraph.config.compositions import Composition
from kdgraph.config.planning import plan
from kdgraph.config.yaml_files import option_files, read_text
from kdgraph.errors import ConfigError
from kdgraph.quoting import as_value
from tests.variations import others_slow


@pytest.fixture(scope="module")
def hydra(tmp_path_factory):
    """Return a function from overrides to the resolved nodes that Hydra alone composes.

    Its presets are files, as those of tables would be.
    """
    folder = tmp_path_factory.mktemp("conf")
    for path in option_files(conf_dir()):
        copy = folder / path.relative_to(conf_dir())
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(read_text(path), encoding="utf-8")
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base="1.3"):

        def composed(overrides):
            return OmegaConf.to_container(compose("config", list(overrides)), resolve=True)

        yield composed


def assert_same(composer, hydra, overrides) -> bool:
    """Assert that overrides have the nodes that Hydra composes, and return True; else its error."""
    try:
        with composer.errors_in_one_line():
            expected = hydra(overrides)
    except ConfigError:
        with pytest.raises(ConfigError), composer.errors_in_one_line():
            composer.nodes(overrides)
        return False
    with composer.errors_in_one_line():
        assert composer.nodes(overrides)[0] == expected, overrides
        composer.compose(overrides)  # whose config is kept for a run alone
        assert composer.nodes(overrides)[0] == expected, overrides
    return True


WORDS = [
    [],
    ["method=kdn"],
    ["dataset=shapes"],
    ["dataset=paper/p3/news", "experiment=paper/p3/text"],
    ["network=cnn", "method=sigmoid", "dataset=digits"],
    ["method=none", "calibrator=isotonic", "gate=density", "gate.alpha=0.2"],
    ["experiment=bench/openml", "dataset=wine", "method=knn", "+ood.more=1"],
    ["experiment=bench/simulations", "method=kdf", "dataset=circle", "seed=3"],
    ["seed=3"],
    ["seed=3", "parent.n_estimators=50", "parent.max_features=[1,x]", "cv=null"],
    ["dataset=wine", "parent.n_estimators=50", "~parent.max_features"],
    ["+parent.more={a:1,b:[2,3]}", "parent.more.a=2"],
    ["parent.n_estimators=50", "~parent.n_estimators", "+parent.n_estimators=7"],
    ["++parent.n_estimators=9", "++calibrator.extra.deep=1"],
    ["~ood.name"],
    ["parent.n_estimators=${seed}", "seed=8"],
    ["parent.max_features=${.n_estimators}", "parent.n_estimators=12"],
    ["dataset.name=${parent.name}-${seed}", "parent.name=other", "seed=2"],
    ["ood=near_to_far", "ood.name=x"],
    ["ood=dataset", "ood.name=wine"],
    ["ood=dataset", "ood.name=digits", "dataset=wine", "seed=1"],
    ["dataset=table", "dataset.path=a/my_table.csv", "dataset.target=y"],
    ["dataset=table", "dataset.path=b.csv", "dataset.name=custom", "seed=4"],
    ["metrics=default", "metrics.test.ece.bins=7"],
    ["metrics=[default,posterior]"],
    ["figures=none", "figures.dpi=90", "figures.formats=[png]"],
    ["calibrator={k:3}"],
    ["parent.name='a, b'", 'out="x y"'],
    ["out=${oc.env:HOME}", "seed=1"],
    ["conformal=aps", "seed=2"],
]
REFUSED = [
    ["ood.sources={a:{b:1}}", "ood=shifted"],
    ["dataset=spirals"],
    ["parent.trees=3", "seed=1"],
    ["~parent.trees"],
    ["seed.deep=1"],
    ["parent.n_estimators=${nothing}", "seed=1"],
    ["seed=0,1"],
]


@pytest.mark.parametrize(
    "overrides", others_slow([*WORDS, *REFUSED], *WORDS[3:7], *REFUSED[:2]), ids=" ".join
)
def test_words_are_composed_as_hydra_composes_them(hydra, overrides):
    assert assert_same(Composer(), hydra, overrides) == (overrides in WORDS)


SWEEPS = {
    "data sets and methods": (
        "dataset=spiral,cc18/adult,shapes,friedman1,scores method=kdf,kdn,local_pit,leaf_box,csts"
    ),
    "three groups": "dataset=spiral,shapes gate=none,forest detector=msp,knn",
    "a network that methods look at": "network=mlp,cnn method=kdf,kdn,sigmoid",
    "a data set that chooses a method": "dataset=spiral,shapes,friedman1 seed=0,1",
    "values": "dataset=wine,circle parent.max_features=sqrt,0.5,null seed=0,7",
    "values with interpolations": "ood=sphere,near_to_far dataset.scale=none,max_norm seed=0,7",
}


@pytest.mark.parametrize(
    "words", others_slow(SWEEPS.values(), SWEEPS["a data set that chooses a method"]), ids=SWEEPS
)
def test_every_point_of_a_sweep_is_composed_as_hydra_composes_it(hydra, words):
    jobs = plan(words.split(), multirun=True).jobs
    assert len(jobs) > 5
    for job in jobs:
        assert_same(job.composer, hydra, job.overrides)


@pytest.mark.slow
def test_any_pair_of_options_is_what_hydra_composes(hydra):
    composer, draw = Composer(), random.Random(0)
    groups = ("dataset", "method", "ood", "metrics", "gate", "detector")
    options = {group: composer.options(group) for group in groups}
    for _ in range(4):
        chosen = draw.sample(groups, 3)
        for point in itertools.product(*(draw.sample(options[group], 2) for group in chosen)):
            words = [f"{group}={option}" for group, option in zip(chosen, point, strict=True)]
            for overrides in (words, [*words, "seed=5"]):
                assert_same(composer, hydra, overrides)


NODES = {
    "seed": 0,
    "text": "${seed}",
    "level": {"word": "a", "list": [1, 2], "sibling": "${.word}", "deep": {"up": "${..word}"}},
    "apart": {"number": 1.5, "nothing": None, "which": "number"},
    "computed": {"of": "${apart.${apart.which}}", "name": "text", "value": "${${.name}}"},
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
        [("apart.which", "nothing")],
        [("computed.name", "seed")],
    ],
)
def test_values_are_set_as_omegaconf_sets_them(values):
    config = OmegaConf.create(NODES)
    for key, value in values:
        OmegaConf.update(config, key, value, merge=True)
    composition = Composition(NODES, {})
    assert composition.with_values(values) == OmegaConf.to_container(config, resolve=True)
    assert composition.with_values() == OmegaConf.to_container(
        OmegaConf.create(NODES), resolve=True
    )


@pytest.mark.parametrize(
    "key", ["level", "missing", "level.missing", "text", "level.sibling", "seed.x"]
)
def test_values_that_only_hydra_can_set_are_left_to_it(key):
    assert Composition(NODES, {}).with_values([(key, 1)]) is None


def test_a_variable_of_the_environment_is_read_each_time(monkeypatch):
    for value in ("a", "b"):
        monkeypatch.setenv("KDGRAPH_TEST", value)
        config = plan(["out=${oc.env:KDGRAPH_TEST}"]).jobs[0].config
        assert config.out == value


def test_a_changed_file_is_composed_again(tmp_path):
    file = tmp_path / "dataset" / "custom.yaml"
    file.parent.mkdir()
    for noise in (0.1, 0.2):
        file.write_text(f"defaults: [circle@_here_, _self_]\nname: custom\nnoise: {noise}\n")
        config = plan(["dataset=custom"], config_dir=tmp_path).jobs[0].config
        assert config.dataset["noise"] == noise


def test_the_working_directory_is_that_of_the_plan(tmp_path, monkeypatch):
    plan([])
    monkeypatch.chdir(tmp_path)
    assert plan([]).base.hydra.runtime.cwd == str(tmp_path)


@pytest.mark.parametrize("content", [b"a: [\n", b"- a\n", b"\xe9", b"defaults: 3\n"])
def test_a_file_that_is_not_chosen_may_be_anything(tmp_path, content):
    (tmp_path / "parent").mkdir()
    (tmp_path / "parent" / "broken.yaml").write_bytes(content)
    jobs = plan(["dataset=wine,iris", "method=kdn,kdf"], multirun=True, config_dir=tmp_path).jobs
    assert [job.config.method for job in jobs] == ["kdn", "kdf"] * 2


def test_data_set_that_changes_components_changes_the_method(tmp_path):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "base.yaml").write_text(
        "defaults: [circle@_here_, {override /calibrator@_global_.calibrator: isotonic}]\nname: base\n"
    )
    (tmp_path / "dataset" / "custom.yaml").write_text("defaults: [base]\nname: custom\n")
    words = ["dataset=custom"]
    assert plan(words, config_dir=tmp_path).jobs[0].config.method == "random_forest-isotonic"


@pytest.mark.parametrize(
    ("text", "is_alone"),
    [
        ("# @package dataset\ndefaults: [circle@_here_, _self_]\nname: custom\n", True),
        ("# @package parent\nn_estimators: 7\n", False),
        ("# @package _global_\nparent: {n_estimators: 7}\n", False),
        ("defaults: [circle@_here_, {override /parent@_global_.parent: tree}]\n", False),
        ("defaults: [circle@_here_, {override /metrics@_global_.metrics: posterior}]\n", True),
        ("defaults: [circle@_here_, {optional /parent@_global_.parent: tree}]\n", False),
        ("defaults: [circle@_here_, {optional /parent: tree}]\n", False),
        ("defaults: [/dataset/circle@dataset, /parent/tree@_global_.parent]\n", False),
    ],
)
def test_files_that_write_nodes_of_methods_are_recognised(tmp_path, text, is_alone):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "custom.yaml").write_text(text)
    composer = Composer(tmp_path)
    with composer.errors_in_one_line():
        assert composer._leaves_methods_alone("dataset=custom") == is_alone


@pytest.mark.parametrize("dataset", ["cc18/adult", "blobs", "shapes", "wine", "scores"])
def test_a_data_set_beside_a_method_leaves_its_nodes_as_they_are(dataset):
    composer = Composer()
    with composer.errors_in_one_line():
        nodes, options = composer.nodes([f"dataset={dataset}", "method=isotonic"])
        preset, _ = composer.nodes(["method=isotonic", f"network={options['network']}"])
        is_alone = composer._leaves_methods_alone(f"dataset={dataset}")
    assert is_alone == (dataset != "scores")
    assert is_alone == all(nodes.get(key) == preset.get(key) for key in METHOD)


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


def test_overrides_of_a_config_compose_it_again(tmp_path):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "custom.yaml").write_text(
        "defaults: [circle@_here_, _self_]\nname: custom\n"
    )
    words = ["experiment=bench/simulations", "dataset=custom", "method=kdf", "seed=3"]
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


@pytest.mark.parametrize(
    ("below", "above"),
    others_slow(
        [
            ("{a: 1, b: {c: 2}}", "{b: {d: 3}, e: 4}"),
            ("{a: 1}", "null"),
            ("null", "{a: 1}"),
            ("{a: 1}", "text"),
            ("[1, 2]", "[3]"),
            ("1", "???"),
            ("???", "{a: 1}"),
            ("${gate}", "{a: 1}"),
            ("{a: 1}", "${gate}"),
            ("{a: 1}", "[1]"),
            ("[1]", "{a: 1}"),
        ]
    ),
)
def test_files_are_merged_as_hydra_merges_them(tmp_path, below, above):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset" / "base.yaml").write_text(
        f"defaults: [circle@_here_]\nname: base\nextra: {below}\n"
    )
    (tmp_path / "dataset" / "custom.yaml").write_text(
        f"defaults: [base, _self_]\nname: custom\nextra: {above}\n"
    )
    composer, words = Composer(tmp_path), ["dataset=custom", "method=isotonic"]
    try:
        with composer.errors_in_one_line():
            nodes = composer.nodes(words)[0]
    except ConfigError:
        with pytest.raises(ConfigError), composer.errors_in_one_line():
            composer.compose(words)
    else:
        whole = OmegaConf.to_container(composer.compose(words), resolve=True)
        assert whole == {**nodes, "hydra": whole["hydra"]}


def test_a_swept_experiment_may_choose_a_launcher(tmp_path):
    (tmp_path / "experiment").mkdir()
    for name in ("one", "two"):
        (tmp_path / "experiment" / f"{name}.yaml").write_text(
            "# @package _global_\ndefaults: [{override /hydra/launcher: basic}]\n"
            f"hydra: {{launcher: {{}}}}\nout: {name}\n"
        )
    jobs = plan(["experiment=one,two"], multirun=True, config_dir=tmp_path).jobs
    assert [job.config.out for job in jobs] == ["one", "two"]
