"""Pilots on sites: files of resources, jobs that are handed in and watched.

I/O. Imports native, yod.pilot.model, yod.pilot.batch.
"""
