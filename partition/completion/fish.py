"""The script for fish, 3.1 or later."""

from __future__ import annotations

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

_CHOICES = {
    FILE: "(__fish_complete_path (commandline -ct))",
    DIRECTORY: "(__fish_complete_directories (commandline -ct))",
    JOB: "(yodjob list 2>/dev/null | awk 'NR > 1 { print $1 }')",
    SIGNAL: "(kill -l | string split ' ')",
    USER: "(__fish_complete_users)",
    PROGRAM: "(__fish_complete_command)",
}
_HEAD = """\
# Completion of yod's commands. Made by `yodctl completion fish`.

# The word behind the command is this one, or there is none to be.
function __yod_is_in
    test -z "$argv[1]"; and return 0
    set -l words (commandline -opc)
    test "$words[2]" = "$argv[1]"
end

# The same, and the program's own words have not begun. Behind the word are the options that take
# a value.
function __yod_is_before_program
    __yod_is_in $argv[1]; or return 1
    set -l words (commandline -opc)
    set -e words[1]
    test -z "$argv[1]"; or set -e words[1]
    while set -q words[1]
        string match -q -- '-*' $words[1]; or return 1
        contains -- $words[1] $argv; and set -e words[1]
        set -e words[1]
    end
end

"""


def script(lines: Iterable[Line]) -> str:
    """The whole script."""
    lines = tuple(lines)
    helps = {line.path: line.help for line in lines}
    return _HEAD + "".join([rule for line in lines for rule in _rules(line, helps)])


def _rules(line: Line, helps: dict[str, str]) -> list[str]:
    command, _, word = line.path.partition(" ")
    is_in = f"__yod_is_in {word}".rstrip()
    is_here = is_in
    if line.operands[-1] == PROGRAM:
        is_here = f"__yod_is_before_program {word or repr('')} {' '.join(line.values)}"
    if line.subcommands:
        is_here = "test (count (commandline -opc)) = 1"
    begin = f"complete -c {command} -n {_quoted(is_here)}"
    rules = [] if word else [f"complete -c {command} -f\n"]
    for name in line.subcommands:
        rules.append(f"{begin} -a {name} -d {_quoted(helps[f'{line.path} {name}'])}\n")
    for spellings, help in line.options:
        names = " ".join(map(_named, spellings))
        rules.append(f"{begin} {names}{_taken(line, spellings[0])} -d {_quoted(help)}\n")
    for kind in dict.fromkeys(line.operands):
        if not line.subcommands and kind != NOTHING:
            rules.append(f"{begin} -a {_quoted(_choices(kind))}\n")
    if line.operands[-1] == PROGRAM:
        is_behind = f"{is_in}; and not {is_here}"
        rules.append(f"complete -c {command} -n {_quoted(is_behind)} -F\n")
    return rules


def _named(spelling: str) -> str:
    if spelling.startswith("--"):
        return f"-l {spelling[2:]}"
    return f"-{'s' if len(spelling) == 2 else 'o'} {spelling[1:]}"


def _taken(line: Line, spelling: str) -> str:
    if spelling not in line.values:
        return ""
    kind = line.values[spelling]
    if kind == NOTHING:
        return " -x"
    return f" -x -a {_quoted(_choices(kind))}"


def _choices(kind: str) -> str:
    return _CHOICES.get(kind) or kind.replace(",", " ")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
