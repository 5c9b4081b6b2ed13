"""Outliers that a network trains with, against the rows out of distribution of its run."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from kdgraph.config import RunConfig, check, compose, plan
from kdgraph.config.data_sources import check_sources, seen_in_training, sources_of_outliers
from kdgraph.errors import ConfigError, ParameterError
from kdgraph.runner.availability import sources
from kdgraph.runner.run import run
from kdgraph.runner.stages import split
from kdgraph.runner.stored_stages import stage_keys

E = "kdgraph.parents.networks"
NOISE, PERMUTED = (
    {"_target_": f"kdgraph.data.ood.{name}", "name": name}
    for name in ("UniformNoise", "ColumnPermuted")
)
FASHION = {"_target_": f"{E}.DatasetOutliers", "source": {"name": "fashion_mnist", "id": 40996}}
MIXED = {
    "_target_": f"{E}.MixedOutliers",
    "parts": {"a": {"_target_": f"{E}.PermutedOutliers"}, "b": FASHION},
}


def other(name: str, id: int) -> dict:
    return {
        "name": "dataset",
        "_target_": "kdgraph.data.ood.OtherDataset",
        "source": {"name": name, "id": id},
    }


def perturbed(images: dict | None) -> dict:
    return {
        "name": "perturbed",
        "_target_": "experiments.p3.gradient_sign.FastGradientSign",
        "images": images and {k: images[k] for k in images if k != "name"},
    }


@cache
def base() -> RunConfig:
    return compose(["dataset=wine", "ood=noise"])


def with_outliers(outliers, ood=NOISE, **more) -> RunConfig:
    exposure = {"_target_": f"{E}.Ceda", **({} if outliers is None else {"outliers": outliers})}
    return replace(base(), parent={"name": "mlp", "exposure": exposure}, ood=ood, **more)


@pytest.mark.parametrize(
    ("outliers", "ood", "sets"),
    [
        (None, NOISE, ["ood (UniformNoise)"]),
        ("noise", {**NOISE, "_target_": "kdgraph.data.ood.GaussianNoise"}, ["ood (UniformNoise)"]),
        ("noise", PERMUTED, []),
        ("permuted", PERMUTED, ["ood (ColumnPermuted)"]),
        (
            "mixed",
            {"name": "all", "sources": {"n": NOISE, "p": PERMUTED, "o": other("svhn", 1)}},
            ["ood.sources.n (UniformNoise)", "ood.sources.p (ColumnPermuted)"],
        ),
        (FASHION, other("fashion_mnist_784", 40996), ["ood (dataset)"]),
        (FASHION, other("svhn", 41081), []),
        (
            {**FASHION, "class_half": "first"},
            {**other("fashion_mnist", 40996), "class_half": "first"},
            ["ood (dataset)"],
        ),
        (
            {**FASHION, "class_half": "first"},
            {**other("fashion_mnist", 40996), "class_half": "second"},
            [],
        ),
        ({**FASHION, "class_half": "first"}, other("fashion_mnist", 40996), ["ood (dataset)"]),
        (
            {**FASHION, "class_half": None},
            {**other("fashion_mnist", 40996), "class_half": "second"},
            ["ood (dataset)"],
        ),
        ({**FASHION, "class_half": "first"}, {**other("svhn", 41081), "class_half": "first"}, []),
        (MIXED, PERMUTED, ["ood (ColumnPermuted)"]),
        (MIXED, NOISE, []),
        (FASHION, perturbed(other("fashion_mnist_784", 40996)), ["ood.images (perturbed)"]),
        (
            "noise",
            {"name": "all", "sources": {"a": perturbed(NOISE), "b": perturbed(None)}},
            ["ood.sources.a.images (perturbed)"],
        ),
        (MIXED, {"name": "none", "_target_": None}, []),
    ],
)
def test_ood_rows_like_the_training_outliers_are_named(outliers, ood, sets):
    sentence = (
        "{} is like the outliers that parent.exposure.outliers trains with, so its metrics do not"
        " show how the network predicts outliers of other kinds"
    )
    expected = [sentence.format(name) for name in sets]
    assert seen_in_training(with_outliers(outliers, ood).science()) == expected


def test_outliers_are_noise_by_default_and_need_a_network():
    config = replace(base(), parent={"name": "mlp_oe", "exposure": {"weight": 0.5}})
    assert [
        sentence.partition(" is like")[0] for sentence in seen_in_training(config.science())
    ] == ["ood (noise)"]
    assert (
        seen_in_training(base().science()) == []
        and seen_in_training(replace(base(), parent={"name": "mlp", "exposure": None}).science())
        == []
    )


def test_training_rows_and_unknown_words_are_refused():
    check_sources(with_outliers(MIXED).science())
    for dataset in ({"name": "fashion_mnist"}, {"name": "another", "id": 40996}):
        what = (
            "^parent.exposure.outliers.source is fashion_mnist, which is what"
            f" dataset={dataset['name']} trains on, and no outlier; choose"
        )
        with pytest.raises(ConfigError, match=what):
            check_sources(with_outliers(MIXED, dataset=dataset).science())
    with pytest.raises(
        ConfigError,
        match=(
            r"^parent.exposure.outliers must be one of noise, permuted, mixed, or a node of .*, got"
            r" 'nois'$"
        ),
    ):
        check_sources(with_outliers("nois").science())


def test_outliers_are_checked_and_loaded_before_a_run():
    rows = (
        f"parent.exposure.outliers={{_target_: {E}.DatasetOutliers, source:"
        " '${dataset:fashion_mnist}'}"
    )
    jobs = plan(["dataset=mnist", "parent=cnn_oe", "calibrator=none", rows]).jobs
    check(jobs[0].config)
    assert [node["name"] for node in sources_of_outliers(jobs[0].config.science())] == [
        "fashion_mnist"
    ]
    assert [name for name, _ in sources(jobs)] == ["mnist", "fashion_mnist"]


def test_presets_are_checked_with_their_exposure():
    with pytest.raises(
        ParameterError, match=r"^parent.exposure.steps must be in \[1, inf\), got 0$"
    ):
        compose(
            [
                "dataset=wine",
                "method=acet",
                "network=tabular_mlp",
                "parent.exposure.steps=0",
            ]
        )


def test_the_file_of_outliers_is_part_of_the_id_of_run_and_fit(tmp_path):
    path = tmp_path / "rows.csv"
    config = with_outliers({**FASHION, "source": {"name": "rows", "path": str(path)}})
    ids = []
    for content in ("a", "b", "a"):
        path.write_text(content)
        ids.append((replace(config).run_id, stage_keys(config, split(base().dataset, 0))["fit"]))
    assert ids[0] == ids[2] and len(set(zip(*ids, strict=True))) == 2
    assert ids[0][0] != ids[1][0] and ids[0][1] != ids[1][1]


@pytest.mark.filterwarnings("default:.*is like the outliers")
def test_a_run_warns_of_ood_rows_that_its_network_was_trained_on(tmp_path):
    little = [
        "parent.hidden=[8]",
        "parent.max_epochs=2",
        "calibrator=none",
        "metrics=default",
        "figures=none",
        f"out={tmp_path}",
    ]
    for ood, expected in (("noise", ["ood (noise)"]), ("permuted", [])):
        record = run(compose(["dataset=wine", "parent=mlp_oe", f"ood={ood}", *little]))
        warned = [
            each["message"].partition(" is like")[0]
            for each in record["warnings"]
            if "trains with" in each["message"]
        ]
        assert warned == expected
