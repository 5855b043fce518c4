"""A user who causes many lines leaves room for those of others."""

from __future__ import annotations

from native.host.logshares import WINDOW_S, LogShares
from native.ids import Principal, PrincipalKind

ALICE = Principal(PrincipalKind.USER, 1000)
BOB = Principal(PrincipalKind.JOB, 1001, 7)


class Log:
    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[tuple[str, int]] = []
        self.shares = LogShares(lambda *line: self.lines.append(line), 2, lambda: self.now)

    def say(self, principal: Principal | None, text: str, job_id: int = 0) -> None:
        self.shares.whose(principal)
        self.shares.say(text, job_id)

    @property
    def texts(self) -> list[str]:
        return [text for text, _ in self.lines]


def test_lines_beyond_the_share_of_a_minute_are_counted() -> None:
    log = Log()
    for number in range(5):
        log.say(ALICE, f"a{number}", number)
    log.say(BOB, "b")
    said = "uid 1000 causes more than 2 lines in a minute: no more"
    assert log.lines == [("a0", 0), ("a1", 1), (said, 0), ("b", 0)]
    log.now = WINDOW_S
    log.say(ALICE, "again")
    assert log.texts[4:] == ["3 lines that uid 1000 has caused left out", "again"]


def test_root_and_daemons_and_the_daemon_itself_have_all_lines() -> None:
    log = Log()
    daemon, root = Principal(PrincipalKind.PARTITION, 1000), Principal(PrincipalKind.USER, 0)
    for principal in (daemon, root, None):
        for _ in range(4):
            log.say(principal, "x")
    assert log.texts == ["x"] * 12
