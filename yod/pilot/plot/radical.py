"""Writes beside a session's profiles what RADICAL-Analytics wants to know of it: the files that
RADICAL-Pilot writes when a session ends."""

from __future__ import annotations

import os
from typing import Any

from msgspec import json

from native.errors import YodError
from yod.pilot.analysis.records import plain
from yod.pilot.client import journal
from yod.pilot.model.description import PilotDescription, TaskDescription


def write(directory: str) -> list[str]:
    """Write them.

    Returns:
        Their paths.

    Raises:
        YodError: there is no session, or they cannot be written.
    """
    path = os.path.abspath(directory)
    uid = os.path.basename(path)
    past = journal.read(path)
    files: dict[str, Any] = {f"{uid}.reg": {"cfg": {"sid": uid}, "rcfgs": {}}}
    pmgrs = sorted({one.pmgr for one in past.pilots.values()})
    for pmgr in pmgrs:
        pilots = [_pilot(past, one) for one in past.pilots.values() if one.pmgr == pmgr]
        files[pmgr] = {"uid": pmgr, "cfg": {}, "pilots": pilots}
    for tmgr in sorted(set(past.managers.values())):
        mine = [one for one, manager in past.managers.items() if manager == tmgr]
        files[tmgr] = {
            "uid": tmgr,
            "cfg": {},
            "tasks": {plain(one): _task(past, one) for one in mine},
        }
    written = []
    for name, content in files.items():
        whole = os.path.join(path, f"{name}.json")
        try:
            with open(whole, "wb") as file:
                file.write(json.encode(content))
        except OSError as error:
            raise YodError(f"{whole}: {error.strerror}") from None
        written.append(whole)
    return written


def _pilot(past: journal.Past, begun: journal.PilotBegun) -> dict[str, Any]:
    value = PilotDescription(begun.description).value
    nodes = past.nodes.get(begun.uid, [])
    per_node = max((node.cores for node in nodes), default=value("cores") or 1)
    gpus = max((node.gpus for node in nodes), default=0)
    cores = sum(node.cores for node in nodes) or value("cores") or 1
    ended = past.ended.get(begun.uid)
    listed = [
        {"index": n, "name": node.name, "cores": list(range(node.cores)), "gpus": []}
        for n, node in enumerate(nodes)
    ]
    return {
        "uid": plain(begun.uid),
        "pmgr": begun.pmgr,
        "type": "pilot",
        "state": ended.state if ended else "PMGR_ACTIVE",
        "description": {"cores": cores, "gpus": gpus, **begun.description},
        "resources": {"cpu": cores, "gpu": gpus * len(nodes)},
        "resource_details": {
            "cores_per_node": per_node,
            "gpus_per_node": gpus,
            "node_list": listed,
            "agent_nodes": [],
        },
    }


def _task(past: journal.Past, uid: str) -> dict[str, Any]:
    description = past.orders[uid].description
    value = TaskDescription(description).value
    pilot, over = past.given.get(uid, ""), past.over.get(uid)
    indices = {node.name: n for n, node in reversed(list(enumerate(past.nodes.get(pilot, []))))}
    ranks, cores, gpus = (value(key) for key in ("ranks", "cores_per_rank", "gpus_per_rank"))
    task: dict[str, Any] = {
        "uid": plain(uid),
        "tmgr": past.managers[uid],
        "type": "task",
        "state": past.state_of(uid),
        "exit_code": over.exit_code if over else None,
        "slots": [
            {"node_index": indices.get(node, 0), "cores": list(own), "gpus": list(parts)}
            for node, own, parts in (over.slots if over else [])
        ],
        "resources": {"cpu": ranks * cores, "gpu": ranks * gpus},
        "description": {
            "mode": "task.executable",
            "ranks": ranks,
            "cores_per_rank": cores,
            "gpus_per_rank": gpus,
            **description,
        },
    }
    if pilot:
        task["pilot"] = plain(pilot)
    return task
