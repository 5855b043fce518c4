"""What a PCT has of its host: keepers, pipes, sockets, the store, files for ranks.

I/O. Imports native, pct.account, pct.brokers, pct.cores, pct.events, pct.pmi_events,
pct.rare_events, pct.script.
"""
