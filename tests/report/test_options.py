"""Config groups and their options as a list."""

from __future__ import annotations

import pytest

from kdgraph.report.options import listing


def test_listing_prefers_the_first_folder_and_skips_directives(tmp_path):
    for folder, line in (("ours", "# @package _global_\n# First\n"), ("theirs", "# Second\n")):
        (tmp_path / folder / "method").mkdir(parents=True)
        (tmp_path / folder / "method" / "kdf.yaml").write_text(line)
    (tmp_path / "theirs" / "method" / "own.yaml").write_text("a: 1\n")
    assert listing([tmp_path / "ours", tmp_path / "theirs"]) == "method\n  kdf  First\n  own"
    with pytest.raises(ValueError, match="no group named 'metod'; did you mean 'method'"):
        listing([tmp_path / "ours"], "metod")
