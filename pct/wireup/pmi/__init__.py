"""Conversations with one client of PMI-1 or PMI-2: bytes to requests, answers to bytes.

No I/O. Imports native, pct.account.
"""
