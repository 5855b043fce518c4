"""Several things are given back, whatever one of them raises."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from native.loop.closing import close_all


def test_all_are_closed_the_last_first_and_the_last_exception_is_raised():
    closed: list[int] = []

    def closing(number: int) -> Callable[[], None]:
        def close() -> None:
            closed.append(number)
            if number % 2:
                raise OSError(number)

        return close

    with pytest.raises(OSError, match="1") as raised:
        close_all([closing(number) for number in range(5)])
    assert closed == [4, 3, 2, 1, 0]
    assert str(raised.value.__context__) == "3"
