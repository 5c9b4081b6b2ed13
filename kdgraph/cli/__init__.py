"""The verbs of ``kdg``: a module each, with ``main(arguments) -> exit code``; imported when they
are called.
"""

VERBS = {
    "run": ("run [key=value …]", "run an experiment; without arguments: dataset=spiral method=kdf"),
    "plan": (
        "plan [key=value …]",
        "what a command would run, what is done of it, how long the rest may take",
    ),
    "show": ("show [key=value …]", "the resolved config, and what a run of it would do"),
    "table": ("table [key=value …]", "every number of finished runs, on the terminal or as a file"),
    "compare": (
        "compare [key=value …]",
        "methods over seeds and data sets: means, wins and losses, tests",
    ),
    "report": (
        "report [key=value …]",
        "one HTML page of finished runs: by method, by data set, run by run",
    ),
    "reproduce": (
        "reproduce [p5 …]",
        "every published number of the papers beside ours, on one page",
    ),
    "predict": (
        "predict --run DIR …",
        "the model of a finished run on new rows: probabilities and an OOD score",
    ),
    "gc": ("gc [--out DIR]", "delete what the store keeps for no finished run"),
    "list": ("list [group]", "what there is to choose from"),
    "data": (
        "data list|get|check",
        "data sets of openml.org: which are here, fetch some, are they whole",
    ),
    "doctor": ("doctor", "what this machine has, and whether kdgraph can work here"),
    "completion": ("completion bash|zsh|fish", "for your shell"),
}
"""Name → how to call it, and what it is for."""
