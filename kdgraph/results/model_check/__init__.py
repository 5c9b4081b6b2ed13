"""A fitted model and repairs of it, measured on rows outside of their fits; for ``kdg check``.

:mod:`~kdgraph.results.model_check.folds` reads the runs of all folds,
:mod:`~kdgraph.results.model_check.numbers` has what is computed from them, and
:mod:`~kdgraph.results.model_check.choice` chooses among the repairs.
"""
