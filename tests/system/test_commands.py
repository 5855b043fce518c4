"""How the installed commands start: whose modules they import, and how few."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wait import LIMIT_S

BIN = Path(sys.executable).parent
ROOT = Path(__file__).parents[2]
COMMANDS = ("yod", "yodjob", "bebopd", "pct", "pingd", "yodctl")
# Ours, what we use, and what the standard library uses while it is imported.
SHADOWS = ("allocator", "native", "pct", "partition", "msgspec", "click")
SHADOWS += ("re", "enum", "types", "encodings", "sitecustomize")
OURS = {"allocator", "native", "partition", "pct", "yod"}
HEAVY = {
    "ClusterShell",
    "asyncio",
    "concurrent",
    "email",
    "http",
    "inspect",  # as by typing_extensions, which no test may need: .venv-tools
    "logging",
    "multiprocessing",
    "numpy",
    "rich",
    "sqlite3",
    "ssl",
    "unittest",
}
# What serves only some jobs: those that are offered PMIx, start more ranks or a launcher,
# speak PMI-2, are shipped, joined no world, come from a load file, or mix libraries.
RARE = {
    "native.wire.pmix",
    "pct.wireup.agent",
    "pct.host.cgroups.files",
    "allocator.rows",
    "allocator.watching",
    "pct.wireup.clients",
    "pct.wireup.guard",
    "pct.wireup.pmi",
    "pct.wireup.pmix",
    "pct.host.pmix_process",
    "pct.wireup.tools",
    "site",
    "yod.program.mixture",
}

# The modules of ours that a launch of `true` in the embedded partition imports, by room.
# One that is missing here may belong into the function that needs it.
OF_A_LAUNCH = {
    "allocator": (
        "asked bebopd dependents driver gate giving_way overtime records releases requests uses"
        " violation waiting"
    ),
    "allocator.batch": (
        "arrays changes dependencies entrance holds hooks job lenders outcome placed preempted"
        " priorities questions queue requeues running submissions table times"
    ),
    "allocator.jobs": (
        "accounting assign attempts batch charges choosing corresponding dependencies grants ids "
        "job line outcomes selection table"
    ),
    "allocator.lending": "loans",
    "allocator.nodes": (
        "access bookings featured node numbers orders placement_list rules table tally"
    ),
    "allocator.queue": "admission passes policy",
    "native": (
        "allocated deadlines duration errors ids limits machine nodelist options outer text "
        "waitstatus"
    ),
    "native.host": (
        "files heap hookfile jobsockets process rlimits sitedirs stdio unixsockets userdirs"
    ),
    "native.loop": "accepting closing pidfds reactor slices",
    "native.port": "port",
    "native.wire": (
        "agent alloc base batch codec group io keeper load nodes placed pmi runs status"
    ),
    "partition": "open",
    "partition.find": "discover state",
    "partition.up": "embedded",
    "pct": (
        "account admission brokers driver events hosted rare_events node peers pmi_events "
        "reservation"
    ),
    "pct.host": (
        "connections fabrics hostfiles keeper leftovers objects pmi_port ranks removal "
        "reports services store streams"
    ),
    "pct.host.spawn": "orphans spawner",
    "pct.job": (
        "ends failures forming keepers killing loading losses machine no_hooks output progress "
        "release saving spawned spec starting table wiring"
    ),
    "pct.job.rules": "input looking objects outcomes relay unkillable",
    "pct.tree": "collective group late tree",
    "pct.wireup": "environment fences foreign kvs machine no_pmix questions world",
    "yod": "cli command driver frontend launching",
    "yod.host": "display front own register screens terminal",
    "yod.launch": (
        "allocation checkpoints closing control ending events failures lines loading looks "
        "machine notices output phases report running signals spawn timelimit tree"
    ),
    "yod.plan": (
        "checkpoint checkpoint_options invocation loadfile plan prepared reach selectors shape"
    ),
    "yod.program": "elf image known linked planning speech",
}


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A directory whose modules have our names and end whoever imports them."""
    directory = tmp_path / "hostile"
    (directory / "yod").mkdir(parents=True)
    for path in ("yod/__init__.py", *(f"{name}.py" for name in SHADOWS)):
        (directory / path).write_text(f"raise SystemExit('imported {path} of the application')\n")
    return directory


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **options)


def with_path(*entries: str | Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, entries))}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_tells_its_version(command):
    done = run(BIN / command, "--version")
    version = importlib.metadata.version("yod")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{command} {version}\n", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_takes_no_module_from_pythonpath_or_the_current_directory(command, hostile):
    for environment in (with_path(hostile), with_path("", "."), dict(os.environ)):
        done = run(BIN / command, "--help", env=environment, cwd=hostile)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_command_starts_under_the_applications_pythonhome_and_by_a_link(tmp_path):
    link = tmp_path / "yod"
    link.symlink_to(BIN / "yod")
    done = run(link, "--help", env={**os.environ, "PYTHONHOME": str(tmp_path)})
    assert (done.returncode, done.stderr) == (0, "")


def copy(command: str, directory: Path) -> None:
    """Copy a command; with a client what it becomes where no launch server is."""
    for name in (command, f"{command}-cold"):
        if (BIN / name).exists():
            shutil.copy(BIN / name, directory)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_finds_what_is_not_installed_beside_it(command, tmp_path):
    (tmp_path / "bin").mkdir()
    copy(command, tmp_path / "bin")
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    shutil.copy(Path(sys.prefix, "pyvenv.cfg"), tmp_path)  # so that site finds nothing there
    words = ("--dry-run", "true") if command == "yod" else ("--help",)
    done = run(tmp_path / "bin" / command, *words)
    assert "No module named" in done.stderr
    (tmp_path / "bin/python3").unlink()
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}
    done = run(tmp_path / "bin" / command, *words, env=environment)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_is_run_by_the_python_that_it_was_installed_for(tmp_path):
    release = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / "lib" / release / "dist-packages"  # as Debian has it
    for directory in (tmp_path / "bin", tmp_path / "path", packages):
        directory.mkdir(parents=True)
    copy("yod", tmp_path / "bin")
    pythons = {"python3": "echo another python", release: f'exec {sys.executable} "$@"'}
    environment = {**os.environ, "PATH": f"{tmp_path}/path:/usr/bin:/bin"}
    for name, line in pythons.items():
        (tmp_path / "path" / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / "path" / name).chmod(0o755)
    command = [tmp_path / "bin/yod", "-sz", "1", "echo", "started"]
    assert run(*command, env=environment).stdout == "another python\n"
    (packages / "yod").symlink_to(ROOT / "yod")
    done = run(*command, env=environment)
    assert (done.stdout, done.stderr) == ("started\n", "")


def test_a_command_finds_its_modules_where_all_was_installed_into_one_directory(tmp_path):
    for directory in ("bin", "yod"):
        (tmp_path / directory).mkdir()
    copy("yod", tmp_path / "bin")
    (tmp_path / "yod/__init__.py").touch()
    (tmp_path / "yod/command.py").write_text("def main():\n    print(__file__)\n")
    done = run(tmp_path / "bin/yod", env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin"})
    assert (done.stdout, done.stderr) == (f"{tmp_path}/yod/command.py\n", "")


def test_the_application_gets_its_pythonpath_and_its_modules(hostile):
    for path in hostile.glob("*.py"):
        path.unlink()
    (hostile / "allocator.py").write_text("print('the allocator of the application')\n")
    words = ["-sz", "1", sys.executable, "-c", "import allocator"]
    done = run(BIN / "yod", *words, env=with_path(hostile), cwd=hostile.parent)
    assert (done.stdout, done.returncode) == ("the allocator of the application\n", 0), done.stderr


def imports_of(*command: str | Path, status: int = 0) -> set[str]:
    """The modules that a command of Python's imports, which ends with this exit status."""
    done = run(sys.executable, "-EPS", "-X", "importtime", *command)
    assert done.returncode == status, done.stderr
    return {
        line.rpartition("|")[2].strip()
        for line in done.stderr.splitlines()
        if line.startswith("import time:")
    }


def test_help_imports_no_more_of_ours_than_the_options():
    imported = imports_of(BIN / "yod-cold", "--help")
    ours = {name for name in imported if name.partition(".")[0] in OURS}
    assert ours == {
        *(
            "yod",
            "yod.cli",
            "yod.command",
            "yod.plan",
            "yod.plan.checkpoint_options",
            "yod.plan.selectors",
            "native",
            "native.allocated",
            "native.errors",
            "native.options",
        ),
        *("native.text", "native.waitstatus"),
        *("native.host", "native.host.hookfile", "native.host.process", "native.host.stdio"),
    }
    assert not any(name.partition(".")[0] == "msgspec" for name in imported)


def test_a_launch_imports_nothing_that_is_slow_to_import_or_that_it_does_not_need():
    imported = imports_of(BIN / "yod-cold", "-sz", "1", "true")
    assert not {name.partition(".")[0] for name in imported} & HEAVY
    ours = {name for name in imported if name.partition(".")[0] in OURS}
    modules = {f"{room}.{name}" for room, names in OF_A_LAUNCH.items() for name in names.split()}
    rooms = {name for name in ours if any(each.startswith(f"{name}.") for each in ours)}
    assert ours - rooms == modules
    assert not imported & RARE


def test_a_plain_submission_imports_neither_click_nor_the_plan_of_a_launch(tmp_path):
    """`yodjob submit` is called in loops, and half its time is that of imports."""
    words = ("submit", "-sz", "1", "--partition", f"unix:{tmp_path}/none", "--wrap", "true")
    imported = imports_of(BIN / "yodjob-cold", *words, status=1)
    assert not {name.partition(".")[0] for name in imported} & (HEAVY | {"click", "ctypes"})
    assert "partition.submit.handing" in imported
    assert not imported & {"shlex", "yod.plan.plan", "yod.plan.prepared"}


@pytest.mark.parametrize("words", [("list",), ("cancel", "17"), ("wait", "17")])
def test_plain_lines_about_jobs_import_no_click(words, tmp_path):
    name, *ids = words
    line = (name, "--partition", f"unix:{tmp_path}/none", *ids)
    imported = imports_of(BIN / "yodjob-cold", *line, status=1)
    assert not {each.partition(".")[0] for each in imported} & (HEAVY | {"click"})
