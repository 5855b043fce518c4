"""What a hook says on its standard output: lines that change what ranks start with.

::

    export NAME=VALUE
    unset NAME
    print TEXT          (rank_prolog: to the rank's standard output)
    refuse TEXT         (the job fails for this reason, and the node is not blamed)

Other lines are for the log. Source: Slurm's TaskProlog; ``refuse`` is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from native.allocated import HOOKS_VARIABLE
from native.wire.keeper import KeeperSpec, RankSpec

_PATH = HOOKS_VARIABLE.encode()
_INHERITED = b"YOD_HOOKS_INHERITED"
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")


class Changes(Struct, frozen=True):
    """What lines ask for.

    Attributes:
        variables: name -> value; None: it is taken away.
        printed: for a rank's standard output.
    """

    variables: dict[bytes, bytes | None] = {}
    printed: bytes = b""

    def then(self, later: Changes) -> Changes:
        """These, and then others."""
        return Changes({**self.variables, **later.variables}, self.printed + later.printed)


class Said(Struct, frozen=True):
    """What a hook's output says.

    Attributes:
        refusal: why the job is refused; None: it is not.
        rest: lines for the log.
    """

    changes: Changes
    refusal: bytes | None = None
    rest: tuple[bytes, ...] = ()


NOTHING = Changes()


def read(output: bytes) -> Said:
    """Read a hook's output."""
    variables: dict[bytes, bytes | None] = {}
    printed, refusal, rest = b"", None, []
    for line in output.replace(b"\0", b"").split(b"\n"):
        word, _, value = line.partition(b" ")
        name, equals, text = value.partition(b"=")
        if word == b"export" and equals and _NAME.fullmatch(name):
            variables[name] = text
        elif word == b"unset" and _NAME.fullmatch(value):
            variables[value] = None
        elif word == b"print":
            printed += value + b"\n"
        elif word == b"refuse":
            refusal = value.strip()
        elif line.strip():
            rest.append(line)
    return Said(Changes(variables, printed), refusal, tuple(rest))


def for_steps(changes: Changes, path: bytes) -> Changes:
    """What an allocation's PCT is started with: these changes, their names, and the manifest."""
    told = {_PATH: path, _INHERITED: b" ".join(changes.variables)}
    return Changes({**changes.variables, **told})


def inherited(environment: Mapping[bytes, bytes]) -> Changes:
    """The changes of an allocation's hooks, in the environment of its PCT."""
    names = environment.get(_INHERITED, b"").split()
    return Changes({name: environment.get(name) for name in names})


def applied(spec: KeeperSpec, of_all: Changes, of_ranks: dict[int, Changes]) -> KeeperSpec:
    """The specification with these changes: first those of all ranks, then each one's own."""
    taken = {
        name for changes in of_ranks.values() for name, value in changes.variables.items()
        if value is None
    }  # fmt: skip
    shared = changed(spec.environment, of_all.variables)
    kept = [each for each in shared if _name(each) not in taken]
    moved = [each for each in shared if _name(each) in taken]  # of the ranks that keep them
    ranks = tuple(
        _of_rank(rank, moved, of_all, of_ranks.get(rank.rank, NOTHING)) for rank in spec.ranks
    )
    return replace(spec, environment=tuple(kept), ranks=ranks)


def _of_rank(rank: RankSpec, moved: Iterable[bytes], of_all: Changes, changes: Changes) -> RankSpec:
    own = {_name(each) for each in rank.environment}
    for_all = {name: value for name, value in of_all.variables.items() if name in own}
    before = (*(each for each in moved if _name(each) not in own), *rank.environment)
    return replace(rank, environment=changed(changed(before, for_all), changes.variables))


def changed(
    environment: Iterable[bytes], variables: dict[bytes, bytes | None]
) -> tuple[bytes, ...]:
    """An environment with these changes."""
    kept = [each for each in environment if _name(each) not in variables]
    set_now = (name + b"=" + value for name, value in variables.items() if value is not None)
    return (*kept, *set_now)


def _name(variable: bytes) -> bytes:
    return variable.partition(b"=")[0]
