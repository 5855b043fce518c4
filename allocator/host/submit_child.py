"""The process of one submit hook: becomes its user, then is the program, or calls the entry point.

Exit status: that of the program; of an entry point 0, or 1 where it is not there or raises.
"""

from __future__ import annotations

import os
import pwd
import resource
import signal
import sys
from typing import Any

CORE_BYTES = 0


def main() -> None:
    """Arguments: the user, or nothing; the name of the hook; its program, or nothing."""
    user, hook, program = sys.argv[1:4]
    environment = _environment(user)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (CORE_BYTES, CORE_BYTES))
    os.chdir("/")
    if program:
        try:
            os.execve(program, [program], environment)
        except OSError as error:
            sys.exit(f"{program}: {error.strerror}")
    os.environ.clear()
    os.environ.update(environment)
    _call(hook)


def _environment(user: str) -> dict[str, str]:
    """Become the user; what the hook's environment is. Nothing of bebopd's goes to it."""
    kept = {name: os.environ[name] for name in ("LANG", "TZ") if name in os.environ}
    kept |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "YOD_HOOK": "submit"}
    if not user:
        return kept
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        sys.exit(f"no user {user}")
    os.initgroups(user, entry.pw_gid)
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)
    return kept | {"HOME": entry.pw_dir, "USER": user, "LOGNAME": user}


def _call(hook: str) -> None:
    from importlib.metadata import entry_points

    import msgspec

    found = [each for each in entry_points(group="yod.submit") if each.name == hook]
    if not found:
        sys.exit(f"there is no entry point {hook} of the group yod.submit")
    request: Any = msgspec.json.decode(sys.stdin.buffer.read())
    answer = found[0].load()(request)
    if answer is not None:
        sys.stdout.buffer.write(msgspec.json.encode(answer))
        sys.stdout.flush()
