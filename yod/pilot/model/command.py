"""What a task's description makes of it: the words of its program, its variables, its need.

A program with nothing around it is executed as it is. Where there are commands before or behind it
the words are those of one shell, which becomes the program if nothing is behind it. So they are
where words name variables: the reference's scripts count on ``$RP_RANK`` in an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from yod.pilot.model import modes
from yod.pilot.model.chosen import read_slots
from yod.pilot.model.description import TaskDescription
from yod.pilot.model.keys import GPU_TYPES
from yod.pilot.model.sizes import GPU_PARTS, Need, RankSlot
from yod.pilot.model.together import MET, SYNC

SHELL = "/bin/bash"
OF_REFERENCE = "rp"  # the named environment that the reference makes for its own programs
_SHELLS = frozenset(("sh", "bash", "dash", "ksh", "zsh"))
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))", re.ASCII)
_RANKED = 'export RP_RANK="$YOD_RANK"; exec "$@"'


def words_of(description: TaskDescription) -> list[str]:
    """The program and its arguments.

    Raises:
        ValueError: commands for a rank whose number is none.
    """
    value = description.value
    if description.kind == modes.TASK_SHELL:
        program = [SHELL, "-c", str(value("command"))]
    else:
        program = [str(value("executable")), *map(str, value("arguments"))]
    named = value("named_env")
    before = [] if is_mpi(description) else around_of(description, "pre_launch")
    before += [f". {_activating(named)}"] if named and named != OF_REFERENCE else []
    before += _commands(value("pre_exec"))
    behind = _commands(value("post_exec"))
    behind += [] if is_mpi(description) else around_of(description, "post_launch")
    is_plain = value("literal") or _is_script(program)
    is_named = not is_plain and any(map(_VARIABLE.search, program))
    is_together = bool(value("pre_exec_sync") and value("pre_exec")) and is_mpi(description)
    if not before and not behind and not is_named:
        return program
    lines = [f"{{ {each}\n}} || exit" for each in before]
    if is_together:
        lines = [SYNC, *lines, MET]
    if is_named:
        lines.append(" ".join(["set --", *map(_filled_in, program)]))
    if behind:
        lines += ['"$@"', "yod_code=$?", *behind, "exit $yod_code"]
    else:
        lines.append('exec "$@"')
    return [SHELL, "-c", "\n".join(lines), SHELL, *program]


def around_of(description: TaskDescription, key: str) -> list[str]:
    """The commands of ``pre_launch`` or ``post_launch``, each in a shell of its own."""
    return [f"( {each}\n)" for each in _list(description.value(key))]


def launch_words(description: TaskDescription, key: str) -> list[str]:
    """These commands as a program, for a task whose ranks are launched; empty: there are none."""
    lines = [f"{each} || exit" for each in around_of(description, key)]
    return [SHELL, "-c", "\n".join(lines)] if lines else []


def step_words_of(description: TaskDescription) -> list[str]:
    """The same for a task whose ranks find one another: each learns its number first.

    Raises:
        ValueError: commands for a rank whose number is none.
    """
    return ranked(words_of(description))


def ranked(words: list[str]) -> list[str]:
    """A program that is launched as ranks, each of which learns its number first."""
    return ["/bin/sh", "-c", _RANKED, "sh", *words]


def need_of(description: TaskDescription) -> Need:
    """What it needs of a pilot's nodes."""
    value = description.value
    kind = description.kind
    if description.is_queue or (value("raptor_id") and modes.is_of_raptor(kind)):
        return Need(ranks=0)  # the workers of the raptor have slots
    tags: Mapping[str, Any] = value("tags")
    tag, is_exclusive = str(tags.get("colocate") or ""), bool(tags.get("exclusive"))
    if value("slots"):
        chosen = read_slots(value("slots"))
        return Need(
            ranks=len(chosen.slots),
            cores=len(chosen.slots[0].cores),
            gpu_parts=chosen.gpu_parts,
            mem_mb=chosen.mem_mb or int(value("mem_per_rank")),
            lfs_mb=chosen.lfs_mb or int(value("lfs_per_rank")),
            is_spread=True,
            tag=tag,
            is_exclusive=is_exclusive,
            chosen=chosen.slots,
        )
    gpus = float(value("gpus_per_rank"))
    parts = round(gpus * GPU_PARTS)
    if parts > GPU_PARTS:
        parts = -(-parts // GPU_PARTS) * GPU_PARTS
    return Need(
        ranks=value("ranks"),
        cores=value("cores_per_rank"),
        gpu_parts=parts,
        mem_mb=int(value("mem_per_rank")),
        lfs_mb=int(value("lfs_per_rank")),
        is_spread=is_mpi(description),
        ranks_per_node=value("ranks_per_node"),
        tag=tag,
        is_exclusive=is_exclusive,
    )


def is_mpi(description: TaskDescription) -> bool:
    """Its ranks are to find one another: they run as a step, on one node or several."""
    wanted = description.value("use_mpi")
    return bool(description.value("ranks") > 1 if wanted is None else wanted)


def variables_of(
    uid: str,
    description: TaskDescription,
    slots: Iterable[RankSlot],
    around: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """The variables of its ranks that are its own.

    Args:
        around: variables that there are already, which others may name.
    """
    value = description.value
    ranks, cores = value("ranks"), value("cores_per_rank")
    gpus = sorted({gpu for slot in slots for gpu in slot.gpus})
    variables = {
        "RP_TASK_ID": uid,
        "RP_TASK_NAME": value("name") or uid,
        "RP_RANKS": str(ranks),
        "RP_CORES_PER_RANK": str(cores),
        "RP_GPUS_PER_RANK": f"{value('gpus_per_rank'):g}",
    }
    if value("threading_type") == "OpenMP" or cores > 1:
        variables["OMP_NUM_THREADS"] = str(cores)
    if gpus:
        kind = value("gpu_type")
        for name in [GPU_TYPES[kind]] if kind else GPU_TYPES.values():
            variables[name] = ",".join(map(str, gpus))
    for name, text in value("environment").items():
        is_plain = "$" not in str(text) or value("literal")
        known = {} if is_plain else {**around, **variables}
        variables[name] = _with_values(str(text), known)
    return variables


def _list(commands: object) -> list[str]:
    if isinstance(commands, str):
        return [commands]
    return [str(each) for each in commands] if isinstance(commands, list | tuple) else []


def _commands(commands: object) -> list[str]:
    """Commands for all ranks, and ``{rank: commands}`` for one."""
    found: list[str] = []
    each: Iterable[object] = commands if isinstance(commands, list | tuple) else [commands]
    for one in each:
        if isinstance(one, dict):
            for rank, own in one.items():
                inner = "\n".join(_list(own if isinstance(own, list | tuple) else str(own)))
                found.append(f'if [ "$RP_RANK" = {int(rank)} ]; then\n{inner}\nfi')
        elif one:
            found.append(str(one))
    return found


def environment_file(sandbox: str, name: str) -> str:
    """What a shell reads to have a prepared environment of a pilot."""
    return f"{sandbox}/env/{name}.sh"


def _activating(named: str) -> str:
    if "/" in named:
        return f"{_quoted(named)}/bin/activate"
    return f'"$RP_PILOT_SANDBOX"{_quoted(environment_file("", named))}'


def _is_script(program: list[str]) -> bool:
    """A shell with commands, which knows its variables by itself."""
    return program[0].rpartition("/")[2] in _SHELLS and program[1:2] == ["-c"]


def _with_values(text: str, known: Mapping[str, str]) -> str:
    """A text with the values of variables that it names; others stay as they are."""
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], found[0]), text)


def _filled_in(word: str) -> str:
    """A word for a shell, with the values of variables that it names; others stay as they are."""
    parts, at = [], 0
    for found in _VARIABLE.finditer(word):
        whole = found[0].replace("$", "\\$").replace("}", "\\}")
        parts += [_plain(word[at : found.start()]), f"${{{found[1] or found[2]}-{whole}}}"]
        at = found.end()
    return '"' + "".join([*parts, _plain(word[at:])]) + '"'


def _plain(text: str) -> str:
    """A text between double quotes of a shell."""
    return re.sub(r'([\\"$`])', r"\\\1", text)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
