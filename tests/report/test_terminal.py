"""What a terminal shows while a run is at work: one line, never wider than the terminal, gone at
the end.
"""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from kdgraph.parents.networks.checkpoint import TrainingProgress
from kdgraph.report.terminal import Log, Spinner, show, watching

HALF = TrainingProgress(
    epoch=100, max_epochs=200, loss=0.71234, validation_loss=0.65432, seconds_left=83.4
)


class Screen:
    """A spinner on a terminal of a given width; ``line`` is what it shows."""

    def __init__(self, width: int) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, force_terminal=True, width=width, color_system=None)
        self.status = console.status("")
        self.spinner = Spinner(self.status)

    @property
    def line(self) -> str:
        return self.status.renderable.text.plain  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (
            140,
            (
                "spiral → kdn  seed 0  training ━━━━━╌╌╌╌╌ 100/200  at most 0:01:23 left  loss"
                " 0.712 · validation 0.654"
            ),
        ),
        (90, "spiral → kdn  seed 0  training ━━━━━╌╌╌╌╌ 100/200  at most 0:01:23 left  loss 0.712"),
        (80, "spiral → kdn  seed 0  training ━━━━━╌╌╌╌╌ 100/200  at most 0:01:23 left"),
        (60, "spiral → kdn  seed 0  training ━━━━━╌╌╌╌╌ 100/200"),
        (40, "spiral → kdn  seed 0  training ━━━━━╌…"),
    ],
)
def test_progress_is_as_wide_as_the_terminal_allows(width, line):
    screen = Screen(width)
    screen.spinner.begin("spiral → kdn  seed 0")
    screen.spinner.progress(HALF)
    assert screen.line == line and cell_len(line) <= width - 2


def test_without_held_out_rows_there_is_one_loss():
    screen = Screen(140)
    screen.spinner.begin("kdn")
    screen.spinner.progress(
        TrainingProgress(
            epoch=3,
            max_epochs=3,
            loss=2.0,
            validation_loss=None,
            seconds_left=0.0,
            stage="pretraining",
        )
    )
    assert screen.line == "kdn  pretraining ━━━━━━━━━━ 3/3  at most 0:00:00 left  loss 2.000"


def test_brackets_of_a_name_are_no_markup():
    screen = Screen(80)
    screen.spinner.begin("my [red]data[/red] → kdn")
    screen.spinner.stage("fit")
    assert screen.line == "my [red]data[/red] → kdn  fit …"


def test_one_line_lives_and_is_wiped_away():
    screen = Screen(50)
    with screen.status:
        screen.spinner.begin("spiral → kdn  seed 0")
        screen.spinner.progress(HALF)
        screen.spinner.note("a note that stays, longer than the terminal is wide, in one piece")
        screen.spinner.stage("calibrate")
    drawn = screen.file.getvalue()
    live = drawn.replace(
        "kdg: a note that stays, longer than the terminal is wide, in one piece\n", ""
    )
    assert live != drawn
    assert (
        live.count("\n") == 1
    )  # the end of the line, which is wiped and whose cursor goes up again
    assert live.endswith("\n\x1b[?25h\r\x1b[1A\x1b[2K")


def test_nobody_looks(capsys):
    with watching() as watch:
        watch.begin("spiral → kdn  seed 0")
        watch.stage("fit")
        watch.progress(HALF)
    assert type(watch) is Log and capsys.readouterr() == ("", "")
    show("a ± 0.1 ◂")
    assert capsys.readouterr().out == "a ± 0.1 ◂\n"
