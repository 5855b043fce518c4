"""The configuration of a study: its keys, with type, default and meaning. Pure.

The file is JSON, and may be shared with the study's other parts: only the dictionary
``launcher_config`` is the launcher's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from math import inf, isfinite
from typing import Any, NamedTuple

from msgspec import MsgspecError, Struct, json

from native.errors import UsageError

SECTION = "launcher_config"
TOKEN = re.compile(r"[A-Za-z0-9._~-]*")  # what an address and a header take as it is
Words = tuple[str, ...]


class Config(Struct, frozen=True):
    """What the file says, by key."""

    output_dir: str = ""
    scheduler: str = "yod"
    scheduler_arg: Words = ()
    scheduler_arg_server: Words = ()
    scheduler_arg_client: Words = ()
    scheduler_arg_container: Words = ()
    scheduler_server_command: str = ""
    scheduler_server_command_options: Words = ()
    scheduler_client_command: str = ""
    scheduler_client_command_options: Words = ()
    server_executable: Words = ()
    client_executable: Words = ()
    server_processes: int = 1
    client_processes: int = 1
    group_size: int = 1
    container_client_size: int = 1
    besteffort_allocation_frequency: int = 1
    job_limit: int = 1000
    timer_delay: float = 0.0
    server_timeout: float = 0.0
    connect_timeout: float = 300.0
    command_timeout: float = 60.0
    stop_timeout: float = 120.0
    restart_limit: int = 5
    restart_window: float = 300.0
    fault_tolerance: bool = True
    load_from_checkpoint: bool = False
    std_output: bool = True
    verbose: int = 0
    protocol: str = "auto"
    bind: str = ""
    port: int = 0
    http_port: int = 0
    http_token: str = ""

    @property
    def timer_s(self) -> float:
        """Time between two time-outs."""
        return self.timer_delay or 5.0

    @property
    def update_s(self) -> float:
        """Time between two questions to the scheduler."""
        return self.timer_delay or 30.0

    @property
    def server_timeout_s(self) -> float:
        """A server that is silent for so long is dead."""
        return self.server_timeout or 2 * self.timer_s


class Key(NamedTuple):
    """What is said about a key.

    Attributes:
        default: as people read it; empty: that of :class:`Config`.
        least, most: of a number.
    """

    meaning: str
    default: str = ""
    least: float = -inf
    most: float = inf


COUNT = 1_000_000
_ANY = "options of the scheduler for"
KEYS: dict[str, Key] = {
    "output_dir": Key("directory for all files of the study", "melissa-YYYYMMDDTHHMMSS"),
    "scheduler": Key("yod, openmpi, slurm and others, or one of an entry point"),
    "scheduler_arg": Key(f"{_ANY} all jobs"),
    "scheduler_arg_server": Key(f"{_ANY} the server"),
    "scheduler_arg_client": Key(f"{_ANY} clients"),
    "scheduler_arg_container": Key("options of oarsub for containers (oar-hybrid)"),
    "scheduler_server_command": Key(
        "command that starts the server within its job, as srun", "none; mpirun with openmpi"
    ),
    "scheduler_server_command_options": Key("its options"),
    "scheduler_client_command": Key(
        "command that starts a client within its job", "none; mpirun with openmpi"
    ),
    "scheduler_client_command_options": Key("its options"),
    "server_executable": Key("the server: a path, or a list of words", "must be given"),
    "client_executable": Key("a client: a path, or a list of words", "must be given"),
    "server_processes": Key("processes of the server", least=1, most=COUNT),
    "client_processes": Key("processes of each simulation", least=1, most=COUNT),
    "group_size": Key(
        "simulations in a client job, until the server says otherwise", least=1, most=100_000
    ),
    "container_client_size": Key(
        "clients that fit into a container (oar-hybrid)", least=1, most=COUNT
    ),
    "besteffort_allocation_frequency": Key(
        "of clients outside the container one in so many is best-effort (oar-hybrid)",
        least=1,
        most=COUNT,
    ),
    "job_limit": Key("client jobs at a time", least=1, most=COUNT),
    "timer_delay": Key(
        "seconds between two looks at server and scheduler", "5 and 30", least=0.01, most=86400
    ),
    "server_timeout": Key(
        "seconds of silence after which the server is dead",
        "twice timer_delay",
        least=0.02,
        most=864000,
    ),
    "connect_timeout": Key(
        "seconds that a server that runs may take to connect", least=0.1, most=864000
    ),
    "command_timeout": Key(
        "seconds that a command of the scheduler may take", least=0.1, most=86400
    ),
    "stop_timeout": Key(
        "seconds after which a stop leaves what does not end, and names it", least=0.1, most=864000
    ),
    "restart_limit": Key(
        "restarts of the server within restart_window; more are a crash loop", least=0, most=COUNT
    ),
    "restart_window": Key("seconds in which they are counted", least=1, most=864000),
    "fault_tolerance": Key("replace a server that is lost, go on when clients fail"),
    "load_from_checkpoint": Key("the first server, too, goes on from its checkpoint"),
    "std_output": Key("output of jobs goes to files; false: to the launcher's (yod, openmpi)"),
    "verbose": Key("1: a line for each client; 2: also for each message", least=0, most=3),
    "protocol": Key("between launcher and server: auto, sctp or tcp"),
    "bind": Key("host or address at which the launcher listens", "all"),
    "port": Key("port for the server", "a free one", least=0, most=65535),
    "http_port": Key("port of the status page; 0: a free one; -1: no page", least=-1, most=65535),
    "http_token": Key("secret of the status page, of letters, digits and ._~-", "random"),
}
NAMES = ("yod", "openmpi", "slurm", "slurm-global", "slurm-semiglobal", "slurm-openmpi", "oar",
         "oar-hybrid")  # fmt: skip
PROTOCOLS = ("auto", "sctp", "tcp")


def read(text: bytes, name: str) -> Config:
    """The launcher's part of a file.

    Args:
        name: of the file, for messages.

    Raises:
        UsageError: no JSON, an unknown key, a wrong type, a number out of range.
    """
    try:
        whole = json.decode(text)
    except MsgspecError as error:
        raise UsageError(f"{name}: no JSON: {error}") from None
    if not isinstance(whole, dict):
        raise UsageError(f"{name}: a dictionary is needed, with the dictionary {SECTION}")
    if SECTION not in whole:
        raise UsageError(f"{name}: no dictionary {SECTION}")
    if not isinstance(whole[SECTION], dict):
        raise UsageError(f"{name}: {SECTION}: must be a dictionary")
    return checked(whole[SECTION], name)


def checked(section: Mapping[str, Any], name: str) -> Config:
    """A configuration from a dictionary.

    Raises:
        UsageError: as :func:`read`.
    """
    values: dict[str, Any] = {}
    defaults = Config()
    for key, value in section.items():
        where = f"{name}: {SECTION}: {key}"
        if key not in KEYS:
            near = difflib.get_close_matches(key, KEYS, 1)
            hint = f"; {near[0]}?" if near else "; `yod-ensemble --print-options` prints all"
            raise UsageError(f"{where}: no such key{hint}")
        values[key] = _value(where, key, value, getattr(defaults, key))
    for key in ("server_executable", "client_executable"):
        if not any(values.get(key, ())):
            raise UsageError(f"{name}: {SECTION}: {key}: must be given")
    config = Config(**values)
    if config.protocol not in PROTOCOLS:
        raise UsageError(f"{name}: {SECTION}: protocol: must be auto, sctp or tcp")
    if TOKEN.fullmatch(config.http_token) is None:
        raise UsageError(f"{name}: {SECTION}: http_token: must be of letters, digits and ._~-")
    return config


def _value(where: str, key: str, value: Any, default: Any) -> Any:
    """A value of the type that its default has.

    Raises:
        UsageError: it is another one, or out of range.
    """
    if isinstance(default, tuple):
        words = [value] if isinstance(value, str) else value
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise UsageError(f"{where}: must be a list of words")
        if any("\0" in word or "\n" in word for word in words):
            raise UsageError(f"{where}: a word has a NUL character or a new line")
        return tuple(words)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise UsageError(f"{where}: must be true or false")
        return value
    if isinstance(default, str):
        if not isinstance(value, str) or "\0" in value or "\n" in value:
            raise UsageError(f"{where}: must be text")
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if not is_number or (isinstance(default, int) and not isinstance(value, int)):
        what = "a whole number" if isinstance(default, int) else "a number"
        raise UsageError(f"{where}: must be {what}")
    least, most = KEYS[key].least, KEYS[key].most
    if not least <= value <= most:
        raise UsageError(f"{where}: {value}: must be from {least:g} to {most:g}")
    return type(default)(value)


def options_text() -> str:
    """All keys with their defaults and meanings, as lines."""
    defaults = Config()
    lines = []
    for name, key in KEYS.items():
        default = key.default or json.encode(getattr(defaults, name)).decode()
        lines += [f"{name} = {default}", f"    {key.meaning}"]
    return "\n".join(lines)
