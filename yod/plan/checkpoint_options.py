"""The options of checkpoints. Pure; no launch is needed to show them."""

from __future__ import annotations

from native.options import Option

DIRECTORY, RESTART = "--checkpoint-dir", "--restart"
EVERY, ON, GRACE = "--checkpoint-every", "--checkpoint-on", "--checkpoint-grace"
SIGNAL, KEEP = "--checkpoint-signal", "--checkpoint-keep"
OPTIONS = (
    Option((DIRECTORY,), True, "Checkpoints of the job are kept in DIR.", "DIR"),
    Option((EVERY,), True, "Make one so often: 30:00, or auto.", "TIME"),
    Option((ON,), True, "TERM, preempt, timeout: make one before that ends the job.", "WHAT"),
    Option((SIGNAL,), True, "What tells ranks to save themselves: USR1.", "SIGNAL"),
    Option((GRACE,), True, "The ranks have S seconds for that: 60.", "S"),
    Option((KEEP,), True, "Keep the newest N, 0: all. Default: 2.", "N"),
    Option((RESTART,), True, "Go on from the newest checkpoint in DIR.", "DIR"),
)
