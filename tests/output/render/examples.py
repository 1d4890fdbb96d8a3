"""The seed documents' examples as printed, and messages that show what the documents have no
example of.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.message import Context, Message
from tests.encode import encode, encode_document

_FILE = Path(__file__).parent / "seed_examples.txt"


@dataclass(frozen=True)
class Printed:
    """One example of a document."""

    id: str
    """Of the vector that holds its bytes."""
    grid: list[str]
    title: str
    rows: list[str]
    """Lines of the field table, heading aside."""


def _printed() -> list[Printed]:
    found = []
    for part in _FILE.read_text("utf-8").split("=== ")[1:]:
        name, *lines = part.splitlines()
        at = next(
            number for number, line in enumerate(lines) if line.endswith((" command", " response"))
        )
        found.append(Printed(name, lines[:at], lines[at].strip(), lines[at + 2 :]))
    return found


PRINTED = _printed()


def squeezed(line: str) -> str:
    """A line without the width of its columns, which one document lost."""
    return " ".join(line.split()).replace(" |", "|").replace("| ", "|")


_VALUE, _DATATYPE = encode_document(
    b'{"id": 10, "type": "airline", "name": "' + b"x" * 60 + b'"}',
    xattrs={"_sync": '{"rev":"3-a"}', "meta": '{"n":1}'},
    json=True,
    snappy=True,
)

SHOWN: dict[str, Message] = {
    "xattrs-snappy": annotate(
        encode(
            "dcp_mutation",
            vbucket=417,
            opaque=17,
            cas=0x17C39A1022010007,
            collection=8,
            key="airline_10",
            value=_VALUE,
            datatype=_DATATYPE,
            by_seqno=17,
            rev_seqno=3,
            expiration=1_712_381_677,
        ),
        context=Context("on"),
    ),
    "flex-frames": annotate(
        encode(
            "dcp_mutation",
            vbucket=5,
            frames=[(2, b"\x00\x2a"), (1, b"\x03\x03\xe8"), (9, b"?")],
            key="k",
            value=b"v",
            by_seqno=1,
        ),
        context=Context("off"),
    ),
    "cache-transfer": annotate(
        encode(
            "dcp_cache_transfer",
            vbucket=5,
            items=[
                {
                    "cas": 0x17C39A1022010007,
                    "rev_seqno": 2,
                    "by_seqno": 9,
                    "key": b"\x08hello",
                    "value": b"world",
                },
                {"by_seqno": 10, "key": b"\x00bye"},
            ],
        ),
        context=Context("on"),
    ),
    "sasl": annotate(encode("sasl_auth", opaque=2, key="PLAIN", value=b"\0user\0secret")),
    "hole": annotate(
        encode("dcp_mutation", vbucket=1, key="key", value=b"begin\0\0\0\0end", by_seqno=2),
        context=Context("off"),
        missing=[(63, 67)],
    ),
    "cut": annotate(
        encode("dcp_mutation", vbucket=1, key="key", value=b"a value that goes on", by_seqno=2)[
            :66
        ],
        context=Context("off"),
    ),
    "flatbuffer-event": annotate(
        encode(
            "dcp_system_event",
            generation="v2",
            event=0,
            version=2,
            vbucket=5,
            by_seqno=7,
            key="beers",
            manifest_uid=4,
            scope_id=8,
            collection_id=9,
            max_ttl=3600,
        )
    ),
    "marker-v2.2": annotate(
        encode(
            "dcp_snapshot_marker",
            generation="v2.2",
            vbucket=5,
            start_seqno=1,
            end_seqno=2**63,
            snapshot_type=["disk", "checkpoint"],
            purge_seqno=1,
        )
    ),
}
"""A message by what it shows; a golden file each."""
