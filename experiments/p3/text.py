"""Texts against texts on other topics, beside Tables 2 and 6: the tables after
``experiment=paper/p3/text`` and ``…/word_vectors``.

``python -m experiments.p3.text outputs`` prints them again, from any subset of its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.common.command import print_comparison
from experiments.common.runs import Record, runs_of
from experiments.common.titles import titles
from experiments.p3.study import Study, measured, tables

TITLES = titles("p3", "text")
GROUPS = TITLES["groups"]
OTHERS = {"movies": "reviews of movies (in place of IMDB's)", "news": "AG News"}
# A thousand sentences of reviews each, where the paper has whole reviews, and many more.
SENTENCES = TITLES["sentences"]
STANDS_FOR = TITLES["stands_for"]
# Experiments with topics of hashed words, and with means of word vectors as in the paper.
TOPICS, WORD_VECTORS = "paper/p3/text", "paper/p3/word_vectors"
METHODS = TITLES["methods"]
_SIZES = "Newsgroups have as many posts as the user's copy, without header, quotes and signature."
NOTES = {  # Differences of the texts of an experiment from the paper's
    TOPICS: (
        "TF-IDF of hashed words and its 100 largest singular vectors stand where the paper has"
        f" means of GloVe vectors. {_SIZES} Outlier exposure learns from topics that are permuted"
        " among texts, the paper's from other texts."
    ),
    WORD_VECTORS: (
        "Means of GloVe vectors, of as many numbers as the user's file has, which the paper has of"
        f" 300. {_SIZES} Sentences of reviews stand where the paper has whole reviews."
    ),
}


def _study(experiment: str, dataset: str, titles: dict[str, str], table: str) -> Study:
    return Study(
        experiment=experiment,
        title=f"{table}, {titles[dataset]} in distribution",
        note=NOTES[experiment],
        datasets={dataset: titles[dataset]},
        sets={name: title for name, title in titles.items() if name != dataset},
        methods=METHODS,
        published={
            f"{method}, published": (method, [table, "Appendix E, table 5"])
            for method in ("TOOD", "PnPOOD", "OE", "MSP")
        },
        metrics=("auroc", "aupr_in", "fpr90"),
        stands_for=STANDS_FOR,
    )


STUDIES = [  # One for each experiment and data set in distribution
    _study(experiment, name, titles, table)
    for experiment in NOTES
    for titles, table in ((GROUPS, "Table 6"), ({**OTHERS, **SENTENCES}, "Table 2"))
    for name in titles
]


def compare_with_published(records: Sequence[Record]) -> str:
    """Return three tables for each data set and experiment, published and measured."""
    frames = {
        experiment: measured([record for record in records if record["experiment"] == experiment])
        for experiment in NOTES
    }
    parts = [part for study in STUDIES for part in tables(study, frames[study.experiment])]
    return "\n\n".join(parts) if parts else "no run of texts is there"


def read(folder: Path, experiments: Sequence[str] = (TOPICS, WORD_VECTORS)) -> list[Record]:
    """Return the records of runs of its experiments below a folder."""
    return [record for name in experiments for record in runs_of(name, folder)]


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
