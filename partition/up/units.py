"""Units of systemd for the daemons of a partition."""

from __future__ import annotations

from native.host import config

DAEMONS = ("bebopd", "pct")

_UNIT = """\
# Made by `yodctl unit {daemon}`.
[Unit]
Description={what}
Documentation=man:{daemon}(8) man:yod.conf(5)
Wants=network-online.target
After=network-online.target{after}

[Service]
Type=notify
ExecStart={path} --config {config}
ExecReload=/bin/kill -HUP $MAINPID
Restart=on-failure
RestartSec=1
{settings}
[Install]
WantedBy=multi-user.target
"""
_BEBOPD = """\
StateDirectory=yod
RuntimeDirectory=yod
RuntimeDirectoryPreserve=restart
ProtectSystem=full
# Every PCT and yod is a connection.
LimitNOFILE=1048576
"""
_PCT = """\
# The PCT makes control groups for jobs in its own, and ends what is in them.
Delegate=yes
KillMode=mixed
TimeoutStopSec=90
# Ranks can have no more than these.
LimitNOFILE=1048576
LimitMEMLOCK=infinity
LimitNPROC=infinity
LimitSTACK=8M:infinity
LimitCORE=0:infinity
TasksMax=infinity
"""


def unit(daemon: str, path: str) -> str:
    """The text of a unit.

    Args:
        daemon: one of ``DAEMONS``.
        path: of its program.
    """
    is_pct = daemon == "pct"
    return _UNIT.format(
        daemon=daemon,
        what="yod: the daemon of a node" if is_pct else "yod: the allocator of a partition",
        after=" bebopd.service" if is_pct else "",
        path=path,
        config=config.PATH,
        settings=_PCT if is_pct else _BEBOPD,
    )
