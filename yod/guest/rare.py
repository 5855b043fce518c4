"""What few launches of a program ask for: each choice as the option of the command that it is."""

from __future__ import annotations

import math
import os

from msgspec.structs import replace

from native.errors import UsageError
from native.host.userdirs import user_name
from native.wire.group import RankFiles
from yod.guest.choices import Rare
from yod.plan import dialects, excluded, files, switches, timelimit
from yod.plan.input import SHARED, parse
from yod.plan.plan import Options, Style, TimeLimit
from yod.plan.prepared import Records


def asked_for(rare: Rare, options: Options, records: Records) -> tuple[Options, Records]:
    """Options and records of a launch with these choices, too.

    Raises:
        UsageError: they exclude each other, or one is not as its option wants it.
        TypeError: one is no choice at all.
    """
    if strange := next(iter(rare.keys() - Rare.__annotations__.keys()), ""):
        raise TypeError(f"no choice of a launch: {strange!r}")
    if rare.get("timestamp") and options.style is Style.RAW:
        raise UsageError("timestamp and raw exclude each other")
    if "trace" in rare:
        records = replace(records, trace_file=os.path.abspath(os.fsdecode(rare["trace"])))
    ranks, is_shared = options.input_ranks, False
    if ranks and "stdin_ranks" in rare:
        asked = rare["stdin_ranks"]
        text = asked if isinstance(asked, str) else ",".join(map(str, asked))
        ranks, is_shared = parse(text), text == SHARED
    chosen = replace(
        options,
        input_ranks=ranks,
        shares_input=is_shared,
        stops_ranks=rare.get("stop_ranks", False),
        signals_group=rare.get("signal_tree", False),
        has_stamps=rare.get("timestamp", False),
        files=_files(rare),
        time_limit=_time_limit(rare),
        dialects=dialects.parse([rare["rank_variables"]]) if rare.get("rank_variables") else (),
        constraint=rare.get("constraint", ""),
        switches=switches.parse(rare["switches"]) if rare.get("switches") else (0, 0.0),
        exclude=_excluded(rare),
        gives_way=rare.get("nice", False),
        wants_stacks=rare.get("stacks", False),
    )
    return chosen, records


def _files(rare: Rare) -> RankFiles | None:
    """The files of the ranks; None: what they write is this program's."""
    words = (("-o", rare.get("output", "")), ("-e", rare.get("error", "")))
    given = {option: [os.fsdecode(word)] for option, word in words if word}
    return files.chosen(given, user_name(os.getuid())) if given else None


def _excluded(rare: Rare) -> str:
    """The nodes that it gets none of."""
    if not (nodes := rare.get("exclude")):
        return ""
    return excluded.checked(nodes if isinstance(nodes, str) else ",".join(map(str, nodes)))


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
