"""The health of a node: what its host shows of itself, and the site's own checks.

I/O. Imports native, pct.events, pct.health, pct.host.kept, pct.host.spawn, pct.host.store,
pct.rare_events, pct.touch.
"""
