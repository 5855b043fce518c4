"""Mechanism: bytes, memory, descriptors, time. Imports none of the other packages."""
