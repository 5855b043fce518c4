"""Stand-ins for oarsub, oarstat and oardel: what OAR 2.5.9 reads and writes, for jobs on this host.

Where a real OAR would take too long (tests.support.oar_server). Options and answers are those of
Debian's oar-user: a name is read from the script's head, oarstat --full has a block for each job,
oardel has 6 for a job that is over.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PROGRAM = r"""
import os, re, signal, subprocess, sys
from pathlib import Path

PLACE = Path(__file__).parent / "jobs"
STATES = {None: "Running", 0: "Terminated"}


def value(text, short, long):
    found = re.search(rf"^#OAR\s+(?:{short}|{long})\s*(.+?)\s*$", text, re.M)
    return found[1] if found else ""


def oarsub(words):
    script = words[-1]
    text = Path(script).read_text()
    assert "--scanscript" in words, words
    PLACE.mkdir(exist_ok=True)
    job_id = 1
    while True:  # others are submitted at the same time
        try:
            (PLACE / f"{job_id}.taken").touch(exist_ok=False)
            break
        except FileExistsError:
            job_id += 1
    out, err = value(text, "-O", "--stdout"), value(text, "-E", "--stderr")
    keep = f"{script} >{out} 2>{err}; echo $? >{PLACE}/{job_id}.code"
    env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "TEST_OF_YOD")}
    null = subprocess.DEVNULL
    job = subprocess.Popen(["sh", "-c", keep], env=env, start_new_session=True, stdin=null,
                           stdout=null, stderr=null)
    (PLACE / f"{job_id}.pid").write_text(str(job.pid))
    (PLACE / f"{job_id}.words").write_text(" ".join(words))
    (PLACE / f"{job_id}.name").write_text(value(text, "-n", "--name"))
    print("[ADMISSION RULE] Modify resource description with type constraints")
    print(f"OAR_JOB_ID={job_id}")


def oarstat(words):
    assert words[0] == "--full", words
    asked = words[2::2] if "--job" in words else [path.stem for path in PLACE.glob("*.name")]
    for job_id in asked:
        name, code = PLACE / f"{job_id}.name", PLACE / f"{job_id}.code"
        if not name.exists():
            print(f"Error: {job_id} not found", file=sys.stderr)
            continue
        text = code.read_text().strip() if code.exists() else ""
        state = "Terminated" if text else "Running"
        print(f"Job_Id: {job_id}\n    job_array_id = {job_id}\n    name = {name.read_text()}")
        print(f"    owner = root\n    state = {state}\n    queue = default")
        if text:
            print(f"    exit_code = {int(text) << 8} ({text},0,0)")
        print("    launchingDirectory = /\n")


def oardel(words):
    status = 0
    for job_id in words:
        code = PLACE / f"{job_id}.code"
        print(f"Deleting the job = {job_id} ...", end="")
        if code.exists():
            print("ERROR.")
            print(f"Cannot frag {job_id} ; This job was already killed.", file=sys.stderr)
            status = 6
            continue
        print("REGISTERED.")
        try:
            os.killpg(int((PLACE / f"{job_id}.pid").read_text()), signal.SIGKILL)
        except ProcessLookupError:
            pass
        code.write_text("143\n")
    return status


name = Path(sys.argv[0]).name
sys.exit(globals()[name](sys.argv[1:]))
"""


def make(directory: Path) -> Path:
    """Write the commands; the directory to be put into PATH."""
    found = directory / "oar"
    found.mkdir()
    for name in ("oarsub", "oarstat", "oardel"):
        path = found / name
        path.write_text(f"#!{sys.executable}\n{_PROGRAM}")
        path.chmod(0o755)
    return found
