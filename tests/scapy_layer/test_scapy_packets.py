"""Every message both ways through Scapy's packets, and nothing else than the table says."""

from __future__ import annotations

import pickle
import re
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from scapy.fields import RawVal
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Padding, Raw
from scapy.supersocket import StreamSocket
from scapy.utils import PcapReader
from scapy.volatile import RandShort

from dcpinspect import scapy_layer
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.layouts import LAYOUTS
from dcpinspect.protocol.message import FieldValue
from dcpinspect.scapy_layer import (
    DCP,
    DcpControl,
    DcpDeletion,
    DcpFrameDurability,
    DcpFrameStreamId,
    DcpMutation,
    DcpMutation_upr,
    DcpNoop,
    DcpNoopResponse,
    DcpOpen,
    DcpSnapshotMarker,
    DcpStreamEnd,
    DcpStreamReq,
    DcpStreamReqResponse,
    DcpSystemEvent,
    McbpError,
    McbpHello,
    McbpSaslAuth,
    McbpSetCtrlToken,
    McbpSubdocGet,
    McbpSubdocMultiLookup,
    MessageBody,
)
from dcpinspect.scapy_layer.scapy_fields import RecordsField
from dcpinspect.scapy_layer.scapy_packets import MAX_MESSAGES, MESSAGES
from tests.catalogue import each
from tests.encode import encode
from tests.peers.truth import SAMPLES
from tests.protocol.strategies import messages
from tests.protocol.vectors import ALL, Vector
from tests.scenarios.test_vectors import SOUND

LENGTHS = ("key_length", "extras_length", "total_body_length", "framing_extras_length")


def forgotten(packet: Packet) -> Packet:
    """The packet without the bytes that it was dissected from."""
    packet.clear_cache()
    return packet


def without_lengths(packet: Packet) -> Packet:
    """The packet with all lengths to be computed again."""
    for name in LENGTHS:
        packet.fields.pop(name, None)
    return forgotten(packet)


def shown(packet: Packet) -> str:
    """What ``show`` prints."""
    return str(packet.show(dump=True))


def fits(data: bytes) -> bool:
    """Whether a layout describes every section of a message."""
    return isinstance(DCP(data).payload, MessageBody)


@each("vector", ALL)
def test_every_vector_is_the_same_bytes_again(vector: Vector) -> None:
    for data in (vector.literal, vector.data):
        assert bytes(DCP(data)) == data
        assert bytes(forgotten(DCP(data))) == data


def is_counted(vector: Vector) -> bool:
    """Whether the lengths in its header are right; those of the message with a known fault are
    wrong on purpose.
    """
    return all(problem.rule != "undeclared-stream-id" for problem in vector.annotate().problems)


@each("vector", [one for one in SOUND if fits(one.data) and is_counted(one)])
def test_the_lengths_of_every_sound_vector_are_computed(vector: Vector) -> None:
    assert bytes(without_lengths(DCP(vector.data))) == vector.data


def test_nearly_every_vector_has_a_layout_that_fits() -> None:
    strangers = {vector.id for vector in SOUND if not fits(vector.data)}
    assert strangers == {vector.id for vector in SOUND if _is_unfit(vector)}


def _is_unfit(vector: Vector) -> bool:
    message = vector.annotate()
    raw = {"extras", "body"} & {field.name for field in message.fields}
    rules = {problem.rule for problem in message.problems}
    return (
        message.layout is None
        or bool(raw)
        or bool(rules & {"value-length", "unexpected-section", "system-event-length"})
    )


def _flat(fields: list[FieldValue]) -> dict[str, int]:
    out = {}
    for field in fields:
        if (
            isinstance(field.value, int | str)
            and field.spec is not None
            and field.spec.kind.size
            and not field.group
        ):
            out[field.name] = (
                int(field.value, 16) if isinstance(field.value, str) else int(field.value)
            )
    return out


@each("vector", [vector for vector in ALL if fits(vector.data)])
def test_numbers_are_those_that_every_other_reading_gives(vector: Vector) -> None:
    packet = DCP(vector.data)
    theirs: dict[str, Any] = {}
    for layer in (packet, packet.payload):
        theirs |= {
            name: layer.getfieldval(name) for name in [field.name for field in layer.fields_desc]
        }
    ours = _flat(vector.annotate().fields)
    assert {name: int(theirs[name if name in theirs else f"{name}_"]) for name in ours} == ours


@each("name", sorted(MESSAGES))
def test_every_layout_builds_what_is_dissected_to_the_layout_that_the_reader_chooses(
    name: str,
) -> None:
    kind = MESSAGES[name]
    fields: dict[str, Any] = {"event": 99} if kind.layout.generation == "unknown" else {}
    data = bytes(DCP() / kind(**fields))
    packet = DCP(data)
    assert bytes(without_lengths(packet)) == data
    message = annotate(data)
    assert isinstance(packet.payload, MessageBody)
    assert packet.payload.layout is message.layout
    assert (message.header.opcode, message.header.side) == (kind.layout.opcode, kind.layout.side)  # type: ignore[union-attr] # whole


def test_every_layout_has_a_class_of_its_own() -> None:
    assert {id(kind.layout) for kind in MESSAGES.values()} == {id(layout) for layout in LAYOUTS}


@given(messages.filter(bool))
def test_any_bytes_are_dissected_and_built_again(data: bytes) -> None:
    assert bytes(DCP(data)) == data
    assert bytes(forgotten(DCP(data))) == data
    text = shown(DCP(data)) + DCP(data).summary() + repr(DCP(data))
    assert all(line.isprintable() for line in text.splitlines())


def test_fields_are_written_where_the_encoder_writes_them() -> None:
    packet = DCP(vbucket=5, opaque=0x11, cas=7, datatype="json") / DcpMutation(
        by_seqno=17, key=b"k", value=b"{}"
    )
    assert bytes(packet) == encode(
        "dcp_mutation",
        vbucket=5,
        opaque=0x11,
        cas=7,
        datatype=1,
        by_seqno=17,
        key=b"k",
        value=b"{}",
    )


def test_a_message_without_a_body_needs_only_its_name() -> None:
    assert bytes(DCP(opcode="dcp_noop")) == bytes(DCP() / DcpNoop()) == encode("dcp_noop")
    assert DcpNoop in DCP(encode("dcp_noop"))


def test_fields_that_only_another_layout_has_choose_it() -> None:
    marker = DCP() / DcpSnapshotMarker(
        end_seqno=9, snapshot_type=["memory", "checkpoint"], high_prepared_seqno=3
    )
    assert bytes(marker) == encode(
        "dcp_snapshot_marker",
        end_seqno=9,
        snapshot_type=["memory", "checkpoint"],
        high_prepared_seqno=3,
    )
    assert marker.payload.layout.generation == "v2.2"
    assert (DCP() / DcpStreamReqResponse(rollback_seqno=4)).status == 0x23
    assert DcpSystemEvent(event="drop-scope", version=0).layout.when == ((8, 4, 4), (12, 1, 0))


@pytest.mark.parametrize("version", ["v2.0", "v2.1", "v2.2"])
def test_a_word_chooses_the_layout_that_has_it_as_its_own(version: str) -> None:
    packet = DcpSnapshotMarker(version=version, end_seqno=4)
    message = annotate(bytes(DCP() / packet))
    assert packet.layout.generation == message.generation == version
    assert {problem.severity for problem in message.problems} <= {"note"}


@pytest.mark.parametrize("event", ["create-scope", "drop-scope"])
@pytest.mark.parametrize("version", [1, 2])
def test_words_and_fields_that_no_layout_has_together_are_refused(event: str, version: int) -> None:
    says = "event: no layout of DcpSystemEvent has these fields together; there are: by_seqno, ev"
    with pytest.raises(AttributeError, match=re.escape(says)) as error:
        DcpSystemEvent(event=event, version=version, manifest_uid=5)
    assert f"; by_seqno, event={event}, version=0, " in str(error.value)


@pytest.mark.parametrize(
    ("packet", "field", "value"),
    [
        (DcpSystemEvent(), "event", "create-scope"),
        (DcpSystemEvent(event="create-scope"), "version", 2),
        (DcpSnapshotMarker(), "version", "v2.2"),
        (DcpSnapshotMarker(version="v2.0"), "version", "v2.2"),
        (DcpSnapshotMarker(), "purge_seqno", 3),
    ],
    ids=lambda value: str(value) if isinstance(value, str | int) else "",
)
def test_what_only_another_layout_has_is_refused_when_it_is_assigned(
    packet: Packet, field: str, value: str | int
) -> None:
    name = type(packet).__name__.partition("_")[0]
    says = f"{field} {value!r}: only another layout of {name} has this; give it where the packet is"
    with pytest.raises(ValueError, match=re.escape(says)):
        setattr(packet, field, value)


def test_a_wrong_number_that_no_layout_has_and_a_field_of_a_later_message_are_taken() -> None:
    event = DcpSystemEvent()
    event.event = 99
    assert bytes(DCP() / event)[32:36] == b"\0\0\0\x63"
    several = DCP() / DcpSnapshotMarker() / DCP() / DcpSnapshotMarker(version="v2.2")
    several.purge_seqno = 7
    assert several.getlayer(DCP, 2).purge_seqno == 7
    wrong = DcpSystemEvent(generation="v0", event="drop-scope")
    assert bytes((DCP() / wrong).copy())[32:36] == b"\0\0\0\x04"


def test_a_generation_chooses_its_layout() -> None:
    old = DcpMutation(generation="upr", by_seqno=1)
    assert isinstance(old, DcpMutation_upr)
    assert bytes(DCP() / old) == encode("dcp_mutation", generation="upr", by_seqno=1)


def test_a_class_stands_for_all_layouts_of_its_message() -> None:
    packet = DCP(encode("dcp_mutation", generation="upr", by_seqno=1))
    assert DcpMutation in packet
    assert DcpDeletion not in packet
    assert packet[DcpMutation].by_seqno == 1
    assert packet.by_seqno == 1


def test_a_wrong_field_name_suggests_the_right_one_wherever_it_is_used() -> None:
    packet = DCP() / DcpMutation()
    uses: list[Callable[[], object]] = [
        lambda: DcpMutation(by_seqn=1),
        lambda: packet.by_seqn,
        lambda: setattr(packet, "by_seqn", 1),
        lambda: setattr(packet[DcpMutation], "by_seqn", 1),
    ]
    for use in uses:
        with pytest.raises(AttributeError) as caught:
            use()
        assert re.fullmatch(
            "by_seqn: (DCP|DcpMutation) has no such field; did you mean by_seqno[?]",
            str(caught.value),
        )
    with pytest.raises(
        AttributeError, match=r"^vbuckt: DCP has no such field; did you mean vbucket"
    ):
        DCP(vbuckt=1)
    packet.remark = "mine"  # like no field: an attribute of the user's own, as Scapy allows
    assert packet.remark == "mine"


def test_a_field_of_no_layout_is_refused_with_what_there_is() -> None:
    with pytest.raises(
        AttributeError,
        match=r"^prepared: DcpMutation has no such field; there are by_seqno, rev_seqno",
    ):
        DcpMutation(prepared=1)


def test_fields_that_no_layout_has_together_are_refused_with_what_there_is() -> None:
    with pytest.raises(
        AttributeError,
        match=(
            r"^rollback_seqno: no layout of DcpStreamReqResponse has these fields together; "
            r"there are: failover_log"
        ),
    ):
        DcpStreamReqResponse(failover_log=[], rollback_seqno=4)


def test_names_of_scapys_methods_have_an_underscore() -> None:
    packet = DCP() / McbpSubdocMultiLookup(specs=[{"command_": "subdoc_get", "path": b"a.b"}])
    assert bytes(packet) == encode(
        "subdoc_multi_lookup", specs=[{"command": 0xC5, "path": "a.b", "path_length": 3}]
    )
    assert packet.specs[0].command_ == 0xC5


def test_lengths_of_texts_in_a_value_are_computed() -> None:
    packet = DCP(bytes(DCP() / McbpSubdocGet(key=b"k", path=b"a.b")))
    assert (packet.path_length, packet.path, packet.key) == (3, b"a.b", b"k")


def test_framing_extras_choose_the_magic_and_are_measured() -> None:
    packet = DCP(vbucket=5, framing_extras=[DcpFrameStreamId(sid=7)]) / DcpDeletion(
        by_seqno=3, key=b"x"
    )
    data = bytes(packet)
    assert data == encode(
        "dcp_deletion", vbucket=5, frames=[(2, b"\0\7")], by_seqno=3, key=b"x", generation="v2"
    )
    assert DCP(data).framing_extras[0].sid == 7
    response = DCP(opaque=1, framing_extras=[DcpFrameStreamId(sid=7)]) / DcpNoopResponse()
    assert bytes(response)[0] == 0x18


def test_a_stream_id_that_the_server_forgot_to_count_is_found() -> None:
    data = bytearray(
        encode("dcp_deletion", frames=[(2, b"\0\7")], by_seqno=3, key=b"x", generation="v2")
    )
    data[2] = 0
    packet = DCP(bytes(data))
    assert (packet.framing_extras[0].sid, packet.by_seqno, packet.key) == (7, 3, b"x")
    assert bytes(forgotten(packet)) == bytes(data)


def test_a_flatbuffer_is_given_as_its_slots_and_shown_as_them() -> None:
    packet = DCP() / DcpSystemEvent(
        event="create-scope",
        version=2,
        key=b"s",
        value={"manifest_uid": 5, "scope_id": 8, "scope_name": "s"},
    )
    again = DCP(bytes(packet))
    assert "value     = manifest_uid=5, scope_id=8, scope_name='s'" in shown(again)
    assert "value     = b'\\xff'" in shown(
        DcpSystemEvent(event="create-scope", version=2, value=b"\xff")
    )


def test_members_of_a_flatbuffer_are_read_as_they_are_given() -> None:
    given = {"manifest_uid": 5, "scope_id": 8, "scope_name": "s"}
    sent = scope(**given)
    read = DCP(bytes(DCP() / sent))
    for packet in (sent, read, read[DcpSystemEvent]):
        assert {name: packet.value[name] for name in given} == given
    assert read.value == sent.value
    assert read.value[:4] == bytes(read.value)[:4]
    with pytest.raises(KeyError, match=r"value has no such field; did you mean scope_id\?"):
        read.value["scop_id"]
    with pytest.raises(ValueError, match="outside the 1 bytes of the value"):
        DcpSystemEvent(event="create-scope", version=2, value=b"x").value["scope_id"]


@each("vector", ALL)
def test_what_command_writes_makes_the_same_bytes(vector: Vector) -> None:
    names = {**vars(scapy_layer), "Raw": Raw, "Padding": Padding}
    assert bytes(eval(DCP(vector.data).command(), names)) == vector.data  # noqa: S307 - our own


def test_each_kind_of_record_has_a_name_of_its_own() -> None:
    fields = [field for kind in MESSAGES.values() for field in kind.fields_desc]
    kinds = {field.cls for field in fields if isinstance(field, RecordsField)}
    assert kinds == {getattr(scapy_layer, kind.__name__) for kind in kinds}


def test_credentials_are_sent_and_not_shown() -> None:
    auth = DCP(bytes(DCP() / McbpSaslAuth(key=b"PLAIN", value=b"\0user\0secret")))
    assert auth.value == b"\0user\0secret"
    assert "secret" not in shown(auth) + repr(auth)
    token = DCP(bytes(DCP(cas=0x1234) / McbpSetCtrlToken()))
    assert "1234" not in shown(token) + repr(token)


def test_a_refused_request_has_an_error_above_the_header() -> None:
    packet = DCP(encode("dcp_open", "response", status=4, value=b'{"error":{}}'))
    assert McbpError in packet
    assert bytes(
        DCP(opcode="dcp_open", status="einval") / McbpError(value=b'{"error":{}}')
    ) == bytes(packet)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b"\x80\x7e\0\1\1\0\0\0\0\0\0\3" + bytes(12) + b"ekv",
            id="a command that nobody described",
        ),
        pytest.param(
            b"\x80\x57\0\1\1\0\0\0\0\0\0\3" + bytes(12) + b"ekv", id="extras of another length"
        ),
        pytest.param(
            b"\x80\x57\xff\1\1\0\0\0\0\0\0\3" + bytes(12) + b"ekv",
            id="lengths that contradict each other",
        ),
        pytest.param(
            b"\x80\x5c\0\1\0\0\0\0\0\0\0\1" + bytes(12) + b"k", id="a key where there is none"
        ),
    ],
)
def test_what_fits_no_layout_is_raw_under_its_header(data: bytes) -> None:
    packet: Any = DCP(data)
    assert type(packet) is DCP
    assert type(packet.payload) is Raw
    assert (packet.key_length, bytes(packet)) == (int.from_bytes(data[2:4], "big"), data)


@pytest.mark.parametrize(
    "data", [b"\x80", b"\x80" * 23, b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"]
)
def test_bytes_that_begin_no_message_are_raw(data: bytes) -> None:
    assert type(DCP(data)).__name__ == "Raw"


def test_what_the_capture_cut_off_is_not_invented() -> None:
    data = encode("dcp_mutation", by_seqno=17, key=b"key", value=b"value")
    assert (DCP(data[:-2]).value, type(DCP(data[:30]).payload), DCP(data[:24]).payload) == (
        b"val",
        Raw,
        DCP(data[:24]).payload,
    )
    assert not isinstance(DCP(data[:24]).payload, MessageBody)


def test_messages_of_a_segment_are_layers_one_after_another() -> None:
    data = (
        encode("dcp_mutation", by_seqno=17, key=b"k", value=b"v")
        + encode("dcp_noop")
        + encode("dcp_deletion", key=b"x", opaque=3)
    )
    packet = DCP(data)
    assert [type(layer) for layer in (packet, *_above(packet))] == [
        DCP,
        DcpMutation,
        DCP,
        DcpNoop,
        DCP,
        DcpDeletion,
    ]
    assert (_above(packet)[-2].opaque, packet[DcpDeletion].key, packet[DcpMutation].value) == (
        3,
        b"x",
        b"v",
    )
    assert packet.summary().count("DCP ") == 3
    for again in (
        packet,
        forgotten(DCP(data)),
        without_own_lengths(DCP(data)),
        packet.copy(),
        DCP(data[:-1]),
        DCP(data + b"\x80\x57"),
    ):
        assert bytes(again) in (data, data[:-1], data + b"\x80\x57")


def test_what_begins_no_message_behind_others_is_padding() -> None:
    for rest in (b"\x80\x57", b"GET / HTTP/1.1\r\nHost: example\r\n\r\n"):
        packet = DCP(encode("dcp_noop") + encode("noop") + rest)
        assert packet[Padding].load == rest
        assert bytes(forgotten(packet)) == encode("dcp_noop") + encode("noop") + rest


def test_lengths_of_several_messages_are_each_its_own() -> None:
    first, second = (
        DCP() / DcpMutation(key=b"k", value=b"v"),
        DCP(opaque=3) / DcpDeletion(key=b"xyz"),
    )
    assert bytes(first / second) == bytes(first) + bytes(second)
    assert bytes(IP() / TCP() / first / second)[40:] == bytes(first) + bytes(second)
    between = DCP(bytes(first))
    between.payload.add_payload(DcpNoop() / second)
    assert bytes(without_own_lengths(between)) == bytes(first) + bytes(second)
    assert bytes(first / DCP() / DCP() / DcpNoop()) == bytes(first) + bytes(DCP()) + bytes(
        DCP() / DcpNoop()
    )


def test_more_messages_than_scapy_can_stack_are_still_the_same_bytes() -> None:
    data = encode("dcp_noop") * 3000
    packet = DCP(data)
    assert len([layer for layer in _above(packet) if type(layer) is DCP]) == MAX_MESSAGES - 1
    for again in (packet, forgotten(DCP(data)), packet.copy()):
        assert bytes(again) == data
    assert shown(packet)
    assert packet.summary()


def _above(packet: Packet) -> list[Any]:
    layers: list[Any] = []
    while packet.payload:
        packet = packet.payload
        layers.append(packet)
    return layers


def without_own_lengths(packet: Packet) -> Packet:
    """The packet with all lengths of all its messages to be computed again."""
    for layer in (packet, *_above(packet)):
        without_lengths(layer)
    return packet


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [path for path in SAMPLES.glob("*.pcap*") if path.suffix != ".gz"],
    ids=lambda path: path.name,
)
def test_every_segment_of_a_sample_is_the_same_bytes_again(path: Path) -> None:
    whole = 0
    with PcapReader(str(path)) as reader:
        frames = list(reader)
    for frame in frames:
        if TCP not in frame or not isinstance(frame[TCP].payload, DCP):
            continue
        data = bytes(frame[TCP].payload)
        message = DCP(data)
        assert bytes(message) == data
        messages = [layer for layer in (message, *_above(message)) if isinstance(layer, DCP)]
        sizes = [24 + layer.total_body_length for layer in messages]
        if sum(sizes) == len(data):
            whole += 1
            assert Padding not in message
            assert bytes(forgotten(message)) == data
            assert [layer.opaque for layer in messages] == _opaques(data)
    assert whole > 5


def _opaques(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        found.append(int.from_bytes(data[at + 12 : at + 16], "big"))
        at += 24 + int.from_bytes(data[at + 8 : at + 12], "big")
    return found


def test_the_layer_is_bound_to_its_port_only() -> None:
    assert (IP() / TCP() / DCP()).dport == 11210
    for port, kind in ((11210, DCP), (11207, Raw)):
        for way in ("sport", "dport"):
            segment = TCP(sport=50_000, dport=50_001) / Raw(encode("noop"))
            segment.setfieldval(way, port)
            segment = TCP(bytes(segment))
            assert type(segment.payload) is kind


def test_copies_and_pickles_are_the_same_message() -> None:
    packet = DCP(encode("dcp_mutation", by_seqno=17, key=b"k", frames=[(2, b"\0\7")]))
    for again in (packet.copy(), pickle.loads(pickle.dumps(packet))):  # noqa: S301 - our own
        assert bytes(again) == bytes(packet)
        assert again == packet


def test_a_response_answers_its_request() -> None:
    request, response = DCP(opaque=3) / DcpNoop(), DCP(opaque=3) / DcpNoopResponse()
    assert response.answers(request)
    assert response.hashret() == request.hashret()
    assert not request.answers(response)
    assert not (DCP(opaque=4) / DcpNoopResponse()).answers(request)


def test_a_class_tells_its_fields() -> None:
    assert "by_seqno: the seqno of this change" in (DcpMutation.__doc__ or "").splitlines()


def test_summaries_say_what_and_where() -> None:
    assert (
        DCP(vbucket=5, opaque=17) / DcpMutation()
    ).summary() == "DCP dcp_mutation vbucket 5 opaque 0x00000011"
    assert (
        DCP() / DcpStreamReqResponse(rollback_seqno=1)
    ).summary() == "DCP dcp_stream_req response rollback opaque 0x00000000"
    assert (
        IP() / TCP() / DCP() / DcpNoop()
    ).summary() == "IP / TCP / DCP dcp_noop vbucket 0 opaque 0x00000000"


def test_a_stream_socket_speaks_the_protocol() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        answers = encode("dcp_open", "response", opaque=1) + encode(
            "hello", "response", opaque=2, features=[{"feature": 0x12}]
        )
        # the second answer in pieces, of which the first ends inside its header
        for at in range(0, len(answers), 33):
            threading.Timer(at / 1000, theirs.sendall, [answers[at : at + 33]]).start()
        sock = StreamSocket(ours, DCP)
        sock.send(DCP(opaque=1) / DcpOpen(flags="producer", key=b"me") / b"")
        sock.send(DCP(opaque=2) / McbpHello(key=b"me", features=[{"feature": 0x12}]))
        found: list[Any] = [sock.recv(), sock.recv()]
        assert [bytes(packet) for packet in found] == [answers[:24], answers[24:]]
        sent = encode("dcp_open", opaque=1, flags=["producer"], key="me") + encode(
            "hello", opaque=2, key="me", features=[{"feature": 0x12}]
        )
        assert theirs.recv(len(sent), socket.MSG_WAITALL) == sent


@pytest.mark.slow
@each("vector", ALL)
def test_every_vector_cut_anywhere_builds_what_it_was(vector: Vector) -> None:
    for cut in range(24, len(vector.data)):
        assert bytes(forgotten(DCP(vector.data[:cut]))) == vector.data[:cut]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: DcpSystemEvent(event="create-scop"),
            "event 'create-scop': there is no such word; did you mean create-scope?",
        ),
        (
            lambda: DcpStreamEnd(end_reason="x"),
            "end_reason 'x': there is no such word; there are ok, closed, state-changed, ",
        ),
        (lambda: DcpOpen(flags="producr"), "flags 'producr': there is no such word; did you mean"),
        (
            lambda: DcpOpen(flags=["notifier", "producr"]),
            "flags 'producr': there is no such word; did",
        ),
        (lambda: DCP(opcode="dcp_mutatio"), "opcode 'dcp_mutatio': there is no such word; did you"),
        (
            lambda: DCP(magic="reques"),
            "magic 'reques': there is no such word; did you mean request",
        ),
        (
            lambda: DcpMutation(generation="uprr"),
            "generation 'uprr': there is no such word; did you mean upr?",
        ),
        (
            lambda: McbpHello(features=["JSO"]),
            "feature 'JSO': there is no such word; did you mean JSON?",
        ),
        (
            lambda: DcpStreamReqResponse(failover_log=[7]),
            "failover_log 7: give dictionaries of uuid, seqno",
        ),
        (
            lambda: DCP(framing_extras=[7]),
            "framing_extras 7: give packets, such as DcpFrameStreamId(sid=7)",
        ),
        (
            lambda: scope(manifest_uid=5, scop_id=8),
            "scop_id: value has no such field; did you mean scope_id?",
        ),
        (lambda: scope(manifest_uid="5"), "manifest_uid '5': give a number from 0 to 18446744073"),
        (lambda: scope(scope_name=5), "scope_name 5: give a text"),
        (
            lambda: DcpControl(key=b"set_noop_interval", value=120),
            "value 120: give bytes or a text",
        ),
        (lambda: DCP(vbucket="x"), "vbucket 'x': give a number from 0 to 65535"),
        (lambda: DCP(vbucket=65536), "vbucket 65536: give a number from 0 to 65535"),
        (lambda: DCP(datatype=256), "datatype 256: give a number from 0 to 255"),
        (lambda: DCP(opcode=b"x"), "opcode 'x': there is no such word"),
        (lambda: DCP(opaque=1.0), "opaque 1.0: give a number from 0 to 4294967295"),
        (lambda: DCP(datatype=1.5), "datatype 1.5: give a number from 0 to 255"),
        (lambda: DcpFrameStreamId(sid="x"), "sid 'x': give a number from 0 to 65535"),
        (lambda: DcpStreamReq(end_seqno="no en"), "end_seqno 'no en': there is no such word; did"),
        (
            lambda: DcpSystemEvent(generation="zork"),
            "generation 'zork': there is no such word; there are v0, v1, v2, unknown, 5.0-collec",
        ),
        (
            lambda: DCP(magic="zork"),
            "there are 'request', 'response', 'request, flex framing', 'response, flex framing', ",
        ),
        (lambda: DCP(key_length="x"), "key_length 'x': give a number from 0 to 65535"),
        (lambda: DcpMutation(by_seqno=-1), "by_seqno -1: give a number from 0 to 18446744073"),
        (lambda: DcpMutation(by_seqno=1.5), "by_seqno 1.5: give a number from 0 to 18446744073"),
        (lambda: McbpSetCtrlToken(token=5), "token 5: give bytes or a text"),
    ],
)
def test_a_wrong_value_is_told_with_what_there_is(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=re.escape(says)):
        call()


def scope(**value: Any) -> Packet:
    event: Packet = DcpSystemEvent(event="create-scope", version=2, value=value)
    return event


def test_records_of_one_field_are_given_as_words_or_numbers() -> None:
    expected = bytes(DCP() / McbpHello(features=[{"feature": "JSON"}, {"feature": "XATTR"}]))
    for features in (["JSON", "XATTR"], ("JSON", 6), [11, 6], [b"JSON", b"XATTR"]):
        assert bytes(DCP() / McbpHello(features=features)) == expected


def test_a_list_changed_in_place_is_checked_when_it_is_built() -> None:
    expected = bytes(DCP() / McbpHello(features=["JSON", "XATTR"]))
    hello = McbpHello(features=["SNAPPY"])
    hello.features[0] = "JSON"
    hello.features.append(6)
    read = DCP(bytes(DCP() / McbpHello(features=["JSON"])))
    read.features.append("XATTR")
    assert bytes(DCP() / hello) == expected
    assert bytes(read)[24:] == expected[24:]
    assert bytes(without_lengths(read)) == expected
    answer = DcpStreamReqResponse()
    answer.failover_log.append({"uuid": 3, "seqno": 0})
    assert DCP(bytes(DCP() / answer)).failover_log[0].uuid == 3
    answer.failover_log.append({"uid": 3})
    with pytest.raises(AttributeError, match=r"has no such field; did you mean uuid\?"):
        bytes(answer)


@pytest.mark.parametrize(
    ("packet", "name", "value", "says"),
    [
        (McbpHello(), "features", "JSO", "feature 'JSO': there is no such word; did you mean JSON"),
        (DcpStreamReqResponse(), "failover_log", 7, "failover_log 7: give dictionaries of uuid"),
        (DCP(), "framing_extras", 7, "framing_extras 7: give packets"),
    ],
)
def test_what_is_wrong_in_a_list_is_told_when_it_is_built(
    packet: Packet, name: str, value: Any, says: str
) -> None:
    getattr(packet, name).append(value)
    with pytest.raises(ValueError, match=re.escape(says)):
        bytes(packet)


def test_values_that_scapy_makes_when_it_builds_are_taken() -> None:
    assert DCP(bytes(DCP(vbucket=RandShort()) / DcpNoop())).vbucket <= 0xFFFF
    assert bytes(DCP() / DcpControl(key=RawVal(b"k"), value="v"))[-2:] == b"kv"
    assert [message.vbucket for message in DCP(vbucket=[3, 5]) / DcpNoop()] == [3, 5]


def test_a_wrong_field_of_a_record_is_the_records() -> None:
    says = "uid: FailoverLogRecord has no such field; did you mean uuid?"
    with pytest.raises(AttributeError, match=re.escape(says)):
        DcpStreamReqResponse(failover_log=[{"uid": 1, "seqno": 2}])


def test_a_wrong_field_of_a_frame_suggests_the_right_one() -> None:
    says = "timeout: DcpFrameDurability has no such field; did you mean timeout_ms?"
    with pytest.raises(AttributeError, match=re.escape(says)):
        DcpFrameDurability(timeout=3)
    with pytest.raises(AttributeError, match=re.escape(says)):
        DcpFrameDurability().timeout = 3


def test_a_generation_has_its_own_fields_only() -> None:
    with pytest.raises(AttributeError, match="nru: DcpMutation_upr has no such field"):
        DcpMutation(generation="upr", nru=1)


def test_help_lists_the_words_of_a_field() -> None:
    assert "why the stream ended (ok, closed, state-changed, " in (DcpStreamEnd.__doc__ or "")


def test_help_lists_what_dictionaries_have() -> None:
    assert "(dictionaries of uuid, seqno)" in (DcpStreamReqResponse.__doc__ or "")
    table = DcpSystemEvent(event="create-scope", version=2)
    assert "(bytes, or a dictionary of manifest_uid, " in (type(table).__doc__ or "")


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        (DcpSystemEvent, "value: FlatBuffer "),
        (DcpSnapshotMarker, "purge_seqno: deletions up to here may have been purged"),
        (DcpStreamReqResponse, "rollback_seqno: "),
        (DcpDeletion, "nmeta: "),
        (DcpFrameDurability, "level: durability level (majority, "),
    ],
)
def test_help_tells_the_fields_of_all_generations(kind: type[Packet], line: str) -> None:
    lines = (kind.__doc__ or "").splitlines()
    assert any(known.startswith(line) for known in lines)
    assert len(set(lines)) == len(lines)


def test_help_lists_the_words_of_flags_once() -> None:
    words = (
        "snapshot_type: where the items come from and what to expect "
        "(memory, disk, checkpoint, ack, history, may-duplicate-keys)"
    )
    assert words in (DcpSnapshotMarker.__doc__ or "").splitlines()
