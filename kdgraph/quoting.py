"""Values quoted for Hydra's override grammar and for a POSIX shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from kdgraph.wording import printable

# Words that the grammar reads as something else than text, or that a reader may take for something
# else.
_NOT_TEXT = {"null", "true", "false", "nan", "inf", "yes", "no", "on", "off"}
_PLAIN_WORD = re.compile(r"[A-Za-z_][\w./-]*", re.ASCII)


def as_value(value: Any) -> str:
    r"""Return ``value`` as text from which Hydra reads the same value of the same type.

    Parameters
    ----------
    value : None, bool, int, float, str, or a list, tuple or mapping of these. Text is quoted unless
        it can only be text.

    Examples
    --------
    >>> [as_value(value) for value in (None, True, 1e-06, [1, "a b"], {"k": 1}, "null", 'say "a"')]
    ['null', 'true', '1e-06', '[1,"a b"]', '{k:1}', '"null"', '"say \\"a\\""']
    """
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{as_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(as_value, value)) + "]"
    return _text(value) if isinstance(value, str) else repr(value)


def override(key: str, value: Any) -> str:
    """Return ``key=value`` as one word of a command line, to be pasted into a shell.

    Parameters
    ----------
    key : a full key of the config, such as ``dataset.drop``.
    value : what :func:`as_value` takes. A number or word that is meant as text must be a ``str``.

    Examples
    --------
    >>> print(override("dataset.drop", ["age", "zip code"]))
    'dataset.drop=[age,"zip code"]'
    >>> print(override("dataset.task", "classification"))
    dataset.task=classification
    """
    return _shell_word(f"{key}={as_value(value)}")


def _shell_word(word: str) -> str:
    r"""Return one word for bash, zsh or any shell of POSIX.1-2024.

    Control characters, and those that change the direction of text, are written as escapes in
    ``$'…'``: a message stays on its line, and no name in a file controls the terminal.
    """
    if printable(word) == word:
        return shlex.quote(word)
    text = "".join(_escaped(character) for character in word)
    return f"$'{text}'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if printable(character) == character:
        return character
    # Three octal digits have an end; the digits of \x would go on into the text.
    code = ord(character)
    return f"\\{code:03o}" if code < 128 else f"\\U{code:08x}"


def _text(text: str) -> str:
    if _PLAIN_WORD.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    # In Hydra's grammar a backslash escapes only before a quote (the closing one included) and
    # before "${".
    escaped = re.sub(r'(\\*)("|$)', lambda match: match[1] * 2 + ('\\"' if match[2] else ""), text)
    escaped = re.sub(r"(\\*)\$\{", lambda match: match[1] * 2 + "\\${", escaped)
    return f'"{escaped}"'
