"""The application's output as it arrives: gaps told, credit given back."""

from __future__ import annotations

from native.wire.io import MESSAGE_COST_BYTES, Output


class OutputLedger:
    """What has arrived of each rank's streams, and what may be acknowledged.

    Attributes:
        waiting_bytes: arrived, and not written yet.
    """

    def __init__(self, window_bytes: int) -> None:
        self.lost_bytes = 0
        self.waiting_bytes = 0
        self._window_bytes = window_bytes
        self._expected: dict[tuple[int, int], int] = {}
        self._owed = 0

    def arrived(self, message: Output) -> tuple[bytes, int]:
        """Take one message.

        Returns:
            The data to write, and how many bytes before it never came.
        """
        key = (message.rank, message.stream)
        expected = self._expected.get(key, 0)
        gap = max(0, message.offset - expected)
        repeated = max(0, expected - message.offset)
        self._expected[key] = max(expected, message.offset + len(message.data))
        self.lost_bytes += gap
        data = message.data[repeated:]
        self.waiting_bytes += len(data)
        return data, gap

    def written(self, count_bytes: int, count_messages: int) -> int:
        """Output has left yod.

        Returns:
            Bytes of credit to send now; 0 while it is not worth a message.
        """
        # yod's own words are counted too: never below nothing.
        self.waiting_bytes = max(0, self.waiting_bytes - count_bytes)
        self._owed += count_bytes + count_messages * MESSAGE_COST_BYTES
        if self._owed < self._window_bytes // 4:
            return 0
        due, self._owed = self._owed, 0
        return due
