"""The options of `yodjob submit`, by the names that the rest of the code has for their values.

Those about queues and processors are options of `yodjob alloc`, too, and the first of all commands.
"""

from __future__ import annotations

from native.allocated import SYSTEMS_VARIABLE
from native.options import Option

PARTITION = Option(("--partition",), True, "host:port or unix:PATH of the bebopd.", "ADDRESS")
JSON = Option(("--json",), False, "For programs.")
EVENTS = Option(("--events",), False, "What has happened to them.")
SIGNAL = Option(("-signal",), True, "Before its time is over: to steps; B: to it.", "[B:]SIG@S")

BOUND = {
    "per_socket": Option(
        ("--ranks-per-socket",), True, "At most so many on a socket; bound to cores.", "K"
    ),
    "sockets": Option(
        ("--sockets-per-node",), True, "On so many sockets of each node; likewise.", "S"
    ),
    "per_numa": Option(
        ("--ranks-per-numa",), True, "At most so many in a NUMA node; likewise.", "K"
    ),
    "per_core": Option(("--ranks-per-core",), True, "Each is bound to cores of its own.", "1"),
    "threads": Option(
        ("--threads-per-core",), True, "Bound to so many hardware threads of each core.", "T"
    ),
}
IN_QUEUE = {
    "queue": Option(
        ("-queue", "-p"), True, "Of the partition; see bebopd.", "NAME", variable="YODJOB_QUEUE"
    ),
    "account": Option(
        ("-account", "-A"), True, "That is charged for it.", "NAME", variable="YODJOB_ACCOUNT"
    ),
    "licences": Option(("-licenses", "-L"), True, "Needed while it has slots.", "NAME:N"),
    "constraint": Option(("--constraint", "-C"), True, "Features of its nodes: a&b.", "EXPR"),
    "exclude": Option(("--exclude", "-x"), True, "None of these nodes: 3,5..7,n9.", "L"),
    "switches": Option(("--switches",), True, "Below few leaf switches; 1@30:00.", "N[@TIME]"),
}

OPTIONS = {  # in the order of the help
    "size": Option(("-sz", "-n"), True, "Slots.", "N", variable="YODJOB_SZ"),
    "nodes": Option(("-list",), True, "Only of these nodes: 5,1..3.", "L"),
    "node_count": Option(("-N", "-nodes"), True, "On so many nodes.", "N"),
    "per_node": Option(("--ranks-per-node",), True, "At most so many there.", "K"),
    "cores": Option(("--cores-per-rank",), True, "So many slots for one.", "C"),
    "memory": Option(("--mem",), True, "Memory on each node: 512M, 4G.", "SIZE"),
    "rank_memory": Option(("--mem-per-rank",), True, "Memory for each slot of -sz.", "SIZE"),
    "node_gpus": Option(("--gpus-per-node",), True, "GPUs on each node.", "N"),
    "gpus": Option(("--gpus-per-rank",), True, "GPUs for each slot of -sz.", "N"),
    **BOUND,
    "distribution": Option(("--distribution",), True, "Over nodes: block, cyclic, plane=K.", "HOW"),
    "is_exclusive": Option(("--exclusive",), False, "All slots of unused nodes."),
    "time_text": Option(
        ("-time",), True, "For so long: minutes, or h:mm:ss.", "T", variable="YODJOB_TIME"
    ),
    "output": Option(
        ("-o", "-output"), True, "For output; %j is the id.", "FILE", variable="YODJOB_OUTPUT"
    ),
    "name": Option(("-name", "-J"), True, "Default: the script's.", "NAME", variable="YODJOB_NAME"),
    "directory": Option(("-directory", "--chdir"), True, "To run in; default: this one.", "DIR"),
    "wrap": Option(("--wrap",), True, "A command of the shell, instead of a script.", "COMMAND"),
    **IN_QUEUE,
    "nice": Option(("-nice", "--nice"), True, "Give up so many points of priority.", "N"),
    "requeue_on": Option(("--requeue-on",), True, "Then it waits again: 75.", "STATUS"),
    "requeue_lost": Option(("--requeue",), False, "It does when nodes are lost."),
    "checkpoints": Option(("--checkpoint-dir",), True, "CRIU writes the script down there.", "DIR"),
    "after": Option(("--after",), True, "When other jobs have ended well.", "afterok:ID"),
    "begin": Option(("-begin", "--begin", "-b"), True, "Not before: 18:30, now+2:00:00.", "WHEN"),
    "deadline": Option(("-deadline", "--deadline"), True, "Over by then, or not begun.", "WHEN"),
    "array": Option(("-array", "--array", "-a"), True, "Many: 0-99, or 0-99%10 at once.", "RANGES"),
    "warning": SIGNAL,
    "is_held": Option(("-hold", "--hold", "-H"), False, "Until `yodjob release`."),
    "is_test": Option(("--test-only",), False, "Say when and where it would begin."),
    "waits": Option(("--wait",), False, "Wait for its end, with its exit status."),
    "systems": Option(
        ("--as",),
        True,
        "Variables for the script also as slurm, or pbs.",
        "WHOSE",
        variable=SYSTEMS_VARIABLE,
    ),
    "is_sbatch": Option(("--as-sbatch",), False, "Say so in sbatch's words."),
    "is_quiet": Option(("-quiet",), False, "Print the id and nothing else."),
    "partition": PARTITION,
}

_OF_THE_COMMAND = ("wrap", "is_test", "waits", "is_sbatch", "is_quiet", "partition")
# What a #YOD line may say.
IN_SCRIPT = {name: option for name, option in OPTIONS.items() if name not in _OF_THE_COMMAND}
