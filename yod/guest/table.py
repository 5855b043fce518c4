"""Which argument of :mod:`yod.api` each option of ``yod`` is, and which options are none. Pure.

docs/api.md says of each what it means, or why it is none; a test holds both to this.
"""

from __future__ import annotations

ARGUMENTS: dict[str, str] = {
    "-sz": "size",
    "-list": "nodes",
    "-N": "node_count",
    "--ranks-per-node": "ranks_per_node",
    "--cores-per-rank": "cores_per_rank",
    "--mem": "mem",
    "--mem-per-rank": "mem_per_rank",
    "--gpus-per-node": "gpus_per_node",
    "--gpus-per-rank": "gpus_per_rank",
    "--ranks-per-socket": "ranks_per_socket",
    "--sockets-per-node": "sockets_per_node",
    "--ranks-per-numa": "ranks_per_numa",
    "--ranks-per-core": "ranks_per_core",
    "--bind": "bind",
    "--threads-per-core": "threads_per_core",
    "--distribution": "distribution",
    "-quiet": "quiet",
    "-bt": "stacks",
    "-attach": "attach",
    "-strace": "strace",
    "-straceoptions": "strace_options",
    "-stracenodes": "strace_ranks",
    "--stall": "stall_s",
    "--report": "report",
    "--trace": "trace",
    "-kill": "kill",
    "--keep-going": "keep_going",
    "--label": "label",
    "--merge": "merge",
    "--raw": "raw",
    "--timestamp": "timestamp",
    "--stdin": "stdin_ranks",
    "--as": "rank_variables",
    "-time": "time_s",
    "-signal": "warning",
    "--grace": "grace_s",
    "--stop-ranks": "stop_ranks",
    "--signal-tree": "signal_tree",
    "--chdir": "cwd",
    "-o": "output",
    "-e": "error",
    "--tee": "tee",
    "--remote-io": "remote_io",
    "--mpi": "mpi",
    "--libpmix": "libpmix",
    "--with-portals": "with_portals",
    "--partition": "partition",
    "--wait": "wait_s",
    "--after": "after",
    "--exclusive": "exclusive",
    "--constraint": "constraint",
    "-queue": "queue",
    "-account": "account",
    "--exclude": "exclude",
    "--retries": "retries",
    "--switches": "switches",
    "-nice": "nice",
    "--overlap": "overlap",
    "--checkpoint-dir": "checkpoint_dir",
    "--checkpoint-by": "checkpoint_by",
    "--checkpoint-every": "checkpoint_every",
    "--checkpoint-on": "checkpoint_on",
    "--checkpoint-signal": "checkpoint_signal",
    "--checkpoint-grace": "checkpoint_grace",
    "--checkpoint-keep": "checkpoint_keep",
    "--checkpoint-local": "checkpoint_local",
    "--restart": "restart",
    "--arity": "arity",
}

# Arguments that say what is no option of the command: the environment is its own, and so on.
OF_PROGRAMS = ("env", "allocation", "limits")

NONE = frozenset(
    (
        *("-timing", "--completions", "-file", "-batch", "-interactive", "-D", "--exit"),
        *("--no-stdin", "--pty", "--immediate", "--detach", "--detach-on-hangup", "--dry-run"),
        *("-alloc", "-sleep", "-show", "-help", "--version"),
    )
)
