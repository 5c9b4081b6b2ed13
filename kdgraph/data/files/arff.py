"""ARFF files as data frames."""

from __future__ import annotations

from typing import IO

import pandas as pd


def frame_of_arff(text: IO[str]) -> tuple[pd.DataFrame, list[str]]:
    """All columns [n, columns], a nominal attribute as text and a number as a number; and the names of the nominal ones.

    Raises
    ------
    arff.ArffException, ValueError
        If it is none.
    """
    import arff

    found = arff.load(text, return_type=arff.DENSE_GEN)
    names, kinds = zip(*found["attributes"], strict=True)
    frame = pd.DataFrame.from_records(list(found["data"]), columns=list(names))
    for name, kind in zip(names, kinds, strict=True):
        if not isinstance(kind, list) and kind != "STRING":
            frame[name] = pd.to_numeric(frame[name])
    return frame, [str(name) for name, kind in zip(names, kinds, strict=True) if isinstance(kind, list)]
