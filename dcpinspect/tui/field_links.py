"""Links of fields: from answer to request, from item to marker, and to the item before."""

from __future__ import annotations

from typing import Literal

from dcpinspect.protocol.opcodes import Trait
from dcpinspect.protocol.roles import opcodes_with
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import MessageBatch

Link = Literal["request", "answer", "stream", "marker", "previous"]

_HAS_SEQNO = opcodes_with(Trait.SEQNO)
_OF_STREAM = opcodes_with(Trait.COUNTED | Trait.UNANSWERED)

WORDS: dict[Link, str] = {
    "request": "the request",
    "answer": "the answer",
    "stream": "the stream request",
    "marker": "the snapshot marker",
    "previous": "the version before",
}
"""What each kind of link leads to, in words."""


def links_of(batch: MessageBatch) -> dict[str, Link]:
    """Returns the links of the only message of ``batch``, by path of the field."""
    decoded = batch.decoded
    opcode = int(decoded.opcode[0])
    if decoded.is_response[0]:
        return {"opaque": "request"} if batch.request_row.value_at(0) is not None else {}
    links: dict[str, Link] = {"opaque": "stream" if _OF_STREAM[opcode] else "answer"}
    if _HAS_SEQNO[opcode]:
        links["by_seqno"] = "marker"
        if batch.key_of(0) is not None:
            links["key"] = links["key/logical_key"] = "previous"
    return links


def target(store: Store, row: int, link: Link) -> int | None:
    """Returns the row that a link of a message leads to; None if the capture does not have that
    message. May search the whole store.
    """
    batch = store.messages([row])
    if link == "request":
        return batch.request_row.value_at(0)
    if link == "answer":
        return next(iter(_matching(store, f"request_row = {row}")), None)
    where = f"connection = {int(batch.connection[0])} and row < {row}"
    vbucket = batch.vbucket.value_at(0)
    if vbucket is not None:
        where += f" and vbucket = {vbucket}"
    if link == "stream":
        where += (
            " and name = 'dcp_stream_req' and side = 'request' and opaque = "
            f"{int(batch.decoded.opaque[0])}"
        )
    elif link == "marker":
        sid = batch.decoded.sid.value_at(0)
        where += " and name in ('dcp_snapshot_marker', 'dcp_oso_snapshot')" + (
            f" and sid = {sid}" if sid is not None else ""
        )
    else:
        key = batch.key_of(0)
        assert key is not None, "only a message with a key has a version before it"
        where += f" and key_bytes = x'{key.hex()}'"
        collection = batch.decoded.collection_id.value_at(0)
        if collection is not None:
            where += f" and collection_id = {collection}"
    return next(reversed(_matching(store, where)), None)


def _matching(store: Store, where: str) -> list[int]:
    rows: list[int] = store.matching(FilterRows(parse_filter(where))).tolist()
    return rows
