"""The forms in which a message can be copied, besides the field under the cursor."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import orjson

from dcpinspect.output.export.json import message_object, steered
from dcpinspect.tables.messages import MessageBatch

FORMS: Mapping[str, str] = {
    "json": "JSON, as export writes it",
    "hex": "its bytes, in hex",
    "tshark": "a tshark command that shows its packets",
}
"""Names of the forms, and their titles."""

_PORTS = ("11210", "11207")
"""Ports for which Wireshark decodes the protocol without being told."""


def copied(form: str, batch: MessageBatch) -> str:
    """Returns the only message of ``batch`` in one of the forms."""
    if form == "json":
        return steered(orjson.dumps(message_object(batch, 0), option=orjson.OPT_INDENT_2)).decode()
    if form == "hex":
        return (batch.bytes_of(0) if batch.redactor is None else batch.annotate(0).data).hex()
    return tshark(batch)


def conversation(batch: MessageBatch) -> str:
    """Returns a filter for the conversation of the only message of ``batch``: the messages of its
    stream, else all of its connection.
    """
    where = f"connection = {int(batch.connection[0])}"
    vbucket = batch.vbucket_of(0)
    if vbucket is None:
        return where
    return f"{where} and vbucket = {vbucket} and opaque = {int(batch.decoded.opaque[0])}"


def tshark(batch: MessageBatch) -> str:
    """Returns a command that shows the packets that carried the only message of ``batch``."""
    first, last = int(batch.frame[0]), int(batch.last_frame[0])
    connection = int(batch.connection[0]) - 1
    client, server = (
        side[connection].rpartition(":")[2]
        for side in (batch.endpoints.client, batch.endpoints.server)
    )
    if batch.file[0] != batch.last_file[0]:
        first = last  # the packets before the last one are in another file
    frames = (
        f"frame.number == {last}"
        if first == last
        else f"frame.number >= {first} && frame.number <= {last} && tcp.port == {client}"
    )
    name = batch.files[int(batch.last_file[0])]
    decode = [] if server in _PORTS else ["-d", f"tcp.port=={server},couchbase"]
    return shlex.join(["tshark", "-r", name, *decode, "-V", "-Y", frames])
