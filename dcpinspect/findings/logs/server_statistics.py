"""Reads what ``cbstats`` and ``mcstat`` print, as text or JSON: streams of DCP, failover logs, and
seqnos of vbuckets.

cbstats HOST:11210 -b BUCKET dcp | failovers | vbucket-seqno | vbucket-details
mcstat … dcp | failovers | vbucket-seqno
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from dcpinspect.findings.logs.log_events import LogEvent
from dcpinspect.findings.logs.log_lines import json_object
from dcpinspect.lazy_dataclass import dataclass

MOST_BRANCHES = 1024
"""Greatest number of branches of a vbucket; servers keep 25."""
MOST_STREAMS = 1 << 16
"""Greatest number of streams of a bucket whose statistics are gathered."""
MOST_ENTRIES = 1 << 18
"""Greatest number of branches of all vbuckets of a bucket."""
_BRANCH = re.compile(r"vb_(\d{1,5}):(\d{1,4}):(id|seq):?\s+\"?(\d{1,20})\"?")
_SEQNO = re.compile(r"vb_(\d{1,5}):(high_seqno|purge_seqno|uuid):?\s+\"?(\d{1,20})\"?")
_STREAM = re.compile(r"(.{1,400}?):stream_(\d{1,5})_([a-z_]{1,40}):?\s+(\S.{0,200})")
_STREAM_JSON = re.compile(r"(.{1,400}?):stream_(\d{1,5}):?\s+(\{.*\})", re.DOTALL)
_NUMBER = re.compile(r"[0-9]{1,20}")
_BUCKET = re.compile(r"[A-Za-z0-9_.%-]{1,100}")
_STARS = re.compile(r"\*{20,}")
_UNTOLD = re.compile(
    r"(?:vb_\d{1,5}:(?!high_seqno|purge_seqno|uuid)[a-z_]{1,60}|ep_[a-z_]{1,60}):?\s+\S{1,100}"
)
_OF_VBUCKET = {"high_seqno": "high_seqno", "purge_seqno": "purge_seqno", "uuid": "vbucket_uuid"}
_OF_STREAM = {
    "start_seqno": "start_seqno",
    "end_seqno": "end_seqno",
    "vb_uuid": "vbucket_uuid",
    "snap_start_seqno": "snapshot_start",
    "snap_end_seqno": "snapshot_end",
    "last_sent_seqno": "last_seqno",
}


@dataclass(slots=True)
class Statistics:
    """Gathers the statistics of one file, bucket by bucket."""

    file: str
    _bucket: str | None = None
    _is_title: bool = False
    """Whether the line before consisted of stars, so that this one names a bucket."""
    _entries: int = 0
    _first: dict[tuple[str, int], int] = field(default_factory=dict)
    _branches: dict[int, dict[int, dict[str, int]]] = field(default_factory=dict)
    _seqnos: dict[int, dict[str, Any]] = field(default_factory=dict)
    _streams: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)

    def take(self, number: int, raw: bytes) -> Iterator[LogEvent] | None:
        """Takes a line; returns None if it belongs to no statistics, or else the records of a
        bucket that ends with it.
        """
        text = raw.decode("utf-8", "surrogateescape").strip()
        if _STARS.fullmatch(text):
            self._is_title = True
            return iter(())
        if self._is_title:
            self._is_title = False
            if _BUCKET.fullmatch(text):
                done = list(self.finish())
                self._bucket = text
                return iter(done)
        return iter(()) if self._entry(number, text) else None

    def _entry(self, number: int, text: str) -> bool:
        if matched := _BRANCH.fullmatch(text):
            vbucket, index, value = int(matched[1]), int(matched[2]), int(matched[4])
            if (
                vbucket > 0xFFFF
                or index >= MOST_BRANCHES
                or value >= 2**64
                or self._entries >= MOST_ENTRIES
            ):
                return False
            self._entries += 1
            self._first.setdefault(("failover-log", vbucket), number)
            self._branches.setdefault(vbucket, {}).setdefault(index, {})[matched[3]] = value
            return True
        if matched := _SEQNO.fullmatch(text):
            vbucket, value = int(matched[1]), int(matched[3])
            if vbucket > 0xFFFF or value >= 2**64:
                return False
            self._first.setdefault(("vbucket-seqnos", vbucket), number)
            self._seqnos.setdefault(vbucket, {})[_OF_VBUCKET[matched[2]]] = value
            return True
        if matched := _STREAM.fullmatch(text):
            return self._of_stream(
                number, matched[1], int(matched[2]), matched[3], matched[4].strip('"')
            )
        if matched := _STREAM_JSON.fullmatch(text):
            values = json_object(matched[3])
            return values is not None and all(
                self._of_stream(number, matched[1], int(matched[2]), key, str(value))
                for key, value in values.items()
            )
        return _UNTOLD.fullmatch(text) is not None

    def _of_stream(self, number: int, name: str, vbucket: int, key: str, value: str) -> bool:
        column = "state" if key == "state" else _OF_STREAM.get(key)
        if vbucket > 0xFFFF:
            return False
        if column is None:
            return True  # because it belongs to a stream, but no column holds it
        if column != "state" and not (_NUMBER.fullmatch(value) and int(value) < 2**64):
            return False
        if (name, vbucket) not in self._streams and len(self._streams) >= MOST_STREAMS:
            return False
        stream_values = self._streams.setdefault((name, vbucket), {"line": number})
        stream_values[column] = value if column == "state" else int(value)
        return True

    def finish(self) -> Iterator[LogEvent]:
        """Yields the records of everything that was gathered, and forgets it."""
        for vbucket, branches in sorted(self._branches.items()):
            log = [
                (branch["id"], branch["seq"])
                for _, branch in sorted(branches.items())
                if len(branch) == 2
            ]
            if len(log) == len(branches) and sorted(branches) == list(range(len(log))):
                yield LogEvent(
                    self.file,
                    self._first["failover-log", vbucket],
                    "failover-log",
                    bucket=self._bucket,
                    vbucket=vbucket,
                    vbucket_uuid=log[0][0],
                    failover_log=log,
                )
        for vbucket, values in sorted(self._seqnos.items()):
            yield LogEvent(
                self.file,
                self._first["vbucket-seqnos", vbucket],
                "vbucket-seqnos",
                bucket=self._bucket,
                vbucket=vbucket,
                **values,
            )
        for (name, vbucket), stream_values in self._streams.items():
            yield LogEvent(
                self.file,
                event="stream-state",
                bucket=self._bucket,
                name=name,
                vbucket=vbucket,
                **stream_values,
            )
        self._entries = 0
        for gathered in (self._first, self._branches, self._seqnos, self._streams):
            gathered.clear()

    def take_document(self, document: Any) -> bool:
        """Takes the JSON of ``mcstat -j`` and ``cbstats -j``; returns False for any other."""
        if not isinstance(document, dict):
            return False
        is_known = False
        for key, value in document.items():
            entries = (
                {f"{key}_{inner}": member for inner, member in value.items()}
                if isinstance(value, dict)
                else {key: value}
            )
            for name, member in entries.items():
                if isinstance(member, (int, str)):
                    is_known |= self._entry(1, f"{name} {member}".strip())
        return is_known
