"""What the client, the agent and its starters say to one another, as bytes.

No I/O. Imports native.
"""
