"""What the client, the agent, its starters and workers say to one another, as bytes.

No I/O. Imports native.
"""
