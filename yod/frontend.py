"""The command ``yod`` behind its options: members, launch, report."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from math import inf

from native import nodelist
from native.errors import ProgramNotFoundError, UsageError, YodError
from native.host import stdio
from native.text import shown
from native.wire.group import Dialect
from yod import launching
from yod.host import own
from yod.plan import loadfile
from yod.plan.checkpoint_options import OPTIONS as CHECKPOINT_OPTIONS
from yod.plan.checkpoint_options import RESTART
from yod.plan.invocation import Invocation
from yod.plan.plan import (
    RANK_0,
    Member,
    Options,
    Ranges,
    Style,
    demand_arity,
    demand_name,
    from_command_line,
    from_load_file,
    strace_of,
)
from yod.plan.prepared import Prepared, Records
from yod.plan.shape import ANY, is_about, with_option
from yod.program import image

CHECKPOINT_NAMES = tuple(option.spellings[0] for option in CHECKPOINT_OPTIONS)

SLEEP_S = 60.0  # of -sleep, as Cplant's yod had it

Given = dict[str, list[str]]  # option -> its values, in the order given

_EXCLUSIVE = (
    ("-batch", "-interactive"),
    ("-kill", "--keep-going"),
    ("--label", "--raw"),
    *(("--merge", other) for other in ("--label", "--raw", "--pty")),
    ("--timestamp", "--raw"),
    ("--wait", "--immediate"),
    ("--exclusive", "--overlap"),
    ("--stdin", "--no-stdin"),
    *(("--pty", other) for other in ("--stdin", "--no-stdin", "-batch", "-o", "-e", "--tee")),
)


def run(given: Given, words: list[str]) -> int:
    """Launch ``words``: a program and its arguments, or a load file.

    Returns:
        The exit status, or minus the number of the signal that ended the job.

    Raises:
        YodError: the launch could not begin.
    """
    invocation = own.invocation(tuple(sys.argv))
    if "--detach" in given:
        from yod import detaching  # few launches are detached

        return detaching.detach(given, words, lambda: _members(given, words, invocation)[0])
    prepared = prepare(given, words, invocation)
    if "--dry-run" in given:
        for text in _plan_lines(prepared):
            print(text)
        for text in launching.binding(prepared.plan.specs, _last(given, "--partition") or ""):
            print(text)
        return 0
    if "-show" in given:
        from importlib.metadata import version  # slow to import

        for text in (f"yod {version('yod')}", *_plan_lines(prepared)):
            stdio.say(f"yod: {text}")
    with _status_of_failure(given):
        result = launching.run(prepared, invocation)
        if prepared.plan.options.retries and result.failure is not None:
            from yod import retrying  # few launches are tried again

            result = retrying.again(
                result,
                prepared,
                invocation,
                lambda exclude: _prepared({**given, "--exclude": [exclude]}, words, invocation),
            )
        return result.command_status


@contextmanager
def _status_of_failure(given: Given) -> Iterator[None]:
    """Gives errors the exit status that the user wants (``--exit``)."""
    try:
        yield
    except YodError as error:
        if "--exit" in given:
            from yod.plan.cplant import NEVER_STARTED  # few launches ask for it

            error.exit_status = NEVER_STARTED
        raise


def prepare(given: Given, words: list[str], invocation: Invocation) -> Prepared:
    """Prepare a launch of ``words``: a program and its arguments, or a load file.

    The current directory of this process must be that of the invocation.

    Raises:
        YodError: the launch cannot begin.
    """
    with _status_of_failure(given):
        return _prepared(given, words, invocation)


def _prepared(given: Given, words: list[str], invocation: Invocation) -> Prepared:
    if ends_as_cplant := "--exit" in given:
        from yod.plan.cplant import check  # few launches ask for it

        check(given["--exit"][-1])
    for one, other in _EXCLUSIVE:
        if one in given and other in given:
            raise UsageError(f"{one} and {other} exclude each other")
    is_batch = "-batch" in given or ("-interactive" not in given and _is_batch_job(invocation))
    keeps_going, is_quiet = "--keep-going" in given, "-quiet" in given
    asks_user = "-alloc" in given and "-attach" not in given and not is_batch
    sleeps = "-sleep" in given
    awaits_user = "-attach" in given or asks_user or sleeps
    time_limit = grace_s = None
    if "-time" in given or "-signal" in given or "--grace" in given:
        from yod.plan import timelimit  # few launches have one

        time_limit, grace_s = timelimit.chosen(given), timelimit.grace(given)
    files = None
    if "-o" in given or "-e" in given or "--tee" in given:
        from native.host.userdirs import user_name  # likewise
        from yod.plan.files import chosen as chosen_files

        files = chosen_files(given, user_name(os.getuid()))
    switches = (0, 0.0)
    if (text := _last(given, "--switches")) is not None:
        from yod.plan.switches import parse as parse_switches  # likewise

        switches = parse_switches(text)
    window, input_ranks = None, _input_ranks(given, is_batch)
    if (text := _last(given, "--pty")) is not None:
        from yod.host.rawmode import size_of  # likewise
        from yod.plan.input import parse_rank

        if not os.isatty(0):
            raise UsageError("--pty needs a terminal: yod's standard input is none")
        window, input_ranks = size_of(0), parse_rank(text)
    chosen = Options(
        is_quiet=is_quiet,
        kills_at_once=("-kill" in given or is_batch) and not keeps_going,
        keeps_going=keeps_going,
        input_ranks=input_ranks,
        mpi=_last(given, "--mpi") or "auto",
        libpmix=_last(given, "--libpmix") or "",
        has_portals="--with-portals" in given,
        debug=len(given.get("-D", ())),
        style=_style(given),
        overlaps="--overlap" in given,
        is_exclusive="--exclusive" in given,
        constraint=_last(given, "--constraint") or "",
        switches=switches,
        exclude=_excluded(given, invocation),
        queue=demand_name("-queue", _last(given, "-queue") or ""),
        account=demand_name("-account", _last(given, "-account") or ""),
        retries=_retries(given, invocation),
        gives_way="-nice" in given,
        wait_s=_wait_s(given),
        arity=_arity(given),
        after=_last(given, "--after") or "",
        detaches_on_hangup="--detach-on-hangup" in given,
        has_stamps="--timestamp" in given,
        directory=_last(given, "--chdir") or "",
        time_limit=time_limit,
        grace_s=grace_s,
        files=None if "--tee" in given else files,
        tee=files if "--tee" in given else None,
        dialects=_dialects(given),
        window=window,
        remote=_remote(given),
        wants_stacks="-bt" in given,
        stall_s=_stall_s(given),
        signals_group="--signal-tree" in given,
        stops_ranks="--stop-ranks" in given,
        awaits_user=awaits_user,
        asks_user=asks_user,
        strace=strace_of(given),
        goes_by_enter=awaits_user and bool(input_ranks) and os.isatty(0),
        goes_after_s=SLEEP_S if sleeps else 0.0,
        holds_before_exec=_sleeps_before_exec(given),
        ends_as_cplant=ends_as_cplant,
        shares_input=_last(given, "--stdin") == "shared",
        tells_times="--trace" in given,
    )
    members: list[Member] | None = None
    warnings: list[str] = []
    checkpointing = None
    if words:
        members, warnings = _members(given, words, invocation)
    elif "-sz" in given:
        raise UsageError(f"{RESTART} without a program has the ranks of the checkpoint: no -sz")
    if any(name in given for name in CHECKPOINT_NAMES):
        from yod.plan.checkpointing import chosen as chosen_checkpoints  # few jobs have any

        given_checkpoints = chosen_checkpoints(given)
        members, chosen, invocation, checkpointing, said = launching.begun(
            given_checkpoints, members, chosen, invocation, owns_output="--dry-run" not in given
        )
        warnings += said
    assert members is not None
    if "-alloc" in given and not asks_user:
        why = "-attach holds the ranks, too" if "-attach" in given else "the job is not interactive"
        warnings.append(f"-alloc is ignored: {why}")
    return launching.prepare(
        members,
        chosen,
        invocation,
        checkpointing=checkpointing,
        partition=_last(given, "--partition") or "",
        records=Records(
            has_summary=not is_quiet,
            has_completions="--completions" in given,
            has_timing="-timing" in given,
            report_file=_last(given, "-file") or "",
            json_file=_last(given, "--report") or "",
            trace_file=_last(given, "--trace") or "",
        ),
        warnings=[] if is_quiet else warnings,
        is_reached="--dry-run" not in given,
        monotonic=time.monotonic,
    )


def _last(given: Given, name: str) -> str | None:
    """The last value that an option was given; None: it was not."""
    return given[name][-1] if name in given else None


def _wait_s(given: Given) -> float | None:
    """How long to wait for nodes; None: the user has not said."""
    for option, else_s, meaning in (("--wait", inf, "any time"), ("--immediate", 0.0, "none")):
        if (text := _last(given, option)) is None:
            continue
        try:
            seconds = float(text) if text else else_s
        except ValueError:
            seconds = -1.0
        if text and not seconds > 0:
            raise UsageError(f"{option}={shown(text)}: seconds above 0, or {option} for {meaning}")
        return seconds
    return None


def _input_ranks(given: Given, is_batch: bool) -> Ranges:
    """The ranks that read standard input."""
    if (text := _last(given, "--stdin")) is not None:
        from yod.plan.input import parse  # few launches say it

        return parse(text)
    return () if is_batch or "--no-stdin" in given else RANK_0


def _dialects(given: Given) -> tuple[Dialect, ...]:
    """Whose rank variables there are beside ours."""
    if "--as" not in given:
        return ()
    from yod.plan.dialects import parse  # few launches name any

    return parse(given["--as"])


def _remote(given: Given) -> tuple[bytes, ...]:
    """The directories whose files are this host's."""
    if "--remote-io" not in given:
        return ()
    if any(name in given for name in CHECKPOINT_NAMES):
        raise UsageError("--remote-io: ranks with such files cannot be written down (checkpoints)")
    from yod.remote.directories import present  # few launches have any

    return present(given["--remote-io"], "--remote-io")


def _excluded(given: Given, invocation: Invocation) -> str:
    """The nodes that the job gets none of, as the user wrote them."""
    if (text := _last(given, "--exclude")) is None:
        return ""
    from yod.plan.excluded import checked  # few launches have any

    return checked(text, invocation.environment)


def _sleeps_before_exec(given: Given) -> bool:
    """Whether ``-sleep`` holds the ranks before their exec.

    Cplant's four points were two on each side of it: behind fork and before exec, in the start-up
    code and before main.

    Raises:
        UsageError: it has no such point, or another option holds the ranks.
    """
    point = _last(given, "-sleep")
    if point is None:
        return False
    if point not in ("1", "2", "3", "4"):
        text = "1 and 2 hold the ranks before exec, 3 and 4 at their entry"
        raise UsageError(f"-sleep {shown(point)}: {text}")
    for other in ("-attach", "-alloc"):
        if other in given:
            raise UsageError(f"-sleep and {other} exclude each other: {other} holds for any time")
    return point in ("1", "2")


def _retries(given: Given, invocation: Invocation) -> int:
    """How often the launch is tried again if it fails before go."""
    text = _last(given, "--retries")
    if text is None and b"YODRETRYCOUNT" not in invocation.environment:
        return 0
    from yod import retrying  # few launches are

    return retrying.chosen(text, invocation.environment)


def _stall_s(given: Given) -> float:
    """How long the ranks may show no sign of life before they are looked at; 0: any time."""
    if (text := _last(given, "--stall")) is None:
        return 0.0
    from native import duration  # few launches

    return float(duration.parse(text, "--stall"))


def _arity(given: Given) -> int:
    """Children of a node in the job's tree; 0: the user has not said."""
    if (text := _last(given, "--arity")) is None:
        return 0
    is_number = text.isascii() and text.isdigit() and len(text) <= 18
    return demand_arity(int(text) if is_number else 0, f"--arity {shown(text)}")


def _style(given: Given) -> Style:
    """How the ranks' output is shown."""
    if "--label" in given:
        return Style.LABELLED
    if "--merge" in given:
        return Style.MERGED
    return Style.RAW if "--raw" in given else Style.WHOLE


def _members(
    given: Given, words: list[str], invocation: Invocation
) -> tuple[list[Member], list[str]]:
    """The members of a command line, and warnings for the user."""
    program, *arguments = words
    size_text, nodes_text = _last(given, "-sz"), _last(given, "-list")
    size = loadfile.parse_size("-sz", size_text) if size_text is not None else None
    nodes = tuple(nodelist.parse(nodes_text)) if nodes_text is not None else None
    shape = ANY
    for option in filter(is_about, given):
        shape = with_option(shape, option, given[option][-1])
    try:
        path = image.find(program, invocation)
    except ProgramNotFoundError as error:
        raise ProgramNotFoundError(f"{error}{_meant(program, given)}") from None
    if not image.is_load_file(path):
        text = _other_program(program, arguments)
        members = from_command_line(size, nodes, tuple(words), shape, path)
        return members, [text] if text else []
    if arguments:
        raise UsageError(
            f"{shown(program)} is a load file (it has no execute permission): no arguments"
        )
    lines = loadfile.parse(image.read_load_file(path), shown(program))
    return from_load_file(lines, size, nodes, shape)


def _meant(program: str, given: Given) -> str:
    """What a number may have been meant as, in place of the program; empty: it is none."""
    if not program.isdecimal():
        return ""
    if "-timing" in given:
        return f"; -t is -timing, which has no value: use -time {program} for a time limit"
    return f"; use -sz {program} for ranks"


def _other_program(program: str, arguments: list[str]) -> str:
    """A warning if the arguments look like ``: -n 2 other``, which mpiexec takes; else empty."""
    for colon, option in pairwise(arguments):
        if colon == ":" and option in ("-n", "-np", "-sz", "-c", "--np"):
            return (
                f"`: {option} ...` is an argument of {shown(program)} here; "
                "use a load file for several programs"
            )
    return ""


def _plan_lines(prepared: Prepared) -> Iterator[str]:
    """What would be launched, for people."""
    plan = prepared.plan
    yield f"partition: {prepared.partition}"
    first = 0
    for spec, load in zip(plan.specs, plan.arguments.members, strict=True):
        last = first + spec.size - 1
        ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
        nodes = f" on nodes {nodelist.format_nodes(spec.nodes)}" if spec.nodes else ""
        words = [shown(plan.objects[load.object_index].path), *map(shown, load.arguments[1:])]
        yield f"{ranks}{nodes}: {' '.join(words)}".rstrip()
        first = last + 1
    offered = " and ".join(protocol.value for protocol in plan.mpi.offered) or "none"
    yield f"mpi: {offered} ({plan.mpi_reason})"
    yield from plan.warnings
    if plan.mpi.has_portals:
        yield "portals: each rank has an address, the job's key and the map of all"


def _is_batch_job(invocation: Invocation) -> bool:
    """Whether yod runs in a PBS job that is not interactive."""
    interactive = b"PBS_INTERACTIVE"
    return invocation.environment.get(b"PBS_ENVIRONMENT", interactive) != interactive
