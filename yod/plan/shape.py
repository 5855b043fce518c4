"""How the ranks of a member are to lie on nodes: the options of a command line or of a line
of a load file, and what they say together with a size and a list.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from native.errors import UsageError
from native.text import shown
from native.wire.alloc import NO_NEEDS, Needs, NodeSpec
from native.wire.base import GPUS_MAX, NODE_MAX, SIZE_MAX, SLOTS_MAX
from native.wire.runs import SOCKETS_MAX, THREADS_MAX, Binding, Reach

DIGITS_MAX = 18  # a number of a million digits takes minutes to convert


class Shape(Struct, frozen=True):
    """What is asked for beside ranks and a list; None: nothing is said.

    Attributes:
        node_count: on so many nodes (``-N``).
        per_node: at most so many ranks on each (``--ranks-per-node``).
        cores: slots that each rank takes (``--cores-per-rank``).
        plane: dealt in turn, so many at a time; 0: not dealt (``--distribution``).
        needs: memory and GPUs (``--mem``, ``--mem-per-rank``, ``--gpus-per-node``,
            ``--gpus-per-rank``), and cores that ranks are bound to (:data:`BINDING`).
    """

    node_count: int | None = None
    per_node: int | None = None
    cores: int | None = None
    plane: int | None = None
    needs: Needs | None = None

    def over(self, other: Shape) -> Shape:
        """This one, and where it says nothing the other."""
        names = self.__struct_fields__
        own = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.needs is not None and other.needs is not None:
            own["needs"] = _over(self.needs, other.needs)
        return replace(other, **own)


def _over(needs: Needs, other: Needs) -> Needs:
    """These needs, and where they say nothing of memory, GPUs or a binding, the other's."""
    memory = needs if needs.memory or needs.rank_memory else other
    gpus = needs if needs.node_gpus or needs.gpus else other
    return Needs(memory.memory, memory.rank_memory, gpus.node_gpus, gpus.gpus, _bound(needs, other))


def _bound(needs: Needs, other: Needs) -> Binding | None:
    own, others = needs.binding, other.binding
    if own is None or others is None:
        return own or others
    return Binding(
        own.per_socket or others.per_socket,
        own.sockets or others.sockets,
        own.per_numa or others.per_numa,
        own.threads or others.threads,
        reach=own.reach or others.reach,
    )


ANY = Shape()


def made(
    node_count: int | None,
    per_node: int | None,
    cores: int | None,
    distribution: str | None,
    *,
    memory: str | None = None,
    rank_memory: str | None = None,
    node_gpus: int | None = None,
    gpus: int | None = None,
    per_socket: int | str | None = None,
    sockets: int | str | None = None,
    per_numa: int | str | None = None,
    per_core: int | str | None = None,
    threads: int | str | None = None,
    bind: str | None = None,
) -> Shape:
    """A shape of what a program says.

    Raises:
        UsageError: one is out of its range.
    """
    for name, count, most, what in (
        ("node_count", node_count, NODE_MAX + 1, "node"),
        ("ranks_per_node", per_node, SLOTS_MAX, "rank"),
        ("cores_per_rank", cores, SLOTS_MAX, "core"),
    ):
        if count is not None:
            demand_count(name, count, most, what)
    plane = None if distribution is None else parse_distribution("distribution", distribution)
    shape = Shape(node_count, per_node, cores, plane)
    for option, value in (
        ("--mem", memory),
        ("--mem-per-rank", rank_memory),
        ("--gpus-per-node", node_gpus),
        ("--gpus-per-rank", gpus),
        ("--ranks-per-socket", per_socket),
        ("--sockets-per-node", sockets),
        ("--ranks-per-numa", per_numa),
        ("--ranks-per-core", per_core),
        ("--threads-per-core", threads),
        ("--bind", bind),
    ):
        if value is not None:
            shape = with_option(shape, option, str(value))
    return shape


def parse_count(option: str, value: str, most: int, what: str) -> int:
    """A count from text.

    Raises:
        UsageError: not a whole number from 1 to ``most``.
    """
    digits = value[1:] if value[:1] in ("+", "-") else value
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f"{option} {shown(value)}: not a number of {what}s")
    if len(digits) > DIGITS_MAX:
        raise UsageError(f"{option} {value[:DIGITS_MAX]}...: at most {most} {what}s")
    return demand_count(option, int(value), most, what)


def demand_count(option: str, count: int, most: int, what: str) -> int:
    """The count.

    Raises:
        UsageError: it is not from 1 to ``most``.
    """
    if count < 1:
        raise UsageError(f"{option} {count}: at least 1 {what}")
    if count > most:
        raise UsageError(f"{option} {count}: at most {most} {what}s")
    return count


def parse_distribution(option: str, value: str) -> int:
    """How many ranks at a time are dealt to nodes; 0: they are not dealt.

    Raises:
        UsageError: not ``block``, ``cyclic`` or ``plane=K``.
    """
    word, equals, count = value.partition("=")
    match word, equals:
        case "block", "":
            return 0
        case "cyclic", "":
            return 1
        case "plane", "=":
            return parse_count(f"{option} plane", count, SIZE_MAX, "rank")
    raise UsageError(f"{option} {shown(value)}: block, cyclic or plane=K")


def _node_count(shape: Shape, option: str, value: str) -> Shape:
    return replace(shape, node_count=parse_count(option, value, NODE_MAX + 1, "node"))


def _per_node(shape: Shape, option: str, value: str) -> Shape:
    return replace(shape, per_node=parse_count(option, value, SLOTS_MAX, "rank"))


def _cores(shape: Shape, option: str, value: str) -> Shape:
    return replace(shape, cores=parse_count(option, value, SLOTS_MAX, "core"))


def _plane(shape: Shape, option: str, value: str) -> Shape:
    return replace(shape, plane=parse_distribution(option, value))


def _memory(shape: Shape, option: str, value: str) -> Shape:
    from native.memory import parse_memory  # most launches ask for none

    size = parse_memory(value)
    if size is None:
        raise UsageError(f"{option} {shown(value)}: a size such as 512M or 4G")
    field = "memory" if option == "--mem" else "rank_memory"
    return _with_needs(shape, **{field: size})


def _gpus(shape: Shape, option: str, value: str) -> Shape:
    field = "node_gpus" if option == "--gpus-per-node" else "gpus"
    return _with_needs(shape, **{field: parse_count(option, value, GPUS_MAX, "GPU")})


# The options that bind ranks: field of the binding, largest number, what is counted. Each rank
# has whole cores, so that one rank on a core says no more than that it is bound.
BINDING: dict[str, tuple[str, int, str]] = {
    "--ranks-per-socket": ("per_socket", SLOTS_MAX, "rank"),
    "--sockets-per-node": ("sockets", SOCKETS_MAX, "socket"),
    "--ranks-per-numa": ("per_numa", SLOTS_MAX, "rank"),
    "--ranks-per-core": ("", SLOTS_MAX, "rank"),
    "--threads-per-core": ("threads", THREADS_MAX, "thread"),
}


def _binding(shape: Shape, option: str, value: str) -> Shape:
    field, most, what = BINDING[option]
    count = parse_count(option, value, most, what)
    if not field and count > 1:
        raise UsageError(f"{option} {count}: 1 rank; each has whole cores of its own")
    return _with_binding(shape, **({field: count} if field else {}))


REACHES = {
    "core": Reach.CORE,
    "rank": Reach.CORE,
    "socket": Reach.SOCKET,
    "numa": Reach.NUMA,
}


def _bind(shape: Shape, option: str, value: str) -> Shape:
    if value == "none":
        return shape
    if value not in REACHES:
        raise UsageError(f"{option} {shown(value)}: core (or rank), socket, numa or none")
    return _with_binding(shape, reach=REACHES[value])


def _with_binding(shape: Shape, **fields: int | Reach) -> Shape:
    needs = shape.needs or NO_NEEDS
    binding = replace(needs.binding or Binding(), **fields)
    return replace(shape, needs=replace(needs, binding=binding))


def _with_needs(shape: Shape, **fields: int) -> Shape:
    return replace(shape, needs=replace(shape.needs or NO_NEEDS, **fields))


_READERS: dict[str, Callable[[Shape, str, str], Shape]] = {
    "-N": _node_count,
    "--ranks-per-node": _per_node,
    "--cores-per-rank": _cores,
    "--distribution": _plane,
    "--mem": _memory,
    "--mem-per-rank": _memory,
    "--gpus-per-node": _gpus,
    "--gpus-per-rank": _gpus,
    **dict.fromkeys(BINDING, _binding),
    "--bind": _bind,
}


def is_about(option: str) -> bool:
    """Whether an option, in its first spelling, says something of the shape."""
    return option in _READERS


def with_option(shape: Shape, option: str, value: str) -> Shape:
    """The shape with what one option says.

    Raises:
        UsageError: no such value.
    """
    return _READERS[option](shape, option, value)


def _each(needs: Needs | None) -> int:
    """Ranks of each node, as a binding says; 0: it does not."""
    if needs is None or needs.binding is None:
        return 0
    binding = needs.binding
    if not (binding.per_socket or binding.sockets):
        return binding.per_numa
    return (binding.per_socket or 1) * (binding.sockets or 1)


def spec_of(
    size: int | None, nodes: tuple[int, ...] | None, origin: str, shape: Shape = ANY
) -> NodeSpec:
    """What to ask bebopd for.

    Without a size there are as many ranks as the nodes are to have: of ``-N``, else of the list,
    else one node; one on each, or as many as the shape says, also by sockets or NUMA nodes.

    Raises:
        UsageError: the text names what contradicts what, with numbers.
    """
    where = f"{origin}: " if origin else ""
    listed = nodes or ()
    count, most, cores = shape.node_count or 0, shape.per_node or 0, shape.cores or 1
    plane = shape.plane or 0
    each = most or _each(shape.needs)
    is_one_each = size is None and bool(listed) and not count and not each
    if size is None and (count or each):
        count = count or len(listed) or 1
        size = count * (each or 1)
    if size is None:
        size = len(listed) or 1
    if not 1 <= size <= SIZE_MAX:
        raise UsageError(f"{where}-sz {size}: must be from 1 to {SIZE_MAX}")
    if is_one_each:
        return NodeSpec(size, listed, True, cores=cores, needs=shape.needs)
    if shape == ANY:
        return NodeSpec(size, listed)
    spec = NodeSpec(
        size,
        listed,
        node_count=count,
        per_node=most,
        cores=cores,
        plane=plane,
        needs=shape.needs,
    )
    if text := spec.contradiction:
        raise UsageError(f"{where}{text}: these contradict one another")
    return spec
