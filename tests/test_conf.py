"""Every YAML file of conf/: it composes, passes the typed check, and says what its class says."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping

import pytest
import yaml

from kdgraph import config
from kdgraph.components import INJECTED, build, parameters_of, target_of
from kdgraph.composer import Composer
from kdgraph.config import compose, conf_dir, plan
from kdgraph.data.dataset import Simulation, Table
from kdgraph.data.splits import split_options
from kdgraph.report.options import first_comment
from kdgraph.run_config import COMPONENTS, check

FILES = sorted(
    path
    for path in conf_dir().rglob("*.yaml")
    if path.name != "config.yaml" and not path.name.startswith("_")
)
IDS = [path.relative_to(conf_dir()).with_suffix("").as_posix() for path in FILES]
NEEDS = {
    "method/density_pit": ["dataset=heteroscedastic"],
    "method/gamma_glm": ["dataset=heteroscedastic"],
    "method/global_pit": ["dataset=heteroscedastic"],
    "method/isotonic_pit": ["dataset=heteroscedastic"],
    "method/linear": ["dataset=heteroscedastic"],
    "method/local_linear_pit": ["dataset=heteroscedastic"],
    "method/local_pit": ["dataset=heteroscedastic"],
    "method/local_pit_conformal": ["dataset=heteroscedastic"],
    "method/local_pit_localised": ["dataset=heteroscedastic"],
    "method/mc_dropout": ["dataset=heteroscedastic"],
    "method/mlp_gamma": ["dataset=heteroscedastic"],
    "method/mlp_lognormal": ["dataset=heteroscedastic"],
    "method/mlp_normal_scale": ["dataset=heteroscedastic"],
    "method/mlp_regressor": ["dataset=heteroscedastic"],
    "method/nearest_outcomes": ["dataset=heteroscedastic"],
    "method/predictive": ["dataset=heteroscedastic"],
    "method/quantile_network": ["dataset=heteroscedastic"],
    "metrics/paper/p5/diamonds": ["dataset=heteroscedastic"],
    "metrics/paper/p5/simulation": ["dataset=heteroscedastic"],
    "metrics/paper/p5/table1": ["dataset=heteroscedastic"],
    "metrics/paper/p5/table2": ["dataset=heteroscedastic"],
    "metrics/posterior": ["dataset=spiral"],
    "metrics/regression": ["dataset=heteroscedastic"],
    "metrics/regression_local": ["dataset=heteroscedastic"],
    "metrics/regression_local_truth": ["dataset=heteroscedastic"],
    "metrics/regression_truth": ["dataset=heteroscedastic"],
    "parent/gamma_glm": ["dataset=heteroscedastic"],
    "parent/linear": ["dataset=heteroscedastic"],
    "parent/mc_dropout": ["dataset=heteroscedastic"],
    "parent/mlp_gamma": ["dataset=heteroscedastic"],
    "parent/mlp_lognormal": ["dataset=heteroscedastic"],
    "parent/mlp_normal_scale": ["dataset=heteroscedastic"],
    "parent/mlp_regressor": ["dataset=heteroscedastic"],
    "parent/nearest_outcomes": ["dataset=heteroscedastic"],
    "parent/paper/p5/diamonds": ["dataset=heteroscedastic"],
    "parent/paper/p5/mc_dropout": ["dataset=heteroscedastic"],
    "parent/paper/p5/tran20_big": ["dataset=heteroscedastic"],
    "parent/paper/p5/tran20_small": ["dataset=heteroscedastic"],
    "parent/paper/p5/wsir": ["dataset=heteroscedastic"],
    "parent/predictive": ["dataset=heteroscedastic"],
    "parent/quantile_network": ["dataset=heteroscedastic"],
    "recalibrator/conformal_local_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/density_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/global_pit": ["dataset=heteroscedastic"],
    "recalibrator/isotonic_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/local_linear_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/local_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/localised_conformal_pit": ["dataset=heteroscedastic", "parent=linear"],
    "calibrator/kdn": ["parent=mlp"],
    "calibrator/odin": ["parent=mlp"],
    "dataset/arrays": ["dataset.path=my.npz"],
    "dataset/celeba_hair_color": ["dataset.path=list_attr_celeba.parquet"],
    "dataset/celeba_hair_type": ["dataset.path=list_attr_celeba.parquet"],
    "dataset/image_files": ["dataset.path=pictures.zip"],
    "dataset/openml": ["dataset.id=61"],
    "dataset/scores": ["dataset.path=softmax.npz"],
    "dataset/table": ["dataset.path=my.csv", "dataset.target=label"],
    "dataset/text": ["dataset.path=my.csv"],
    "detector/energy": ["parent=mlp"],
    "detector/max_logit": ["parent=mlp"],
    "detector/odin": ["parent=mlp"],
    "detector/vim": ["parent=mlp"],
    "experiment/paper/p2/records": ["dataset.path=softmax.npz"],
    "experiment/paper/p4/celeba_hair_color": ["dataset.path=list_attr_celeba.parquet"],
    "experiment/paper/p4/celeba_hair_type": ["dataset.path=list_attr_celeba.parquet"],
    "experiment/paper/p4/cifar10": ["dataset.path=scores_and_features.npz"],
    "calibrator/lore_tsne": ["protocol=paper", "ood=none", "metrics=top_label"],
    "method/lore_tsne": ["ood=none", "metrics=top_label"],
    "ood/dataset": ["ood.name=iris"],
    "ood/paper/p3/clouds": ["dataset=cloud_circles"],
}
"""Options that fit only together with others, or that need a value which nobody can guess."""
AS_ANOTHER = {
    "experiment/bench/tabular_ood_openml": ["method=isotonic,knn,energy_tuned", "seed=0"],
    "experiment/paper/p1/cc18_published": ["dataset=cc18/balance_scale,cc18/wdbc"],
    "experiment/paper/p4/celeba_hair_type": [
        "method=paper/p4/celeba/none,paper/p4/celeba/mmce,paper/p4/celeba/lore_pca"
    ],
    "experiment/paper/p4/crime_long": [
        "method=paper/p4/crime/none,paper/p4/crime/mmce,paper/p4/crime/lore_pca",
        "seed=0",
    ],
}
"""Sweeps over the methods or data sets of a file that they are built on: some of them, and one
seed.
"""
NAMED_BY_THEIR_PARAMETERS = {
    "dataset/arrays",
    "dataset/image_files",
    "dataset/openml",
    "dataset/scores",
    "dataset/table",
    "dataset/text",
}


COMPONENT_FILES = [
    path for path in FILES if path.parent.name in COMPONENTS and "_target_" in path.read_text()
]
COMPONENT_IDS = [name for path, name in zip(FILES, IDS, strict=True) if path in COMPONENT_FILES]


PAPERS = {
    "p1": "simulations posteriors trunk shapes cc18 cifar10 cifar10_vit",
    "p2": "mnist phanns records",
    "p3": "simulated tabular mnist cifar text size_labels",
    "p4": "crime celeba_hair_color celeba_hair_type cifar10",
    "p5": "table1 table2 simulation diamonds",
}
_NODES = {
    path: yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
    for path in FILES
}  # the quick one of two


@pytest.fixture(scope="module")
def _composer() -> Composer:
    return Composer()


@pytest.fixture(autouse=True)
def _presets_are_composed_once(_composer, monkeypatch) -> Iterator[None]:
    """As in a sweep: most files are composed beside the same preset, to which a run's method is
    compared. Nothing else is kept.
    """
    monkeypatch.setattr(config, "Composer", lambda config_dir: _composer)
    yield
    _composer.wholes.clear()
    _composer.composed.clear()


def test_every_experiment_of_the_papers_has_its_name():
    assert {
        f"experiment/paper/{paper}/{name}"
        for paper, names in PAPERS.items()
        for name in names.split()
    } <= set(IDS)


_PUBLIC = [name for name in IDS if name.startswith(("dataset/cc18/", "dataset/openml/"))]
_OF_PRESETS = ("calibrator/", "gate/", "network/", "parent/")
_SLOW = {name for name in IDS if name.startswith(("experiment/", *_OF_PRESETS))} | set(
    _PUBLIC
) - set(_PUBLIC[::10])
"""Sweeps, parts that presets of methods choose too, and nine of ten public tables: their files
differ in a name and a number.
"""


def _marked(name: str, *values):
    return pytest.param(*values, marks=[pytest.mark.slow] if name in _SLOW else [], id=name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        _marked(name, path, name)
        for path, name in zip(FILES, IDS, strict=True)
        if not name.startswith(("method/paper/", "dataset/"))
    ],
)
def test_it_composes_and_passes_the_check(path, name):
    """Methods of a paper are composed with the experiment that sweeps them, and data sets below; of
    a sweep each option once.
    """
    group, _, option = name.partition("/")
    planned, seen = (
        plan(
            [
                *NEEDS.get(name, []),
                f"{group}={option}",
                *_one_value_each(path),
                *AS_ANOTHER.get(name, []),
            ]
        ),
        set(),
    )
    for job in planned.jobs:
        if not planned.multirun or set(job.swept.items()) - seen:
            check(job.config)
        seen |= set(job.swept.items())


def _one_value_each(path) -> list[str]:
    """Of the values that a sweep gives a number or a word, one: options of groups compose
    differently, values do not.

    Of many data sets the first two, and of the methods those of the paper and three more: each of
    the others has a test of its own.
    """
    swept = (_NODES[path].get("hydra") or {}).get("sweeper", {}).get("params", {})
    values = {key: str(given).split(",")[0] for key, given in swept.items() if "." in key}
    if len(datasets := str(swept.get("dataset", "")).split(",")) > 8:
        values["dataset"] = ",".join(name.strip() for name in datasets[:2])
    if "method" in swept:
        methods = [name.strip() for name in swept["method"].split(",")]
        public = [name for name in methods if not name.startswith("paper/")]
        values["method"] = ",".join(name for name in methods if name not in public[2:-1])
    return [f"{key}={value}" for key, value in values.items()] + (
        ["seed=0"] if "seed" in swept else []
    )


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_it_begins_with_a_line_for_kdg_list(path):
    assert first_comment(path), f"{path} needs a first comment: 'kdg list' shows it"


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_its_name_is_the_name_of_the_file(path):
    if path.relative_to(conf_dir()).with_suffix("").as_posix() not in NAMED_BY_THEIR_PARAMETERS:
        assert _NODES[path]["name"] == path.stem


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_it_lists_every_parameter_of_its_class(path):
    node = _NODES[path]
    target = target_of(node)
    if target is None or not target.__module__.startswith("kdgraph"):
        pytest.skip("the parameters of other libraries are theirs to grow")
    expected = set(parameters_of(target)) - INJECTED
    assert expected <= set(node), f"not listed: {expected - set(node)}"


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_what_it_lists_are_the_defaults_of_its_class(path):
    node = _NODES[path]
    target = target_of(node)
    if target is None or not target.__module__.startswith("kdgraph"):
        pytest.skip("other libraries' defaults are not ours")
    for key, parameter in parameters_of(target).items():
        default = parameter.default
        if (
            key != "name"
            and key in node
            and default is not inspect.Parameter.empty
            and path.parent.name != "method"
            and not isinstance(node[key], Mapping)  # which a class cannot have as a default
            and not _chooses(path, key)
        ):
            listed = tuple(node[key]) if isinstance(node[key], list) else node[key]
            assert listed == (tuple(default) if isinstance(default, list) else default), key


def _chooses(path, key) -> bool:
    """A file whose purpose is that value: options that share a class and differ in this
    parameter.
    """
    here = _NODES[path]
    others = [
        node for other, node in _NODES.items() if other.parent == path.parent and other != path
    ]
    return any(
        other.get("_target_") == here["_target_"] and other.get(key) != here[key]
        for other in others
    )


SOURCES = [name for name in IDS if name.startswith("dataset/")]


@pytest.mark.parametrize("name", [_marked(name, name) for name in SOURCES])
def test_a_data_set_composes_passes_the_check_builds_a_source_and_says_how_many_rows_it_gives(name):
    (job,) = plan([*NEEDS.get(name, []), f"dataset={name.removeprefix('dataset/')}"]).jobs
    check(job.config)
    node = job.config.dataset
    source = build(node)
    assert isinstance(source, Simulation | Table)
    known = set(parameters_of(target_of(node))) | {"name", "_target_"}
    rows = (
        {"n_train", "n_calibration", "n_test", "scale"}
        if isinstance(source, Simulation)
        else set(split_options())
    )
    assert set(node) == known | rows | {"name", "_target_"}
    assert source.name == node["name"] or name in NAMED_BY_THEIR_PARAMETERS


@pytest.mark.parametrize("name", [name for name in IDS if name.startswith("ood/")])
def test_a_set_out_of_distribution_can_be_drawn(name):
    sampler = build(compose([*NEEDS.get(name, []), f"ood={name.removeprefix('ood/')}"]).ood)
    assert sampler is None or callable(sampler.sets)


def test_the_default_config_is_complete():
    config = compose()
    assert all(getattr(config, part) for part in (*COMPONENTS, "metrics", "figures"))
