"""Every YAML file of conf/ composes, passes the typed check, and agrees with its class."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from importlib.util import find_spec

import pytest
import yaml

from kdgraph.config import COMPONENTS, check, compose, conf_dir, plan, planning
from kdgraph.config.catalogue import first_comment
from kdgraph.config.components import INJECTED, build, parameters_of, target_of
from kdgraph.config.composer import Composer
from kdgraph.config.run_config import AFTER
from kdgraph.config.yaml_files import is_option, option_files, read_text
from kdgraph.data.dataset import Simulation, Table
from kdgraph.data.splits import split_options

# Presets whose class is that of an optional library.
LIBRARIES = {
    "parent/catboost": ["catboost"],
    "parent/lightgbm": ["lightgbm"],
    "parent/xgboost": ["xgboost"],
    "experiment/bench/boosting": ["catboost", "lightgbm", "xgboost"],
    "experiment/bench/boosting_mixed": ["catboost", "lightgbm", "xgboost"],
    "experiment/bench/regression": ["catboost", "lightgbm", "xgboost"],
    "parent/quantile_catboost": ["catboost"],
    "method/quantile_catboost": ["catboost"],
    "parent/quantile_lightgbm": ["lightgbm"],
    "method/quantile_lightgbm": ["lightgbm"],
    "parent/quantile_xgboost": ["xgboost"],
    "method/quantile_xgboost": ["xgboost"],
    "parent/quantile_forest": ["quantile_forest"],
    "method/quantile_forest": ["quantile_forest"],
    "hydra/launcher/dask": ["distributed"],
    "hydra/launcher/ray": ["ray"],
}
ABSENT = {
    preset: [library for library in libraries if find_spec(library) is None]
    for preset, libraries in LIBRARIES.items()
}
FILES = sorted(
    path
    for path in option_files(conf_dir())
    if path.name != "config.yaml"
    and not path.name.startswith("_")
    and not ABSENT.get(path.relative_to(conf_dir()).with_suffix("").as_posix())
)
IDS = [path.relative_to(conf_dir()).with_suffix("").as_posix() for path in FILES]
# Overrides of options that require others, or a value without a default.
REQUIRED_OVERRIDES = {
    "method/density_pit": ["dataset=heteroscedastic"],
    "method/gamma_glm": ["dataset=heteroscedastic"],
    "method/global_pit": ["dataset=heteroscedastic"],
    "method/isotonic_pit": ["dataset=heteroscedastic"],
    "method/residual_scale": ["dataset=heteroscedastic"],
    "method/linear": ["dataset=heteroscedastic"],
    "method/local_linear_pit": ["dataset=heteroscedastic"],
    "method/local_pit": ["dataset=heteroscedastic"],
    "method/conformal_local_pit": ["dataset=heteroscedastic"],
    "method/localised_conformal_pit": ["dataset=heteroscedastic"],
    "method/mc_dropout": ["dataset=heteroscedastic"],
    "method/mlp_gamma": ["dataset=heteroscedastic"],
    "method/mlp_lognormal": ["dataset=heteroscedastic"],
    "method/mlp_normal_scale": ["dataset=heteroscedastic"],
    "method/mlp_regressor": ["dataset=heteroscedastic"],
    "method/nearest_outcomes": ["dataset=heteroscedastic"],
    "method/predictive": ["dataset=heteroscedastic"],
    "method/quantile_network": ["dataset=heteroscedastic"],
    "method/boosted_local_pit": ["dataset=heteroscedastic"],
    "method/extra_trees_outcomes": ["dataset=heteroscedastic"],
    "method/ngboost": ["dataset=heteroscedastic"],
    "method/quantile_boosting": ["dataset=heteroscedastic"],
    "method/quantile_catboost": ["dataset=heteroscedastic"],
    "method/quantile_lightgbm": ["dataset=heteroscedastic"],
    "method/quantile_xgboost": ["dataset=heteroscedastic"],
    "method/quantile_forest": ["dataset=heteroscedastic"],
    "method/random_forest_outcomes": ["dataset=heteroscedastic"],
    "parent/extra_trees_outcomes": ["dataset=heteroscedastic"],
    "parent/ngboost": ["dataset=heteroscedastic"],
    "parent/quantile_boosting": ["dataset=heteroscedastic"],
    "parent/quantile_catboost": ["dataset=heteroscedastic"],
    "parent/quantile_lightgbm": ["dataset=heteroscedastic"],
    "parent/quantile_xgboost": ["dataset=heteroscedastic"],
    "parent/quantile_forest": ["dataset=heteroscedastic"],
    "parent/random_forest_outcomes": ["dataset=heteroscedastic"],
    "metrics/paper/p5/diamonds": ["dataset=heteroscedastic"],
    "metrics/paper/p5/simulation": ["dataset=heteroscedastic"],
    "metrics/paper/p5/table1": ["dataset=heteroscedastic"],
    "metrics/paper/p5/table2": ["dataset=heteroscedastic"],
    "metrics/fdr": ["detector=leaf_box"],
    "metrics/posterior": ["dataset=spiral"],
    "metrics/regression": ["dataset=heteroscedastic"],
    "metrics/regression_local": ["dataset=heteroscedastic"],
    "metrics/regression_local_truth": ["dataset=heteroscedastic"],
    "metrics/regression_truth": ["dataset=heteroscedastic"],
    "metrics/sets": ["conformal=aps"],
    "metrics/sets_by_group": ["conformal=aps"],
    "parent/fitted": ["parent.path=kdgraph.fitted.parent:_uniform_proba", "method=isotonic"],
    "parent/gamma_glm": ["dataset=heteroscedastic"],
    "parent/linear": ["dataset=heteroscedastic"],
    "parent/mc_dropout": ["dataset=heteroscedastic"],
    "parent/mlp_gamma": ["dataset=heteroscedastic"],
    "parent/mlp_lognormal": ["dataset=heteroscedastic"],
    "parent/mlp_normal_scale": ["dataset=heteroscedastic"],
    "parent/mlp_regressor": ["dataset=heteroscedastic"],
    "parent/nearest_outcomes": ["dataset=heteroscedastic"],
    "parent/paper/p5/diamonds": ["dataset=heteroscedastic"],
    "parent/paper/p5/diamonds_linear": ["dataset=heteroscedastic"],
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
    "recalibrator/residual_scale": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/local_linear_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/local_pit": ["dataset=heteroscedastic", "parent=linear"],
    "recalibrator/localised_conformal_pit": ["dataset=heteroscedastic", "parent=linear"],
    "calibrator/kdn": ["parent=mlp"],
    "calibrator/kdn_paper": ["parent=mlp"],
    "calibrator/kdn_reference": ["parent=mlp"],
    "calibrator/paper/p1/kdn_figure1": ["parent=mlp"],
    "calibrator/odin_temperature": ["parent=mlp"],
    "dataset/arrays": ["dataset.path=my.npz"],
    "dataset/celeba_hair_color": ["dataset.path=list_attr_celeba.parquet"],
    "dataset/celeba_hair_type": ["dataset.path=list_attr_celeba.parquet"],
    "dataset/image_files": ["dataset.path=pictures.zip"],
    "dataset/openml": ["dataset.id=61"],
    "dataset/scores": ["dataset.path=softmax.npz"],
    "dataset/table": ["dataset.path=my.csv", "dataset.target=label"],
    "dataset/text": ["dataset.path=my.csv"],
    "detector/energy": ["parent=mlp"],
    "detector/mahalanobis_layers": ["parent=mlp"],
    "detector/max_logit": ["parent=mlp"],
    "detector/odin": ["parent=mlp"],
    "detector/vim": ["parent=mlp"],
    "experiment/paper/p2/records": ["dataset.path=softmax.npz"],
    "experiment/paper/p4/celeba_hair_color": ["dataset.path=list_attr_celeba.parquet"],
    "experiment/paper/p4/celeba_hair_type": ["dataset.path=list_attr_celeba.parquet"],
    "experiment/paper/p4/cifar10": ["dataset.path=scores_and_features.npz"],
    "experiment/paper/p4/cifar100": ["dataset.path=scores_and_features.npz"],
    "calibrator/lore_tsne": ["protocol=paper", "ood=none", "metrics=top_label"],
    "method/lore_tsne": ["ood=none", "metrics=top_label"],
    "method/network_lore_tsne": ["ood=none", "metrics=top_label"],
    "ood/dataset": ["ood.name=iris"],
    "ood/paper/p3/clouds": ["dataset=cloud_circles"],
}
# A network is refused unless a part of the method uses it.
REQUIRED_OVERRIDES |= {name: ["method=kdn"] for name in IDS if name.startswith("network/")}
# Sweeps over the methods or data sets of a file that they extend: some of these, and one seed.
SHORTENED_SWEEPS = {
    "experiment/bench/tabular_ood_openml": ["method=isotonic,knn,energy_fine_tuning", "seed=0"],
    "experiment/paper/p1/cc18_far": ["dataset=cc18/balance_scale,cc18/wdbc"],
    "experiment/paper/p4/celeba_hair_type": [
        "method=paper/p4/celeba/none,paper/p4/celeba/mmce,paper/p4/celeba/lore_pca"
    ],
    "experiment/paper/p4/crime_long": [
        "method=paper/p4/crime/none,paper/p4/crime/mmce,paper/p4/crime/lore_pca",
        "seed=0",
    ],
}
# Data sets whose name comes from their parameters, such as the path.
NAMED_BY_PARAMETERS = {
    "dataset/arrays",
    "dataset/image_files",
    "dataset/openml",
    "dataset/scores",
    "dataset/table",
    "dataset/text",
}


@pytest.mark.parametrize("preset", LIBRARIES)
def test_presets_of_installed_libraries_are_tested(preset):
    if ABSENT[preset]:
        pytest.skip(
            f"{', '.join(ABSENT[preset])} not installed; the extra boosting, peers, dask or ray has"
            " it"
        )
    assert preset in IDS


COMPONENT_FILES = [
    path for path in FILES if path.parent.name in COMPONENTS and "_target_" in read_text(path)
]
COMPONENT_IDS = [name for path, name in zip(FILES, IDS, strict=True) if path in COMPONENT_FILES]


PAPERS = {
    "p1": "simulations posteriors trunk shapes cc18 cc18_far cifar10 cifar10_vit",
    "p2": "mnist phanns phanns_rebuilt phanns_scores records",
    "p3": "simulated tabular mnist cifar text word_vectors size_labels",
    "p4": "crime celeba_hair_color celeba_hair_type cifar10 cifar100",
    "p5": "table1 table2 simulation diamonds",
}
# The C loader, if PyYAML has it, is several times as fast.
_NODES = {
    path: yaml.load(read_text(path), getattr(yaml, "CSafeLoader", yaml.SafeLoader)) or {}
    for path in FILES
}


@pytest.fixture(scope="module")
def _composer() -> Composer:
    return Composer()


@pytest.fixture(autouse=True)
def _shared_presets(_composer, monkeypatch) -> None:
    """Compose each preset once for all tests, as a sweep does.

    Most files are composed with the same preset, with which the method of a run is compared.
    """
    monkeypatch.setattr(planning, "Composer", lambda config_dir: _composer)


def test_every_experiment_of_the_papers_has_a_preset():
    assert {
        f"experiment/paper/{paper}/{name}"
        for paper, names in PAPERS.items()
        for name in names.split()
    } <= set(IDS)


_QUICK = {
    name.partition("/")[0]: name for name in reversed(IDS) if not name.startswith("experiment/")
}


def _case(name: str, *values):
    """Return parameters of a test, marked as slow but for one option of each group."""
    is_quick = name in _QUICK.values()
    return pytest.param(*values, marks=[] if is_quick else [pytest.mark.slow], id=name)


@pytest.mark.parametrize(
    ("path", "name"),
    [
        _case(name, path, name)
        for path, name in zip(FILES, IDS, strict=True)
        if not name.startswith(("method/paper/", "dataset/"))
    ],
)
def test_option_composes_and_passes_the_check(path, name):
    """Each option of a sweep is checked once.

    Methods of a paper are composed with the experiment that sweeps them; data sets have a test of
    their own.
    """
    group, _, option = (name.rpartition if name.startswith("hydra/") else name.partition)("/")
    run_plan = plan(
        [
            *REQUIRED_OVERRIDES.get(name, []),
            f"{group}={option}",
            *_shortened_sweep(path),
            *SHORTENED_SWEEPS.get(name, []),
        ]
    )
    checked = set()
    for job in run_plan.jobs:
        if not run_plan.multirun or set(job.swept.items()) - checked:
            check(job.config)
        checked |= set(job.swept.items())


def _shortened_sweep(path) -> list[str]:
    """Return overrides that shorten the sweep of a file.

    Of the values of a parameter one remains, because other values compose in the same way. Of many
    data sets the first two remain, and of the methods those of the paper and three others, because
    each of the rest has a test of its own.
    """
    swept = (_NODES[path].get("hydra") or {}).get("sweeper", {}).get("params", {})
    values = {key: str(value).split(",")[0] for key, value in swept.items() if "." in key}
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
def test_files_begin_with_a_summary_and_have_short_comments(path):
    assert first_comment(path), f"{path} needs a first comment: 'kdg list' shows it"
    assert not first_comment(path).endswith(".")
    comments = [line for line in read_text(path).splitlines() if "#" in line]
    assert max(map(len, comments)) <= 100


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_component_has_the_name_of_its_file(path):
    if path.relative_to(conf_dir()).with_suffix("").as_posix() not in NAMED_BY_PARAMETERS:
        assert _NODES[path]["name"] == path.stem


MODEL_GROUPS = ("parent", *AFTER)
MODEL_FILES = [path for path in FILES if path.parent.parent == conf_dir()]
MODEL_FILES = [path for path in MODEL_FILES if path.parent.name in MODEL_GROUPS]
METHOD_FILES = [path for path in FILES if path.parent == conf_dir() / "method"]


@pytest.mark.parametrize("path", MODEL_FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_part_of_a_model_has_the_name_of_its_file_in_one_group_only(path):
    assert _NODES[path]["name"] == path.stem
    groups = [other.parent.name for other in MODEL_FILES if other.stem == path.stem]
    assert groups == [path.parent.name] or path.stem == "none"


@pytest.mark.parametrize("path", METHOD_FILES, ids=lambda path: path.stem)
def test_method_uses_what_it_is_named_after(path):
    """The rule of CONTRIBUTING: ``[network_|boosted_][gated_]X`` uses X, or is training X."""
    chosen = _chosen_components(path)
    parent = chosen.pop("parent")
    after = {group: option for group, option in chosen.items() if option != "none"}
    stem = path.stem.removeprefix("network_").removeprefix("boosted_")
    assert path.stem.startswith("boosted_") <= (parent == "quantile_boosting")
    is_gated, stem = stem.startswith("gated_"), stem.removeprefix("gated_")
    assert is_gated == ("gate" in after)
    if path.stem.startswith("network_"):
        assert parent == "${network}"
        stem = f"network_{stem}" if f"network_{stem}" in after.values() else stem
    if parent.startswith("${network}_"):
        assert stem.removesuffix("_quick") == parent.removeprefix("${network}_")
        mlp = parent.replace("${network}", "mlp")
        assert is_option(conf_dir() / "parent" / f"{mlp}.yaml")
    elif stem == "none":
        assert not after
    elif after:
        assert stem in after.values() and len(after) == 1 + is_gated
    else:
        assert stem == parent


def _chosen_components(path) -> dict[str, str]:
    """Return group → option of a method preset."""
    chosen = {
        key.removeprefix("override /"): str(option)
        for entry in _NODES[path]["defaults"]
        if isinstance(entry, Mapping)
        for key, option in entry.items()
    }
    return {group: chosen[group] for group in MODEL_GROUPS if group in chosen}


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_file_lists_every_parameter_of_its_class(path):
    node = _NODES[path]
    target = target_of(node)
    if target is None or not target.__module__.startswith("kdgraph"):
        pytest.skip("another library may add parameters")
    expected = set(parameters_of(target)) - INJECTED
    assert expected <= set(node), f"not listed: {expected - set(node)}"


@pytest.mark.parametrize("path", COMPONENT_FILES, ids=COMPONENT_IDS)
def test_listed_values_are_the_defaults_of_the_class(path):
    node = _NODES[path]
    target = target_of(node)
    if target is None or not target.__module__.startswith("kdgraph"):
        pytest.skip("the defaults of another library may differ")
    for key, parameter in parameters_of(target).items():
        default = parameter.default
        if (
            key != "name"
            and key in node
            and default is not inspect.Parameter.empty
            and path.parent.name != "method"
            and not isinstance(node[key], Mapping)  # which a class cannot have as a default
            and not _is_variant(path, key)
            and (path.parent.name, key) != DIVIDES_CALIBRATION_ROWS
            and (path.stem, key) not in CONFORMAL_FLOORS
        ):
            listed = tuple(node[key]) if isinstance(node[key], list) else node[key]
            assert listed == (tuple(default) if isinstance(default, list) else default), key


# In a run it is a fraction of the calibration rows; the class holds a fraction of all rows out.
DIVIDES_CALIBRATION_ROWS = ("conformal", "calibration_size")


# Published versions with another floor than their own, which leaves no model or no far field.
CONFORMAL_FLOORS = {
    (f"{family}_{version}", "floor")
    for family in ("kdf", "kdn")
    for version in ("paper", "reference")
}


def _is_variant(path, key) -> bool:
    """Return whether another option of the group has this class and another value of ``key``."""
    node = _NODES[path]
    return any(
        sibling.get("_target_") == node["_target_"] and sibling.get(key) != node[key]
        for sibling_path, sibling in _NODES.items()
        if sibling_path.parent == path.parent and sibling_path != path
    )


DATASETS = [name for name in IDS if name.startswith("dataset/")]


@pytest.mark.parametrize("name", [_case(name, name) for name in DATASETS])
def test_data_set_composes_and_lists_parameters_and_sizes(name):
    overrides = [*REQUIRED_OVERRIDES.get(name, []), f"dataset={name.removeprefix('dataset/')}"]
    (job,) = plan(overrides).jobs
    check(job.config)
    node = job.config.dataset
    source = build(node)
    assert isinstance(source, Simulation | Table)
    sizes = (
        {"n_train", "n_calibration", "n_test", "n_learn", "max_learn", "max_test", "scale"}
        if isinstance(source, Simulation)
        else set(split_options())
    )
    assert set(node) == {*parameters_of(target_of(node)), *sizes, "name", "_target_"}
    assert source.name == node["name"] or name in NAMED_BY_PARAMETERS


@pytest.mark.parametrize("name", [_case(name, name) for name in IDS if name.startswith("ood/")])
def test_ood_set_can_be_built(name):
    overrides = [*REQUIRED_OVERRIDES.get(name, []), f"ood={name.removeprefix('ood/')}"]
    sampler = build(compose(overrides).ood)
    assert sampler is None or callable(sampler.sets)


def test_default_config_is_complete():
    config = compose()
    assert all(getattr(config, part) for part in (*COMPONENTS, "metrics", "figures"))
