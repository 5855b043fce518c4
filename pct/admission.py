"""Does a node take a load message? Only if bebopd has granted what it claims.

The node does not trust the sender, yod or another PCT. It trusts the credential in the
message, which is signed with the partition's key, and compares the message with it.
"""

from __future__ import annotations

from collections.abc import Callable

from native.ids import Principal, PrincipalKind
from native.limits import Limits
from native.wire import codec, io, load
from pct.job.rules.objects import misfit
from pct.reservation import Reservation
from pct.tree import tree


class Admission:
    """Checks load messages for one node.

    Args:
        reservation: the node's slots, of which an admitted job takes its own.
        is_signed: tells whether a credential's MAC is the partition key's.
        unix_time: wall-clock seconds.
    """

    def __init__(
        self,
        reservation: Reservation,
        limits: Limits,
        is_signed: Callable[[bytes, bytes], bool],
        unix_time: Callable[[], float],
    ) -> None:
        self._reservation = reservation
        self._limits = limits
        self._is_signed = is_signed
        self._unix_time = unix_time

    def why_not(self, principal: Principal, message: load.Load, number: int) -> str | None:
        """Check everything that a load message claims, and take the slots.

        Args:
            principal: what the sender has proven.
            number: of this node.

        Returns:
            None when the job has its slots; else why not.
        """
        if not self._is_signed(message.credential, message.credential_mac):
            return "the credential is not this partition's"
        credential = codec.decode_credential(message.credential)
        if credential.job_id != message.job_id:
            return f"a credential of job {credential.job_id} for job {message.job_id}"
        if principal.kind is PrincipalKind.JOB and principal.uid != credential.uid:
            return f"user {principal.uid} uses a grant of user {credential.uid}"
        if codec.nodes_digest(message.nodes) != credential.nodes_digest:
            return "the nodes are not the grant's"
        here = message.nodes[message.place]
        if here.node != number:
            return f"this is node {number}, not {here.node}"
        children = len(tree.children(message.place, len(message.nodes), message.arity))
        windows = message.output_window_bytes * len(io.STREAMS) * (1 + children)
        most = self._limits.job_store_bytes
        if windows > most:
            return (
                f"windows of {windows} bytes for output, at most {most}:"
                " lower YOD_OUTPUT_WINDOW_BYTES, or raise YOD_JOB_STORE_BYTES of the pct"
            )
        if (beyond := message.nodes.beyond(message.runs)) is not None:
            node = message.nodes[beyond[0]]
            return f"{beyond[1]} ranks on node {node.node}, {node.slots} granted"
        if text := _bad_arguments(message, message.runs.size, self._limits.arguments_max_bytes):
            return text
        refused = self._reservation.take(credential, here.slots, self._unix_time(), number)
        return refused[1] if refused else None


def _bad_arguments(message: load.Load, ranks: int, most_bytes: int) -> str:
    """Why the members or the object that carries them cannot be taken; empty: they can."""
    if message.arguments is not None:
        return misfit(message.arguments, ranks, 0, len(message.objects))
    if not message.objects:
        return "neither arguments nor an object that holds them"
    size = message.objects[0].size
    if not 1 <= size <= most_bytes:
        return f"arguments of {size} bytes: arguments_max_bytes of this node is {most_bytes}"
    return ""
