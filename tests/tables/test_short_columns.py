"""The short form of a column says what the JSON of each message says."""

from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.output.export.json import message_object
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.schema import BY_NAME, COLUMNS
from dcpinspect.tables.short_columns import ShortTexts, short_column
from tests.peers.truth import SAMPLES

LISTS = {column.name for column in COLUMNS if column.kind == "words"}
NAMES = (
    "row",
    "name",
    "direction",
    "side",
    "opcode",
    "vbucket",
    "status",
    "opaque",
    "cas",
    "datatype",
    "by_seqno",
    "flags",
    "request_row",
    "rtt_ns",
)


@pytest.mark.parametrize("capture", ["tour.pcapng", "capture-loss.pcap"])
def test_short_columns_say_what_the_json_says(capture: str) -> None:
    compared = 0
    with Reading([str(SAMPLES / capture)]) as reading:
        for batch in reading:
            rows = np.arange(len(batch))[::-1].copy()
            columns = {name: short_column(batch, rows, name) for name in NAMES}
            for place, row in enumerate(rows.tolist()):
                record = message_object(batch, row, fields=False)
                for name in NAMES:
                    if name not in record:
                        continue
                    column, expected = columns[name], record[name]
                    value: object
                    if isinstance(expected, dict):
                        expected = expected["code"]
                    if isinstance(column, ShortTexts):
                        given = column.valid is None or column.valid[place]
                        value = column.texts[int(column.numbers[place])] if given else None
                        if name in LISTS:
                            expected = None if expected is None else ",".join(expected)
                    else:
                        value = None if column is None else column.value_at(place)
                        if isinstance(expected, str) and value is not None:
                            value = f"0x{value:016x}"
                    assert value == expected, (name, row)
                    compared += value is not None
    assert compared > 500


def test_a_column_that_no_message_has_is_none() -> None:
    with Reading([str(SAMPLES / "capture-loss.pcap")]) as reading:
        batch = next(iter(reading))
    assert short_column(batch, np.arange(len(batch)), "manifest_uid") is None


def test_a_column_that_nothing_makes_is_refused_and_not_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        BY_NAME, "forgotten", Column("forgotten", "i64", "declared, and made by nothing")
    )
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        (batch, *_) = reading
        with pytest.raises(NotImplementedError, match="nothing makes the column forgotten"):
            short_column(batch, np.arange(len(batch)), "forgotten")
