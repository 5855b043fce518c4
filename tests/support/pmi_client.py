"""A PMI client in front of a conversation, whose requests are answered at once."""

from __future__ import annotations

from pct.wireup.pmi import conversation as pmi

NAME = b"yod_7_cafe"
MAPPING = b"(vector,(0,2,2))"


def identity(rank: int) -> pmi.Identity | None:
    """Ranks 4 to 7 of a job are ranks 0 to 3 of a spawned world; 0 to 3 of the first."""
    if not 0 <= rank < 8:
        return None
    return pmi.Identity(
        rank=rank % 4,
        size=4,
        application=rank % 2,
        key_space=NAME,
        is_spawned=rank >= 4,
        mapping=MAPPING,
    )


class Node:
    """One conversation with a minimal node: a world of this rank alone."""

    def __init__(self, rank: int | None = 2) -> None:
        self.conversation = pmi.Conversation(identity, rank)
        self.requests: list[pmi.Request] = []
        self.pairs: dict[bytes, bytes] = {}
        self.node_pairs: dict[bytes, bytes] = {}
        self.names: dict[bytes, bytes] = {}

    def say(self, data: bytes) -> bytes:
        """The answers of the node to these bytes."""
        for request in self.conversation.receive(data):
            self.requests.append(request)
            self._answer(request)
        return self.conversation.take()

    def _answer(self, request: pmi.Request) -> None:
        conversation = self.conversation
        match request:
            case pmi.Put(key=key, value=value):
                self.pairs[key] = value
                conversation.stored(request)
            case pmi.Get(key=key):
                conversation.found(request, self.pairs.get(key))
            case pmi.PutNode(key=key, value=value):
                self.node_pairs[key] = value
                conversation.stored(request)
            case pmi.GetNode(key=key):
                conversation.found(request, self.node_pairs.get(key))
            case pmi.Fence():
                conversation.fenced(request)
            case pmi.Publish(name=name, port=port):
                error = "already published" if name in self.names else ""
                self.names.setdefault(name, port)
                conversation.published(request, error)
            case pmi.Lookup(name=name):
                conversation.looked_up(request, self.names.get(name))
            case pmi.Unpublish(name=name):
                error = "" if self.names.pop(name, None) else "service not found"
                conversation.unpublished(request, error)
            case pmi.SpawnMultiple():
                conversation.spawned(request, job=b"yod_7_beef")


def frame(body: bytes) -> bytes:
    """A body as PMI-2 sends it."""
    return b"%-6d" % len(body) + body


INIT_1 = b"cmd=init pmi_version=1 pmi_subversion=1\n"
INIT_2 = b"cmd=init pmi_version=2 pmi_subversion=0\n"
JOINED_1 = b"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
JOINED_2 = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n"
FULLINIT = frame(b"cmd=fullinit;pmirank=2;threaded=FALSE;")


def joined(version: int, rank: int | None = 2) -> Node:
    """A node whose client has initialised."""
    node = Node(rank)
    if rank is None:
        node.say(b"cmd=initack pmiid=2\n")
    node.say(INIT_1 if version == 1 else INIT_2 + FULLINIT)
    node.requests.clear()
    return node
