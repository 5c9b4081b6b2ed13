"""Texts against texts on other things, beside Tables 2 and 6: what ``experiment=paper/p3/text``
prints.

``python -m experiments.p3.text outputs`` prints it again, from any subset of its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from experiments.common.command import print_comparison
from experiments.common.runs import Record, runs_of
from experiments.p3.study import Study, measured, tables

GROUPS = {
    "newsgroups_computer": "computers",
    "newsgroups_sports": "sports",
    "newsgroups_politics": "politics",
}
OTHERS = {"movies": "reviews of movies (in place of IMDB's)", "news": "AG News"}
STANDS_FOR = {"movies": "imdb", "news": "ag_news"}
METHODS = {
    "tood_given": "TOOD, given labels",
    "tood_shuffled": "TOOD, shuffled labels",
    "graph_density": "kernel density graph",
    "knn": "k-NN on topics",
    "msp": "MSP of a network on topics",
    "oe": "MSP of a network with outlier exposure",
}
NOTE = """TF-IDF of hashed words and its 100 largest singular vectors stand where the paper has means of GloVe vectors; newsgroups have as
many posts as the user's copy, without header, quotes and signature. Outlier exposure learns from topics that are permuted among texts, the
paper's from other texts."""


def _study(dataset: str, titles: dict[str, str], table: str) -> Study:
    return Study(
        experiment="paper/p3/text",
        title=f"{table}, {titles[dataset]} in distribution",
        note=NOTE,
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


STUDIES = [
    _study(name, titles, table)
    for titles, table in ((GROUPS, "Table 6"), (OTHERS, "Table 2"))
    for name in titles
]
"""One for each data set in distribution."""


def compare_with_published(records: Sequence[Record]) -> str:
    """Three tables for each data set among the records of a sweep, published and found;
    markdown.
    """
    frame = measured(records)
    parts = [part for study in STUDIES for part in tables(study, frame)]
    return "\n\n".join(parts) if parts else "no run of texts is there"


def read(folder: Path) -> list[Record]:
    """Records of its runs below a folder."""
    return runs_of("paper/p3/text", folder)


if __name__ == "__main__":
    print_comparison(read, compare_with_published)
