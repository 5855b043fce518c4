"""Policy of one node: its reservation, its jobs, their ranks."""
