"""What a study does where it is called by itself: ``python -m experiments.p5.table1 outputs``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from experiments.common.runs import Record
from kdgraph.errors import KdgError


def tell(read: Callable[[Path], list[Record]], beside: Callable[[list[Record]], str]) -> None:
    """Print what its runs found beside what was published; where none can be read, why not, in one line.

    Parameters
    ----------
    read : the records of its runs below a folder: that of the command line, or ``outputs``.
    beside : the tables of records.
    """
    try:
        print(beside(read(Path(sys.argv[1] if len(sys.argv) > 1 else "outputs"))))
    except KdgError as error:
        sys.exit(str(error))
