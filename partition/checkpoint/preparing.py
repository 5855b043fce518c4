"""What a launch with checkpoints does in the file system before it begins."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import json
from msgspec.structs import replace

from native.allocated import ALLOCATION_VARIABLE
from native.errors import UsageError
from native.host.marks import outputs
from native.limits import Limits
from native.text import shown
from native.wire.group import RECIPE_MAX_BYTES, Checkpoints, RankFiles
from partition.checkpoint import contained, digests, files, finding
from partition.checkpoint.files import Manifest
from yod.plan.checkpoint import Backend, Checkpointing
from yod.plan.checkpoint_options import DIRECTORY
from yod.plan.invocation import Invocation
from yod.plan.plan import Member, Plan, Style

LOCAL_PREFIX = "yod-checkpoints-"  # and the owner's uid
_TOKEN_BYTES = 8


def prepared(
    chosen: Checkpointing,
    members: list[Member],
    plan: Plan,
    invocation: Invocation,
    limits: Limits,
    *,
    makes_it: bool,
    is_embedded: bool,
) -> Plan:
    """Make the directory, and put down what a restart has to know.

    Args:
        members: as the ranks are started.
        is_embedded: the partition is this host alone.

    Returns:
        The plan with that.

    Raises:
        UsageError: the directory cannot be made, or the job not be put down.
    """
    path, restart = chosen.directory, b""
    if chosen.restart and finding.has_any(chosen.restart):
        found = finding.newest(chosen.restart, is_checked=False)[0]
        restart = os.fsencode(found)
        path = path or os.path.dirname(found)
    path = path or chosen.restart
    path = os.path.abspath(path)
    if makes_it:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{DIRECTORY} {shown(path)}: {error.strerror}") from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise UsageError(f"{DIRECTORY} {shown(path)}: you cannot write there")
    own = members
    if chosen.backend is Backend.CRIU:
        own = contained.without(members)
        if not is_embedded:
            placed = contained.constrained(plan.options.constraint, invocation.environment)
            plan = replace(plan, options=replace(plan.options, constraint=placed))
        plan = replace(plan, names=tuple(shown(member.words[0]) for member in own))
    written = plan.options.files or RankFiles()
    recipe = files.Recipe(
        job=" ".join(plan.names),
        directory=_text(invocation.directory),
        members=tuple(
            files.RecipeMember(tuple(map(_text, member.words)), replace(member.spec, nodes=()))
            for member in own
        ),
        environment=digests.of_record(b"\0".join(sorted(plan.arguments.environment))),
        mpi=chosen.mpi or " ".join(protocol.value for protocol in plan.mpi.offered),
        yod=str(files.VERSION),
        backend=(chosen.backend or Backend.SIGNAL).value,
        tool=chosen.tool,
        batch_job=batch_job(invocation),
        out=_text(os.fsdecode(written.out)),
        err=_text(os.fsdecode(written.err)),
    )
    encoded = json.encode(recipe)
    if len(encoded) > RECIPE_MAX_BYTES:
        raise UsageError(
            f"{DIRECTORY}: arguments of {len(encoded)} bytes, at most {RECIPE_MAX_BYTES}"
        )
    collecting = files.COLLECTING + os.urandom(_TOKEN_BYTES).hex()
    where = Checkpoints(os.fsencode(path), collecting, restart)
    if chosen.local:
        local = os.path.join(chosen.local, f"{LOCAL_PREFIX}{os.geteuid()}")
        most = (limits.checkpoint_local_bytes, limits.checkpoint_drain_s)
        where = Checkpoints(os.fsencode(path), collecting, restart, os.fsencode(local), *most)
    given = replace(chosen, directory=path, where=where, recipe=encoded, drain_s=where.drain_s)
    return replace(plan, checkpointing=replace(given, holds_output=_holds_output(plan, invocation)))


def _holds_output(plan: Plan, invocation: Invocation) -> bool:
    """Whether yod writes output into files that have marks."""
    if plan.options.style is Style.MERGED:  # lines wait in nodes for those of others
        return False
    is_of_job = outputs.batch_job(decoded(invocation.environment))
    return plan.options.tee is not None or bool(is_of_job and any(map(outputs.appended, (1, 2))))


class Restarted(NamedTuple):
    """The job of a checkpoint.

    Attributes:
        size: its ranks.
        directory: in which it was started.
        backend: what has saved the ranks.
        mpi: what they were offered to find their world by, as ``--mpi`` has it.
        files: that the ranks wrote, and have marks; None: they wrote to yod.
        manifest: by which its files are compared; None: they have been.
    """

    path: str
    size: int
    members: list[Member]
    directory: str
    backend: Backend
    mpi: str
    files: RankFiles | None
    manifest: Manifest | None = None

    def compare(self) -> None:
        """Compare all files with what was written; nothing may begin before.

        Raises:
            BrokenError: the text names the first that differs.
        """
        if self.manifest is not None:
            finding.check(self.path, self.manifest)


def restarted(directory: str, *, may_lack: bool) -> Restarted | None:
    """The job of the newest checkpoint, by its manifest; None: there is none, and that may be.

    Raises:
        YodError: there is none that this yod can read.
    """
    if may_lack and not finding.has_any(directory):
        return None
    path, manifest = finding.newest(directory, is_checked=False)
    recipe = manifest.recipe
    if not may_lack and not os.path.isdir(recipe.directory):
        raise UsageError(f"{shown(recipe.directory)}: the job was started there; it is gone")
    members = [Member(each.spec, each.words) for each in recipe.members]
    try:
        backend = Backend(recipe.backend)
    except ValueError:
        text = f"{shown(path)}: saved by {shown(recipe.backend)}, which this yod cannot read"
        raise UsageError(text) from None
    mpi = recipe.mpi.split()[0] if recipe.mpi else "none"
    written = None
    if recipe.out or recipe.err:
        written = RankFiles(os.fsencode(recipe.out), os.fsencode(recipe.err), appends=True)
    job = (path, manifest.ranks, members, recipe.directory)
    return Restarted(*job, backend, mpi, written, manifest)


def batch_job(invocation: Invocation) -> str:
    """The allocation or batch job whose step a launch is; empty: of none."""
    return invocation.environment.get(ALLOCATION_VARIABLE.encode(), b"").decode(errors="replace")


def decoded(environment: Mapping[bytes, bytes]) -> dict[str, str]:
    """An environment as text."""
    return {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()}


def _text(word: str) -> str:
    try:
        word.encode()
    except UnicodeEncodeError:
        text = f"{DIRECTORY}: {shown(word)} is no text, and cannot be put down"
        raise UsageError(text) from None
    return word
