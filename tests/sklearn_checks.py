"""scikit-learn's checks as test cases whose estimators are named once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Any

import pytest
from sklearn import config_context
from sklearn.utils.estimator_checks import parametrize_with_checks

CLASS_CHECKS = {
    "check_complex_data",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimators_nan_inf",
    "check_estimators_empty_data_messages",
    "check_estimators_overwrite_params",
    "check_estimators_unfitted",
    "check_f_contiguous_array_estimator",
    "check_classifier_data_not_an_array",
    "check_regressor_data_not_an_array",
    "check_transformer_data_not_an_array",
    "check_fit1d",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_requires_y_none",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
    "check_supervised_y_no_nan",
}
"""Checks of the validation of rows, labels and weights, which does not depend on parameters."""


def with_checks(
    estimators: Sequence[Any],
    *,
    expected_failed_checks: Callable[[Any], dict[str, str]],
    quick: Collection[type],
) -> pytest.MarkDecorator:
    """Return the mark of ``parametrize_with_checks``, collected in half of the time.

    scikit-learn computes the name of an estimator for each of its checks. Here, the first estimator
    of a class runs every check. Others of the class leave out :data:`CLASS_CHECKS` and the slow
    checks with read-only memory. All cases are marked slow but those of the first estimator of a
    class in ``quick``.
    """
    checked_classes, cases = set(), []
    for estimator in estimators:
        kind = type(estimator)
        names, class_cases = parametrize_with_checks(
            [estimator], expected_failed_checks=expected_failed_checks
        ).args
        marks = [] if kind in quick and kind not in checked_classes else [pytest.mark.slow]
        for case in class_cases:
            values, own_marks = getattr(case, "values", case), getattr(case, "marks", ())
            if kind not in checked_classes or _depends_on_parameters(values[1]):
                cases.append(pytest.param(*values, marks=[*own_marks, *marks]))
        checked_classes.add(kind)
    return pytest.mark.parametrize(names, cases, ids=_test_id)


def _depends_on_parameters(check: Any) -> bool:
    return check.func.__name__ not in CLASS_CHECKS and "readonly_memmap" not in check.keywords


@cache
def _test_id(value: Any) -> str:
    if isinstance(value, partial):
        options = ",".join(f"{key}={value_text}" for key, value_text in value.keywords.items())
        return f"{value.func.__name__}({options})" if options else value.func.__name__
    with config_context(print_changed_only=True):
        return "".join(repr(value).split())
