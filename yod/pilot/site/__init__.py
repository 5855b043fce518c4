"""Pilots on sites: files of resources, jobs that are handed in and watched.

I/O. Imports native, yod.pilot.batch, yod.pilot.link, yod.pilot.model, yod.pilot.wire.
"""
