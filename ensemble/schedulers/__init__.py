"""Back-ends: how jobs are made, submitted, watched and cancelled by each scheduler.

A back-end of commands only says which ones, and reads their answers; ensemble.host runs them.

No I/O. Imports native, ensemble.machine, ensemble.config.
"""
