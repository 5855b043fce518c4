"""Code that commands keep in one file: never another's, never an old one, never in the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wait import LIMIT_S

SOURCE = Path(__file__).parents[3] / "native" / "start" / "codecache.py"

# What a command does, in small. Says of each module what it is, and who has loaded it.
COMMAND = """
import sys
sys.path[:0] = {places!r}
sys.dont_write_bytecode = {dry}
from native.start.codecache import CodeCache
cache = CodeCache("test")
sys.meta_path.insert(0, cache)
import yod.deep, yod.flat
for module in (yod, yod.deep, yod.flat):
    print(module.WHAT, type(module.__spec__.loader).__name__)
{more}
cache.save()
"""


class House:
    """A small copy of ours, with a package, a module and a cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.places: list[str] = []  # to look for modules, after our own
        self._clock = 1_000_000_000
        for package in ("native/start", "yod", "yod/deep"):
            (root / package).mkdir(parents=True)
        (root / "native/__init__.py").write_text("")
        (root / "native/start/__init__.py").write_text("")
        (root / "native/start/codecache.py").write_bytes(SOURCE.read_bytes())
        for path in ("yod/__init__.py", "yod/deep/__init__.py", "yod/flat.py"):
            self.write(path, "first")

    @property
    def cache(self) -> Path:
        tag = sys.implementation.cache_tag
        return self.root / f"native/start/__pycache__/codecache.{tag}.test"

    def write(self, path: str, what: str) -> None:
        source = self.root / path
        source.write_text(f"'''A module.'''\nWHAT = {what!r}\n")
        self._clock += 1  # in seconds, which is what Python's own .pyc files know
        os.utime(source, (self._clock, self._clock))

    def command(self, more: str = "", dry: bool = False) -> list[str]:
        text = COMMAND.format(places=[str(self.root), *self.places], more=more, dry=dry)
        return [sys.executable, "-EP", "-c", text]

    def run(self, more: str = "", dry: bool = False) -> list[str]:
        """What the command said, a module a line."""
        done = subprocess.run(
            self.command(more, dry), capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path / "house")


USUAL = ["first SourceFileLoader"] * 3
SERVED = ["first _Loader"] * 3


def test_the_second_command_is_served_what_the_first_has_imported(house):
    assert house.run() == USUAL
    assert house.run() == SERVED
    for cached in house.root.rglob("*.pyc"):
        if "codecache" not in cached.name:
            cached.unlink()
    assert house.run() == SERVED
    assert not list((house.root / "yod").rglob("*.pyc"))


def test_a_command_that_was_served_all_writes_nothing(house):
    house.run()
    before = house.cache.stat()
    house.run()
    assert house.cache.stat().st_ino == before.st_ino


def test_a_changed_module_is_imported_as_usual_and_kept_again(house):
    house.run()
    house.write("yod/flat.py", "other")  # as long
    assert house.run() == [*SERVED[:2], "other SourceFileLoader"]
    assert house.run() == [*SERVED[:2], "other _Loader"]


def test_a_change_of_the_time_alone_is_a_change(house):
    house.run()
    os.utime(house.root / "yod/flat.py", (1, 1))
    assert house.run() == [*SERVED[:2], USUAL[2]]


def test_a_module_that_is_gone_is_gone(house):
    house.run()
    (house.root / "yod/flat.py").unlink()
    done = subprocess.run(house.command(), capture_output=True, text=True, timeout=LIMIT_S)
    assert "No module named 'yod.flat'" in done.stderr


def test_a_moved_package_is_imported_from_where_it_is(house):
    house.run()
    house.root.rename(house.root.with_name("moved"))
    house.root = house.root.with_name("moved")
    assert house.run() == USUAL
    assert house.run("print(yod.flat.__file__, yod.deep.__path__)") == [
        *SERVED,
        f"{house.root}/yod/flat.py ['{house.root}/yod/deep']",
    ]


def test_a_copy_is_served_nothing_of_what_it_was_copied_from(house, tmp_path):
    house.run()
    shutil.copytree(house.root, tmp_path / "copy")
    house.write("yod/flat.py", "other")
    house.root = tmp_path / "copy"
    assert house.run() == USUAL
    assert house.run("print(yod.flat.__file__)") == [*SERVED, f"{house.root}/yod/flat.py"]


def test_other_modules_are_served_like_ours(house):
    look = "import keyword; print(type(keyword.__spec__.loader).__name__, keyword.iskeyword('if'))"
    assert house.run(look)[-1] == "SourceFileLoader True"
    assert house.run(look)[-1] == "_Loader True"


def test_a_module_is_served_only_where_it_was_looked_for_from_the_start(house, tmp_path):
    (tmp_path / "extra.py").write_text("")
    place = f"sys.path.append({str(tmp_path)!r});"
    look = "import extra; print(type(extra.__spec__.loader).__name__)"
    assert house.run(place + look)[-1] == "SourceFileLoader"
    assert house.run(place + look)[-1] == "SourceFileLoader"
    house.places = [str(tmp_path)]
    assert house.run(look) == [*USUAL, "SourceFileLoader"]  # another may come first there
    assert house.run(look) == [*SERVED, "_Loader"]


def test_a_file_of_another_python_is_not_used(house):
    house.run()
    data = house.cache.read_bytes()
    house.cache.write_bytes(b"\xff\x0d\r\n" + data[4:])
    assert house.run() == USUAL
    assert house.cache.read_bytes()[:4] == data[:4]
    assert house.run() == SERVED


def test_a_file_that_is_cut_off_anywhere_is_not_used(house):
    house.run()
    data = house.cache.read_bytes()
    for size in (0, 3, 4, 5, 20, len(data) // 2, len(data) - 1):
        house.cache.write_bytes(data[:size])
        assert {line.split()[0] for line in house.run(dry=True)} == {"first"}
        assert house.run(dry=True)[-1] == USUAL[-1]
    house.run()
    assert house.run() == SERVED


@pytest.mark.parametrize(
    ("index", "code"),
    [
        ("[]", "b''"),
        ("(places, [])", "b''"),
        ("(places, {'yod': None})", "b''"),
        ("(places, {'yod': (1, 2)})", "b''"),
        ("(places, {'yod': (1, 2, 3, 4, 5)})", "b''"),
        ("(places, {'yod': (source, 0, 10)})", "b''"),
        ("(places, {'yod': (source, 0, 'x')})", "b''"),
        ("(places, {'yod': (source, 5, 0)})", "b'123456'"),
        ("(places, {'yod': (source, 0, 99)})", "marshal.dumps('WHAT = 1')"),
        ("(places, {'yod': (source, 0, 99)})", "marshal.dumps(compile('1', 'other', 'exec'))"),
    ],
)
def test_nonsense_in_the_file_is_not_used(house, index, code):
    more = f"""
import marshal
from native.start import codecache
places, source = cache._places, codecache._source(yod.__file__)
index = marshal.dumps({index})
head = codecache.MAGIC_NUMBER + len(index).to_bytes(4, "little")
open(cache._path, "wb").write(head + index + {code})
sys.dont_write_bytecode = True
"""
    house.run(more)
    assert house.run() == USUAL
    assert house.run() == SERVED


def test_nothing_is_written_where_python_writes_nothing(house):
    assert house.run(dry=True) == USUAL
    assert not house.cache.exists()
    more = "import os; os.access = lambda path, mode: False"  # root may write anywhere
    assert house.run(more) == USUAL
    assert not house.cache.exists()
    more = "import posix\ndef no(*a): raise OSError\nposix.open = no"  # as on a full disk
    assert house.run(more) == USUAL
    assert not house.cache.exists()


def test_what_is_replaced_while_a_command_runs_is_no_error(house):
    more = """
import os
os.unlink(yod.__file__)
os.unlink(sys.modules["native.start.codecache"].__file__)
"""
    assert house.run(more) == USUAL


def test_a_half_written_pyc_is_no_error(house):
    more = """
path = os.path.dirname(yod.__file__) + "/__pycache__"
for name in os.listdir(path):
    open(f"{path}/{name}", "r+b").truncate(20)
"""
    assert house.run("import os" + more) == USUAL


def test_the_file_is_as_private_as_the_sources(house):
    (house.root / "native/start/codecache.py").chmod(0o600)
    house.run()
    assert house.cache.stat().st_mode & 0o777 == 0o600


def test_commands_that_first_run_at_once_leave_one_whole_file(house):
    running = [
        subprocess.Popen(house.command(), stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    ended = [(process.communicate(timeout=LIMIT_S)[0], process.returncode) for process in running]
    for out, status in ended:
        assert status == 0
        assert out.splitlines() in (USUAL, SERVED)
    assert house.run() == SERVED
    names = [path.name for path in house.cache.parent.iterdir()]
    assert [name for name in names if ".test" in name] == [house.cache.name]


def test_what_a_command_has_not_imported_this_time_is_kept(house):
    house.run()
    house.write("yod/more.py", "first")
    house.run("import yod.more")
    house.run()
    assert house.run("import yod.more\nprint(yod.more.__loader__.__class__.__name__)") == [
        *SERVED,
        "_Loader",
    ]


def test_a_served_module_has_its_source_and_its_names(house):
    house.run()
    more = """
import inspect, traceback
print(inspect.getsource(yod.flat).splitlines()[1], yod.flat.__doc__)
print(yod.flat.__cached__ == yod.flat.__spec__.cached, yod.flat.__package__, yod.deep.__package__)
"""
    assert house.run(more)[3:] == ["WHAT = 'first' A module.", "True yod yod.deep"]


def test_a_traceback_through_a_served_module_shows_its_lines(house):
    (house.root / "yod/flat.py").write_text("WHAT = 'first'\ndef fail():\n    raise KeyError\n")
    house.run()
    more = """
import traceback
try:
    yod.flat.fail()
except KeyError:
    print(traceback.format_exc().splitlines()[-3:])
"""
    where = f'  File "{house.root}/yod/flat.py", line 3, in fail'
    assert house.run(more)[3:] == [str([where, "    raise KeyError", "KeyError"])]
