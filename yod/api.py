"""Launch an application from Python, as the command ``yod`` does."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise

from msgspec import Struct

from native import limits as limits_module
from native.errors import UsageError, YodError
from native.host import stdio, userdirs
from native.limits import Limits
from native.loop.reactor import Reactor
from native.text import shown
from native.wire import codec
from native.wire.base import ARGUMENTS_MAX, ENVIRONMENT_MAX, SIZE_MAX
from native.wire.load import Arguments, MemberLoad, Protocol, ShippedObject
from yod.driver import Driver
from yod.launch.machine import Launch
from yod.launch.phases import Phase
from yod.launch.report import Report
from yod.plan.plan import Member, Options, Plan
from yod.program import image, linked, speech

FORWARDED_LIMITS = (
    resource.RLIMIT_CORE,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_STACK,
    resource.RLIMIT_AS,
    resource.RLIMIT_NOFILE,
)
LOG_VARIABLE = "LOGFILENAME"
NO_LOG = "none"


class Result(Struct, frozen=True):
    """How a launch ended.

    Attributes:
        timing: (phase, seconds, slowest node or empty), in order.
        is_line_open: the last line on standard error has no newline.
    """

    exit_status: int
    report: Report
    timing: tuple[tuple[str, float, str], ...]
    is_line_open: bool = False


def make_plan(
    members: list[Member],
    options: Options,
    limits: Limits,
    environment: Mapping[bytes, bytes],
    is_shipped: bool,
    batch_job: str = "",
    meanwhile: Iterator[None] = linked.NO_WORK,
) -> tuple[Plan, bytes]:
    """Find and measure the programs.

    Args:
        is_shipped: nodes may lack the programs; false in the embedded partition.
        meanwhile: work to do while a program's loader answers; see
            :mod:`yod.program.linked`.

    Returns:
        The plan, and the encoded arguments if they are object 0, else empty.

    Raises:
        UsageError: an unknown choice of MPI, a PMIx library that does not exist, too many
            arguments.
        YodError: a program is missing or cannot be executed.
    """
    objects: dict[str, ShippedObject] = {}
    paths = []
    for member in members:
        try:
            path = image.find(member.words[0])
            if path not in objects:
                objects[path] = image.measure(path, is_shipped)
        except YodError as error:
            if not member.origin:
                raise
            raise type(error)(f"{member.origin}: {error}") from None
        paths.append(path)
    places = list(objects)
    size = sum(member.spec.size for member in members)
    mpi, mpi_reason, libraries = speech.mpi_of(
        [
            speech.Program(path, member.words[1:])
            for member, path in zip(members, paths, strict=True)
        ],
        environment,
        options.mpi,
        options.libpmix,
        universe_size=_universe(size, is_shipped),
        has_portals=options.has_portals,
        meanwhile=meanwhile,
    )
    if options.libpmix and not is_shipped and not os.path.isfile(options.libpmix):
        raise UsageError(f"--libpmix {shown(options.libpmix)}: no such file")
    directory = os.fsencode(image.current_directory())
    entries = tuple(name + b"=" + value for name, value in environment.items())

    def arguments_from(first: int) -> Arguments:
        return Arguments(
            tuple(
                MemberLoad(
                    member.spec.size,
                    first + places.index(path),
                    tuple(map(os.fsencode, member.words)),
                    directory,
                )
                for member, path in zip(members, paths, strict=True)
            ),
            entries,
        )

    shipped = tuple(objects.values())
    arguments = arguments_from(0)
    encoded = codec.encode_part(arguments)
    is_inline = len(encoded) <= limits.arguments_inline_bytes
    if not is_inline:
        arguments = arguments_from(1)
        encoded = codec.encode_part(arguments)
        shipped = (_arguments_object(encoded), *shipped)
    _demand_fitting(arguments, len(encoded), limits.arguments_max_bytes)
    plan = Plan(
        specs=tuple(member.spec for member in members),
        origins=tuple(member.origin for member in members),
        names=tuple(shown(member.words[0]) for member in members),
        arguments=arguments,
        objects=shipped,
        are_arguments_inline=is_inline,
        umask=_umask(),
        limits=tuple((number, resource.getrlimit(number)[0]) for number in FORWARDED_LIMITS),
        options=options,
        ignored_signals=_ignored_signals(),
        batch_job=batch_job,
        mpi=mpi,
        mpi_reason=mpi_reason,
        warnings=(
            *filter(None, map(image.carriage_return, objects)),
            *(() if options.mpi == "none" else _mixture(members, libraries)),
        ),
    )
    return plan, b"" if is_inline else encoded


def launch(
    members: list[Member],
    options: Options | None = None,
    *,
    partition: str = "",
    limits: Limits | None = None,
    before: Callable[[Plan, str], bool] = lambda plan, where: True,
) -> Result | None:
    """Run an application to its end, with our standard streams.

    Args:
        members: the programs, in rank order.
        partition: an address, ``embedded``, or empty: found as docs/yod.md says.
        before: called with the plan and the name of the partition; if it returns False,
            nothing is launched.

    Returns:
        How it ended; None if ``before`` returned False.

    Raises:
        YodError: the launch could not begin; the text says why.
    """
    from partition import open as opening
    from partition.find import discover

    stdio.take_numbers()
    options = options or Options()
    limits = limits or limits_module.load(os.environ)
    began = time.monotonic()
    where = discover.find(partition, os.environ)
    plan, arguments = make_plan(
        members,
        options,
        limits,
        os.environb,
        is_shipped=not where.is_embedded,
        meanwhile=opening.preparation() if where.is_embedded else linked.NO_WORK,
    )
    if not before(plan, where.name):
        return None
    resolved = time.monotonic()
    reactor = Reactor()
    will_offer_pmix = Protocol.PMIX in plan.mpi.offered
    opened = opening.open_partition(where, reactor, limits, will_offer_pmix=will_offer_pmix)
    machine = Launch(plan, limits, opened.bebopd, where.name)
    driver = Driver(machine, plan, arguments, opened.port, reactor, opened.use_grant, limits)
    reactor.when_idle(_user_name)  # it is slow, and needed for the log at the end
    started = time.time()
    try:
        driver.run()
    finally:
        opened.close()
        reactor.close()
    machine.report.close()
    _write_log(machine.report, started, plan)
    status = machine.report.exit_status
    assert status is not None
    timing = _timing(machine, began, resolved)
    return Result(status, machine.report, timing, driver.is_line_open)


def _timing(machine: Launch, began: float, resolved: float) -> tuple[tuple[str, float, str], ...]:
    """How long each phase took."""
    lines = [("resolve", resolved - began, "")]
    times = [*machine.began.items(), (None, time.monotonic())]
    for (phase, start), (_, end) in pairwise(times):
        assert phase is not None
        slow = machine.slowest.get(phase)
        text = f"{slow.name} ({slow.seconds:.4f} s after its load message)" if slow else ""
        lines.append((phase.value, end - start, text))
    return tuple(lines)


def _mixture(members: list[Member], libraries: tuple[str, ...]) -> list[str]:
    """A warning if members have MPI libraries that cannot form one world."""
    if len(set(libraries) - {""}) < 2:
        return []
    from yod.program import mixture

    text = mixture.warning(
        [
            mixture.Part(
                shown(member.words[0]) + (member.origin and f", {member.origin}"),
                member.spec.size,
                library,
            )
            for member, library in zip(members, libraries, strict=True)
        ]
    )
    return [text] if text else []


def _universe(size: int, is_shipped: bool) -> int:
    """MPI_UNIVERSE_SIZE: by how much it exceeds the world, a program may spawn ranks.

    Slots do not bound spawned ranks. The universe has room for as many ranks again, and in
    the embedded partition for at least one on each processor of this host.
    """
    processors = 0 if is_shipped else len(os.sched_getaffinity(0))
    return min(max(2 * size, processors), SIZE_MAX)


def _demand_fitting(arguments: Arguments, size: int, most_bytes: int) -> None:
    """Refuse arguments that nodes would refuse.

    Raises:
        UsageError: there are more than a limit allows; the text names the limit.
    """
    words = sum(len(member.arguments) for member in arguments.members)
    variables = len(arguments.environment)
    if variables > ENVIRONMENT_MAX:
        raise UsageError(f"the environment has {variables} variables, at most {ENVIRONMENT_MAX}")
    if words > ARGUMENTS_MAX:
        raise UsageError(f"the programs have {words} arguments in all, at most {ARGUMENTS_MAX}")
    if size > most_bytes:
        raise UsageError(
            f"the arguments and the environment have {size} bytes in all, at most {most_bytes}; "
            "unset what is not needed, or raise arguments_max_bytes here and on all nodes"
        )


def _arguments_object(encoded: bytes) -> ShippedObject:
    from _blake2 import blake2b

    digest = blake2b(encoded, digest_size=image.DIGEST_BYTES).digest()
    return ShippedObject(b"", len(encoded), digest, 0o600)


def _ignored_signals() -> tuple[int, ...]:
    """Signals that yod was started to ignore. Python itself ignores two others."""
    numbers = range(1, signal.NSIG)
    ignored = {number for number in numbers if signal.getsignal(number) is signal.SIG_IGN}
    return tuple(sorted(ignored - {signal.SIGPIPE, signal.SIGXFSZ}))


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _write_log(report: Report, started: float, plan: Plan) -> None:
    """Append a line to the user log.

    A log that cannot be written fails no job. The user is told if they chose the log.
    """
    chosen = os.environ.get(LOG_VARIABLE)
    path = chosen or _default_log()
    if path == NO_LOG:
        return
    stamp = "%m/%d/%Y %H:%M:%S"
    ended = time.time()
    first = plan.arguments.members[0].object_index
    line = report.log_line(
        time.strftime(stamp, time.localtime(started)),
        time.strftime(stamp, time.localtime(ended)),
        ended - started,
        _user_name(),
        shown(plan.objects[first].path),
        plan.batch_job,
    )
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags | os.O_NONBLOCK, 0o644)
        try:
            os.write(fd, line.encode(errors="replace") + b"\n")
        finally:
            os.close(fd)
    except OSError as error:
        if chosen:
            is_link = error.errno == errno.ELOOP
            reason = "a symbolic link" if is_link else (error.strerror or "").lower()
            stdio.say(f"yod: {LOG_VARIABLE}: {shown(path)}: {reason}; this launch is not logged")


def _default_log() -> str:
    """The log in the user's state directory; none if there is no such directory."""
    try:
        return os.path.join(userdirs.make_state(os.environ), userdirs.USER_LOG)
    except OSError:
        return NO_LOG


@cache
def _user_name() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


__all__ = ["Phase", "Result", "launch", "make_plan"]
