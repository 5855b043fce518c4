"""How ranks find one another, and what they are told by their environment.

No I/O. Imports native, pct.account, pct.events, pct.tree.
"""
