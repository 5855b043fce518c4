"""How ranks find one another: environment, pairs and fences over the job's tree.

No I/O. Imports native, pct.account, pct.events, pct.pmi_events, pct.tree.
"""
