"""What servers say of vbuckets beside their streams: kept within bounds, and the first answer that
told something is found.
"""

from __future__ import annotations

from dcpinspect.streams.server_reports import (
    MOST_LOGS,
    MOST_SEQNOS,
    FailoverLog,
    HighSeqno,
    MessagePosition,
    ServerReport,
)


def at(row: int) -> MessagePosition:
    return MessagePosition(row, 0, row, row)


def above(heard: ServerReport, seqno: int) -> HighSeqno | None:
    """The first known answer that told a higher seqno than this."""
    return next((high for high in heard.seqnos if high.seqno > seqno), None)


def test_the_first_answer_above_a_seqno_is_found() -> None:
    heard = ServerReport()
    for row, seqno in enumerate((5, 5, 8, 8, 9), 1):
        heard.tell_seqno(HighSeqno(seqno, at(row)))
    assert [(high.seqno, high.at.row) for high in heard.seqnos] == [(5, 1), (8, 3), (9, 5)]
    assert above(heard, 5) == HighSeqno(8, at(3))
    assert above(heard, 9) is None


def test_a_lower_seqno_is_another_history() -> None:
    heard = ServerReport()
    for row, seqno in enumerate((50, 7), 1):
        heard.tell_seqno(HighSeqno(seqno, at(row)))
    assert above(heard, 6) == HighSeqno(7, at(2))
    assert above(heard, 7) is None


def test_seqnos_that_rise_for_ever_take_no_room() -> None:
    heard = ServerReport()
    for row in range(1, 10_000):
        heard.tell_seqno(HighSeqno(row, at(row)))
        assert len(heard.seqnos) <= MOST_SEQNOS
        assert heard.seqnos[-1].seqno == row
    assert heard.seqnos[0].seqno == 1
    for seqno in range(1, 9_998):
        later = above(heard, seqno)
        assert later is not None
        assert 2 * (9_999 - later.seqno) >= 9_999 - seqno - 1, seqno


def test_failover_logs_are_kept_where_they_change() -> None:
    heard = ServerReport()
    for row in range(1, 30):
        heard.tell_log(FailoverLog(bytes([row // 2]) * 16, at(row)))
    assert [log.at.row for log in heard.logs] == list(range(30 - 2 * MOST_LOGS, 30, 2))
    for odd in (b"", bytes(15), bytes(1 << 20)):
        heard.tell_log(FailoverLog(odd, at(99)))
    assert heard.logs[-1].at.row < 99


def test_nothing_persisted_is_over_with_the_first_item_that_is() -> None:
    heard = ServerReport()
    for row, (persisted, current) in enumerate([(0, 0), (0, 3), (0, 4), (0, 5), (0, 6)], 1):
        heard.tell_persisted(persisted, current, at(row))
    said = heard.not_persisted
    assert said is not None
    assert said.count == 4
    assert [place.row for place in said.places] == [2, 3, 5]
    heard.tell_persisted(3, 7, at(6))
    assert said.is_over
