"""What to use in place of an option of another launcher, or of Cplant's yod.

Imported if an option is not known. Options with the same meaning here (``-n``, ``-np``) are
in :mod:`yod.cli`; ``-l``, ``-q`` and ``-t`` there are Cplant's.
"""

from __future__ import annotations

from native.options import PREFIX_MIN

_DEBUG = "-D shows what happens, --version the version"
_NODES = "use -list L for nodes, by number (pingd shows them), -N N for a count of nodes"
_HOSTS = "use -list L for nodes, by number; the pct of a host gives it its number (docs/pct.md)"
_RANKS = "use -sz N for ranks; they go to the free slots of the partition or of -list L"
_PER_NODE = "use --ranks-per-node K, with -N for the count of nodes"
_BINDING = (
    "use --bind core, socket or numa (ldoms) to bind each rank to its cores, or to all of their"
    " socket or NUMA node (--dry-run shows them); none is the default"
)
_ORDER = (
    "use --distribution block, cyclic or plane=K for the order of ranks over nodes,"
    " --ranks-per-node K for how many"
)
_CORES = "use --cores-per-rank C for slots of each rank, with --ranks-per-core 1 to bind it to them"
_GPUS = "use --gpus-per-rank N, or --gpus-per-node N; each rank sees its own"
_MEMORY = "use --mem SIZE for memory on each node, --mem-per-rank SIZE for that of each rank"
_ENVIRONMENT = "ranks have the environment of yod: env NAME=VALUE yod ..."
_DIRECTORY = "use --chdir DIR for the directory of the ranks"
_INPUT = "rank 0 reads standard input; --stdin all, none or RANKS for others: yod ... <FILE"
_ENDS = (
    "a rank that fails ends the job after a delay: --grace T sets it, -kill sets none,"
    " --keep-going ends nothing"
)
_LINES = "yod shows whole lines, with --raw bytes as they come; a program may buffer its own output"
_LABEL = "use --label for the rank in front of each line"
_TIME = "use -time T for a time limit: 90 minutes, 1:30:00; -t is -timing"
_MEMBERS = "use a load file for several programs, a line each: yod LOAD-FILE"
_BATCH = "that is for jobs that wait in a queue: yodjob submit --help"
_AFTER = "use --after afterok:17 for a job, in an allocation afterok:17.3 for a step of it"
_START = (
    "-attach holds all ranks at their entry, shows their processes, and goes on by Enter;"
    " --pty=RANK gdb PROGRAM runs a rank in a debugger"
)
_SLOTS = "the embedded partition takes any number of ranks, a node its slots"
_PROGRAM = "yod sends a program to the nodes that do not have it; its libraries must be there"
_STATUS = "Ctrl-C ends the ranks in order, the second time at once"
_QUEUES = "use -queue NAME for a queue: priorities and limits are those of queues"

# By name without dashes. Letters first; then the original's; then long names.
TABLE = {
    "f": "use -file NAME for the completion report, -list L for nodes",
    "v": _DEBUG,
    "V": "use --version for the version",
    "w": _NODES,
    "d": _DEBUG,
    "i": _INPUT,
    "k": _ENDS,
    "K": _ENDS,
    "c": _CORES,
    "s": _RANKS,
    "p": "use -queue NAME for a queue, --partition ADDRESS for a partition",
    "g": "use -bt for the stacks of ranks that die by a signal",
    "u": _LINES,
    "H": _HOSTS,
    "J": _BATCH,
    "A": "use -account NAME",
    "r": _PER_NODE,
    "m": _ORDER,
    "W": _ENDS,
    "O": _SLOTS,
    "Q": "use -quiet to see errors only",
    "E": _ENVIRONMENT,
    "X": _STATUS,
    "xxx": "programs carry no link version here",
    "Log": "-D -D shows each message",
    "NOBUF": _LINES,
    "nid": "use --partition host:port for another bebopd",
    "pid": "use --partition host:port for another bebopd",
    "comm": "there is nothing to set",
    "vhelp": "-help shows all options, docs/yod.md explains them",
    "verbose": _DEBUG,
    "Debug": "-D shows what happens, -D -D each message",
    "debug": "-D shows what happens, -D -D each message",
    "ntasks": _RANKS,
    "nodelist": _NODES,
    "hosts": _HOSTS,
    "host": _HOSTS,
    "hostlist": _HOSTS,
    "hostfile": _HOSTS,
    "machinefile": _HOSTS,
    "machine": _HOSTS,
    "ppn": _PER_NODE,
    "npernode": _PER_NODE,
    "ntasks-per-node": _PER_NODE,
    "tasks-per-node": _PER_NODE,
    "oversubscribe": _SLOTS,
    "overcommit": _SLOTS,
    "allow-run-as-root": "root needs no option to run yod",
    "cpus-per-task": _CORES,
    "cores-per-task": _CORES,
    "cpus-per-proc": _CORES,
    "cpus-per-rank": _CORES,
    "cpu-bind": _BINDING,
    "bind-to": _BINDING,
    "npersocket": "use --ranks-per-socket K, with -N for the count of nodes",
    "hint": "use --threads-per-core 1 for nomultithread",
    "map-by": _ORDER,
    "rank-by": _ORDER,
    "gpus": _GPUS,
    "G": _GPUS,
    "gres": _GPUS,
    "gpus-per-socket": _GPUS,
    "gpu-bind": _GPUS,
    "mem-per-cpu": _MEMORY,
    "mem-per-gpu": _MEMORY,
    "bcast": _PROGRAM,
    "send-libs": _PROGRAM,
    "disable-status": _STATUS,
    "qos": _QUEUES,
    "preserve-env": _ENVIRONMENT,
    "export": _ENVIRONMENT,
    "env": _ENVIRONMENT,
    "genv": _ENVIRONMENT,
    "genvall": _ENVIRONMENT,
    "envall": _ENVIRONMENT,
    "mca": "Open MPI's settings are variables: env OMPI_MCA_NAME=VALUE yod ...",
    "wdir": _DIRECTORY,
    "wd": _DIRECTORY,
    "cwd": _DIRECTORY,
    "input": _INPUT,
    "kill-on-bad-exit": _ENDS,
    "exit-timeout": _ENDS,
    "kill-after": "use --grace T for the time from SIGTERM to SIGKILL",
    "no-kill": "use --keep-going to let the other ranks run when one fails",
    "timeout": _TIME,
    "multi-prog": _MEMBERS,
    "configfile": _MEMBERS,
    "app": _MEMBERS,
    "job-name": _BATCH,
    "dependency": _AFTER,
    "unbuffered": _LINES,
    "prepend-rank": _LABEL,
    "tag-output": _LABEL,
    "output-filename": "use -o 'out.%t' for a file of each rank, with --tee also shown",
    "open-mode": "files of ranks are emptied; with --restart they go on",
}


def explain(name: str) -> str:
    """What to use for an option of another launcher; empty: not known.

    Of a name that is shortened, to as many letters as ours, the shortest one is meant.
    """
    if text := TABLE.get(name):
        return text
    begun = [known for known in TABLE if known.startswith(name) and len(name) >= PREFIX_MIN]
    return TABLE[min(begun, key=len)] if begun else ""
