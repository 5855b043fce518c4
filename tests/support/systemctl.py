"""A stand-in for systemctl and journalctl on hosts made of namespaces, where no systemd runs.

It reads the unit and does what yod's units and munge's ask for: user, directories, readiness,
reload. It restarts nothing by itself, sets no limits and makes no control groups. The log of a
unit is a file.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path

PLACES = ("/etc/systemd/system", "/usr/lib/systemd/system")
RUN = Path("/run/units")
LIMIT_S = 60.0


class Unit:
    """A service."""

    def __init__(self, name: str) -> None:
        self.name = name.removesuffix(".service")
        paths = [Path(place, f"{self.name}.service") for place in PLACES]
        lines = next(path for path in paths if path.exists()).read_text().splitlines()
        self._settings = dict(line.split("=", 1) for line in lines if "=" in line)
        self._pid_file = RUN / f"{self.name}.pid"
        self.log = RUN / f"{self.name}.log"

    def unix_pid(self) -> int:
        """Its process; 0: it does not run."""
        try:
            found = int(self._pid_file.read_text())
            os.kill(found, 0)
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return found

    def start(self) -> None:
        """Return when it is ready."""
        if self.unix_pid():
            return
        user = self._settings.get("User", "root")
        for setting, parent in (("RuntimeDirectory", "/run"), ("StateDirectory", "/var/lib")):
            if name := self._settings.get(setting):
                Path(parent, name).mkdir(exist_ok=True, mode=0o755)
                subprocess.run(["chown", user, Path(parent, name)], check=True)
        kind = self._settings["Type"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, self.log.open("a") as log:
            path = RUN / f"{self.name}.{os.getpid()}"
            ready.bind(str(path))
            command = shlex.split(self._settings["ExecStart"])
            process = subprocess.Popen(
                [word for word in command if not word.startswith("$")],  # variables that are empty
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "NOTIFY_SOCKET": str(path)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                user=user,
                group=self._settings.get("Group", "root"),
                extra_groups=[],
            )
            unix_pid = process.pid
            if kind == "notify":
                ended = os.pidfd_open(process.pid)
                while ready in select.select([ready, ended], [], [], LIMIT_S)[0]:
                    if b"READY=1" in ready.recv(4096):
                        break
                else:
                    sys.exit(f"{self.name} is not ready:\n{self.log.read_text()}")
            else:
                assert kind == "forking", kind
                assert process.wait(timeout=LIMIT_S) == 0, self.log.read_text()
                unix_pid = int(Path(self._settings["PIDFile"]).read_text())
            path.unlink()
        self._pid_file.write_text(str(unix_pid))

    def stop(self) -> None:
        """Return when its process has ended."""
        if unix_pid := self.unix_pid():
            process = os.pidfd_open(unix_pid)
            signal.pidfd_send_signal(process, signal.SIGTERM)
            if not select.select([process], [], [], LIMIT_S)[0]:
                sys.exit(f"{self.name}: does not end")

    def reload(self) -> None:
        """Run its command for that."""
        words = shlex.split(self._settings["ExecReload"].replace("$MAINPID", str(self.unix_pid())))
        subprocess.run(words, check=True)


def systemctl(verb: str, *words: str) -> None:
    """What yod's pages use of it."""
    units = [Unit(word) for word in words if not word.startswith("--")]
    for unit in units:
        match verb:
            case "enable" | "start":
                unit.start()
            case "disable" | "stop":
                unit.stop()
            case "restart":
                unit.stop()
                unit.start()
            case "reload":
                unit.reload()
            case _:
                sys.exit(f"systemctl: {verb}: not in this stand-in")


def journalctl(unit: str) -> None:
    """The log of one unit: ``journalctl -u UNIT``."""
    sys.stdout.write(Unit(unit).log.read_text())


if __name__ == "__main__":
    RUN.mkdir(exist_ok=True)
    if sys.argv[0].endswith("journalctl"):
        journalctl(sys.argv[2])
    elif sys.argv[1:] != ["daemon-reload"]:
        systemctl(*sys.argv[1:])
