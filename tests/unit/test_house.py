"""The rules of the house, read from the sources.

A room is a folder. Its ``__init__`` ends with its rule: whether its modules do I/O, and what
they may import besides one another. What is named there includes the rooms within it.

    No I/O. Imports native, pct.tree.

A module beside the rooms of a package stands for itself: a command, a driver, or what
several rooms share.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("native", "allocator", "pct", "yod", "partition", "ensemble")

# Those that a user starts, and what they may import that others may not.
COMMANDS = {
    *("allocator.command.main", "allocator.command.cli", "allocator.command.daemon"),
    *("pct.command.main", "pct.command.cli", "pct.command.daemon"),
    *("yod.cli", "yod.command", "yod.agent", "yod.cr"),
    *("partition.pingd", "partition.yodctl", "partition.yodjob", "native.__main__"),
    *("partition.server.cli", "ensemble.cli", "yod.pilot.command"),
}
# Rooms whose modules are commands of one of these, or read them.
OF_COMMANDS = {"partition.commands", "partition.completion"}

# Parts of the interface for Python programs that asyncio programs use.
ASYNCIO = {"yod.aio", "yod.aiohost", "yod.allocation", "yod.pilot.client.aio"}
# They read the process's own state: directory, environment, streams. yod.checkpoint is for ranks.
# yod.pilot.agent.steps is the same for the agent of a pilot.
FRONT = {
    *ASYNCIO,
    *("yod.api", "yod.checkpoint", "yod.ensemble", "yod.frontend", "yod.jobs", "yod.launching"),
    *("yod.detaching", "yod.retrying", "yod.pilot.agent.steps"),
}

# The standard library's pure parts: values, types and functions of their
# arguments. `signal` and `errno` are for their numbers.
PURE_STDLIB = {
    "__future__",
    "_blake2",  # hashlib's, without the time that hashlib takes
    "_heapq",  # heapq's heap
    "_operator",  # hmac's compare_digest, likewise
    "array",
    "bisect",
    "collections",
    "copy",
    "difflib",
    "enum",
    "errno",
    "functools",
    "hashlib",
    "heapq",
    "hmac",
    "itertools",
    "math",
    "operator",
    "re",
    "shlex",
    "signal",
    "string",
    "struct",
    "textwrap",
    "tomllib",
    "types",
    "typing",
}

# A library, and the only rooms and modules that may import it.
BOUND = {
    "ClusterShell": {"allocator.nodes", "partition.hosts"},
    "asyncio": {*ASYNCIO, "yod.pilot.function.worker"},  # it runs coroutines of applications
    "cloudpickle": {"yod.pilot.function"},
    "cffi": {"native.transport"},
    "click": COMMANDS | OF_COMMANDS | {"native.host.config"},  # which reads their options
    "mpi4py": {"yod.pilot.function"},  # in ranks of applications
    "native._native": {"native.host", "native.port", "native.portals", "native.transport"},
    "numpy": {"allocator.geometry", "allocator.nodes", "allocator.queue", "ensemble.library"},
    "h11": {"partition.web"},
    "matplotlib": {"yod.pilot.plot"},
    "packaging": {"yod.pilot.psij"},
    "parsl": {"yod.pilot.parsl"},
    "psij": {"yod.pilot.psij"},
    "zmq": {"yod.pilot.channel"},
    "rich": COMMANDS | {"partition.status.screen", "yod.host"},
    "sqlite3": {"allocator.host"},
}
SLOW = ("ClusterShell", "asyncio", "rich", "http", "ssl", "multiprocessing", "urllib", "email")
ROOM_MODULES_MAX = 20
LINES_MAX = 450
SOURCES = {".py", ".c", ".h"}
GENERATED = {"native/_native.c"}

# Files of one long table each, which one looks things up in and does not read through. The
# header has the names and values that the Portals specification gives, in its order.
TABLES = {"native/transport/include/portals4.h"}


class Import:
    """One import statement's target.

    Attributes:
        name: the module as written, with dots; the module of the package where a
            ``from`` names one.
        at_start: executed when the importing module is, not later in a function.
        for_types: under ``if TYPE_CHECKING``: never executed.
    """

    def __init__(self, name: str, line: int, at_start: bool, for_types: bool) -> None:
        self.name = name
        self.line = line
        self.at_start = at_start
        self.for_types = for_types

    def under(self, name: str) -> bool:
        return self.name == name or self.name.startswith(name + ".")


def module_paths() -> dict[str, Path]:
    paths = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            paths[name] = path
    return paths


MODULES = module_paths()


def imports_of(module: str) -> list[Import]:
    tree = ast.parse(MODULES[module].read_text())
    return list(_imports(tree, module, at_start=True, for_types=False))


def _imports(node: ast.AST, module: str, at_start: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, at_start, for_types)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, f"{module}:{child.lineno}: relative import"
            wholes = {f"{child.module}.{alias.name}" for alias in child.names}
            modules = {whole for whole in wholes if whole in MODULES or whole == "native._native"}
            for name in sorted(modules or {str(child.module)}):
                yield Import(name, child.lineno, at_start, for_types)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, module, at_start and not later, for_types or types)


def package_of(name: str) -> str:
    return name.partition(".")[0]


class Room:
    """A folder and its rule.

    Attributes:
        rule: the last paragraph of its ``__init__``'s docstring.
        imports: rooms and modules that its own may import.
    """

    PATTERN = re.compile(r"(No I/O|I/O)[^.]*\. Imports (.*)\.")

    def __init__(self, name: str) -> None:
        self.name = name
        text = ast.get_docstring(ast.parse(MODULES[name].read_text())) or ""
        self.rule = " ".join(text.strip().split("\n\n")[-1].split())
        read = self.PATTERN.fullmatch(self.rule)
        assert read, f"{name}/__init__.py: the last paragraph must be `[No ]I/O. Imports A, B.`"
        self.does_io = read[1] == "I/O"
        self.imports = set(read[2].split(", ")) - {"nothing"}

    def may_import(self, name: str) -> bool:
        return is_among(name, {*self.imports, self.name})


ROOMS = {name: Room(name) for name, path in MODULES.items() if path.name == "__init__.py"}


def room_of(module: str) -> Room:
    return ROOMS[module if module in ROOMS else module.rpartition(".")[0]]


def is_among(name: str, places: set[str]) -> bool:
    """Is a module one of these, or within one?"""
    return any(name == place or name.startswith(place + ".") for place in places)


def does_io(module: str) -> bool:
    if module in COMMANDS or module.endswith(".driver") or module in FRONT:
        return True
    return room_of(module).does_io


ALL = [(module, found) for module in MODULES for found in imports_of(module)]
OURS = [(module, found) for module, found in ALL if package_of(found.name) in PACKAGES]


def complain(broken: list[tuple[str, Import]]) -> None:
    lines = [
        f"{MODULES[module].relative_to(ROOT)}:{found.line} imports {found.name};"
        f" {room_of(module).name}: {room_of(module).rule}"
        for module, found in broken
    ]
    assert not lines, "\n".join(lines)


def test_a_module_imports_what_the_rule_of_its_room_names():
    may_see_all = COMMANDS | FRONT  # a partition, when they need it: see below
    complain(
        [
            (module, found)
            for module, found in OURS
            if not room_of(module).may_import(found.name)
            and found.name != "native._native"  # a library in the rule below
            and not (module in may_see_all and found.under("partition"))
            and not (module == "yod.ensemble" and found.under("ensemble.library"))
        ]
    )


def test_only_commands_and_the_api_import_partition_and_only_when_they_need_it():
    complain(
        [
            (module, found)
            for module, found in OURS
            if found.under("partition")
            and package_of(module) not in ("partition", "ensemble")
            and ((found.at_start and not found.for_types) or module not in COMMANDS | FRONT)
        ]
    )


def test_nothing_that_launches_imports_ensembles():
    """The launcher of ensembles is a user of the others; yod.ensemble is its public face."""
    complain(
        [
            (module, found)
            for module, found in OURS
            if (
                found.under("ensemble")
                and package_of(module) != "ensemble"
                and module != "yod.ensemble"
            )
            or found.under("yod.ensemble")
        ]
    )


def test_a_room_without_io_imports_nothing_that_does_io():
    def is_fine(found: Import) -> bool:
        top = package_of(found.name)
        if top in PACKAGES:
            return found.for_types or not does_io(found.name)
        if top in sys.stdlib_module_names:
            # Of collections.abc and the like: the package decides.
            return top in PURE_STDLIB
        return top == "msgspec" or top in BOUND  # where those may be: see below

    complain([(m, found) for m, found in ALL if not does_io(m) and not is_fine(found)])


def test_rooms_import_one_another_in_no_circle():
    """A module beside the rooms of its package counts as a room of its own."""

    def place(module: str) -> str:
        room = room_of(module).name
        return module if room in PACKAGES else room

    walls: dict[str, set[str]] = {}
    for module, found in OURS:
        if found.name in MODULES and found.name not in PACKAGES and module not in PACKAGES:
            walls.setdefault(place(module), set()).add(place(found.name))
    for room, imported in walls.items():
        imported.discard(room)
    while leaves := {room for room in walls if not walls[room] & walls.keys()}:
        for room in leaves:
            del walls[room]
    circle = {room: sorted(imported & walls.keys()) for room, imported in walls.items()}
    assert not circle


def test_no_room_has_more_modules_than_one_can_look_through():
    folders: dict[Path, int] = {}
    for suffix in ("*.py", "*.c"):
        for package in PACKAGES:
            for path in (ROOT / package).rglob(suffix):
                if path.name != "__init__.py":
                    folders[path.parent] = folders.get(path.parent, 0) + 1
    assert {folder: n for folder, n in folders.items() if n > ROOM_MODULES_MAX} == {}


def test_no_file_is_longer_than_one_reads_in_one_go():
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for folder in (*PACKAGES, "bench", "examples", "tests")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SOURCES
    }
    excepted = TABLES | GENERATED
    long = {name: n for name, n in lengths.items() if n > LINES_MAX and name not in excepted}
    assert long == {}, f"at most {LINES_MAX} lines"
    assert lengths.keys() >= TABLES


@pytest.mark.parametrize("library", sorted(BOUND))
def test_a_library_is_imported_only_where_it_belongs(library):
    complain(
        [
            (module, found)
            for module, found in ALL
            if found.under(library) and not is_among(module, BOUND[library])
        ]
    )


def test_what_is_slow_to_import_is_imported_when_it_is_needed():
    """Not at the start of a module that a launch imports."""
    complain(
        [
            (module, found)
            for module, found in ALL
            if found.at_start
            and not found.for_types
            and package_of(found.name) in SLOW
            and module not in ASYNCIO
        ]
    )


def test_asyncio_is_for_programs_that_use_it():
    """Whoever imports it does so for a program that has a loop already."""
    complain(
        [
            (module, found)
            for module, found in OURS
            if is_among(found.name, ASYNCIO)
            and module not in ASYNCIO
            and found.at_start
            and not found.for_types
        ]
    )


def test_commands_import_drivers_and_drivers_import_machines():
    """Never the other way."""

    def layer(name: str) -> int:
        if name in COMMANDS:
            return 2
        return 1 if name.endswith(".driver") else 0

    complain(
        [
            (module, found)
            for module, found in OURS
            if package_of(module) == package_of(found.name) != "partition"
            and layer(found.name) > layer(module)
            and module not in FRONT
        ]
    )


def test_events_and_actions_are_structs():
    """A hundred dataclasses cost 36 ms at import, a hundred Structs 2."""
    complain([(module, found) for module, found in ALL if found.under("dataclasses")])


def test_every_command_named_here_is_there():
    assert set(MODULES) >= COMMANDS


# Rooms of which a launch server has a module at work, and modules that are started by themselves.
SERVED = ("allocator", "pct", "yod", "partition.find")
ALONE = (
    *COMMANDS,
    *ASYNCIO,
    "allocator.host.files",
    "pct.pmix_server",
    "yod.api",
    "yod.detaching",
    "yod.guest",
    "yod.jobs",
    "yod.launching",
    "yod.pilot",
    "yod.host.own",
    "yod.host.terminal",
    "partition.find.state",
)


def test_a_launch_server_imports_ahead_what_a_launch_may_need():
    later = {
        found.name
        for module, found in OURS
        if not found.at_start
        and not found.for_types
        and is_among(module, SERVED)
        and not is_among(module, ALONE)
    }
    from partition.server.ahead import MODULES as ahead

    assert not later - set(ahead)
