"""The annotated JSON keeps its contract: JSON.md."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dcpinspect.output.export.json import (
    JsonArray,
    ValueLimit,
    dump,
    message_object,
    rfc3339,
    text_or_hex,
)
from dcpinspect.output.export.table_schema import message_schema
from dcpinspect.protocol.header import decode_header
from dcpinspect.protocol.layouts import LAYOUTS
from tests.catalogue import each
from tests.encode import encode, encode_document, encode_parts
from tests.protocol import strategies
from tests.protocol.vectors import ALL, BY_ID, Vector
from tests.tables.build import STEP_NS, batch

ON = encode("hello", "response", features=[{"feature": 0x12}])
VALUE, DATATYPE = encode_document(
    b'{"id": 10}' + b" " * 40,
    xattrs={"_sync": '{"rev":1}', "plain": "not json"},
    json=True,
    snappy=True,
)
DOCUMENT = encode(
    "dcp_mutation",
    vbucket=417,
    opaque=17,
    cas=2**63,
    by_seqno=2**64 - 1,
    collection=8,
    key="airline_10",
    value=VALUE,
    datatype=DATATYPE,
)


@cache
def validator() -> Any:  # jsonschema's own type
    return jsonschema.Draft202012Validator(message_schema())


def record(
    *messages: bytes, fields: bool = True, values: ValueLimit = "full", **options: Any
) -> dict[str, Any]:
    """The last message as a reader of the JSON sees it; valid against the schema."""
    made = batch(*messages, **options)
    found: dict[str, Any] = json.loads(
        dump(message_object(made, len(made) - 1, fields=fields, values=values))
    )
    validator().validate(found)
    return found


def tiles(fields: list[dict[str, Any]], start: int, end: int) -> None:
    """Fields follow each other from start to end."""
    for field in fields:
        assert field["offset"] == start, field
        start += field["size"]
    assert start == end


def test_golden_document(golden: Callable[[str, str], None]) -> None:
    golden(
        "json/mutation.json", json.dumps(record(ON, DOCUMENT), indent=1, ensure_ascii=False) + "\n"
    )


def test_golden_response(golden: Callable[[str, str], None]) -> None:
    request = encode("dcp_stream_req", vbucket=417, opaque=1, start_seqno=7)
    golden(
        "json/rollback.json",
        json.dumps(
            record(
                request,
                encode("dcp_stream_req", "response", status=0x23, opaque=1, rollback_seqno=5),
            ),
            indent=1,
        )
        + "\n",
    )


@each("vector", ALL)
def test_every_vector_is_valid_and_its_fields_tile_it(vector: Vector) -> None:
    data = vector.data[: decode_header(vector.data).size]
    if len(data) < decode_header(data).size:
        return
    found = record(ON, data)
    tiles(found["fields"], 0, len(data))
    digits = "".join(field["hex"] for field in found["fields"] if not field.get("hidden"))
    hidden = sum(field["size"] for field in found["fields"] if field.get("hidden"))
    assert len(digits) // 2 + hidden == len(data)


@given(strategies.plausible(), st.booleans(), st.sampled_from(["full", "none", 0, 5]))
def test_any_message_is_valid_tiled_and_cannot_steer_a_terminal(
    data: bytes, handshake: bool, values: ValueLimit
) -> None:
    made = batch(data, handshake=handshake)
    line = dump(message_object(made, 0, values=values))
    assert "Cc" not in {unicodedata.category(character) for character in line.decode()}
    found = json.loads(line)
    validator().validate(found)
    tiles(found["fields"], 0, len(data))


_LOOKUP = bytes.fromhex("80d00000 00000000 00000004 00000001 00000000 00000002 00000000")
"""A lookup of which the path is cut off."""


@example(_LOOKUP, [(12, 13)])
@example(_LOOKUP, [(12, 15)])
@given(
    strategies.plausible(),
    st.lists(st.tuples(st.integers(12, 200), st.integers(1, 50)), min_size=1, max_size=3),
)
def test_holes_are_missing_ranges_and_nothing_is_made_of_them(
    data: bytes, gaps: list[tuple[int, int]]
) -> None:
    spans = sorted({(low, min(low + size, len(data))) for low, size in gaps if low < len(data)})
    found = record(data, missing={0: spans})
    assert found["missing"] == [list(span) for span in spans]
    tiles(found["fields"], 0, len(data))
    for field in found["fields"]:
        if any(
            low < field["offset"] + field["size"] and field["offset"] < high for low, high in spans
        ):
            assert field.get("missing") or field.get("hidden")
            assert field["value"] is None


def test_opaque_and_cas_that_the_capture_lacks_are_null() -> None:
    found = record(encode("dcp_noop", opaque=5, cas=7), missing={0: [(13, 17)]})
    assert (found["opaque"], found["cas"]) == (None, None)


def test_numbers_of_64_bits_are_exact() -> None:
    found = record(ON, DOCUMENT)
    assert (found["by_seqno"], found["cas"]) == (2**64 - 1, "0x8000000000000000")


def test_no_end_is_a_word_that_no_reader_rounds() -> None:
    found = record(encode("dcp_stream_req", end_seqno=2**64 - 1))
    (field,) = [field for field in found["fields"] if field["name"] == "end_seqno"]
    assert (found["end_seqno"], field["value"], field["meaning"]) == ("no end",) * 3


def test_a_key_that_is_no_text_is_hex() -> None:
    assert record(encode("dcp_mutation", key=b"\xff\x00"))["key"] == {"hex": "ff00"}


def test_a_response_has_its_requests_row_offset_time_and_vbucket() -> None:
    request = encode("dcp_stream_req", vbucket=417, opaque=1)
    found = record(
        ON,
        request,
        encode("dcp_stream_req", "response", opaque=1, failover_log=[{"uuid": 1, "seqno": 2}]),
    )
    assert {
        name: found[name]
        for name in ("vbucket", "vbucket_from", "request_row", "request_stream_offset", "rtt_ns")
    } == {
        "vbucket": 417,
        "vbucket_from": "request",
        "request_row": 2,
        "request_stream_offset": len(ON),
        "rtt_ns": STEP_NS,
    }


def test_a_response_without_a_request_has_no_vbucket_and_no_link() -> None:
    found = record(encode("get", "response", status=1))
    assert found["vbucket"] is None
    assert not {"vbucket_from", "request_row", "request_stream_offset", "rtt_ns"} & set(found)


def test_a_request_has_no_status_and_names_no_response() -> None:
    found = record(encode("get", key="k", vbucket=3))
    assert (found["status"], found["vbucket"], "vbucket_from" in found) == (None, 3, False)


def test_a_status_has_code_name_and_meaning() -> None:
    found = record(BY_ID["seed004-09"].data)
    assert (found["status"]["code"], found["status"]["name"], found["rollback_seqno"]) == (
        0x23,
        "rollback",
        0,
    )


def test_a_request_of_the_server_has_no_vbucket() -> None:
    assert (
        record(encode("clustermap_change_notification", server=True, generation="v1"))["vbucket"]
        is None
    )


def test_datatype_bits_are_names_and_unknown_ones_numbers() -> None:
    assert record(encode("dcp_mutation", key="k", datatype=0x0F))["datatype"] == [
        "json",
        "snappy",
        "xattr",
        "0x08",
    ]


def test_flags_are_names_and_unknown_bits_numbers() -> None:
    assert record(encode_parts(0x80, 0x50, extras=bytes.fromhex("0000000080000005"), key=b"n"))[
        "flags"
    ] == [
        "producer",
        "include-xattrs",
        "0x80000000",
    ]


def test_a_number_with_a_name_has_it_beside_it() -> None:
    prepare = encode("dcp_prepare", by_seqno=1, key="k", durability_level=3)
    found = record(prepare, fields=False)
    assert found["durability_level"] == 3
    assert found["durability_level_name"] == "persist-to-majority"
    assert "deleted_name" not in found  # 0 and 1 say it
    unknown = record(encode("dcp_prepare", by_seqno=1, key="k", durability_level=9), fields=False)
    assert unknown["durability_level"] == 9
    assert "durability_level_name" not in unknown


def test_a_failover_log_is_a_list_of_entries() -> None:
    log = [{"uuid": 0xFEED, "seqno": 9}, {"uuid": 1, "seqno": 0}]
    assert record(encode("dcp_stream_req", "response", failover_log=log))["failover_log"] == [
        {"uuid": "0x000000000000feed", "seqno": 9},
        {"uuid": "0x0000000000000001", "seqno": 0},
    ]


def test_a_value_is_unwrapped() -> None:
    assert record(ON, DOCUMENT)["value"] == {
        "encoding": "json",
        "compressed": "snappy",
        "size": len(VALUE),
        "inflated_size": 93,
        "xattrs": {"_sync": {"rev": 1}, "plain": "not json"},
        "json": {"id": 10},
    }


def test_json_of_the_wire_stays_on_one_line_digit_for_digit() -> None:
    made = batch(
        encode(
            "dcp_mutation",
            key="k",
            value=b'{"n":\n1.10,\r\n"big":123456789012345678901234567890}',
            datatype=1,
        )
    )
    line = dump(message_object(made, 0, fields=False))
    assert b'{"n": 1.10,  "big":123456789012345678901234567890}' in line
    assert b"\n" not in line


def test_json_of_the_wire_cannot_steer_a_terminal() -> None:
    body = '{"a":"\x7f\x9b31m\u202e\u2028\u2066\u061c"}'.encode()
    made = batch(encode("dcp_mutation", key="\x9b\x7f", value=body, datatype=1))
    line = dump(message_object(made, 0)).decode()
    assert line.isprintable()
    assert json.loads(line)["value"]["json"] == json.loads(body)
    assert json.loads(line)["key"] == "\x9b\x7f"


@pytest.mark.parametrize("compressed", [True, False])
def test_values_none_shows_no_byte_of_them(compressed: bool) -> None:
    value, datatype = encode_document(
        b'{"id":"hideme"}', xattrs={"_sync": '{"rev":"hideme"}'}, json=True, snappy=compressed
    )
    found = record(encode("dcp_mutation", key="k", value=value, datatype=datatype), values="none")
    text = json.dumps(found)
    assert "hideme" not in text
    assert b"hideme".hex() not in text
    assert found["value"]["size"] == len(value)


def test_values_n_shows_that_many_bytes_and_says_that_there_are_more() -> None:
    found = record(encode("dcp_mutation", key="k", value=b"0123456789"), values=4)
    assert found["value"] == {
        "encoding": "text",
        "compressed": None,
        "size": 10,
        "truncated": True,
        "text": "0123",
    }
    assert found["fields"][-1]["hex"] == b"0123".hex()


def test_no_fields_leaves_them_out() -> None:
    assert "fields" not in record(DOCUMENT, fields=False)


def test_credentials_never_appear() -> None:
    text = json.dumps(record(encode("sasl_auth", key="PLAIN", value=b"\0user\0secret")))
    assert "secret" not in text
    assert b"secret".hex() not in text


def test_a_heuristic_message_says_so() -> None:
    assert record(DOCUMENT, heuristic=[0])["sync"] == "heuristic"
    assert "sync" not in record(DOCUMENT)


def test_a_file_name_that_is_no_text_is_hex() -> None:
    found = record(DOCUMENT, files=["caf\udce9.pcap"])
    assert found["file"] == {"hex": b"caf\xe9.pcap".hex()}


def test_problems_have_their_place() -> None:
    (problem,) = record(encode("dcp_mutation", key="k", datatype=0x80))["problems"]
    assert problem == {
        "rule": "undefined-datatype",
        "severity": "error",
        "field": "datatype",
        "offset": 5,
        "reason": "datatype 0x80 has undefined bits",
    }


def test_no_key_of_a_layout_hides_a_key_that_every_message_has() -> None:
    made = batch(ON)
    base = set(message_object(made, 0)) - {"features"}
    names = {item.name for layout in LAYOUTS for item in (*layout.extras, *layout.value)} - {
        "key",
        "value",
        "body",
    }
    assert names & base == {"collection_id"}  # that the message speaks of; it has no key


@pytest.mark.parametrize(
    ("time_ns", "text"),
    [
        (1_712_381_677_411_000_123, "2024-04-06T05:34:37.411000123Z"),
        (0, "1970-01-01T00:00:00.000000000Z"),
        (-1, "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_times_have_all_nine_digits(time_ns: int, text: str) -> None:
    assert rfc3339(time_ns) == text


@pytest.mark.parametrize(
    ("raw", "shown"), [(b"", ""), ("é".encode(), "é"), (b"\xc3", {"hex": "c3"})]
)
def test_text_is_text_and_bytes_are_hex(raw: bytes, shown: str | dict[str, str]) -> None:
    assert text_or_hex(raw) == shown


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_array_is_valid_json_however_many_elements_it_has(count: int) -> None:
    array = JsonArray()
    text = b"".join(
        [
            *(array.add(JsonArray.BEFORE + dump({"n": number})) for number in range(count)),
            array.end(),
        ]
    )
    assert json.loads(text) == [{"n": number} for number in range(count)]
