"""Claims: what the lists of the papers must have, that a verdict follows from its parts, and that
each page shows them.
"""

from __future__ import annotations

import inspect
from pathlib import Path

import pandas as pd
import pytest

from experiments.common.claims import (
    Claim,
    below,
    in_every_seed,
    save_claims,
    saved_claims,
    verdicts,
)
from experiments.reproduction import claims_page
from experiments.reproduction.claims import (
    STANDINGS,
    Sentence,
    TestedSentence,
    load_test,
    sentences,
    with_claims,
)
from experiments.reproduction.stored_page import StoredPage
from experiments.reproduction.studies import Paper

PAPERS = ("p1", "p2", "p3", "p4", "p5")
HERE = Path(__file__).resolve().parents[3] / "experiments"
LISTED = [(name, each) for name in PAPERS for each in sentences(HERE / name)]
HEAD = "claim,page,quote,tested_by,run,untested,note\n"


def sentence(name: str, *tested_by: str, untested: str = "") -> Sentence:
    return Sentence(
        name,
        f"we say {name}",
        "page 3",
        tested_by,
        "kdg run x" if tested_by else "",
        untested,
        "a note",
    )


def test_number_of_sentences_of_every_paper() -> None:
    assert {name: sum(of == name for of, _ in LISTED) for name in PAPERS} == {
        "p1": 28,
        "p2": 39,
        "p3": 30,
        "p4": 25,
        "p5": 34,
    }
    assert all(each.note and each.quote for _, each in LISTED)


@pytest.mark.parametrize("where", sorted({where for _, each in LISTED for where in each.tested_by}))
def test_a_folder_without_runs_has_only_computed_claims(where, tmp_path) -> None:
    test = load_test(where)
    if not where.startswith("saved:"):
        assert next(iter(inspect.signature(test).parameters)) == "folder" and test.__doc__
    if where not in COMPUTED:
        assert list(test(tmp_path)) == []


COMPUTED = {
    "experiments.p1.claims:propositions",
    "experiments.p4.claims:bayes",
    "experiments.p4.claims:limits",
}


@pytest.mark.slow
@pytest.mark.parametrize("where", sorted(COMPUTED))
def test_computed_claims_are_on_sentences_that_name_their_test(where, tmp_path) -> None:
    tested = list(load_test(where)(tmp_path))
    assert tested and all(each.holds for each in tested)
    assert {name for each in tested for name in each.sentences} == {
        each.name for _, each in LISTED if where in each.tested_by
    }


def test_standing_follows_from_the_parts() -> None:
    parts = {"all": [True, True], "some": [True, False], "none": [False], "no": []}
    tested_sentences = {
        name: TestedSentence(
            sentence(name, "x:y"), [Claim("t", holds, "f", (name,)) for holds in of]
        )
        for name, of in parts.items()
    }
    assert {name: each.verdict for name, each in tested_sentences.items()} == {
        "all": "holds",
        "some": "partly (1 of 2)",
        "none": "does not hold",
        "no": "not run yet",
    }
    assert TestedSentence(sentence("u", untested="not testable"), []).verdict == "not testable"
    assert all(each.standing in STANDINGS for each in tested_sentences.values())


def example_claims(folder: Path) -> list[Claim]:
    calls.append(folder)
    return [
        Claim("seven is more than five", True, "7", ("a", "b")),
        Claim("two is more than five", False, "2", ("b",)),
        Claim("ours", True, ""),
    ]


calls: list[Path] = []
EXAMPLE = f"{__name__}:example_claims"


def test_a_test_is_called_once_for_many_sentences(tmp_path) -> None:
    calls.clear()
    tested_sentences = with_claims(
        [sentence("a", EXAMPLE), sentence("b", EXAMPLE), sentence("c", EXAMPLE)], tmp_path
    )
    assert calls == [tmp_path] and [each.verdict for each in tested_sentences] == [
        "holds",
        "partly (1 of 2)",
        "not run yet",
    ]
    with pytest.raises(
        ValueError,
        match=r"example_claims has claims on b, whose line in claims.csv does not name it",
    ):
        with_claims([sentence("a", EXAMPLE)], tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("claim,page\na,1\n", "it lacks quote, tested_by, run, untested, note"),
        (HEAD + "a,1,q,x:y,r,,n\na,2,q,x:y,r,,n\n", "two lines of the name 'a'"),
        (
            HEAD + "a,1,q,,,,n\n",
            "line 2 must have tested_by and run, or be untested because of no test yet",
        ),
        (HEAD + "a,1,q,x:y,r,no test yet,n\n", "line 2 must"),
        (HEAD + "a,1,q,x:y,,,n\n", "line 2 must"),
        (HEAD + "a,1,q,,,never,n\n", "line 2 must"),
    ],
)
def test_invalid_lists_of_claims_are_refused(tmp_path, lines, message) -> None:
    (tmp_path / "claims.csv").write_text(lines)
    with pytest.raises(ValueError, match=message):
        sentences(tmp_path)


def test_pages_show_quotes_parts_and_runs(tmp_path) -> None:
    (tmp_path / "claims.csv").write_text(
        f"{HEAD}a,3,we <b>win</b>,{EXAMPLE},kdg run x,,a note\nb,4,we often win,{EXAMPLE},kdg"
        " run x,,another\nc,5,it is nice,,,not testable,no number\n"
    )
    of = claims_page.claims_of(
        [Paper("p0", "Nobody, 1999", tmp_path, [])], tmp_path, StoredPage(), "smoke"
    )
    assert claims_page.summary(of).splitlines()[-1] == "| p0 | 3 | 1 | 1 | 0 | 0 | 0 | 0 | 1 |"
    text = claims_page.markdown(of, ["Scale: smoke"])
    assert (
        "### p0, b: partly (1 of 2)\n\n> we often win (page 4)" in text
        and "- **fails**: two is more than five. 2" in text
    )
    assert "Runs: `kdg run x`" in text and "### p0, c: not testable" in text


def test_saved_claims_are_read_back(tmp_path) -> None:
    claims = [
        Claim("a, and b", True, 'said "so"', ("x", "y"), scale="smoke"),
        Claim("c", False, "1,000"),
    ]
    assert saved_claims(tmp_path, "study") == []
    save_claims(claims, tmp_path, "study")
    assert saved_claims(tmp_path, "study") == claims
    assert verdicts(saved_claims(tmp_path, "study")).endswith("1 of 2 hold.")


def test_a_part_of_another_scale_names_its_scale(tmp_path, monkeypatch) -> None:
    (tmp_path / "claims.csv").write_text(f"{HEAD}a,3,we win,{EXAMPLE},kdg run x,,a note\n")
    paper = Paper("p0", "Nobody, 1999", tmp_path, [])
    parts = [Claim("x", True, "7", ("a",), scale="smoke"), Claim("y", True, "8", ("a",), scale="")]
    monkeypatch.setattr(f"{__name__}.example_claims", lambda _: parts)
    of = claims_page.claims_of([paper], tmp_path, StoredPage(), "workstation")
    text = claims_page.markdown(of, ["Scale: workstation"])
    assert "- holds: x. 7; smoke scale\n- holds: y. 8\n" in text
    rows = claims_page.parts_table(of, "workstation", "now")
    assert rows.scale.tolist() == ["smoke", "workstation"]
    stored = StoredPage(claims=rows.astype(str))
    monkeypatch.setattr(f"{__name__}.example_claims", lambda _: [])
    again = claims_page.claims_of([paper], tmp_path, stored, "workstation")
    assert claims_page.parts_table(again, "workstation", "later").equals(
        rows.astype({"holds": bool})
    )
    (of,) = claims_page.claims_of([paper], tmp_path, stored, "smoke")
    assert [item.scale for item in of.tested[0].parts] == ["", "workstation"]


def test_below_needs_the_whole_interval_below_zero() -> None:
    high = pd.Series([1.0, 2.0, 3.0, 4.0])
    clear, noisy = high - [0.5, 0.6, 0.5, 0.6], high - [3.0, -2.0, 2.0, -1.0]
    assert (
        next(below("x", clear, high)).holds
        and not next(below("x", noisy, high)).holds
        and not next(below("x", high, clear)).holds
    )
    assert not next(
        below("x", high - [0.1, 0.9, 0.3, 0.9], high, share=4.0)
    ).holds  # splits share rows
    assert not list(below("x", high[:1], high))
    assert (
        next(in_every_seed("x", clear)).holds
        and not next(in_every_seed("x", pd.Series([1.0, 0.0]))).holds
    )
    assert not list(in_every_seed("x", pd.Series([float("nan")])))
