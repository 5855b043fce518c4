"""Files of bebopd: its key, its records, the nodes file."""

import os
import sqlite3

import pytest

from allocator.host import batch_records, keys
from allocator.host.ledger import Ledger, LedgerError
from allocator.jobs import ids
from allocator.nodes import nodesfile
from allocator.nodes.orders import Drain, Orders, Restart
from native.errors import UsageError
from native.host.keyfile import KeyFileError


def test_the_key_is_made_once_for_its_owner_only(tmp_path):
    path = tmp_path / "key"
    (key,) = keys.read_or_make(str(path))
    assert len(key) == 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert keys.read_or_make(str(path)) == (key,)
    assert os.listdir(path.parent) == ["key"]


def test_no_directory_is_made_for_a_key(tmp_path):
    path = tmp_path / "new" / "key"
    with pytest.raises(KeyFileError, match=f"key file {path}: No such file or directory"):
        keys.read_or_make(str(path))
    assert not path.parent.exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_key_that_others_can_use_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    path.write_bytes(bytes(32))
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:04o} lets others use it: chmod 600"):
        keys.read_or_make(str(path))


@pytest.mark.parametrize("size", [0, 31, 33, 1000])
def test_a_file_of_another_size_is_no_key(tmp_path, size):
    path = tmp_path / "key"
    path.write_bytes(bytes(size))
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=r"a key has 32"):
        keys.read_or_make(str(path))


def test_a_directory_is_no_key(tmp_path):
    with pytest.raises(KeyFileError, match="not a file"):
        keys.read_or_make(str(tmp_path))


def test_job_ids_never_repeat_whatever_was_written(tmp_path):
    given = []
    for _ in range(3):
        ledger = Ledger(tmp_path)
        given.append(ledger.first_job_id())
        ledger._db.close()  # a crash: nothing is flushed
        os.close(ledger._lock)
    assert given == [1, 1 + ids.BLOCK, 1 + 2 * ids.BLOCK]


def test_ids_that_were_not_used_are_used_after_an_orderly_end(tmp_path):
    ledger = Ledger(tmp_path)
    first = ledger.first_job_id()
    ledger.reserve(first + 3)
    ledger.close()
    again = Ledger(tmp_path)
    assert again.first_job_id() == first + 3
    again.close()


def test_records_are_there_after_a_restart(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.remember_node("a", 4)
    ledger.remember_node("a", 5)
    assert ledger.has_waiting
    ledger.close()
    again = Ledger(tmp_path)
    assert again.names() == {"a": 5}
    again.close()


FAN = Orders(drain=Drain("fan", "root", 100.5))


def test_an_order_and_the_names_of_nodes_are_there_after_a_crash(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.remember_node("a", 4)
    both = Orders(FAN.drain, Restart("alice", 101.5, (1 << 63) - 1, True))
    ledger.keep_orders(((4, FAN), (5, FAN), (6, both)))
    ledger.keep_orders(((5, Orders()),))
    ledger.remember_node("b", 5)
    ledger._db.close()  # a crash: nothing is flushed
    os.close(ledger._lock)
    again = Ledger(tmp_path)
    assert again.orders() == {4: FAN, 6: both}
    assert again.names() == {"a": 4}
    again.close()


def test_records_of_an_earlier_release_get_the_columns_that_they_lack(tmp_path):
    ledger = Ledger(tmp_path)
    columns = "SELECT name FROM pragma_table_info('batch')"
    wanted = ledger._db.execute(columns).fetchall()
    for name in batch_records.MORE_COLUMNS["batch"]:
        ledger._db.execute(f"ALTER TABLE batch DROP COLUMN {name}")
    assert ledger._db.execute(columns).fetchall() != wanted
    ledger.close()
    again = Ledger(tmp_path)
    assert again._db.execute(columns).fetchall() == wanted  # in this order: INSERT names none
    again.close()


def test_an_order_that_cannot_be_written_changes_nothing(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.keep_orders(((4, FAN),))
    ledger._db.execute("PRAGMA query_only = ON")
    with pytest.raises(LedgerError, match="readonly database"):
        ledger.keep_orders(((4, Orders()), (5, FAN)))
    ledger._db.execute("PRAGMA query_only = OFF")
    assert ledger.orders() == {4: FAN}
    ledger.close()


def test_two_bebopds_do_not_share_their_records(tmp_path):
    ledger = Ledger(tmp_path)
    with pytest.raises(LedgerError, match="another bebopd keeps its records here"):
        Ledger(tmp_path)
    ledger.close()
    Ledger(tmp_path).close()


def test_records_that_are_damaged_are_named(tmp_path):
    (tmp_path / "bebopd.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(LedgerError, match=r"bebopd\.sqlite: file is not a database"):
        Ledger(tmp_path)


def test_what_cannot_be_written_is_kept(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.remember_node("a", 1)
    other = sqlite3.connect(tmp_path / "bebopd.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    ledger._db.execute("PRAGMA busy_timeout = 0")
    with pytest.raises(LedgerError, match="locked"):
        ledger.flush()
    other.execute("ROLLBACK")
    other.close()
    ledger.flush()
    assert ledger.names() == {"a": 1}
    ledger.close()


def test_a_nodes_file_numbers_its_lines():
    assert nodesfile.parse("# names\na\n\nb # second\n", "f").numbers == {"a": 0, "b": 1}


def test_a_nodes_file_may_say_the_numbers():
    assert nodesfile.parse("5 a\n0 b\n", "f").numbers == {"a": 5, "b": 0}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a\na\n", "f:2: a is node 0 already"),
        ("5 a\n5 b\n", "f:2: node 5 is a already"),
        ("a\n5 b\n", "f:2: lines are either `name` or `number name`, all alike"),
        ("1 2 3\n", "f:1: lines are either `name` or `number name`, all alike"),
        ("x a\n", "f:1: `x` is no node number (0 to 1048575)"),
        ("-1 a\n", "f:1: `-1` is no node number (0 to 1048575)"),
        ("9999999 a\n", "f:1: `9999999` is no node number (0 to 1048575)"),
        ("n" * 256, "f:1: a name has at most 255 characters"),
    ],
)
def test_a_nodes_file_is_refused_with_its_line(text, error):
    with pytest.raises(UsageError) as caught:
        nodesfile.parse(text, "f")
    assert str(caught.value) == error
