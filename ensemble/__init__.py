"""Ensembles: one server job, and the many client jobs that it asks for while it learns.

The launcher submits, watches, cancels and restarts them, on any scheduler.

No I/O but in commands and drivers. Imports native, ensemble.
"""
