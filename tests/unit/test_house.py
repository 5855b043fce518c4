"""The rules of the house: which module may import what, read from the sources.

A module is pure unless it is listed here as one that does I/O.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("native", "allocator", "pct", "yod", "partition")

# The modules that touch descriptors, files, processes, clocks or the terminal.
DOES_IO = {
    "native.__main__",
    "native.address",
    "native.build_native",
    "native.codecache",
    "native.daemon",
    "native.keyfile",
    "native.port",
    "native.rlimits",
    "native.endpoint",
    "native.files",
    "native.portals",
    "native.portals_entries",
    "native.portals_events",
    "native.portals_interface",
    "native.portals_memory",
    "native.portals_moves",
    "native.portals_port",
    "native.portals_state",
    "native.process",
    "native.reactor",
    "native.stdio",
    "allocator.ledger",
    "allocator.driver",
    "allocator.keys",
    "allocator.owners",
    "allocator.query",
    "allocator.cli",
    "allocator.pingd",
    "pct.cgroup",
    "pct.clients",
    "pct.compare",
    "pct.fabrics",
    "pct.hostfiles",
    "pct.leftovers",
    "pct.removal",
    "pct.room",
    "pct.store",
    "pct.streams",
    "pct.keeper",
    "pct.libpmix",
    "pct.parts",
    "pct.pmi_port",
    "pct.pmix_command",
    "pct.pmix_memory",
    "pct.pmix_process",
    "pct.pmix_server",
    "pct.pmix_tools",
    "pct.pmix_upcalls",
    "pct.capacity",
    "pct.driver",
    "pct.cli",
    "yod.closure",
    "yod.agent",
    "yod.image",
    "yod.lean",
    "yod.linked",
    "yod.mixture",
    "yod.pythons",
    "yod.display",
    "yod.terminal",
    "yod.driver",
    "yod.cli",
    "yod.command",
    "yod.api",
    "native.userdirs",
}
COMMANDS = {"yod.cli", "yod.command", "allocator.cli", "allocator.pingd", "pct.cli"}
COMMANDS |= {"partition.yodctl"}

# The standard library's pure parts: values, types and functions of their
# arguments. `signal` and `errno` are for their numbers.
PURE_STDLIB = {
    "__future__",
    "_blake2",  # hashlib's, without the time that hashlib takes
    "_operator",  # hmac's compare_digest, likewise
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
    "types",
    "typing",
}

# A library and the only modules that may import it.
BOUND = {
    "ClusterShell": {"native.nodelist", "partition"},
    "asyncio": {"yod.api"},
    "cffi": {"native.build_native"},
    "click": COMMANDS,
    "mpi4py": set(),
    "native._native": {
        "native.files",
        "native.endpoint",
        "native.portals_entries",
        "native.portals_events",
        "native.portals_interface",
        "native.portals_memory",
        "native.portals_moves",
        "native.portals_state",
        "native.process",
    },
    "numpy": {"allocator.placement"},
    "rich": {*COMMANDS, "yod.terminal", "partition"},
    "sqlite3": {"allocator.ledger"},
}


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
        else:
            later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, module, at_start and not later, for_types or types)


def package_of(name: str) -> str:
    return name.partition(".")[0]


def is_pure(module: str) -> bool:
    return package_of(module) != "partition" and module not in DOES_IO


def complain(broken: list[tuple[str, Import]]) -> None:
    lines = [f"{module}:{found.line} imports {found.name}" for module, found in broken]
    assert not lines, "\n".join(lines)


ALL = [(module, found) for module in MODULES for found in imports_of(module)]


def test_only_partition_imports_several_of_the_programs():
    """What two of them must agree on is a message in native/wire."""
    allowed = {
        "native": {"native"},
        "allocator": {"native", "allocator"},
        "pct": {"native", "pct"},
        "yod": {"native", "yod"},
        "partition": set(PACKAGES),
    }
    complain(
        [
            (module, found)
            for module, found in ALL
            if package_of(found.name) in PACKAGES
            and package_of(found.name) not in allowed[package_of(module)]
            and not found.under("partition")  # the next test's
        ]
    )


def test_only_commands_and_the_api_import_partition_and_only_when_they_need_it():
    may = COMMANDS | {"yod.api"}
    complain(
        [
            (module, found)
            for module, found in ALL
            if found.under("partition")
            and package_of(module) != "partition"
            and (module not in may or found.at_start)
        ]
    )


def test_a_pure_module_imports_nothing_that_does_io():
    def is_fine(found: Import) -> bool:
        top = package_of(found.name)
        if top in PACKAGES:
            return found.name not in DOES_IO or found.for_types
        if top in sys.stdlib_module_names:
            # Of collections.abc and the like: the package decides.
            return top in PURE_STDLIB
        return top == "msgspec" or top in BOUND  # where those may be: see below

    complain([(m, found) for m, found in ALL if is_pure(m) and not is_fine(found)])


@pytest.mark.parametrize("library", sorted(BOUND))
def test_a_library_is_imported_only_where_it_belongs(library):
    may = BOUND[library]
    complain(
        [
            (module, found)
            for module, found in ALL
            if found.under(library) and module not in may and package_of(module) not in may
        ]
    )


def test_what_is_slow_to_import_is_imported_when_it_is_needed():
    """Not at the start of a module that a launch imports."""
    slow = ("ClusterShell", "asyncio", "rich", "http", "ssl", "multiprocessing", "urllib", "email")
    complain(
        [
            (module, found)
            for module, found in ALL
            if found.at_start
            and not found.for_types
            and package_of(found.name) in slow
            and module != "yod.api"
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
            for module, found in ALL
            if package_of(module) == package_of(found.name) != "partition"
            and layer(found.name) > layer(module)
            and module != "yod.api"
        ]
    )


def test_events_and_actions_are_structs():
    """A hundred dataclasses cost 36 ms at import, a hundred Structs 2."""
    complain([(module, found) for module, found in ALL if found.under("dataclasses")])


def test_every_module_listed_here_is_meant():
    """A name in the lists above that is no module of a finished package is a slip."""
    unknown = {
        name
        for name in DOES_IO | COMMANDS
        if name not in MODULES and (package_of(name) + ".driver") in MODULES
    }
    assert not unknown
