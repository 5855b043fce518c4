"""``yodctl up --ship``: yod and its Python for hosts that have neither, as one archive.

The tree in it runs wherever it lies: our commands look for an interpreter beside them, and that
for its library behind itself. A host needs the same kind of processor, a C library that is no
older than here, and ``tar`` and ``gzip``. Hosts that have it send it on.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, files
from tempfile import NamedTemporaryFile
from typing import IO

import native
from native.errors import PartitionError
from native.limits import Limits
from partition.hosts.ssh.spread import Plan, Spread, Target
from partition.hosts.ssh.spreading import Lost
from partition.up.own import own_directory, own_release

OURS = ("allocator", "native", "partition", "pct", "yod")
COMMANDS = (
    *("bebopd", "pct", "pingd", "yod-agent", "yod-server", "yodctl"),
    *("yod", "yod-cold", "yodjob", "yodjob-cold"),
)
NEEDED = ("cffi", "click", "clustershell", "msgspec")  # what a PCT and a relay import besides
_NOT_NEEDED = {
    *("__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "ensurepip"),
    *("pydoc_data", "site-packages", "dist-packages"),
}
_SOURCES = (".a", ".c", ".d", ".h", ".o")


def ship(
    hosts: Sequence[str], command: str, limits: Limits
) -> tuple[dict[str, str], Sequence[Lost]]:
    """Send the archive to these hosts, and unpack it there.

    Args:
        command: ssh, as for :class:`partition.hosts.ssh.many.Many`.

    Returns:
        The hosts on which that failed, and why; and those that have failed to send it on.

    Raises:
        PartitionError: there is no archive to be made of what is here.
    """
    if not (own := own_release()):
        raise PartitionError("--ship: this installation is not whole (make -C native)")
    plan = Plan(
        targets=tuple(map(Target, hosts)),
        ssh=command,
        width=limits.ssh_fanout_count,
        limit_s=limits.host_ship_s,
        silent_s=limits.ssh_silent_s,
        directory=own_directory(),
        release=own,
        machine=os.uname().machine,
    )
    with NamedTemporaryFile(prefix="yod-ship-", suffix=".tar.gz") as file:
        try:
            write(file)
        except (OSError, PackageNotFoundError) as error:
            raise PartitionError(f"--ship: {error}") from None
        file.flush()
        going = Spread(plan, True, file.name)
        going.run()
    failed = {host: result.reason for host, result in going.results.items() if result.reason}
    return failed, going.lost


def write(file: IO[bytes]) -> None:
    """Write the archive."""
    python = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = f"{sys.platlibdir}/{python}"
    packages = f"{library}/site-packages"
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as archive:
        for command in COMMANDS:
            archive.add(os.path.join(own_directory(), command), f"bin/{command}")
        executable = os.path.realpath(sys.executable)
        archive.add(executable, "bin/python3")
        _add_tree(archive, sysconfig.get_path("stdlib"), library, lambda _: True)
        for shared in _shared_libraries(executable):
            archive.add(shared, f"lib/{os.path.basename(shared)}")
        above = os.path.dirname(os.path.dirname(os.path.abspath(native.__file__)))
        for each in OURS:
            directory = os.path.join(above, each)
            _add_tree(archive, directory, f"{packages}/{each}", lambda f: not f.endswith(_SOURCES))
        for each in NEEDED:
            for found in files(each) or ():
                if ".." not in found.parts and "__pycache__" not in found.parts:
                    archive.add(str(found.locate()), f"{packages}/{found}", recursive=False)


def _shared_libraries(executable: str) -> Iterator[str]:
    """The interpreter's own library, where it has one, by the name under which it is loaded."""
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return
    name = sysconfig.get_config_var("INSTSONAME")
    beside = os.path.join(os.path.dirname(os.path.dirname(executable)), "lib")
    for directory in (beside, sysconfig.get_config_var("LIBDIR")):
        if os.path.exists(path := os.path.join(directory, name)):
            yield os.path.realpath(path)
            return


def _add_tree(
    archive: tarfile.TarFile, directory: str, at: str, is_wanted: Callable[[str], bool]
) -> None:
    def chosen(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        name = os.path.basename(info.name)
        if name in _NOT_NEEDED or name.startswith("config-") or not is_wanted(name):
            return None
        return info

    archive.add(directory, at, filter=chosen)
