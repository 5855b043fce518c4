"""Every limit: its name, unit, default, and how to set it.

The environment variable of ``kill_delay_s`` is ``YOD_KILL_DELAY_S``. ``yodctl limits``
prints all limits.
"""

from collections.abc import Mapping

from msgspec import Struct

from native.errors import UsageError
from native.text import shown

JOB_STORE_BYTES = 256 * 1024 * 1024


class Limits(Struct, frozen=True):
    """The limits in force. A name ends with its unit: ``_s`` is seconds."""

    pending_s: float = 60.0
    heartbeat_s: float = 10.0
    announce_apart_s: float = 0.008
    silent_s: float = 35.0
    announce_retry_s: float = 1.0
    allocate_s: float = 30.0
    phase_s: float = 30.0
    end_s: float = 10.0
    lost_end_s: float = 2.0
    kill_delay_s: float = 2.0
    node_mtbf_s: float = 5 * 365 * 86400.0
    checkpoint_local_bytes: int = 32 * 1024 * 1024 * 1024
    checkpoint_drain_s: float = 600.0
    kill_wait_s: float = 30.0
    overtime_s: float = 300.0
    nice_kill_s: float = 300.0
    nice_checkpoint_s: float = 300.0
    unkillable_s: float = 60.0
    store_answer_s: float = 10.0
    health_s: float = 60.0
    health_memory_bytes: int = 64 << 20
    health_store_bytes: int = 1 << 20
    health_zombies_count: int = 1000
    press_s: float = 1.0
    orphan_s: float = 10.0
    arity_count: int = 8
    bulk_arity_count: int = 2
    bulk_bytes: int = 4 * 1024 * 1024
    chunk_bytes: int = 512 * 1024
    sending_bytes: int = 8 * 1024 * 1024
    output_window_bytes: int = 1024 * 1024
    remote_window_bytes: int = 8 * 1024 * 1024
    jobs_per_node_count: int = 64
    waiting_count: int = 4096
    waiting_each_count: int = 256
    backfill_count: int = 50
    pass_s: float = 0.02
    backfill_tested_count: int = 1000
    switches_wait_s: float = 300.0
    ended_count: int = 20_000
    requeues_count: int = 3
    submitted_count: int = 100_000
    submitted_each_count: int = 20_000
    array_count: int = 100_000
    history_count: int = 100_000
    history_steps_count: int = 1_000_000
    history_events_count: int = 1_000_000
    history_each_count: int = 10_000
    watch_s: float = 0.2
    watchers_each_count: int = 16
    node_fail_s: float = 300.0
    batch_word_s: float = 60.0
    batch_answer_s: float = 10.0
    submit_hook_s: float = 5.0
    submit_hooks_count: int = 8
    spool_bytes: int = 64 * 1024 * 1024
    connect_s: float = 5.0
    liveness_s: float = 20.0
    peer_idle_s: float = 300.0
    kept_ports_count: int = 64
    kept_port_s: float = 5.0
    notice_s: float = 2.0
    progress_s: float = 1.0
    progress_told_s: float = 0.5
    unproven_count: int = 1024
    unproven_each_count: int = 256
    connections_each_count: int = 16384
    unread_each_bytes: int = 256 * 1024 * 1024
    questions_each_count: int = 32
    log_lines_each_count: int = 6000
    arguments_inline_bytes: int = 64 * 1024
    arguments_max_bytes: int = 8 * 1024 * 1024
    store_user_percent: int = 50
    line_quiet_s: float = 0.05
    merge_s: float = 0.05
    look_s: float = 20.0
    dying_count: int = 64
    stacks_bytes: int = 32 * 1024
    line_hold_s: float = 0.5
    line_max_bytes: int = 64 * 1024
    line_room_bytes: int = 4 * 1024 * 1024
    job_store_bytes: int = JOB_STORE_BYTES
    pmi_connections_count: int = 1024
    pmix_server_bytes: int = 4 * 1024 * 1024 * 1024
    job_clients_count: int = 16
    job_answer_s: float = 5.0
    launches_count: int = 1000
    prepare_s: float = 10.0
    collected_bytes: int = 256 * 1024 * 1024
    call_bytes: int = 16 * 1024 * 1024
    channel_bytes: int = 64 * 1024 * 1024
    pilot_silent_s: float = 60.0
    web_clients_count: int = 64
    web_request_s: float = 5.0
    web_stall_s: float = 20.0
    web_unread_bytes: int = 4 * 1024 * 1024
    host_up_s: float = 30.0
    host_down_s: float = 30.0
    host_ship_s: float = 300.0
    ssh_fanout_count: int = 64
    ssh_silent_s: float = 10.0

    def announced_s(self, node_count: int) -> float:
        """A PCT of a partition of so many nodes announces itself this often."""
        return max(self.heartbeat_s, node_count * self.announce_apart_s)


MEANINGS = {
    "pending_s": "a grant lapses after this unless its PCTs report the job",
    "heartbeat_s": "a PCT announces itself this often",
    "announce_apart_s": "announcements of PCTs are so far apart; where that is longer than "
    "heartbeat_s for a node, heartbeat_s and silent_s grow with the number of nodes",
    "silent_s": "a node not heard from for this long is down",
    "announce_retry_s": "a PCT without a bebopd tries again after this",
    "allocate_s": "yod waits this long for bebopd's answer",
    "phase_s": "each phase of a launch before go ends within this",
    "end_s": "the end of a job is confirmed within this, else its nodes are reset",
    "lost_end_s": "yod waits this long for nodes that others have lost to confirm the end of a job",
    "kill_delay_s": "after an abnormal end the other ranks have this long to end",
    "node_mtbf_s": "mean time between failures of a node (yod --checkpoint-every auto)",
    "checkpoint_local_bytes": "of checkpoints that one user keeps on a node (yod "
    "--checkpoint-local), and never more than half of that file system",
    "checkpoint_drain_s": "they are copied to the directory of checkpoints within this",
    "kill_wait_s": "at the end of an allocation its command and steps have this long to end",
    "overtime_s": "a job that its owner's processes have not ended so long after its time limit "
    "and kill_wait_s is ended by bebopd",
    "nice_kill_s": "jobs that are ended by pingd -nicekill, or give way (yod -nice), have "
    "this long from SIGTERM to SIGKILL",
    "nice_checkpoint_s": "launches that give way have at most this long for a checkpoint before "
    "SIGTERM (yod -nice --checkpoint-on preempt)",
    "store_answer_s": "a directory of a pct's store takes a byte within this, else it hangs and "
    "the node's jobs end; 0: it is not asked",
    "health_s": "a pct without jobs looks after its node at this interval; 0: never",
    "health_memory_bytes": "a node with less memory left is in trouble",
    "health_store_bytes": "a node with less room left for programs is in trouble",
    "health_zombies_count": "a node with more processes that nobody reaps is in trouble",
    "unkillable_s": "killed processes of a job end within this, else their keeper is killed; "
    "if they do not end in as long again the node is drained",
    "press_s": "signals that interrupt yod within this after one are the same press",
    "orphan_s": "a PCT without a parent looks for an ancestor this long",
    "arity_count": "children of a node in the job's tree",
    "bulk_arity_count": "the same for a job whose objects exceed bulk_bytes",
    "bulk_bytes": "a job whose objects are larger in all has the narrow tree",
    "chunk_bytes": "unit in which an object goes down the tree",
    "sending_bytes": "buffers of yod or a pct for all objects that it sends for one job",
    "output_window_bytes": "output of one stream in transit over one hop; a quarter for input",
    "remote_window_bytes": "requests for remote files on their way and their replies, for a job "
    "(yod --remote-io)",
    "jobs_per_node_count": "jobs on one node at a time",
    "waiting_count": "requests that wait for nodes of a partition at a time (yod --wait)",
    "waiting_each_count": "the same of one user",
    "pass_s": "bebopd looks at a line at most once in so long; 0: at each event",
    "backfill_count": "requests that wait whose expected start no later request may delay",
    "switches_wait_s": "a request waits at most this long for few leaf switches (--switches)",
    "backfill_tested_count": "requests that wait, and are tried whenever slots become free",
    "ended_count": "jobs or steps that have ended, of which a bebopd knows how (yod --after)",
    "requeues_count": "a batch job waits again so often when nodes are not made ready or lost",
    "submitted_count": "batch jobs of a partition that have not ended (yodjob submit)",
    "submitted_each_count": "the same of one user",
    "array_count": "elements of an array of batch jobs",
    "history_count": "past jobs that bebopd's history keeps",
    "history_steps_count": "past steps that it keeps",
    "history_events_count": "what has happened to jobs, and as much to nodes, that it keeps",
    "history_each_count": "past steps of one allocation that it takes; further ones are counted",
    "watch_s": "bebopd tells those who watch its table of changes at most this often",
    "watchers_each_count": "of one user, so many wait for changes at a time",
    "spool_bytes": "output of a detached job that is kept; of more the middle is dropped",
    "node_fail_s": "a batch job ends when the node of its script has been down for this long",
    "batch_word_s": "bebopd --batch believes what the batch system says of a job for this long",
    "batch_answer_s": "the batch system answers bebopd --batch within this",
    "submit_hook_s": "each submit hook of a site ends within this, else it is killed",
    "submit_hooks_count": "jobs that submit hooks look at, at a time; further ones wait",
    "connect_s": "a connection is made within this",
    "liveness_s": "a host or daemon that has been silent for this long is lost",
    "peer_idle_s": "a connection of two pcts that no job needs is closed after this; 0: never",
    "kept_ports_count": "ports to bebopd that a process keeps for further launches; 0: none",
    "kept_port_s": "a port that is kept is closed when no launch has used it for this long",
    "progress_told_s": "yod tells bebopd this often at most how far a launch is, for pingd --web",
    "progress_s": "a launch that takes longer shows its progress on a terminal",
    "notice_s": "yod says what it waits for after this, then at double times",
    "unproven_count": "connections to a daemon that have not proven an identity yet",
    "unproven_each_count": "the same of one user of its host, or of one other address",
    "connections_each_count": "connections of one user to a daemon, and half of its descriptors",
    "unread_each_bytes": "what a daemon has sent to one user and they have not read",
    "questions_each_count": "of one user, so many questions to bebopd's history wait for it",
    "log_lines_each_count": "lines of a daemon's log in a minute that one user causes",
    "arguments_inline_bytes": "larger arguments and environments travel as an object",
    "arguments_max_bytes": "arguments of all members and the environment, as encoded",
    "store_user_percent": "share of a file system for one user's objects, if the pct is root's",
    "line_quiet_s": "yod shows an unfinished line after this long without other output",
    "merge_s": "yod --merge: a line waits so long at each hop for the same line of other ranks",
    "look_s": "a node looks at its ranks' stacks within this (yodjob stack, yod -bt and --stall)",
    "dying_count": "ranks of a node that wait at a time for such a look before a signal ends them; "
    "more die unseen (yod -bt)",
    "stacks_bytes": "stacks of one node's ranks, merged, as text",
    "line_hold_s": "output waits at most this long for a line's end",
    "line_max_bytes": "a line of this length may be cut before its end for another rank's",
    "line_room_bytes": "unfinished lines and the output that waits for them, in yod's memory",
    "job_store_bytes": "memory of a node for a job's ranks: pairs, names, requests, worlds",
    "pmi_connections_count": "connections of a job to its PCT, or four a rank if that is more",
    "pmix_server_bytes": "memory of a job's PMIx server on a node",
    "job_clients_count": "commands that ask one launch at a time",
    "job_answer_s": "yodjob waits this long for a launch's answer",
    "launches_count": "launches of a launch server at a time; further ones are cold",
    "prepare_s": "a launch that a launch server has not prepared after this is cold",
    "collected_bytes": "output of one stream that yod.api collects; a job that writes more ends",
    "call_bytes": "a call of a function in a pilot, packed, and its packed result",
    "channel_bytes": "messages in a queue of a pilot (app_comm), or one message; putters keep more",
    "pilot_silent_s": "a pilot whose agent has not said a word for this long is FAILED; 0: never",
    "web_clients_count": "connections to pingd --web at a time",
    "web_request_s": "a client of pingd --web has sent its request within this",
    "web_stall_s": "a client of pingd --web that reads nothing for this long is given up",
    "web_unread_bytes": "a client of pingd --web that has more unread at a change is given up",
    "host_up_s": "a host of yodctl up --ssh has its PCT within this, else it is left out",
    "host_ship_s": "yodctl up --ship sends yod to a host within this, else it is left out",
    "host_down_s": "yodctl waits this long for a host on which it ends a PCT",
    "ssh_fanout_count": "hosts that one host reaches by ssh at a time; more are a tree of hosts",
    "ssh_silent_s": "a host that reaches others for yodctl, and says nothing so long, is given up",
}

# A limit that travels in a message is within the range of its field.
_SMALLEST = {
    "backfill_count": 1,
    "unkillable_s": 0.001,
    "heartbeat_s": 0.001,
    "announce_retry_s": 0.001,
    "batch_word_s": 0.001,
    "notice_s": 0.001,
    "progress_s": 0.001,
    "progress_told_s": 0.001,
    "phase_s": 0.001,
    "orphan_s": 0.001,
    "look_s": 0.001,
    "dying_count": 1,
    "stacks_bytes": 1024,
    "arity_count": 1,
    "bulk_arity_count": 1,
    "chunk_bytes": 4096,
    "sending_bytes": 1 << 22,
    "arguments_max_bytes": 256 * 1024,
    "unproven_count": 1,
    "unproven_each_count": 1,
    "connections_each_count": 1,
    "unread_each_bytes": 1024 * 1024,
    "questions_each_count": 1,
    "submit_hook_s": 0.001,
    "submit_hooks_count": 1,
    "log_lines_each_count": 1,
    "prepare_s": 0.001,
    "call_bytes": 4096,
    "channel_bytes": 4096,
    "web_clients_count": 1,
    "web_request_s": 0.001,
    "web_stall_s": 0.001,
    "host_up_s": 1,
    "host_down_s": 1,
    "host_ship_s": 1,
    "ssh_fanout_count": 1,
    "ssh_silent_s": 0.3,
    "output_window_bytes": 65536,
    "remote_window_bytes": 65536,
    "store_user_percent": 1,
    "line_max_bytes": 1,
    "line_room_bytes": 4096,
    "job_store_bytes": 1024 * 1024,
    "pmix_server_bytes": 128 * 1024 * 1024,
}
_LARGEST = {
    "jobs_per_node_count": 512,  # their ranks fit one announcement: native.wire.status
    "arity_count": 64,
    "bulk_arity_count": 64,
    "chunk_bytes": 1 << 22,
    "sending_bytes": 1 << 30,
    "arguments_max_bytes": 256 << 20,
    "unproven_count": 1 << 20,
    "unproven_each_count": 1 << 20,
    "connections_each_count": 1 << 20,
    "launches_count": 65536,
    "kept_ports_count": 65536,
    "peer_idle_s": 1_000_000,
    "call_bytes": 256 << 20,  # and all that is around it one message of a pilot
    "ssh_fanout_count": 4096,
    "output_window_bytes": 1 << 30,
    "remote_window_bytes": 1 << 30,
    "line_room_bytes": 1 << 30,
    "arguments_inline_bytes": 192 * 1024,
    "store_user_percent": 100,
    "dying_count": 4096,
    "stacks_bytes": 128 * 1024,
}


def variable(name: str) -> str:
    """The environment variable that sets a limit."""
    return "YOD_" + name.upper()


_VARIABLES = {name: variable(name) for name in MEANINGS}


def load(environment: Mapping[str, str], site: Mapping[str, float] | None = None) -> Limits:
    """The limits that an environment asks for.

    Args:
        site: what the site has chosen, by name; the environment goes before. :func:`check` has
            nothing against it.

    Raises:
        UsageError: a value is no number, or out of range; names the variable.
    """
    chosen = dict(site) if site else {}
    for name, set_by in _VARIABLES.items():
        if set_by in environment:
            chosen[name] = _number(name, environment[set_by], set_by)
    return Limits(**chosen)  # type: ignore[arg-type]


def check(name: str, value: object) -> None:
    """Check a limit that a file sets.

    Raises:
        UsageError: there is none of this name, or it cannot have this value.
    """
    if name not in MEANINGS:
        raise UsageError(f"{shown(name)}: no such limit; `yodctl limits` shows all")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{name}: not a number")
    _number(name, repr(value), name)


def _number(name: str, text: str, said_as: str) -> float | int:
    kind = float if name.endswith("_s") else int
    try:
        value = kind(text)
    except ValueError:
        raise UsageError(f"{said_as}={shown(text)}: not a number") from None
    low, high = _SMALLEST.get(name, 0), _LARGEST.get(name, 1 << 40)
    if not low <= value <= high:
        raise UsageError(f"{said_as}={shown(text)}: must be from {low} to {high}")
    return value
