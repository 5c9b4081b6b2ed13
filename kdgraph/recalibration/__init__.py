"""Repair of the predictive distributions of regressors."""
