"""From a config to a directory: stages, their store, claims, the record, and the run that joins
them (:func:`kdgraph.runner.run.run`).
"""
