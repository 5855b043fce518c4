"""Units of systemd. tests/system has systemd's own check."""

import pytest

from partition.up import units


@pytest.mark.parametrize("daemon", units.DAEMONS)
def test_a_unit_starts_the_daemon_with_the_sites_file_and_waits_until_it_is_ready(daemon):
    text = units.unit(daemon, f"/opt/yod/bin/{daemon}")
    assert f"ExecStart=/opt/yod/bin/{daemon} --config /etc/yod/yod.conf\n" in text
    assert "Type=notify\n" in text and "ExecReload=/bin/kill -HUP $MAINPID\n" in text


def test_a_pct_may_make_control_groups_and_bounds_no_rank():
    text = units.unit("pct", "/opt/yod/bin/pct")
    assert "Delegate=yes\n" in text and "LimitMEMLOCK=infinity\n" in text
