"""The script for bash, 4.4 or later."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from partition.completion.words import Line

_HEAD = """\
# Completion of yod's commands. Made by `yodctl completion bash`.

_yod_offer() { # KIND START
    local found=
    case $1 in
    nothing) ;;
    file) found=$(compgen -f -- "$2") ;;
    directory) found=$(compgen -d -- "$2") ;;
    program) found=$(compgen -c -- "$2"; compgen -f -- "$2") ;;
    user) found=$(compgen -u -- "$2") ;;
    signal) found=$(compgen -W "$(compgen -A signal SIG | sed s/^SIG//)" -- "$2") ;;
    job) found=$(compgen -W "$(yodjob list 2>/dev/null | awk 'NR > 1 { print $1 }')" -- "$2") ;;
    *) found=$(compgen -W "${1//,/ }" -- "$2") ;;
    esac
    [[ " file directory program " != *" $1 "* ]] || compopt -o filenames 2>/dev/null
    [[ -z $found ]] || mapfile -t COMPREPLY <<<"$found"
}

_yod_complete() {
    local path=${1##*/} start=${COMP_WORDS[COMP_CWORD]} at=1 seen=0 kind= word
    local options values subcommands operands
    _yod_line "$path"
    COMPREPLY=()
    for ((; at < COMP_CWORD; at++)); do
        word=${COMP_WORDS[at]}
        kind=
        if [[ $word == -* ]]; then
            [[ " $values " =~ " $word:"([^ ]*) ]] || continue
            kind=${BASH_REMATCH[1]}
            [[ ${COMP_WORDS[at + 1]} != = ]] || ((at++)) # bash splits --mpi=pmix
            ((at++))
        elif [[ -n $subcommands ]]; then
            path+=" $word"
            _yod_line "$path"
        else
            ((seen++))
            if [[ ${operands[seen - 1]:-${operands[-1]}} == program ]]; then
                _yod_offer file "$start"
                return
            fi
        fi
    done
    if [[ -n $kind ]] && ((at > COMP_CWORD)) || [[ $start == = ]]; then
        [[ $start != = ]] || start=
        _yod_offer "${kind:-nothing}" "$start"
    elif [[ $start == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$start")
    elif [[ -n $subcommands ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$subcommands" -- "$start")
    else
        _yod_offer "${operands[seen]:-${operands[-1]}}" "$start"
    fi
}

_yod_line() {
    options= values= subcommands= operands=(nothing)
    case $1 in
"""


def script(lines: Iterable[Line]) -> str:
    """The whole script."""
    lines = tuple(lines)
    names = " ".join(line.path for line in lines if " " not in line.path)
    return f"{_HEAD}{''.join(map(_case, lines))}    esac\n}}\n\ncomplete -F _yod_complete {names}\n"


def _case(line: Line) -> str:
    values = " ".join(f"{name}:{kind}" for name, kind in line.values.items())
    return (
        f"    {shlex.quote(line.path)})\n"
        f"        options={shlex.quote(' '.join(line.spellings))}\n"
        f"        values={shlex.quote(values)}\n"
        f"        subcommands={shlex.quote(' '.join(line.subcommands))}\n"
        f"        operands=({' '.join(line.operands)})\n"
        "        ;;\n"
    )
