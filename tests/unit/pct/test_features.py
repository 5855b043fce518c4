"""What a PCT says that its host can do."""

from __future__ import annotations

from native.machine import Log, Send
from native.wire.status import Feature
from pct.rare_events import FeaturesSeen
from tests.unit.pct.node_of import ready

CRIU = (Feature.CRIU,)


def test_a_pct_announces_what_its_host_can_do_and_takes_back_what_it_cannot():
    node = ready(features=CRIU)
    assert node.handle(FeaturesSeen(CRIU), 5.0) == []
    (log, send) = node.handle(FeaturesSeen((), "no feature criu: criu check: no"), 6.0)
    assert log == Log("no feature criu: criu check: no")
    assert isinstance(send, Send) and send.message.features == ()
