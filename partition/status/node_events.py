"""What yodctl prints of what has happened to nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from time import localtime, strftime

from msgspec import json

from native.text import shown
from native.wire.nodes import NodeEvent


def text(events: Sequence[NodeEvent], is_json: bool) -> str:
    """Lines for people, or an object for programs."""
    if is_json:
        records = [_record(event) for event in events]
        return json.format(json.encode({"events": records}), indent=1).decode() + "\n"
    return "".join(f"{line(event)}\n" for event in events)


def line(event: NodeEvent) -> str:
    """Time, node, what has happened, by whom and why."""
    at = strftime("%Y-%m-%d %H:%M:%S", localtime(event.at))
    name = f" ({shown(event.name)})" if event.name else ""
    by = f" by {shown(event.by)}" if event.by else ""
    why = f": {shown(event.text)}" if event.text else ""
    return f"{at}  node {event.node}{name}  {event.kind.value}{by}{why}"


def _record(event: NodeEvent) -> dict[str, object]:
    return {
        "at": event.at,
        "node": event.node,
        "name": event.name or None,
        "event": event.kind.value,
        "by": event.by or None,
        "text": event.text or None,
    }
