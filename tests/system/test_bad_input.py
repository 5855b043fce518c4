"""Bad input: one clear line on standard error, its exit status, nothing left behind.

The line says what, where and why; what to do where that is not plain.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess

import pytest

from tests.support.partition import BIN, Done
from tests.support.programs import script
from tests.support.wait import LIMIT_S, read_until, wait_until

pytestmark = pytest.mark.warm


def is_one_line(done: Done, status: int, *texts: str) -> None:
    """Check status and text of a launch that could not be."""
    assert (done.status, done.out) == (status, ""), done.err
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("yod: ")
    for text in texts:
        assert text in lines[0], (text, lines[0])


# -- the program ----------------------------------------------------------


def test_no_such_program(here, tmp_path):
    is_one_line(here.yod("-sz", "2", "no-such-program"), 127, "no-such-program", "PATH")
    path = tmp_path / "none"
    is_one_line(here.yod(path), 127, f"{path}: no such program")


def test_a_number_where_the_program_belongs_is_told_where_it_does(embedded):
    is_one_line(embedded.yod("4", "true"), 127, "4: no such program", "use -sz 4 for ranks")
    minutes = embedded.yod("-t", "5", "true")
    is_one_line(minutes, 127, "-t is -timing, which has no value: use -time 5 for a time limit")


def test_the_colon_of_mpiexec_is_an_argument_and_that_is_told(here, tmp_path):
    done = here.yod("-n", "1", "echo", "one", ":", "-n", "3", "two")
    assert (done.status, done.out) == (0, "one : -n 3 two\n")
    assert done.err == (
        "yod: `: -n ...` is an argument of echo here; use a load file for several programs\n"
    )
    assert here.yod("echo", ":", "two") == (0, ": two\n", "")


def test_a_daemon_names_the_option_that_is_wrong(embedded, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    pct = ("pct", "--bebopd", "127.0.0.1:1", "--key-file", key, "--listen", "127.0.0.1:0")
    for words, said in (
        ((*pct, "--ready-fd", "99"), "pct: --ready-fd 99: Bad file descriptor\n"),
        ((*pct, "--store", "/no"), "pct: --store /no: no directory that can be written\n"),
        (
            ("bebopd", "--state-dir", tmp_path, "--ready-fd", "99"),
            "bebopd: --ready-fd 99: Bad file descriptor\n",
        ),
    ):
        done = subprocess.run(
            [BIN / words[0], *words[1:]], capture_output=True, text=True, timeout=LIMIT_S
        )
        assert (done.returncode, done.stderr) == (2, said)


def test_a_program_without_a_name(here, tmp_path):
    is_one_line(here.yod("-sz", "2", ""), 127, "the program's name is empty")
    path = tmp_path / "job.load"
    path.write_text("true\n'' word\n")
    is_one_line(here.yod(path), 127, f"{path}:2: the program's name is empty")


def test_no_program_at_all(embedded):
    is_one_line(embedded.yod("-sz", "2"), 125, "no program", "usage: yod", "-help")
    is_one_line(embedded.yod(), 125, "no program")


def test_a_script_without_execute_permission(here, tmp_path):
    path = script(tmp_path / "job", "#!/bin/sh\necho never\n", 0o644)
    is_one_line(here.yod(path), 126, "no execute permission", f"chmod +x {path}")


def test_a_python_file_without_execute_permission(here, tmp_path):
    path = script(tmp_path / "job.py", '"""It\'s one."""\nprint("never")\n', 0o644)
    is_one_line(here.yod(path), 126, "no execute permission", f"python {path}")


def test_a_standard_output_that_takes_nothing(embedded):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [BIN / "yod", "-help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (
        125,
        "yod: standard output: no space left on device\n",
    )


def test_a_binary_without_execute_permission(here, programs, tmp_path):
    path = tmp_path / "binary"
    path.write_bytes(programs.dynamic.read_bytes())
    is_one_line(here.yod(path), 126, "no execute permission", f"chmod +x {path}")


def test_a_directory_and_a_device_are_no_programs(here, tmp_path):
    is_one_line(here.yod(tmp_path), 126, f"{tmp_path}: a directory")
    is_one_line(here.yod("/dev/null"), 126, "/dev/null: not a regular file")


def test_a_script_whose_interpreter_is_missing(here, tmp_path):
    path = script(tmp_path / "job", "#!/no/such/interpreter\n")
    done = here.yod("-sz", "2", path)
    is_one_line(done, 127, "/no/such/interpreter", str(path), here.node_names[0], "rank ")


def test_a_file_that_is_no_program_of_this_machine(here, tmp_path):
    path = tmp_path / "job"
    path.write_bytes(b"\x7fELF" + bytes(200))
    path.chmod(0o755)
    is_one_line(here.yod("-sz", "2", path), 126, str(path), here.node_names[0], "rank ")


def test_a_program_that_lacks_a_library_ends_before_its_entry(here, programs, tmp_path):
    program, library = programs.needy(tmp_path)
    library.unlink()
    done = here.yod("-sz", "3", program)
    assert (done.status, done.out) == (125, "")
    assert f"{library}: cannot open shared object file" in done.err  # the loader's own words
    (ours,) = [line for line in done.err.splitlines() if "before its entry" in line]
    assert ours.startswith("yod: ") and "ended with exit code 127" in ours
    assert here.node_names[0] in ours


# -- options --------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        (("-sz", "0", "true"), ("-sz 0", "at least 1")),
        (("-sz", "-3", "true"), ("-sz -3", "at least 1")),
        (("-sz", "many", "true"), ("-sz many", "not a number")),
        (("-sz", "1.5", "true"), ("-sz 1.5", "not a number")),
        (("-sz", "", "true"), ("-sz needs a value",)),
        (("-sz", "٣", "true"), ("-sz", "not a number")),
        (("-sz", "99999999999999999999", "true"), ("-sz 9999999", "at most")),
        (("-sz",), ("-sz needs a value",)),
        (("-list", "", "true"), ("-list needs a value",)),
        (("--mpi=", "true"), ("--mpi needs a value",)),
        (("--libpmix", "", "true"), ("--libpmix needs a value",)),
        (("--partition=", "true"), ("--partition needs a value",)),
        (("-file=", "true"), ("-file needs a value",)),
        (("-list", "1,,2", "true"), ("1,,2",)),
        (("-list", "a", "true"), ("`a`",)),
        (("-list", "1..", "true"), ("1..",)),
        (("-list", "-1", "true"), ("-1",)),
        (("-nonsense", "true"), ("-nonsense", "no such option", "-help")),
        (("-timing=3", "true"), ("-timing takes no value",)),
        (("-batch", "-interactive", "true"), ("-batch and -interactive",)),
        (("--arity", "0", "true"), ("--arity 0", "from 1 to 64")),
        (("--arity=65", "true"), ("--arity 65", "from 1 to 64")),
        (("--arity", "wide", "true"), ("--arity wide", "from 1 to 64")),
        (("--arity", "9" * 20, "true"), ("--arity 9999", "from 1 to 64")),
        (("--arity=", "true"), ("--arity needs a value",)),
        (("-kill", "--keep-going", "true"), ("-kill and --keep-going",)),
        (("--partition", "nonsense", "true"), ("--partition nonsense", "host:port")),
        (("--partition", "host:99999", "true"), ("host:99999", "host:port")),
    ],
)
def test_wrong_options(embedded, words, texts):
    is_one_line(embedded.yod(*words), 125, *texts)


def test_more_ranks_than_the_partition_has(start_local):
    local = start_local(3, slots=2)
    is_one_line(local.yod("-sz", "7", "true"), 125, "7 ranks", "6 slots", "3 nodes")
    is_one_line(local.yod("-sz", "5", "-list", "0,2", "true"), 125, "5 ranks", "4 slots")


def test_an_unknown_node_in_a_list(start_local):
    local = start_local(3)
    is_one_line(local.yod("-list", "1,7", "true"), 125, "node 7", "0..2")
    is_one_line(local.yod("-list", "8..9", "true"), 125, "nodes 8..9", "0..2")


def test_the_embedded_partition_has_one_node(embedded):
    is_one_line(embedded.yod("-list", "0..3", "true"), 125, "1..3", "has node 0 only")
    is_one_line(embedded.yod("-list", "1,1", "true"), 125, "no node 1 here", "has node 0 only")


def test_a_node_listed_twice_counts_once(local):
    """As with the original; a list has a rank for each of its nodes."""
    assert local.yod("-list", "1,1", "sh", "-c", "echo $YOD_SIZE") == (0, "1\n", "")


def test_a_wrong_limit_names_its_variable(embedded):
    done = embedded.yod("true", env={"YOD_PHASE_S": "soon"})
    is_one_line(done, 125, "YOD_PHASE_S=soon", "not a number")


# -- load files -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("true\n-np 3 true\n", 2, "-np: no such option"),
        ("", 0, "no program"),
        ("\n# nothing but a comment\n\n", 0, "no program"),
        ("true\n\n-sz 3\n", 3, "no program on this line"),
        ("-sz 0 true\n", 1, "at least 1"),
        ("-sz x true\n", 1, "not a number"),
        ("true\n-sz\n", 2, "-sz needs a value"),
        ("-list 1,,2 true\n", 1, "1,,2"),
        ("-list '' true\n", 1, "-list needs a value"),
        ("true 'unclosed\n", 1, "no closing quotation"),
    ],
)
def test_a_wrong_line_of_a_load_file_is_named(embedded, tmp_path, text, line, said):
    path = tmp_path / "job.load"
    path.write_text(text)
    where = f"{path}:{line}: " if line else f"{path}: "
    is_one_line(embedded.yod(path), 125, where, said)


def test_a_line_whose_size_exceeds_its_list(start_local, tmp_path):
    local = start_local(4, slots=1)
    path = tmp_path / "job.load"
    path.write_text("true\n\n# too much\n-sz 3 -list 2,3 true\n")
    is_one_line(local.yod(path), 125, f"{path}:4: ", "3 ranks", "2..3")


def test_a_line_with_an_unknown_node(local, tmp_path):
    path = tmp_path / "job.load"
    path.write_text("true\n-list 9 true\n")
    is_one_line(local.yod(path), 125, f"{path}:2: ", "node 9")


def test_lines_that_together_exceed_the_partition(start_local, tmp_path):
    local = start_local(2, slots=1)
    path = tmp_path / "job.load"
    path.write_text("true\ntrue\ntrue\n")
    is_one_line(local.yod(path), 125, "3 ranks", "2 slots")


def test_a_program_of_a_load_file_that_does_not_exist(here, tmp_path):
    path = tmp_path / "job.load"
    path.write_text("true\nno-such-program\n")
    is_one_line(here.yod(path), 127, f"{path}:2: ", "no-such-program")


def test_arguments_behind_a_load_file(embedded, tmp_path):
    path = tmp_path / "job.load"
    path.write_text("true\n")
    is_one_line(embedded.yod(path, "word"), 125, "load file", "no arguments")


def test_a_file_that_is_neither_program_nor_load_file(embedded, tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"\xff\xfe\x00\x01")
    is_one_line(embedded.yod(path), 125, str(path), "neither")


# -- the partition --------------------------------------------------------


def test_a_partition_that_does_not_answer(embedded, tmp_path):
    """An address that nobody listens at; a socket that is not there, or is nobody's."""
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    env = {"YOD_KEY_FILE": str(key)}
    with socket.socket() as deaf:  # which has a port, so that nobody else has it
        deaf.bind(("127.0.0.1", 0))
        port = deaf.getsockname()[1]
        done = embedded.yod("--partition", f"127.0.0.1:{port}", "true", env=env)
    is_one_line(done, 125, f"127.0.0.1:{port} (--partition)", "refused", "yodctl status")
    for path in (tmp_path / "none.sock", tmp_path / "dead.sock"):
        if path.name == "dead.sock":
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(path))
        done = embedded.yod("true", env={"YOD_PARTITION": f"unix:{path}"})
        is_one_line(done, 125, f"unix:{path} (YOD_PARTITION)", "yodctl status")


def test_something_else_listens_at_the_address(embedded, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        env = {"YOD_KEY_FILE": str(key), "YOD_CONNECT_S": "0.3"}
        done = embedded.yod("--partition", address, "true", env=env)
    is_one_line(done, 125, address, "yodctl status")


def test_a_bebopd_that_does_not_move(local):
    os.kill(local.bebopd.unix_pid, signal.SIGSTOP)
    done = local.yod("true", env={"YOD_ALLOCATE_S": "0.3", "YOD_CONNECT_S": "0.3"})
    os.kill(local.bebopd.unix_pid, signal.SIGCONT)
    is_one_line(done, 125, f"unix:{local.socket}", "yodctl status")
    wait_until(lambda: set(local.states()) == {"free"})


def test_a_state_file_whose_daemons_are_gone(embedded, place):
    """Configured and dead is an error, never a silent fall back."""
    subprocess.run([BIN / "yodctl", "up", "--local", "1"], check=True, capture_output=True)
    (pid,) = [
        int(line.split()[2])
        for line in subprocess.run(
            [BIN / "yodctl", "status"], capture_output=True, text=True
        ).stdout.splitlines()
        if line.strip().startswith("bebopd")
    ]
    os.kill(pid, 9)
    done = embedded.yod("true")
    is_one_line(done, 125, "yodctl up", "yodctl status")
    subprocess.run([BIN / "yodctl", "down", "--force"], check=True, capture_output=True)
    assert embedded.yod("true").status == 0


def test_the_wrong_key(local, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    env = {"YOD_PARTITION": local.address, "YOD_KEY_FILE": str(key)}
    done = local.yod("true", env=env)
    is_one_line(done, 125, local.address, "key")


def test_a_key_file_that_is_missing_open_to_others_or_no_key(local, tmp_path):
    env = {"YOD_PARTITION": local.address}
    is_one_line(local.yod("true", env=env), 125, local.address, "YOD_KEY_FILE")
    key = tmp_path / "key"
    env["YOD_KEY_FILE"] = str(key)
    is_one_line(local.yod("true", env=env), 125, f"key file {key}", "No such file")
    key.write_bytes(bytes(32))
    key.chmod(0o644)
    is_one_line(local.yod("true", env=env), 125, f"key file {key}", "chmod 600")
    key.write_bytes(b"short")
    key.chmod(0o600)
    is_one_line(local.yod("true", env=env), 125, f"key file {key}", "neither")


def test_a_pct_with_the_wrong_key_is_not_taken(local, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(os.urandom(32))
    key.chmod(0o600)
    command = [BIN / "pct", "--bebopd", local.address, "--key-file", key, "--listen", "127.0.0.1:0"]
    with subprocess.Popen([*command, "-D"], stderr=subprocess.PIPE) as pct:
        try:
            line = read_until(pct.stderr.fileno(), b"\n")
        finally:
            pct.terminate()
    assert b"key" in line
    assert local.pingd().count("\n") == 5  # a heading, four nodes


def test_a_cplant_host_file_that_names_no_bebopd(embedded, tmp_path):
    path = tmp_path / "cplant-host"
    env = {"CPLANT_HOST_FILE": str(path)}
    is_one_line(embedded.yod("true", env=env), 125, str(path), "No such file")
    path.write_text("# nothing\n")
    is_one_line(embedded.yod("true", env=env), 125, str(path), "bebopd host:port")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bebopd", ":2: `bebopd`: must be `bebopd host:port`"),
        ("bebopd host 1234", ":2: `bebopd host 1234`: must be `bebopd host:port`"),
        ("bebopd host", ":2: bebopd host: no port; use host:port"),
        ("bebopd host:", ":2: bebopd host:: not an address; use host:port"),
        ("bebopd host:many", ":2: bebopd host:many: not an address"),
        ("bebop host:1234\n\npct other", "bebop in line 2, pct in line 4"),
        ("\ufeffbebopd \x1b[2Jhost:1", "`bebopd host:port`; there is $'"),
    ],
)
def test_a_line_of_a_cplant_host_file_that_is_wrong_is_named(embedded, tmp_path, line, said):
    path = tmp_path / "cplant-host"
    path.write_text(f"# daemons\n{line}\n")
    done = embedded.yod("true", env={"CPLANT_HOST_FILE": str(path)})
    is_one_line(done, 125, str(path), said)


def test_other_daemons_and_comments_in_a_cplant_host_file_do_no_harm(embedded, tmp_path):
    path = tmp_path / "cplant-host"
    path.write_text("pct all\n\nbebopd unix:/none # the allocator\n")
    done = embedded.yod("true", env={"CPLANT_HOST_FILE": str(path)})
    is_one_line(done, 125, "unix:/none (cplant-host file)")


def test_a_version_that_the_partition_does_not_speak(local):
    """A yod of another time, played by a port with other versions."""
    text = (
        "import sys; from native.port import portals as p; original = p.PortalsPort.__init__\n"
        "def future(self, **options): original(self, **{**options, 'versions': (77, 78)})\n"
        "p.PortalsPort.__init__ = future\n"
        "sys.argv = ['yod', 'true']\n"
        "from yod.cli import main; sys.exit(main())"
    )
    done = subprocess.run(
        [BIN / "python", "-c", text],
        env=local.environment(),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    is_one_line(Done(done.returncode, done.stdout, done.stderr), 125, "version", "unix:")


# -- room -----------------------------------------------------------------


def test_errors_are_told_once_for_many_ranks(local, tmp_path):
    """Ten ranks on three nodes that fail alike are one line, not ten."""
    path = script(tmp_path / "job", "#!/no/such/interpreter\n")
    done = local.yod("-sz", "10", path)
    assert done.status == 127
    assert len(done.err.splitlines()) <= 3, done.err


def test_pingd_without_a_partition(embedded):
    done = subprocess.run(
        [BIN / "pingd", "-parse"],
        env=embedded.environment({"YOD_PARTITION": "unix:/nonexistent/socket"}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode != 0
    assert re.search(r"unix:/nonexistent/socket", done.stderr)
