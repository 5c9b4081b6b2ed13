"""A picture of a paper: SVG and PDF of the same bytes each time, that say which figure they are and
stay small.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from experiments.common.pictures import DENSE, figures_of, save_picture
from kdgraph.figures import style_context
from kdgraph.figures.style import add_axes, new_figure

LISTED = """figure,page,shows,drawn_by,files,caption,missing
3,7,scores of rows,python -m it,pictures/scores,Ours.,
4,8,the same by class,python -m it,pictures/scores pictures/more,Ours.,
"""


@pytest.fixture
def paper(tmp_path: Path) -> Path:
    folder = tmp_path / "p2"
    folder.mkdir()
    (folder / "figures.csv").write_text(LISTED)
    return folder


def drawn(n: int):
    rng = np.random.default_rng(0)
    with style_context():
        figure = new_figure(3.5, 2)
        axes = add_axes(figure, 0.4, 0.4, 3, 1.5)
        axes.scatter(rng.random(n), rng.random(n))
        axes.plot(np.linspace(0, 1, 5000), rng.random(5000))
        axes.set_xlabel("the score")
    return figure


def test_the_same_figure_gives_the_same_bytes_in_both_formats(paper: Path) -> None:
    first = save_picture(drawn(20), paper / "pictures" / "scores", paper)
    again = save_picture(drawn(20), paper / "again" / "scores", paper)
    assert [path.name for path in first] == ["scores.svg", "scores.pdf"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_title_and_description_come_from_figures_csv(paper: Path) -> None:
    svg, pdf = save_picture(drawn(20), paper / "scores", paper)
    assert "<dc:title>Figure 3, 4 of Salamon et al.</dc:title>" in svg.read_text()
    assert "<dc:description>scores of rows; the same by class</dc:description>" in svg.read_text()
    assert (
        b"/Title (Figure 3, 4 of Salamon et al.)" in pdf.read_bytes()
        and b"CreationDate" not in pdf.read_bytes()
    )
    own, _ = save_picture(drawn(20), paper / "own_study", paper)
    assert "<dc:title>own study, on Salamon et al.</dc:title>" in own.read_text()


def test_dense_artists_become_pixels_and_text_stays_text(paper: Path) -> None:
    few, many = (
        save_picture(drawn(n), paper / f"n{n}", paper)[0].read_text() for n in (DENSE, DENSE + 1)
    )
    assert "<image" not in few and few.count("<use") > DENSE
    assert many.count("<image") == 1 and many.count("<use") < 100
    assert all(re.search(r"<text[^>]*>the score</text>", svg) for svg in (few, many))


def test_a_list_without_captions_is_refused(paper: Path) -> None:
    (paper / "figures.csv").write_text(LISTED.replace(",caption", ",words"))
    with pytest.raises(ValueError, match=r"figures\.csv must have the columns .* it lacks caption"):
        figures_of(paper)
