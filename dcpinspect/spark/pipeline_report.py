"""A report on an output: the same facts as from a reading of all its captures, as far as the stored
tables and messages have them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from dcpinspect.findings.finding_records import with_findings
from dcpinspect.findings.registry import ORDINARY
from dcpinspect.output.render.event_lines import NOTED, MessageEvent
from dcpinspect.output.render.finding_text import of_file
from dcpinspect.output.render.message_lines import record_cells, seconds_text
from dcpinspect.output.render.pipeline_text import info_lines
from dcpinspect.output.render.table import cell_texts
from dcpinspect.output.render.verdict import LookedAt
from dcpinspect.output.report.report_contents import EvidenceMessage, Limits, Source, title_of
from dcpinspect.output.statistics import Charts, charts_of
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.protocol.header import Magic
from dcpinspect.protocol.opcodes import Opcode
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import RunResults, names_of
from dcpinspect.spark.outputs import damage
from dcpinspect.spark.pipeline_info import pipeline_info
from dcpinspect.spark.spark_schema import columns_of
from dcpinspect.streams.items import VbucketItems, VbucketMessages
from dcpinspect.streams.message_columns import kinds_by_header
from dcpinspect.tables.message_statistics import MessageStats, command_of
from dcpinspect.tables.record_tables import Records
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.text import escape, one_line

LACKS = (
    "The bytes of messages, and flow control: 'dcpinspect report' of the captures themselves "
    "has them."
)
_WIDE = frozenset(
    name
    for name, kind in columns_of("messages").items()
    if BY_NAME[name].kind == "hex64" or kind == pa.uint64()
)
_HIDDEN = ("connection_id", "time_ns", "key_bytes", "row", "request_row")


def of_pipeline(found_in: RunResults) -> Source:
    """Returns the source of a report on an output, its parts joined and streams compared."""
    manifest, everything = found_in.manifest, found_in.merged
    assert everything.checker is not None
    checker = everything.checker.only(ORDINARY)
    findings, tables = checker.findings(everything.links, everything.coverage), everything.tables
    by_name = with_findings(
        tables.by_name, findings, checker.clients(everything.links), everything.files
    )
    messages, numbers, ends = manifest.dataset("messages"), _numbers(manifest), _ends(manifest)
    copies = {
        number
        for number, copy_of in by_name["connections"].rows("connection", "copy_of")
        if copy_of
    }
    counted_connections = [id_ for id_, number in numbers.items() if number not in copies]
    return Source(
        title=title_of(everything.files),
        facts=_facts(manifest),
        files=everything.files,
        looked=LookedAt.from_reading(everything, ORDINARY, damage=damage(manifest)),
        findings=findings,
        tables=tables,
        by_name=by_name,
        charts=_charts(messages, counted_connections, ends),
        coverage=everything.coverage,
        events_of=partial(_events_of, messages, numbers),
        noted_of=partial(_noted_of, messages, numbers),
        messages=partial(_message_facts, messages, numbers, ends[0], by_name),
        is_redacted=manifest.is_redacted,
        frames_of=partial(_frames_of, messages, names_of(manifest.units)),
        lacks=(LACKS,),
    )


def _facts(manifest: Manifest) -> list[tuple[str, list[str]]]:
    """Returns the facts that ``pipeline info`` prints, without findings: the label of each line,
    and the lines indented below it.
    """
    facts: list[tuple[str, list[str]]] = []
    for number, line in enumerate(info_lines(pipeline_info(manifest))):
        if line.startswith("  "):
            facts[-1][1].append(line.strip())
        elif number == 0:
            facts.append(("pipeline", [line]))
        else:
            label, _, text = line.partition(":")
            facts.append(
                (label.partition(",")[0].partition(" ")[0], [text.strip()] if text.strip() else [])
            )
    return [fact for fact in facts if fact[0] != "findings"]


def _ends(manifest: Manifest) -> tuple[int, int]:
    """Returns when the captures began and ended, in nanoseconds since 1970."""
    units = [unit for unit in manifest.units if not unit.expired]
    first_ns = min((unit.first_ns for unit in units if unit.first_ns), default=0)
    return first_ns, max((unit.last_ns for unit in units if unit.last_ns), default=first_ns)


def _charts(messages: Any, connection_ids: Sequence[int], ends: tuple[int, int]) -> Charts:
    """Returns the charts of the messages of these connections."""
    counted = MessageStats()
    for batch in messages.to_batches(
        columns=["opcode", "side", "magic", "time_ns", "length", "rtt_ns"],
        filter=ds.field("connection_id").isin(connection_ids),
    ):
        if not batch.num_rows:
            continue
        opcode, magic, time_ns, length, rtt = (
            batch.column(name).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
            for name in ("opcode", "magic", "time_ns", "length", "rtt_ns")
        )
        is_response = _is(batch.column("side"), "response")
        is_server = np.isin(magic, (Magic.SERVER_REQUEST, Magic.SERVER_RESPONSE))
        answered = is_response & batch.column("rtt_ns").is_valid().to_numpy(zero_copy_only=False)
        counted.count(
            command_of(opcode, is_response, is_server),
            time_ns - ends[0],
            length,
            answered,
            rtt[answered],
        )
    return charts_of(counted, ends)


def _is(words: Any, word: str) -> Any:
    return np.array(
        pa.compute.equal(words, word).fill_null(False).to_numpy(zero_copy_only=False),
        dtype=np.bool_,
    )


def _numbers(manifest: Manifest) -> Mapping[int, int]:
    """Returns the number of each connection by its id."""
    table = manifest.dataset("connections").to_table(columns=["connection_id", "connection"])
    return {
        row["connection_id"]: row["connection"]
        for row in table.to_pylist()
        if row["connection"] is not None
    }


def _events_of(messages: Any, numbers: Mapping[int, int], vbucket: int) -> VbucketItems:
    items = VbucketItems(vbucket)
    columns = ["connection_id", "row", "opcode", "sid", "by_seqno", "time_ns", "side", "status"]
    vbucket_messages = messages.to_table(
        columns=columns, filter=ds.field("vbucket") == vbucket
    ).sort_by("row")
    if len(vbucket_messages):
        ids, opcode, row, time_ns = (
            vbucket_messages[name].to_numpy().astype(np.int64)
            for name in ("connection_id", "opcode", "row", "time_ns")
        )
        connection = np.array(
            [numbers.get(connection_id, 0) for connection_id in ids.tolist()], np.int64
        )
        items.add_messages(
            VbucketMessages(
                kinds_by_header(
                    opcode,
                    _is(vbucket_messages["side"], "response"),
                    vbucket_messages["status"].fill_null(0).to_numpy(),
                ),
                connection,
                row,
                _nullable(vbucket_messages["sid"]),
                _nullable(vbucket_messages["by_seqno"]),
                time_ns,
            )
        )
    return items


def _noted_of(messages: Any, numbers: Mapping[int, int], vbucket: int) -> list[MessageEvent]:
    rows = messages.to_table(
        columns=["row", "time_ns", "connection_id", "sid", "by_seqno", "opcode"],
        filter=(ds.field("vbucket") == vbucket)
        & (ds.field("side") == "request")
        & ds.field("opcode").isin(list(NOTED)),
    ).sort_by("row")
    return [
        MessageEvent(
            row["row"],
            row["time_ns"],
            numbers.get(row["connection_id"], 0),
            -1 if row["sid"] is None else row["sid"],
            None if row["by_seqno"] is None else row["by_seqno"] % (1 << 64),
            *NOTED[row["opcode"]],
        )
        for row in rows.to_pylist()
    ]


def _nullable(column: Any) -> NumberColumn:
    values = column.fill_null(0).to_numpy().astype(np.int64).view(np.uint64)
    return NumberColumn(values, column.is_valid().to_numpy())


def _frames_of(messages: Any, files: Sequence[str], rows: Collection[int]) -> dict[int, str]:
    """Returns the frames of these rows, with the capture where there are several."""
    table = messages.to_table(
        columns=["row", "frame", "file"], filter=ds.field("row").isin(list(rows))
    )
    suffixes = dict(zip(files, of_file(tuple(files)), strict=True))
    return {
        record["row"]: f"{record['frame']}{suffixes[record['file']]}"
        for record in table.to_pylist()
    }


def _message_facts(
    messages: Any,
    numbers: Mapping[int, int],
    first_ns: int,
    by_name: Mapping[str, Records],
    rows: Mapping[int, Sequence[str]],
    limits: Limits,
) -> Iterator[EvidenceMessage]:
    """Yields the facts about these messages from the table of messages."""
    if not rows:
        return
    table = messages.to_table(filter=ds.field("row").isin(list(rows))).sort_by("row")
    names = [name for name in table.column_names if name not in _HIDDEN]
    texts = {name: _texts(table[name].combine_chunks(), name) for name in names}
    records = table.to_pylist()
    bodies = _bodies(messages, numbers, by_name, records)
    for index, record in enumerate(records):
        row_texts = {
            name: one_line(texts[name][index])[: 8 * limits.value]
            for name in names
            if texts[name][index]
        }
        unsigned = {
            name: int(text) if text.isdecimal() else text or None
            for name in names
            if name in _WIDE
            for text in (texts[name][index],)
        }
        time = seconds_text(record["time_ns"] - first_ns)
        fields = [f"{name:<24} {text}" for name, text in row_texts.items()]
        connection, row = numbers.get(record["connection_id"], 0), record["row"]
        body = {"body": escape(bodies.get(row, ""))}
        cells = record_cells(record | unsigned | body, connection, time)
        yield EvidenceMessage(row, cells, fields, (), rows[row])


def _bodies(
    messages: Any,
    numbers: Mapping[int, int],
    by_name: Mapping[str, Records],
    records: Sequence[Mapping[str, Any]],
) -> dict[int, str]:
    """Returns the values that other tables have of these messages, by row: filters of stream
    requests, and settings of controls that their connection asked for once.
    """
    bodies = {
        row: json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        for row, value in by_name["streams"].rows("open_row", "filter")
        if row and value
    }
    is_control = (ds.field("opcode") == Opcode.DCP_CONTROL) & (ds.field("side") == "request")
    ids = {record["connection_id"] for record in records if record["opcode"] == Opcode.DCP_CONTROL}
    controls = dict(by_name["connections"].rows("connection", "controls"))
    requests = messages.to_table(
        columns=["connection_id", "key", "row"],
        filter=is_control & ds.field("connection_id").isin(list(ids)),
    ).to_pylist()
    times = Counter((control["connection_id"], control["key"]) for control in requests)
    for control in requests:
        connection_id, key = control["connection_id"], control["key"]
        setting = (controls.get(numbers.get(connection_id)) or {}).get(key)
        if setting and times[connection_id, key] == 1:
            bodies[control["row"]] = setting["value"] or ""
    return bodies


def _texts(column: Any, name: str) -> list[str]:
    """Returns a column as texts for people; unsigned 64-bit numbers are stored as signed bits."""
    if name in _WIDE and pa.types.is_int64(column.type):
        bits = column.fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64).tolist()
        texts = [
            f"0x{value:016x}" if BY_NAME[name].kind == "hex64" else str(value) for value in bits
        ]
        return [
            text if is_there else ""
            for text, is_there in zip(texts, column.is_valid().to_pylist(), strict=True)
        ]
    return cell_texts(column, name)
