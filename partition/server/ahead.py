"""Modules that functions import when a launch needs them, imported before the first launch.

A launch server lives long. yod's files may be replaced while it runs, and what it imports after
that would be of another release.
"""

from __future__ import annotations

from importlib import import_module

# tests/unit/test_house.py compares this with the imports in functions.
MODULES = (
    "allocator.jobs.covering",
    "allocator.jobs.refusals",
    "allocator.jobs.shortage",
    "allocator.nodes.counted",
    "allocator.nodes.features",
    "allocator.ending",
    "allocator.operators",
    "allocator.past",
    "allocator.questions",
    "allocator.rows",
    "allocator.watching",
    "fcntl",
    "native._native",
    "native.duration",
    "native.hooks",
    "native.host.keyfile",
    "native.host.userdirs",
    "native.identity.munge",
    "native.memory",
    "native.wire.rank",
    "partition.checkpoint.contained",
    "partition.checkpoint.preparing",
    "partition.checkpoint.requeued",
    "partition.find.batch",
    "partition.find.discover",
    "partition.find.remote",
    "partition.find.state",
    "pct.batch_dialects",
    "pct.cores",
    "pct.host.capacity",
    "pct.host.cgroups.files",
    "pct.host.cgroups.gpus",
    "pct.host.cgroups.job",
    "pct.host.compare",
    "pct.host.kept.hooks",
    "pct.host.kept.ofjob",
    "pct.host.kept.lookers",
    "pct.host.kept.savers",
    "pct.host.kept.table",
    "pct.host.leftovers",
    "pct.host.mounts",
    "pct.host.pmix_process",
    "pct.host.removal",
    "pct.host.room",
    "pct.host.usage",
    "pct.job.rules.dialects",
    "pct.job.rules.files",
    "pct.job.rules.listeners",
    "pct.job.rules.merge",
    "pct.job.rules.remote",
    "pct.job.rules.sharing",
    "pct.job.rules.stalling",
    "pct.job.hooks",
    "pct.job.process_table",
    "pct.wireup.clients",
    "pct.wireup.guard",
    "pct.wireup.pmi.version2",
    "pct.wireup.pmix",
    "pct.wireup.tools",
    "tomllib",
    "yod.elsewhere",
    "yod.host.beside",
    "yod.host.clients",
    "yod.host.rawmode",
    "yod.host.shared",
    "yod.host.tee",
    "yod.launch.stacks.tree",
    "yod.plan.checkpointing",
    "yod.plan.dialects",
    "yod.plan.files",
    "yod.plan.input",
    "yod.plan.timelimit",
    "yod.program.mixture",
    "yod.program.pythons",
    "yod.ranks",
    "yod.remote.directories",
    "yod.remote.link",
    "yod.records",
    "yod.trace",
)


def import_all() -> None:
    """Import them."""
    for module in MODULES:
        import_module(module)
