"""What the nodes of a pilot have, and what of it is free: cores, GPUs, memory, scratch space.

A core belongs to one rank. A GPU belongs to one rank or, in fractions, to several, which get the
same GPU only while their fractions fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from yod.pilot.model.sizes import GPU_PARTS, ChosenSlot, Need, NodeSize, RankSlot

NEEDS_KNOWN_MAX = 1000  # of which it is known whether they can be met


class Node:
    """One node: what is free on it."""

    def __init__(self, size: NodeSize) -> None:
        self.size = size
        self.cores = list(range(size.cores - 1, -1, -1))  # the lowest is taken first
        self.gpu_parts = [GPU_PARTS] * size.gpus  # free, of each
        self.mem_mb = size.mem_mb
        self.lfs_mb = size.lfs_mb

    def room(self, need: Need) -> int:
        """How many ranks fit now, at most as many as are needed."""
        count = min(len(self.cores) // need.cores, need.ranks_per_node or need.ranks, need.ranks)
        if count and need.gpu_parts:
            count = min(count, self._gpu_room(need.gpu_parts))
        if count and need.mem_mb and self.size.mem_mb:
            count = min(count, self.mem_mb // need.mem_mb)
        if count and need.lfs_mb and self.size.lfs_mb:
            count = min(count, self.lfs_mb // need.lfs_mb)
        return count

    def take(self, index: int, need: Need) -> RankSlot:
        """Take what one rank needs; there is room."""
        cores = tuple(self.cores.pop() for _ in range(need.cores))
        self.mem_mb -= need.mem_mb
        self.lfs_mb -= need.lfs_mb
        return RankSlot(index, cores, self._take_gpus(need.gpu_parts))

    def has(self, slot: ChosenSlot, need: Need) -> bool:
        """What the application has chosen for a rank is free."""
        part = min(need.gpu_parts, GPU_PARTS)
        return (
            set(slot.cores) <= set(self.cores)
            and all(gpu < len(self.gpu_parts) for gpu in slot.gpus)
            and all(self.gpu_parts[gpu] >= part for gpu in slot.gpus)
            and not (self.size.mem_mb and need.mem_mb > self.mem_mb)
            and not (self.size.lfs_mb and need.lfs_mb > self.lfs_mb)
        )

    def take_chosen(self, index: int, slot: ChosenSlot, need: Need) -> RankSlot:
        """Take that."""
        for core in slot.cores:
            self.cores.remove(core)
        self.mem_mb -= need.mem_mb
        self.lfs_mb -= need.lfs_mb
        for gpu in slot.gpus:
            self.gpu_parts[gpu] -= min(need.gpu_parts, GPU_PARTS)
        return RankSlot(index, slot.cores, slot.gpus)

    def give_back(self, slot: RankSlot, need: Need) -> None:
        """Free what one rank had."""
        self.cores.extend(reversed(slot.cores))
        self.mem_mb += need.mem_mb
        self.lfs_mb += need.lfs_mb
        parts = min(need.gpu_parts, GPU_PARTS)
        for gpu in slot.gpus:
            self.gpu_parts[gpu] += parts

    @property
    def is_whole(self) -> bool:
        """All of it is free."""
        return len(self.cores) == self.size.cores and all(
            parts == GPU_PARTS for parts in self.gpu_parts
        )

    def _gpu_room(self, parts: int) -> int:
        if parts >= GPU_PARTS:
            return sum(free == GPU_PARTS for free in self.gpu_parts) // (parts // GPU_PARTS)
        return sum(free // parts for free in self.gpu_parts)

    def _take_gpus(self, parts: int) -> tuple[int, ...]:
        if not parts:
            return ()
        whole = max(1, parts // GPU_PARTS)
        each = min(parts, GPU_PARTS)
        # One that is in use already first: whole ones stay whole.
        order = sorted(range(len(self.gpu_parts)), key=lambda gpu: (self.gpu_parts[gpu], gpu))
        taken = tuple([gpu for gpu in order if self.gpu_parts[gpu] >= each][:whole])
        for gpu in taken:
            self.gpu_parts[gpu] -= each
        return taken


class Shelf:
    """Nodes that are alike. However many, one is put there, taken away or found at once."""

    def __init__(self) -> None:
        self.nodes: list[int] = []
        self._places: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.nodes)

    def put(self, node: int) -> None:
        """One more node, if it is not there."""
        if node not in self._places:
            self._places[node] = len(self.nodes)
            self.nodes.append(node)

    def drop(self, node: int) -> None:
        """One node less, if it is there."""
        place = self._places.pop(node, None)
        if place is not None:
            last = self.nodes.pop()
            if last != node:
                self.nodes[place] = last
                self._places[last] = place


class Slots:
    """All nodes of a pilot.

    Nodes are on shelves by the number of their free cores. A task of one node gets the fullest that
    has room, so that emptier ones are left for larger tasks; ranks that may lie on several nodes
    get the emptiest.

    Args:
        backups: so many nodes, the last ones, rest until others are lost.
    """

    def __init__(self, sizes: Sequence[NodeSize], backups: int = 0) -> None:
        first = len(sizes) - backups  # of those that rest
        self._backups = {n: sizes[n] for n in range(first, len(sizes))}
        self.nodes = [Node(size if n < first else _none(size)) for n, size in enumerate(sizes)]
        self.free_cores = sum(node.size.cores for node in self.nodes)
        self.cores = self.free_cores
        largest = max((size.cores for size in sizes), default=0)
        self._shelves = [Shelf() for _ in range(largest + 1)]  # by free cores
        self._with_gpus = Shelf()  # nodes with some part of a GPU free
        self._shelf_of: list[int] = [node.size.cores for node in self.nodes]
        for n in reversed(range(len(self.nodes))):  # the first one is found first
            self._shelves[self._shelf_of[n]].put(n)
            self._look_at_gpus(n)
        self._tags: dict[str, tuple[int, ...]] = {}
        self._exclusive: dict[int, str] = {}  # node -> its tag
        self._never: dict[Need, str] = {}

    def why_never(self, need: Need) -> str:
        """Why a task can never run here; empty: it can, when all is free."""
        known = self._never.get(need)
        if known is None:
            if len(self._never) >= NEEDS_KNOWN_MAX:
                self._never.clear()
            known = self._never[need] = self._why_never(need)
        return known

    def place(self, need: Need) -> list[RankSlot] | None:
        """Take slots for a task; None: they are not free now."""
        if need.ranks * need.cores > self.free_cores:
            return None
        found = self._search(need) if not need.chosen else []
        slots = [self.nodes[n].take(n, need) for n, count in found for _ in range(count)]
        if need.chosen:
            slots = self._take_chosen(need)
            found = [(n, 0) for n in dict.fromkeys(slot.node for slot in slots)]
        if not slots:
            return None
        self.free_cores -= need.ranks * need.cores
        for n, _ in found:
            self._shelve(n)
        if need.tag and need.tag not in self._tags:
            self._tags[need.tag] = tuple(n for n, _ in found)
            if need.is_exclusive:
                self._exclusive |= dict.fromkeys(self._tags[need.tag], need.tag)
        return slots

    def free(self, slots: Iterable[RankSlot], need: Need) -> None:
        """Give back what a task had."""
        for slot in slots:
            if self.nodes[slot.node].size.cores:  # else it is lost
                self.nodes[slot.node].give_back(slot, need)
                self.free_cores += need.cores
                self._shelve(slot.node)

    def lose(self, index: int) -> None:
        """A node is not there any more; what is held on it may still be given back.

        A backup node takes its place, where there is one.
        """
        if self._backups.pop(index, None) is not None:
            return
        node = self.nodes[index]
        self.free_cores -= len(node.cores)
        self.cores -= node.size.cores
        self.nodes[index] = Node(_none(node.size))
        self._shelve(index)
        if node.size.cores and self._backups:
            self._wake(min(self._backups))
        self._never.clear()
        for tag in [tag for tag, nodes in self._tags.items() if index in nodes]:
            for other in self._tags.pop(tag):
                self._exclusive.pop(other, None)

    def _wake(self, n: int) -> None:
        """A backup node is one like the others from now on."""
        size = self._backups.pop(n)
        self.nodes[n] = Node(size)
        self.free_cores += size.cores
        self.cores += size.cores
        self._shelve(n)

    def check(self) -> None:
        """Nothing is free twice, and no more than there is."""
        for n, node in enumerate(self.nodes):
            assert len(set(node.cores)) == len(node.cores) <= node.size.cores
            assert all(0 <= core < node.size.cores for core in node.cores)
            assert all(0 <= parts <= GPU_PARTS for parts in node.gpu_parts)
            assert not node.size.mem_mb or 0 <= node.mem_mb <= node.size.mem_mb
            assert n in self._shelves[len(node.cores)].nodes
            assert (n in self._with_gpus.nodes) == any(node.gpu_parts)
        assert self.free_cores == sum(len(node.cores) for node in self.nodes)
        assert sum(map(len, self._shelves)) == len(self.nodes)

    def _why_never(self, need: Need) -> str:
        if need.chosen:
            return self._why_never_chosen(need)
        rooms = [Node(node.size).room(need) for node in self.nodes]
        largest = max((node.size for node in self.nodes), key=lambda size: size.cores)
        if not any(rooms):
            return (
                f"a rank needs {_words(need)}; the largest node has {largest.cores} cores,"
                f" {largest.gpus} GPUs and {largest.mem_mb} MB"
            )
        room = sum(rooms) if need.is_spread else max(rooms)
        if room < need.ranks:
            where = "the pilot has" if need.is_spread else "one node has"
            return (
                f"{need.ranks} ranks are needed, each with {_words(need)}; {where} room for {room}"
            )
        return ""

    def _take_chosen(self, need: Need) -> list[RankSlot]:
        """Take what the application has chosen; empty: some of it is not free."""
        taken: list[RankSlot] = []
        for slot in need.chosen:
            n = self._index_of(slot)
            is_ours = self._exclusive.get(n, need.tag) == need.tag
            if n < 0 or not is_ours or not self.nodes[n].has(slot, need):
                for each in taken:
                    self.nodes[each.node].give_back(each, need)
                return []
            taken.append(self.nodes[n].take_chosen(n, slot, need))
        return taken

    def _index_of(self, slot: ChosenSlot) -> int:
        """The node that is chosen; -1: there is none."""
        if slot.name:
            names = (n for n, node in enumerate(self.nodes) if node.size.name == slot.name)
            return next(names, -1)
        return slot.node if slot.node < len(self.nodes) else -1

    def _why_never_chosen(self, need: Need) -> str:
        whole = [Node(node.size) for node in self.nodes]
        for rank, slot in enumerate(need.chosen):
            n = self._index_of(slot)
            where = f"'slots' has rank {rank} on node {slot.name or slot.node}, which"
            if n < 0:
                return f"{where} the pilot does not have"
            size = whole[n].size
            if not size.cores:
                return f"{where} is " + ("a backup node" if n in self._backups else "lost")
            if max(slot.cores) >= size.cores:
                return f"{where} has {size.cores} cores and no core {max(slot.cores)}"
            if slot.gpus and max(slot.gpus) >= size.gpus:
                return f"{where} has {size.gpus} GPUs and no GPU {max(slot.gpus)}"
            if not whole[n].has(slot, need):
                return f"{where} has not so much for all ranks that 'slots' has there"
            whole[n].take_chosen(n, slot, need)
        return ""

    def _search(self, need: Need) -> list[tuple[int, int]]:
        """Nodes and how many ranks go on each; empty: there is no room."""
        found: list[tuple[int, int]] = []
        left = need.ranks
        for n in self._candidates(need):
            if self._exclusive and self._exclusive.get(n, need.tag) != need.tag:
                continue
            room = self.nodes[n].room(need)
            if not need.is_spread and room < need.ranks:
                continue
            if room:
                found.append((n, min(room, left)))
                left -= found[-1][1]
            if not left:
                return sorted(found)
        return []

    def _candidates(self, need: Need) -> Iterable[int]:
        tagged = self._tags.get(need.tag) if need.tag else None
        if tagged:
            yield from tagged
            return
        if need.gpu_parts:
            yield from reversed(self._with_gpus.nodes)
            return
        if need.is_spread:
            shelves = self._shelves[: need.cores - 1 : -1]
        else:
            shelves = self._shelves[need.cores * need.ranks :]
        for shelf in shelves:
            yield from reversed(shelf.nodes)

    def _shelve(self, n: int) -> None:
        """Put a node where it belongs now."""
        now = len(self.nodes[n].cores)
        if now != self._shelf_of[n]:
            self._shelves[self._shelf_of[n]].drop(n)
            self._shelves[now].put(n)
            self._shelf_of[n] = now
        self._look_at_gpus(n)

    def _look_at_gpus(self, n: int) -> None:
        if any(self.nodes[n].gpu_parts):
            self._with_gpus.put(n)
        else:
            self._with_gpus.drop(n)


def _none(size: NodeSize) -> NodeSize:
    """A node of this name with nothing."""
    return NodeSize(size.name, 0)


def _words(need: Need) -> str:
    words = [f"{need.cores} cores"]
    words += [f"{need.gpu_parts / GPU_PARTS:g} GPUs"] if need.gpu_parts else []
    words += [f"{need.mem_mb} MB"] if need.mem_mb else []
    return ", ".join(words)
