"""The options of checkpoints. Pure; no launch is needed to show them."""

from __future__ import annotations

from native.options import Option

DIRECTORY, RESTART = "--checkpoint-dir", "--restart"
EVERY, ON, GRACE = "--checkpoint-every", "--checkpoint-on", "--checkpoint-grace"
SIGNAL, KEEP, BY = "--checkpoint-signal", "--checkpoint-keep", "--checkpoint-by"
LOCAL = "--checkpoint-local"
OPTIONS = (
    Option((DIRECTORY,), True, "Checkpoints of the job are kept in DIR.", "DIR"),
    Option((BY,), True, "signal: ranks save themselves (default). criu: CRIU does.", "WHAT"),
    Option((EVERY,), True, "Make one so often: 30:00, or auto.", "TIME"),
    Option((ON,), True, "TERM, preempt, timeout, drain: make one before that.", "WHAT"),
    Option((SIGNAL,), True, "What tells ranks to save themselves: USR1.", "SIGNAL"),
    Option((GRACE,), True, "The ranks have S seconds for that: 60.", "S"),
    Option((KEEP,), True, "Keep the newest N, 0: all. Default: 2.", "N"),
    Option((LOCAL,), True, "Save ranks in DIR of their nodes first, and copy from there.", "DIR"),
    Option((RESTART,), True, "Go on from the newest checkpoint in DIR.", "DIR"),
)
