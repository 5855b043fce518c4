"""Which MPI library the mpi4py of a Python program will load, and whether the program
imports :mod:`native.portals`. The program does not run for that.

The rules are those of mpi4py 4.1 (``mpi4py/_mpiabi.py``) and of Python's modules
``getpath`` and ``site``. Changes that running code makes, to ``sys.path`` for instance, are
not seen.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from yod.program import linked
from yod.program.elf import Elf

LIBRARY_NAMES = ("libmpi.so", "libmpi.so.12", "libmpi.so.40")  # in mpi4py's order
_PACKAGE_DIRECTORIES = ("site-packages", "dist-packages")
_SCRIPT_BYTES = 256 * 1024  # of a script that are searched for imports
_IMPORTS_PORTALS = (
    rb"^[ \t]*(?:(?:from|import)[ \t][^#\n]*\bnative\.portals\b"
    rb"|from[ \t]+native[ \t]+import[ \t(][^#\n]*\bportals\b)"
)
_IMPORTS_MPI4PY = rb"(?:^|;)[ \t]*(?:from|import)[ \t]+mpi4py\b"


class Interpreter(Struct, frozen=True):
    """The directories of a Python interpreter.

    Attributes:
        prefixes: where mpi4py looks for libraries, in its order.
        packages: directories of packages, in Python's order.
    """

    prefixes: tuple[str, ...]
    packages: tuple[str, ...]


class Prediction(Struct, frozen=True):
    """The MPI library that an mpi4py will load.

    Attributes:
        mpi4py: directory of the package.
        library: path of the MPI library; empty: mpi4py will find none.
        libraries: name -> path of all libraries that it needs, as far as is known.
    """

    mpi4py: str
    library: str
    libraries: dict[str, str]


def is_python(path: str) -> bool:
    """Whether a program has the name of a Python interpreter."""
    name = os.path.basename(path)
    return name.startswith("python") and all(
        part.rstrip("dt").isdigit() for part in name.removeprefix("python").split(".") if part
    )


def predict(
    path: str, file: Elf, words: Sequence[str], environment: Mapping[bytes, bytes]
) -> Prediction | None:
    """Predict what ``from mpi4py import MPI`` will load.

    Args:
        path: of the interpreter; links are not resolved, as Python does not resolve them.
        file: its headers.
        words: its arguments.
        environment: that it will run with.

    Returns:
        None: there is no mpi4py.
    """
    values = {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}
    python = _interpreter(path, _flags(words), values)
    for directory in python.packages:
        package = os.path.join(directory, "mpi4py")
        extensions = [name for name in _entries(package) if name.startswith("MPI.")]
        if extensions:
            break
    else:
        return None
    abi = values.get("MPI4PY_MPIABI", "").translate({ord(c): "" for c in " -_"}).lower()
    for name in sorted(extensions):
        kind = name.split(".")[1]
        is_only = kind.startswith(("cpython", "abi3", "pypy", "so"))
        if name.endswith(".so") and (is_only or kind == {"impi": "mpich"}.get(abi, abi)):
            extension = os.path.join(package, name)
            found = linked.ask(file.interpreter, extension, environment)
            return _of_extension(package, found)
    for candidate in _candidates(python, values):
        if os.path.isabs(candidate):
            other = linked.read(candidate)
            if other is not None and other.kind == file.kind:
                return Prediction(package, candidate, {})
        else:
            names = (candidate,) if candidate else LIBRARY_NAMES
            found = linked.ask(file.interpreter, path, environment, names)
            present = [name for name in names if found.get(name)]
            if len(present) > 1:  # ask again: the libraries of the others must not be in the list
                first = present[:1]
                found = linked.ask(file.interpreter, path, environment, first)
            if present and found:
                return Prediction(package, found[present[0]], found)
    return Prediction(package, "", {})


def imports_portals(words: Sequence[str]) -> bool:
    """Whether a script, or the text of ``-c``, has a line that imports native.portals.

    Imports by other modules are not seen, nor those of a module that ``-m`` runs.

    Args:
        words: the interpreter's arguments.
    """
    text = _text_of(words)
    if b"native" not in text or b"portals" not in text:
        return False
    import re  # takes 2 ms

    return re.search(_IMPORTS_PORTALS, text, re.MULTILINE) is not None


def imports_mpi4py(path: str, words: Sequence[str]) -> bool:
    """Whether a script, or the text of ``-c``, has a line that begins with the import of mpi4py.

    Args:
        path: of the interpreter, or of a script that names its own.
        words: the arguments behind it.
    """
    text = _text_of(words if is_python(path) else (path, *words))
    if b"mpi4py" not in text:
        return False
    import re  # takes 2 ms

    return re.search(_IMPORTS_MPI4PY, text, re.MULTILINE) is not None


def _text_of(words: Sequence[str]) -> bytes:
    """The Python text that an interpreter runs with these arguments; empty: not known."""
    place = 0
    while place < len(words) and words[place].startswith("-") and words[place] != "-":
        word, place = words[place], place + 1
        if word[1:2] == "-":
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cmWX":  # its value is the rest of the word, or the next word
                value = word[at:] or (words[place] if place < len(words) else "")
                if letter == "c":
                    return os.fsencode(value)
                if letter == "m":
                    return b""
                place += not word[at:]
                break
    try:
        fd = os.open(words[place], os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError, IndexError):
        return b""
    try:
        return os.read(fd, _SCRIPT_BYTES)
    except OSError:
        return b""
    finally:
        os.close(fd)


def _of_extension(package: str, found: dict[str, str]) -> Prediction:
    for name, path in found.items():
        if path and name.startswith(("libmpi.", "libmpich.", "libmpi_")):
            return Prediction(package, path, found)
    return Prediction(package, "", found)


def _candidates(python: Interpreter, values: Mapping[str, str]) -> Iterator[str]:
    """Absolute paths, or names for the loader to find; empty: :data:`LIBRARY_NAMES`."""
    chosen = values.get("MPI4PY_LIBMPI")
    places = [os.path.join(prefix, "lib") for prefix in python.prefixes if prefix != "/usr"]
    for place in [*places, ""] if chosen is None else chosen.split(":"):
        place = os.path.expanduser(os.path.expandvars(place))
        if os.path.isdir(place):
            for name in LIBRARY_NAMES:
                yield os.path.abspath(os.path.join(place, name))
        elif not place or chosen is not None:
            yield os.path.abspath(place) if "/" in place else place


def _flags(words: Sequence[str]) -> str:
    """The letters of the interpreter's options, without those that have values."""
    letters = ""
    for word in words:
        if not word.startswith("-") or word[1:2] in ("", "-", "c", "m", "W", "X"):
            break
        letters += word[1:]
    return letters


def _interpreter(path: str, flags: str, values: Mapping[str, str]) -> Interpreter:
    here = os.path.dirname(path)
    settings = _venv_settings(here)
    release = _release(path, settings)
    is_isolated = "I" in flags
    user_base = values.get("PYTHONUSERBASE", "") if not (is_isolated or "E" in flags) else ""
    user_base = user_base or os.path.join(values.get("HOME") or os.path.expanduser("~"), ".local")
    prefixes, packages = [], []
    if not (is_isolated or "E" in flags):
        packages += [entry for entry in values.get("PYTHONPATH", "").split(":") if entry]
    has_base = True
    if settings is not None:
        has_base = settings.get("include-system-site-packages", "").lower() == "true"
        prefixes.append(settings["prefix"])
        packages += _packages_of(settings["prefix"], release)
    has_user = has_base and not (is_isolated or "s" in flags or values.get("PYTHONNOUSERSITE"))
    if has_user:
        prefixes.append(os.path.abspath(user_base))
        packages += _packages_of(os.path.abspath(user_base), release)
    if has_base:
        base = _base_prefix(path, settings, release)
        prefixes.append(base)
        if base == "/usr":
            packages += _packages_of("/usr/local", release)
        packages += _packages_of(base, release)
        packages.append(os.path.join(base, "lib", "python3", "dist-packages"))
    return Interpreter(tuple(prefixes), tuple(packages))


def _venv_settings(here: str) -> dict[str, str] | None:
    """The settings of pyvenv.cfg, and ``prefix``, the directory of the venv; None: no venv.

    The file is beside the interpreter or one directory up.
    """
    for directory in (here, os.path.dirname(here)):
        try:
            with open(os.path.join(directory, "pyvenv.cfg"), "rb") as file:
                lines = file.read(64 * 1024).decode(errors="surrogateescape").splitlines()
        except OSError:
            continue
        pairs = (line.partition("=") for line in lines)
        settings = {key.strip().lower(): value.strip() for key, _, value in pairs}
        return {**settings, "prefix": os.path.dirname(here)}
    return None


def _release(path: str, settings: Mapping[str, str] | None) -> str:
    """Such as ``python3.11``; empty: not known."""
    name = os.path.basename(os.path.realpath(path))
    if "." in name:
        return name.removesuffix("d")
    version = (settings or {}).get("version") or (settings or {}).get("version_info") or ""
    return "python" + ".".join(version.split(".")[:2]) if version else ""


def _base_prefix(path: str, settings: Mapping[str, str] | None, release: str) -> str:
    home = (settings or {}).get("home") or os.path.dirname(path)
    prefix = os.path.dirname(home)
    if release and not os.path.isdir(os.path.join(prefix, "lib", release)):
        return os.path.dirname(os.path.dirname(os.path.realpath(path)))
    return prefix


def _packages_of(prefix: str, release: str) -> list[str]:
    """The directories of packages under a prefix."""
    found = []
    for lib in ("lib64", "lib"):
        place = os.path.join(prefix, lib)
        releases = [release] if release else [n for n in _entries(place) if n.startswith("python3")]
        found += [os.path.join(place, each, d) for each in releases for d in _PACKAGE_DIRECTORIES]
    return found


def _entries(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
