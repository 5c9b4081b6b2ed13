"""Command line ``kdg``: one module for each command.

A module of a command has ``parser()``, which describes its arguments and prints its help, and
``main(arguments)``, which returns the exit code. :mod:`kdgraph.cli.main` imports the module of a
command when the command is given, so that each of them starts fast.
"""

COMMANDS = {
    "run": "run one config, or a sweep over many (-m)",
    "plan": "list what 'run' would do, what is done, how long the rest takes",
    "show": "print the composed config with the meaning of each key",
    "list": "list config groups and their options, by task or by a search",
    "table": "print or write every number of finished runs",
    "compare": "compare methods over seeds and data sets, with tests",
    "report": "write one HTML page of finished runs",
    "reproduce": "set the published numbers of the papers beside measured ones",
    "check": "check a model that you have fitted, and what would repair it",
    "repair": "write a model that you have fitted, repaired, into one file",
    "predict": "predict new rows with the model of a finished run or a repair",
    "data": "list, fetch and check data sets of openml.org",
    "gc": "delete store entries that no finished run refers to",
    "doctor": "check the machine and the installation",
    "completion": "print the completion script of a shell",
}
"""Command → summary, in the order of ``kdg --help``."""
