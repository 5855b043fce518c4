"""The events of each component, and their order: tables, as RADICAL-Pilot's reference has them."""

from __future__ import annotations

from msgspec import Struct


class Chain(Struct, frozen=True):
    """Events of an entity that come in this order, perhaps several times from the first one on.

    Attributes:
        optional: those that need not be there where a later one is.
        many: those that may be there several times in a row.
        by_message: each message is an entity of its own: a file, a command.
    """

    events: tuple[str, ...]
    optional: frozenset[str] = frozenset()
    many: frozenset[str] = frozenset()
    by_message: bool = False


def _chain(words: str, *, by_message: bool = False) -> Chain:
    """A chain of its words; ``?`` marks what is optional, ``*`` what may be there many times."""
    events, optional, many = [], set(), set()
    for word in words.split():
        name = word.rstrip("?*")
        events.append(name)
        if word != name:
            optional.add(name)
        if "*" in word:
            many.add(name)
    return Chain(tuple(events), frozenset(optional), frozenset(many), by_message)


def _file(what: str) -> Chain:
    return _chain(f"{what}_start {what}_fail? {what}_stop?", by_message=True)


# Of all components. The first is for the whole file, the others for each entity.
ALL = (_chain("sync_abs component_init* component_final? END?"),)
PASSAGE = frozenset(("get", "advance", "publish", "put", "lost", "drop"))

OF: dict[str, tuple[Chain, ...]] = {
    "session": (
        _chain("session_start session_close session_stop session_fetch_start? session_fetch_stop?"),
        _file("staging_in"),
        _file("staging_out"),
    ),
    "pmgr": (_chain("setup_done"),),
    "tmgr": (_chain("setup_done"),),
    "pmgr_launching": (
        _chain("staging_in_start staging_in_stop submission_start submission_stop"),
    ),
    "tmgr_scheduling": (),
    "tmgr_staging_input": (
        _chain("create_sandbox_start create_sandbox_stop"),
        _file("staging_in"),
        _file("staging_tar"),
    ),
    "tmgr_staging_output": (_file("staging_out"),),
    "bootstrap_0": (
        _chain(
            "bootstrap_0_start tunnel_setup_start? tunnel_setup_stop? ve_setup_start"
            " ve_create_start? ve_activate_start? ve_activate_stop? ve_update_start?"
            " ve_update_stop? ve_create_stop? rp_install_start? rp_install_stop? ve_setup_stop"
            " client_barrier_start? client_barrier_stop? bootstrap_0_ok sync_rel"
            " cleanup_start cleanup_stop bootstrap_0_stop"
        ),
    ),
    "agent_0": (
        _chain("sync_rel hostname cmd*"),
        _chain("dvm_start dvm_uri dvm_ready dvm_fail? dvm_stop?", by_message=True),
    ),
    "agent_staging_input": (
        _file("staging_in"),
        _chain("staging_in_skip", by_message=True),
    ),
    "agent_scheduling": (
        _chain("schedule_try? schedule_fail* schedule_ok unschedule_start unschedule_stop"),
    ),
    "agent_executing": (
        _chain(
            "task_start task_mkdir? task_mkdir_done? task_run_start task_run_fail? task_run_ok?"
            " launch_start? launch_pre? launch_submit? exec_start? exec_pre? rank_start?"
            " rank_stop? exec_post? exec_stop? launch_collect? launch_post? launch_stop?"
            " unschedule_start task_run_stop"
        ),
        _chain("task_run_cancel_start task_run_cancel_stop?"),
    ),
    "executor": (_chain("call_asked call_start? call_stop? call_lost?"),),
    "agent_staging_output": (
        _chain(
            "staging_stdout_start staging_stdout_stop staging_stderr_start staging_stderr_stop"
            " staging_uprof_start staging_uprof_stop"
        ),
        _file("staging_out"),
        _chain("staging_out_skip", by_message=True),
    ),
}

# Of one that has run, in pairs: where the first is, the second is, once the task is over.
PAIRS = (
    ("task_run_ok", "launch_start"),
    ("exec_start", "exec_stop"),
    ("rank_start", "rank_stop"),
    ("rank_start", "exec_start"),
    ("launch_start", "launch_stop"),
)


def chains_of(component: str) -> tuple[Chain, ...] | None:
    """The chains of a component, whose number is left out; None: there is no such component."""
    kind = component.split(".", 1)[0]
    return OF.get(kind)
