"""A finding is told once, when it has stood for some time, and not too often; whatever shows it."""

from __future__ import annotations

import json
from pathlib import Path

from dcpinspect.cli.announce import AT_ONCE, Told
from dcpinspect.cli.teller import HOUR_NS, Scene, Teller
from dcpinspect.reading import Reading

SAMPLES = Path(__file__).parents[2] / "sample_captures"


def scene(name: str) -> Scene:
    with Reading([str(SAMPLES / name)]) as reading:
        reading.check()
        for _ in reading:
            pass
        assert reading.checker is not None
        assert reading.tracker is not None
        return Scene(reading.checker, reading.engine.links, reading.coverage, reading.tracker.conversation.sessions, [name])


def test_what_was_told_is_not_told_again_by_who_goes_on_later() -> None:
    seen, lines, known = scene("loop.pcap"), list[str | bytes](), Told()
    teller = Teller(None, put=lines.append, severity="warning", known=known)
    assert teller.certain(seen, 1, is_whole=False, for_ns=5) == []
    assert teller.waiting_since_ns is not None
    certain = teller.certain(seen, 6, is_whole=False, for_ns=5)
    assert certain
    teller.tell(seen, certain, 6, is_whole=False)
    rules = {json.loads(line)["rule"] for line in lines}
    assert "rollback-loop" in rules
    assert sum(teller.counts.values()) == len(lines)
    again = Teller(None, put=lines.append, severity="warning", known=Told.from_rows(json.loads(json.dumps(known.rows()))))
    assert again.news(seen, is_whole=False) == []


def test_lines_of_a_kind_are_few_within_an_hour() -> None:
    seen, lines = scene("loop.pcap"), list[str | bytes]()
    teller = Teller(None, put=lines.append, severity="error")
    news = teller.news(seen, is_whole=False)[:1]
    for _ in range(AT_ONCE + 2):
        teller.tell(seen, news, 1, is_whole=False)
    assert len(lines) == AT_ONCE
    assert teller.told[-1] == "2 more of the same kinds"
    teller.tell(seen, news, HOUR_NS + 1, is_whole=False)
    assert len(lines) == AT_ONCE + 1
