"""What a model can be asked about rows, and what parent and calibrated model said: between estimators and all that measures or draws."""

from kdgraph.answers.model import METHODS, Model, Said
from kdgraph.answers.predictions import COLUMNS, Evaluation, Predictions, frame_of
from kdgraph.answers.sets import SetScores

__all__ = ["COLUMNS", "METHODS", "Evaluation", "Model", "Predictions", "Said", "SetScores", "frame_of"]
