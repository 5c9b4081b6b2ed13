"""Predictive distributions: one for each row, vectorised over rows."""
