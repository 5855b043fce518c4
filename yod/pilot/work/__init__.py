"""What the agent and those that run tasks for it give one another.

I/O. Imports native, yod.pilot.model.
"""
