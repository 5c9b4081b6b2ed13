"""``kdg show``: the config as YAML, with what would happen as comments."""

from __future__ import annotations

from kdgraph.cli.hydra_arguments import check_jobs, hydra_arguments, planned_by


def main(arguments: list[str]) -> int:
    """Print it and return the exit code."""
    planned = planned_by(hydra_arguments(arguments))
    check_jobs(planned, planned.jobs)
    from kdgraph.report.preview import preview_run, sweep_summary
    from kdgraph.runner.availability import find_missing

    absent = find_missing(planned.jobs)
    if not planned.multirun:
        import yaml

        config = planned.jobs[0].config
        nodes = {
            **config.science(),
            "n_jobs": config.n_jobs,
            "force": config.force,
            "out": config.out,
        }
        print(
            yaml.safe_dump(
                nodes, sort_keys=False, default_flow_style=None, allow_unicode=True, width=120
            ),
            end="",
        )
    for job in planned.jobs:
        print(preview_run(job.config, absent.get(job.config.run_id)))
    if planned.multirun:
        print(sweep_summary(planned.jobs, absent))
    return 0
