"""An uncaught exception of a rank's main thread ends the rank, also where its exit would hang.

The interpreter waits at its exit for threads that are no daemons, and MPI_Finalize for the other
ranks, which wait for this one. So that the job ends, a rank is given some time to
end by itself, and is then ended with the exit code 1 that it would have had.

Python imports this module in place of the user's ``sitecustomize``, which it imports in turn,
after it has taken its own directory out of the path and of PYTHONPATH: programs that the rank
starts see neither. Any Python from 3.6 on runs it, so it uses nothing newer and imports little.
"""

import atexit
import os
import sys

LIMIT = "YOD_UNCAUGHT_S"
DEFAULT_S = 2.0
STATUS = 1  # what Python exits with

_failed: "list[str]" = []  # the exception's name, once it is known to be the end of the program


def _is_programs_end() -> bool:
    """Nothing of the program is below us on the stack: Python calls hooks so at its end only."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_name not in ("<module>", "_run_module_as_main", "_bootstrap")


def _is_interactive() -> bool:
    return bool(hasattr(sys, "ps1") or sys.flags.interactive or os.environ.get("PYTHONINSPECT"))


def _threads() -> int:
    """Threads for which the interpreter waits."""
    threading = sys.modules.get("threading")
    if threading is None:
        return 0
    main = threading.main_thread()
    return sum(1 for each in threading.enumerate() if each is not main and not each.daemon)


def _has_children() -> bool:
    """Processes for which multiprocessing waits."""
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is None:
        return False
    return any(not each.daemon for each in multiprocessing.active_children())


def _is_in_mpi() -> bool:
    """This process is to finalize MPI, for which others may have to come."""
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized()


def _limit_s() -> float:
    text = os.environ.get(LIMIT, "")
    try:
        limit_s = float(text) if text else DEFAULT_S
    except ValueError:
        limit_s = -1.0
    if 0 <= limit_s < 1e6:
        return limit_s
    _say(f"{LIMIT}={text}: seconds are wanted, or none; {DEFAULT_S:g} s count")
    return DEFAULT_S


def _say(text: str) -> None:
    try:
        os.write(2, f"yod: rank {os.environ.get('YOD_RANK')}: {text}\n".encode())
    except OSError:
        return  # nobody reads it


def _end() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError, RuntimeError):
            continue  # closed, missing, or another thread has it
    os._exit(STATUS)


def _end_later(limit_s: float) -> None:
    """Start what ends the process if it is still there then."""
    import threading

    is_over = threading.Event()  # never set: the exit of the process is what comes before

    def wait() -> None:
        is_over.wait(limit_s)
        count = _threads()
        noun = "a thread" if count == 1 else f"{count} threads"
        cause = f"waits for {noun}" if count else "hangs"
        _say(f"ended {limit_s:g} s after its uncaught {_failed[0]}: its exit {cause} ({LIMIT})")
        _end()

    try:
        threading.Thread(target=wait, name="yod-uncaught", daemon=True).start()
    except RuntimeError:  # no more threads
        _end()


def _end_before_mpi() -> None:
    """The last exit function, as the first that was registered: only finalization follows."""
    if _failed and _is_in_mpi():
        _say(f"ended after its uncaught {_failed[0]}: MPI_Finalize would wait for other ranks")
        _end()


def _install() -> None:
    shown = sys.excepthook
    own = os.getpid()

    def uncaught(kind, value, trace):  # type: ignore[no-untyped-def]
        shown(kind, value, trace)
        if not issubclass(kind, Exception) or os.getpid() != own or _is_interactive():
            return
        if not _is_programs_end():
            return
        if _threads() or _has_children() or _is_in_mpi():
            _failed.append(kind.__name__)
            _end_later(_limit_s())

    sys.excepthook = uncaught
    atexit.register(_end_before_mpi)


def _step_aside() -> None:
    """Take this directory out of sight, and let the user's module of this name run."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    rest = os.pathsep.join(entry for entry in entries if entry != here)
    if rest:
        os.environ["PYTHONPATH"] = rest
    else:
        os.environ.pop("PYTHONPATH", None)
    own = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")  # the user's, or the system's
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        if own is not None:
            sys.modules.setdefault("sitecustomize", own)


if __name__ == "sitecustomize":
    if os.environ.get("YOD_RANK"):
        _install()
    _step_aside()
