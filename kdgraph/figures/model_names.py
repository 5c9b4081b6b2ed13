"""Names of models in figures, as papers write them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

_WHOLE_NAMES = {
    "catboost": "CatBoost",
    "cum": "Cumulative",
    "cum_plus": "Cumulative+",
    "cum_star": "Cumulative*",
    "hist_gradient_boosting": "Histogram gradient boosting",
    "knn": "k-NN",
    "lenet": "LeNet-5",
    "lightgbm": "LightGBM",
    "linear_pool": "Linear pool",
    "lore": "LoRe",
    "mc_dropout": "MC dropout",
    "ngboost": "NGBoost",
    "none": "Unchanged",
    "ocsvm": "One-class SVM",
    "resnet": "ResNet-20",
    "set_ks": "Set test, KS",
    "set_mmd": "Set test, MMD",
    "sigmoid": "Platt's sigmoid",
    "tswa_ridge": "TSWA, ridge",
    "venn_abers": "Venn-Abers",
    "venn_abers_pooled": "Venn-Abers, pooled",
    "vim": "ViM",
    "xgboost": "XGBoost",
}
"""Components whose name does not follow from the words of their key."""
_WORDS = {
    **{
        word: word.upper()
        for word in (
            *("acet", "aps", "ceda", "cnn", "csts", "cstswa", "cv", "glm", "kde", "kdf", "kdn"),
            *("lac", "lof", "mlp", "mmce", "msp", "odin", "oe", "pit", "raps", "sts", "tood"),
            *("tswa",),
        )
    },
    "lenet": "LeNet-5",
    "lore": "LoRe",
    "tsne": "t-SNE",
    "xgboost": "XGBoost",
    "lightgbm": "LightGBM",
    "catboost": "CatBoost",
}
_SUFFIXES = {
    "top_label": "top label",
    "pooled": "pooled",
    "paper": "paper",
    "reference": "reference",
}
"""Variants of a component, which follow a comma."""
_KEY = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def paper_name(name: str, parents: Collection[str] = ()) -> str:
    """Return the name of a component in a config, or of a method in a table, as a paper writes it.

    It has words instead of underscores, acronyms in capitals, and a capital at the beginning. Words
    after the first space, such as the settings that distinguish two runs of one method, are kept. A
    method ``<parent>-<calibrator>`` of one of the parents is written with a plus. A name that is
    not made of small letters, digits and single underscores is a name that the user chose; it is
    returned unchanged.

    >>> [paper_name(name) for name in ("random_forest", "kdf", "isotonic_top_label", "local_pit")]
    ['Random forest', 'KDF', 'Isotonic, top label', 'Local PIT']
    >>> paper_name("kdf n_estimators=10"), paper_name("My_net"), paper_name("my-net")
    ('KDF n_estimators=10', 'My_net', 'my-net')
    >>> paper_name("random_forest-isotonic", parents=["random_forest"])
    'Random forest + Isotonic'
    """
    key, space, rest = name.partition(" ")
    parent = next((parent for parent in parents if key.startswith(f"{parent}-")), None)
    parts = [key] if parent is None else [parent, *key.removeprefix(f"{parent}-").split("-")]
    if any(_KEY.fullmatch(part) is None for part in parts):
        return name
    names = " + ".join(_WHOLE_NAMES.get(part) or _spelt_out(part) for part in parts)
    return f"{names}{space}{rest}"


def paper_names(names: Iterable[str], parents: Collection[str] = ()) -> dict[str, str]:
    """Return the :func:`paper_name` of each method, or all as they are if two would be the same.

    >>> paper_names(["kdf", "random_forest (parent)"])
    {'kdf': 'KDF', 'random_forest (parent)': 'Random forest (parent)'}
    >>> paper_names(["kdf", "KDF"])
    {'kdf': 'kdf', 'KDF': 'KDF'}
    """
    spelt_out = {name: paper_name(name, parents) for name in names}
    is_distinct = len(set(spelt_out.values())) == len(spelt_out)
    return spelt_out if is_distinct else {name: name for name in spelt_out}


def figure_names(parent: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, str]:
    """Return two different names in figures, of the parent and of the calibrated model.

    Arguments are the config nodes of the parent and, by group, of each component after it.
    """
    parent_name = paper_name(str(parent["name"]))
    # A gate has the name of the quantity that it thresholds, so the word "gate" follows it.
    components = (
        f"{str(node['name']).replace('_', ' ')} gate"
        if group == "gate"
        else paper_name(node["name"])
        for group, node in after.items()
        if node["name"] != "none"
    )
    label = " + ".join(components) or paper_name("none")
    label = label[:1].upper() + label[1:] if label.endswith(" gate") else label
    return parent_name, label if label != parent_name else f"{label} (calibrated)"


def _spelt_out(key: str) -> str:
    for suffix, words in _SUFFIXES.items():
        stem = key.removesuffix(f"_{suffix}")
        if stem != key:
            return f"{_WHOLE_NAMES.get(stem) or _spelt_out(stem)}, {words}"
    text = " ".join(_WORDS.get(word, word) for word in key.split("_"))
    return text[:1].upper() + text[1:] if text[:2] != "t-" else text
