"""Numbers of runs of images and texts in the places of the published ones, for ``kdg reproduce
p3``: Tables 2 to 6 and Appendix E.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from experiments.common.frames import where
from experiments.common.published import ABOUT, read_published
from experiments.common.runs import Record
from experiments.common.titles import titles
from experiments.p3 import images, text
from experiments.p3.records import APHD, IN, table_of
from experiments.p3.study import METRICS, Study

PAPER = Path(__file__).parent
# Variants of labels: Algorithm 1 of the paper, and the alternative of its Section 6.
GIVEN, SHUFFLED = "", "labels shuffled"
# Setting of tables 3 and 4 of Appendix E, which are taken to have shuffled labels. The captions are
# lost. Tables 1 and 2 print the numbers of the main text: Fashion-MNIST against KMNIST is 99.2 and
# 99.1 in Table 3 and in table 2. Section 6 shuffles labels and has no other table.
WITH_SHUFFLED = "second of two"
LABELS_GIVEN = "labels given"  # Title of given labels where shuffled ones are the paper's
# Least number of training images of CIFAR, of 50,000, for a number in the paper's place.
ENOUGH = 40_000
FEW_IMAGES = "few images"  # Title of the variant with fewer
TITLES = titles("p3", "cells")
# Experiment → title of the variant of texts, whose data are incomplete
SMALL_TEXTS = TITLES["small_texts"]
SENTENCES = "sentences"  # Title of the variant with sentences in the place of whole reviews
# Method of a run → published name and variant.
IMAGES = {"tood_given": ("TOOD", GIVEN), "tood_shuffled": ("TOOD", SHUFFLED), "msp": ("MSP", "")}
PHOTOGRAPHS = TITLES["photographs"]  # The same for CIFAR, where the paper has more methods
SVHN_ALONE = "SVHN alone"  # Title of the variant with one of six sets
TEXTS = TITLES["texts"]


def image_cells(study: Study, folder: Path) -> pd.DataFrame:
    """Return AUROC, AUPR and FPR in percent in every cell that has runs, and mean APHD."""
    records = _largest(r for r in images.read(folder) if r["dataset"]["name"] in study.datasets)
    weak = [
        r
        for r in records
        if r["dataset"]["name"] in images.CIFAR.datasets and r["dataset"]["n_train"] < ENOUGH
    ]
    many = _numbers([r for r in records if r not in weak], PHOTOGRAPHS)
    few, alone = _numbers(weak, PHOTOGRAPHS), f"{SVHN_ALONE}, {FEW_IMAGES}"
    frames = [
        _placed(many, PHOTOGRAPHS, study.stands_for),
        _placed(few, _as_variants(PHOTOGRAPHS, FEW_IMAGES), study.stands_for),
        # The means of Table 5 are over six sets.
        _placed(few, _as_variants(PHOTOGRAPHS, alone), {"svhn": "mean of all"}),
        _distances(records),
    ]
    return pd.concat([frame for frame in frames if len(frame)] or frames, ignore_index=True)


def cells_of_mnist(folder: Path) -> pd.DataFrame:
    """Return :func:`image_cells` of the grey images."""
    return image_cells(images.MNIST, folder)


def cells_of_cifar(folder: Path) -> pd.DataFrame:
    """Return :func:`image_cells` of the photographs."""
    return image_cells(images.CIFAR, folder)


def text_cells(folder: Path) -> pd.DataFrame:
    """Return the same of texts, as variants: neither long word vectors nor all texts are there."""
    frames = []
    for experiment, label in SMALL_TEXTS.items():
        frame = _numbers(text.read(folder, [experiment]), TEXTS)
        if len(frame):
            are_sentences = frame.dataset.isin(text.SENTENCES) | frame.set.isin(text.SENTENCES)
            for rows, variant in (
                (frame[~are_sentences], label),
                (frame[are_sentences], f"{SENTENCES}, {label}"),
            ):
                frames.append(_placed(rows, _as_variants(TEXTS, variant), text.STANDS_FOR))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _as_variants(methods: Mapping[str, tuple[str, str]], label: str) -> dict[str, tuple[str, str]]:
    return {n: (method, ", ".join(filter(None, [label, v]))) for n, (method, v) in methods.items()}


def _distances(records: Sequence[Record]) -> pd.DataFrame:
    """Return mean APHD of test rows, which Remark 4.1 and Section 6 call close to 1."""
    frame = table_of(record for record in records if record["method"] in IMAGES)
    if frame.empty:
        return frame
    own = where(frame, metric=APHD, set=IN)
    means = own.groupby(["dataset", "method", "seed"], as_index=False).value.mean()
    at = {
        "cifar10": ("Section 6", "cifar10"),
        **dict.fromkeys(images.MNIST.datasets, ("Section 4", "images")),
    }
    means = means[means.dataset.isin(at)]
    placed = means.assign(
        item=[at[name][0] for name in means.dataset],
        dataset=[at[name][1] for name in means.dataset],
    )
    joined = placed.groupby(["item", "dataset", "method", "seed"], as_index=False).value.mean()
    variants = [IMAGES[name][1] for name in joined.method]
    return joined.assign(metric="APHD", method="TOOD", ood="", setting="", variant=variants)


def _largest(result: Iterable[Record]) -> list[Record]:
    """Return for each data set the runs with the most rows: smaller ones are of other studies."""
    records = list(result)
    rows = [record["dataset"]["n_train"] for record in records]
    most: dict[str, int] = {}
    for record, n in zip(records, rows, strict=True):
        most[record["dataset"]["name"]] = max(n, most.get(record["dataset"]["name"], 0))
    return [r for r, n in zip(records, rows, strict=True) if n == most[r["dataset"]["name"]]]


def _numbers(records: Iterable[Record], methods: Collection[str]) -> pd.DataFrame:
    return images.with_mean_of_medmnist(
        table_of(record for record in records if record["method"] in methods)
    )


def _placed(
    frame: pd.DataFrame, methods: Mapping[str, tuple[str, str]], stands_for: Mapping[str, str]
) -> pd.DataFrame:
    """Return a row for each published number and seed: one may be in several tables."""
    if frame.empty:
        return frame
    names = {
        "dataset": frame.dataset.replace(stands_for),
        "ood": frame.set.replace(stands_for),
        "metric": frame.metric.map(METRICS),
    }
    details = [methods[name] for name in frame.method]
    result = frame.assign(
        **names,
        method=[name for name, _ in details],
        variant=[variant for _, variant in details],
        value=100 * frame.value,
    )
    published = read_published(PAPER)
    keys = [name for name in published if name not in ABOUT | {"section", "said", "decimals"}]
    tested = published[published.kind == "table"][keys].fillna("")
    joined = tested.merge(
        result[["dataset", "ood", "metric", "method", "variant", "seed", "value"]],
        on=["dataset", "ood", "metric", "method"],
    )
    # In tables with shuffled labels these are the paper's method, and given labels the variant.
    own_variant = {SHUFFLED: "", GIVEN: LABELS_GIVEN}
    is_swapped = (joined.setting == WITH_SHUFFLED) & joined.variant.isin(own_variant)
    joined["variant"] = joined.variant.where(~is_swapped, joined.variant.map(own_variant))
    return joined.drop_duplicates([*keys, "variant", "seed"])


def measurement(published: Mapping[str, object]) -> tuple[object, ...]:
    """Return what identifies a measurement; Appendix E repeats Table 4."""
    labels = SHUFFLED if published.get("setting") == WITH_SHUFFLED else GIVEN
    return *(published.get(name) for name in ("dataset", "ood", "metric", "method")), labels
