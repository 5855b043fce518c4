"""yod: which choices of a launch the configuration's words are. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ensemble.config import Config
from native.errors import UsageError

_WITH_VALUE: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "-list": ("nodes", str),
    "-N": ("node_count", int),
    "--nodes": ("node_count", int),
    "--ranks-per-node": ("ranks_per_node", int),
    "--cores-per-rank": ("cores_per_rank", int),
    "--distribution": ("distribution", str),
    "--mem": ("mem", str),
    "--mem-per-rank": ("mem_per_rank", str),
    "--gpus-per-node": ("gpus_per_node", int),
    "--gpus-per-rank": ("gpus_per_rank", int),
    "--ranks-per-socket": ("ranks_per_socket", int),
    "--sockets-per-node": ("sockets_per_node", int),
    "--ranks-per-numa": ("ranks_per_numa", int),
    "--ranks-per-core": ("ranks_per_core", int),
    "--threads-per-core": ("threads_per_core", int),
    "--partition": ("partition", str),
    "--mpi": ("mpi", str),
}
_FLAGS: Mapping[str, tuple[str, Any]] = {
    "--exclusive": ("exclusive", True),
    "--overlap": ("overlap", True),
    "-kill": ("kill", True),
    "--keep-going": ("keep_going", True),
}
_SIZE = ("-sz", "-size", "--size")


def choices(config: Config, *, is_server: bool) -> dict[str, Any]:
    """What a launch of a server or a client asks for.

    Raises:
        UsageError: a word is none of these options, or has no value.
    """
    if is_server:
        key, own = "scheduler_arg_server", config.scheduler_arg_server
    else:
        key, own = "scheduler_arg_client", config.scheduler_arg_client
    count = "server_processes" if is_server else "client_processes"
    found: dict[str, Any] = {"size": getattr(config, count)}
    for name, words in (("scheduler_arg", config.scheduler_arg), (key, own)):
        rest = list(words)
        while rest:
            word = rest.pop(0)
            option, mark, value = word.partition("=")
            if word in _FLAGS:
                choice, given = _FLAGS[word]
                found[choice] = given
                continue
            if option in _SIZE:
                raise UsageError(f"{name}: {option} is set by the launcher itself, by {count}")
            if option not in _WITH_VALUE:
                raise UsageError(f"{name}: {word}: no option of a launch by the launcher")
            if not mark and not rest:
                raise UsageError(f"{name}: {word}: a value is missing")
            choice, read = _WITH_VALUE[option]
            value = value if mark else rest.pop(0)
            try:
                found[choice] = read(value)
            except ValueError:
                raise UsageError(f"{name}: {option} {value}: must be a whole number") from None
    return found
