"""From members to a plan: their programs are found and measured."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from native.errors import UsageError, YodError
from native.limits import Limits
from native.text import shown
from native.wire import codec
from native.wire.base import ARGUMENTS_MAX, ENVIRONMENT_MAX, SIZE_MAX
from native.wire.load import Arguments, MemberLoad, ShippedObject
from yod.plan.invocation import Invocation
from yod.plan.plan import RANK_0, Member, Options, Plan
from yod.program import image, speech


def make_plan(
    members: list[Member],
    options: Options,
    limits: Limits,
    invocation: Invocation,
    is_shipped: bool,
    warnings: Sequence[str] = (),
) -> tuple[Plan, bytes]:
    """Find and measure the programs.

    Args:
        is_shipped: nodes may lack the programs; false in the embedded partition.
        warnings: lines for the user, before those that are found here.

    Returns:
        The plan, and the encoded arguments if they are object 0, else empty.

    Raises:
        UsageError: an unknown choice of MPI, a PMIx library that does not exist, too many
            arguments.
        YodError: a program is missing or cannot be executed.
    """
    environment = invocation.environment
    objects: dict[str, ShippedObject] = {}
    paths = []
    for member in members:
        try:
            path = image.path_of(member, invocation)
            if path not in objects:
                objects[path] = image.measure(path, is_shipped)
        except YodError as error:
            if not member.origin:
                raise
            raise type(error)(f"{member.origin}: {error}") from None
        paths.append(path)
    places = list(objects)
    size = sum(member.spec.size for member in members)
    if options.input_ranks not in ((), RANK_0):
        from yod.plan.input import check  # few launches say who reads

        option = "--stdin" if options.window is None else "--pty"
        check(options.input_ranks, size, option)
    if options.strace is not None:
        from yod.plan.input import check  # likewise

        check(options.strace.ranks, size, "-stracenodes")
    mpi, mpi_reason, libraries = speech.mpi_of(
        [
            speech.Program(path, member.words[1:])
            for member, path in zip(members, paths, strict=True)
        ],
        environment,
        options.mpi,
        options.libpmix,
        universe_size=_universe(size, 0 if is_shipped else invocation.processors),
        has_portals=options.has_portals,
    )
    if options.libpmix and not is_shipped and not os.path.isfile(options.libpmix):
        raise UsageError(f"--libpmix {shown(options.libpmix)}: no such file")
    place = invocation.directory
    if options.directory:
        place = os.path.normpath(os.path.join(place, options.directory))
    directory = os.fsencode(place)
    entries = _entries(environment)

    def arguments_from(first: int) -> Arguments:
        return Arguments(
            tuple(
                MemberLoad(
                    member.spec.size,
                    first + places.index(path),
                    tuple(map(os.fsencode, member.words)),
                    directory,
                    member.spec.cores,
                    member.spec.needs,
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
        umask=invocation.umask,
        limits=invocation.limits,
        options=options,
        ignored_signals=invocation.ignored_signals,
        mpi=mpi,
        mpi_reason=mpi_reason,
        warnings=(
            *warnings,
            *filter(None, map(image.carriage_return, objects)),
            *(() if options.mpi == "none" else _mixture(members, libraries)),
        ),
    )
    return plan, b"" if is_inline else encoded


def with_environment(plan: Plan, limits: Limits, environment: Mapping[bytes, bytes]) -> Plan | None:
    """A plan of the same programs with other variables; None: it has to be made anew.

    Raises:
        UsageError: too many variables.
    """
    if not plan.are_arguments_inline:
        return None
    arguments = replace(plan.arguments, environment=_entries(environment))
    size = len(codec.encode_part(arguments))
    if size > limits.arguments_inline_bytes:
        return None
    _demand_fitting(arguments, size, limits.arguments_max_bytes)
    return replace(plan, arguments=arguments)


def _entries(environment: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    return tuple(map(b"=".join, environment.items()))


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


def _universe(size: int, processors: int) -> int:
    """MPI_UNIVERSE_SIZE: by how much it exceeds the world, a program may spawn ranks.

    Slots do not bound spawned ranks. The universe has room for as many ranks again, and in
    the embedded partition for at least one on each processor.
    """
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
