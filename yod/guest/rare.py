"""What few launches of a program ask for: each choice as the option of the command that it is."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from msgspec.structs import replace

from native.errors import UsageError
from native.host.userdirs import user_name
from native.wire.group import RankFiles, Strace
from yod import launching, retrying
from yod.guest.choices import Rare, Word
from yod.guest.request import Request
from yod.plan import checkpoint_options, dialects, excluded, files, switches, timelimit
from yod.plan.input import SHARED, parse
from yod.plan.plan import Style, TimeLimit, demand_name

_CHECKPOINTS = {  # by the option that each is
    checkpoint_options.DIRECTORY: "checkpoint_dir",
    checkpoint_options.RESTART: "restart",
    checkpoint_options.BY: "checkpoint_by",
    checkpoint_options.EVERY: "checkpoint_every",
    checkpoint_options.ON: "checkpoint_on",
    checkpoint_options.SIGNAL: "checkpoint_signal",
    checkpoint_options.GRACE: "checkpoint_grace",
    checkpoint_options.KEEP: "checkpoint_keep",
    checkpoint_options.LOCAL: "checkpoint_local",
}


def asked_for(rare: Rare, asked: Request, has_own_input: bool) -> Request:
    """A launch with these choices, too.

    Args:
        has_own_input: its input is this process's.

    Raises:
        UsageError: they exclude each other, or one is not as its option wants it.
        TypeError: one is no choice at all.
    """
    if strange := next(iter(rare.keys() - Rare.__annotations__.keys()), ""):
        raise TypeError(f"no choice of a launch: {strange!r}")
    options = asked.options
    if rare.get("timestamp") and options.style is Style.RAW:
        raise UsageError("timestamp and raw exclude each other")
    ranks, is_shared = options.input_ranks, False
    if ranks and "stdin_ranks" in rare:
        text = _listed(rare["stdin_ranks"])
        ranks, is_shared = parse(text), text == SHARED
    written = _files(rare, asked.invocation.directory)
    tees, attaches = rare.get("tee", False), rare.get("attach", False)
    chosen = replace(
        options,
        input_ranks=ranks,
        shares_input=is_shared,
        stops_ranks=rare.get("stop_ranks", False),
        signals_group=rare.get("signal_tree", False),
        has_stamps=rare.get("timestamp", False),
        files=None if tees else written,
        tee=written if tees else None,
        time_limit=_time_limit(rare),
        grace_s=_grace(rare),
        dialects=dialects.parse([rare["rank_variables"]]) if rare.get("rank_variables") else (),
        constraint=rare.get("constraint", ""),
        switches=switches.parse(rare["switches"]) if rare.get("switches") else (0, 0.0),
        exclude=_excluded(rare),
        queue=demand_name("queue", rare.get("queue", "")),
        account=demand_name("account", rare.get("account", "")),
        gives_way=rare.get("nice", False),
        retries=retrying.chosen(str(rare["retries"]), {}) if "retries" in rare else 0,
        wants_stacks=rare.get("stacks", False),
        awaits_user=attaches,
        goes_by_enter=attaches and has_own_input and bool(ranks) and os.isatty(0),
        strace=_strace(rare),
        tells_times="trace" in rare,
    )
    records = asked.records
    if "trace" in rare:
        records = replace(records, trace_file=_absolute(rare["trace"]))
    if "report" in rare:
        records = replace(records, json_file=_absolute(rare["report"]))
    asked = replace(asked, options=chosen, records=records)
    return _with_checkpoints(rare, asked)


def _with_checkpoints(rare: Rare, asked: Request) -> Request:
    """The launch, with how its checkpoints are made."""
    given = {
        option: [os.fsdecode(value) if isinstance(value, bytes | os.PathLike) else str(value)]
        for option, name in _CHECKPOINTS.items()
        if (value := rare.get(name)) is not None
    }
    if not given:
        return asked
    if asked.options.gives_way:
        given["-nice"] = [""]
    if asked.options.remote:
        raise UsageError("remote_io: ranks with such files cannot be written down (checkpoints)")
    from yod.plan.checkpointing import chosen  # few jobs have any

    members, options, invocation, checkpointing, said = launching.begun(
        chosen(given),
        list(asked.members),
        asked.options,
        asked.invocation,
        owns_output=False,
    )
    return replace(
        asked,
        members=tuple(members),
        options=options,
        invocation=invocation,
        checkpointing=checkpointing,
        said=() if options.is_quiet else tuple(said),
    )


def _files(rare: Rare, directory: str) -> RankFiles | None:
    """The files of the ranks; None: what they write is this program's."""
    words = (("-o", rare.get("output", "")), ("-e", rare.get("error", "")))
    given = {option: [os.fsdecode(word)] for option, word in words if word}
    if rare.get("tee"):
        below = directory.replace("%", "%%")  # this process writes them, from where it is
        given = {option: [os.path.join(below, text)] for option, (text,) in given.items()}
        given["--tee"] = [""]
    elif not given:
        return None
    if rare.get("restart"):
        given[checkpoint_options.RESTART] = [""]
    return files.chosen(given, user_name(os.getuid()))


def _strace(rare: Rare) -> Strace | None:
    """The ranks that run under strace; None: none does."""
    given = {}
    if "strace" in rare:
        given["-strace"] = [os.fsdecode(rare["strace"])]
    if "strace_options" in rare:
        words = rare["strace_options"]
        given["-straceoptions"] = [words if isinstance(words, str) else " ".join(words)]
    if "strace_ranks" in rare:
        given["-stracenodes"] = [_listed(rare["strace_ranks"])]
    if not given:
        return None
    others = {"-bt": rare.get("stacks"), "-attach": rare.get("attach")}
    return files.traced({**given, **{name: [""] for name, is_on in others.items() if is_on}})


def _listed(ranks: str | Sequence[int]) -> str:
    return ranks if isinstance(ranks, str) else ",".join(map(str, ranks))


def _absolute(path: Word) -> str:
    return os.path.abspath(os.fsdecode(path))


def _excluded(rare: Rare) -> str:
    """The nodes that it gets none of."""
    if not (nodes := rare.get("exclude")):
        return ""
    return excluded.checked(_listed(nodes))


def _grace(rare: Rare) -> float | None:
    """How long the ranks have between SIGTERM and SIGKILL; None: as the limits say."""
    if (grace_s := rare.get("grace_s")) is None:
        return None
    if not 0 <= grace_s < math.inf:
        raise UsageError(f"grace_s={grace_s}: seconds, 0 or more")
    return float(grace_s)


def _time_limit(rare: Rare) -> TimeLimit | None:
    """How long the ranks may run; None: any time."""
    warning, time_s = rare.get("warning"), rare.get("time_s")
    if time_s is None:
        if warning:
            raise UsageError(f"warning={warning!r}: only with time_s")
        return None
    if not 0 < time_s < math.inf:
        raise UsageError(f"time_s={time_s}: seconds above 0")
    return timelimit.limit(float(time_s), warning or "")
