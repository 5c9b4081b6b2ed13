"""What is composed is what Hydra composes, key by key and in its order."""

from __future__ import annotations

import pickle

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import OmegaConf

from kdgraph.config.composer import Composer, conf_dir
from kdgraph.config.loader import Loader


def composed(loader, words):
    """With all that Hydra adds, as text, in which the order of the keys shows."""
    return OmegaConf.to_yaml(loader.load_configuration("config", list(words), run_mode=RunMode.RUN))


def both(folder):
    path = create_config_search_path(str(folder))
    return Loader(path), ConfigLoaderImpl(path)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["dataset=paper/p3/newsgroups_computer", "seed=3", "n_jobs=1"],
        ["experiment=paper/p4/crime", "method=paper/p4/crime/lore_pca", "~parent.dropout"],
        ["experiment=paper/p3/mnist", "method=kdn", "network=cnn", "ood=dataset", "ood.name=svhn"],
        [
            "method=gated_temperature",
            "dataset=shapes",
            "+metrics.test.brier.more=1",
            "hydra/launcher=basic",
            "hydra.mode=MULTIRUN",
        ],
    ],
)
def test_it_is_what_hydra_composes(words):
    Composer()  # which sets Hydra up
    ours, theirs = both(conf_dir())
    expected = composed(theirs, words)
    assert composed(ours, words) == expected
    assert composed(ours, words) == expected  # nobody has written into what was read
    assert composed(pickle.loads(pickle.dumps(ours)), words) == expected


BASE = (
    "defaults: [_self_, {part: a}, {more: null}]\nlevel: {deep: 1, list: [1, 2], null_: null,"
    " asked: '???'}\nword: ${level}\n"
)
MORE = {
    "values": "level: {deep: 2, list: [3], other: {x: 1}}",
    "a dict for nothing": "level: {null_: {x: 1}}",
    "nothing for a dict": "level: null",
    "a number for a dict": "level: 3",
    "a dict for a number": "level: {deep: {x: 1}}",
    "a list for a dict": "level: [1, 2]",
    "a dict for a list": "level: {list: {x: 1}}",
    "nothing for a list": "level: {list: null}",
    "what is to be given": "level: {deep: '???', list: '???', asked: 4}",
    "to be given, and not there": "level: {new: '???'}",
    "a dict for an interpolation": "word: {x: 1}",
    "a word for an interpolation": "word: hello",
    "to be given for an interpolation": "word: '???'",
    "an interpolation for a dict": "level: '${part}'",
    "a part": "part: {name: b, x: {y: 1}}",
    "Hydra's own": "hydra: {job: {name: other}, sweep: {dir: here}}\nword: 2",
    "a key that Hydra has not": "hydra: {jobb: {name: other}}",
    "a file that chooses": "defaults: [{override /part: b}, /part@level.deep: a]",
    "a choice that follows": "defaults: [/part@level.new: '${part}']",
    "numbers as keys": "level: {1: a, true: b}",
    "a list for all": "- level\n- word",
}


@pytest.mark.parametrize("more", MORE.values(), ids=MORE)
def test_it_merges_as_hydra_does(more, tmp_path):
    Composer()
    files = {
        "config": BASE,
        "part/a": "name: a\nx: {z: 1}",
        "part/b": "name: b",
        "more/it": f"# @package _global_\n{more}",
    }
    for name, text in files.items():
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    found = []
    for loader in both(tmp_path):
        try:
            found.append(composed(loader, ["more=it", "+part@again=b"]))
        except HydraException as error:
            found.append(f"{type(error).__name__}: {error}")
    assert found[0] == found[1]


def test_a_file_that_has_changed_is_read_again(tmp_path):
    Composer()
    file = tmp_path / "config.yaml"
    loader, _ = both(tmp_path)
    for seed in (1, 2):
        file.write_text(f"seed: {seed}\n")
        assert loader.load_configuration("config", [], run_mode=RunMode.RUN).seed == seed
