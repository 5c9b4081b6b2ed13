"""From a config to a directory: stages, their store, locks, the record, and sweeps.

:func:`kdgraph.runner.run.run` does one run, :func:`kdgraph.runner.sweep.launch` many.
"""
