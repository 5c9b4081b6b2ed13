"""Isotonic regression as the published numbers have it: fitted on labels in place of correctness.

The row of isotonic regression in Tables 1 and 3 has a confidence that is about as often wrong as
right, which no fit to the correctness of the predictions has. A fit of the confidence in the
predicted class to the label of two classes, 0 or 1, has it: such a label does not depend on whether
the prediction is right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kdgraph.base import Rows
from kdgraph.calibration.top_label import IsotonicConfidence
from kdgraph.errors import DataError
from kdgraph.metrics import TopLabel


@dataclass(eq=False, repr=False)
class IsotonicOnLabels(IsotonicConfidence):
    """Isotonic regression of the label, 0 or 1, on the confidence in the predicted class.

    It is a mistake, and here to show what the mistake does to the published numbers of Luo et al.
    See :class:`~kdgraph.calibration.top_label.IsotonicConfidence` for the parameters.
    """

    by_class: bool = False

    def _fit_rows(self, rows: Rows) -> None:
        if len(self.classes_) != 2:
            raise DataError(
                f"labels of {len(self.classes_)} classes are no outcomes of 0 and 1; fit isotonic"
                " regression on labels to rows of two classes"
            )
        # Rows of label 1 stand for correct predictions, those of label 0 for incorrect ones.
        predicted = TopLabel.from_proba(rows.X).predicted
        super()._fit_rows(replace(rows, y=np.where(rows.y == 1, predicted, 1 - predicted)))
