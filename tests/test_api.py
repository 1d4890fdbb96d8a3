"""``dcpinspect.open``: the same messages as ``dcpinspect read``, as tables and one by one."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import dcpinspect
from dcpinspect.api import Recording
from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.errors import (
    CaptureError,
    ChangedCaptureError,
    DcpInspectError,
    NotKeptError,
    PlacedError,
    UsageError,
)
from dcpinspect.protocol.redact import Redactor
from dcpinspect.tables.arrow import arrow_schema
from dcpinspect.tables.schema import COLUMNS
from tests import builders
from tests.captures import field
from tests.encode import encode
from tests.peers.truth import SAMPLES

TOUR = SAMPLES / "tour.pcapng"
NAMES = [column.name for column in COLUMNS]


@pytest.fixture(autouse=True)
def spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where spools are made, and must be gone from in the end."""
    folder = tmp_path / "spools"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


def read(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What ``dcpinspect read`` prints as JSON."""
    capsys.readouterr()
    assert main(["read", "--format", "ndjson", *arguments]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def piped(folder: Path, data: bytes) -> Path:
    """A pipe that has these bytes written to it."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)

    def write() -> None:
        with suppress(BrokenPipeError):  # who closes at once may be gone before the first byte
            pipe.write_bytes(data)

    threading.Thread(target=write, daemon=True).start()
    return pipe


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tour.pcapng", "capture-loss.pcap", "rollback.pcap"])
def test_an_annotation_is_the_json_of_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected = read(capsys, str(SAMPLES / name))
    with dcpinspect.open(SAMPLES / name) as recording:
        assert len(recording) == len(expected)
        assert recording.rows == range(1, len(expected) + 1)
        for row in recording.rows:
            annotation = recording.annotate(row)
            assert annotation.to_dict() == expected[row - 1]
            assert annotation.data == recording.bytes_of(row)


def test_annotations_and_timelines_go_to_another_process() -> None:
    with dcpinspect.open(SAMPLES / "rollback.pcap") as recording:
        annotation, history = recording.annotate(161), recording.timeline(7)
        sent = pickle.loads(pickle.dumps((annotation, history)))  # noqa: S301 - its own
        assert (str(sent[0]), sent[0].to_dict()) == (str(annotation), annotation.to_dict())
        assert (str(sent[1]), sent[1].to_dict()) == (str(history), history.to_dict())


def test_an_annotation_has_the_options_of_the_json(capsys: pytest.CaptureFixture[str]) -> None:
    (expected,) = read(capsys, str(TOUR), "--filter", "row = 169", "--no-fields", "--values", "4")
    with dcpinspect.open(TOUR) as recording:
        assert recording.annotate(169).to_dict(fields=False, values=4) == expected


def test_an_annotation_tells_its_fields_and_prints_as_the_field_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["read", str(TOUR), "--filter", "row = 162", "-V"]) == 0
    printed = capsys.readouterr().out
    with dcpinspect.open(TOUR) as recording:
        marker = recording.annotate(162)
        assert repr(marker) == "<dcp_snapshot_marker, row 162, 77 bytes>"
        assert all(
            f"    {line}".rstrip() in printed.splitlines() for line in str(marker).splitlines()
        )
        assert [
            (field.name, field.offset, field.value)
            for field in marker.fields
            if field.name == "end_seqno"
        ] == [("end_seqno", 33, 19)]
        assert (marker.row, marker.message.generation) == (162, "v2.2")


def test_numbers_and_depth_of_a_document_are_kept(tmp_path: Path) -> None:
    documents = [b"[" * 1024 + b"]" * 1024, b'{"n":%d,"x":0.1}' % (10**30)]
    server = b"".join(
        encode("dcp_mutation", key="k", value=value, datatype=1) for value in documents
    )
    limit = sys.getrecursionlimit()
    with dcpinspect.open(builders.capture(tmp_path / "a.pcap", server=server)) as recording:
        assert recording.annotate(1).to_dict()["value"]["encoding"] == "json"
        assert recording.annotate(2).to_dict()["value"]["json"] == {"n": 10**30, "x": 0.1}
    assert sys.getrecursionlimit() == limit


CONDITIONS = [None, "vbucket = 417 and name like 'dcp_m%'", "opcode = 80", "row = 1000000"]


@pytest.mark.parametrize("is_kept", [False, True], ids=["streamed", "kept"])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_messages_are_those_of_read(
    condition: str | None, is_kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = read(capsys, str(TOUR), *(["--filter", condition] if condition else []))
    with dcpinspect.open(TOUR) as recording:
        if is_kept:
            recording.bytes_of(1)
        reader = recording.messages(
            ["row", "name", "by_seqno", "datatype", "cas"], filter=condition
        )
        assert reader.schema == arrow_schema(["row", "name", "by_seqno", "datatype", "cas"])
        table = reader.read_all()
        assert table.num_rows == len(expected)
        for found, record in zip(table.to_pylist(), expected, strict=True):
            assert found == {name: record.get(name) for name in found} | (
                {} if "by_seqno" in record else {"by_seqno": found["by_seqno"]}
            )


def test_all_columns_come_unless_some_are_named() -> None:
    with dcpinspect.open(TOUR) as recording:
        streamed = recording.messages().read_all()
        recording.annotate(1)
        assert streamed.schema.names == NAMES
        assert recording.messages().read_all().equals(streamed)


def test_batches_come_while_a_capture_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dcpinspect.reading.reading.open_capture", partial(open_capture, batch_bytes=4000)
    )
    with dcpinspect.open(SAMPLES / "snapshots.pcap") as recording:
        sizes = [batch.num_rows for batch in recording.messages(["row"])]
        assert len(sizes) > 3
        assert sum(sizes) == len(recording) == 167
        recording.bytes_of(1)
        assert recording.messages(["row"]).read_all()["row"].to_pylist() == list(range(1, 168))


def test_a_reader_that_is_left_frees_its_file() -> None:
    recording = dcpinspect.open(TOUR)
    reader = recording.messages(["row"])
    assert reader.read_next_batch().num_rows
    del reader
    recording.close()
    # an open file would be a ResourceWarning, which fails the tests


@pytest.mark.slow
def test_duckdb_takes_the_messages_as_they_are() -> None:
    with dcpinspect.open(TOUR) as recording:
        messages = recording.messages(["connection", "length"])
        assert messages.schema.names == ["connection", "length"]
        (found,) = duckdb.connect().execute("select count(*), sum(length) from messages").fetchall()
        assert found == (
            len(recording),
            sum(len(recording.bytes_of(row)) for row in recording.rows),
        )


def test_several_captures_are_one_recording(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [SAMPLES / "tour.pcapng", SAMPLES / "rollback.pcap"]
    expected = read(capsys, *map(str, paths), "--filter", "name = 'dcp_open'")
    with dcpinspect.open(paths) as recording:
        assert len(recording) == 450 + 161
        rows = recording.messages(["row"], filter="name = 'dcp_open'").read_all()["row"].to_pylist()
        assert [recording.annotate(row).to_dict() for row in rows] == expected


@pytest.mark.slow
@pytest.mark.parametrize("is_compressed", [False, True])
def test_a_pipe_can_be_asked_anything_any_number_of_times(
    is_compressed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = read(capsys, str(TOUR))
    data = TOUR.read_bytes()
    pipe = piped(tmp_path, gzip.compress(data) if is_compressed else data)
    with dcpinspect.open(pipe) as recording:
        first = next(iter(recording.messages(["row"])))
        assert first.column("row")[0].as_py() == 1
        for _ in range(2):
            assert recording.messages(["row"]).read_all()["row"].to_pylist() == list(range(1, 451))
        assert recording.annotate(169).to_dict() == expected[168] | {"file": str(pipe)}
        assert recording.table("streams").num_rows == 20
        assert (
            recording.table("findings")["rule"].to_pylist()
            == [one.rule for one in recording.findings()]
            != []
        )
        assert len(recording) == 450
        assert recording.coverage.packets["used"] > 400

    code = (
        "import dcpinspect\nr = dcpinspect.open('-')\nprint(len(r), r.annotate(1).message.name, "
        "next(r.messages()).num_rows)"
    )
    with TOUR.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", code], stdin=file, capture_output=True, text=True, check=True
        )
    assert (done.stdout, done.stderr) == ("450 hello 450\n", "")


def test_a_pipe_that_nobody_asks_about_is_freed(tmp_path: Path) -> None:
    dcpinspect.open(piped(tmp_path, TOUR.read_bytes())).close()
    # an open file would be a ResourceWarning, which fails the tests


def test_messages_that_come_while_others_are_iterated_over_come_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dcpinspect.reading.reading.open_capture", partial(open_capture, batch_bytes=4000)
    )
    with dcpinspect.open(piped(tmp_path, TOUR.read_bytes())) as recording:
        rows = []
        for batch in recording.messages(["row"]):
            rows += batch.column("row").to_pylist()
            assert recording.annotate(450).row == 450  # reads to the end
        assert rows == list(range(1, 451))


def test_a_file_whose_reading_was_interrupted_is_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with dcpinspect.open(TOUR) as recording:
        with monkeypatch.context() as patch:
            patch.setattr("dcpinspect.reading.store.store.Store._append", interrupt)
            with pytest.raises(KeyboardInterrupt):
                recording.annotate(1)
        assert recording.rows == range(1, 451)
        assert recording.messages(["row"]).read_all().num_rows == 450


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_pipe_whose_reading_was_interrupted_is_not_taken_for_whole(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    stop = threading.Event()

    def write() -> None:
        with pipe.open("wb") as file:
            file.write(TOUR.read_bytes()[:30_000])
            file.flush()
            stop.wait()

    writer = threading.Thread(target=write)
    writer.start()
    with dcpinspect.open(pipe) as recording:
        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            with pytest.raises(KeyboardInterrupt):
                len(recording)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        for ask in (
            lambda: len(recording),
            lambda: recording.annotate(1),
            lambda: recording.messages(["row"]).read_all(),
        ):
            with pytest.raises(
                CaptureError,
                match=r"pipe: reading was interrupted, .*; record it to a file, and open that",
            ):
                ask()
    stop.set()
    writer.join()


@pytest.mark.slow
def test_of_a_pipe_no_more_is_kept_than_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "dcpinspect.reading.reading.open_capture", partial(open_capture, batch_bytes=20_000)
    )
    monkeypatch.setattr("dcpinspect.reading.store.store.PART_ROWS", 16)
    path = builders.capture(
        tmp_path / "a.pcap", server=b"".join(builders.mutations(600, value=lambda _: bytes(1000)))
    )
    with dcpinspect.open(piped(tmp_path, path.read_bytes()), keep=200_000) as recording:
        assert len(recording) == 600
        assert recording.rows.stop == 601
        assert 300 < recording.rows.start < 560
        assert recording.annotate(600).message.name == "dcp_mutation"
        first = recording.rows.start
        with pytest.warns(
            UserWarning,
            match=(
                f"rows 1 to {first - 1} were dropped; keep more than 200,000 bytes, or read a file"
            ),
        ):
            assert recording.messages(["row"]).read_all()["row"].to_pylist() == list(recording.rows)
        with pytest.raises(NotKeptError, match="row 1 was dropped"):
            recording.annotate(1)


def test_other_tables_are_those_of_the_streams() -> None:
    with dcpinspect.open(SAMPLES / "rollback.pcap") as recording:
        streams = recording.table("streams").to_pylist()
        assert [one["vbucket"] for one in streams if one["answer"] == "rollback"] == [7, 9, 10]
        assert {
            name: recording.table(name).num_rows > 0
            for name in ("connections", "snapshots", "gaps", "vbuckets")
        } == {
            "connections": True,
            "snapshots": True,
            "gaps": True,
            "vbuckets": True,
        }
        assert len(recording) == 161


def test_findings_name_messages_that_can_be_looked_at() -> None:
    with dcpinspect.open(SAMPLES / "rollback.pcap") as recording:
        place, first = next(
            (place, one) for place, one in enumerate(recording.findings()) if one.rule == "rollback"
        )
        assert (first.rule, first.severity, first.vbuckets) == ("rollback", "note", (7,))
        assert [recording.annotate(place.row).message.name for place in first.places[:2]] == [
            "dcp_stream_req",
            "dcp_stream_req",
        ]
        assert recording.table("findings")["message"][place].as_py() == first.message
        assert [
            dict(one)["note"] for one in recording.table("vbuckets")["findings"].to_pylist()
        ] == [2, 1, 2, 2]


@pytest.mark.parametrize("port", [31_000, [31_000], "auto", [9, "auto"]])
def test_ports_are_those_of_read(port: Any, tmp_path: Path) -> None:
    one = builders.Conversation(server=("10.0.0.2", 31_000))
    one.handshake()
    one.stream(True, encode("hello", opaque=1))
    one.stream(False, encode("hello", "response", opaque=1))
    path = tmp_path / "a.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    for given, messages in ((None, 0), (port, 2)):
        with dcpinspect.open(path, port=given) as recording:
            assert len(recording) == messages


def test_what_was_lost_and_what_is_damaged_is_told(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes((SAMPLES / "capture-loss.pcap").read_bytes()[:-7])
    with dcpinspect.open(path) as recording:
        assert [problem.what for problem in recording.problems] == [
            "the last record is cut short (7 bytes of it are present)"
        ] or recording.problems
        assert sum(one.holes for one in recording.coverage.directions) == 5


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: dcpinspect.open("nowhere.pcap"),
            CaptureError,
            "nowhere.pcap: there is no such file",
        ),
        (
            lambda: dcpinspect.open(SAMPLES.parent / "docs"),
            CaptureError,
            "is a directory without captures; name one that has pcap",
        ),
        (
            lambda: dcpinspect.open(__file__),
            CaptureError,
            "is not a capture (begins with 22 22 22 60)",
        ),
        (lambda: dcpinspect.open([]), UsageError, "open: name at least one capture"),
        (
            lambda: dcpinspect.open(TOUR, port=70_000),
            UsageError,
            "port 70000: give a number from 1 to 65535, or 'auto'",
        ),
        (
            lambda: dcpinspect.open(TOUR, port="any"),  # type: ignore[arg-type]
            UsageError,
            "port any: give a number from 1 to 65535, or 'auto'",
        ),
        (
            lambda: dcpinspect.open(TOUR, port=True),
            UsageError,
            "port True: give a number from 1 to 65535, or 'auto'",
        ),
        (
            lambda: dcpinspect.open(TOUR).messages(["vbuckt"]),
            UsageError,
            "columns: vbuckt: messages have no such column; did you mean vbucket",
        ),
        (
            lambda: dcpinspect.open(TOUR).messages("name"),
            UsageError,
            "columns 'name': give a list of names, as in ['name', 'vbucket']",
        ),
        (
            lambda: dcpinspect.open(TOUR).messages(["name", "name"]),
            UsageError,
            "columns: name is there twice",
        ),
        (lambda: dcpinspect.open(TOUR).messages([]), UsageError, "columns: name at least one"),
        (lambda: dcpinspect.open(TOUR).messages(filter="vbuckt = 1"), PlacedError, "filter: "),
        (
            lambda: dcpinspect.open(TOUR).messages(limit=-1),
            UsageError,
            "limit -1: give a number of rows, 0 or more",
        ),
        (
            lambda: dcpinspect.open(TOUR).findings("rolback"),
            UsageError,
            "rule rolback: there is none; did you mean rollback",
        ),
        (
            lambda: dcpinspect.open(TOUR).findings("nope"),
            UsageError,
            "rule nope: there is none; 'dcpinspect check --list-rules' lists all",
        ),
        (
            lambda: dcpinspect.explain("nonsense-x"),
            UsageError,
            "nonsense-x is no command, status, control key, feature, rule, word or column; "
            "'dcpinspect check --list-rules' and 'dcpinspect read --columns' list names",
        ),
        (
            lambda: dcpinspect.explain("rollbak"),
            UsageError,
            "nothing is called rollbak; did you mean rollback",
        ),
        (
            lambda: dcpinspect.open(TOUR).table("stream"),
            UsageError,
            "table stream: there is none; did you mean streams",
        ),
        (lambda: dcpinspect.open(TOUR).messages([None]), UsageError, "columns: None: messages"),  # type: ignore[list-item]
        (lambda: dcpinspect.open(TOUR).table(5), UsageError, "table 5: there is none"),  # type: ignore[arg-type]
        (lambda: dcpinspect.open(TOUR).findings(5), UsageError, "rule 5: there is none"),  # type: ignore[arg-type]
        (lambda: dcpinspect.open(TOUR).table([]), UsageError, "table []: there is none"),  # type: ignore[arg-type]
        (lambda: dcpinspect.open(TOUR).messages(filter=5), UsageError, "filter: "),  # type: ignore[arg-type]
        (lambda: dcpinspect.open(TOUR).messages(5), UsageError, "columns 5: give a list of names"),  # type: ignore[arg-type]
        (
            lambda: dcpinspect.open(TOUR).messages(limit="a"),  # type: ignore[arg-type]
            UsageError,
            "limit 'a': give a whole number",
        ),
        (
            lambda: dcpinspect.open(TOUR).timeline("x"),  # type: ignore[arg-type]
            UsageError,
            "vbucket 'x': give a whole number",
        ),
        (
            lambda: dcpinspect.open(TOUR).annotate("1"),  # type: ignore[arg-type]
            UsageError,
            "row '1': give a whole number",
        ),
        (lambda: dcpinspect.open(5), UsageError, "open 5: give the name of a file, or a list"),  # type: ignore[arg-type]
        (
            lambda: dcpinspect.open(TOUR, keylog=5),  # type: ignore[arg-type]
            UsageError,
            "keylog 5: give the name of a file, or a list",
        ),
        (
            lambda: dcpinspect.open(io.BytesIO(b"x")),  # type: ignore[arg-type]
            UsageError,
            "BytesIO object at 0x",
        ),
        (lambda: dcpinspect.open(b"x.pcap"), UsageError, "open b'x.pcap': give the name of a file"),  # type: ignore[arg-type]
        (lambda: dcpinspect.open([b"x.pcap"]), UsageError, "open b'x.pcap': give the name of a"),  # type: ignore[list-item]
        (lambda: dcpinspect.open(TOUR).report(5), UsageError, "report 5: give the name of a file"),  # type: ignore[arg-type]
        (
            lambda: dcpinspect.open(TOUR).report("x.md", redact=True, redact_salt=5),  # type: ignore[arg-type]
            UsageError,
            "redact_salt 5: give a text",
        ),
        (
            lambda: dcpinspect.open(TOUR).report("x.md", redact=True, redact_salt="\ud800"),
            UsageError,
            "ud800': give a text",
        ),
        (lambda: dcpinspect.open(TOUR, keep="x"), UsageError, "keep 'x': give a whole number"),  # type: ignore[arg-type]
        (lambda: dcpinspect.open(TOUR, keep=-1), UsageError, "keep -1: give a number of bytes, 0"),
        (
            lambda: dcpinspect.open(TOUR, tls_search=float("nan")),  # type: ignore[arg-type]
            UsageError,
            "tls_search nan: give a whole number",
        ),
        (lambda: dcpinspect.open(TOUR, tls_search=-1), UsageError, "tls_search -1: give a number"),
        (lambda: dcpinspect.open(TOUR, port=b"auto"), UsageError, "port b'auto': give a number"),
        (lambda: dcpinspect.open(TOUR, port=1.5), UsageError, "port 1.5: give a number from 1"),  # type: ignore[arg-type]
        (lambda: dcpinspect.open("a" * 5000), CaptureError, "a" * 9),
        (lambda: dcpinspect.open("a\0b"), CaptureError, "a"),
        (
            lambda: dcpinspect.open(TOUR).table("x"),
            UsageError,
            "table x: there is none; there are connections, streams, snapshots, gaps",
        ),
    ],
)
def test_a_wrong_call_is_one_clear_line(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert says in str(caught.value)
    assert isinstance(caught.value, DcpInspectError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("row", [0, -1, 451])
def test_a_row_that_does_not_exist_is_an_index_error(row: int) -> None:
    with (
        dcpinspect.open(TOUR) as recording,
        pytest.raises(IndexError, match=f"row {row}: rows are 1 to 450") as caught,
    ):
        recording.annotate(row)
    assert isinstance(caught.value, DcpInspectError)


def test_a_file_that_shrinks_while_it_is_open_is_an_error_and_no_crash(tmp_path: Path) -> None:
    path = Path(shutil.copy(TOUR, tmp_path))
    with dcpinspect.open(path) as recording:
        assert len(recording.bytes_of(440)) == 24
        os.truncate(path, 2000)
        with pytest.raises(
            ChangedCaptureError,
            match=r"has shrunk from .* to 2,000 bytes since it was read; open it again",
        ):
            recording.bytes_of(440)


def shrink(path: Path) -> None:
    os.truncate(path, 2000)


def write_another(path: Path) -> None:
    shutil.copy(SAMPLES / "loop.pcap", path)


def damage(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:5000] + bytes(1000) + data[6000:])


@pytest.mark.parametrize("change", [shrink, write_another, damage, os.remove])
@pytest.mark.parametrize(
    "ask",
    [
        lambda recording: recording.table("streams"),
        lambda recording: recording.findings(),
        lambda recording: recording.messages(["row"]).read_all(),
        lambda recording: recording.annotate(300),
        lambda recording: recording.timeline(0),
        lambda recording: recording.report("report.md"),
    ],
)
def test_a_file_that_changes_between_two_calls_is_an_error(
    change: Callable[[Path], None],
    ask: Callable[[Recording], object],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(shutil.copy(SAMPLES / "rollback.pcap", tmp_path))
    with dcpinspect.open(path) as recording:
        assert len(recording) == 161
        change(path)
        with pytest.raises(ChangedCaptureError, match="open it again"):
            ask(recording)


def test_a_file_may_grow_between_two_calls(tmp_path: Path) -> None:
    data = (SAMPLES / "rollback.pcap").read_bytes()
    (path := tmp_path / "grows.pcap").write_bytes(data[:9000])
    with dcpinspect.open(path) as recording:
        before = len(recording)
        path.write_bytes(data)
        assert recording.messages(["row"]).read_all().num_rows > before


def test_a_message_has_no_numbered_fields() -> None:
    with dcpinspect.open(TOUR) as recording:
        annotation = recording.annotate(1)
        with pytest.raises(KeyError, match=r"5: .* has no such field"):
            annotation[5]  # type: ignore[index]


def test_a_closed_recording_says_so() -> None:
    recording = dcpinspect.open(TOUR)
    reader = recording.messages(["row"])
    recording.annotate(1)
    kept = recording.messages(["row"])
    recording.close()
    recording.close()
    for ask in (
        lambda: recording.annotate(1),
        lambda: len(recording),
        recording.messages,
        lambda: recording.table("gaps"),
        recording.findings,
        kept.read_all,
        reader.read_all,
    ):
        with pytest.raises(
            ValueError, match="the recording is closed; open the captures"
        ) as caught:
            ask()
        assert isinstance(caught.value, DcpInspectError)


def test_what_was_made_before_stays_after_closing() -> None:
    with dcpinspect.open(TOUR) as recording:
        annotation = recording.annotate(169)
        table = recording.messages(["row", "key"]).read_all()
    assert annotation.to_dict()["key"] == "datatype::3"
    assert table.slice(168, 1).to_pylist() == [{"row": 169, "key": "datatype::3"}]


@pytest.mark.slow
def test_a_program_that_forgets_to_close_leaves_nothing(spools: Path) -> None:
    code = f"import dcpinspect\nr = dcpinspect.open({str(TOUR)!r})\nprint(r.annotate(169).row)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TMPDIR": str(spools)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("169\n", "")


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    with dcpinspect.open(builders.capture(tmp_path / "empty.pcap")) as recording:
        assert (
            recording.messages().read_all().equals(pa.Table.from_batches([], arrow_schema(NAMES)))
        )
        assert (len(recording), recording.rows) == (0, range(1, 1))
        assert recording.table("streams").num_rows == 0
        with pytest.raises(IndexError, match="row 1: there are no messages"):
            recording.annotate(1)


def test_what_was_gathered_is_answered_without_the_capture(tmp_path: Path) -> None:
    copy = tmp_path / "copy.pcap"
    copy.write_bytes((SAMPLES / "rollback.pcap").read_bytes())
    with Recording(copy) as recording:
        recording.gather()
        copy.unlink()  # whoever reads it again fails
        assert recording.table("streams").num_rows == 11
        assert len(recording.findings()) == 6
        assert recording.messages(
            ["row"], filter="status_name = 'rollback'"
        ).read_all().to_pydict() == {"row": [100, 104, 106]}
        with recording.query(
            "select count(*) c, (select count(*) from findings) f from messages"
        ) as query:
            assert [row for batch in query.result() for row in batch.to_pylist()] == [
                {"c": 161, "f": 6}
            ]


def test_gathering_that_was_interrupted_begins_anew() -> None:
    with Recording(SAMPLES / "rollback.pcap") as recording:
        with pytest.raises(InterruptedError):
            recording.gather(lambda _: False)
        recording.gather()
        assert len(recording.findings()) == 6


def test_a_recording_with_a_redactor_shows_no_key_and_no_value() -> None:
    with Recording(SAMPLES / "rollback.pcap", redactor=Redactor(b"salt")) as recording:
        streamed = recording.messages(["key", "value"]).read_all()
        recording.gather()
        assert recording.messages(["key", "value"]).read_all().equals(streamed)
        with recording.query("select key, value from messages where row = 24") as query:
            [row] = [row for batch in query.result() for row in batch.to_pylist()]
        assert len(row["key"]) == 32
        assert b"order::7-2" in (SAMPLES / "rollback.pcap").read_bytes()
        for shown in (
            str(streamed.to_pydict()),
            str(row),
            str(recording.annotate(24)),
            str(recording.bytes_of(24)),
        ):
            assert "order::7" not in shown


def test_a_vbucket_that_is_not_there_and_what_is_no_bytes_are_errors() -> None:
    with (
        dcpinspect.open(SAMPLES / "rollback.pcap") as recording,
        pytest.raises(UsageError, match=r"^vbucket 99: no stream of it .*; there are 7–10$"),
    ):
        recording.timeline(99)
    for value in ("8055", 5, None):
        with pytest.raises(UsageError, match=rf"^decode takes bytes, not {type(value).__name__}: "):
            dcpinspect.decode(value)  # type: ignore[arg-type]
    for content in (bytes(24), bytearray(24), memoryview(bytes(24))):
        assert len(dcpinspect.decode(content)) == 1


def test_what_is_returned_says_what_it_is() -> None:
    path = SAMPLES / "rollback.pcap"
    with dcpinspect.open(path) as recording:
        assert repr(recording) == f"<recording of {path}>"
        finding = recording.findings("rollback")[0]
        assert repr(finding) == f"<note rollback, vb 7, connection 2: {finding.message}>"
        assert repr(recording) == f"<recording of {path}, 161 messages>"
        assert repr(recording.timeline(7)) == "<timeline of vbucket 7: 3 streams, 35 events>"
        assert (
            repr(recording.coverage)
            == "<coverage: 147 packets, 24384 of 24384 bytes decoded, 0 missing>"
        )
        assert repr(recording.coverage.directions[0]) == (
            "<connection 1 c2s, 10.11.0.1:50000 > 10.11.0.2:11210: 625 of 625 bytes decoded, 0 missing>"
        )
        events = recording.timeline(7).events
        assert (
            repr(events[0]) == "<request, row 13, connection 1: request from 0: accepted; no end>"
        )
        answer = recording.annotate(100)
        assert repr(answer.message) == "<dcp_stream_req v1, 32 bytes, 10 fields, 0 problems>"
        assert repr(answer.fields[-1]) == "<rollback_seqno at 24, 8 bytes: 50>"
        assert repr(dcpinspect.explain("0x56")).startswith("dcp_snapshot_marker: opcode 0x56\n")


@pytest.mark.parametrize("is_pipe", [False, True], ids=["file", "pipe"])
def test_a_timeline_and_an_overview_are_those_of_the_commands(
    is_pipe: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = SAMPLES / "rollback.pcap"
    assert main(["timeline", str(path), "--vbucket", "7", "--format", "json"]) == 0
    timeline = json.loads(capsys.readouterr().out)
    assert main(["timeline", str(path), "--vbucket", "7"]) == 0
    text = capsys.readouterr().out
    assert main(["info", str(path), "--format", "json"]) == 0
    [info] = json.loads(capsys.readouterr().out)
    assert main(["info", str(path)]) == 0
    lines = capsys.readouterr().out
    opened = piped(tmp_path, path.read_bytes()) if is_pipe else path
    with dcpinspect.open(opened) as recording:
        found = recording.timeline(7)
        assert found.to_dict() == timeline
        assert f"\n{found}\n" in text
        told = recording.info()
        changed = ("files", "next") if is_pipe else ()
        assert {**told, **{name: info[name] for name in changed}} == info
        assert is_pipe or str(told).split() == lines.split()  # a terminal of 80 columns wraps


def test_coverage_says_which_directions_it_has() -> None:
    with dcpinspect.open(SAMPLES / "upr.pcap") as recording:
        directions = recording.coverage.directions
    assert repr(directions) == f"<2 directions: {directions[0]!r}, {directions[1]!r}>"
    with dcpinspect.open(TOUR) as recording:
        text = repr(recording.coverage.directions)
    assert text.startswith("<14 directions: <connection 1 c2s, 10.11.0.1:50000 > ")
    assert text.endswith(", and 12 more>")


def test_skipped_bytes_of_a_connection_are_those_of_coverage() -> None:
    with dcpinspect.open(field("q05-tls-to-plain-port")) as recording:
        skipped = recording.table("connections")["skipped_bytes"].to_pylist()
        directions = list(recording.coverage.directions)
    assert sum(direction.not_decodable for direction in directions) > 0
    assert sum(skipped) == sum(sum(direction.skipped.values()) for direction in directions)


def test_lists_that_info_cuts_are_whole_in_the_object() -> None:
    with dcpinspect.open(SAMPLES / "tour.pcapng") as recording:
        told = recording.info()
    assert 'and 4 more clients; info()["clients"] has all' in " ".join(str(told).split())
    assert len(told["clients"]) == 7


def test_a_finding_as_a_dictionary_is_what_check_prints(capsys: pytest.CaptureFixture[str]) -> None:
    paths = [str(SAMPLES / name) for name in ("rollback.pcap", "orphans.pcap")]
    for given in (paths[:1], paths):
        assert main(["check", *given, "--format", "ndjson", "--fail-on", "never"]) == 0
        printed = list(map(json.loads, capsys.readouterr().out.splitlines()))
        with dcpinspect.open(given) as recording:
            assert [finding.to_dict() for finding in recording.findings()] == printed


def test_no_more_messages_come_than_asked_for(tmp_path: Path) -> None:
    for path in (TOUR, piped(tmp_path, TOUR.read_bytes())):
        with dcpinspect.open(path) as recording:
            for limit in (0, 1, 3, 450, 1000, 1 << 70):
                assert recording.messages(["row"], limit=limit).read_all()[
                    "row"
                ].to_pylist() == list(range(1, min(limit, 450) + 1))
            assert (
                recording.messages(["row"], filter="vbucket = 417", limit=2).read_all().num_rows
                == 2
            )


@pytest.mark.parametrize(
    "name", ["features", "specs", "results", "version_name", "durability_level_name"]
)
def test_lists_and_names_that_json_has_of_a_message_are_items(name: str) -> None:
    with dcpinspect.open(TOUR) as recording:
        messages = [recording.annotate(row + 1) for row in range(recording.info()["rows"])]
        told = [
            (message, message.to_dict()[name]) for message in messages if name in message.to_dict()
        ]
        assert told
        for message, expected in told:
            assert message[name] == getattr(message, name) == expected
            assert name in dir(message)
            [decoded] = dcpinspect.decode(message.data)
            assert decoded[name] == expected


def test_columns_and_fields_of_a_message_are_attributes_and_items() -> None:
    with dcpinspect.open(SAMPLES / "rollback.pcap") as recording:
        request, answer = recording.annotate(99), recording.annotate(100)
        assert (request.vbucket, request["vbucket"], request.start_seqno, request.name) == (
            7,
            7,
            60,
            "dcp_stream_req",
        )
        assert (answer.rollback_seqno, answer["request_row"], answer.vbucket) == (50, 99, 7)
        assert {"vbucket", "rollback_seqno", "to_dict"} <= set(dir(answer))
        with pytest.raises(
            KeyError,
            match="rollback_seqn: dcp_stream_req has no such field; did you mean rollback_seqno",
        ):
            answer["rollback_seqn"]
        with pytest.raises(
            AttributeError, match="vbuckt: dcp_stream_req has no such field; did you mean vbucket"
        ):
            _ = answer.vbuckt
        [alone] = dcpinspect.decode(answer.data)
        assert (alone.rollback_seqno, str(alone)) == (50, str(answer))


def test_bytes_alone_are_decoded_as_far_as_messages_follow_each_other() -> None:
    first, second = (
        encode("dcp_noop", opaque=1),
        encode("dcp_stream_req", "response", opaque=2, status=0x23, rollback_seqno=9),
    )
    assert [
        (one.message.name, len(one.data), one.message.problems)
        for one in dcpinspect.decode(first + second)
    ] == [
        ("dcp_noop", 24, []),
        ("dcp_stream_req", 32, []),
    ]
    [_, cut] = dcpinspect.decode(first + second[:30])
    assert [problem.rule for problem in cut.message.problems] == ["truncated"]
    [junk] = dcpinspect.decode(b"no message is here, only text that goes on")
    assert junk.message.problems[0].rule == "bad-magic"
    assert dcpinspect.decode(b"") == []


def test_bytes_alone_tell_columns_of_messages() -> None:
    [request] = dcpinspect.decode(encode("dcp_stream_req"))
    assert (request.name, request.side, request.length, request.status_name) == (
        "dcp_stream_req",
        "request",
        72,
        None,
    )
    assert {"name", "side", "length", "layout"} <= {*dir(request)}
    [answer] = dcpinspect.decode(encode("dcp_noop", side="response"))
    assert (answer["side"], answer["status_name"]) == ("response", "success")


def test_a_cut_message_is_not_shown_as_a_whole_one() -> None:
    assert repr(dcpinspect.decode(encode("dcp_noop"))[0]) == "<dcp_noop, 24 bytes>"
    cut = dcpinspect.decode(encode("dcp_stream_req")[:30])[0]
    assert re.fullmatch(r"<dcp_stream_req, 30 bytes, \d problems?>", repr(cut))
    [byte] = dcpinspect.decode(b"\x80")
    assert repr(byte).startswith("<incomplete, 1 byte")
    assert repr(byte.fields[0]).startswith("<magic at 0, 1 byte: ")


def test_tab_completion_offers_what_is_for_people() -> None:
    def names(of: object) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    with dcpinspect.open(TOUR) as recording:
        assert names(dcpinspect) == {"decode", "explain", "open"}
        assert names(recording) == {
            *("annotate", "bytes_of", "close", "coverage", "findings", "info", "messages"),
            *("paths", "problems", "report", "rows", "table", "timeline"),
        }
        assert names(recording.timeline(9)) == {
            *("connections", "events", "left_out", "lines", "streams", "to_dict", "vbucket"),
        }
        assert names(recording.findings()[0]).isdisjoint(
            {"facts", "in_full", "latest", "what", "where"}
        )
