"""The command ``yod``."""

from __future__ import annotations

import os
import signal
import sys

import click

from native import nodelist, options
from native.errors import UsageError, YodError
from yod import api, image, loadfile, request
from yod.report import NEVER_STARTED, SIGNAL_BASE


@click.command(
    add_help_option=False,
    context_settings={"allow_interspersed_args": False, "max_content_width": 100},
    options_metavar="{options}",
)
@click.option("-sz", "-size", "size", metavar="N", help="Number of ranks.")
@click.option("-list", "nodes", metavar="L", help="Only these nodes, ranks in this order: 5,1..3.")
@click.option("-timing", is_flag=True, help="Show the seconds spent in each phase.")
@click.option("-quiet", is_flag=True, help="No status messages.")
@click.option("-file", "report_file", metavar="NAME", help="Append the completion report to NAME.")
@click.option("-kill", is_flag=True, help="Kill the job at once when a rank ends abnormally.")
@click.option("-batch", is_flag=True, help="Not interactive: no input, -kill.")
@click.option("-interactive", is_flag=True, help="Interactive, also inside a batch job.")
@click.option("-D", "debug", count=True, help="Show what happens; twice: each message.")
@click.option("--keep-going", is_flag=True, help="A rank's abnormal end ends nothing else.")
@click.option("--partition", metavar="ADDRESS", default="", help="host:port, unix:PATH, embedded.")
@click.option("--dry-run", is_flag=True, help="Show what would be launched.")
@click.option("-help", "--help", "wants_help", is_flag=True, help="Show this text.")
@click.argument("program", required=False, type=click.UNPROCESSED)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def command(
    context: click.Context,
    size: str | None,
    nodes: str | None,
    timing: bool,
    quiet: bool,
    report_file: str | None,
    kill: bool,
    batch: bool,
    interactive: bool,
    debug: int,
    keep_going: bool,
    partition: str,
    dry_run: bool,
    wants_help: bool,
    program: str | None,
    arguments: tuple[str, ...],
) -> int:
    """Run PROGRAM, or the programs of a load file, on the nodes of a partition.

    Each line of a load file is {-sz N} {-list L} program {args}; all its programs
    share one world of ranks. Everything behind PROGRAM is the program's.
    """
    if wants_help:
        click.echo(context.get_help())
        return 0
    if program is None:
        raise UsageError("no program; usage: yod {options} program {args} (yod -help)")
    if batch and interactive:
        raise UsageError("-batch and -interactive exclude each other")
    if kill and keep_going:
        raise UsageError("-kill and --keep-going exclude each other")
    is_batch = batch or (not interactive and _is_batch_job())
    chosen = request.Options(
        is_quiet=quiet,
        kills_at_once=(kill or is_batch) and not keep_going,
        keeps_going=keep_going,
        has_input=not is_batch,
        debug=debug,
    )
    members = _members(size, nodes, program, arguments, quiet)

    def before(plan: request.Plan, where: str) -> bool:
        if dry_run:
            _show_plan(members, plan, where)
        return not dry_run

    result = api.launch(members, chosen, partition=partition, before=before)
    if result is None:
        return 0
    _show_result(result, quiet, timing, report_file)
    return result.exit_status


def _members(
    size_text: str | None,
    nodes_text: str | None,
    program: str,
    arguments: tuple[str, ...],
    is_quiet: bool,
) -> list[request.Member]:
    size = loadfile.parse_size("-sz", size_text) if size_text is not None else None
    nodes = tuple(nodelist.parse(nodes_text)) if nodes_text is not None else None
    path = image.find(program)
    if not image.is_load_file(path):
        return request.from_command_line(size, nodes, (program, *arguments))
    if arguments:
        raise UsageError(f"{program} is a load file (it has no execute permission): no arguments")
    lines = loadfile.parse(image.read_load_file(path), program)
    members, warnings = request.from_load_file(lines, size, nodes)
    for text in warnings:
        if not is_quiet:
            _say(text)
    return members


def _show_plan(members: list[request.Member], plan: request.Plan, where: str) -> None:
    print(f"partition: {where}")
    first = 0
    for member, load in zip(members, plan.arguments.members, strict=True):
        spec, last = member.spec, first + member.spec.size - 1
        ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
        nodes = f" on nodes {nodelist.format_nodes(spec.nodes)}" if spec.nodes else ""
        path = os.fsdecode(plan.objects[load.object_index].path)
        print(f"{ranks}{nodes}: {path} {' '.join(member.words[1:])}".rstrip())
        first = last + 1


def _show_result(
    result: api.Result, is_quiet: bool, wants_timing: bool, report_file: str | None
) -> None:
    report = result.report
    if report_file is not None and report.job_id:
        try:
            with open(report_file, "a", encoding="utf-8") as file:
                file.write(" ".join(sys.argv) + "\n" + "\n".join(report.table()) + "\n")
        except OSError as error:
            _say(f"{report_file}: {error.strerror}; the report follows here")
            for line in report.table():
                _say(line)
    is_pipe_closed = result.exit_status == SIGNAL_BASE + signal.SIGPIPE and not report.reason
    if report.completions and not is_quiet and not is_pipe_closed:
        for line in report.summary():
            _say(line)
    if wants_timing:
        total = 0.0
        for phase, seconds, slowest in result.timing:
            total += seconds
            _say(f"{phase:<10} {seconds:8.4f} s" + (f"  slowest: {slowest}" if slowest else ""))
        _say(f"{'total':<10} {total:8.4f} s")


def _is_batch_job() -> bool:
    """In a batch job that nobody sits in front of."""
    return os.environ.get("PBS_ENVIRONMENT", "PBS_INTERACTIVE") != "PBS_INTERACTIVE"


def _say(text: str) -> None:
    sys.stderr.write(f"yod: {text}\n")


def _open_closed_streams() -> None:
    """Give descriptors 0 to 2 the null device where the caller has closed them.

    Other files of ours would get these numbers else.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number
    sys.stdout = sys.stdout or os.fdopen(1, "w")
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def main() -> None:
    """Entry point: the exit status tells what happened."""
    _open_closed_streams()
    try:
        words = options.expand(sys.argv[1:], options.of_click(command.params))
        status = command.main(words, "yod", standalone_mode=False)
    except YodError as error:
        _say(str(error))
        status = error.exit_status
    except click.ClickException as error:
        _say(error.format_message())
        status = NEVER_STARTED
    except KeyboardInterrupt:  # before the loop takes signals
        status = 130
    sys.stdout.flush()
    sys.exit(status)


if __name__ == "__main__":
    main()
