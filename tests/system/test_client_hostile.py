"""The client under sanitizers, and with a server of the same user that sends garbage."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from native.wire import client as wire
from native.wire.client_codec import encode
from tests.support import launch_server
from tests.support.launch_server import Installed, Server, server

__all__ = ["server"]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CLIENT = ROOT / "native" / "client"
KEEPER = ROOT / "native" / "keeper"
OPTIONS = ROOT / "tests" / "c" / "keeper" / "sanitizer_options.c"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAULT = 99  # exit status of a sanitizer that has found something


@pytest.fixture
def sanitized(tmp_path: Path) -> Path:
    """A client with sanitizers."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    target = tmp_path / "yod"
    sources = {*CLIENT.glob("*.c"), *KEEPER.rglob("*.c"), OPTIONS} - {KEEPER / "main.c"}
    subprocess.run(["cc", *FLAGS, *SANITIZERS, "-o", target, *sorted(sources)], check=True)
    return target


EXAMPLES = (
    wire.Output(1, b"text\n"),
    wire.Output(2, b"x" * 60_000),
    wire.Read(1000),
    wire.Start(1),
    wire.Continue(1),
    wire.KillOrphans(3),
    wire.Append(1, b"file", b"data", wire.AppendFlag.MORE),
    wire.Append(2, b"file", b"data"),
    wire.Pong(),
    wire.Times(5, 20_000),
    wire.Suspend(),
    wire.Give(1),
    wire.Give(2),
    wire.Cold("no"),
    wire.Leave("go\n"),
    wire.Exit(0),
)


def garbage(chance: random.Random) -> bytes:
    """A packet that may have been changed."""
    packet = bytearray(encode(chance.choice(EXAMPLES[: chance.randint(1, len(EXAMPLES))])))
    for _ in range(chance.choice((0, 0, 1, 2))):
        packet[chance.randrange(min(len(packet), 24))] = chance.choice((0, 1, 2, 255))
    if chance.random() < 0.1:
        del packet[chance.randrange(1, len(packet)) :]
    return bytes(packet)


def test_no_packet_breaks_a_client(
    server: Server, sanitized: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_server, "UNDER_TEST", str(sanitized))
    monkeypatch.delenv("YOD_LAUNCH_SERVER", raising=False)
    monkeypatch.setenv("YOD_COLD", "never")  # a slow test is waited for
    with closing(Installed(tmp_path / "bin")) as client:
        for seed in range(40):
            chance = random.Random(seed)
            process = client.start(
                "x", start_new_session=True, cwd=tmp_path, stdin=subprocess.DEVNULL
            )
            conversation = server.begin()
            spare = [os.open("/dev/null", os.O_RDWR) for _ in range(3)]
            try:
                for _ in range(30):
                    fds = spare[: chance.choice((0, 0, 0, 1, 2, 3))]
                    conversation.send_raw(garbage(chance), *fds)
            except OSError:  # it has hung up
                pass
            conversation.close()
            for fd in spare:
                os.close(fd)
            out, err = process.communicate()
            assert process.returncode != FAULT, (seed, err[-4000:])
            assert b"Sanitizer" not in err
            assert b"runtime error" not in err + out


@pytest.mark.long
@pytest.mark.timeout(900)  # all of them
def test_the_clients_tests_pass_with_sanitizers(sanitized: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-m", "system", "-p", "no:cacheprovider"),
            f"--basetemp={tmp_path / 'nested'}",
            *("--deselect", f"{HERE.relative_to(ROOT)}/test_client_streams.py::{MEMORY}"),
            *sorted(set(HERE.glob("test_client*.py")) - {Path(__file__)}),
        ],
        env={**os.environ, "CLIENT_UNDER_TEST": str(sanitized)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]


MEMORY = "test_a_running_client_takes_little_memory"  # a sanitizer takes more
