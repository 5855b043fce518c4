"""A page of docs/ as commands to run: who types them where, and what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PROMPT = re.compile(r"(?:(?P<user>\w+)@)?(?P<host>\w+)(?P<sign>[#$]) (?P<command>.+)")
_HERE = re.compile(r"<<'(\w+)'")
# Moments and durations are others each time.
_VARIES = (
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\d"),
    (r"\d+(\\\.\d+)? (m?s)\b", r"[0-9.]+ \2"),
)


@dataclass
class Step:
    """One command.

    Attributes:
        command: with the lines of a here document.
        output: the lines that the page shows; ``...``: any.
    """

    user: str
    host: str
    command: str
    output: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    """All commands in the literal blocks of a page, in order.

    Raises:
        ValueError: a literal block begins with something else.
    """
    found: list[Step] = []
    end = ""  # of a here document that is being read
    is_block = False
    for line in text.splitlines():
        if not line.startswith("    "):
            is_block = is_block and (bool(end) and not line)
            if end and not line:
                found[-1].command += "\n"
            continue
        line = line[4:]
        if end:
            found[-1].command += f"\n{line}"
            end = "" if line == end else end
        elif prompt := _PROMPT.fullmatch(line):
            user = prompt["user"] or ("root" if prompt["sign"] == "#" else "")
            found.append(Step(user, prompt["host"], prompt["command"]))
            here = _HERE.search(prompt["command"])
            end = here[1] if here else ""
        elif not is_block:
            raise ValueError(f"no command: {line}")
        else:
            found[-1].output.append(line)
        is_block = True
    return found


def shows(step: Step, printed: str) -> bool:
    """Whether a command has printed what the page says."""
    pattern = ""
    for line in step.output:
        if line == "...":
            pattern += r"(?:.*\n)*"
            continue
        escaped = re.escape(line).replace(r"\ ", " ").replace(r"\-", "-")
        for old, new in _VARIES:
            escaped = re.sub(old, new, escaped)
        pattern += f"{escaped} *\n"
    return re.fullmatch(pattern, printed) is not None
