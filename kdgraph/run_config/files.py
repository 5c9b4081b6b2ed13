"""The files that a run reads its rows from: other content is another run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from kdgraph.run_config.outliers import sources_of_outliers


def file_digests(science: Mapping[str, Any]) -> dict[str, str]:
    """Digest of each of :func:`named_files`. A file that is not there has none."""
    digests = {key: digest_of(path) for key, path in named_files(science).items()}
    return {key: digest for key, digest in digests.items() if digest is not None}


def named_files(science: Mapping[str, Any]) -> dict[str, Path]:
    """The files that rows are read from (``path``, ``indices``, ``vectors``), of the data set, of those out of distribution, and of
    outliers that train.
    """
    nodes = {"": science["dataset"] or {}, **_others("ood.", science["ood"] or {})}
    nodes |= {f"outliers.{i}.": source for i, source in enumerate(sources_of_outliers(science))}
    return {
        prefix + key: Path(str(node[key])).expanduser()
        for prefix, node in nodes.items()
        for key in ("path", "indices", "vectors")
        if node.get(key)
    }


def _others(prefix: str, ood: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Prefix of its keys → the node of each data set that is out of distribution, alone or as one of several."""
    found: dict[str, Mapping[str, Any]] = {prefix: ood["source"]} if ood.get("source") else {}
    found |= _others(prefix, ood["of"]) if ood.get("of") else {}
    for name, node in (ood.get("sources") or {}).items():
        found |= _others(f"{prefix}{name}.", node or {})
    return found


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file; None if it is not there. A sweep reads each version of it once."""
    return _digest(path, path.stat().st_mtime_ns) if path.is_file() else None


@lru_cache(maxsize=256)
def _digest(path: Path, modified: int) -> str:
    from kdgraph.data.files.paths import sha256_of  # here, not above: a run that is done needs no table

    return sha256_of(path)
