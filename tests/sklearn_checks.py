"""scikit-learn's checks as cases of a test, named once for each estimator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Any

import pytest
from sklearn import config_context
from sklearn.utils.estimator_checks import parametrize_with_checks

OF_THE_CLASS = {
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
"""How rows, labels and weights are taken in, and what is refused: code that all of a class share,
whatever its parameters.
"""


def with_checks(
    estimators: Sequence[Any],
    *,
    expected_failed_checks: Callable[[Any], dict[str, str]] | None = None,
    met: Iterable[Any] = (),
) -> pytest.MarkDecorator:
    """What ``parametrize_with_checks`` gives, which names an estimator anew for each of its checks:
    half of the time of collecting them.

    The first estimator of a class passes every check. Those after it, and those of the same class
    as one in ``met``, leave out those that are :data:`OF_THE_CLASS`, and what scikit-learn repeats
    with the same rows in read-only memory, which takes longest of all.
    """
    seen, cases = {type(estimator) for estimator in met}, []
    for estimator in estimators:
        names, found = parametrize_with_checks(
            [estimator], expected_failed_checks=expected_failed_checks
        ).args
        cases += [
            case for case in found if type(estimator) not in seen or _is_of_its_parameters(case)
        ]
        seen.add(type(estimator))
    return pytest.mark.parametrize(names, cases, ids=_name)


def _is_of_its_parameters(case: Any) -> bool:
    """Of (estimator, check), as it is or with its marks."""
    _, check = getattr(case, "values", case)
    return check.func.__name__ not in OF_THE_CLASS and "readonly_memmap" not in check.keywords


@cache
def _name(value: Any) -> str:
    if isinstance(value, partial):
        given = ",".join(f"{key}={word}" for key, word in value.keywords.items())
        return f"{value.func.__name__}({given})" if given else value.func.__name__
    with config_context(print_changed_only=True):
        return "".join(repr(value).split())
