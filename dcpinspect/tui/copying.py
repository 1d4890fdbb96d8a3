"""The forms in which a message can be copied, besides the field under the cursor."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from dcpinspect.output.export.json import message_object, steered
from dcpinspect.tables.messages import MessageBatch

FORMS: Mapping[str, str] = {
    "json": "JSON, as export writes it",
    "hex": "its bytes, in hex",
}
"""Names of the forms, and their titles."""


def copied(form: str, batch: MessageBatch) -> str:
    """Returns the only message of ``batch`` in one of the forms."""
    if form == "json":
        return steered(orjson.dumps(message_object(batch, 0), option=orjson.OPT_INDENT_2)).decode()
    return (batch.bytes_of(0) if batch.redactor is None else batch.annotate(0).data).hex()


def conversation(batch: MessageBatch) -> str:
    """Returns a filter for the conversation of the only message of ``batch``: the messages of its
    stream, else all of its connection.
    """
    where = f"connection = {int(batch.connection[0])}"
    vbucket = batch.vbucket_of(0)
    if vbucket is None:
        return where
    return f"{where} and vbucket = {vbucket} and opaque = {int(batch.decoded.opaque[0])}"
