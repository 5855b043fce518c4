"""The disk of bebopd's batch jobs, in memory: the real statements, and what can go wrong."""

import sqlite3

from msgspec import msgpack

from allocator.batch.job import Elements
from allocator.host import batch_records
from allocator.host.batch_records import BatchRecords
from allocator.jobs import ids
from allocator.records import LedgerError
from native.wire.base import State, Terms


class Disk:
    """It outlives bebopds.

    Attributes:
        is_full: nothing can be written.
    """

    def __init__(self):
        self.is_full = False
        self.used_below = 1
        self._db = sqlite3.connect(":memory:", isolation_level=None)
        self._db.executescript(batch_records.SCHEMA)
        self.batch = BatchRecords(self._query, self._write)

    def close(self):
        self._db.close()

    def first_id(self):
        """The first id of a block that nobody has used, now reserved."""
        first = self.used_below
        self.used_below = first + ids.BLOCK
        return first

    def state(self, job_id):
        """What is recorded of a job; None: nothing."""
        row = self._query("SELECT state FROM batch WHERE job_id = ?", (job_id,)).fetchone()
        return State(row[0]) if row else None

    def states(self):
        """The same of all jobs, by id."""
        found = self._query("SELECT job_id, state FROM batch")
        return {job_id: State(name) for job_id, name in found}

    def time_s(self, job_id):
        """The time limit that is recorded of a job."""
        (row,) = self.batch.rows([job_id])
        return row.time_s

    def attempt(self, job_id):
        """How often it was placed before, as the disk says."""
        select = "SELECT attempt FROM batch WHERE job_id = ?"
        (attempt,) = self._query(select, (job_id,)).fetchone()
        return attempt

    def has_begun(self, job_id):
        """Whether a job that waits has been placed before, or one of its elements has begun."""
        select = "SELECT attempt, elements FROM batch WHERE job_id = ?"
        attempt, elements = self._query(select, (job_id,)).fetchone()
        return bool(attempt or (elements and msgpack.decode(elements, type=Elements).has_begun))

    def is_held(self, job_id):
        """Whether the disk says that a job is kept from the line."""
        (held,) = self._query("SELECT held FROM batch WHERE job_id = ?", (job_id,)).fetchone()
        return bool(held)

    def check_arrays(self, counts):
        """No element has become two jobs; all of an array have become one that ended by itself.

        Args:
            counts: of the elements of arrays, at least and at most, by id.
        """
        found = self._query("SELECT array, element FROM batch WHERE array NOT NULL").fetchall()
        assert len(found) == len(set(found)), "an element is there twice"
        for job_id, elements in self._query("SELECT job_id, elements FROM batch WHERE elements"):
            array = msgpack.decode(elements, type=Elements)
            begun = sum(1 for of, _ in found if of == job_id)
            assert begun == array.well + array.failed, "an end of an element is not counted once"
            least, most = counts[job_id]
            assert array.fate or least <= begun <= most, "elements are lost"

    def check_lost(self, most):
        """Whoever wants to wait again when nodes are lost does, so often."""
        lost = "state = 'NODE_FAIL' AND NOT is_cancelled"
        select = f"SELECT job_id, terms, failures FROM batch WHERE {lost}"
        for job_id, terms, failures in self._query(select):
            if msgpack.decode(terms, type=Terms).requeue_lost:
                assert failures >= most, f"job {job_id} does not wait again"

    def nodes(self, job_id):
        """The nodes that are recorded of a job."""
        (row,) = self.batch.rows([job_id])
        return row.nodes

    def _query(self, statement, values=()):
        return self._db.execute(statement, values)

    def _write(self, statements):
        if self.is_full:
            raise LedgerError("no space left on device")
        self._db.execute("BEGIN")
        for statement, values in statements:
            self._db.execute(statement, values)
        self._db.execute("COMMIT")
