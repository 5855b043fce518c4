"""A client's spawn request, as the message to the PCT has it."""

from __future__ import annotations

from pct.pmix_server.keys import Type
from pct.pmix_server.plain import SpawnCommand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pct.pmix_server.memory import Application, Value


def spawn_command(application: Application, of_all: list[tuple[bytes, Value]]) -> SpawnCommand:
    """One application of a spawn.

    Args:
        application: its command, arguments, environment and infos.
        of_all: infos that hold for every application; those of the application win.
    """
    infos = [*of_all, *application.infos]
    strings = {key: value.data or b"" for key, value in infos if value.type == Type.STRING}
    hosts = strings.get(b"pmix.host", b"")
    directory = strings.get(b"pmix.wdir", application.directory)  # Open MPI gives both
    set_by_infos = tuple(
        value.data or b""
        for key, value in infos
        if key in (b"pmix.envar.set", b"pmix.envar.add") and value.type == Type.ENVAR
    )
    return SpawnCommand(
        program=application.command or application.arguments[0],
        arguments=application.arguments[1:],
        count=max(1, application.count),
        directory=directory,
        environment=application.environment + set_by_infos,
        hosts=tuple(host.partition(b":")[0] for host in hosts.split(b",") if host),
    )
