"""The command yod-cr: runs yod with checkpoints, and ends as it does (docs/yod-cr.md).

yod is its child, in a process group of its own. All signals are blocked and taken one by one, so
nothing comes between a look and an answer; one that the kernel raises for a fault of this process
ends this process, as it always does where such a signal is blocked.

Below a script that may itself be written down, yod has to be gone by then: its step is written down
first and ends, and this process waits for the lock of the script. When it gets it, in the process
that went on or in the one that was brought back, it starts the step again. None begins meanwhile.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from collections.abc import Mapping, MutableMapping

from native.allocated import ALLOCATION_VARIABLE, LOCK, SAVED_VARIABLE
from native.errors import YodError
from native.host import process, programs, stdio

DIRECTORY_VARIABLE = "YOD_CR_DIR"
RESTART_VARIABLE = "YOD_CR_RESTART_DIR"
DIRECTORY = "checkpoints"  # where the user names none
NOT_STARTED = 126
SAVED_STATUS = 75  # yod's, behind a checkpoint that ends the job
_AGAIN = "YOD_RESTART_COUNT"
_COUNT_BYTES = 8  # of the lock, see partition/savers/script.py
HELP = f"""usage: yod-cr {{options of yod}} program {{args}}  or  yod-cr --restart DIR

  Run yod so that the job can be written down, and end as yod does.

  Options are those of yod (yod -help). Without --checkpoint-dir and --restart
  checkpoints are kept in ${DIRECTORY_VARIABLE}, else in the directory {DIRECTORY}.
  Where {RESTART_VARIABLE} is set the job goes on from there.
"""
_HELP = ("-help", "--help", "-h")
_STOPS = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_OF_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)  # the interpreter ignores them, and yod is not to


def main() -> None:
    """Entry point."""
    stdio.open_closed()
    words = sys.argv[1:]
    if len(words) == 1 and words[0] in _HELP:
        sys.stdout.write(HELP)
        sys.exit(stdio.ended("yod-cr", 0, 1))
    environment = dict(os.environ)
    lock = ScriptLock(environment.pop(SAVED_VARIABLE, ""))
    words = with_directory(words, environment)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while True:
        count = lock.wait()
        end = _run(words, environment, before)
        if os.waitstatus_to_exitcode(end) != SAVED_STATUS or lock.count == count:
            break
        words = continued(words, environment, lock)
    status = os.waitstatus_to_exitcode(end)
    os._exit(status if status >= 0 else _die(-status))


def _run(words: list[str], environment: Mapping[str, str], mask: set[int]) -> int:
    """Run yod to its end; its wait status."""
    line = [*programs.command_line("yod"), *words]
    try:
        child = os.posix_spawn(
            line[0], line, environment, setpgroup=0, setsigmask=mask, setsigdef=_OF_PYTHON
        )
    except OSError as error:
        stdio.say(f"yod-cr: {line[0]}: {error.strerror}")
        sys.exit(NOT_STARTED)
    return Wrapper(child).run()


class ScriptLock:
    """The lock of the script that has started this process; it is held while that is written down.

    Args:
        directory: of the script's checkpoints; empty: it is not written down.
    """

    def __init__(self, directory: str) -> None:
        self._fd = -1
        if directory:
            try:
                self._fd = os.open(os.path.join(directory, LOCK), os.O_RDONLY | os.O_CLOEXEC)
            except OSError:  # we run elsewhere, in a job of that script
                pass

    @property
    def count(self) -> bytes:
        """How often the script was to be written down; it changes before a step is."""
        return os.pread(self._fd, _COUNT_BYTES, 0) if self._fd >= 0 else b""

    def wait(self) -> bytes:
        """Wait while the script is written down; the count then."""
        if self._fd < 0:
            return b""
        fcntl.flock(self._fd, fcntl.LOCK_SH)
        count = self.count
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return count


def continued(
    words: list[str], environment: MutableMapping[str, str], lock: ScriptLock
) -> list[str]:
    """The words for yod, which has ended behind its checkpoint, when it may go on.

    Args:
        environment: completed, if it goes on from a later checkpoint: that one was removed.
    """
    from partition.checkpoint import requeued  # few steps do

    given, program = _parsed(words, environment)
    options = words[: len(words) - len(program)]
    options = options[:-1] if options[-1:] == ["--"] else options
    kept = [*given.get("--restart", ()), *given.get("--checkpoint-dir", ())][-1]
    path = requeued.last_path(kept, environment.get(ALLOCATION_VARIABLE, ""), program)
    lock.wait()  # the process that is brought back begins behind this
    if path and os.path.isdir(path):
        return [*options, "--restart", path, *program]
    environment.setdefault(_AGAIN, "1")
    return words


def with_directory(words: list[str], environment: MutableMapping[str, str]) -> list[str]:
    """The words for yod: with directories for checkpoints, where the user has named none.

    Args:
        environment: loses the variable that names what the job goes on from.
    """
    restart = environment.pop(RESTART_VARIABLE, "")
    given, _ = _parsed(words, environment)
    if "--restart" in given:
        return words
    if restart:
        return ["--restart", restart, *words]
    if not words or "--checkpoint-dir" in given:
        return words
    return ["--checkpoint-dir", environment.get(DIRECTORY_VARIABLE) or DIRECTORY, *words]


def _parsed(
    words: list[str], environment: Mapping[str, str]
) -> tuple[dict[str, list[str]], list[str]]:
    """The options, and the words from the program on."""
    from yod import cli

    copy = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    try:
        return cli.parse(list(words), copy)
    except YodError:  # yod says what is wrong
        return {}, []


class Wrapper:
    """Passes signals to a child, stops and goes on with it, and waits for its end.

    All signals are blocked.
    """

    def __init__(self, child: int) -> None:
        self._child = child
        self._terminal = _terminal()

    def run(self) -> int:
        """The wait status of the child, when it has ended."""
        self._lend_terminal()
        while True:
            found = signal.sigwaitinfo(signal.valid_signals())
            if found.si_signo == signal.SIGCHLD:
                pid, status = os.waitpid(self._child, os.WNOHANG | os.WUNTRACED)
                if not pid:
                    continue
                if not os.WIFSTOPPED(status):
                    self._take_terminal()
                    return status
                self._stop(os.WSTOPSIG(status))
            elif found.si_signo == signal.SIGCONT:
                self._go_on()
            else:
                os.kill(self._child, found.si_signo)

    def _stop(self, number: int) -> None:
        """The child has stopped: so does this process, by the same signal if it may."""
        self._take_terminal()
        number = number if number in _STOPS else signal.SIGTSTP
        os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (number,))
        signal.pthread_sigmask(signal.SIG_BLOCK, (number,))
        # Where nobody could continue an orphaned group the kernel does not stop this process.
        self._go_on()

    def _go_on(self) -> None:
        self._lend_terminal()
        os.killpg(self._child, signal.SIGCONT)

    def _lend_terminal(self) -> None:
        """The child's group is in the foreground where this process' is."""
        if self._terminal >= 0 and _foreground(self._terminal) == os.getpgrp():
            os.tcsetpgrp(self._terminal, self._child)
            os.killpg(self._child, signal.SIGCONT)  # it may have read before

    def _take_terminal(self) -> None:
        if self._terminal >= 0 and _foreground(self._terminal) == self._child:
            os.tcsetpgrp(self._terminal, os.getpgrp())


def _terminal() -> int:
    """The controlling terminal; -1: there is none."""
    try:
        return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return -1


def _foreground(terminal: int) -> int:
    try:
        return os.tcgetpgrp(terminal)
    except OSError:  # it is gone
        return -1


def _die(number: int) -> int:
    """End by the signal that has ended the child; its core file is enough."""
    process.forbid_core()
    if number == signal.SIGKILL:
        os.kill(os.getpid(), number)
    return process.die(number)


if __name__ == "__main__":
    main()
