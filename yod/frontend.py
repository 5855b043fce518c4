"""The command ``yod`` behind its options: members, launch, report."""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise

from native.start import lean  # noqa: F401

# isort: split
from native import nodelist
from native.errors import ProgramNotFoundError, UsageError
from native.host import stdio
from native.text import shown
from native.waitstatus import SIGNAL_BASE
from yod import api
from yod.plan import loadfile
from yod.plan.plan import Member, Options, Plan, Style, from_command_line, from_load_file
from yod.program import image

Given = dict[str, list[str]]  # option -> its values, in the order given


def run(given: Given, words: list[str]) -> int:
    """Launch ``words``: a program and its arguments, or a load file.

    Returns:
        The exit status, or minus the number of the signal that ended the job.

    Raises:
        YodError: the launch could not begin.
    """
    if "-batch" in given and "-interactive" in given:
        raise UsageError("-batch and -interactive exclude each other")
    if "-kill" in given and "--keep-going" in given:
        raise UsageError("-kill and --keep-going exclude each other")
    if "--label" in given and "--raw" in given:
        raise UsageError("--label and --raw exclude each other")
    is_batch = "-batch" in given or ("-interactive" not in given and _is_batch_job())
    keeps_going, is_quiet = "--keep-going" in given, "-quiet" in given
    chosen = Options(
        is_quiet=is_quiet,
        kills_at_once=("-kill" in given or is_batch) and not keeps_going,
        keeps_going=keeps_going,
        has_input=not is_batch,
        mpi=_last(given, "--mpi") or "auto",
        libpmix=_last(given, "--libpmix") or "",
        has_portals="--with-portals" in given,
        debug=len(given.get("-D", ())),
        style=_style(given),
    )
    program, *arguments = words
    size, nodes = _last(given, "-sz"), _last(given, "-list")
    members = _members(size, nodes, program, tuple(arguments), is_quiet)

    def before(plan: Plan, where: str) -> bool:
        if "--dry-run" in given:
            _show_plan(members, plan, where)
        return "--dry-run" not in given

    partition = _last(given, "--partition") or ""
    result = api.launch(members, chosen, partition=partition, before=before)
    if result is None:
        return 0
    _show_result(result, is_quiet, "-timing" in given, _last(given, "-file"))
    return -result.report.interrupted_by or result.exit_status


def _last(given: Given, name: str) -> str | None:
    """The last value that an option was given; None: it was not."""
    return given[name][-1] if name in given else None


def _style(given: Given) -> Style:
    """How the ranks' output is shown."""
    if "--label" in given:
        return Style.LABELLED
    return Style.RAW if "--raw" in given else Style.WHOLE


def _members(
    size_text: str | None,
    nodes_text: str | None,
    program: str,
    arguments: tuple[str, ...],
    is_quiet: bool,
) -> list[Member]:
    size = loadfile.parse_size("-sz", size_text) if size_text is not None else None
    nodes = tuple(nodelist.parse(nodes_text)) if nodes_text is not None else None
    try:
        path = image.find(program)
    except ProgramNotFoundError as error:
        hint = f"; use -sz {program} for ranks" if program.isdecimal() else ""
        raise ProgramNotFoundError(f"{error}{hint}") from None
    if not image.is_load_file(path):
        if not is_quiet and (text := _other_program(program, arguments)):
            _say(text)
        return from_command_line(size, nodes, (program, *arguments))
    if arguments:
        raise UsageError(
            f"{shown(program)} is a load file (it has no execute permission): no arguments"
        )
    lines = loadfile.parse(image.read_load_file(path), shown(program))
    members, warnings = from_load_file(lines, size, nodes)
    for text in warnings:
        if not is_quiet:
            _say(text)
    return members


def _other_program(program: str, arguments: tuple[str, ...]) -> str:
    """A warning if the arguments look like ``: -n 2 other``, which mpiexec takes; else empty."""
    for colon, option in pairwise(arguments):
        if colon == ":" and option in ("-n", "-np", "-sz", "-c", "--np"):
            return (
                f"`: {option} ...` is an argument of {shown(program)} here; "
                "use a load file for several programs"
            )
    return ""


def _show_plan(members: list[Member], plan: Plan, where: str) -> None:
    print(f"partition: {where}")
    first = 0
    for member, load in zip(members, plan.arguments.members, strict=True):
        spec, last = member.spec, first + member.spec.size - 1
        ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
        nodes = f" on nodes {nodelist.format_nodes(spec.nodes)}" if spec.nodes else ""
        words = [shown(plan.objects[load.object_index].path), *map(shown, member.words[1:])]
        print(f"{ranks}{nodes}: {' '.join(words)}".rstrip())
        first = last + 1
    offered = " and ".join(protocol.value for protocol in plan.mpi.offered) or "none"
    print(f"mpi: {offered} ({plan.mpi_reason})")
    for text in plan.warnings:
        print(text)
    if plan.mpi.has_portals:
        print("portals: each rank has an address, the job's key and the map of all")


def _show_result(
    result: api.Result, is_quiet: bool, wants_timing: bool, report_file: str | None
) -> None:
    report = result.report
    if report.was_left:
        is_quiet, wants_timing = True, False  # the user did not wait, nor for these lines
    words: list[str] = []
    if report_file is not None and report.job_id:
        try:
            with open(report_file, "a", encoding="utf-8") as file:
                file.write(" ".join(sys.argv) + "\n" + "\n".join(report.table()) + "\n")
        except OSError as error:
            why = (error.strerror or "").lower()
            words.append(f"{shown(report_file)}: {why}; the report follows here")
            words += report.table()
    is_pipe_closed = result.exit_status == SIGNAL_BASE + signal.SIGPIPE and not report.reason
    if (report.completions or report.lost) and not (is_quiet or words or is_pipe_closed):
        words += report.summary()
    if wants_timing:
        total = 0.0
        for phase, seconds, slowest in result.timing:
            total += seconds
            text = f"{phase:<10} {seconds:8.4f} s"
            words.append(text + (f"  slowest: {slowest}" if slowest else ""))
        words.append(f"{'total':<10} {total:8.4f} s")
    if words and result.is_line_open:
        stdio.say("")
    for line in words:
        _say(line)


def _is_batch_job() -> bool:
    """Whether yod runs in a PBS job that is not interactive."""
    return os.environ.get("PBS_ENVIRONMENT", "PBS_INTERACTIVE") != "PBS_INTERACTIVE"


def _say(text: str) -> None:
    stdio.say(f"yod: {text}")
