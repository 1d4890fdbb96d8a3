"""The tables that a tape has to give: plain bookkeeping over its messages, in the order in which
they were captured.

Nothing of the package is used: it is a second, slow reading of the same rules. A value that the
rules leave open is a ``OneOf``.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from tests.model.facts import (
    Connection,
    End,
    Event,
    Heard,
    OneOf,
    Record,
    Snapshot,
    Stream,
    program_of,
)
from tests.model.tape import Said
from tests.model.verdicts import finish, vbuckets

COUNTED = {
    "dcp_stream_end",
    "dcp_snapshot_marker",
    "dcp_mutation",
    "dcp_deletion",
    "dcp_expiration",
    "dcp_set_vbucket_state",
    "dcp_system_event",
    "dcp_prepare",
    "dcp_commit",
    "dcp_abort",
    "dcp_seqno_advanced",
    "dcp_oso_snapshot",
    "dcp_cache_transfer",
    "dcp_cache_transfer_end",
}
EVENTS = {
    "dcp_mutation",
    "dcp_deletion",
    "dcp_expiration",
    "dcp_system_event",
    "dcp_prepare",
    "dcp_commit",
    "dcp_abort",
}
FEATURE_NAMES = {
    0x06: "XATTR",
    0x07: "XERROR",
    0x08: "SELECT_BUCKET",
    0x0A: "SNAPPY",
    0x0B: "JSON",
    0x0F: "Tracing",
    0x12: "Collections",
}
STATUSES = {
    0: "success",
    1: "key_enoent",
    2: "key_eexists",
    4: "einval",
    7: "not_my_vbucket",
    0x23: "rollback",
    0x24: "eaccess",
    0x83: "not_supported",
    0x86: "etmpfail",
}


_FLAGS = ("memory", "disk", "checkpoint", "ack", "history", "may-duplicate-keys")
"""In the order of their bits."""

_EMPTY = (
    "start_seqno",
    "end_seqno",
    "layout",
    "convention",
    "first_seqno",
    "last_seqno",
    "max_visible_seqno",
    "high_completed_seqno",
    "purge_seqno",
    "high_prepared_seqno",
    "state",
)


class Tables:
    """Connections, streams, snapshots, gaps and vbuckets of what was heard."""

    def __init__(
        self,
        heard: Iterable[Heard],
        addresses: Sequence[tuple[str, str]],
        ends: dict[int, End],
        last_ns: dict[int, int],
    ) -> None:
        """``addresses``: client and server of each connection; ``ends`` and time of the last packet
        by index of the connection.
        """
        self.last_ns = last_ns
        self.ends = ends
        self.connections = [
            self._connection(number, *pair) for number, pair in enumerate(addresses, 1)
        ]
        self.streams: list[Stream] = []
        self._running: dict[tuple[int, int, int | None], Stream] = {}
        self._newest: dict[tuple[int, int, int | None], Stream] = {}
        self._asked: dict[tuple[int, int, int | None], int] = Counter()
        self.highs: dict[tuple[tuple[str, str], int], tuple[int, int]] = {}
        self.all_highs: dict[tuple[tuple[str, str], int], tuple[int, int]] = {}
        """With what was said of replicas, whose high seqno need not be the vbucket's."""
        self.told: dict[tuple[int, int], list[tuple[int, int, bool]]] = defaultdict(list)
        """By connection and vbucket: when a high seqno was told, which, and whether it was a
        replica's.
        """
        self._replicas: set[tuple[str, int]] = set()
        self._previous: dict[tuple[tuple[str, str], int, int | None], list[Stream]] = defaultdict(
            list
        )
        self.stream_of: dict[int, Stream] = {}
        """The stream that a message, by row, belongs to."""
        for one in heard:
            self._hear(one)
        finish(self)

    # -- the tables
    # ----------------------------------------------------------------------------------------

    def table(self, name: str) -> list[Record]:
        """By name; in order of first row."""
        if name == "connections":
            return [
                connection.record
                for connection in self.connections
                if connection.number - 1 in self.last_ns
            ]
        if name == "streams":
            return [stream.record for stream in self.streams]
        if name == "snapshots":
            records = [snapshot.record for stream in self.streams for snapshot in stream.snapshots]
            return sorted(records, key=lambda record: record["row"])
        if name == "gaps":
            return [gap for stream in self.streams for gap in stream.gaps]
        return vbuckets(self)

    # -- hearing
    # -------------------------------------------------------------------------------------------

    def _connection(self, number: int, client: str, server: str) -> Connection:
        record: Record = {
            "connection": number,
            "client": client,
            "server": server,
            "name": None,
            "role": None,
            "agent": None,
            "bucket": None,
            "features": [],
            "controls": {},
            "window_bytes": None,
            "counted_bytes": None,
            "acked_bytes": None,
            "outstanding_bytes": None,
            "noop_interval_s": None,
            "closed_by": None,
            "starts": "handshake",
            "holes": 0,
            "skipped_bytes": 0,
            "streams": 0,
        }
        host = client.rsplit(":", 1)[0]
        return Connection(record, number, (host, ""), host, server)

    def _hear(self, one: Heard) -> None:
        said = one.said
        connection = self.connections[said.connection]
        if said.side == "response":
            waiting = connection.pending[not said.to_server, said.name, said.parts["opaque"]]
            asked = waiting.pop(0) if waiting else None
            if asked is not None:
                method = getattr(self, f"_answer_{said.name}", None)
                if method is not None:
                    method(connection, asked, one)
            return
        if (
            said.name not in COUNTED | {"dcp_buffer_acknowledgement", "dcp_seqno_acknowledged"}
            or said.name == "dcp_set_vbucket_state"
        ):
            connection.pending[said.to_server, said.name, said.parts["opaque"]].append(one)
        if said.name == "dcp_open":
            role = "producer" if "producer" in said.parts["flags"] else "consumer"
            connection.record |= {"name": OneOf(said.parts["key"], None), "role": OneOf(role, None)}
        elif said.name == "hello":
            connection.record["agent"] = OneOf(said.parts["key"], None)
        elif said.name == "dcp_control":
            connection.record["controls"].setdefault(
                said.parts["key"], {"value": said.parts["value"], "status": None}
            )
        if said.name in COUNTED:
            self._count(connection, said)
            self._stream_message(connection, one)
        elif said.name == "dcp_stream_req":
            self._request(connection, one)
        elif said.name == "dcp_buffer_acknowledgement" and connection.flow:
            connection.record["acked_bytes"] += said.parts["ack_bytes"]
        elif said.name == "dcp_close_stream":
            stream = self._running.get(
                (connection.number, said.parts["vbucket"], said.parts.get("sid"))
            )
            if stream is not None:
                stream.state = "closing"
                self.stream_of[one.row] = stream

    def _count(self, connection: Connection, said: Said) -> None:
        if connection.flow:
            connection.record["counted_bytes"] += len(said.data) + (
                2 if said.name == "dcp_prepare" else 0
            )

    # -- the connection
    # ------------------------------------------------------------------------------------

    def _answer_hello(self, connection: Connection, asked: Heard, answer: Heard) -> None:
        granted = [entry["feature"] for entry in answer.said.parts["features"]]
        connection.record["features"] = [FEATURE_NAMES[code] for code in granted]
        connection.collections = 0x12 in granted
        connection.record["agent"] = asked.said.parts["key"]
        if not connection.client[1]:
            connection.client = connection.host, asked.said.parts["key"]

    def _answer_select_bucket(self, connection: Connection, asked: Heard, _: Heard) -> None:
        connection.record["bucket"] = asked.said.parts["key"]

    def _answer_dcp_open(self, connection: Connection, asked: Heard, answer: Heard) -> None:
        connection.open_refused = answer.said.parts["status"] != 0
        connection.is_open = not connection.open_refused
        name = asked.said.parts["key"]
        connection.client = connection.host, program_of(name)
        if connection.is_open:
            connection.record |= {key: connection.record[key].values[0] for key in ("name", "role")}
        connection.skip_deletes = "skip-deletes-in-initial-backfill" in asked.said.parts["flags"]

    def _answer_dcp_control(self, connection: Connection, asked: Heard, answer: Heard) -> None:
        key, value, status = (
            asked.said.parts["key"],
            asked.said.parts["value"],
            answer.said.parts["status"],
        )
        connection.record["controls"][key] = {"value": value, "status": STATUSES[status]}
        if status:
            return
        if key == "connection_buffer_size":
            connection.record["window_bytes"] = int(value)
            if not connection.flow:
                connection.flow = True
                connection.record["counted_bytes"] = connection.record["acked_bytes"] = 0
        elif key == "enable_sync_writes":
            connection.sync_writes = True
        elif key == "send_stream_end_on_client_close_stream":
            connection.end_on_close = True
        elif key == "set_noop_interval":
            connection.noop_interval_s = float(value)
            connection.record["noop_interval_s"] = float(value)

    def _answer_get_all_vb_seqnos(
        self, connection: Connection, asked: Heard, answer: Heard
    ) -> None:
        for entry in answer.said.parts["seqnos"]:
            if asked.said.parts["state"] != "replica":
                self.highs[connection.client, entry["vbucket"]] = entry["seqno"], answer.time_ns
            self.all_highs[connection.client, entry["vbucket"]] = entry["seqno"], answer.time_ns
            told = answer.time_ns, entry["seqno"], asked.said.parts["state"] == "replica"
            self.told[connection.number, entry["vbucket"]].append(told)
            if asked.said.parts["state"] == "replica":
                self._replicas.add((connection.server, entry["vbucket"]))

    def _answer_observe_seqno(self, connection: Connection, asked: Heard, answer: Heard) -> None:
        learnt = answer.said.parts["current_seqno"], answer.time_ns
        self.highs[connection.client, asked.said.parts["vbucket"]] = self.all_highs[
            connection.client, asked.said.parts["vbucket"]
        ] = learnt
        self.told[connection.number, asked.said.parts["vbucket"]].append(
            (answer.time_ns, learnt[0], False)
        )

    # -- the life of a stream
    # ------------------------------------------------------------------------------

    def _request(self, connection: Connection, one: Heard) -> None:
        parts = one.said.parts
        vbucket = parts["vbucket"]
        value = json.loads(parts["value"]) if parts.get("value") else None
        sid = (value or {}).get("sid")
        self._asked[connection.number, vbucket, sid] += 1
        is_upr = parts.get("generation") == "upr"
        record: Record = {
            "connection": connection.number,
            "vbucket": vbucket,
            "sid": sid,
            "stream": self._asked[connection.number, vbucket, sid],
            "opaque": parts["opaque"],
            "requested_start": parts["start_seqno"],
            "requested_end": parts["end_seqno"],
            "vbucket_uuid": f"0x{parts['vbucket_uuid']:016x}",
            "snapshot_start": None if is_upr else parts["snapshot_start_seqno"],
            "snapshot_end": None if is_upr else parts["snapshot_end_seqno"],
            "request_flags": list(parts["flags"]),
            "filter": value,
            "answer": "unanswered",
            "status": None,
            "rollback_seqno": None,
            "failover_log": None,
            "verdict": None,
            "end_reason": None,
            "items": 0,
            "first_seqno": None,
            "last_seqno": None,
            "snapshots": 0,
            "gaps": 0,
            "open_row": one.row,
            "end_row": None,
            "first_time": one.time_ns,
            "last_time": one.time_ns,
        }
        stream = Stream(record, connection.client, connection.number, vbucket, sid, one)
        self.streams.append(stream)
        self.stream_of[one.row] = stream
        connection.record["streams"] += 1

    def _answer_dcp_stream_req(self, connection: Connection, asked: Heard, answer: Heard) -> None:
        stream = self.stream_of[asked.row]
        self.stream_of[answer.row] = stream
        record, parts = stream.record, answer.said.parts
        connection.slowest_answer_ns = max(
            connection.slowest_answer_ns, answer.time_ns - asked.time_ns
        )
        record["last_time"] = answer.time_ns
        record["status"] = STATUSES[parts["status"]]
        previous = self._previous[stream.client, stream.vbucket, stream.sid]
        if parts["status"] == 0x23:
            record["answer"], stream.state = "rollback", "rolled-back"
            record["rollback_seqno"] = parts["rollback_seqno"]
            if parts["rollback_seqno"] < record["requested_start"]:
                self._gap(
                    stream,
                    parts["rollback_seqno"],
                    record["requested_start"] + 1,
                    "rollback",
                    "rollback",
                    [asked.row, answer.row],
                )
            return
        if parts["status"]:
            record["answer"], stream.state = "refused", "refused"
            return
        record["answer"], stream.state = "accepted", "accepted"
        record["failover_log"] = [
            {"uuid": f"0x{uuid:016x}", "seqno": seqno} for uuid, seqno in parts["log"]
        ]
        if "from-latest" not in record["request_flags"]:
            stream.last = record["requested_start"]
            self._resumed(stream, previous, asked)
        previous.append(stream)
        key = (connection.number, stream.vbucket, stream.sid)
        self._running[key] = self._newest[key] = stream
        stream.opened_at = stream.last_heard_ns = answer.time_ns

    def _resumed(self, stream: Stream, previous: list[Stream], asked: Heard) -> None:
        if not previous:
            return
        before = previous[-1]
        ended = before.state == "ended" or self._has_ended(before.connection, asked.time_ns)
        current = before.current
        is_out_of_order = (
            current is not None
            and current.record["type"] == "oso"
            and current.record["state"] != "complete-oso"
        )
        if (
            not ended
            or is_out_of_order
            or before.last is None
            or stream.last is None
            or stream.last <= before.last
        ):
            return
        self._gap(stream, before.last, stream.last + 1, "resumed", "resumed", [asked.row])

    def _has_ended(self, connection: int, now_ns: int) -> bool:
        end = self.ends.get(connection - 1)
        return end is not None and end.time_ns <= now_ns

    def _answer_dcp_close_stream(self, connection: Connection, asked: Heard, answer: Heard) -> None:
        key = (connection.number, asked.said.parts["vbucket"], asked.said.parts.get("sid"))
        stream = self._running.get(key)
        if asked.row in self.stream_of:
            self.stream_of[answer.row] = self.stream_of[asked.row]
        if answer.said.parts["status"] == 0 and stream is not None and not connection.end_on_close:
            before = stream.record["last_time"]
            self._end(stream, "closed", answer)
            stream.record["last_time"] = OneOf(before, answer.time_ns)

    def _end(self, stream: Stream, reason: str, one: Heard) -> None:
        record = stream.record
        record["end_reason"], record["end_row"], record["last_time"] = reason, one.row, one.time_ns
        stream.state = "ended"
        self.close_snapshot(stream, stream.current, "incomplete" if reason == "ok" else "cut")
        self._running.pop((stream.connection, stream.vbucket, stream.sid), None)

    def _stream_message(self, connection: Connection, one: Heard) -> None:
        said, parts = one.said, one.said.parts
        key = (connection.number, parts["vbucket"], parts.get("sid"))
        stream = self._running.get(key)
        assert stream is not None, f"row {one.row} belongs to no stream: {said}"
        self.stream_of[one.row] = stream
        stream.heard += 1
        stream.bytes += len(said.data)
        stream.prepares += said.name == "dcp_prepare"
        stream.last_heard_ns = stream.record["last_time"] = one.time_ns
        if said.name == "dcp_stream_end":
            self._end(stream, parts["end_reason"], one)
        elif said.name == "dcp_snapshot_marker":
            self._marker(connection, stream, one)
        elif said.name == "dcp_oso_snapshot":
            self._out_of_order(stream, one)
        elif said.name == "dcp_seqno_advanced":
            self._advanced(stream, one)
        elif said.name in EVENTS:
            self._event(connection, stream, one)

    # -- snapshots
    # -----------------------------------------------------------------------------------------

    def _marker(self, connection: Connection, stream: Stream, one: Heard) -> None:
        parts, before = one.said.parts, stream.current
        start, end, flags = (
            parts.get("start_seqno"),
            parts.get("end_seqno"),
            sorted(parts.get("snapshot_type", ()), key=_FLAGS.index),
        )
        is_history = "history" in flags
        repeats = (
            before is not None
            and before.start is not None
            and (before.start, before.end) == (start, end)
            and is_history
        )
        if before is not None:
            is_replica = (connection.server, stream.vbucket) in self._replicas
            overlaps = start is not None and before.end is not None and start <= before.end
            self.close_snapshot(
                stream,
                before,
                "continued" if repeats or (is_replica and overlaps) else "incomplete",
            )
        is_upr = start is None
        kind = "unknown" if is_upr else "disk" if "disk" in flags else "memory"
        layout = parts.get("generation", "v1")
        on_disk = "disk" in flags
        record = self._snapshot_record(stream, one, kind)
        record |= {
            "start_seqno": start,
            "end_seqno": end,
            "flags": flags,
            "layout": layout,
            "max_visible_seqno": parts.get("max_visible_seqno"),
            "high_completed_seqno": parts.get("high_completed_seqno")
            if on_disk
            else OneOf(parts.get("high_completed_seqno"), None),
            "purge_seqno": parts.get("purge_seqno"),
            "high_prepared_seqno": parts.get("high_prepared_seqno"),
        }
        if stream.last is None and start is not None:
            stream.last = start  # from latest: what the first marker begins with is owned
        is_first = stream.is_first or (repeats and before is not None and before.is_first)
        stream.is_first = False
        if is_first and not is_upr:
            record["convention"] = self._first_convention(stream, start or 0, flags)
        elif is_upr:
            record["convention"] = "unknown"
        elif "checkpoint" in flags:
            record["convention"] = "disk-later" if on_disk else "memory-2"
        else:
            record["convention"] = "unknown"  # until the first event came
        awaits_event = (
            not is_upr
            and record["convention"] == "unknown"
            and "from-latest" not in stream.record["request_flags"]
        )
        stream.current = Snapshot(
            record,
            start,
            end,
            is_history,
            one.row,
            is_first,
            awaits_event or (not is_first and not is_upr),
        )
        stream.snapshots.append(stream.current)

    def _first_convention(self, stream: Stream, start: int, flags: list[str]) -> Any:
        record = stream.record
        owned = {record["requested_start"], record["snapshot_start"]} - {None}
        if "from-latest" in record["request_flags"]:
            return OneOf("disk-1" if "disk" in flags else "memory-1", "unknown")
        if start in owned:
            return "disk-1" if "disk" in flags else "memory-1"
        if "disk" not in flags and "checkpoint" not in flags and start > record["requested_start"]:
            return "unknown"  # until the first event came
        return "irregular"

    def _snapshot_record(self, stream: Stream, one: Heard, kind: str) -> Record:
        stream.record["snapshots"] += 1
        record: Record = dict.fromkeys(_EMPTY)
        return record | {
            "connection": stream.connection,
            "vbucket": stream.vbucket,
            "sid": stream.sid,
            "stream": stream.record["stream"],
            "index": stream.record["snapshots"],
            "type": kind,
            "flags": [],
            "items": 0,
            "row": one.row,
            "time": one.time_ns,
        }

    def close_snapshot(self, stream: Stream, snapshot: Snapshot | None, otherwise: str) -> None:
        """The snapshot gets no more: ``otherwise`` is its state unless it is complete."""
        if snapshot is None or snapshot.record["state"] is not None:
            return
        record = snapshot.record
        if record["type"] == "oso":
            record["state"] = "cut" if otherwise == "incomplete" else otherwise
            return
        if snapshot.end is None:
            record["state"] = "unknown"
            return
        record["state"] = snapshot.is_reached or otherwise
        if (
            record["state"] == "incomplete"
            and stream.last is not None
            and stream.last < snapshot.end
        ):
            self._gap(
                stream,
                stream.last,
                snapshot.end + 1,
                "snapshot-tail",
                "snapshot-tail",
                [snapshot.row],
                snapshot=snapshot,
            )
            stream.last = snapshot.end

    def _out_of_order(self, stream: Stream, one: Heard) -> None:
        if one.said.parts["flags"] == ["start"]:
            self.close_snapshot(stream, stream.current, "incomplete")
            stream.current = Snapshot(
                self._snapshot_record(stream, one, "oso"), None, None, is_history=False, row=one.row
            )
            stream.snapshots.append(stream.current)
            stream.is_first = False
            stream.advanced_in_oso = None
            return
        snapshot = stream.current
        assert snapshot is not None
        snapshot.record["state"] = "complete-oso"
        inside = sorted(snapshot.seqnos)
        if stream.last is None:  # from latest: where it began nobody said
            stream.last = min(inside, default=None)
        if stream.last is None:
            stream.last = stream.advanced_in_oso
            return
        for low, high in pairwise([stream.last, *inside]):
            if high > low + 1:
                self._gap(stream, low, high, "oso", "oso", [snapshot.row, one.row])
        highest = max([stream.last, *inside])
        if stream.advanced_in_oso is not None and stream.advanced_in_oso > highest:
            self._gap(
                stream, highest, stream.advanced_in_oso + 1, "seqno-advanced", "seqno-advanced", []
            )
            highest = stream.advanced_in_oso
        stream.last = highest

    # -- seqnos
    # --------------------------------------------------------------------------------------------

    def _event(self, connection: Connection, stream: Stream, one: Heard) -> None:
        parts, record, snapshot = one.said.parts, stream.record, stream.current
        seqno = int(parts.get("commit_seqno") or parts.get("abort_seqno") or parts["by_seqno"])
        record["items"] += 1
        stream.seqnos.append(seqno)
        assert snapshot is not None, f"row {one.row}: {one.said} before any marker"
        inner = snapshot.record
        inner["items"] += 1
        snapshot.seqnos.append(seqno)
        ended = parts["collection_id"] if parts.get("event") == "end-collection" else None
        collection = parts.get("collection") or 0
        stream.events.append(
            Event(seqno, one.said.name, collection, parts.get("key", ""), one.row, snapshot, ended)
        )
        if inner["type"] == "oso":
            return
        if (
            snapshot.awaits_event
            and snapshot.first_event is None
            and "checkpoint" not in inner["flags"]
        ):
            inner["convention"] = _event_convention(snapshot, seqno)
        before = snapshot.last
        snapshot.first_event = seqno if snapshot.first_event is None else snapshot.first_event
        snapshot.last = seqno
        if stream.last is not None and seqno > stream.last + 1:
            within = (
                snapshot.start is not None
                and snapshot.end is not None
                and snapshot.start <= seqno <= snapshot.end
            )
            alone: Any
            if snapshot.is_history and before == stream.last and not stream.filter_names:
                alone = "unexplained"
            elif stream.filter_names or (connection.skip_deletes and inner["type"] == "disk"):
                alone = "filtered"
            elif within:
                alone = "deduplicated"
            else:
                alone = "unexplained"
            visible = inner["max_visible_seqno"]
            if visible == 0 and inner["layout"] == "v2.0":
                alone = OneOf(
                    "invisible", alone
                )  # zero may be said of a snapshot that holds nothing visible, or of none of that
            is_hidden = bool(visible) and stream.last >= visible
            self._gap(
                stream,
                stream.last,
                seqno,
                "invisible" if is_hidden else alone,
                alone,
                [],
                snapshot=snapshot,
            )
        stream.last = seqno
        if seqno == snapshot.end:
            snapshot.is_reached = "complete"
            inner["state"] = "complete"

    def _advanced(self, stream: Stream, one: Heard) -> None:
        seqno, snapshot = one.said.parts["by_seqno"], stream.current
        assert snapshot is not None, f"row {one.row}: {one.said} before any marker"
        stream.advanced.append(seqno)
        snapshot.advanced.append(seqno)
        if snapshot.record["type"] == "oso":
            stream.advanced_in_oso = seqno
            return
        if stream.last is not None and seqno > stream.last:
            self._gap(stream, stream.last, seqno + 1, "seqno-advanced", "seqno-advanced", [one.row])
        stream.last = seqno
        if seqno == snapshot.end:
            snapshot.is_reached = snapshot.record["state"] = "complete-seqno-advanced"

    def _gap(
        self,
        stream: Stream,
        after: int,
        before: int,
        cause: Any,
        alone: Any,
        rows: list[int],
        *,
        snapshot: Snapshot | None = None,
    ) -> None:
        stream.record["gaps"] += 1
        stream.gaps.append(
            {
                "connection": stream.connection,
                "vbucket": stream.vbucket,
                "sid": stream.sid,
                "stream": stream.record["stream"],
                "after_seqno": after,
                "before_seqno": before,
                "width": before - after - 1,
                "cause": cause,
                "_alone": alone,
                "_rows": rows,
                "_snapshot": snapshot,
            }
        )


def _event_convention(snapshot: Snapshot, seqno: int) -> str:
    on_disk = snapshot.record["type"] == "disk"
    if snapshot.start is None or seqno < snapshot.start:
        return "irregular"
    if seqno == snapshot.start:
        return "disk-3-first-event" if on_disk else "memory-3"
    return "disk-later" if on_disk else "irregular"
