"""What every test gets: a place of its own, and the rules of the house.

* Tests under ``tests/system`` have the marker ``system``; each is checked to leave
  nothing behind.
* In CI (``CI=true``) a skipped test is a failed one: what tests need is installed
  there, so a skip would hide that a promise is not tested.
"""

from __future__ import annotations

import os
import resource
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.files import open_place  # noqa: F401
from tests.support.hosts import Hosts
from tests.support.leaks import Watch
from tests.support.place import Place

# Speed is never asserted in a test; on a busy machine any example may take long.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# What runs in the background of a shell or under nohup has signals ignored, and so would
# all that is started here.
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
    if signal.getsignal(number) == signal.SIG_IGN:
        is_interrupt = number == signal.SIGINT
        signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)

# Nor are files left of ranks that die, and what yod says of them is the same on all machines.
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))

IN_CI = os.environ.get("CI") == "true"
SYSTEM = Path(__file__).parent / "system"


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(SYSTEM):
            item.add_marker("system")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):  # type: ignore[no-untyped-def]
    report = yield
    if IN_CI and report.skipped:
        _fail(report)
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = f"in CI nothing may be skipped. {reason}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """The test's own place; its environment is the test process's meanwhile."""
    place = Place(tmp_path / "place", uuid.uuid4().hex)
    environment = place.environment()
    for name in set(os.environ) - set(environment):
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield place
    place.remove()


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[Watch | None]:
    """Compare before and after every system test what a launch could leave.

    A fixture that runs a partition calls :meth:`Watch.partition` when that is up.
    One that ends with the test and shall be compared before it goes down calls
    :meth:`Watch.check` itself first.
    """
    if request.node.get_closest_marker("system") is None:
        yield None
        return
    watch = Watch(request.getfixturevalue("place"))
    yield watch
    watch.check()


@pytest.fixture(scope="session")
def needs_root() -> None:
    """Skip where the tests do not run as root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def four_hosts(needs_root: None) -> Iterator[Hosts]:
    """Four hosts made of namespaces."""
    with Hosts(4) as hosts:
        yield hosts
