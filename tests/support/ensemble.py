"""Studies for tests: a server and a client as scripts, a configuration, a launcher."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.leaks import marked
from tests.support.partition import BIN, Done, finish
from tests.support.place import Place
from tests.support.wait import wait_until

# Ten clients; one that fails is asked for again; the study is complete when all have ended well.
SERVER = """
server.submit(0, 10)
for client, state in server.updates():
    print(client, state.name, flush=True)
    if state is State.FAILED:
        server.submit(client)
server.finish()
"""
CLIENT = 'echo "client $MELISSA_CLIENT_ID of epoch $YOD_ENSEMBLE_EPOCH"'


class Study:
    """One study in a directory.

    Attributes:
        directory: of the launch files.
        out: the output directory.
        environment: of its launcher.
    """

    def __init__(
        self,
        place: Place,
        directory: Path,
        server: str = SERVER,
        client: str = CLIENT,
        env: Mapping[str, str] | None = None,
        **keys: Any,
    ) -> None:
        self.directory = directory
        self.out = directory / "out"
        self._place = place
        self.environment = {
            **place.environment(),
            "PATH": f"{BIN}:/usr/sbin:/usr/bin:/sbin:/bin",
            **(env or {}),
        }
        head = f"#!{sys.executable}\nfrom yod.ensemble import *\nimport os, signal, time\n"
        body = textwrap.indent(server.strip("\n"), "    ")
        self.script("server", f"{head}with Server() as server:\n{body}\n")
        self.script("client", f"#!/bin/sh\n{client}\n")
        self.configure(**keys)

    def configure(self, **keys: Any) -> None:
        """Write the configuration; None as a value takes a key out."""
        section = {
            "scheduler": "yod",
            "server_executable": "./server",
            "client_executable": "./client",
            "output_dir": str(self.out),
            "job_limit": 3,
            "timer_delay": 0.5,
            "server_timeout": 30,
            "verbose": 1,
            "bind": "127.0.0.1",
            "protocol": "tcp",
            **keys,
        }
        section = {name: value for name, value in section.items() if value is not None}
        whole = {"study": {"of": "others"}, "launcher_config": section}
        (self.directory / "study.json").write_text(json.dumps(whole))

    def script(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start the launcher, with the study unless there are other words."""
        words = words or ("--config", "study.json")
        return self.start_other(str(BIN / "yod-ensemble"), *words, **options)

    def start_other(self, *words: str, **options: Any) -> subprocess.Popen[bytes]:
        """Start another command as the launcher is started."""
        return subprocess.Popen(
            words,
            env=self.environment,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            **options,
        )

    def run(self, *words: str) -> Done:
        return finish(self.start(*words))

    @property
    def log(self) -> str:
        path = self.out / "launcher.log"
        return path.read_text() if path.exists() else ""

    def wait_for(self, text: str, count: int = 1) -> None:
        """Wait until the log has a text so often."""
        wait_until(lambda: self.log.count(text) >= count, what=text)

    def files(self, pattern: str) -> list[str]:
        """The contents of output files."""
        return [path.read_text() for path in sorted(self.out.glob(pattern))]

    def ids(self) -> list[str]:
        """The scheduler's ids of all that has been submitted, in the order of submissions."""
        rows = map(json.loads, (self.out / "journal").read_text().splitlines())
        return [row["job_id"] for row in rows if row.get("job_id")]

    def left(self) -> set[int]:
        """Submissions whose ends are not in the journal."""
        left: set[int] = set()
        for line in (self.out / "journal").read_text().splitlines():
            row = json.loads(line)
            if "job" in row:
                left.add(row["job"]["uid"])
            elif "over" in row:
                left.discard(row["uid"])
        return left

    def is_clean(self) -> None:
        """No process of the study is left, and the journal knows of no job."""
        wait_until(lambda: not marked(self._place.mark), what="no process is left")
        assert self.left() == set()
