"""The column ``value``: what annotated messages show, in bulk; and nothing that they hide."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dcpinspect.cli.main import main
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.reading.store.store import Store
from dcpinspect.tables.filter import parse_filter
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tables.messages import MessageBatch
from dcpinspect.tables.value_column import MAX_BYTES, values
from tests import builders
from tests.encode import encode, encode_document
from tests.output.export.forms import CAPTURES, batches
from tests.output.export.test_json_programs import messages_of_events
from tests.protocol.vectors import ALL
from tests.tables.build import batch

SECRET = "hunter2-is-in-this-value"  # noqa: S105 - what the tests look for
FIND = f"select value from messages where value like '%{SECRET}%'"  # noqa: S608 - of our own


def column(made: MessageBatch) -> list[str | None]:
    found: list[str | None] = values(made, np.arange(len(made))).to_pylist()
    return found


def annotated(made: MessageBatch) -> list[str | None]:
    """The same from the annotation of each message."""
    found: list[str | None] = []
    for index in range(len(made)):
        value = made.annotate(index).value
        if value is None or value.encoding not in ("json", "text", "binary") or not value.body:
            found.append(None)
            continue
        rest = "…" if len(value.body) > MAX_BYTES else ""
        try:
            text = codecs.getincrementaldecoder("utf-8")().decode(
                value.body[:MAX_BYTES], final=not rest
            )
        except UnicodeDecodeError:
            text = "0x" + value.body[:MAX_BYTES].hex()
        found.append(text + rest)
    return found


@pytest.mark.slow
def test_values_of_samples_are_those_of_annotated_messages() -> None:
    for path in CAPTURES:
        for made in batches(path):
            assert column(made) == annotated(made)
            redacted = made.redacted(Redactor(b"salt"))
            assert column(redacted) == annotated(redacted)


def test_values_of_vectors_are_those_of_annotated_messages() -> None:
    made = batch(*(vector.data for vector in ALL))
    assert column(made) == annotated(made)


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=100)
@given(messages=st.lists(messages_of_events(), min_size=1, max_size=12))
def test_values_of_any_documents_are_those_of_annotated_messages(messages: list[bytes]) -> None:
    made = batch(*messages)
    assert column(made) == annotated(made)


def document(body: bytes, **how: object) -> bytes:
    value, datatype = encode_document(body, **how)  # type: ignore[arg-type] # as it takes them
    return encode("dcp_mutation", key="k", value=value, datatype=datatype)


def test_a_value_is_unwrapped_and_one_that_is_long_is_cut() -> None:
    long = "ü" * MAX_BYTES
    messages = [
        document(b'{"a": 1}', json=True),
        document(b'{"a": 1}', json=True, snappy=True, xattrs={"_sync": "{}"}),
        document(b"", xattrs={"_sync": "{}"}),
        document(b"\xff\x00"),
        document(long.encode(), snappy=True),
        document(b"\xff" * MAX_BYTES + b"\xff"),
        encode("dcp_noop"),
    ]
    assert column(batch(*messages)) == [
        '{"a": 1}',
        '{"a": 1}',
        None,
        "0xff00",
        "ü" * (MAX_BYTES // 2) + "…",
        "0x" + "ff" * MAX_BYTES + "…",
        None,
    ]


def test_a_value_of_which_the_capture_lacks_some_is_none() -> None:
    whole = document(b"x" * 40)
    assert column(batch(whole, whole, missing={1: [(60, 75)]})) == ["x" * 40, None]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Documents, one with a word in it; and a password."""
    stream = [
        encode(
            "dcp_mutation",
            key=f"k{n}",
            value=f'{{"n": {n}, "who": "{SECRET if n == 7 else n}"}}',
            by_seqno=n,
        )
        for n in range(1, 20)
    ]
    login = encode("sasl_auth", key="PLAIN", value=f"\0user\0{SECRET}-too".encode())
    builders.capture(tmp_path / "x.pcap", client=login, server=b"".join(stream))
    return tmp_path / "x.pcap"


def test_a_filter_reads_values_in_captures_and_in_what_is_kept(capture: Path) -> None:
    condition = FilterRows(parse_filter(f"value like '%{SECRET}%'"))
    with Store() as store, Reading([str(capture)], keeper=store) as reading:
        found = [
            int(row)
            for made in store.fill(reading)
            for row in made.row[condition.rows(made, np.arange(len(made)))]
        ]
        assert found == store.matching(condition).tolist()
        assert len(found) == 1
        assert json.loads(store.batch_of(found, ["value"]).column(0)[0].as_py())["n"] == 7
        rows = [one for part in store.batches(["row", "value"]) for one in part.to_pylist()]
        assert [
            one["row"] for one in rows if one["value"] is not None and SECRET in one["value"]
        ] == found


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., bytes]:
    """What a command prints; it must succeed."""

    def run(*arguments: str) -> bytes:
        assert main(arguments) == 0
        return capsysbinary.readouterr().out

    return run


def test_every_format_and_query_has_values_where_they_are_named(
    run: Callable[..., bytes], capture: Path, tmp_path: Path
) -> None:
    named = ["--columns", "row,value", "--filter", f"value like '%{SECRET}%'"]
    for format_ in ("csv", "ndjson", "json", "text"):
        assert SECRET.encode() in run("read", str(capture), *named, "--format", format_)
    assert SECRET.encode() in run("sql", str(capture), FIND, "--format", "csv")
    run("read", str(capture), *named, "-o", str(tmp_path / "x.parquet"))
    (value,) = pq.read_table(tmp_path / "x.parquet").column("value").to_pylist()
    assert SECRET in value
    run("read", str(capture), "-o", str(tmp_path / "all.parquet"))
    assert "value" not in pq.read_schema(tmp_path / "all.parquet").names


@pytest.mark.parametrize("command", ["csv", "ndjson", "json", "text", "parquet", "arrow", "sql"])
def test_what_is_redacted_is_in_no_output(
    command: str, run: Callable[..., bytes], capture: Path, tmp_path: Path
) -> None:
    out = tmp_path / f"out.{command}"
    if command == "sql":
        shown = run(
            "sql", str(capture), "select row, value from messages", "--redact", "--format", "csv"
        )
        assert run("sql", str(capture), FIND, "--redact", "--format", "csv").split() == [b'"value"']
    elif command in ("parquet", "arrow"):
        run("read", str(capture), "--redact", "--columns", "row,value", "-o", str(out))
        shown = out.read_bytes()
    else:
        shown = run("read", str(capture), "--redact", "--columns", "row,value", "--format", command)
    assert len(shown) > 100
    assert SECRET.encode() not in shown


def test_a_password_is_no_value(run: Callable[..., bytes], capture: Path) -> None:
    assert f"{SECRET}-too".encode() not in run(
        "read", str(capture), "--columns", "row,name,value", "--format", "csv"
    )
