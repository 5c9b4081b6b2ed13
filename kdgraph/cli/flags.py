"""The parser of verbs whose words are filters of finished runs: its errors are one line, as all
errors are.
"""

from __future__ import annotations

import argparse
from typing import NoReturn

from kdgraph.errors import UsageError

FILTERS = """\
Filters choose runs: key=value[,value…] or key!=value. A key is dataset, method, parent, calibrator, gate,
detector, recalibrator, protocol, seed, or any key of the config (dataset.n_train=1000); values may have
wildcards: dataset='mfeat_*'."""


class Flags(argparse.ArgumentParser):
    """Of a verb; what cannot be read is a UsageError."""

    def __init__(self, verb: str, purpose: str, more: str = "") -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(
            prog=f"kdg {verb}",
            description=purpose,
            epilog=more,
            formatter_class=form,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Refuse the arguments in one line."""
        raise UsageError(f"{message}; '{self.prog} --help' lists the options")


class Parser(Flags):
    """Of ``kdg VERB [filters] [flags]``, in any order.

    Parameters
    ----------
    verb : its name.
    purpose : the first paragraph of its help.
    more : further paragraphs, after the list of flags.
    """

    def __init__(self, verb: str, purpose: str, more: str = "") -> None:
        super().__init__(verb, purpose, "\n\n".join(part for part in (FILTERS, more) if part))
        self.add_argument(
            "filters", nargs="*", metavar="key=value", help="which runs (default: all)"
        )
        self.add_argument(
            "--out", default="outputs", metavar="DIR", help="where the runs are (default: outputs)"
        )
        self.add_argument(
            "--outdated",
            action="store_true",
            help="also runs of files that have other content by now, under other names",
        )

    def parse(self, arguments: list[str]) -> argparse.Namespace:
        """What the arguments say.

        Raises
        ------
        UsageError
            They cannot be read.
        """
        return self.parse_intermixed_args(arguments)


def listed(text: str) -> list[str]:
    """Type of a flag that takes words with commas between them; those inside a family's name
    (``sphere:radius=2``) are not split.
    """
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise argparse.ArgumentTypeError(f"words with commas between them, got '{text}'")
    return words
