"""One job on one node: its state, objects, ranks, output, losses and end.

No I/O. Imports native, pct.account, pct.cores, pct.events, pct.job.rules, pct.rare_events,
pct.pmi_events, pct.tree, pct.wireup.
"""
