"""What the study of texts prints at its end, of records whose numbers are given."""

from __future__ import annotations

from experiments.p3 import text
from tests.experiments.p3.made import record, rows_of


def run(experiment: str, *of, **also) -> dict:
    """Return a record of one of the two experiments."""
    return {**record(*of, **also), "experiment": experiment}


def test_measured_numbers_have_the_published_keys():
    others = ["newsgroups_sports", "newsgroups_politics"]
    config = {"parent": {"name": "extra_trees"}}
    runs = [
        run(
            text.TOPICS,
            "newsgroups_computer",
            "tood_given",
            s,
            others,
            lambda name, metric, s=s: 0.9 + 0.02 * s,
            config,
        )
        for s in range(2)
    ]
    printed = text.compare_with_published(runs)
    assert (
        printed.count("## TOOD, Table 6, computers in distribution: 100 training rows") == 1
        and "2 seeds" in printed
        and "Table 2" not in printed
    )
    rows = rows_of(printed)
    assert rows[0] == ["**TOOD, published**", "99.7", "99.2"]
    assert ["**MSP, published**", "62.0", "63.0"] in rows
    assert ["TOOD, given labels", "91.0 ± 1.4", "91.0 ± 1.4"] in rows
    assert text.compare_with_published([]) == "no run of texts is there"


def test_substitutes_of_a_published_set_are_variants():
    printed = text.compare_with_published(
        [
            run(
                text.TOPICS,
                "movies",
                "knn",
                0,
                ["news"],
                lambda name, metric: 0.5,
                {"parent": {"name": "extra_trees"}},
            )
        ]
    )
    assert [row[:2] for row in rows_of(printed)[:2]] == [
        ["**TOOD, published**", "100.0"],
        ["k-NN", "50.0"],
    ]


def test_word_vectors_have_tables_with_sentences_and_reviews():
    sets, config = ["news", "sentences_yelp"], {"parent": {"name": "extra_trees"}}
    made = {
        experiment: run(
            experiment, "sentences_imdb", "knn", 0, sets, lambda *_, v=v: v, config=config
        )
        for experiment, v in ((text.TOPICS, 0.5), (text.WORD_VECTORS, 0.75))
    }
    printed = text.compare_with_published(list(made.values()))
    topics, vectors = printed.split("## TOOD, Table 2, sentences of IMDB in distribution: ")[1:]
    assert text.NOTES[text.TOPICS] in topics and text.NOTES[text.WORD_VECTORS] in vectors
    for part, value in ((topics, "50.0"), (vectors, "75.0")):
        first, measured = rows_of(part)[:2]
        assert first == ["**TOOD, published**", "–", "100.0", "–", "99.8"]
        assert measured == ["k-NN", "–", value, "–", value]
