"""Finished runs together: tables of their numbers and comparisons of methods.

- :mod:`~kdgraph.results.records` reads records and chooses runs by filters;
  :mod:`~kdgraph.results.origins` finds differences behind runs of one name.
- :mod:`~kdgraph.results.measures` reads what each number measures, and chooses the measures that
  are shown first; :mod:`~kdgraph.results.names` names settings and formats numbers.
- :mod:`~kdgraph.results.table` is the table of all numbers,
  :mod:`kdgraph.results.comparison` compares methods, and :mod:`~kdgraph.results.export` writes
  tables.
- :mod:`~kdgraph.results.estimate` predicts how long runs take.
"""
