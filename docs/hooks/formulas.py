"""Formulas of pages, written in LaTeX between dollar signs, as MathML: browsers show it by
themselves, without a script or a network.
"""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
"""Element that the Markdown extension arithmatex makes of a formula."""


def on_page_content(content: str, *, page: Any, **_: Any) -> str:
    """Put MathML where formulas are."""

    def as_mathml(match: re.Match[str]) -> str:
        try:
            is_block = match[2] == "["
            formula = mathml(html.unescape(match[3]).strip(), display=is_block)
            # Browsers scroll an element around a formula, and not a formula.
            return f'<div class="formula">{formula}</div>' if is_block else formula
        except ValueError as error:
            raise PluginError(f"{page.file.src_uri}: {error}") from error

    return FORMULA.sub(as_mathml, content)


def mathml(latex: str, *, display: bool = False) -> str:
    r"""Write a formula as MathML; ValueError where it has a command that the converter does not
    support, which it would pass on unchanged.

    >>> mathml("x").removeprefix('<math xmlns="http://www.w3.org/1998/Math/MathML" ')
    'display="inline"><mrow><mi>x</mi></mrow></math>'
    >>> mathml(r"\nonsense")
    Traceback (most recent call last):
    ...
    ValueError: no MathML of \nonsense in the formula \nonsense
    """
    try:
        made = convert(latex, display="block" if display else "inline")
    except Exception as error:  # the converter has many errors of its own, and no common one
        raise ValueError(f"no MathML of the formula {latex} ({type(error).__name__})") from error
    if left := re.search(r"\\\w+", made):
        raise ValueError(f"no MathML of {left[0]} in the formula {latex}")
    return made
