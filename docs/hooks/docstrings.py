"""Docstrings as the reference reads them: an extension of griffe, which mkdocstrings reads the code
with.

Docstrings are those of the imported objects, which kdgraph completes at import. Roles of
reStructuredText become links.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|data|mod|attr|exc):`(~?)([\w.]+)`")


class Readable(griffe.Extension):
    """Rewrite every docstring of a package that was read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite them."""
        for thing in everything_in(pkg):
            if thing.docstring is not None:
                text = completed(thing.docstring.value, thing)
                with_signature(thing)
                thing.docstring.value = linked(with_examples(text), thing)


def everything_in(thing: griffe.Object) -> Iterator[griffe.Object]:
    """Yield ``thing`` and all that is defined in it, not what it imports."""
    yield thing
    for member in thing.members.values():
        if not member.is_alias:
            yield from everything_in(member)  # type: ignore[arg-type]  # an alias is what it is not


def completed(text: str, thing: griffe.Object) -> str:
    """Return the docstring of a class or function as it is after the import of its module."""
    if not (thing.is_class or thing.is_function):
        return text
    return inspect.cleandoc(getattr(imported(thing), "__doc__", None) or text)


def imported(thing: griffe.Object) -> Any:
    """Return the object itself."""
    value: Any = importlib.import_module(thing.module.path)
    for name in thing.path.removeprefix(f"{thing.module.path}.").split("."):
        value = getattr(value, name, None)
    return value


def with_signature(thing: griffe.Object) -> None:
    """Give a function that its decorator gives other parameters those."""
    if isinstance(thing, griffe.Function) and hasattr(imported(thing), "__signature__"):
        thing.parameters = griffe.Parameters(
            *(
                griffe.Parameter(
                    each.name,
                    annotation=each.annotation,
                    kind=griffe.ParameterKind(each.kind.description),
                    default=None if each.default is each.empty else repr(each.default),
                )
                for each in inspect.signature(imported(thing)).parameters.values()
            )
        )


def with_examples(text: str) -> str:
    r"""Give examples that follow without a heading one.

    >>> with_examples("One more.\n\n>>> 1 + 1\n2")
    'One more.\n\nExamples\n--------\n\n>>> 1 + 1\n2'
    """
    before, first, rest = text.partition("\n\n>>> ")
    if not first or re.search(r"^Examples\n-", before, re.MULTILINE):
        return text
    return f"{before}\n\nExamples\n--------{first}{rest}"


def linked(text: str, thing: griffe.Object) -> str:
    """Return text whose roles are links to what they name where the site has it, else code."""
    return ROLE.sub(lambda role: autoref(path_of(role[2], thing), role_text(role)), text)


def role_text(role: re.Match[str]) -> str:
    """Return the text of a role: its last name after a tilde, and for names of kdgraph."""
    return role[2].rpartition(".")[2] if role[1] or role[2].startswith("kdgraph.") else role[2]


def autoref(path: str, text: str) -> str:
    """Return code that is a link where the reference has the path."""
    return f'<autoref optional identifier="{path}"><code>{text}</code></autoref>'


def path_of(name: str, thing: griffe.Object) -> str:
    """Return the full path of a name in the scope of ``thing``, or the name if it is not there."""
    within = thing
    while within is not None:
        head, _, rest = name.partition(".")
        if head in within.members:
            path = within.members[head].path
            return f"{path}.{rest}" if rest else path
        within = within.parent  # type: ignore[assignment]  # parents are modules and classes
    return name
