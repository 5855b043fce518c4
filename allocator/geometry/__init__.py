"""Where nodes are in the machine, by coordinates: a curve through them, and boxes on a torus.

No I/O. Imports native, allocator.nodes.
"""
