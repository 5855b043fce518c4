"""The standard streams of a client: nothing is lost, and nobody who is slow holds it up."""

from __future__ import annotations

import errno
import os
import pty
import socket
import subprocess
from pathlib import Path

import pytest

from native.wire import client as wire
from native.wire.client import AppendFlag, Stdio
from tests.support.launch_server import (
    Conversation,
    Installed,
    Server,
    client,
    ended,
    lost_line,
    server,
)
from tests.support.wait import read_until, wait_until

__all__ = ["client", "server"]

WINDOW = wire.OUTPUT_WINDOW_BYTES
CHUNK = wire.DATA_MAX


@pytest.fixture(autouse=True)
def is_waited_for(monkeypatch: pytest.MonkeyPatch, place: None) -> None:
    """A server that is slow to say HELLO is waited for."""
    monkeypatch.setenv("YOD_COLD", "never")


def fill(conversation: Conversation, stream: int = 1) -> bytes:
    """Send a whole window."""
    data = b"".join(bytes([65 + i]) * CHUNK for i in range(WINDOW // CHUNK))
    for at in range(0, WINDOW, CHUNK):
        conversation.send(wire.Output(stream, data[at : at + CHUNK]))
    return data


def is_answering(conversation: Conversation, process: subprocess.Popen[bytes]) -> None:
    """The client still does what it is told."""
    process.send_signal(10)
    assert conversation.expect(wire.Signal).number == 10


@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_reader_that_is_slow_gets_all_and_holds_up_nothing(
    client: Installed, server: Server, kind: str
) -> None:
    if kind == "pipe":
        ours, theirs = os.pipe()
    else:
        ours, theirs = (each.detach() for each in socket.socketpair())
    process = client.start("x", stdout=theirs)
    os.close(theirs)
    conversation = server.begin()
    data = fill(conversation)
    is_answering(conversation, process)
    assert conversation.written[1] < WINDOW
    conversation.send(wire.Output(2, b"meanwhile\n"))
    assert process.stderr is not None
    read_until(process.stderr.fileno(), b"meanwhile\n")
    conversation.send(wire.Exit(0))
    with open(ours, "rb") as file:
        assert file.read() == data
    assert ended(process) == 0


def test_a_file_is_written_whole(client: Installed, server: Server, tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        process = client.start("x", stdout=file, stderr=file)
    conversation = server.begin()
    assert conversation.request.stdio == Stdio.SAME_OUTPUT
    data = b""
    for _ in range(3):
        data += fill(conversation)
        conversation.wait_written(1, len(data))
    conversation.send(wire.Exit(0))
    assert ended(process) == 0
    assert (tmp_path / "out").read_bytes() == data


def test_more_than_the_window_breaks_the_protocol(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    for _ in range(3):
        try:
            fill(conversation)
        except (BrokenPipeError, ConnectionResetError):
            break
    conversation.wait_end()
    err = process.communicate()[1]
    assert process.returncode == 125
    assert err == lost_line("broke the protocol")


def test_a_reader_that_leaves_is_told_once_and_what_follows_is_credited(
    client: Installed, server: Server
) -> None:
    ours, theirs = os.pipe()
    process = client.start("x", stdout=theirs)
    os.close(theirs)
    conversation = server.begin()
    data = fill(conversation)
    os.read(ours, 10)
    os.close(ours)
    failed = conversation.expect(wire.OutputFailed)
    assert failed == wire.OutputFailed(1, errno.EPIPE)
    conversation.wait_written(1, len(data))
    conversation.send(wire.Output(1, b"more"))
    conversation.wait_written(1, len(data) + 4)
    conversation.send(wire.Output(2, b"but here\n"))
    conversation.send(wire.Exit(141))
    assert process.communicate()[1] == b"but here\n"
    assert process.returncode == 141


def test_a_full_disk_is_told(client: Installed, server: Server) -> None:
    with open("/dev/full", "wb") as full:
        process = client.start("x", stdout=full)
    conversation = server.begin()
    conversation.send(wire.Output(1, b"data"))
    assert conversation.expect(wire.OutputFailed) == wire.OutputFailed(1, errno.ENOSPC)
    conversation.wait_written(1, 4)
    conversation.send(wire.Exit(1))
    assert ended(process) == 1


def test_the_shared_descriptions_stay_as_they_were(client: Installed, server: Server) -> None:
    ours, theirs = os.pipe()
    source, sink = os.pipe()
    process = client.start("x", stdin=source, stdout=theirs)
    conversation = server.begin()
    conversation.send(wire.Read(10))
    fill(conversation)
    is_answering(conversation, process)
    assert os.get_blocking(theirs)
    assert os.get_blocking(source)
    conversation.send(wire.Exit(0, drops=True))
    assert ended(process) == 0
    for fd in (ours, theirs, source, sink):
        os.close(fd)


def test_exit_may_drop_what_nobody_reads(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    fill(conversation)
    conversation.send(wire.Exit(9, drops=True))
    assert ended(process) == 9


def test_a_press_after_the_end_drops_what_nobody_reads(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    fill(conversation)
    conversation.send(wire.Exit(9))
    conversation.wait_taken()
    process.send_signal(2)
    assert ended(process) == 9


def test_input_comes_as_far_as_it_was_allowed(client: Installed, server: Server) -> None:
    process = client.start("x")
    assert process.stdin is not None
    process.stdin.write(b"0123456789")
    conversation = server.begin()
    is_answering(conversation, process)  # and nothing was read
    conversation.send(wire.Read(4))
    assert conversation.expect(wire.Input).data == b"0123"
    is_answering(conversation, process)
    conversation.send(wire.Read(100))
    assert conversation.expect(wire.Input).data == b"456789"
    process.stdin.write(b"more")
    assert conversation.expect(wire.Input).data == b"more"
    process.stdin.close()
    assert conversation.expect(wire.Input).data == b""
    is_answering(conversation, process)  # and no second end
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


@pytest.mark.parametrize("kind", ["file", "null", "socket", "directory"])
def test_every_kind_of_input_is_read_to_its_end(
    client: Installed, server: Server, tmp_path: Path, kind: str
) -> None:
    data = b"" if kind in ("null", "directory") else b"x" * 300_000
    (tmp_path / "in").write_bytes(data)
    if kind == "socket":
        ours, theirs = socket.socketpair()
        stdin = theirs.detach()
    else:
        paths = {"file": tmp_path / "in", "null": "/dev/null", "directory": tmp_path}
        stdin = os.open(paths[kind], os.O_RDONLY)
    process = client.start("x", stdin=stdin)
    os.close(stdin)
    conversation = server.begin()
    conversation.send(wire.Read(1 << 20))
    if kind == "socket":
        ours.settimeout(10)
        ours.sendall(data)
        ours.close()
    got = b""
    while part := conversation.expect(wire.Input).data:
        got += part
    assert got == data
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


@pytest.mark.parametrize("is_told", [True, False])
def test_a_terminal_is_not_read_in_the_background(
    client: Installed, server: Server, is_told: bool
) -> None:
    """`yod &`, then `fg`, as dash does it, and as bash does it with a job that runs."""
    ours, theirs = pty.openpty()
    script = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "import subprocess\n"
        "yod = subprocess.Popen(sys.argv[1:], process_group=0)\n"
        "sys.stdin.readline()\n"
        "os.tcsetpgrp(0, yod.pid)\n"
        f"if {is_told}: yod.send_signal(signal.SIGCONT)\n"
        "sys.exit(yod.wait())\n"
    )
    process = client.start_below_shell(script, theirs)
    conversation = server.begin()
    assert Stdio.STDIN_TERMINAL in conversation.request.stdio
    conversation.send(wire.Read(100))
    at_first = os.tcgetpgrp(ours)
    os.write(ours, b"for the script\n")
    wait_until(lambda: os.tcgetpgrp(ours) != at_first, what="another foreground")
    if is_told:
        assert conversation.expect(wire.Signal).number == 18
    for line in (b"for yod\n", b"more\n"):
        os.write(ours, line)
        assert conversation.expect(wire.Input).data == line
    conversation.send(wire.Exit(6))
    assert ended(process) == 6
    os.close(ours)


def test_what_was_typed_before_the_terminal_was_ours_is_read(
    client: Installed, server: Server
) -> None:
    """A line behind `fg`, which the shell has not done yet: no further line says that it has."""
    ours, theirs = pty.openpty()
    script = (
        "import os, signal, subprocess, sys\n"
        "signal.signal(signal.SIGTTOU, signal.SIG_IGN)\n"
        "yod = subprocess.Popen(sys.argv[1:], process_group=0)\n"
        "while os.read(0, 100) != b'fg\\n': pass\n"
        "os.tcsetpgrp(0, yod.pid)\n"
        "sys.exit(yod.wait())\n"
    )
    process = client.start_below_shell(script, theirs)
    conversation = server.begin()
    conversation.send(wire.Read(100))
    os.write(ours, b"fg\nfor yod\n")
    assert conversation.expect(wire.Input).data == b"for yod\n"
    conversation.send(wire.Exit(6))
    assert ended(process) == 6
    os.close(ours)


def test_a_terminal_that_closes_is_told(client: Installed, server: Server) -> None:
    ours, theirs = pty.openpty()
    process = client.start("x", stdin=theirs, stdout=theirs)
    os.close(theirs)
    conversation = server.begin()
    os.close(ours)
    conversation.send(wire.Output(1, b"x"))
    assert conversation.expect(wire.OutputFailed) == wire.OutputFailed(1, errno.EIO)
    conversation.wait_written(1, 1)
    conversation.send(wire.Read(1))
    assert conversation.expect(wire.Input).data == b""
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_files_are_added_to_with_the_clients_rights(
    client: Installed, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "log").write_text("before\n")
    (tmp_path / "link").symlink_to("log")
    process = client.start("x", cwd=tmp_path, umask=0o22)
    conversation = server.begin()

    def append(path: bytes, data: bytes, *flags: AppendFlag) -> int:
        for token, flag in enumerate(flags, 5):
            conversation.send(wire.Append(token, path, data, flag))
        answer = conversation.expect(wire.Appended)
        assert answer.token == 4 + len(flags)
        return answer.errno

    assert append(b"log", b"after\n", AppendFlag.LOG) == 0
    assert append(b"link", b"no\n", AppendFlag.LOG) == errno.ELOOP
    assert append(b"link", b"report\n", AppendFlag(0)) == 0
    assert (tmp_path / "log").read_text() == "before\nafter\nreport\n"
    assert append(b"new", b"ab", AppendFlag.MORE, AppendFlag.MORE, AppendFlag(0)) == 0
    assert (tmp_path / "new").read_text() == "ababab"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644
    assert append(b"new", b"", AppendFlag.EMPTIES) == 0
    assert (tmp_path / "new").read_text() == ""
    assert append(b"/dev/full", b"x", AppendFlag(0)) == errno.ENOSPC
    assert append(b"no/such", b"x", AppendFlag(0)) == errno.ENOENT
    conversation.send(wire.Exit(0))
    assert ended(process) == 0


def test_a_running_client_takes_little_memory(client: Installed, server: Server) -> None:
    process = client.start("x")
    conversation = server.begin()
    is_answering(conversation, process)
    status = Path(f"/proc/{process.pid}/status").read_text()
    rss_kb = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
    assert rss_kb < 1200
    conversation.send(wire.Exit(0))
    assert ended(process) == 0
    wait_until(lambda: process.poll() is not None)
