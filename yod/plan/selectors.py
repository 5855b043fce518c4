"""The options that say on which nodes ranks lie; for the command line and for load files.

What they mean is in :mod:`yod.plan.shape`, which takes longer to import. Pure.
"""

from native.options import Option

OPTIONS = (
    Option(("-N", "-nodes"), True, "On N nodes; alone: a rank on each.", "N"),
    Option(("--ranks-per-node",), True, "At most K ranks on a node; without -sz: K.", "K"),
    Option(("--cores-per-rank",), True, "Each rank has C slots of its node.", "C"),
    Option(("--mem",), True, "Memory on each node: 512M, 4G.", "SIZE"),
    Option(("--mem-per-rank",), True, "Memory for each rank.", "SIZE"),
    Option(("--gpus-per-node",), True, "GPUs on each node, for all ranks there.", "N"),
    Option(("--gpus-per-rank", "--gpus-per-task"), True, "GPUs for each rank.", "N"),
    Option(("--ranks-per-socket", "--ntasks-per-socket"), True, "At most K on each; bound.", "K"),
    Option(("--sockets-per-node",), True, "On S sockets of each node; bound.", "S"),
    Option(("--ranks-per-numa",), True, "At most K in each NUMA node; bound.", "K"),
    Option(("--ranks-per-core", "--ntasks-per-core"), True, "1: cores of its own; bound.", "1"),
    Option(("--bind",), True, "core (or rank), socket, numa, none; see --dry-run.", "WHAT"),
    Option(("--threads-per-core",), True, "T hardware threads of each core; bound.", "T"),
    Option(("--distribution",), True, "Over nodes: block (default), cyclic, plane=K.", "HOW"),
)
