from __future__ import annotations

from rich.console import Console

from dcpinspect.tui.vbucket_about import about, about_in_short

ROW = {
    **{"client": "10.0.0.1 mirror", "verdict": "rolled-back", "connections": [1, 2], "streams": 3, "rollbacks": 1, "first_seqno": 2},
    **{"last_seqno": 58, "high_seqno": None, "items": 35, "bytes": 9847, "snapshots": 3, "findings": {"error": 2}},
    "gaps": {"rollback": 1, "deduplicated": 26},
}


def test_what_is_too_long_goes_on_below_where_it_began() -> None:
    console = Console(width=34, no_color=True)
    with console.capture() as captured:
        console.print(about(7, [ROW]))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert "gaps        1 rollback, 26" in lines
    assert lines[lines.index("gaps        1 rollback, 26") + 1] == "            deduplicated"


def test_little_room_has_what_there_is_without_what_there_is_none_of() -> None:
    text = about_in_short(7, [ROW | {"gaps": {}}]).plain
    assert text.startswith("vb 7 · 10.0.0.1 mirror · rolled back · ")
    assert text.endswith("35 items, 9,847 bytes · snapshots 3 · findings 2 errors")
    assert about_in_short(7, []).plain == "vb 7 · not requested in this capture"


def test_a_client_that_connected_often_has_its_connections_as_ranges() -> None:
    text = about_in_short(7, [ROW | {"connections": [*range(1, 1001), 1003]}]).plain
    assert " · connections 1–1000, 1003 · streams 3" in text
