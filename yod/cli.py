"""The command ``yod``: its options, its help, its exit status.

The modules that a launch needs are imported when the options ask for a launch.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import MutableMapping
from functools import cache

from native import options
from native.allocated import HOOKS_VARIABLE
from native.errors import UsageError, YodError
from native.host import hookfile, stdio
from native.options import Option
from native.text import shown
from yod.plan.checkpoint_options import OPTIONS as CHECKPOINT_OPTIONS
from yod.plan.checkpoint_options import RESTART
from yod.plan.selectors import OPTIONS as SHAPE_OPTIONS

# yod reads them by native.options. All other commands use click, but importing click takes
# a quarter of the time of a short launch.
OPTIONS = (
    Option(("-sz", "-size", "-n", "-np"), True, "Number of ranks.", "N"),
    Option(("-list", "-l"), True, "Only these nodes, ranks in this order: 5,1..3.", "L"),
    *SHAPE_OPTIONS,
    Option(("-timing", "-t"), False, "Show the seconds spent in each phase."),
    Option(("-quiet", "-q"), False, "No status messages."),
    Option(("--completions",), False, "Show how each rank ended, and what it has used."),
    Option(("-bt",), False, "Show the stacks of ranks that die by a signal."),
    Option(("-attach",), False, "Hold the ranks at their entry for debuggers, until Enter."),
    Option(("-sleep",), True, "Hold the ranks 60 s: 1, 2 before exec; 3, 4 at their entry.", "N"),
    Option(("-alloc",), False, "Show the nodes when the ranks are loaded, and ask to let them go."),
    Option(("-show",), False, "Show which yod this is, and how it launches the programs."),
    Option(("-strace",), True, "Run rank 0 under strace, with its output in DIR.", "DIR"),
    Option(("-straceoptions",), True, "Further options of strace.", "OPTIONS"),
    Option(("-stracenodes",), True, "Other ranks instead: all, or 0,4..7.", "RANKS"),
    Option(("--stall",), True, "Show the stacks when no rank does anything for so long.", "T"),
    Option(("-file",), True, "Append the completion report to NAME.", "NAME"),
    Option(("--report",), True, "Append how the job ended to FILE, as a line of JSON.", "FILE"),
    Option(("--trace",), True, "Write the launch to FILE, as a trace for Perfetto.", "FILE"),
    Option(("-kill",), False, "Kill the job at once when a rank ends abnormally."),
    Option(("-batch",), False, "Not interactive: no input, -kill."),
    Option(("-interactive",), False, "Interactive, also inside a batch job."),
    Option(("-D",), False, "Show what happens; twice: each message."),
    Option(("--exit",), True, "As Cplant's yod: 0, 1 it failed, 2 it never began.", "cplant"),
    Option(("--keep-going",), False, "Let the others run when a rank ends abnormally."),
    Option(("--label",), False, "Put its rank in front of each line of output."),
    Option(("--merge",), False, "Show the same line of several ranks once, behind their numbers."),
    Option(("--raw",), False, "Show output as it comes, not in whole lines."),
    Option(("--timestamp",), False, "Put the time in front of each line of output."),
    Option(("--no-stdin",), False, "Leave standard input to others, as in `while read`."),
    Option(("--stdin",), True, "Who reads it: all, shared, none, or ranks: 0,4..7.", "RANKS"),
    Option(("--pty",), True, "A terminal for rank 0, or RANK.", "[=RANK]", may_lack_value=True),
    Option(("--as",), True, "Rank variables also as slurm, pals, flux, ompi or torch.", "WHOSE"),
    Option(("-time",), True, "Let the ranks run for so long: 90, 1:30:00.", "T"),
    Option(("-signal",), True, "Warn them S seconds before that: USR1@60.", "SIG@S"),
    Option(("--grace",), True, "From SIGTERM to SIGKILL: 0:30; 0: kill at once.", "T"),
    Option(("--stop-ranks",), False, "Ctrl-Z stops the ranks, too, and fg continues both."),
    Option(("--signal-tree",), False, "Each signal reaches the helpers of the ranks, too."),
    Option(("--chdir",), True, "The ranks run in DIR.", "DIR"),
    Option(("-o", "--output"), True, "The ranks write to files: 'out.%t'.", "PATTERN"),
    Option(("-e", "--error"), True, "Their standard error, to others.", "PATTERN"),
    Option(("--tee",), False, "The ranks' files are yod's, and yod shows the output, too."),
    Option(("--remote-io",), True, "The files below DIR are those of this host.", "DIR"),
    Option(("--mpi",), True, "Offer auto (default), pmi1, pmi2, pmix or none.", "WHAT"),
    Option(("--libpmix",), True, "The PMIx library to use.", "PATH"),
    Option(("--with-portals",), False, "The ranks use Portals, though no program is linked to it."),
    Option(("--partition",), True, "host:port, unix:PATH, embedded.", "ADDRESS"),
    Option(("--wait",), True, "Wait for nodes, at most S seconds.", "[=S]", may_lack_value=True),
    Option(("--immediate",), True, "In an allocation: do not.", "[=S]", may_lack_value=True),
    Option(("--after",), True, "First others end: afterok:ID.", "KIND:ID"),
    Option(("--exclusive",), False, "Whole nodes, which nobody else uses."),
    Option(("--constraint",), True, "Nodes with these features: a&b, a|b.", "EXPR"),
    Option(("-queue",), True, "In this queue of the partition.", "NAME"),
    Option(("-account",), True, "This account is charged.", "NAME"),
    Option(("--exclude", "-x"), True, "None of these nodes: 3,5..7,n9.", "L"),
    Option(("--retries",), True, "Launch again without a node that fails, N times.", "N"),
    Option(("--switches",), True, "Below so few leaf switches, waiting for TIME.", "N[@TIME]"),
    Option(("-nice",), False, "Give way: end when another launch or job needs the slots."),
    Option(("--overlap",), False, "A step shares the slots of others."),
    Option(("--detach",), False, "Print the job's id and leave; yodjob attach shows its output."),
    Option(("--detach-on-hangup",), False, "The job goes on when its terminal is lost."),
    *CHECKPOINT_OPTIONS,
    Option(("--arity",), True, "Children of a node in the job's tree.", "N"),
    Option(("--dry-run",), False, "Show what would be launched."),
    Option(("-help", "-h"), False, "Show this text."),
    Option(("--version",), False, "Show which yod this is."),
)

USAGE = "usage: yod {options} program {args}  or  yod {options} load-file"
HELP = f"""{USAGE}

  Run a program, or the programs of a load file, on the nodes of a partition.

  Each line of a load file is {{-sz N}} {{-list L}} program {{args}}; all its programs
  share one MPI_COMM_WORLD. All words after the program are its arguments. An
  option may be shortened to four or more letters that begin no other option.

Options:
"""


def command(argv: list[str]) -> int:
    """Read the command line; launch, or print what it asks for.

    Returns:
        The exit status, or minus the number of the signal that ended the job.

    Raises:
        YodError: the launch could not begin.
    """
    given, words = parse(argv, os.environb)
    if "-help" in given:
        sys.stdout.write(HELP + options.describe(OPTIONS))
        if site := _site_options(os.environb):
            sys.stdout.write("\nOptions of this site:\n" + options.describe([*site.values()]))
        return 0
    if "--version" in given:
        sys.stdout.write(f"yod {_version()}\n")
        return 0
    if not words and RESTART not in given:
        raise UsageError(f"no program{_taken(argv, given)}; {USAGE} (yod -help)")
    from yod import frontend  # help needs none of it

    return frontend.run(given, words)


def parse(
    argv: list[str], environment: MutableMapping[bytes, bytes]
) -> tuple[dict[str, list[str]], list[str]]:
    """Read a command line: the values of each option, and the words from the program on.

    Options that the site adds become variables, as which hooks and ranks find them.

    Args:
        environment: of the launch.

    Raises:
        UsageError: it is none.
    """
    site = _site_options(environment)
    known = (*OPTIONS, *site.values()) if site else _table()
    given, words = options.parse(argv, known, explain_option)
    for variable, option in site.items():
        if values := given.pop(option.spellings[0], None):
            environment[variable.encode()] = os.fsencode(values[-1] or "1")
    return given, words


@cache
def _table() -> options.Table:
    """Of yod's own options."""
    return options.Table(OPTIONS)


def _taken(argv: list[str], given: dict[str, list[str]]) -> str:
    """Which option has taken the last word, that may have been meant as the program."""
    *_, option, word = ("", "", *argv)
    if not option.startswith("-") or word not in (values[-1] for values in given.values()):
        return ""
    text = f": {shown(word)} is the value of {option}"
    return f"{text}, which is -list here; --label shows ranks" if option == "-l" else text


def _site_options(environment: MutableMapping[bytes, bytes]) -> dict[str, Option]:
    """Those that the site adds, each by its variable.

    Raises:
        UsageError: the site's file says what no manifest says, or has one of yod's own.
    """
    path = environment.get(HOOKS_VARIABLE.encode(), b"")
    found = hookfile.read({HOOKS_VARIABLE: os.fsdecode(path)})
    if found is None:
        return {}
    own = {name.lstrip("-") for option in OPTIONS for name in option.spellings}
    for each in found.options:
        if each.name in own:
            raise UsageError(f"{shown(found.path)}: [[option]] {each.name}: yod has it already")
    return {
        each.variable: Option((f"--{each.name}",), bool(each.argument), each.help, each.argument)
        for each in found.options
    }


def explain_option(name: str) -> str:
    """What is said of an option that yod does not have."""
    from yod import elsewhere  # only for an option that is not known

    return elsewhere.explain(name)


def _version() -> str:
    from importlib.metadata import version  # slow to import

    return version("yod")


def main() -> int:
    """The command.

    Returns:
        The exit status, or minus the number of the signal that is to end yod.
    """
    stdio.open_closed()
    sys.argv[0] = sys.argv[0].removesuffix("-cold")  # the user has started yod
    try:
        status = command(sys.argv[1:])
    except YodError as error:
        stdio.say(f"yod: {error}")
        status = error.exit_status
    except KeyboardInterrupt:  # before the loop handles signals
        status = -signal.SIGINT
    return stdio.ended("yod", status, YodError.exit_status)
