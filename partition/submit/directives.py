"""Options in the head of a batch script: ``#YOD`` lines, and those of Slurm and PBS.

What ours has is read. What changes the run and ours has not refuses the script: it would run
otherwise than its author wants. What changes nothing that runs gets a warning.

Pure, but for the year of a time without one (``#PBS -a``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from native import duration, nodelist, options, pattern
from native.errors import UsageError
from native.options import Option
from native.text import shown
from native.wire.base import SIZE_MAX
from partition.submit import moment
from partition.submit.array import parse as parse_array
from partition.submit.terms import points, terms
from yod.plan.after import parse as parse_after
from yod.plan.shape import ANY, is_about, with_option

# As a command line has them. The first spelling is the option of `yodjob submit`.
_SIZE, _TIME, _OUTPUT, _NAME, _DIRECTORY = "-sz", "-time", "-o", "-name", "-directory"
_AFTER, _BEGIN, _DEADLINE, _ARRAY = "--after", "-begin", "-deadline", "-array"
_QUEUE, _ACCOUNT, _LICENCES, _NICE = "-queue", "-account", "-licenses", "-nice"
_CONSTRAINT, _SWITCHES, _EXCLUDE = "--constraint", "--switches", "--exclude"
_EXCLUSIVE, _HOLD, _REQUEUE = _FLAGS = "--exclusive", "-hold", "--requeue"  # have no value

SLURM: tuple[tuple[tuple[str, ...], str], ...] = (
    (("n", "ntasks"), _SIZE),
    (("N", "nodes"), "-N"),
    (("ntasks-per-node",), "--ranks-per-node"),
    (("c", "cpus-per-task"), "--cores-per-rank"),
    (("ntasks-per-socket",), "--ranks-per-socket"),
    (("sockets-per-node",), "--sockets-per-node"),
    (("ntasks-per-core",), "--ranks-per-core"),
    (("threads-per-core",), "--threads-per-core"),
    (("mem",), "--mem"),
    (("gpus-per-node",), "--gpus-per-node"),
    (("gpus-per-task",), "--gpus-per-rank"),
    (("t", "time"), _TIME),
    (("o", "output"), _OUTPUT),
    (("J", "job-name"), _NAME),
    (("D", "chdir"), _DIRECTORY),
    (("d", "dependency"), _AFTER),
    (("a", "array"), _ARRAY),
    (("b", "begin"), _BEGIN),
    (("deadline",), _DEADLINE),
    (("p", "partition"), _QUEUE),
    (("A", "account"), _ACCOUNT),
    (("L", "licenses"), _LICENCES),
    (("C", "constraint"), _CONSTRAINT),
    (("switches",), _SWITCHES),
    (("x", "exclude"), _EXCLUDE),
    (("nice",), _NICE),
)
_SLURM_COSMETIC = frozenset(("comment", "mail-type", "mail-user", "q", "qos"))
_SLURM_DISTRIBUTIONS = {"*": "block"}  # the default, which is ours, too
_SLURM_FLAGS = frozenset(("parsable", "Q", "quiet", "v", "verbose"))
_SLURM_SWITCHES = frozenset(("exclusive", "H", "hold", "requeue", "no-requeue"))
_PBS_COSMETIC = frozenset("mMPpSVj")
_PBS_FLAGS = frozenset("V")
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)  # to check the form of a time
_SELECT = re.compile(r"(?:select|nodes)=(\d+)(.*)", re.ASCII)


class Read(Struct):
    """What a script's head asks for.

    Attributes:
        words: options and their values, as a command line of `yodjob submit`.
        warnings: lines for the user.
        habits: lines of another system that name its queues or accounts.
    """

    words: list[str]
    warnings: list[str]
    habits: list[str] = []


def read(text: str, known: Sequence[Option]) -> Read:
    """Read the lines up to the first that is a command.

    Args:
        known: the options that a ``#YOD`` line may have.

    Raises:
        UsageError: a line cannot be read, or asks for what cannot be had; it names the line.
    """
    found = Read([], [])
    for number, line in _head(text):
        for mark, take in _MARKS:
            if line.startswith(mark) and line[len(mark) : len(mark) + 1] in (" ", "\t"):
                import shlex  # few scripts have such a line

                try:
                    words = shlex.split(line[len(mark) :], comments=True)
                    before = len(found.words)
                    take(words, known, found)
                    _check(found.words[before:])
                except (ValueError, UsageError) as error:
                    raise UsageError(f"line {number}: {shown(line)}: {error}") from None
    return found


def of_slurm(words: Sequence[str]) -> Read:
    """The same of words that a command of Slurm's was given.

    Raises:
        UsageError: as :func:`read`.
    """
    found = Read([], [])
    _slurm(list(words), (), found)
    _check(found.words)
    found.warnings = [warning.removeprefix("#SBATCH ") for warning in found.warnings]
    return found


def _head(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            return
        yield number, line


def _check(words: list[str]) -> None:
    """Refuse values that cannot be; each option but the flags has one."""
    rest = iter(words)
    for name in rest:
        if name in _FLAGS:
            continue
        value = next(rest)
        match name:
            case "-sz" | "-n":
                size(value)
            case "-list":
                nodelist.parse(value)
            case "-time":
                time_s(value)
            case "-o" | "-output":
                pattern.check(value)
            case "-array":
                parse_array(value)
            case "-begin" | "-deadline":
                moment.parse(value, name, _ANY_DAY)
            case "--after":
                parse_after(value, has_name=True)
            case "-licenses":
                terms(licences=value)
            case "-nice":
                points(value)
            case "--constraint":
                terms(constraint=value)
            case "--switches":
                terms(switches=value)
            case "--exclude":
                terms(exclude=value)
            case _ if is_about(name):
                with_option(ANY, name, value)


def _yod(words: list[str], known: Sequence[Option], found: Read) -> None:
    expanded = options.expand(words, known)
    names = {option.spellings[0]: option.takes_value for option in known}
    rest = list(expanded)
    while rest:
        name = rest.pop(0)
        if name not in names:
            raise UsageError(f"{shown(name)} is no option")
        if names[name]:
            rest.pop(0)
    found.words += expanded


def _slurm(words: list[str], known: Sequence[Option], found: Read) -> None:
    ours = {name: option for names, option in SLURM for name in names}
    for name, value in _pairs(words, _SLURM_FLAGS | _SLURM_SWITCHES):
        if name == "nice" and value.startswith("-"):
            found.warnings.append("#SBATCH --nice: ignored, it is below 0")
        elif name in ours:
            found.words += [ours[name], value]
            if ours[name] in (_QUEUE, _ACCOUNT):
                found.habits.append(f"#SBATCH {_dashed(name)}")
        elif name == "gres":
            found.words += ["--gpus-per-node", _gres(value)]
        elif name == "hint":
            if value != "nomultithread":
                raise UsageError(f"--hint={shown(value)} is not there here: nomultithread")
            found.words += ["--threads-per-core", "1"]
        elif name in ("m", "distribution"):
            over_nodes, colon, inside = value.partition(":")
            found.words += ["--distribution", _SLURM_DISTRIBUTIONS.get(over_nodes, over_nodes)]
            if colon:
                found.warnings.append(f"#SBATCH {_dashed(name)}: `:{shown(inside)}` is ignored")
        elif name == "exclusive" and not value:
            found.words.append(_EXCLUSIVE)
        elif name in ("H", "hold"):
            found.words.append(_HOLD)
        elif name == "requeue":
            found.words.append(_REQUEUE)
        elif name == "no-requeue":
            pass  # as it is without it
        elif name in _SLURM_COSMETIC | _SLURM_FLAGS:
            found.warnings.append(f"#SBATCH {_dashed(name)}: ignored")
        else:
            raise UsageError(f"{_dashed(name)} is not there here, and would change what runs")


def _gres(value: str) -> str:
    """The GPUs of ``gpu`` and ``gpu:4``; kinds cannot be chosen, and there is nothing else."""
    name, colon, count = value.partition(":")
    if name != "gpu" or (colon and not count.isdecimal()):
        raise UsageError(f"--gres={shown(value)} is not there here, and would change what runs")
    return count or "1"


def _pbs(words: list[str], known: Sequence[Option], found: Read) -> None:
    for name, value in _pairs(words, _PBS_FLAGS | {"h"}):
        match name:
            case "h":
                found.words.append(_HOLD)
            case "r":
                found.words += [_REQUEUE] if value in ("y", "true") else []
            case "N":
                found.words += [_NAME, value]
            case "o":
                found.words += [_OUTPUT, value]
            case "J":
                found.words += [_ARRAY, value]
            case "a":
                found.words += [_BEGIN, moment.of_pbs(value, datetime.now())]
            case "q" | "A":
                if wanted := value.partition("@")[0]:  # of another server
                    found.words += [_QUEUE if name == "q" else _ACCOUNT, wanted]
                    found.habits.append(f"#PBS {_dashed(name)}")
            case "W" if value.startswith("depend="):
                found.words += [_AFTER, value.removeprefix("depend=")]
            case "l":
                for item in value.split(","):
                    found.words += _pbs_resource(item)
            case _ if name in _PBS_COSMETIC:
                found.warnings.append(f"#PBS {_dashed(name)}: ignored")
            case _:
                raise UsageError(f"{_dashed(name)} is not there here, and would change what runs")


def _pbs_resource(item: str) -> list[str]:
    """``select=2:ncpus=4:mpiprocs=4``, ``nodes=2:ppn=4``, ``walltime=1:00:00``."""
    name, _, value = item.partition("=")
    if name == "walltime":
        return [_TIME, value if ":" in value else f"0:{value}"]  # seconds alone
    if (chosen := _SELECT.fullmatch(item)) is None:
        raise UsageError(f"-l {shown(item)} is not there here, and would change what runs")
    each = 1
    for part in filter(None, chosen[2].split(":")):
        key, _, amount = part.partition("=")
        if key not in ("mpiprocs", "ppn", "ncpus") or not amount.isdecimal():
            raise UsageError(f"-l {shown(item)}: {shown(part)} is not there here")
        each = max(each, int(amount))
    return [_SIZE, str(int(chosen[1]) * each)]


def _pairs(words: list[str], flags: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Names without dashes, and values; of ``--time=5``, ``--time 5``, ``-t5`` and ``-t 5``."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
        elif word.startswith("-") and len(word) > 1:
            name, value = word[1], word[2:]
            equals = "=" if value else ""
        else:
            raise UsageError(f"{shown(word)} is no option")
        if not equals and name not in flags and rest and not rest[0].startswith("-"):
            value = rest.pop(0)
        if not value and name not in flags:
            raise UsageError(f"{_dashed(name)} needs a value")
        yield name, value


def _dashed(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"


_Take = Callable[[list[str], Sequence[Option], Read], None]
_MARKS: tuple[tuple[str, _Take], ...] = (("#YOD", _yod), ("#SBATCH", _slurm), ("#PBS", _pbs))


def size(text: str) -> int:
    """A number of slots.

    Raises:
        UsageError: none.
    """
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= SIZE_MAX):
        raise UsageError(f"-sz {shown(text)}: must be from 1 to {SIZE_MAX}")
    return int(text)


def time_s(text: str) -> int:
    """Seconds of a time limit.

    Raises:
        UsageError: no time.
    """
    return duration.parse(text, "-time")


def changed_time(before_s: float, text: str) -> float:
    """Seconds of a time limit: ``1:00:00``, or ``+30`` and ``-30`` of what it was.

    Args:
        before_s: what it was; 0: there was none.

    Raises:
        UsageError: no time, or none is left.
    """
    if text[:1] not in ("+", "-"):
        return float(time_s(text))
    by_s = duration.parse(text[1:], "-time")
    if not before_s:
        raise UsageError(f"-time {shown(text)}: the job has no time limit; say one, as 1:00:00")
    after_s = before_s + by_s if text[0] == "+" else before_s - by_s
    if after_s <= 0:
        limit = duration.written(before_s)
        raise UsageError(f"-time {shown(text)}: nothing is left of a time limit of {limit}")
    return after_s
