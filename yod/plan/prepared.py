"""A launch that has been prepared: what had to be read from the user's files has been read.

One process may prepare it and another one run it.
"""

from __future__ import annotations

from msgspec import Struct

from native.limits import Limits
from yod.plan.plan import Plan
from yod.plan.reach import Reach

SHARED_VARIABLE = "PARALLEL_FILE_SYSTEM"  # a directory that all nodes see
SHARED_DEFAULT = "/enfs/tmp"

LOG_VARIABLE = "LOGFILENAME"  # names the user log
NO_LOG = "none"  # its value if there is to be none


class Records(Struct, frozen=True):
    """What a launch leaves in words and files when it ends.

    Attributes:
        has_summary: the user reads how the ranks ended, where that is of interest.
        has_completions: the user reads how each rank ended, and what it has used.
        has_timing: the user reads how long each phase took.
        report_file: the completion report is added to it; empty: none is.
        json_file: a line of JSON is added to it; empty: none is.
        trace_file: a trace of the launch is written to it; empty: none is.
        log_file: the user log; empty: none.
        is_log_chosen: the user has chosen the log, and is told where it cannot be written.
        command: the command line, for the report.
        program: path of the first member's program, for the log.
        user: login name, for the log.
    """

    has_summary: bool = False
    has_completions: bool = False
    has_timing: bool = False
    report_file: str = ""
    json_file: str = ""
    trace_file: str = ""
    log_file: str = ""
    is_log_chosen: bool = False
    command: str = ""
    program: str = ""
    user: str = ""


class Prepared(Struct, frozen=True):
    """A launch that can begin.

    Attributes:
        arguments: the encoded arguments, if they are object 0; else empty.
        partition: name of the partition, for the user.
        reach: None: it is the embedded partition.
        slots: of that one; None: any number.
        shared_directory: in a file system that all nodes see, for objects without room.
        resolve_s: how long the preparation took; in a launch server with the wait for a helper.
    """

    plan: Plan
    arguments: bytes
    limits: Limits
    partition: str
    reach: Reach | None
    shared_directory: str
    records: Records
    resolve_s: float = 0.0
    slots: int | None = None
