"""Conversation `pmi`: the key-value space of a job, merged up and spread down."""

from msgspec import Struct

from native.wire.base import U32, JobId, Message


class KeyValue(Struct, frozen=True, array_like=True):
    """One pair, as the client put it."""

    key: bytes
    value: bytes


class FenceIn(Message, frozen=True, tag="pmi.fence_in"):
    """Up: every rank of this subtree is in the barrier; what they put since the last.

    Attributes:
        number: counts the job's barriers from 0.
        is_last: nothing follows from this child for this barrier.
    """

    job_id: JobId
    number: U32
    pairs: tuple[KeyValue, ...]
    is_last: bool


class FenceOut(Message, frozen=True, tag="pmi.fence_out"):
    """Down: all ranks are in; all that was put."""

    job_id: JobId
    number: U32
    pairs: tuple[KeyValue, ...]
    is_last: bool
