"""A capture with a marker in every place where a name or a document can stand, and a search that
finds it in whatever form.
"""

from __future__ import annotations

import base64
import gzip
import re
import zlib
from pathlib import Path
from typing import Any

from dcpinspect.protocol.fields import Field, Slot
from dcpinspect.protocol.flatbuffer import encode_table
from dcpinspect.protocol.flex import encode_frames
from dcpinspect.protocol.layouts import layouts_of
from tests import builders
from tests.damage import Packet, Talk
from tests.encode import encode, encode_document, encode_snappy
from tests.tls.invented import Invented

CORE = "Wq7Marker"
"""What no other text has; two letters behind it say which place it is."""
PLACES = re.compile(CORE + r"([a-z]{2})")


def mark(place: str) -> str:
    """The marker of a place, which two letters name."""
    assert len(place) == 2
    return CORE + place


def _base64_forms() -> list[bytes]:
    """What base64 makes of the core, at each of the three places in a group of bytes, without what
    depends on its neighbours.
    """
    return [
        base64.b64encode(bytes(before) + CORE.encode())[(0, 2, 3)[before] : -4]
        for before in range(3)
    ]


FORMS = (
    CORE.encode(),
    CORE.encode().hex().encode(),
    CORE.encode().hex().upper().encode(),
    *_base64_forms(),
)
_GZIP = re.compile(rb"\x1f\x8b\x08")


def found(text: bytes) -> set[str]:
    """The places whose markers are in a text: plainly, as digits with or without blanks, letter by
    letter in a grid, as base64, packed.
    """
    places = {
        match.decode(errors="replace") for match in re.findall(rb"%b(..)" % CORE.encode(), text)
    }
    for name, form in zip(
        ("plain", "hex", "HEX", "base64", "base64", "base64"), FORMS, strict=True
    ):
        if name != "plain" and form in text:
            places.add(name)
    letters = b"".join(re.findall(rb"\('(.)'\)", text))  # of the byte grid
    if CORE.encode() in letters:
        places.add("grid")
    dumped = b"".join(re.findall(rb"(?<![0-9a-f])([0-9a-f]{2})(?![0-9a-f])", text))
    if CORE.encode().hex().encode() in dumped:
        places.add("dump")
    for packed in _GZIP.finditer(text):
        try:
            places |= found(gzip.decompress(text[packed.start() :]))
        except (OSError, EOFError, zlib.error):  # random bytes may look like a header
            continue
    return places


def flexible(data: bytes, frames: bytes) -> bytes:
    """A request with framing extras."""
    out = bytearray(data[:24] + frames + data[24:])
    out[0], out[2], out[3] = 0x08, len(frames), data[3]
    out[8:12] = (len(out) - 24).to_bytes(4, "big")
    return bytes(out)


def json_of(place: str, member: str = "name") -> bytes:
    return f'{{"{member}":"{mark(place)}"}}'.encode()


MAP = (
    f'{{"name":"{mark("ma")}","nodesExt":[{{"hostname":"{mark("mb")}.example"}}],"vBucketServerMap":'
    f'{{"serverList":["{mark("mc")}.example:11210","$HOST:11210"],"vBucketMap":{[[0, 1]] * 16}}}}}'
).encode()
MANIFEST = (
    f'{{"uid":"7","scopes":[{{"uid":"8","name":"{mark("na")}","collections":[{{"uid":"9","name":"{mark("nb")}","x":"{mark("nc")}"}}]}}]}}'
).encode()
ERROR = f'{{"error":{{"context":"{mark("ec")}","ref":"{mark("er")}"}}}}'.encode()


WISHES = (
    json_of("qa", "scope"),
    json_of("qb", "uid"),
    json_of("qc", "sid"),
    json_of("qd", "purge_seqno"),
    f'{{"collections":["9","{mark("qe")}",["{mark("qf")}"],9.5]}}'.encode(),
    f'{{"collections":["9"],"{mark("qg")}":{{"{mark("qh")}":"{mark("qi")}"}}}}'.encode(),
    f'{{"cts":{{"free_memory":"{mark("qj")}","{mark("qk")}":true}}}}'.encode(),
    f'{{"scope":"{mark("ql")}","scope":"8"}}'.encode(),
    f'"{mark("qm")}"'.encode(),
    mark("qn").encode(),
    b"\xff" + mark("qo").encode(),
)
"""Values of stream requests that have more than the protocol knows."""
WISHED = frozenset(
    {"qa", "qb", "qc", "qd", "qe", "qf", "qg", "qh", "qi", "qj", "qk", "ql", "qm", "qn", "qp"}
)
CONTROLS = (
    (mark("ya"), mark("yb")),
    ("set_priority", mark("yc")),
    ("backfill_order", f"sequential {mark('yd')}"),
    ("max_marker_version", "2.2"),
)
"""Controls, some of which the protocol does not know."""
CONTROLLED = frozenset({"ya", "yb", "yc", "yd"})
TEXTS_OF_COMMANDS = frozenset(f"z{letter}" for letter in "abcdefghijklmopqrstuv")
"""Places in commands of administration, which take texts that only some servers know."""


def _session(name: str, agent: bytes) -> list[tuple[int, bytes]]:
    """(side, message): what a client says first. The features are collections, snappy, xattrs and
    JSON.
    """
    features = [{"feature": number} for number in (0x12, 0x0A, 0x06, 0x0B)]
    return [
        (0, encode("hello", key=agent, opaque=1, features=features)),
        (1, encode("hello", side="response", opaque=1, features=features)),
        (0, builders.message(opcode=0x89, key=mark("bu").encode(), opaque=2)),
        (1, builders.message(magic=0x81, opcode=0x89, opaque=2)),
        (
            0,
            encode(
                "dcp_open",
                key=name,
                opaque=3,
                flags=["producer"],
                value=json_of("co", "consumer_name"),
            ),
        ),
        (1, encode("dcp_open", side="response", opaque=3)),
    ]


def _control(opaque: int, key: str, value: str, status: int = 0) -> list[tuple[int, bytes]]:
    refused = b"" if not status else ERROR
    answer = builders.message(
        magic=0x81, opcode=0x5E, opaque=opaque, specific=status, value=refused
    )
    return [(0, encode("dcp_control", key=key, value=value, opaque=opaque)), (1, answer)]


def _slots() -> tuple[Slot, ...]:
    """The table of a system event that begins a collection."""
    return next(
        item.slots
        for layout in layouts_of(0x5F, "request")
        for item in layout.value
        if isinstance(item, Field) and any(slot.name == "collection_name" for slot in item.slots)
    )


def _mutation(seqno: int, key: bytes, value: bytes, datatype: int = 0) -> bytes:
    return encode(
        "dcp_mutation",
        vbucket=7,
        opaque=0x20,
        by_seqno=seqno,
        cas=20 - seqno,
        key=key,
        value=value,
        datatype=datatype,
    )


def _stream() -> list[tuple[int, bytes]]:
    """A stream in which documents and collections come, and something is wrong with some."""
    key, opaque = mark("ke").encode(), 0x20
    inflated, bits = encode_document(
        json_of("va"), xattrs={mark("xn"): f'{{"a":"{mark("xv")}"}}'}, json=True, snappy=True
    )
    begin = builders.message(
        opcode=0x5F,
        specific=7,
        opaque=opaque,
        extras=(1).to_bytes(8, "big") + bytes(5),
        key=mark("ca").encode(),
        value=bytes(8) + bytes([0, 0, 0, 8, 0, 0, 0, 9]),
    )
    scope = builders.message(
        opcode=0x5F,
        specific=7,
        opaque=opaque,
        extras=(2).to_bytes(8, "big") + bytes([0, 0, 0, 3, 0]),
        key=mark("sc").encode(),
        value=bytes(8) + bytes([0, 0, 0, 8]),
    )
    named = encode_table(
        _slots(),
        {"manifest_uid": 3, "scope_id": 8, "collection_id": 10, "collection_name": mark("cf")},
    )
    extras = (3).to_bytes(8, "big") + bytes(4) + b"\2"
    flat = builders.message(
        opcode=0x5F, specific=7, opaque=opaque, extras=extras, key=mark("cb").encode(), value=named
    )
    documents = [
        _mutation(4, b"\x09" + key, inflated, bits),
        _mutation(5, b"\x09" + key, json_of("vb")),
        _mutation(5, b"\x09" + key, encode_snappy(json_of("vc")), 2),
        _mutation(9, b"\x7f" + key, b'{"a":' + json_of("vd"), 1),
        encode(
            "dcp_deletion",
            vbucket=7,
            opaque=opaque,
            by_seqno=10,
            cas=5,
            key=b"\x09" + key,
            value=json_of("ve"),
        ),
        _mutation(11, b"\x81\x01" + key, b"\xff" + json_of("vf"), 2),
    ]
    asked = encode(
        "dcp_stream_req",
        vbucket=7,
        opaque=opaque,
        start_seqno=0,
        end_seqno=(1 << 64) - 1,
        value='{"collections":["9"]}',
    )
    granted = encode(
        "dcp_stream_req", side="response", opaque=opaque, failover_log=[{"uuid": 1, "seqno": 0}]
    )
    marker = encode(
        "dcp_snapshot_marker",
        vbucket=7,
        opaque=opaque,
        start_seqno=0,
        end_seqno=12,
        snapshot_type=["memory", "checkpoint"],
    )
    elsewhere = encode(
        "dcp_stream_req", vbucket=9, opaque=0x21, start_seqno=0, end_seqno=(1 << 64) - 1
    )
    refused = builders.message(
        magic=0x81, opcode=0x53, specific=7, opaque=0x21, value=MAP, datatype=1
    )
    said = [
        (0, asked),
        (1, granted),
        (1, marker),
        *((1, one) for one in (begin, scope, flat, *documents)),
        (0, elsewhere),
        (1, refused),
    ]
    return [*said, *_wishes()]


def _wishes() -> list[tuple[int, bytes]]:
    """Stream requests with texts in their values, some of them refused."""
    out = []
    for number, (value, datatype) in enumerate(
        (*((wish, 0) for wish in WISHES), (encode_snappy(json_of("qp", "scope") * 3), 2))
    ):
        opaque, status = 0x40 + number, 4 * (number % 2)
        extras = bytes(16) + b"\xff" * 8 + bytes(24)
        request = builders.message(
            opcode=0x53, specific=7, opaque=opaque, extras=extras, value=value, datatype=datatype
        )
        answer = bytes(16) if not status else b""
        out += [
            (0, request),
            (
                1,
                builders.message(
                    magic=0x81, opcode=0x53, specific=status, opaque=opaque, value=answer
                ),
            ),
        ]
    return out


def _others() -> list[tuple[int, bytes]]:
    """Commands of all kinds, some with an answer, and some that nobody knows."""
    out: list[tuple[int, bytes]] = []

    def ask(
        opcode: int,
        *,
        key: str = "",
        value: bytes = b"",
        extras: bytes = b"",
        answer: bytes = b"",
        status: int = 0,
        datatype: int = 0,
    ) -> None:
        opaque = 0x100 + len(out)
        name = (b"\x09" if key.startswith("k") else b"") + mark(key).encode() if key else b""
        out.append(
            (
                0,
                builders.message(
                    opcode=opcode, key=name, value=value, extras=extras, opaque=opaque
                ),
            )
        )
        out.append(
            (
                1,
                builders.message(
                    magic=0x81,
                    opcode=opcode,
                    value=answer,
                    specific=status,
                    opaque=opaque,
                    datatype=datatype,
                ),
            )
        )

    path = mark("pa").encode()
    ask(0xB5, answer=MAP, datatype=1)
    ask(0xB5, answer=encode_snappy(MAP), datatype=3)
    ask(0xBA, answer=MANIFEST, datatype=1)
    ask(0xB9, value=MANIFEST)
    ask(0xBB, key="ga", answer=b"", extras=b"")
    ask(0xBB, value=f"{mark('gb')}.{mark('gc')}".encode())
    ask(0xBC, value=mark("gd").encode())
    ask(0x87, answer=mark("lb").encode() + b" " + mark("lc").encode())
    ask(0x85, key="cr", value=b"module=" + mark("cs").encode())
    ask(0x86, key="de", value=b"force=true")
    ask(0x10, key="st", answer=mark("sv").encode())
    out.append(
        (
            1,
            builders.message(
                magic=0x81,
                opcode=0x10,
                key=f"eq_dcpq:{mark('sn')}:type".encode(),
                value=mark("so").encode(),
            ),
        )
    )
    ask(0x3D, value=b'{"topology":[["' + mark("to").encode() + b'"]]}', extras=b"\1")
    ask(0x00, key="kb", answer=bytes(4) + json_of("vg"), datatype=1)
    ask(0x00, key="kc", answer=ERROR, status=0x24, datatype=1)
    ask(0x01, key="kd", value=json_of("vh"), extras=bytes(8))
    ask(
        0xC5,
        key="kf",
        value=path,
        extras=len(path).to_bytes(2, "big") + b"\0",
        answer=json_of("vi"),
    )
    ask(0xD0, key="kg", value=b"\xc5\x00" + len(path).to_bytes(2, "big") + path)
    ask(0x7E, key="un", value=json_of("uv"), extras=mark("ux").encode())
    ask(0xDA, value=json_of("ra", "range"))
    ask(0xF6, key="ix", value=json_of("iv", "host"), answer=json_of("iw", "host"))
    ask(0x27, value=json_of("au"), extras=bytes(4))
    ask(0xC6, value=json_of("dl", "bucket"))
    ask(0x21, value=b"\0" + mark("us").encode() + b"\0" + mark("pw").encode())
    ask(0x23, key="za")
    ask(0x24, key="zb", value=mark("zc").encode())
    ask(0x82, key="zd", value=mark("ze").encode(), extras=bytes(4))
    ask(0xAF, key="zf", value=b"{}")
    ask(0xE1, key="zg")
    ask(0xE3, key="zh", value=json_of("zi"))
    ask(0x3F, value=b"async=" + mark("zj").encode())
    ask(0x74, value=json_of("zk", "reset"))
    ask(0x75, value=json_of("zl", "term"))
    ask(0xE0, value=json_of("zm"))
    ask(0x93, key="kn", answer=mark("zo").encode())
    ask(0xF3, key="zp", extras=b"\1", answer=json_of("zq"))
    ask(0x20, answer=b"PLAIN " + mark("zr").encode() + b" SCRAM-SHA512")
    ask(0x21, key="zs")
    ask(0x2A, key="zt", value=json_of("zu"))
    for name in (
        b"PLAIN",
        b"list",
        b"tls",
    ):  # words that the protocol knows, some of them in another command's place
        out += [
            (0, builders.message(opcode=opcode, key=name, opaque=0x1FC)) for opcode in (0x21, 0xAF)
        ]
    user = encode_frames(
        [(4, mark("im").encode()), (9, mark("fr").encode()), (6, mark("zv").encode())]
    )
    out.append(
        (
            0,
            flexible(
                builders.message(opcode=0x00, key=b"\x09" + mark("kh").encode(), opaque=0x1FE), user
            ),
        )
    )
    for opcode, key, value in (
        (0x01, "pb", MAP),
        (0x03, "", b'["' + mark("ex").encode() + b'"]'),
        (0x04, "ge", b""),
    ):
        extras = bytes(16) if opcode == 0x01 else b""
        out.append(
            (
                1,
                builders.message(
                    magic=0x82,
                    opcode=opcode,
                    key=mark(key).encode() if key else b"",
                    value=value,
                    extras=extras,
                ),
            )
        )
    return out


def marked(path: Path) -> Path:
    """Two connections, the second with the name of the first, of which one ends in bytes that are
    no message; and one of TLS.
    """
    name = f"eq_dcpq:{mark('nm')}:7"
    talks = []
    for port, agent in (
        (50_001, mark("ag").encode()),
        (50_002, f'{{"a":"{mark("aj")}","i":"{mark("ai")}"}}'.encode()),
    ):
        talk = Talk(port, start_ns=builders.START_NS + port)
        said = (
            _session(name, agent)
            + _control(4, "consumer_name", mark("cn"))
            + _control(5, "set_priority", "none", 4)
        )
        for number, (key, value) in enumerate(CONTROLS):
            said += _control(6 + number, key, value, 4 * (number % 2))
        said += [
            *_stream(),
            *(_others() if port == 50_001 else ()),
            (0, encode("dcp_open", key=f"{mark('nx')}", opaque=99, flags=["producer"])),
        ]
        said.append(
            (
                1,
                builders.message(
                    magic=0x81, opcode=0x50, specific=2, opaque=99, value=ERROR, datatype=1
                ),
            )
        )
        talk.handshake()
        for side, data in said:
            talk.stream(side, data)
        if port == 50_001:
            talk.stream(1, b"junk " + mark("ju").encode() * 40)
        talks.append(talk.packets)
    hidden = Talk(50_003, start_ns=builders.START_NS, server_port=11_207)
    hidden.handshake()
    for side, data in Invented(host=f"{mark('tl')}.example".encode()).writes:
        hidden.stream(side, data)
    talks.append(hidden.packets)
    path.write_bytes(builders.pcap(_recorded(packet) for talk in talks for packet in talk))
    return path


def _recorded(packet: Packet) -> Any:
    return builders.Recorded(packet.data, packet.wire, packet.time_ns)
