"""What commands do when a stream cannot be written."""

import io
import sys

import pytest

from native.host import stdio


@pytest.fixture
def full(tmp_path):
    """A stream whose file system has no room, and what it is when there is some again."""

    class Room(io.RawIOBase):
        has_room = False
        taken = b""

        def writable(self):
            return True

        def write(self, data):
            if not self.has_room:
                raise OSError(28, "No space left on device")
            self.taken += bytes(data)
            return len(data)

    room = Room()
    stream = io.TextIOWrapper(io.BufferedWriter(room), line_buffering=True)
    yield stream, room
    room.has_room = True
    stream.close()


def test_a_daemon_outlives_a_log_without_room_and_goes_on_with_it(full, monkeypatch):
    """A pct ended."""
    stream, room = full
    monkeypatch.setattr(sys, "stderr", stream)
    buffer_bytes = io.DEFAULT_BUFFER_SIZE  # 8 kB; 128 kB from Python 3.14 on
    for number in range(buffer_bytes):
        stdio.say(f"line {number}")
    room.has_room = True
    stdio.say("last")
    assert room.taken.endswith(b"last\n")
    assert len(room.taken) < 4 * buffer_bytes  # what was not written is not kept for ever


def test_an_error_is_blamed_on_standard_output_only_where_that_is_lost(monkeypatch):
    error = OSError(2, "No such file or directory", "x")
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert stdio.blame(error) == "x: No such file or directory"
        full.write("text")
        assert stdio.blame(error) == "standard output: no space left on device"
        assert stdio.blame(error) == "x: No such file or directory"  # said once
