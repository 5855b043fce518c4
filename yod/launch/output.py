"""The application's output as it arrives: gaps told, credit given back."""

from __future__ import annotations

from native.wire.io import MESSAGE_COST_BYTES, Output


class OutputLedger:
    """What has arrived of the ranks' standard output or error, and what may be acknowledged.

    Attributes:
        waiting_bytes: arrived, and not written yet.
    """

    def __init__(self, window_bytes: int) -> None:
        self.lost_bytes = 0
        self.waiting_bytes = 0
        self._window_bytes = window_bytes
        self._expected: dict[int, int] = {}  # by rank
        self._owed = 0

    def arrived(self, message: Output) -> tuple[bytes, int]:
        """Take one message.

        Returns:
            The data to write, and how many bytes before it never came.
        """
        expected = self._expected.get(message.rank, 0)
        gap = max(0, message.offset - expected)
        repeated = max(0, expected - message.offset)
        self._expected[message.rank] = max(expected, message.offset + len(message.data))
        self.lost_bytes += gap
        data = message.data[repeated:]
        # What a message costs beside its data, and data that is not written, is done with.
        self._owed += MESSAGE_COST_BYTES + len(message.data) - len(data)
        self.waiting_bytes += len(data)
        return data, gap

    def written(self, count_bytes: int) -> int:
        """Output has left yod.

        Returns:
            Bytes of credit to send now; 0 while it is not worth a message.
        """
        self.waiting_bytes -= count_bytes
        self._owed += count_bytes
        return self.credit()

    def credit(self) -> int:
        """Bytes of credit to send now; 0 while it is not worth a message."""
        if self._owed < self._window_bytes // 4:
            return 0
        due, self._owed = self._owed, 0
        return due
