"""ARFF files as data frames."""

from __future__ import annotations

from typing import IO

import pandas as pd

from kdgraph.data.files.whole_numbers import ROUNDED_FROM, numbers_as_text, numbers_of_text


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
    numeric = [name for name, kind in zip(names, kinds, strict=True) if not isinstance(kind, list) and kind != "STRING"]
    for name in numeric:
        frame[name] = pd.to_numeric(frame[name])
    if rounded := [name for name in numeric if (frame[name].abs() >= ROUNDED_FROM).any()]:
        text.seek(0)
        found = arff.load(numbers_as_text(text), return_type=arff.DENSE_GEN)
        cells = pd.DataFrame.from_records(list(found["data"]), columns=list(names))
        for name in rounded:
            frame[name] = numbers_of_text(cells[name])
    return frame, [str(name) for name, kind in zip(names, kinds, strict=True) if isinstance(kind, list)]
