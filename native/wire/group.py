"""Conversation `group`: a node that has lost its parent asks an ancestor to adopt it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from native.wire.base import NODE_MAX, JobMessage


class Orphan(JobMessage, frozen=True, tag="group.orphan"):
    """To the nearest living ancestor: adopt this node with its subtree.

    Attributes:
        place: the sender's index in the load's nodes.
    """

    place: Annotated[int, Meta(ge=0, le=NODE_MAX)]


class Adopted(JobMessage, frozen=True, tag="group.adopted"):
    """The answer: the sender is the parent now. Messages that the node has missed follow."""
