"""The keeper under sanitizers, and with input that makes no sense."""

from __future__ import annotations

import os
import random
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from native.wire import keeper as wire
from pct.host.spawn.spawner import KEEPER
from tests.support.keeper_job import make_spec

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = ROOT / "tests" / "c" / "keeper"
SOURCES = ROOT / "native" / "keeper"
FLAGS = ("-std=gnu11", "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")

Compile = Callable[..., Path]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """Compile with sanitizers and the keeper's headers; gives the program's path."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    directory = tmp_path_factory.mktemp("compiled")

    def compiled(name: str, *sources: Path) -> Path:
        target = directory / name
        sources = (*sources, PROGRAMS / "sanitizer_options.c")
        subprocess.run(
            ["cc", *FLAGS, *SANITIZERS, f"-I{SOURCES}", "-o", target, *sources], check=True
        )
        return target

    return compiled


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
def test_the_hold_library_needs_nobody(tmp_path: Path, level: str) -> None:
    target = tmp_path / "yodhold.so"
    flags = ("-ffreestanding", "-nostdlib", "-fPIC", "-shared", "-fno-stack-protector")
    source = ROOT / "native" / "hold" / "yodhold.c"
    subprocess.run(["cc", *FLAGS, *flags, level, "-o", target, source], check=True)
    done = subprocess.run(
        ["nm", "-D", "--undefined-only", target], check=True, capture_output=True, text=True
    )
    assert done.stdout.split() == ["w", "__libc_stack_end", "w", "dl_iterate_phdr"]


def encoded(parent: int = 1, has_portals: bool = False) -> bytes:
    spec = make_spec(
        ("/bin/true", "argument"),
        ranks=3,
        others=(("/bin/false",),),
        environment=(b"A=1", b"PATH=/bin:/usr/bin"),
        own=lambda rank: (b"YOD_RANK=%d" % rank,),
        limits=((7, 100), (3, wire.KEEP, wire.UNLIMITED)),
        groups=(0, 1, 2),
    )
    if has_portals:
        ranks = (*spec.ranks[:-1], replace(spec.ranks[-1], wants_portals=True))
        spec = replace(spec, ranks=ranks, listen_nid=0x7F000001)
    bound = replace(spec.ranks[0], cpus=(1, 64))
    spec = replace(spec, ranks=(bound, *spec.ranks[1:]), denied=b"195:1")
    return wire.encode_spec(spec, parent, b"/lib/yodhold.so")


@pytest.mark.parametrize("has_portals", [False, True])
def test_no_specification_makes_the_reader_read_beyond_it(
    compiled: Compile, has_portals: bool
) -> None:
    program = compiled("test_spec", PROGRAMS / "test_spec.c", SOURCES / "spec.c")
    done = subprocess.run([program], input=encoded(1, has_portals), capture_output=True)
    assert done.returncode == 0, done
    assert 0 < int(done.stdout) < 8000  # some changes are harmless, some are not


@pytest.mark.parametrize(
    ("denied", "allows"),
    [
        ("", "1111"),
        ("195:1", "0111"),
        ("195:1 226:129", "0101"),
        ("226:129 195:2", "1101"),
        (" ".join(f"195:{minor}" for minor in range(1024)), "0111"),
        (" ".join(f"195:{minor}" for minor in range(1025)), ""),
        *((text, "") for text in ("195", "195:", "a:1", "195:1,", " 195:1", "-1:1", "1:9999999")),
    ],
)
def test_the_program_for_devices_denies_what_it_was_made_with_and_nothing_else(
    compiled: Compile, denied: str, allows: str
) -> None:
    source = SOURCES / "devices" / "devices.c"
    program = compiled("test_devices", PROGRAMS / "test_devices.c", source)
    asked = ("2 195 1", "1 195 1", "2 226 129", "2 1 3")  # the second is a block device
    done = subprocess.run([program, denied, *asked], capture_output=True, text=True)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", allows)


@pytest.mark.parametrize("kind", ["binary", "script"])
def test_no_program_file_makes_the_inspection_fail(
    compiled: Compile, tmp_path: Path, kind: str
) -> None:
    victim = tmp_path / "victim"
    if kind == "binary":
        shutil.copy("/bin/true", victim)
    else:
        victim.write_text("#!/usr/bin/env -S python3 -x\nprint('main')\n" + "#" * 500)
        victim.chmod(0o755)
    program = compiled("test_inspect", PROGRAMS / "test_inspect.c", SOURCES / "start" / "inspect.c")
    done = subprocess.run([program, victim], capture_output=True)
    assert done.returncode == 0, done


def receive(control: socket.socket) -> bytes:
    try:
        return control.recv(256 * wire.REPORTS_PER_PACKET)
    except ConnectionResetError:  # it left with a command unread; the reports are there
        return control.recv(256 * wire.REPORTS_PER_PACKET)


def run_keeper(keeper: str, spec: bytes, *commands: bytes) -> tuple[int, bytes]:
    """Run a keeper to its end; gives its exit status and the kinds of its reports."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = os.memfd_create("spec")
    os.write(file, spec)
    # Above 4, so that making one of the two descriptors does not overwrite the other.
    os.dup2(theirs.fileno(), 200)
    os.dup2(file, 201)
    try:
        unix_pid = os.posix_spawn(
            keeper,
            [keeper],
            {},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, 200, 3),
                (os.POSIX_SPAWN_DUP2, 201, 4),
                (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
            ],
            setpgroup=0,
        )
    finally:
        for fd in (200, 201, file):
            os.close(fd)
        theirs.close()
    with ours:
        for command in commands:
            ours.send(command)
        if not commands:
            ours.shutdown(socket.SHUT_WR)
        kinds = b""
        while packet := receive(ours):
            kinds += packet[::256]
    return os.waitstatus_to_exitcode(os.waitpid(unix_pid, 0)[1]), kinds


@pytest.fixture(scope="module")
def sanitized(compiled: Compile) -> str:
    """A keeper with sanitizers."""
    return str(compiled("yod-keeper", *sorted(SOURCES.rglob("*.c"))))


@pytest.mark.parametrize(
    ("spec", "status"),
    [(b"", 64), (b"YOK1", 64), (b"\xff" * 5000, 64), (encoded(parent=1), 70)],
    ids=["empty", "short", "nonsense", "another's"],
)
def test_a_keeper_refuses_what_is_not_meant_for_it(spec: bytes, status: int) -> None:
    exit_status, kinds = run_keeper(KEEPER, spec)
    assert exit_status == status
    assert kinds == bytes([6])  # FAILED


def test_random_changes_of_a_specification_never_break_a_keeper(sanitized: str) -> None:
    chance = random.Random(1)
    whole = encoded(parent=os.getpid())
    assert run_keeper(sanitized, whole)[0] == 0
    for _ in range(100):
        changed = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            # Not the owner (a keeper that became another's user is not ours to test).
            at = chance.choice([*range(8), *range(24, len(whole))])
            changed[at] = chance.choice([0, 1, 255, chance.randrange(256)])
        assert run_keeper(sanitized, bytes(changed))[0] in (0, 64, 70)


@pytest.mark.parametrize(
    "commands",
    [
        (b"x",),
        (b"\0" * 16,) * 20 + (wire.encode_end(),),
        (b"\xff" * 16, wire.encode_end()),
        (wire.encode_signal(9999), wire.encode_signal(-1, 5), wire.encode_end()),
        (wire.encode_go(),) * 5 + (wire.encode_end(),) * 5,
        (wire.encode_signal(9), wire.encode_go(), wire.encode_end()),
    ],
)
def test_no_command_breaks_a_keeper(sanitized: str, commands: tuple[bytes, ...]) -> None:
    exit_status, kinds = run_keeper(sanitized, encoded(parent=os.getpid()), *commands)
    assert exit_status == 0
    assert kinds.count(1) == kinds.count(4) == 4
    assert kinds.endswith(bytes([5]))  # EMPTY


@pytest.mark.long
@pytest.mark.timeout(900)  # all of them
def test_the_keepers_tests_pass_with_sanitizers(sanitized: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-m", "system", "-p", "no:cacheprovider"),
            f"--basetemp={tmp_path / 'nested'}",
            *sorted(set(HERE.glob("test_keeper_*.py")) - {Path(__file__)}),
        ],
        cwd=ROOT,
        env=os.environ | {"KEEPER_UNDER_TEST": sanitized},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\d{3} passed", done.stdout)
