"""Connections that are refused or replaced: cases 12 and 15."""

from __future__ import annotations

from pathlib import Path

from dcpinspect.protocol.statuses import Status
from tests.cases.told import Case
from tests.streams.told import Told, opened


def test_12_noops_have_to_be_on_before_the_first_stream(tmp_path: Path) -> None:
    """couchbaselabs/dcp-documentation#26: a stream request with collections is not supported while noops are off."""
    talk = opened()
    talk.stream(7, status=Status.NOT_SUPPORTED)
    case = Case(tmp_path, talk)
    assert case.accusations == ["noop-required"]
    assert case.shows("noop-required") == ["stream_req", "stream_req answer"]
    assert "enable_noop" in case.finding("noop-required").next


def test_15_two_connections_with_one_name(tmp_path: Path) -> None:
    """couchbase/sync_gateway#2514: the end of the connection right after the start, again and again."""
    first, second = opened("importer:1", port=41_212), Told("importer:1", port=50_110)
    first.wait(1.003)
    first.close("server")
    second.wait(1)
    second.hello("importer/1", "Collections")
    second.open("importer:1", "producer")
    second.stream(7)
    case = Case(tmp_path, first, second, at_once=True)
    found = case.finding("name-clash")
    assert case.accusations == ["name-clash"]
    assert found.connections == (2,)
    assert found.message.startswith(
        "name importer:1 opened by connection 2 while connection 1 held it; server closed connection 1 3 ms later"
    )
    assert case.shows("name-clash")[:2] == ["open", "open"]
    assert found.next.startswith("make names unique")
