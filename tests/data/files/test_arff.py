from __future__ import annotations

import io

import arff
import pytest

from kdgraph.data.files.arff import frame_from_arff

TEXT = """@RELATION r
@ATTRIBUTE a NUMERIC
@ATTRIBUTE 'kind of' {low,high}
@ATTRIBUTE words STRING
@DATA
1.5,high,'7'
?,low,'b c'
"""


def test_arff_attributes_become_numbers_or_text():
    frame, nominal = frame_from_arff(io.StringIO(TEXT))
    assert nominal == ["kind of"]
    assert frame["a"].dtype == float and frame["a"].isna().tolist() == [False, True]
    assert frame["kind of"].tolist() == ["high", "low"]
    assert frame["words"].tolist() == ["7", "b c"]


def test_text_that_is_not_arff_raises():
    with pytest.raises(arff.ArffException):
        frame_from_arff(io.StringIO("a,b\n1,2\n"))
