"""When the user is told what yod waits for: after ``notice_s``, then after twice the time."""

from __future__ import annotations

from collections.abc import Iterable

from native.wire.load import Late, LateNode, ShippedObject


class Waiting:
    """Counts the time that yod has waited for one thing.

    Attributes:
        due: when the next line is due; None: yod waits for nothing.
        late: the nodes that the root waits for; None: it has not said.
    """

    def __init__(self, notice_s: float) -> None:
        self.due: float | None = None
        self.late: Late | None = None
        self._notice_s = notice_s
        self._began = 0.0
        self._after_s = notice_s

    def begin(self, now: float) -> None:
        """yod waits for something new, or what it waits for makes progress."""
        self._began, self._after_s = now, self._notice_s
        self.due = now + self._notice_s
        self.late = None

    def end(self) -> None:
        """yod waits for nothing."""
        self.due = self.late = None

    def is_due(self, now: float) -> bool:
        """Whether a line is due."""
        return self.due is not None and now >= self.due

    def say(self, what: str, now: float) -> str:
        """The line for the user. The next is due after twice the time."""
        while self._began + self._after_s <= now:
            self._after_s *= 2
        self.due = self._began + self._after_s
        return f"waiting for {what} ({now - self._began:.0f} s)"

    def who(self, otherwise: str) -> str:
        """The nodes that are late, and why; ``otherwise`` where the root has not said."""
        if self.late is None:
            return otherwise
        silent = [node for node in self.late.nodes if not node.text]
        texts = [f"{node.name} ({node.text})" for node in self.late.nodes if node.text]
        texts += [_names(silent)] if silent else []
        return "; ".join(texts) + (f" and {self.late.more} more" if self.late.more else "")


def _names(nodes: Iterable[LateNode]) -> str:
    return ", ".join(node.name for node in nodes)


def files(objects: tuple[ShippedObject, ...]) -> str:
    """The names and the size of the objects that are sent to nodes."""
    shipped = [each for each in objects if each.digest]
    names = ", ".join(each.path.decode(errors="replace") or "arguments" for each in shipped[:3])
    more = f" and {len(shipped) - 3} more" if len(shipped) > 3 else ""
    return f"{names}{more} ({sum(each.size for each in shipped) / 1e6:.1f} MB)"
