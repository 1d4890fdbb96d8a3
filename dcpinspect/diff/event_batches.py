"""The events of a batch as a narrow Arrow batch: what is compared, where it is, and the stream and
snapshot that it came in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dcpinspect.protocol.redact import Redactor
from dcpinspect.streams.events import events_of
from dcpinspect.streams.record_codes import ABORT, EVENT
from dcpinspect.streams.state import ReadingState, unbiased
from dcpinspect.tables.arrow import record_batch
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.select import Selection

SCHEMA = pa.schema(
    [
        ("vbucket", pa.uint16()),
        ("stream", pa.int32()),
        ("snapshot", pa.int32()),
        ("seqno", pa.uint64()),
        ("opcode", pa.uint8()),
        ("collection", pa.int64()),
        ("ended", pa.int64()),
        ("key", pa.int64()),
        ("cas", pa.uint64()),
        ("datatype", pa.uint8()),
        ("value", pa.int64()),
        ("row", pa.int64()),
        ("time", pa.int64()),
        ("connection", pa.int32()),
        ("key_text", pa.string()),
    ]
)
"""Columns of the events of a side.

``stream`` and ``snapshot`` are numbers of the tracker. ``key`` and ``value`` are hashes, or -1 if
part of them is not in the capture. ``ended`` is the collection that a system event ends, or -1.
"""


def event_batch(
    batch: MessageBatch, state: ReadingState, wanted: Selection, redactor: Redactor | None
) -> Any:
    """Returns the events among these messages that belong to a stream; ``state`` must have taken
    the messages just before.
    """
    events = events_of(batch, with_values=True)
    messages = state.messages
    event_rows = np.flatnonzero((messages.kind >= EVENT) & (messages.kind <= ABORT))
    rows = messages.place.row[event_rows]
    nearest = np.minimum(np.searchsorted(rows, events.place.row), max(0, len(rows) - 1))
    is_known = (
        rows[nearest] == events.place.row if len(rows) else np.zeros(len(events), dtype=np.bool_)
    )
    events_known = np.flatnonzero(is_known)
    message_rows = event_rows[nearest[events_known]]
    has_stream = messages.stream[message_rows] >= 0
    events_known, message_rows = events_known[has_stream], message_rows[has_stream]
    batch_index = batch.index_of(events.place.row[events_known])
    is_wanted = np.isin(batch_index, wanted.rows(batch))
    events_known = events_known[is_wanted]
    message_rows = message_rows[is_wanted]
    batch_index = batch_index[is_wanted]
    if not len(events_known):
        return pa.RecordBatch.from_pylist([], SCHEMA)
    table = events[events_known]
    columns = {
        "vbucket": table.vbucket,
        "stream": messages.stream[message_rows],
        "snapshot": messages.snapshot[message_rows],
        "seqno": unbiased(table.seqno),
        "opcode": table.opcode,
        "collection": table.collection,
        "ended": table.ended,
        "key": table.key,
        "cas": table.cas.view(np.uint64),
        "datatype": table.datatype,
        "value": table.value,
        "row": table.place.row,
        "time": table.place.time,
        "connection": table.connection,
    }
    arrays = [
        pa.array(np.asarray(columns[field.name]).astype(field.type.to_pandas_dtype()))
        for field in SCHEMA
        if field.name in columns
    ]
    keys = record_batch(batch.redacted(redactor), batch_index, ["key"]).column(0)
    return pa.RecordBatch.from_arrays([*arrays, keys], schema=SCHEMA)
