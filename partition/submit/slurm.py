"""What a command of Slurm's is here: its words as a command line of ours. Pure.

Options are taken as from ``#SBATCH`` lines, by the same table. What would change what runs and
has no counterpart is refused; what changes only what is shown gets a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from native.errors import UsageError
from native.text import shown
from partition.submit import directives

_OF_SRUN = frozenset(
    (
        "-sz",
        "-N",
        "--ranks-per-node",
        "--cores-per-rank",
        "--ranks-per-socket",
        "--sockets-per-node",
        "--ranks-per-core",
        "--threads-per-core",
        "--mem",
        "--gpus-per-node",
        "--gpus-per-rank",
        "--distribution",
        "--exclusive",
        "--after",
        "-queue",
        "-account",
        "--constraint",
        "--switches",
        "--exclude",
    )
)
_OF_SALLOC = (_OF_SRUN | {"-time", "-licenses"}) - {"--after"}
_OF_SRUN_HERE = _OF_SRUN | {"-time", "-directory"}
_SRUN_FLAGS = {
    "l": "--label",
    "label": "--label",
    "u": "--raw",
    "unbuffered": "--raw",
    "pty": "--pty",
    "overlap": "--overlap",
    "Q": "-quiet",
    "quiet": "-quiet",
    "K": "-kill",
    "kill-on-bad-exit": "-kill",
}
_SBATCH_FLAGS = {
    "parsable": "-quiet",
    "W": "--wait",
    "wait": "--wait",
    "test-only": "--test-only",
}
_CPU_BIND = {
    "cores": "core",
    "core": "core",
    "sockets": "socket",
    "socket": "socket",
    "ldoms": "numa",
    "none": "none",
    "no": "none",
}
_CPU_BIND_SHOWN = frozenset(("v", "verbose", "q", "quiet"))
_FLAGS = frozenset(("exclusive", "H", "hold", "Q", "v", "verbose"))


class Command(Struct, frozen=True):
    """A command line of ours.

    Attributes:
        words: the program and its arguments.
        warnings: lines for the user.
    """

    words: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def ours(name: str, words: Sequence[str]) -> Command:
    """What does the same here.

    Args:
        name: of Slurm's command.
        words: its arguments.

    Raises:
        UsageError: there is no such command, or an argument has no counterpart.
    """
    if name not in _COMMANDS:
        raise UsageError(
            f"{shown(name)}: no command of Slurm's that is known: {', '.join(_COMMANDS)}"
        )
    try:
        return _COMMANDS[name](list(words))
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from None


def _sbatch(words: list[str]) -> Command:
    flags, rest, read = _options(words, _SBATCH_FLAGS, {"wrap": lambda value: ["--wrap", value]})
    line = ["yodjob", "submit", "--as-sbatch", *flags, *read.words, *rest]
    return Command(tuple(line), tuple(read.warnings))


def _srun(words: list[str]) -> Command:
    flags, rest, read = _options(words, _SRUN_FLAGS, {"cpu-bind": _cpu_bind})
    if not rest:
        raise UsageError("no program")
    words = _only(read, _OF_SRUN_HERE)
    words = ["--chdir" if word == "-directory" else word for word in words]
    return Command(("yod", *flags, *words, *rest), tuple(read.warnings))


def _salloc(words: list[str]) -> Command:
    _, rest, read = _options(words, {})
    line = ("yodjob", "alloc", *_only(read, _OF_SALLOC), *rest)
    return Command(line, tuple(read.warnings))


def _squeue(words: list[str]) -> Command:
    ids, warnings = _selected(words, "j", "jobs", shown_only=("u", "user", "me"))
    return Command(("yodjob", "show", *ids) if ids else ("yodjob", "list"), warnings)


def _sacct(words: list[str]) -> Command:
    ids, warnings = _selected(words, "j", "jobs", shown_only=("u", "user", "X", "allocations"))
    return Command(("yodjob", "history", *ids), warnings)


def _sinfo(words: list[str]) -> Command:
    _, warnings = _selected(words, "", "", shown_only=("N", "Node", "l", "long", "a", "all"))
    return Command(("pingd",), warnings)


def _scancel(words: list[str]) -> Command:
    signal, ids = "", []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("-s", "--signal"):
            signal = value if equals else _value(name, rest)
        elif word.startswith("-"):
            raise UsageError(f"{shown(word)} is not there here")
        else:
            ids.append(word)
    if not ids:
        raise UsageError("no id")
    command = ("yodjob", "signal", signal) if signal else ("yodjob", "cancel")
    return Command((*command, *ids))


def _scontrol(words: list[str]) -> Command:
    match words:
        case ["show", ("job" | "jobs"), *ids]:
            return Command(("yodjob", "show", *ids) if ids else ("yodjob", "list"))
        case ["show", ("node" | "nodes" | "partition" | "partitions"), *_]:
            return Command(("pingd",))
        case [("hold" | "release" | "requeue" | "suspend" | "resume") as verb, *ids] if ids:
            return Command(("yodjob", verb, *(id for each in ids for id in each.split(","))))
        case ["update", *changes] if changes:
            return _updated(changes)
    known = "show job|node, hold, release, requeue, suspend, resume, update JobId="
    raise UsageError(f"{shown(' '.join(words))}: not there here; known: {known}")


def _updated(changes: list[str]) -> Command:
    options = {"timelimit": "-time", "priority": "-prio", "nice": "-nice"}
    job_id, line = "", []
    for change in changes:
        name, _, value = change.partition("=")
        if name.lower() == "jobid":
            job_id = value
        elif name.lower() in options and value:
            line += [options[name.lower()], value]
        else:
            raise UsageError(f"update {shown(change)}: not there here")
    if not (job_id and line):
        raise UsageError("update needs JobId= and TimeLimit=, Priority= or Nice=")
    return Command(("yodjob", "update", *line, job_id))


def _options(
    words: Sequence[str],
    flags: dict[str, str],
    valued: Mapping[str, Callable[[str], list[str]]] = MappingProxyType({}),
) -> tuple[list[str], list[str], directives.Read]:
    """The options at the front: ours, the words behind, and what else is said.

    Args:
        flags: of the command, and ours.
        valued: options of the command that have values; gives ours.
    """
    rest, taken, found = list(words), [], []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.lstrip("-").partition("=")
        if name in flags and not equals:
            found.append(flags[name])
        elif name in valued and word.startswith("--"):
            found += valued[name](value if equals else _value(word, rest))
        else:
            taken.append(word)
            is_short = not word.startswith("--")
            has_value = bool(equals) or (is_short and len(word) > 2) or name in _FLAGS
            if not has_value:
                taken.append(_value(word, rest))
    return found, rest, directives.of_slurm(taken)


def _cpu_bind(value: str) -> list[str]:
    """``--bind`` of what `srun --cpu-bind` says; how much it shows is ignored.

    Raises:
        UsageError: processors by number, or what is not known.
    """
    found = []
    for word in value.lower().split(","):
        if word in _CPU_BIND:
            found = ["--bind", _CPU_BIND[word]]
        elif word == "threads":
            found = ["--threads-per-core", "1"]
        elif word not in _CPU_BIND_SHOWN:
            known = "cores, sockets, ldoms, threads or none"
            raise UsageError(f"--cpu-bind={shown(value)} is not there here: {known}")
    return found


def _only(read: directives.Read, allowed: frozenset[str]) -> list[str]:
    """The options that one of our commands has.

    Raises:
        UsageError: another one is there.
    """
    rest = list(read.words)
    while rest:
        name = rest.pop(0)
        if name not in allowed:
            raise UsageError(f"what `yodjob submit` calls {name} is for batch jobs only")
        if name != "--exclusive":
            rest.pop(0)
    return read.words


def _selected(
    words: Sequence[str], short: str, long: str, shown_only: Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Ids that an option names, and warnings of options that only choose what is shown."""
    rest, ids, warnings = list(words), [], []
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if short and (name in (short, long) or word.startswith(f"-{short}")):
            glued = value if equals else word.removeprefix(f"-{short}") if name != long else ""
            ids += (glued or _value(word, rest)).split(",")
        elif name in shown_only:
            if name in ("u", "user") and not equals:
                _value(word, rest)
            warnings.append(f"{shown(word)}: ignored")
        else:
            raise UsageError(f"{shown(word)} is not there here")
    return ids, tuple(warnings)


def _value(option: str, rest: list[str]) -> str:
    if not rest:
        raise UsageError(f"{shown(option)} needs a value")
    return rest.pop(0)


_COMMANDS: dict[str, Callable[[list[str]], Command]] = {
    "salloc": _salloc,
    "sbatch": _sbatch,
    "srun": _srun,
    "squeue": _squeue,
    "scancel": _scancel,
    "sinfo": _sinfo,
    "sacct": _sacct,
    "scontrol": _scontrol,
}
