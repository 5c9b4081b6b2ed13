"""Prediction of new rows with the model of a finished run.

:mod:`~kdgraph.runner.prediction.tables` reads files, :mod:`~kdgraph.runner.prediction.rows` turns
them into rows for the model as its schema describes them (:mod:`kdgraph.deployment`), and
:mod:`~kdgraph.runner.prediction.predict` writes predictions.
"""
