"""What runs on a host at the other end of ssh: a line for whatever shell the user has there. Pure.

The line is ``exec sh -c '...' yod ARGUMENT...``, without what csh or fish would read otherwise:
no newline, no backslash, no exclamation mark. The key is not in it: other users of the host see
the arguments of processes. It comes by the standard input, which stays open until ssh ends:
by that the pct knows that nobody waits for it any more.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

# Where yod lies that was shipped; root's pcts run programs of it as other users. Its interpreter
# finds its library by a variable, if it has one.
_SHIPPED = (
    "h=$HOME/.cache; m=077; "
    '[ "$(id -u)" -gt 0 ] || { h=/var/cache; m=022; }; s=${XDG_CACHE_HOME:-$h}/yod/ship'
)
_FROM_THERE = '[ -x "$p" ] && export LD_LIBRARY_PATH="$s/lib"'
_START = (
    f"d=$1; n=$2; t=$3; {_SHIPPED}/$4; shift 4; umask 077; p=$d/pct; "
    f'[ -x "$p" ] || {{ p=$s/bin/pct; {_FROM_THERE}; }} || p=$(command -v pct) || '
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
_YODCTL = (
    f"d=$1; {_SHIPPED}/$2; shift 2; p=$d/yodctl; "
    f'[ -x "$p" ] || {{ p=$s/bin/yodctl; {_FROM_THERE}; }} || p=$(command -v yodctl) || '
    '{ echo "yod: no yod: neither $d/yodctl nor yodctl in PATH" >&2; exit 127; }; '
    'exec "$p" "$@"'
)
# The archive itself stays for the time in which the host sends it on.
_UNPACK = (
    f'{_SHIPPED}; umask $m; echo "yod: starts"; a=/dev/null; [ -z "$3" ] || a=$s/$3; '
    '[ "$(uname -m)" = "$2" ] || '
    '{ echo "yod: what is shipped is for $2, and this is $(uname -m)" >&2; exit 1; }; '
    'if [ -x "$s/$1/bin/pct" ]; then [ -z "$3" ] || cat >"$a"; echo "yod: up"; exit 0; fi; '
    't=$s/.$1.$(uname -n).$$; e=$({ mkdir -p "$t" && tee "$a" | tar -xzo -f - -C "$t"; } 2>&1) || '
    '{ rm -rf "$t" ${3:+"$a"}; '
    'echo "yod: not unpacked in $s: $(echo "$e" | tail -n 1)" >&2; exit 1; }; '
    'e=$(LD_LIBRARY_PATH="$t/lib" "$t/bin/python3" -IS -c pass 2>&1) || '
    '{ rm -rf "$t" ${3:+"$a"}; echo "yod: what is shipped does not run here: $e" >&2; exit 1; }; '
    # Hosts with one home may do this at once.
    'mv -T "$t" "$s/$1" 2>/dev/null || rm -rf "$t"; '
    '[ -x "$s/$1/bin/pct" ] || { echo "yod: not moved to $s" >&2; exit 1; }; echo "yod: up"'
)


def start(
    directory: str, name: str, earlier_tag: str, arguments: Sequence[str], shipped: str = ""
) -> str:
    """The line that starts a pct, and ends when bebopd has taken its node.

    Args:
        directory: where yod's commands are here; looked at first.
        name: of the node, and in the name of its log.
        earlier_tag: a pct with it is ended before; empty: there can be none.
        arguments: of the pct.
        shipped: the name of what may have been shipped to the host.
    """
    return _line(_START, directory, name, earlier_tag, shipped, *arguments)


def end(directory: str, tag: str, shipped: str = "") -> str:
    """The line that ends the user's pcts with a tag, and says how many there were."""
    return _line(_YODCTL, directory, shipped, "end-pcts", tag)


def unpack(name: str, machine: str, kept_as: str = "") -> str:
    """The line that unpacks an archive of yod from its standard input, if it is not there yet.

    Args:
        name: under which it is kept.
        machine: for which it is, as ``uname -m`` has it.
        kept_as: the name of the archive itself, beside it; empty: it is not kept.
    """
    return _line(_UNPACK, name, machine, kept_as)


def spread(directory: str, shipped: str = "") -> str:
    """The line that goes on to further hosts, as its standard input says.

    Args:
        directory: where yod's commands are here; looked at first.
        shipped: as for :func:`start`.
    """
    return _line(_YODCTL, directory, shipped, "spread")


def _line(script: str, *arguments: str) -> str:
    return " ".join(["exec sh -c", shlex.quote(script), "yod", *map(shlex.quote, arguments)])
