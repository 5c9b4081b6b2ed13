"""``kdg list``: groups and their options with their first comment."""

from __future__ import annotations

from kdgraph.cli.hydra_arguments import hydra_arguments
from kdgraph.errors import UsageError


def main(arguments: list[str]) -> int:
    """Print them and return the exit code."""
    from kdgraph.config.composer import config_folders
    from kdgraph.report.options import listing

    args = hydra_arguments(arguments)
    if len(args.overrides) > 1:
        raise UsageError(f"list takes one group, got {' '.join(args.overrides)}")
    print(listing(config_folders(args.config_dir), args.overrides[0] if args.overrides else None))
    return 0
