"""The keys of every table, in their order: programs of others rely on them."""

from __future__ import annotations

import pytest

from dcpinspect.streams.table_columns import ALL
from tests.streams.told import opened, tables

KEYS = {
    "gap": (
        "connection vbucket sid stream after_seqno before_seqno width cause evidence rows "
        "first_time last_time"
    ),
    "snapshot": (
        "connection vbucket sid stream index start_seqno end_seqno type flags layout "
        "convention items first_seqno last_seqno"
        " max_visible_seqno high_completed_seqno purge_seqno high_prepared_seqno state lost_seqnos row "
        "time until_time"
    ),
    "stream": (
        "connection vbucket sid stream opaque requested_start requested_end vbucket_uuid "
        "snapshot_start snapshot_end request_flags filter"
        " collections answer status rollback_seqno failover_log verdict end_reason items "
        "cached_items "
        "first_seqno last_seqno snapshots"
        " gaps gap_seqnos findings open_row end_row"
        " first_time last_time"
    ),
    "connection": (
        "connection copy_of client origin server name agent role bucket features controls "
        "window_bytes outstanding_bytes counted_bytes acked_bytes"
        " noop_interval_s verdict closed_by starts tls holes skipped_bytes streams first_time "
        "last_time findings"
    ),
    "rollback": (
        "connection vbucket sid stream client requested_start snapshot_start snapshot_end "
        "vbucket_uuid request_flags rollback_seqno"
        " failover_log purge_seqno cause explanation resume_start resume_uuid "
        "resume_snapshot_start resume_snapshot_end request_row"
        " answer_row log_row time"
    ),
    "vbucket": (
        "client vbucket verdict before_end connections streams requested_end first_seqno last_seqno "
        "high_seqno behind items cached_items bytes gaps"
        " gap_seqnos snapshots rollbacks"
        " findings first_time last_time"
    ),
}


@pytest.mark.parametrize("table", ALL, ids=lambda table: table.name)
def test_every_key_is_there(table: object) -> None:
    name: str = table.name  # type: ignore[attr-defined] # RecordTable
    columns = table.columns  # type: ignore[attr-defined]
    assert {column.name for column in columns} == set(KEYS[name].split())


def test_words_are_from_their_lists() -> None:
    talk = opened()
    stream = talk.stream(7)
    stream.snapshot(0, 9, "memory")
    stream.mutation(4, "k")
    seen = tables(talk)
    for table in ALL:
        for record in getattr(seen, f"{table.name}s"):
            assert record["schema"] == f"dcpinspect.{table.name}/{table.version}"
            for column in table.columns:
                if column.kind == "word" and column.words:
                    assert record[column.name] in (*column.words, None)
