"""Conversation `group`: a node whose parent is lost finds an ancestor."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from native.wire.base import NODE_MAX, JobMessage


class Orphan(JobMessage, frozen=True, tag="group.orphan"):
    """To the nearest living ancestor: take me and my subtree.

    Attributes:
        place: the sender's index in the load's nodes.
    """

    place: Annotated[int, Meta(ge=0, le=NODE_MAX)]


class Adopted(JobMessage, frozen=True, tag="group.adopted"):
    """The answer: I am your parent now. What the job needs you to do follows."""
