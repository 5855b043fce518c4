"""Files of yod's host for ranks on their nodes (--remote-io)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pct.host.spawn.orphans import children_of
from tests.support.leaks import descendants
from tests.support.memory import Memory
from tests.support.nobody import AS_NOBODY, NOBODY
from tests.support.partition import BIN, finish
from tests.support.processes import stopped
from tests.support.wait import read_until, wait_for_exit, wait_until

SH = ("sh", "-c")
LOOP = "trap '' TERM; echo up; while :; do cat in >/dev/null; done"

# Each line says what a program sees; run in a directory of files that yod has, and in one of this
# host, it says the same.
MANY_CALLS = """
import errno, mmap, os, stat
def tell(name, call, *words, **options):
    try:
        print(name, call(*words, **options))
    except OSError as error:
        print(name, errno.errorcode[error.errno])
tell("none", open, "none")
tell("directory", open, "d", "w")
tell("not a directory", open, "in/x")
tell("full", os.mkdir, "d")
tell("not empty", os.rmdir, "d")
tell("program", os.execv, "in", ["in"])
tell("access", os.access, "in", os.X_OK)
tell("long name", open, "x" * 300)
fd = os.open("held", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
tell("again", os.open, "held", os.O_CREAT | os.O_EXCL)
tell("write", os.write, fd, b"0123456789")
tell("gone", os.unlink, "held")
tell("read", os.pread, fd, 4, 3)
tell("links", lambda: (os.fstat(fd).st_nlink, oct(os.fstat(fd).st_mode), os.fstat(fd).st_size))
tell("truncate", os.ftruncate, fd, 3)
tell("read all", os.pread, fd, 100, 0)
tell("room", os.posix_fallocate, fd, 0, 5000)
tell("size", lambda: os.fstat(fd).st_size)
tell("end", os.lseek, fd, 0, os.SEEK_END)
tell("sync", os.fsync, fd)
os.close(fd)
tell("link", os.link, "in", "hard")
tell("count", lambda: os.stat("in").st_nlink)
tell("symlink", os.symlink, "in", "soft")
tell("readlink", os.readlink, "soft")
tell("through", lambda: open("soft").read())
tell("rename", os.rename, "hard", "d/moved")
tell("over", os.rename, "d/moved", "d/kept")
tell("kept", lambda: open("d/kept").read())
tell("chmod", os.chmod, "d/kept", 0o4711)
tell("mode", lambda: oct(os.stat("d/kept").st_mode))
tell("chown", os.chown, "d/kept", 12, 34)
tell("owner", lambda: (os.stat("d/kept").st_uid, os.stat("d/kept").st_gid))
tell("times", os.utime, "in", ns=(1_000_000_001, 2_000_000_002))
tell("stamp", lambda: (os.stat("in").st_atime_ns > 0, os.stat("in").st_mtime_ns))
tell("now", lambda: (os.utime("in"), os.stat("in").st_mtime > 1e9))
tell("fifo", os.mkfifo, "pipe")
tell("is fifo", lambda: stat.S_ISFIFO(os.stat("pipe").st_mode))
os.mkdir("many")
for number in range(1000):
    os.close(os.open(f"many/{number}", os.O_CREAT))
tell("many", lambda: sorted(os.listdir("many")) == sorted(map(str, range(1000))))
tell("kinds", lambda: sorted((e.name, e.is_dir(), e.is_symlink()) for e in os.scandir(".")))
with open("map", "w+b") as file:
    file.write(bytes(9000))
    file.flush()
    with mmap.mmap(file.fileno(), 9000) as shared:
        shared[5000:5005] = b"write"
        shared.flush()
with open("map", "rb") as file, mmap.mmap(file.fileno(), 9000, prot=mmap.PROT_READ) as read:
    tell("mapped", lambda: read[4998:5007])
with open("log", "ab") as one, open("log", "ab") as other:
    for _ in range(3):
        one.write(b"1"), one.flush(), other.write(b"2"), other.flush()
tell("appended", lambda: open("log").read())
tell("space", lambda: os.statvfs(".").f_blocks > 0)
tell("here", lambda: os.getcwd() == os.environ["PWD"] or os.path.samefile(".", os.environ["PWD"]))
"""


@pytest.fixture(autouse=True)
def _root(needs_root: None) -> None:
    """Mounts are made by root here; who is not root needs a host that lets users mount."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


def yod(where, data: Path, *words: str | Path, size: int = 1, **options):
    return where.yod("-sz", str(size), "--remote-io", data, "--chdir", data, *words, **options)


@contextmanager
def looping(where, data: Path, size: int = 2) -> Iterator[subprocess.Popen[bytes]]:
    """A job whose ranks read without end, and do not heed SIGTERM."""
    (data / "in").write_text("x")
    words = ("-sz", str(size), "--remote-io", data, "--chdir", data, *SH, LOOP)
    process = where.start_yod(*words)
    try:
        read_until(process.stdout.fileno(), b"up\n", times=size)
        yield process
    finally:
        with process:
            process.kill()


def server_of(yod_pid: int) -> int:
    """The process that has the files."""
    (found,) = [
        pid
        for pid in children_of(yod_pid)
        if b"yod.remote.serve" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    return found


@pytest.mark.warm
def test_ranks_read_and_write_the_files_of_yods_host(anywhere, data):
    (data / "in").write_text("hello\n")
    script = "grep -c fuse.yod /proc/mounts; cat in; echo $YOD_RANK >>out; mkdir -p d/e"
    done = yod(anywhere, data, *SH, script, size=3)
    assert (done.status, sorted(done.out.split()), done.err) == (0, ["1"] * 3 + ["hello"] * 3, "")
    assert sorted((data / "out").read_text().split()) == ["0", "1", "2"]
    assert (data / "d/e").is_dir()
    assert "fuse.yod" not in Path("/proc/mounts").read_text()


def test_without_it_nothing_is_mounted(embedded, data):
    done = embedded.yod("--chdir", data, *SH, "grep -c fuse.yod /proc/mounts; true")
    assert done == (0, "0\n", "")


def test_calls_say_what_they_say_where_the_files_are(embedded, tmp_path):
    """What is different is in the page of yod."""
    said = []
    for name in ("here", "remote"):
        directory = tmp_path / name
        (directory / "d").mkdir(parents=True)
        (directory / "d/x").touch()
        (directory / "in").write_text("hello\n")
        remote = ("--remote-io", directory) if name == "remote" else ()
        words = ("--chdir", directory, sys.executable, "-c", MANY_CALLS)
        done = embedded.yod(*remote, *words, env={"PWD": str(directory)})
        assert (done.status, done.err) == (0, "")
        said.append(done.out.splitlines())
    assert said[0] == said[1]
    here, remote = tmp_path / "here", tmp_path / "remote"
    assert (remote / "map").read_bytes() == (here / "map").read_bytes()


def test_a_full_file_system_says_so(embedded, data):
    with mounted("size=64k", data):
        script = "import os\nwith open('f', 'wb', 0) as f:\n  while True: f.write(bytes(9000))"
        done = yod(embedded, data, sys.executable, "-c", script)
    assert done.status == 1 and "No space left on device" in done.err


def test_who_may_not_there_may_not_here(embedded, data):
    with mounted("size=64k", data):
        subprocess.run(["mount", "-o", "remount,ro", data], check=True)
        done = yod(embedded, data, *SH, "echo x >f")
    assert done.status == 2 and "Read-only file system" in done.err


class mounted:
    """A small file system over a directory."""

    def __init__(self, options: str, directory: Path) -> None:
        self._directory = directory
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", directory], check=True)

    def __enter__(self) -> None:
        """It is mounted."""

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", self._directory], check=True)


def test_setuid_programs_give_no_rights_there(embedded, data):
    done = yod(embedded, data, *SH, "grep NoNewPrivs /proc/self/status")
    assert done.out.split() == ["NoNewPrivs:", "1"]


def test_many_threads_stay_within_a_small_window(embedded, data):
    script = """
import os, threading
def work(n):
    fd = os.open(f"f{n}", os.O_CREAT | os.O_RDWR)
    for at in range(40):
        os.pwrite(fd, bytes([n]) * 70000, at * 70000)
    assert os.pread(fd, 70000, 39 * 70000) == bytes([n]) * 70000
threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
[t.start() for t in threads], [t.join() for t in threads]
"""
    limits = {"YOD_REMOTE_WINDOW_BYTES": "65536"}
    done = yod(embedded, data, sys.executable, "-c", script, env=limits)
    assert done == (0, "", "")
    assert {each.stat().st_size for each in data.iterdir()} == {40 * 70000}


WRITERS = 300
EACH_WRITES = f"""
import os, threading
fds = [os.open(f"f{{n}}", os.O_CREAT | os.O_RDWR) for n in range({WRITERS})]
print("up", flush=True)
input()
threads = [threading.Thread(target=os.pwrite, args=(fd, bytes(131072), 0)) for fd in fds]
[t.start() for t in threads], [t.join() for t in threads]
"""


def waiting_for_replies() -> int:
    """Threads below this process whose call of a file of FUSE has no reply."""
    found = 0
    for unix_pid in descendants(os.getpid()):
        for path in Path(f"/proc/{unix_pid}/task").glob("*/wchan"):
            with suppress(OSError):  # it has ended
                found += "request_wait_answer" in path.read_text()
    return found


def test_what_is_behind_the_window_waits_in_the_ranks(embedded, data):
    """39 MB are written at once while yod's end does nothing: without a window yod has them all."""
    env = {"YOD_REMOTE_WINDOW_BYTES": "65536"}
    words = ("--remote-io", data, "--chdir", data, sys.executable, "-c", EACH_WRITES)
    with embedded.start_yod(*words, env=env) as process:
        read_until(process.stdout.fileno(), b"up\n")
        memory = Memory(embedded, process.pid)
        with stopped(server_of(process.pid)):
            process.stdin.write(b"go\n")
            wait_until(lambda: waiting_for_replies() == WRITERS, what="all writers")
            memory.look()
        assert finish(process) == (0, "", "")
    assert memory.grown["yod"] < 8 << 20
    assert {path.stat().st_size for path in data.iterdir()} == {131072}


@pytest.mark.warm
def test_ranks_whose_requests_hang_are_killed(here, data):
    """A second interrupt sends SIGKILL; the kernel would wait for the reply that does not come."""
    with looping(here, data) as process:
        warm = here.launch_server
        server = server_of(process.pid if warm is None else warm.daemon.unix_pid)
        os.kill(server, signal.SIGSTOP)
        process.send_signal(signal.SIGTERM)
        read_until(process.stderr.fileno(), b"interrupt again")
        wait_until(lambda: process.send_signal(signal.SIGTERM) or process.poll() is not None)
        assert process.returncode == -signal.SIGTERM
    wait_for_exit(server)


def test_the_job_ends_when_the_process_with_the_files_does(here, data):
    with looping(here, data) as process:
        os.kill(server_of(process.pid), signal.SIGKILL)
        done = finish(process)
    assert done.status == 125
    assert "yod: --remote-io: the process with the files killed by SIGKILL" in done.err


def test_a_yod_that_is_killed_leaves_nobody(here, data):
    with looping(here, data) as process:
        server = server_of(process.pid)
    wait_for_exit(server)


LET_USERS_MOUNT = """
mount -t tmpfs tmpfs /mnt && mknod -m {mode} /mnt/fuse c 10 229 && mount --bind /mnt/fuse /dev/fuse
exec "$@"
"""


@pytest.mark.parametrize("may", [True, False])
def test_a_user_needs_no_root_where_the_host_lets_users_mount(embedded, theirs, may):
    words = ("--remote-io", theirs, "--chdir", theirs, *SH, "echo x >made; stat -c %u made")
    as_nobody = (*AS_NOBODY, "env", f"HOME={theirs}", BIN / "yod", *words)
    script = LET_USERS_MOUNT.format(mode="666" if may else "600")
    env = {"XDG_RUNTIME_DIR": None, "XDG_STATE_HOME": None}
    done = finish(
        embedded.start_command("unshare", "-m", "sh", "-c", script, "sh", *as_nobody, env=env)
    )
    probe = (*AS_NOBODY, "unshare", "-Urm", "mount", "-t", "tmpfs", "tmpfs", "/mnt")
    if may and subprocess.run(probe, capture_output=True).returncode:  # as on some Ubuntus
        assert (done.status, done.out) == (125, "") and "--remote-io" in done.err
    elif may:
        assert done == (0, f"{NOBODY}\n", "")
        assert (theirs / "made").read_text() == "x\n"
    else:
        assert (done.status, done.out) == (125, "")
        assert "--remote-io needs /dev/fuse on this node: Permission denied" in done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--remote-io", "none"), "--remote-io {cwd}/none: No such file or directory"),
        (("--remote-io", "file"), "--remote-io {cwd}/file: Not a directory"),
        (("--remote-io", "/"), "--remote-io /: ranks need that of their own node"),
        (("--remote-io", "/proc/self"), "ranks need that of their own node"),
        (("--remote-io", "."), ""),
        (("--remote-io", ".", "--remote-io", "d"), "it is within {cwd}"),
        (("--remote-io", ".", "--checkpoint-dir", "d"), "cannot be written down"),
    ],
)
def test_a_directory_that_makes_no_sense_is_refused(embedded, data, words, says):
    (data / "file").touch()
    (data / "d").mkdir()
    done = embedded.yod(*words, "true", cwd=data)
    if says:
        assert (done.status, done.out, done.err.count("\n")) == (125, "", 1)
        assert says.format(cwd=data) in done.err
    else:
        assert done == (0, "", "")


@pytest.mark.hosts
class TestOnHosts:
    """Directories that are not the same on each host."""

    @pytest.fixture
    def two(self, start_hosts, data):
        """Two nodes whose directory is a small one of their own, with a file in it."""
        hosts = start_hosts(2, slots=2)
        for host in hosts.hosts[:2]:
            host.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", data], check=True)
            host.run(["touch", data / "of-the-node"], check=True)
        return hosts

    def test_files_are_those_of_yods_host_and_no_others(self, two, data):
        (data / "in").write_text("from yod\n")
        script = "cat in; ls; dd if=/dev/zero of=big.$YOD_RANK bs=64k count=20 2>/dev/null"
        done = yod(two, data, *SH, script, size=2)
        assert (done.status, done.err) == (0, "")
        assert done.out.count("from yod") == 2 and "of-the-node" not in done.out
        assert [(data / f"big.{rank}").stat().st_size for rank in (0, 1)] == [20 << 16] * 2
        there = two.hosts[0].run(["ls", data]).stdout
        assert there == "of-the-node\n"  # nobody else on the node sees the mount

    def test_what_is_appended_by_all_is_all_there(self, two, data):
        script = "for i in $(seq 100); do echo rank $YOD_RANK line $i >>log; done"
        assert yod(two, data, *SH, script, size=4) == (0, "", "")
        lines = (data / "log").read_text().splitlines()
        assert sorted(lines) == sorted(
            f"rank {r} line {i}" for r in range(4) for i in range(1, 101)
        )

    def test_what_one_has_written_another_reads(self, two, data):
        script = """
if [ $YOD_RANK = 0 ]; then
    for i in $(seq 20); do echo $i >turn.new; mv turn.new turn; done; echo over >turn
else
    until [ "$(cat turn 2>/dev/null)" = over ]; do :; done
fi"""
        assert yod(two, data, *SH, script, size=4) == (0, "", "")

    def test_programs_and_modules_that_only_yods_host_has_run_there(self, two, data, programs):
        (data / "static").write_bytes(programs.static.read_bytes())
        (data / "static").chmod(0o755)
        (data / "script.py").write_text("import beside; print(beside.WORD)\n")
        (data / "beside.py").write_text("WORD = 'imported'\n")
        assert yod(two, data, *SH, "./static", size=1) == (0, "rank 0\n", "")
        assert yod(two, data, data / "static", size=1) == (0, "rank 0\n", "")
        assert yod(two, data, sys.executable, "script.py", size=2) == (0, "imported\n" * 2, "")

    def test_the_files_of_output_are_there_too(self, two, data):
        done = yod(two, data, "-o", "%t.out", *SH, "echo out", size=2)
        assert done == (0, "", "")
        assert (data / "1.out").read_text() == "out\n"

    def test_a_directory_that_a_node_has_not_is_named(self, two, tmp_path):
        other = tmp_path / "only-here"
        other.mkdir()
        for host in two.hosts[:2]:
            host.run(["mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True)
        done = two.yod("-sz", "2", "--remote-io", other, "true")
        assert (done.status, done.out) == (125, "")
        assert re.search(rf"node[01].*--remote-io needs a directory.*{other}", done.err)

    def test_a_pct_that_is_killed_leaves_no_rank(self, two, data):
        with looping(two, data, size=4) as process:
            two.pcts[1].kill()
            done = finish(process)
        two.replace_pct(1)
        assert done.status != 0 and "lost" in done.err
        for host in two.hosts[:2]:
            wait_until(
                lambda host=host: not any("trap" in each for each in host.processes().values())
            )
