"""What options of other launchers, and of Cplant's yod, are here.

Imported when an option is not known. Those that mean here what they mean elsewhere
(``-n``, ``-np``) are among yod's own; ``-l``, ``-q`` and ``-t`` are the original's.
"""

from __future__ import annotations

_DEBUG = "what happens is shown by -D, the version by --version"
_NODES = "nodes are -list L, by number (pingd shows them); ranks are -sz N"
_HOSTS = "nodes are -list L, by number; a host gets one by its pct (docs/pct.md)"
_RANKS = "ranks are -sz N, on the free slots of a partition or of -list L"
_BINDING = "yod binds no rank; all of a node use the processors that its pct may use"
_ENVIRONMENT = "ranks have yod's environment: env NAME=VALUE yod ..."
_DIRECTORY = "ranks run in yod's directory: cd DIR && yod ..."
_OUTPUT = "output is yod's: yod ... >FILE; the completion report is -file NAME"
_INPUT = "standard input is yod's, and rank 0's: yod ... <FILE; -interactive is written in full"
_ENDS = "a rank's abnormal end ends the job, with -kill at once, not with --keep-going"
_LINES = "output comes in whole lines, as it comes with --raw; what a program holds back is its own"
_LABEL = "the rank in front of each line is --label"
_TIME = "a time limit is timeout SECONDS yod ...; -t is -timing"
_MEMBERS = "several programs are lines of a load file: yod LOAD-FILE"
_BATCH = "yod queues nothing: what does not fit now is refused"
_TRACING = "this yod does not trace or debug ranks"
_START = "this yod does not stop between the load and main"

# By name without dashes. Letters first; then the original's; then long names.
TABLE = {
    "f": "the completion report is -file NAME, nodes are -list L",
    "v": _DEBUG,
    "V": "the version is --version",
    "w": _NODES,
    "N": _NODES,
    "d": _DEBUG,
    "i": _INPUT,
    "k": _ENDS,
    "K": _ENDS,
    "c": _BINDING,
    "x": f"{_ENVIRONMENT}; nodes are -list L",
    "o": _OUTPUT,
    "e": _OUTPUT,
    "s": _RANKS,
    "p": "a partition is --partition ADDRESS",
    "g": _TRACING,
    "u": _LINES,
    "H": _HOSTS,
    "J": _BATCH,
    "A": _BATCH,
    "r": "ranks fill the slots of a node in order",
    "m": "ranks fill the slots of nodes in their order, or in that of -list",
    "W": _ENDS,
    "alloc": _START,
    "attach": _START,
    "sleep": _START,
    "bt": _TRACING,
    "strace": _TRACING,
    "straceoptions": _TRACING,
    "stracenodes": _TRACING,
    "nice": "this yod has no jobs of low priority",
    "show": "programs carry no link version here; --dry-run shows what would be launched",
    "xxx": "programs carry no link version here",
    "Log": "what happens is shown by -D -D",
    "NOBUF": _LINES,
    "nid": "another bebopd is --partition host:port",
    "pid": "another bebopd is --partition host:port",
    "comm": "there is nothing to set",
    "vhelp": "all options are in -help, more in docs/yod.md",
    "verbose": _DEBUG,
    "debug": "what happens is shown by -D; twice, each message",
    "ntasks": _RANKS,
    "nodes": _NODES,
    "nodelist": _NODES,
    "exclude": _NODES,
    "hosts": _HOSTS,
    "host": _HOSTS,
    "hostlist": _HOSTS,
    "hostfile": _HOSTS,
    "machinefile": _HOSTS,
    "machine": _HOSTS,
    "ppn": "a node takes as many ranks as its pct has slots (yodctl up --slots K, pct --slots K)",
    "npernode": "a node takes as many ranks as its pct has slots (pct --slots K)",
    "ntasks-per-node": "a node takes as many ranks as its pct has slots (pct --slots K)",
    "tasks-per-node": "a node takes as many ranks as its pct has slots (pct --slots K)",
    "oversubscribe": "the embedded partition takes any number of ranks, a node its slots",
    "overcommit": "the embedded partition takes any number of ranks, a node its slots",
    "allow-run-as-root": "root needs no option",
    "cpus-per-task": _BINDING,
    "cores-per-task": _BINDING,
    "cpu-bind": _BINDING,
    "bind-to": _BINDING,
    "map-by": _BINDING,
    "rank-by": "ranks fill the slots of nodes in their order, or in that of -list",
    "distribution": "ranks fill the slots of nodes in their order, or in that of -list",
    "gpus-per-task": _BINDING,
    "export": _ENVIRONMENT,
    "env": _ENVIRONMENT,
    "genv": _ENVIRONMENT,
    "genvall": _ENVIRONMENT,
    "envall": _ENVIRONMENT,
    "mca": "Open MPI's settings are variables: env OMPI_MCA_NAME=VALUE yod ...",
    "wdir": _DIRECTORY,
    "wd": _DIRECTORY,
    "chdir": _DIRECTORY,
    "cwd": _DIRECTORY,
    "output": _OUTPUT,
    "error": _OUTPUT,
    "input": _INPUT,
    "stdin": _INPUT,
    "kill-on-bad-exit": _ENDS,
    "no-kill": "a rank's abnormal end ends nothing else with --keep-going",
    "wait": _ENDS,
    "time": _TIME,
    "timeout": _TIME,
    "multi-prog": _MEMBERS,
    "configfile": _MEMBERS,
    "app": _MEMBERS,
    "immediate": _BATCH,
    "account": _BATCH,
    "job-name": _BATCH,
    "unbuffered": _LINES,
    "prepend-rank": _LABEL,
    "tag-output": _LABEL,
    "pty": "yod gives ranks no terminal",
}


def explain(name: str) -> str:
    """What to use here for an option of another launcher; empty: not known."""
    return TABLE.get(name, "")
