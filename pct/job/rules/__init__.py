"""Rules that parts of a job stand on, each to be read alone: objects, outcomes, output, listeners.

No I/O. Imports native, pct.account, pct.events, pct.rare_events, pct.tree.
"""
