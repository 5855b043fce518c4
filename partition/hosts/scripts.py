"""What runs on a host at the other end of ssh: a line for whatever shell the user has there. Pure.

The line is ``exec sh -c '...' yod ARGUMENT...``, without what csh or fish would read otherwise:
no newline, no backslash, no exclamation mark. The key is not in it: other users of the host see
the arguments of processes. It comes by the standard input, which stays open until ssh ends:
by that the pct knows that nobody waits for it any more.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

_START = (
    "d=$1; n=$2; t=$3; shift 3; umask 077; p=$d/pct; "
    '[ -x "$p" ] || p=$(command -v pct) || '
    '{ echo "yod: no yod: neither $d/pct nor pct in PATH" >&2; exit 127; }; '
    "l=${XDG_STATE_HOME:-$HOME/.local/state}/yod/logs; "
    '{ mkdir -p "$l" && l=$l/pct.$n.log && : >"$l"; } 2>/dev/null || '
    '{ echo "yod: no log can be written in $l" >&2; exit 1; }; '
    'echo "yod: starts"; '
    '[ -z "$t" ] || "${p%/*}/yodctl" end-pcts "$t" </dev/null >/dev/null; '
    # That of the session of ssh, which ends.
    "unset XDG_RUNTIME_DIR; exec 3<&0; "
    'r=$(setsid "$p" "$@" --starter-fd 3 --ready-fd 4 4>&1 >"$l" 2>&1 </dev/null &); '
    'case $r in *:*) echo "yod: up" ;; '
    '*) echo "yod: pct has ended: $(tail -n 1 "$l")" >&2; exit 1 ;; esac'
)
_END = (
    "d=$1; shift; y=$d/yodctl; "
    '[ -x "$y" ] || y=$(command -v yodctl) || '
    '{ echo "yod: no yod: neither $d/yodctl nor yodctl in PATH" >&2; exit 127; }; '
    'exec "$y" end-pcts "$@"'
)


def start(directory: str, name: str, earlier_tag: str, arguments: Sequence[str]) -> str:
    """The line that starts a pct, and ends when bebopd has taken its node.

    Args:
        directory: where yod's commands are here; looked at first.
        name: of the node, and in the name of its log.
        earlier_tag: a pct with it is ended before; empty: there can be none.
        arguments: of the pct.
    """
    return _line(_START, directory, name, earlier_tag, *arguments)


def end(directory: str, tag: str) -> str:
    """The line that ends the user's pcts with a tag, and says how many there were."""
    return _line(_END, directory, tag)


def _line(script: str, *arguments: str) -> str:
    return " ".join(["exec sh -c", shlex.quote(script), "yod", *map(shlex.quote, arguments)])
