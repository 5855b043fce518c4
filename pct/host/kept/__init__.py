"""Processes of the PCT's own under a keeper: brokers of batch jobs, hooks of the site.

I/O. Imports native, pct.account, pct.brokers, pct.events, pct.host, pct.host.cgroups,
pct.host.spawn, pct.rare_events, pct.script.
"""
