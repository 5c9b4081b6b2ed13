"""Where a run says what it is doing; a terminal overrides it with something alive."""

from __future__ import annotations

import sys
from typing import Any


class Watch:
    """Silent about progress; notes, which a user must not miss, go to stderr as one line each."""

    def begin(self, title: str) -> None:
        """A run begins."""

    def stage(self, name: str) -> None:
        """A stage begins."""

    def note(self, line: str) -> None:
        """Something out of the ordinary was met and dealt with."""
        print(f"kdg: {line}", file=sys.stderr, flush=True)

    def waiting(self, line: str) -> None:
        """Another process is doing what is wanted here."""
        self.note(line)

    def tally(self, tally: Any) -> None:
        """How far a sweep is; a :class:`kdgraph.runner.tally.Tally`."""

    def progress(self, done: Any) -> None:
        """A training has done an epoch; ``done`` is a
        :class:`kdgraph.parents.networks.checkpoint.TrainingProgress`.
        """
