"""Progress reports of a training: to a function, to a terminal, or none."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from kdgraph.errors import ParameterError
from kdgraph.parents.networks import checkpoint as module
from kdgraph.parents.networks.checkpoint import TrainingProgress, progress_callback

FIRST = TrainingProgress(
    epoch=1, max_epochs=3, loss=0.71234, validation_loss=0.65432, seconds_left=125.0
)


@pytest.mark.parametrize("verbose", [False, True])
def test_bar_prints_nothing_without_a_terminal(verbose, capsys):
    with progress_callback(verbose) as report:
        report(FIRST)
    assert capsys.readouterr() == ("", "")


def test_function_receives_every_report():
    reports = []
    with progress_callback(False, reports.append) as report:
        report(FIRST)
    assert reports == [FIRST]


def test_rejects_a_report_that_is_not_callable():
    with (
        pytest.raises(
            ParameterError, match=r"^report must be a function of a Progress, or None, got True$"
        ),
        progress_callback(False, True),
    ):
        pass


def test_error_of_the_function_is_raised():
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), progress_callback(False, stop) as report:
        report(FIRST)


def test_bar_in_a_terminal(monkeypatch, capsys):
    screen = io.StringIO()

    def console(*, stderr):
        assert stderr
        return Console(file=screen, force_terminal=True, width=140, color_system=None)

    monkeypatch.setattr(module, "Console", console)
    reports = []
    with progress_callback(True, reports.append) as report:
        report(
            TrainingProgress(
                epoch=1,
                max_epochs=5,
                loss=2.5,
                validation_loss=None,
                seconds_left=9.6,
                stage="pretraining",
            )
        )
        report(FIRST)
    assert len(reports) == 2  # The bar does not replace the function.
    shown = screen.getvalue()
    for words in ("pretraining", "1/5", "loss 2.5000", "at most 0:10 left"):
        assert words in shown
    for words in ("training", "1/3", "loss 0.7123 validation 0.6543", "at most 2:05 left"):
        assert words in shown
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0:00"), (59.4, "0:59"), (59.6, "1:00"), (3600, "1:00:00"), (90061, "25:01:01")],
)
def test_formats_durations(seconds, words):
    assert module._format_seconds(seconds) == words
