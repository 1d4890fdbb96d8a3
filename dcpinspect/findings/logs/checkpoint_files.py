"""Checkpoints of consumers that keep them as JSON: where each would resume every vbucket.

| consumer | what is read | source |
| --- | --- | --- |
| Kafka connector | ``GET /connectors/NAME/offsets``; lines of ``kafka-console-consumer``, key and value | SourceOffset.java |
| Elasticsearch connector | ``cbes-checkpoint-backup``; the xattr ``cbes`` of its documents | CheckpointBackup.java |
| go-dcp and what is built on it | its file; the xattr ``cbgo`` of its documents | models/type.go |
| Sync Gateway | ``_sync:dcp_ck:`` documents, with ``DCPMeta``; those of cbgt by key | dcp_client_metadata.go, cbgt_checkpoint.go |
| Java DCP client | the session's state | SessionStateSerializer.java |

Documents that stand for one vbucket are read as an object of documents by their keys, or one a line
with ``key`` or ``id``.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from dcpinspect.errors import CaptureError
from dcpinspect.findings.logs.log_lines import TextFile
from dcpinspect.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor

MOST_DOCUMENT = 16 << 20
"""Greatest size of a file in bytes; a checkpoint of 1,024 vbuckets has 200 kB."""
MOST_CHECKPOINTS = 1 << 20
_DEEPEST = 4
"""Greatest number of objects around a checkpoint."""
_KEY = re.compile(r".*:(?:checkpoint:|dcp_ck:(?:.*:)?)(\d{1,5})(?:#.*)?", re.DOTALL)
"""The key of a document, with its vbucket; what follows a # only moves it to its vbucket."""
_MASK = 2**64 - 1
_Values = tuple[str, int, Sequence[int], str | None]
"""Consumer, vbucket, numbers and bucket of a ``Checkpoint``."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where a consumer would resume a vbucket."""

    file: str
    consumer: str
    """The consumer that writes checkpoints of this form."""
    vbucket: int
    seqno: int
    uuid: int
    """Uuid of the branch; 0 if the consumer names no branch."""
    snapshot_start: int
    snapshot_end: int
    bucket: str | None = None

    def redacted(self, redactor: Redactor) -> Checkpoint:
        """Returns the checkpoint with a substitute for the name of the bucket."""
        return self if self.bucket is None else replace(self, bucket=redactor.text(self.bucket))

    @property
    def is_in_snapshot(self) -> bool:
        """Whether the seqno is in the snapshot, which servers demand."""
        return self.snapshot_start <= self.seqno <= self.snapshot_end


class UnreadableError(ValueError):
    """Raised if a value in a checkpoint is not what it has to be."""


def read_checkpoints(path: str) -> list[Checkpoint]:
    """Returns all checkpoints of a file. Raises CaptureError if it has none that can be read."""
    with TextFile(path) as file:
        text = file.whole(MOST_DOCUMENT)
        if file.problem is not None:
            raise CaptureError(path, file.problem)
    checkpoints: list[Checkpoint] = []
    try:
        for document in _documents(path, text):
            checkpoints += (
                Checkpoint(path, consumer, vbucket, seqno, uuid, start, end, bucket)
                for consumer, vbucket, (seqno, uuid, start, end), bucket in _checkpoints_in(
                    document, None, _DEEPEST
                )
            )
            if len(checkpoints) > MOST_CHECKPOINTS:
                raise CaptureError(path, f"has more than {MOST_CHECKPOINTS:,} checkpoints")
    except UnreadableError as error:
        raise CaptureError(path, str(error)) from error
    if not checkpoints:
        raise CaptureError(
            path, "has no checkpoint in a form that is known", "docs/logs.md has the forms"
        )
    return checkpoints


def _documents(path: str, text: bytes) -> Iterator[Any]:
    """Yields the only document, or one a line; a key, a tab and a value are a pair."""
    text = text.removeprefix(codecs.BOM_UTF8)
    try:
        yield orjson.loads(text)
        return
    except orjson.JSONDecodeError as error:
        first = error
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield (
                [orjson.loads(piece) for piece in line.split(b"\t", 1)]
                if b"\t" in line
                else orjson.loads(line)
            )
        except orjson.JSONDecodeError as error:
            where = first if number == 1 else error
            raise CaptureError(path, f"line {number} is no JSON ({where.msg})") from error


def _checkpoints_in(document: Any, vbucket: int | None, deepest: int) -> Iterator[_Values]:
    """Yields the checkpoints in a document. ``vbucket``: the vbucket that they belong to, as far as
    the objects around it say.
    """
    read = _form(document)
    if read is not None:
        yield from read(document, vbucket)
    elif deepest and isinstance(document, list):
        for element in document:
            yield from _checkpoints_in(element, vbucket, deepest - 1)
    elif deepest and isinstance(document, dict):
        named_vbucket = _named(document, vbucket)
        for key, member in document.items():
            yield from _checkpoints_in(member, _in_key(key, named_vbucket), deepest - 1)


def _form(document: Any) -> Callable[[Any, int | None], Iterator[_Values]] | None:
    """Returns what reads a document of a form that is known; None for all others."""
    if isinstance(document, list):
        return _kafka if len(document) == 2 and _is_partition(document[0]) else None
    if not isinstance(document, dict):
        return None
    if "offset" in document and isinstance(document.get("partition"), dict):
        return _kafka
    if isinstance(document.get("DCPMeta"), dict):
        return _sync_gateway
    if isinstance(document.get("ps"), list) and "v" in document:
        return _java
    if "seqStart" in document and "failOverLog" in document:
        return _cbgt
    if isinstance(document.get("checkpoint"), dict) and "seqno" in document["checkpoint"]:
        return _go_dcp
    if document.get("formatVersion") is not None and isinstance(document.get("vbuckets"), dict):
        return _elasticsearch
    return None


def _is_partition(key: Any) -> bool:
    return (
        isinstance(key, list)
        and len(key) == 2
        and isinstance(key[1], dict)
        and "partition" in key[1]
    )


def _named(document: Mapping[str, Any], vbucket: int | None) -> int | None:
    """Returns the vbucket that a query's row names by its document's key, or else ``vbucket``."""
    for name in ("key", "id", "_id"):
        if isinstance(document.get(name), str):
            return _in_key(document[name], vbucket)
    return vbucket


def _in_key(key: str, otherwise: int | None) -> int | None:
    if key.isascii() and key.isdecimal() and len(key) <= 5:
        return _vbucket(key)
    matched = _KEY.fullmatch(key)
    return _vbucket(matched[1]) if matched else otherwise


def _vbucket(name: Any) -> int:
    text = str(name) if isinstance(name, (int, str)) else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= 0xFFFF):
        raise UnreadableError("a checkpoint is of a vbucket that is no number from 0 to 65535")
    return int(text)


def _number(document: Any, *path: str, otherwise: int | None = None) -> int:
    """Returns a number of 64 bits. Java's consumers store 2**63 and more as negative numbers."""
    value = document
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None and otherwise is not None:
        return otherwise
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**64:
        raise UnreadableError(
            f"{'.'.join(path)} of a checkpoint is missing, or no number of 64 bits"
        )
    return value & _MASK


def _numbers(document: Any, *paths: str) -> list[int]:
    """Returns the numbers at these paths of members, which are joined by dots."""
    return [_number(document, *path.split(".")) for path in paths]


def _known(vbucket: int | None, of_whom: str = "") -> int:
    if vbucket is None:
        raise UnreadableError(
            f"a checkpoint {of_whom}does not say of which vbucket it is; give an object of such "
            "documents by key"
        )
    return vbucket


def _kafka(document: Any, _: int | None) -> Iterator[_Values]:
    is_pair = isinstance(document, list)
    partition = document[0][1] if is_pair else document["partition"]
    offset = document[1] if is_pair else document["offset"]
    if offset is None:
        return  # because the offset was deleted
    vbucket, seqno = _vbucket(partition.get("partition")), _number(offset, "bySeqno")
    uuid = _number(offset, "vbuuid", otherwise=0)
    start = _number(offset, "snapshotStartSeqno", otherwise=seqno)
    end = _number(offset, "snapshotEndSeqno", otherwise=seqno)
    bucket = partition.get("bucket")
    known_bucket = bucket if isinstance(bucket, str) else None
    yield "Kafka connector", vbucket, (seqno, uuid, start, end), known_bucket


_WITH_UUID = "seqno", "vbuuid", "snapshot.startSeqno", "snapshot.endSeqno"


def _elasticsearch(document: Any, _: int | None) -> Iterator[_Values]:
    for name, checkpoint in document["vbuckets"].items():
        yield "Elasticsearch connector", _vbucket(name), _numbers(checkpoint, *_WITH_UUID), None


def _go_dcp(document: Any, vbucket: int | None) -> Iterator[_Values]:
    known_vbucket, consumer = _known(vbucket), "Elasticsearch connector or go-dcp"
    yield consumer, known_vbucket, _numbers(document["checkpoint"], *_WITH_UUID), None


def _sync_gateway(document: Any, _: int | None) -> Iterator[_Values]:
    for name, meta in document["DCPMeta"].items():
        numbers = _numbers(meta, "StartSeqNo", "VbUUID", "SnapStartSeqNo", "SnapEndSeqNo")
        yield "Sync Gateway", _vbucket(name), numbers, None


def _cbgt(document: Any, vbucket: int | None) -> Iterator[_Values]:
    known_vbucket, log = _known(vbucket, "of cbgt "), document["failOverLog"]
    uuid = log[0][0] if isinstance(log, list) and log and isinstance(log[0], list) and log[0] else 0
    members = "seqStart", "failOverLog", "snapStart", "snapEnd"
    yield "cbgt", known_vbucket, _numbers({**document, "failOverLog": uuid}, *members), None


def _java(document: Any, _: int | None) -> Iterator[_Values]:
    for vbucket, state in enumerate(document["ps"]):
        log = state.get("flog") if isinstance(state, dict) else None
        uuid = _number(log[0], "uuid") if isinstance(log, list) and log else 0
        seqno, start, end = _numbers(state, "ss", "sss", "ses")
        yield "Java DCP client", _vbucket(vbucket), (seqno, uuid, start, end), None
