"""What several measurements share: results, a Slurm of their own, traces, virtual nodes."""
