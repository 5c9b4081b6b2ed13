"""Shell completion: verbs by the shell, everything after ``run``, ``show`` and ``plan`` by Hydra,
which is asked without the verb.
"""

from __future__ import annotations

from kdgraph.cli import VERBS
from kdgraph.errors import UsageError

_BASH = """\
_kdg() {
    local line="${COMP_LINE:0:$COMP_POINT}" choices prefix=""
    local word="${line##* }"
    case "$line" in
        "kdg run "*|"kdg show "*|"kdg plan "*)
            choices=$(COMP_LINE="kdg ${line#kdg * }" kdg run -sc query=bash 2>/dev/null) ;;
        "kdg completion "*) choices="bash zsh fish" ;;
        "kdg data "*" "*) choices="" ;;
        "kdg data "*) choices="list get check" ;;
        "kdg "*" "*) choices="" ;;
        *) choices="{verbs}" ;;
    esac
    # where "=" separates words (as it does by default), the shell completes what follows it
    [[ "$COMP_WORDBREAKS" == *=* && "$word" == *=* ]] && prefix="${word%"${word##*=}"}"
    COMPREPLY=()
    local choice
    for choice in $(compgen -W "$choices" -- "$word"); do
        COMPREPLY+=("${choice#"$prefix"}")
    done
}
complete -o nospace -o default -F _kdg kdg
"""

_FISH = """\
function __kdg_overrides
    set -lx COMP_LINE (string replace -r '^\\s*kdg\\s+\\S+\\s' 'kdg ' -- (commandline -cp))
    kdg run -sc query=fish 2>/dev/null
end
complete -c kdg -f
complete -c kdg -n __fish_use_subcommand -a '{verbs}'
complete -c kdg -n '__fish_seen_subcommand_from run show plan' -a '(__kdg_overrides)'
complete -c kdg -n '__fish_seen_subcommand_from data' -a 'list get check'
complete -c kdg -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'
"""

SCRIPTS = {
    "bash": _BASH.replace("{verbs}", " ".join(VERBS)),
    "zsh": (
        "autoload -U +X bashcompinit && bashcompinit\n" + _BASH.replace("{verbs}", " ".join(VERBS))
    ),
    "fish": _FISH.replace("{verbs}", " ".join(VERBS)),
}
"""Shell → script to evaluate in it."""


def main(arguments: list[str]) -> int:
    """Print the script of a shell."""
    if len(arguments) != 1 or arguments[0] not in SCRIPTS:
        raise UsageError(
            f"completion takes one of {', '.join(SCRIPTS)}, got {' '.join(arguments) or 'nothing'}"
        )
    print(SCRIPTS[arguments[0]], end="")
    return 0
