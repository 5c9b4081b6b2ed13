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
from kdgraph.run_config.files import Read, file_digests, reads, refuse_changed, what_is_read

__all__ = [
    "AFTER",
    "COMPONENTS",
    "METHOD_ENDS",
    "PLAIN",
    "RECORD_SCHEMA",
    "SCIENCE",
    "Protocol",
    "Read",
    "RunConfig",
    "check",
    "file_digests",
    "method_label",
    "reads",
    "refuse_changed",
    "run_id",
    "what_is_read",
]
