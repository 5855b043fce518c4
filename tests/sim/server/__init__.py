"""A launch server with its clients, on a virtual clock.

Everything of the server that does no I/O is the real thing: sessions, launches and their drivers,
the front, the embedded partition with its hub, bebopd, node and PCT's driver, spawner and loop.
Faked are what these reach the kernel by (:mod:`tests.sim.server.doors`), the clients, the helpers,
the keepers and the ranks.
"""
