"""One run: its resolved config as data, what it is called, and whether it can be run at all."""

from kdgraph.run_config.checks import check
from kdgraph.run_config.config import (
    AFTER,
    COMPONENTS,
    METHOD_ENDS,
    PLAIN,
    RECORD_SCHEMA,
    SCIENCE,
    Protocol,
    RunConfig,
    method_label,
    run_id,
)
from kdgraph.run_config.files import digest_of, file_digests, named_files

__all__ = [
    "AFTER",
    "COMPONENTS",
    "METHOD_ENDS",
    "PLAIN",
    "RECORD_SCHEMA",
    "SCIENCE",
    "Protocol",
    "RunConfig",
    "check",
    "digest_of",
    "file_digests",
    "method_label",
    "named_files",
    "run_id",
]
