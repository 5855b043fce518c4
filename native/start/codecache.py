"""Serves the code of modules from one file, to a command that is started often.

A launch imports ninety modules of ours and forty others. To look for each, and to open, read
and check its ``.pyc``, takes a sixth of a short launch. So a command keeps the code of what it
has imported in one file beside its ``.pyc``, and finds it there when it is started again.

The rules are those of ``.pyc`` files. Code is used only while its source has the time of
change and the size that it had, and Python looks for modules where it did. The file is
written where and when Python would write a ``.pyc``, as a whole or not at all. A module that
is not in it, or cannot be used, is imported as usual, and kept when the command ends.
"""

from __future__ import annotations

import marshal
import os
import sys

# importlib.machinery and importlib.util have these too, but are slow to import.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import (
    MAGIC_NUMBER,
    SourceFileLoader,
)

TYPE_CHECKING = False  # typing is slow to import, too
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

# What cannot be read raises, be it short or wrong.
NONSENSE = (OSError, EOFError, ValueError, TypeError, AttributeError)

# The file: Python's magic number, the size of the index, the index, the modules' code.
# The index: sys.path, and by a module's name its source's path, the time of change in ns and
# the size in bytes that the source had when it was compiled, and where in the file its code
# begins, counted from the end of the index, and ends.
HEAD_BYTES = 8
Source = tuple[str, int, int]
Entry = tuple[Source, int, int]


class CodeCache:
    """What one command has imported. Belongs at the beginning of ``sys.meta_path``.

    Args:
        command: its name; each has a file of its own.
    """

    def __init__(self, command: str) -> None:
        cached = __spec__.cached if __spec__ else None  # where our own .pyc is, or would be
        self._path = f"{os.path.splitext(cached)[0]}.{command}" if cached else None
        self._places = list(sys.path)
        self._imported_before = set(sys.modules)
        self._index, self._code = self._read()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """How to import a module; None: as usual."""
        if name not in self._index:
            return None
        try:
            source, begin, end = self._index[name]
            path_of_source, _, _ = source
            if _source(path_of_source) != source:
                return None
            code = marshal.loads(self._code[begin:end])
            if code.co_filename != path_of_source:
                return None
        except NONSENSE:
            return None
        return _spec(name, path_of_source, code)

    def save(self) -> None:
        """Keep the code of what has been imported as usual. That it cannot be is no error.

        Files may have been replaced or removed while the command ran.
        """
        if self._path is None or sys.dont_write_bytecode:
            return
        try:
            self._save(self._path)
        except (ImportError, *NONSENSE):
            pass

    def _save(self, path: str) -> None:
        places = tuple(f"{place}/" for place in self._places)
        fresh = [
            (name, spec.loader)
            for name, module in sys.modules.items()
            if name not in self._imported_before
            and (spec := getattr(module, "__spec__", None))
            and type(spec.loader) is SourceFileLoader
            and spec.name == name
            and spec.loader.path.startswith(places)
        ]
        if not fresh or not os.access(os.path.dirname(path), os.W_OK):
            return
        index, code = self._read()
        try:
            kept = {
                name: (source, bytes(code[begin:end]))
                for name, (source, begin, end) in index.items()
            }
        except NONSENSE:
            kept = {}
        for name, loader in fresh:
            try:
                source = _source(loader.path)
                data = marshal.dumps(loader.get_code(name))
                if _source(loader.path) == source:
                    kept[name] = (source, data)
            except (ImportError, SyntaxError, *NONSENSE):
                pass  # changed or removed meanwhile
        mode = os.stat(__file__).st_mode & 0o666 | 0o200  # as Python does
        SourceFileLoader(__name__, __file__).set_data(path, _file(self._places, kept), _mode=mode)

    def _read(self) -> tuple[dict[str, Entry], memoryview]:
        """The index and the code. Of another Python, broken, or not there: nothing."""
        if self._path is None:
            return {}, memoryview(b"")
        try:
            data = memoryview(SourceFileLoader(__name__, __file__).get_data(self._path))
            end = HEAD_BYTES + int.from_bytes(data[4:HEAD_BYTES], "little")
            if data[:4] == MAGIC_NUMBER:
                places, index = marshal.loads(data[HEAD_BYTES:end])
                if places == self._places and isinstance(index, dict):
                    return index, data[end:]
        except NONSENSE:
            pass
        return {}, memoryview(b"")


def _file(places: list[str], kept: dict[str, tuple[Source, bytes]]) -> bytes:
    index: dict[str, Entry] = {}
    end = 0
    for name, (source, code) in kept.items():
        begin, end = end, end + len(code)
        index[name] = (source, begin, end)
    head = marshal.dumps((places, index))
    size = len(head).to_bytes(HEAD_BYTES - len(MAGIC_NUMBER), "little")
    return b"".join((MAGIC_NUMBER, size, head, *(code for _, code in kept.values())))


class _Loader(SourceFileLoader):
    """Python's loader of a source, with the code at hand."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        return self._code


def _spec(name: str, path: str, code: CodeType) -> ModuleSpec:
    """What spec_from_file_location gives, which asks the loader a dozen questions."""
    directory, _, file = path.rpartition("/")
    is_package = file == "__init__.py"
    spec = ModuleSpec(name, _Loader(name, path, code), origin=path, is_package=is_package)
    spec.has_location = True
    if is_package:
        spec.submodule_search_locations = [directory]
    return spec


def _source(path: str) -> Source:
    """A file's path, its time of change in ns, and its size in bytes."""
    status = os.stat(path)
    return path, status.st_mtime_ns, status.st_size
