"""The script for zsh."""

from __future__ import annotations

import re
from collections.abc import Iterable

from partition.completion.words import (
    DIRECTORY,
    FILE,
    JOB,
    NOTHING,
    PROGRAM,
    SIGNAL,
    USER,
    Line,
)

_ACTIONS = {
    NOTHING: " ",
    FILE: "_files",
    DIRECTORY: "_directories",
    JOB: "_yod_jobs",
    SIGNAL: "_signals",
    USER: "_users",
}
_HEAD = """\
#compdef NAMES
# Completion of yod's commands. Made by `yodctl completion zsh`.

_yod_jobs() {
    local -a jobs=(${(f)"$(yodjob list 2>/dev/null | awk 'NR > 1 { print $1 }')"})
    compadd -- $jobs
}

"""
_TAIL = """\
_yod_commands() {
    _yod_line_${words[1]:t}
}

if [[ $funcstack[1] == _yod ]]; then # from a directory of fpath
    _yod_commands "$@"
else
    compdef _yod_commands NAMES
fi
"""


def script(lines: Iterable[Line]) -> str:
    """The whole script; it can be sourced, or be the file ``_yod`` in a directory of ``fpath``."""
    lines = tuple(lines)
    names = " ".join(line.path for line in lines if " " not in line.path)
    whole = _HEAD + "".join([_function(line, lines) for line in lines]) + _TAIL
    return whole.replace("NAMES", names)


def _function(line: Line, lines: tuple[Line, ...]) -> str:
    name = f"_yod_line_{line.path.replace(' ', '_')}"
    if line.subcommands:
        helps = {each.path: each.help for each in lines}
        rows = [f"{sub}:{helps[f'{line.path} {sub}']}" for sub in line.subcommands]
        described = "".join(f"        {_quoted(row)}\n" for row in rows)
        return (
            f"{name}() {{\n    local -a subcommands=(\n{described}    )\n"
            "    if ((CURRENT == 2)); then\n"
            "        _describe subcommand subcommands\n"
            f"    elif (( $+functions[{name}_$words[2]] )); then\n"
            "        shift words\n        ((CURRENT--))\n"
            f"        {name}_$words[1]\n    fi\n}}\n\n"
        )
    specs = [_quoted(spec) for each in line.options for spec in _specs(line, *each)]
    specs += [_quoted(spec) for spec in _operands(line)]
    return f"{name}() {{\n    _arguments -S \\\n        " + " \\\n        ".join(specs) + "\n}\n\n"


def _specs(line: Line, spellings: tuple[str, ...], help: str) -> list[str]:
    others = f"({' '.join(spellings)})" if len(spellings) > 1 else ""
    said = re.sub(r"([][:])", r"\\\1", help)
    kind = line.values.get(spellings[0])
    value = "" if kind is None else f":value:{_action(kind)}"
    return [f"{others}{spelling}[{said}]{value}" for spelling in spellings]


def _action(kind: str) -> str:
    return _ACTIONS.get(kind) or f"({kind.replace(',', ' ')})"


def _operands(line: Line) -> list[str]:
    *first, last = line.operands
    specs = [f"{at}:operand:{_action(kind)}" for at, kind in enumerate(first, 1)]
    return [*specs, "*::program:_normal" if last == PROGRAM else f"*:operand:{_action(last)}"]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
