"""One job on one node: objects, ranks, output, completions.

No I/O. Imports native, pct.account, pct.events, pct.tree, pct.wireup.
"""
