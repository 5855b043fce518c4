"""The options that say on which nodes ranks lie; for the command line and for load files.

What they mean is in :mod:`yod.plan.shape`, which takes longer to import. Pure.
"""

from native.options import Option

OPTIONS = (
    Option(("-N", "-nodes"), True, "On N nodes; alone: a rank on each.", "N"),
    Option(("--ranks-per-node",), True, "At most K ranks on a node; without -sz: K.", "K"),
    Option(("--cores-per-rank",), True, "Each rank has C slots of its node.", "C"),
    Option(("--distribution",), True, "Over nodes: block (default), cyclic, plane=K.", "HOW"),
)
