"""Metrics of predictive distributions of a continuous outcome.

A distribution has ``len``, ``cdf``, ``ppf``, ``mean``, ``var``, ``interval`` and ``crps``, which
are vectorised over rows. PIT values of rows at a step of F are spread over the step, not drawn.
"""
