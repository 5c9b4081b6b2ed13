"""The help of commands whose words are those of Hydra, or a few words alone."""

_CONFIG_DIR = "  --config-dir DIR    your own config groups, behind those of kdgraph\n"
_HELP_FLAG = "  -h, --help          show this help message and exit\n"
_EXIT = "Exit codes: 0 done, 2 something that was given cannot be used, 130 interrupted.\n"
_WORDS = """\
  key=value           an option of a group (dataset=digits), or a value (parent.n_estimators=100);
                      'kdg list' shows groups and options; default: dataset=spiral method=kdf
"""

HELP = {
    "plan": (
        f"""\
usage: kdg plan [-h] [-m] [--config-dir DIR] [key=value ...]

What 'kdg run' with the same words would run, what is done of it, and how long the rest may take.
Nothing is run or fetched.

{_WORDS}
options:
{_HELP_FLAG}  -m                  sweep: every combination of values with commas between them
{_CONFIG_DIR}
  kdg plan -m dataset=spiral,circle method=kdf,isotonic seed='range(0,5)'

{_EXIT}"""
    ),
    "show": (
        f"""\
usage: kdg show [-h] [-m] [--config-dir DIR] [key=value ...]

The config that the words compose to, as YAML, and what a run of it would do, as comments.
Nothing is run or fetched.

{_WORDS}
options:
{_HELP_FLAG}  -m                  sweep: what each run would do, without its YAML
{_CONFIG_DIR}
  kdg show dataset=digits method=kdn parent.hidden='[64,64]'

{_EXIT}"""
    ),
    "list": (
        f"""\
usage: kdg list [-h] [--config-dir DIR] [group]

Config groups and their options, each with one line; of one group, or of all.

options:
{_HELP_FLAG}{_CONFIG_DIR}
  kdg list dataset
  kdg list method --config-dir conf

{_EXIT}"""
    ),
    "data": (
        f"""\
usage: kdg data list [-h] [--config-dir DIR] [name ...]
       kdg data get [-h] [--config-dir DIR] name|key=value [...]
       kdg data check [-h] [--config-dir DIR] [name ...]

Data sets of openml.org: list those that options name and which are here, fetch some, or check that
the files that are here are whole. They are in the folder that OPENML_CACHE_DIR names.

  name                an option of the group dataset, a group of them (cc18), a pattern
                      ('cc18/mfeat_*'), or a number of OpenML; default: all
  key=value           as in 'kdg run': what a run with these words needs

options:
{_HELP_FLAG}{_CONFIG_DIR}
  kdg data get cc18/adult 44
  kdg data get dataset=openml dataset.id=1590
  kdg data check

Exit codes: 0 done, 1 a data set could not be fetched or is damaged, 2 something that was given
cannot be used, 130 interrupted.
"""
    ),
    "completion": (
        f"""\
usage: kdg completion [-h] bash|zsh|fish

Print the script that completes commands, options of groups and keys in a shell.

options:
{_HELP_FLAG}
  eval "$(kdg completion bash)"
  kdg completion fish > ~/.config/fish/completions/kdg.fish

{_EXIT}"""
    ),
}
"""Name of a command → its help."""
