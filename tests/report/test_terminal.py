"""Progress on a terminal: one line, never wider than the terminal, which is removed at the end."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from rich.console import Console

from kdgraph.parents.networks.checkpoint import TrainingProgress
from kdgraph.report.terminal import LogProgress, TerminalProgress, report_progress, show
from kdgraph.runner.sweep import SweepStatus

HALF = TrainingProgress(
    epoch=100, max_epochs=200, loss=0.71234, validation_loss=0.65432, seconds_left=83.4
)


class Screen:
    """The progress on a terminal of a given width; ``line`` is what it shows."""

    def __init__(self, width: int) -> None:
        self.file = io.StringIO()
        console = Console(file=self.file, force_terminal=True, width=width, color_system=None)
        self.status = console.status("")
        self.progress = TerminalProgress(self.status)

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
    screen.progress.begin("spiral → kdn  seed 0")
    screen.progress.progress(HALF)
    assert screen.line == line and cell_len(line) <= width - 2


def test_without_held_out_rows_there_is_one_loss():
    screen = Screen(140)
    screen.progress.begin("kdn")
    screen.progress.progress(
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


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (80, "━━╌╌╌╌╌╌╌╌ 3/12  spiral → kdn  seed 0  fit …  about 0:00:45 left"),
        (50, "━━╌╌╌╌╌╌╌╌ 3/12  spiral → kdn  seed 0  fit …"),
    ],
)
def test_a_serial_sweep_has_a_bar_and_the_time_left(width, line, monkeypatch):
    screen = Screen(width)
    screen.progress._start = 100.0
    monkeypatch.setattr("time.monotonic", lambda: 109.0)
    screen.progress.begin("spiral → kdn  seed 0", 3, 12)
    screen.progress.stage("fit")
    assert screen.line == line
    screen.progress.progress(HALF)
    assert screen.line.startswith("3/12  spiral → kdn  seed 0  training ━━━━━╌╌╌╌╌")


@pytest.mark.parametrize(
    ("width", "running"),
    [
        (90, "  2 running: circle → kdf, circle → kdn"),
        (80, "  2 running: circle → kdf"),
        (60, "  2 running"),
        (50, ""),
    ],
)
def test_a_parallel_sweep_names_what_is_running(width, running):
    screen = Screen(width)
    status = SweepStatus(3, 0, 2, 1, 2, 61.4, ("circle → kdf", "circle → kdn"))
    screen.progress.sweep_status(status)
    assert screen.line == f"━━━━━╌╌╌╌╌ 4/8 · 1 failed · about 0:01:01 left{running}"


def test_brackets_of_a_name_are_no_markup():
    screen = Screen(80)
    screen.progress.begin("my [red]data[/red] → kdn")
    screen.progress.stage("fit")
    assert screen.line == "my [red]data[/red] → kdn  fit …"


def test_progress_line_is_replaced_and_cleared():
    screen = Screen(50)
    with screen.status:
        screen.progress.begin("spiral → kdn  seed 0")
        screen.progress.progress(HALF)
        screen.progress.note("a note that stays, longer than the terminal is wide, in one piece")
        screen.progress.stage("calibrate")
    drawn = screen.file.getvalue()
    expected = drawn.replace(
        "kdg: a note that stays, longer than the terminal is wide, in one piece\n", ""
    )
    assert expected != drawn
    assert (
        expected.count("\n") == 1
    )  # the end of the line, which is cleared, and the cursor moves up again
    assert expected.endswith("\n\x1b[?25h\r\x1b[1A\x1b[2K")


def test_without_a_terminal_nothing_is_shown(capsys):
    with report_progress() as reporter:
        reporter.begin("spiral → kdn  seed 0")
        reporter.stage("fit")
        reporter.progress(HALF)
    assert type(reporter) is LogProgress and capsys.readouterr() == ("", "")
    show("a ± 0.1 ◂")
    assert capsys.readouterr().out == "a ± 0.1 ◂\n"
