"""Handing a batch job in: its script, its options, the conversation with bebopd.

I/O. Imports native, partition.checkpoint, partition.find, partition.status, yod.plan.
"""
