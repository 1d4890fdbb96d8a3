"""What a reading of a damaged capture says that is not so.

The truth is what the whole capture holds. Of each key the reading may say the truth or that it does
not know:

- a marker's own fields, a request's own fields, the answer: as they are, or nothing; ``answer`` may
  be ``unknown``;
- ``state`` and ``convention`` of a snapshot: the truth or ``unknown``;
- a gap: one that there is, with its cause, ``capture-loss``, or evidence that leaves it open; never a cause for what only the
  capture lacks;
- ``verdict``: the truth, ``unknown-capture``, or what is the truth to whoever misses the
  flow-control totals or the high seqno;
- counts and seqnos: no more than there were.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.model.compare import nanoseconds, shown
from tests.model.expect import Tables
from tests.model.facts import OneOf, Record, Snapshot, Stream
from tests.model.reading import Capture, Read
from tests.model.tape import Said

_TABLES = ("connections", "streams", "snapshots", "gaps")

REQUEST_KEYS = (
    "opaque",
    "requested_start",
    "requested_end",
    "vbucket_uuid",
    "snapshot_start",
    "snapshot_end",
    "request_flags",
    "filter",
)
MARKER_KEYS = (
    "start_seqno",
    "end_seqno",
    "type",
    "flags",
    "layout",
    "max_visible_seqno",
    "high_completed_seqno",
    "purge_seqno",
    "high_prepared_seqno",
)

_ASKED = {("dcp_stream_req", "request"): "asked", ("dcp_stream_req", "response"): "answered"}


class Claims:
    """Compares one reading with the truth; ``wrong`` lists what it must not have said.

    ``torn``: connections of which nothing is compared.
    """

    def __init__(self, truth: Tables, rows: dict[Said, int], capture: Capture, found: Read) -> None:
        """``rows``: row of each message in the whole capture."""
        self.wrong: list[str] = []
        self._truth, self._rows, self._capture = truth, rows, capture
        self._heard = {one.row: one for one in found.heard}
        self._snapshots: dict[int, Snapshot] = {
            one.row: one for stream in truth.streams for one in stream.snapshots
        }
        self._numbers = {number: index + 1 for number, index in enumerate(found.connections, 1)}
        """Number in the whole capture of each connection of the damaged one."""
        self.torn = self._torn()
        self._tables = {
            name: [r for r in found.tables[name] if r["connection"] not in self.torn]
            for name in _TABLES
        }
        self._opened = {
            one.said.connection + 1
            for one in found.heard
            if one.said.name == "dcp_open" and one.said.side == "request" and one.is_whole
        }
        self._silent = {number + 1 for number in capture.cut_short}
        self._names = {
            row: _ASKED.get((said.name, said.side), said.name) for said, row in rows.items()
        }
        self._alike = self._joined()
        self._streams: dict[tuple[object, ...], list[Stream]] = {}
        self._implicit: set[tuple[object, ...]] = set()
        for record in self._tables["streams"]:
            self._stream(record)
        for record in self._tables["snapshots"]:
            self._snapshot(record)
        for record in self._tables["gaps"]:
            self._gap(record)
        for record in self._tables["connections"]:
            self._connection(record)

    def _no(self, what: str, record: Record) -> None:
        self.wrong.append(f"{what}: {shown(record)}")

    # -- finding one's way
    # ---------------------------------------------------------------------------------

    def _torn(self) -> set[int]:
        """Connections that are two on the tape: of the same addresses, and what tells them apart is
        missing.
        """
        told: dict[int, int] = {}
        torn: set[int] = set()
        for number, index in self._numbers.items():
            if index in told:
                torn |= {number, told[index]}
            told[index] = number
        flows = {
            self._capture.laid.connection_of[place]: self._capture.laid.packets[place].flow[:2]
            for place in self._capture.places
        }
        missed = {flow for index, flow in flows.items() if index + 1 not in told}
        return torn | {
            number for number, index in self._numbers.items() if flows.get(index - 1) in missed
        }

    def _joined(self) -> dict[int, list[Stream]]:
        """Of each true stream by its id, itself and those of its opaque that nothing which was read
        tells from it.

        The request of the next one does, if it was read before what follows it; the stream end; and
        its answer where the producer was heard on this one before.
        """
        rows: dict[int, dict[str, list[int]]] = {}
        whole = {one.said for one in self._heard.values() if one.is_whole}
        for read_row, one in sorted(self._heard.items()):
            row = self._rows.get(one.said, 0)
            stream = self._truth.stream_of.get(row)
            if stream is None:
                continue
            is_asked = self._names[row] in ("asked", "answered")
            if is_asked and stream.sid and stream.request.said not in whole:
                continue  # without its value, a request does not tell the stream-id
            of_stream = rows.setdefault(id(stream), {})
            of_stream.setdefault(self._names[row], []).append(read_row)
        out: dict[int, list[Stream]] = {}
        newest: dict[tuple[object, ...], list[Stream]] = {}
        for stream in self._truth.streams:
            place = stream.connection, stream.vbucket, stream.sid
            read, chain = rows.get(id(stream), {}), newest.get(place, [])
            before = [rows.get(id(one), {}) for one in chain]
            is_heard = any(names - {"asked", "dcp_close_stream"} for names in map(set, before))
            follows = [
                row
                for name, own in read.items()
                if name not in ("asked", "dcp_close_stream")
                for row in own
            ]
            is_other = (
                ("asked" in read and read["asked"][0] < min(follows, default=1 << 62))
                or ("answered" in read and is_heard)
                or any("dcp_stream_end" in names for names in before)
            )
            if chain and chain[-1].record["opaque"] == stream.record["opaque"] and not is_other:
                chain.append(stream)
            elif (
                chain
                and stream.state in ("rolled-back", "refused")
                and stream.record["opaque"] != chain[-1].record["opaque"]
            ):
                chain = [stream]  # asked for while that one ran
            else:
                newest[place] = chain = [stream]
            out[id(stream)] = chain
        return out

    def _true_streams(self, rows: Sequence[int | None]) -> list[Stream]:
        out: list[Stream] = []
        for row in rows:
            one = self._heard.get(row or 0)
            stream = (
                self._truth.stream_of.get(self._rows.get(one.said, 0)) if one is not None else None
            )
            if stream is not None and stream not in out:
                out.append(stream)
        return out

    # -- streams
    # -------------------------------------------------------------------------------------------

    def _stream(self, record: Record) -> None:
        number = record["connection"]
        place = number, record["vbucket"], record["sid"], record["stream"]
        mine = [
            r
            for r in self._tables["snapshots"]
            if (r["connection"], r["vbucket"], r["sid"], r["stream"]) == place
        ]
        streams = self._true_streams(
            [record["open_row"], *(r["row"] for r in mine), record["end_row"]]
        )
        self._streams[place] = streams
        if not streams:
            self._no("a stream of messages that belong to none", record)
            return
        opened = self._heard[record["open_row"]]
        is_requested = opened.said.name == "dcp_stream_req"
        if not is_requested or not opened.is_whole:
            self._implicit.add(place)
        stream = streams[0]
        shown = self._true_streams(
            [record["open_row"], *(r["row"] for r in mine)]
        )  # a close may have an opaque of its own
        if any(one not in self._alike[id(shown[0])] for one in shown):
            self._no("different streams taken for one", record)
        streams = list({id(one): one for each in streams for one in self._alike[id(each)]}.values())
        self._streams[place] = streams
        for key in REQUEST_KEYS:
            true = stream.record[key]
            if key != "opaque" and record[key] not in (
                (true,) if is_requested and opened.is_whole else (true, None)
            ):
                self._no(f"{key} is {true}", record)
        for key in ("status", "rollback_seqno", "failover_log"):
            if record[key] not in [one.record[key] for one in streams] + [None]:
                self._no(f"{key} is {stream.record[key]}", record)
        # What is lost at the very end shows nowhere, and without its value a request does not tell
        # the stream-id.
        is_silent = self._numbers[number] in self._silent or (is_requested and not opened.is_whole)
        answers = {"unknown", "unanswered"} if is_silent else {"unknown"}
        if record["answer"] not in answers and not any(
            record["answer"] == one.record["answer"] for one in streams
        ):
            self._no(f"the answer is {stream.record['answer']!r}", record)
        verdicts = {"unknown-capture"}.union(*(one.verdicts for one in streams))
        if not is_silent and record["verdict"] not in verdicts:
            self._no(f"the verdict is {stream.record['verdict']!r}", record)
        if not is_silent and record["end_reason"] not in [
            one.record["end_reason"] for one in streams
        ] + [None, "unknown"]:
            self._no(f"the end reason is {stream.record['end_reason']}", record)
        if record["items"] > sum(one.record["items"] for one in streams):
            self._no(f"there were {stream.record['items']} items", record)
        seqnos = {seqno for one in streams for seqno in (*one.seqnos, *one.advanced, None)}
        for key in ("first_seqno", "last_seqno"):
            if record[key] not in seqnos:
                self._no(f"{key} is no seqno of the stream", record)

    # -- snapshots
    # -----------------------------------------------------------------------------------------

    def _snapshot(self, record: Record) -> None:
        one = self._heard.get(record["row"])
        snapshot = self._snapshots.get(self._rows.get(one.said, 0)) if one is not None else None
        if one is None or snapshot is None:
            self._no("a snapshot without a marker", record)
            return
        true = snapshot.record
        for key in MARKER_KEYS:
            if true[key] != record[key] and one.is_whole:
                self._no(f"{key} is {true[key]!r}", record)
        silent = {"open", "cut"} if self._numbers[record["connection"]] in self._silent else set()
        if record["state"] not in silent | {"unknown"} and true["state"] != record["state"]:
            self._no(f"the state is {true['state']}", record)
        if record["convention"] != "unknown" and true["convention"] != record["convention"]:
            self._no(f"the convention is {true['convention']}", record)
        of_stream = self._alike[id(self._truth.stream_of[snapshot.row])]
        others = [seqno for one in of_stream[1:] for seqno in one.seqnos]
        # what a replica sent under a marker that overlaps it, and is missing
        markers = {self._rows.get(one.said) for one in self._heard.values()}
        others += [
            seqno
            for one in of_stream[0].snapshots
            if one.row > snapshot.row and one.row not in markers
            for seqno in one.seqnos
        ]
        inside = [
            seqno for seqno in others if (snapshot.start or 0) <= seqno <= (snapshot.end or seqno)
        ]
        if record["items"] > true["items"] + len(inside):
            self._no(f"there were {true['items']} items", record)
        if one.is_whole and nanoseconds(record["time"]) < true["time"]:
            self._no("the marker came later", record)

    # -- gaps
    # ----------------------------------------------------------------------------------------------

    def _gap(self, record: Record) -> None:
        if not record["before_seqno"] > record["after_seqno"] + 1:
            self._no("a gap of nothing", record)
        is_either = (record["evidence"] or "").endswith("so they are de-duplicated or left out")
        if record["cause"] == "capture-loss" or is_either:
            return
        place = record["connection"], record["vbucket"], record["sid"], record["stream"]
        streams = self._streams.get(place, [])
        same = [
            gap
            for stream in self._truth.streams
            if stream.connection == self._numbers[record["connection"]]
            and (stream in streams or not streams)
            for gap in stream.gaps
            if (gap["after_seqno"], gap["before_seqno"])
            == (record["after_seqno"], record["before_seqno"])
        ]
        causes = {
            word
            for gap in same
            for one in (gap["cause"], gap["_alone"])
            for word in (one.values if isinstance(one, OneOf) else [one])
        }
        if "filtered" in causes and (
            place in self._implicit or self._numbers[record["connection"]] not in self._opened
        ):
            causes.add(
                "deduplicated"
            )  # that there was a filter, the request alone tells, or the open
        if {"invisible", "deduplicated"} <= causes:
            causes.add(
                "filtered"
            )  # both: of the other stream, which tells what is invisible, some is missing
        if record["cause"] not in causes:
            self._no(f"the truth is {[gap['cause'] for gap in same] or 'no such gap'}", record)

    # -- connections
    # ---------------------------------------------------------------------------------------

    def _connection(self, record: Record) -> None:
        number = self._numbers[record["connection"]]
        true = self._truth.connections[number - 1].record
        for key in ("client", "server"):
            if record[key] != true[key]:
                self._no(f"{key} is {true[key]}", record)
        for key in ("name", "agent", "role", "bucket", "window_bytes", "noop_interval_s"):
            if key == "window_bytes" and number in self._silent:
                continue  # it may have been asked for in what is missing without a trace
            if record[key] is not None and true[key] != record[key]:
                self._no(f"{key} is {true[key]}", record)
        if not set(record["features"] or ()) <= set(true["features"]):
            self._no(f"features are {true['features']}", record)
        for key, control in (record["controls"] or {}).items():
            known = true["controls"].get(key)
            if known is None or control["status"] not in (known["status"], None):
                self._no(f"controls are {true['controls']}", record)
        is_one_sided = len({packet.flow[2] for packet in self._capture.packets}) == 1
        if record["closed_by"] not in (true["closed_by"], None) and (
            is_one_sided or number not in self._silent
        ):
            self._no(f"closed by {true['closed_by']}", record)
        verdict = true["verdict"]
        allowed = {
            "unknown-capture",
            *(verdict.values if isinstance(verdict, OneOf) else [verdict]),
        }
        if record["starts"] == "mid-stream" and number - 1 in self._capture.ends:
            allowed.add("closed")  # nobody knows that it never was opened
        if true["verdict"] in ("streaming", "idle", "starved-by-flow-control"):
            allowed |= {"idle", "streaming"}
        if number in self._silent:
            return
        if record["verdict"] not in allowed:
            self._no(f"the verdict is {verdict}", record)
