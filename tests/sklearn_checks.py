"""scikit-learn's checks as cases of a test, named once for each estimator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

import pytest
from sklearn import config_context
from sklearn.utils.estimator_checks import parametrize_with_checks


def with_checks(
    estimators: Sequence[Any], *, expected_failed_checks: Callable[[Any], dict[str, str]] | None = None
) -> pytest.MarkDecorator:
    """What ``parametrize_with_checks`` gives, which names an estimator anew for each of its checks: half of the time of collecting them."""
    names, cases = parametrize_with_checks(list(estimators), expected_failed_checks=expected_failed_checks).args
    return pytest.mark.parametrize(names, cases, ids=_name)


@cache
def _name(value: Any) -> str:
    if isinstance(value, partial):
        given = ",".join(f"{key}={word}" for key, word in value.keywords.items())
        return f"{value.func.__name__}({given})" if given else value.func.__name__
    with config_context(print_changed_only=True):
        return "".join(repr(value).split())
