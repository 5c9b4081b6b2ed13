"""The verbs of ``kdg``: a module each, with ``main(arguments) -> exit code``; imported when they are called."""

VERBS = {
    "run": ("run [key=value …]", "run an experiment; without arguments: dataset=spiral method=kdf"),
    "show": ("show [key=value …]", "the resolved config, and what a run of it would do"),
    "list": ("list [group]", "what there is to choose from"),
    "data": ("data list|get|check", "data sets of openml.org: which are here, fetch some, are they whole"),
    "completion": ("completion bash|zsh|fish", "for your shell"),
}
"""Name → how to call it, and what it is for."""
