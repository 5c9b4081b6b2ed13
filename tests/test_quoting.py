"""Overrides as they are printed: a shell and Hydra read back the value that was meant."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from kdgraph.quoting import override
from kdgraph.wording import printable

WORDS = [
    "null",
    "True",
    "nan",
    "1e5",
    "1_000",
    "a'b",
    'a"b',
    "\\",
    "a\\'",
    'a\\"',
    "${x}",
    "\\${x}",
    "a b ",
    "[1]",
    "x=y,z",
]
WORDS += ["°C", "$HOME", "!x", "`ls`", "~", "#1", "été", "-5", "01"]
# Text with control or format characters is written as $'…', which shlex cannot read: below, bash does.
PRINTABLE = st.text(st.characters(blacklist_categories=["Cs"]), max_size=12).filter(
    lambda text: printable(text) == text
)
TEXT = PRINTABLE | st.sampled_from(WORDS)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(TEXT | NUMBERS | st.booleans() | st.none(), max_size=4))
@example([1.7976931348623157e308, "1.7976931348623157e308"])
def test_a_pasted_override_is_read_back_with_the_same_types(values):
    (word,) = shlex.split(override("dataset.missing", values))
    config = OmegaConf.create({"dataset": {"missing": None}})
    (parsed,) = OverridesParser.create().parse_overrides([word])
    OmegaConf.update(config, parsed.key_or_group, parsed.value(), merge=True)  # as Hydra does
    read = OmegaConf.to_container(config, resolve=True)["dataset"]["missing"]
    assert [(type(value), value) for value in read] == [(type(value), value) for value in values]


@pytest.mark.parametrize(
    "text",
    [
        "Revenue\n(USD)",
        "a\x1b[31m1'b",
        'tab\t"x"\\',
        "a\u202eb\u2028c",
        "soft\xadhyphen",
        "\r\x017",
        "é\n$HOME `ls` 9",
    ],
)
def test_control_characters_stay_on_the_line_and_are_read_back(text):
    word = override("dataset.drop", [text])
    assert word == printable(word)
    pasted = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
    read = OverridesParser.create().parse_override(pasted.stdout.decode()).value()
    assert [str(value) for value in read] == [text]
