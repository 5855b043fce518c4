"""What becomes of output from behind the checkpoint that a job goes on from."""

from __future__ import annotations

from native.host.marks import outputs
from partition.checkpoint.preparing import Restarted, decoded
from yod.plan.invocation import Invocation


def cut_back(found: Restarted, invocation: Invocation, *, has_tee: bool, owns_output: bool) -> str:
    """Cut the output of our batch job back to a checkpoint, and say what has been or will be.

    Args:
        has_tee: yod writes files of the ranks; they are cut when their names are known.
        owns_output: else nothing is cut: our streams are another's, or the launch is only shown.
    """
    names = [
        *(["the files of the ranks"] if found.files is not None else []),
        *(["the files of --tee"] if has_tee else []),
    ]
    is_all = found.files is not None and bool(found.files.out and found.files.err)
    job_id = outputs.batch_job(decoded(invocation.environment))
    if owns_output and outputs.cut_job_output(found.path, job_id):
        names.append("the output of the job")
        is_all = True
    if not names:
        return "what was written behind it appears again"
    first = ", ".join(names[:-1])
    text = f"{first} and {names[-1]}" if first else names[-1]
    is_one = names == ["the output of the job"]
    text += f" {'is' if is_one else 'are'} cut back to it"
    return text if is_all else f"{text}, other output appears again"
