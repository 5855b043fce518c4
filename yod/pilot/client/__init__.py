"""The application's side: session, managers, pilots and tasks, and the thread that serves them.

I/O. Imports native, yod.pilot.
"""
