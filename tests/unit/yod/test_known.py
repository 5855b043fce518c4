"""What is known of a file is found out once, and again when the file has changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

from yod.program.known import FILES_MAX, Known


class Sizes:
    """Counts how often the size of a file is found out.

    Args:
        after_s: seconds that seem to have passed since the file was written.
    """

    def __init__(self, after_s: float) -> None:
        self.count = 0
        self._known = Known(self._find, lambda: time.time() + after_s)

    def _find(self, fd: int) -> int:
        self.count += 1
        return len(os.pread(fd, 1000, 0))

    def of(self, path: Path) -> int:
        with path.open("rb") as file:
            return self._known.of(file.fileno())


def test_a_file_that_stays_as_it_is_is_read_once(tmp_path):
    sizes, path = Sizes(after_s=60), tmp_path / "a"
    path.write_text("four")
    assert [sizes.of(path) for _ in range(3)] == [4, 4, 4]
    assert sizes.count == 1


def test_a_file_that_has_changed_is_read_again_also_with_its_old_size_and_time(tmp_path):
    sizes, path = Sizes(after_s=60), tmp_path / "a"
    path.write_text("four")
    before = path.stat()
    assert sizes.of(path) == 4
    path.write_text("five")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sizes.of(path) == 4
    assert sizes.count == 2
    os.replace(path, tmp_path / "b")
    path.write_text("longer")
    assert sizes.of(path) == 6


def test_of_a_file_that_has_just_changed_nothing_is_remembered(tmp_path):
    sizes, path = Sizes(after_s=0), tmp_path / "a"
    path.write_text("four")
    assert [sizes.of(path), sizes.of(path)] == [4, 4]
    assert sizes.count == 2


def test_few_files_are_remembered(tmp_path):
    sizes = Sizes(after_s=60)
    for number in range(FILES_MAX + 1):
        path = tmp_path / str(number)
        path.write_text("x")
        sizes.of(path)
    sizes.of(path)
    assert sizes.count == FILES_MAX + 1
    sizes.of(tmp_path / "0")
    assert sizes.count == FILES_MAX + 2
