"""``--redact``: nothing that a user stored is in any output, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import message_schema
from dcpinspect.protocol.flex import encode_frames
from dcpinspect.protocol.header import HEADER_SIZE, decode_header
from dcpinspect.protocol.opcodes import opcode_name
from dcpinspect.protocol.snappy import SnappyError, decode_snappy
from dcpinspect.tables.schema import COLUMNS
from tests import builders
from tests.encode import encode
from tests.peers.truth import SAMPLES, load

pytestmark = pytest.mark.slow

ALL_COLUMNS = ",".join(column.name for column in COLUMNS)
OUTPUTS = {
    "lines": ("x.txt",),
    "tables": ("x.txt", "-V", "-x", "--values", "full"),
    "json": ("x.json",),
    "short json": ("x.json", "--no-fields", "--values", "40"),
    "ndjson": ("x.ndjson",),
    "csv": ("x.csv", "--columns", ALL_COLUMNS),
    "parquet": ("x.parquet",),
    "arrow": ("x.arrow",),
}
STORED = (
    "dcp_mutation",
    "dcp_deletion",
    "dcp_expiration",
    "dcp_prepare",
    "dcp_commit",
    "dcp_abort",
)
"""Commands that carry documents."""
PRIVATE = {
    "key",
    "collection",
    "value",
    "fields",
    "items",
    "specs",
    "results",
    "scope_name",
    "collection_name",
    "keys",
    "path",
    "fragment",
    "delta",
    "initial",
    "counter",
    "request_key",
}
"""Keys of JSON objects that ``--redact`` changes."""
WORDS = " ".join(opcode_name(code) for code in range(256)).encode()
CHUNK = 16
SHORTEST = 5


def output(capture: Path, folder: Path, name: str, *arguments: str) -> bytes:
    """Everything that a file of this format holds, uncompressed."""
    path = folder / name
    assert main(["read", str(capture), "-o", str(path), *arguments]) == 0
    if name.endswith(".parquet"):
        return repr(pyarrow.parquet.read_table(path).to_pydict()).encode()
    if name.endswith(".arrow"):
        return repr(pa.ipc.open_file(path).read_all().to_pydict()).encode()
    return path.read_bytes()


def stored(data: bytes) -> Iterator[bytes]:
    """What a message holds of a document: its key without the collection, and pieces of its value,
    compressed and not.
    """
    header = decode_header(data)
    at = HEADER_SIZE + header.framing_size + header.extras_size
    key = data[at : at + header.key_size]
    yield key if key[:1].isalnum() else key[1:]
    value = data[at + header.key_size :]
    values = [value]
    with suppress(SnappyError):
        values.append(decode_snappy(value))
    for whole in values:
        yield from (whole[start : start + CHUNK] for start in range(0, len(whole) - CHUNK, CHUNK))


@cache
def secrets_of(sample: str) -> set[bytes]:
    """What must not be found, in every form in which an output could show it."""
    messages = [
        message for connection in load(sample) for message in (*connection.c2s, *connection.s2c)
    ]
    found = {
        piece
        for message in messages
        if message.name in STORED and message.data
        for piece in stored(message.data)
    }
    # Runs of one byte prove nothing, nor does a key that is a word of the protocol.
    plain = {
        piece
        for piece in found
        if len(piece) >= SHORTEST and len(set(piece)) > 4 and piece not in WORDS
    }
    return {
        form
        for piece in plain
        for form in (
            piece,
            piece.hex().encode(),
            repr(piece)[2:-1].encode(),
            json.dumps(str(piece)).encode(),
        )
    }


@pytest.mark.parametrize("arguments", OUTPUTS.values(), ids=OUTPUTS)
@pytest.mark.parametrize("sample", ["tour", "capture-loss"])
def test_nothing_of_a_document_is_in_the_output(
    sample: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    capture = next(path for path in SAMPLES.glob(f"{sample}.pcap*"))
    secrets = secrets_of(sample)
    assert len(secrets) > 50
    plain = output(capture, tmp_path, *arguments)
    assert len(list(islice((secret for secret in secrets if secret in plain), 20))) == 20, (
        "the search finds what is there"
    )
    redacted = output(capture, tmp_path, *arguments, "--redact")
    there = {
        redacted[at : at + SHORTEST] for at in range(len(redacted))
    }  # few secrets need be searched for: each takes 0.3 ms
    assert [secret for secret in secrets if secret[:SHORTEST] in there and secret in redacted] == []


SECRET_USER, SECRET_KEY, SECRET_PATH, SECRET_VALUE = (
    b"user-alice-7",
    b"key-alice-7",
    b"path.alice[7]",
    b'{"alice":"seven"}',
)


def everything(path: Path) -> Path:
    """A capture with private things in every place where the protocol has some."""
    frames = encode_frames([(4, SECRET_USER), (9, SECRET_USER), (2, b"\x00\x05")])
    impersonated = builders.message(
        magic=0x08, opcode=0x01, extras=bytes(8), key=SECRET_KEY, value=SECRET_VALUE
    )
    flexible = bytearray(impersonated[:24] + frames + impersonated[24:])
    flexible[2:4] = bytes([len(frames), len(SECRET_KEY)])
    flexible[8:12] = (len(flexible) - 24).to_bytes(4, "big")
    lookup = builders.message(
        opcode=0xC5,
        extras=len(SECRET_PATH).to_bytes(2, "big") + b"\0",
        key=SECRET_KEY,
        value=SECRET_PATH,
    )
    specs = b"\xc5\x00" + len(SECRET_PATH).to_bytes(2, "big") + SECRET_PATH
    multi = builders.message(opcode=0xD0, key=SECRET_KEY, value=specs * 2)
    found = b"\0\0" + len(SECRET_VALUE).to_bytes(4, "big") + SECRET_VALUE
    client = [
        encode("hello", opaque=1, key="agent"),
        bytes(flexible),
        lookup,
        multi,
        builders.message(opcode=0x10, key=b"key " + SECRET_KEY + b" 7"),
        builders.message(opcode=0x7E, extras=SECRET_KEY, key=SECRET_KEY, value=SECRET_VALUE),
        builders.message(opcode=0x57, extras=SECRET_VALUE, key=SECRET_KEY, value=SECRET_VALUE),
        builders.message(opcode=0x58, extras=bytes(8), key=SECRET_KEY, value=SECRET_VALUE),
        builders.message(opcode=0x0A, key=SECRET_KEY, value=SECRET_VALUE),
        builders.mutation(9, key=SECRET_KEY, value=SECRET_VALUE + b"not json"),
        builders.message(opcode=0xDA, value=b'{"range":"' + SECRET_KEY + b'"}'),
    ]
    server = [
        builders.message(magic=0x81, opcode=0x01, specific=0x24, value=SECRET_VALUE),
        builders.message(magic=0x81, opcode=0xC5, value=SECRET_VALUE),
        builders.message(magic=0x81, opcode=0xD0, value=found * 2),
        builders.message(magic=0x81, opcode=0x10, key=b"name", value=SECRET_USER),
        builders.message(magic=0x81, opcode=0x05, value=SECRET_USER[:8]),
        builders.message(magic=0x82, opcode=0x03, value=b'["' + SECRET_USER + b'"]'),
        builders.message(magic=0x82, opcode=0x04, key=SECRET_USER),
    ]
    return builders.capture(path, client=b"".join(client), server=b"".join(server))


@pytest.mark.parametrize("arguments", OUTPUTS.values(), ids=OUTPUTS)
def test_no_user_no_path_and_no_value_is_in_the_output(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    capture = everything(tmp_path / "everything.pcap")
    plain = output(capture, tmp_path, *arguments)
    assert SECRET_KEY in plain or SECRET_KEY.hex().encode() in plain or b"0x6b ('k')" in plain
    redacted = output(capture, tmp_path, *arguments, "--redact")
    for secret in (SECRET_USER, SECRET_KEY, SECRET_PATH, SECRET_VALUE, b"alice", b"seven"):
        assert secret not in redacted
        assert secret.hex().encode() not in redacted


def records(capture: Path, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output(capture, folder, "x.json", *arguments))
    return found


@pytest.mark.parametrize("arguments", OUTPUTS.values(), ids=OUTPUTS)
def test_numbers_of_a_message_whose_lengths_contradict_each_other_are_in_no_output(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    seqno = 7234567890123
    # the extended metadata is longer than the value that it ends
    longer = encode("dcp_mutation", key="k", value=b"{}", by_seqno=seqno, nmeta=300)
    good = encode("dcp_mutation", key="k", value=b"{}", by_seqno=1234567890123)
    capture = builders.capture(tmp_path / "x.pcap", server=longer + good)
    name, *others = arguments
    text = output(capture, tmp_path, name, *others, "--redact")
    assert str(seqno).encode() not in text
    assert b"1234567890123" in text


def test_equal_texts_stay_equal_within_a_run_and_with_a_salt_between_runs(tmp_path: Path) -> None:
    capture = SAMPLES / "tour.pcapng"
    plain = records(capture, tmp_path)
    first, second = (records(capture, tmp_path, "--redact") for _ in range(2))
    salted, again = (records(capture, tmp_path, "--redact-salt", "pepper") for _ in range(2))
    keys = [record["key"] for record in plain if record["name"] in STORED]
    for redacted in (first, salted):
        pseudonyms = [record["key"] for record in redacted if record["name"] in STORED]
        assert (
            len(set(keys)) == len(set(pseudonyms)) == len(set(zip(keys, pseudonyms, strict=True)))
        )
    assert first != second
    assert salted == again != first


def test_all_formats_have_the_same_pseudonyms(tmp_path: Path) -> None:
    capture = SAMPLES / "tour.pcapng"
    salt = ("--redact-salt", "pepper", "--opcode", "dcp_mutation")
    expected = [record["key"] for record in records(capture, tmp_path, *salt)]
    output(capture, tmp_path, "x.parquet", *salt)
    table = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert table.column("key").to_pylist() == expected
    assert table.column("key_bytes").to_pylist() == [key.encode() for key in expected]
    lines = output(capture, tmp_path, "x.txt", *salt).decode().splitlines()[1:]
    assert [key in line for key, line in zip(expected, lines, strict=True)] == [True] * len(
        expected
    )


def test_what_is_no_secret_stays(tmp_path: Path) -> None:
    capture = SAMPLES / "tour.pcapng"
    plain, redacted = records(capture, tmp_path), records(capture, tmp_path, "--redact")
    for before, after in zip(plain, redacted, strict=True):
        assert {name for name in before if before[name] != after[name]} <= PRIVATE
        if before["name"] in ("dcp_control", "dcp_stream_req") and before["key"] not in (
            "consumer_name",
            "make_coffee",
        ):
            assert before == after or before["status"] is not None


def test_of_equal_commands_only_keys_that_the_protocol_knows_stay(tmp_path: Path) -> None:
    keys = ["list", "tls", "alice", "list", "seven"] * 3
    requests = b"".join(builders.message(opcode=0xAF, key=key.encode()) for key in keys)
    capture = builders.capture(
        tmp_path / "x.pcap", client=encode("hello", opaque=1, key="agent") + requests, server=b""
    )
    for record, key in zip(records(capture, tmp_path, "--redact")[1:], keys, strict=True):
        field = next(field for field in record["fields"] if field["name"] == "key")
        is_known = key in ("list", "tls")
        assert (record["key"] == key, field["value"] == key, "redacted" in field) == (
            is_known,
            is_known,
            not is_known,
        )
    for arguments in OUTPUTS.values():
        redacted = output(capture, tmp_path, *arguments, "--redact")
        assert b"list" in redacted or b"6c697374" in redacted or b"('l')" in redacted
        assert not any(
            secret in redacted for secret in (b"alice", b"616c696365", b"seven", b"736576656e")
        )


def test_redacted_json_keeps_to_its_schema(tmp_path: Path) -> None:
    validator = jsonschema.Draft202012Validator(message_schema())
    for capture in (SAMPLES / "tour.pcapng", everything(tmp_path / "everything.pcap")):
        shapes = {
            json.dumps(shape(record), sort_keys=True): record
            for record in records(capture, tmp_path, "--redact")
        }
        for record in shapes.values():
            validator.validate(record)


def shape(value: Any) -> Any:
    """The structure of a JSON value: what a schema speaks about, but for numbers and patterns."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return (
        [shape(inner) for inner in value[:3]] if isinstance(value, list) else type(value).__name__
    )


def test_conditions_see_what_the_wire_had(tmp_path: Path) -> None:
    capture = SAMPLES / "tour.pcapng"
    rows = [record["row"] for record in records(capture, tmp_path, "--key", "*datatype*")]
    assert rows
    assert [
        record["row"] for record in records(capture, tmp_path, "--key", "*datatype*", "--redact")
    ] == rows


def twice(path: Path) -> Path:
    """A capture of a stream whose snapshot has one document twice, the later one with a smaller
    CAS, which findings say.
    """
    client = [
        encode("dcp_open", key=b"reader", flags=["producer"]),
        encode("dcp_stream_req", vbucket=7, opaque=0x20, start_seqno=0, end_seqno=(1 << 64) - 1),
    ]
    server = [
        encode("dcp_open", side="response"),
        encode(
            "dcp_stream_req", side="response", opaque=0x20, failover_log=[{"uuid": 1, "seqno": 0}]
        ),
        encode(
            "dcp_snapshot_marker",
            vbucket=7,
            opaque=0x20,
            start_seqno=0,
            end_seqno=2,
            snapshot_type=["disk", "checkpoint"],
        ),
        *(
            encode(
                "dcp_mutation",
                vbucket=7,
                opaque=0x20,
                by_seqno=n,
                cas=9 - n,
                key=SECRET_KEY,
                value=SECRET_VALUE,
            )
            for n in (1, 2)
        ),
    ]
    return builders.capture(path, client=b"".join(client), server=b"".join(server))


TELLING = {
    "check": ["check"],
    "check as ndjson": ["check", "-f", "ndjson"],
    "sql over messages": ["sql", "from messages"],
    "sql that looks": [
        "sql",
        (
            "select key, count(*) from messages where key = 'key-alice-7' or key_bytes = "
            "'key-alice-7'::blob group by all"
        ),
    ],
    "sql over findings": ["sql", "from findings", "-f", "json"],
}


def printed(
    command: str, capture: Path, rest: list[str], capsysbinary: pytest.CaptureFixture[bytes]
) -> bytes:
    assert main([command, str(capture), *rest]) in (0, 1)
    return capsysbinary.readouterr().out


@pytest.mark.parametrize(
    ("command", "rest"), [(one, rest) for one, *rest in TELLING.values()], ids=TELLING
)
def test_findings_and_queries_say_no_key(
    command: str, rest: list[str], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    capture = twice(tmp_path / "twice.pcap")
    assert SECRET_KEY in printed(command, capture, rest, capsysbinary)
    for redacted in (
        printed(command, capture, [*rest, "--redact"], capsysbinary),
        printed(
            command, everything(tmp_path / "everything.pcap"), [*rest, "--redact"], capsysbinary
        ),
    ):
        for secret in (SECRET_KEY, SECRET_USER, SECRET_VALUE, SECRET_PATH):
            assert secret not in redacted
            assert secret.hex().encode() not in redacted


def test_queries_see_equal_pseudonyms_for_equal_keys(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    query = "select count(distinct key) keys, count(*) n from messages where name = 'dcp_mutation'"
    assert (
        printed(
            "sql", twice(tmp_path / "twice.pcap"), [query, "--redact", "-f", "ndjson"], capsysbinary
        )
        == b'{"keys":1,"n":2}\n'
    )
