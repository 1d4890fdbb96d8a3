"""``--redact``: no name and no document of a capture is in anything that is written, whatever the
command and the format.
"""

from __future__ import annotations

import asyncio
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dcpinspect.cli.main import main
from dcpinspect.errors import UsageError
from dcpinspect.output.exposition import Metrics
from dcpinspect.protocol.redact import Redactor
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.schema import COLUMNS
from dcpinspect.tui.app import InspectApp
from dcpinspect.tui.copying import copied
from dcpinspect.tui.export_choices import REPORTS, export, report
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.key_bindings import VIEWS
from dcpinspect.tui.screenshot import key_of, screenshots
from tests.findings.logs.written import NAME, json_line, line, producer, rollback
from tests.scenarios.marked import CONTROLLED, TEXTS_OF_COMMANDS, WISHED, found, mark, marked
from tests.spark.cuts import cut, packets_of
from tests.spark.outputs import ran

pytestmark = pytest.mark.slow

ALL_COLUMNS = ",".join(column.name for column in COLUMNS)
TABLES = ("connections", "streams", "snapshots", "gaps", "rollbacks", "vbuckets")
FILES = {
    **{
        f"read {form}": ("read", "-o", f"x.{form}")
        for form in ("txt", "json", "ndjson", "parquet", "arrow", "arrows")
    },
    "read csv": ("read", "--columns", ALL_COLUMNS, "-o", "x.csv"),
    "read values": (
        "read",
        "--columns",
        "row,key,key_bytes,request_key,collection,value",
        "-o",
        "x.parquet",
    ),
    "read -V -x": ("read", "-V", "-x", "--values", "full", "-o", "x.txt"),
    "read -V -xx": ("read", "-V", "-xx", "-o", "x.txt"),
    "read --sort": ("read", "--sort", "key", "--columns", ALL_COLUMNS, "-o", "x.ndjson"),
    "read --check": ("read", "--check", "-f", "ndjson", "-o", "x.ndjson"),
    "read -w": ("read", "-w", "x.pcapng", "--decrypted"),
    "check": ("check", "--lint", "--all", "-o", "x.txt"),
    "check ndjson": ("check", "--lint", "-o", "x.ndjson"),
    "check -w": ("check", "-w", "x.pcapng", "--decrypted"),
    **{
        f"{table} {form}": (table, "-o", f"x.{form}")
        for table in TABLES
        for form in ("txt", "json", "parquet")
    },
    **{
        f"sql {table}": ("sql", f"from {table}", "-o", "x.json")
        for table in ("messages", "findings", *TABLES)
    },
    "timeline": ("timeline", "--vbucket", "7", "--messages", "-o", "x.txt"),
    "timeline json": ("timeline", "--vbucket", "7", "-o", "x.json"),
    "follow": ("follow", "1", "--all", "-o", "x.txt"),
    "info": ("info", "-o", "x.json"),
    "info text": ("info", "-o", "x.txt"),
    "stats": ("stats", "-o", "x.txt"),
    "stats csv": ("stats", "-o", "x.csv"),
    "report": ("report", "-o", "x.html"),
    "report markdown": ("report", "-o", "x.md"),
}


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return marked(tmp_path_factory.mktemp("marked") / "marked.pcap")


def told(path: Path) -> bytes:
    """What is in a file once it is unpacked."""
    whole = path.read_bytes()
    if path.suffix == ".parquet":
        return (
            whole
            + repr(pyarrow.parquet.read_table(path).to_pydict()).encode()
            + repr(pyarrow.parquet.read_metadata(path).metadata).encode()
        )
    if path.suffix in (".arrow", ".arrows") and whole.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        opened = pa.ipc.open_file(path) if path.suffix == ".arrow" else pa.ipc.open_stream(path)
        return whole + repr(opened.read_all().to_pydict()).encode()
    return whole


def written(
    capture: Path,
    command: tuple[str, ...],
    folder: Path,
    printed: pytest.CaptureFixture[bytes],
    *more: str,
    statuses: tuple[int, ...] = (0, 1),
) -> bytes:
    """What a command prints, on standard error too, and what it writes."""
    name, *rest = (str(folder / part) if part.startswith("x.") else part for part in command)
    assert main([name, str(capture), *rest, *more]) in statuses
    said = printed.readouterr()
    return said.out + said.err + b"".join(told(path) for path in folder.iterdir())


@pytest.mark.parametrize("command", FILES.values(), ids=FILES)
def test_no_marker_is_in_what_a_command_writes(
    command: tuple[str, ...],
    capture: Path,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert found(written(capture, command, tmp_path, capfdbinary, "--redact")) == set()


def test_the_search_finds_every_place_in_what_is_not_redacted(
    capture: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    places = found(written(capture, FILES["read json"], tmp_path, capfdbinary))
    assert len(places) >= 60
    assert {
        "ag",
        "nm",
        "bu",
        "ca",
        "cb",
        "sc",
        "ma",
        "na",
        "ec",
        "ke",
        "va",
        "xn",
        "im",
        "cn",
        "nx",
    } <= places
    assert places >= WISHED | CONTROLLED | TEXTS_OF_COMMANDS
    assert {"grid", "dump"} & found(written(capture, FILES["read -V -xx"], tmp_path, capfdbinary))


@pytest.mark.parametrize(
    ("command", "places"),
    [
        (("streams", "-f", "ndjson"), {"qa", "qb", "qg", "qi", "qj"}),
        (("sql", "select filter from streams", "-f", "json"), {"qa", "qb", "qg", "qi", "qj"}),
        (("connections", "-f", "json"), CONTROLLED),
        (("check", "--lint", "--all", "-f", "json"), {"ya", "yc"}),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_tables_have_what_requests_and_controls_say_unless_it_is_replaced(
    command: tuple[str, ...],
    places: set[str],
    capture: Path,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert places <= found(written(capture, command, tmp_path, capfdbinary))
    redacted = written(capture, command, tmp_path, capfdbinary, "--redact")
    assert found(redacted) == set()


def test_the_error_line_of_a_query_quotes_no_filter(
    capture: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for more in ([], ["--redact"]):
        assert (
            main(
                [
                    "sql",
                    str(capture),
                    "select filter::int from streams where filter not like '%9%'",
                    *more,
                ]
            )
            == 2
        )
        said = capfdbinary.readouterr()
        assert bool(found(said.out + said.err)) != bool(more)


def test_two_captures_compared_have_no_marker(
    capture: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    other = tmp_path / "other.pcap"
    other.write_bytes(capture.read_bytes().replace(mark("vb").encode(), mark("vy").encode()))
    for more in (["-f", "json"], ["--redact"], ["--redact", "-f", "json"], ["--redact", "--paths"]):
        assert main(["diff", str(capture), str(other), *more]) == 1
        said = capfdbinary.readouterr()
        assert bool(found(said.out + said.err)) != ("--redact" in more)


def test_no_file_of_a_pipeline_has_a_marker(
    capture: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    packets = packets_of(capture)
    ring = cut(tmp_path / "ring", packets, [len(packets) // 2])
    out = tmp_path / "out"
    for redacts in (True, False):
        for files in (ring[:1], ring):
            ran(out, *files, redacts=redacts)
        assert all(
            pipeline_files(out / folder) for folder in ("raw", "parts", "messages", "_manifest")
        )
        assert bool(found(b"".join(map(told, pipeline_files(out))))) != redacts
        for command in (
            ["info", "--json"],
            ["check", "--all"],
            ["report"],
            ["sql", "from messages", "-f", "json"],
        ):
            name, *more = command
            assert main(["pipeline", name, str(out), *more]) in (0, 1)
            said = capfdbinary.readouterr()
            assert not redacts or found(said.out + said.err) == set(), command
        shutil.rmtree(out)


def pipeline_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_logs_and_checkpoints_have_no_marker(
    capture: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    log, checkpoint = tmp_path / "memcached.log", tmp_path / "offsets.json"
    lines = [
        rollback(7),
        rollback(
            8, reason=f"consumer ahead of producer - {mark('lv')} at ({mark('lw')}.{mark('lx')})"
        ),
        rollback(9, reason=f"purge seqno ({mark('ly')}) is greater than start seqno"),
        json_line(
            "VBucket::setState: transitioning",
            f'"vb":"vb:7","high_seqno":5,"from":"active","to":"{mark("ls")}"',
        ),
        producer("Disconnecting because a message has not been received for " + mark("lz"), None),
        producer(
            "Stream request failed because the start seqno (5) is larger than " + mark("lq"), 7
        ),
        line(
            f"57: DCP connection opened successfully. PRODUCER, [ {mark('lo')}:4000 - "
            f"{mark('lp')}:11210 (reader) ]"
        ),
        producer("Stream request failed because " + mark("lr"), 7, bucket=mark("lu")),
        producer("Destroying connection. " + mark("ld"), None),
        producer("Creating stream with start seqno 0 and end seqno 5 " + mark("lt"), 7),
    ]
    log.write_text(
        "".join(f"{one.replace(NAME, 'eq_dcpq:' + mark('ln'))}\n" for one in lines).replace(
            "(beer)", f"({mark('lb')})"
        )
    )
    offset = '{"offsets":[{"partition":{"bucket":"%s","partition":"7"},"offset":{"bySeqno":50,"vbuuid":161}}]}'
    checkpoint.write_text(offset % mark("ck"))
    beside = ["--log", str(log), "--checkpoint", str(checkpoint)]
    for command in (
        ["log", str(log)],
        ["log", str(log), "-f", "json"],
        ["check", *beside, "-f", "json"],
        ["check", str(capture), *beside],
    ):
        for more in ([], ["--redact"]):
            assert main([*command, *more]) in (0, 1)
            said = capfdbinary.readouterr()
            assert bool(found(said.out + said.err)) != bool(more), command


def test_what_watches_tells_no_marker_to_anybody(
    capture: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    got, program = tmp_path / "got", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ncat >> {shlex.quote(str(got))}\n")
    program.chmod(0o755)
    followed = [
        "watch",
        "--follow",
        str(capture),
        "--stop-on",
        "note",
        "--lint",
        "--settle",
        "0s",
        "--patience",
        "0s",
        "--redact",
    ]
    assert (
        main([*followed, "--exec", str(program), "-f", "ndjson", "--metrics", "127.0.0.1:0"]) == 1
    )
    said = capfdbinary.readouterr()
    assert found(said.out + said.err + got.read_bytes()) == set()
    for redactor in (None, Redactor()):
        with Reading([str(capture)]) as reading:
            reading.track(redactor)
            metrics = Metrics(reading)
            for batch in reading:
                metrics.feed(batch)
            assert bool(found(repr(metrics.snapshot()).encode())) == (redactor is None)


def test_the_terminal_ui_shows_and_exports_no_marker(capture: Path, tmp_path: Path) -> None:
    views = [(view, key_of(view)) for view in VIEWS]
    for redactor, shown in ((None, views[1:2]), (Redactor(), views)):
        inspection = Inspection([str(capture)], redactor=redactor)
        pictures = asyncio.run(
            screenshots(
                InspectApp(inspection),
                [*shown, ("bytes", ["2", "down", "down", "down", "down", "x"])],
            )
        )
        assert bool(found("".join(pictures.values()).encode())) == (redactor is None)
    rows = np.arange(1, inspection.store.rows + 1)
    for suffix in (".ndjson", ".csv", ".txt", ".parquet"):
        export(str(tmp_path / f"x{suffix}"), inspection, rows, lambda _: None)
    for suffix in REPORTS:
        report(inspection).write(str(tmp_path / f"x{suffix}"), lambda _: None)
    assert found(b"".join(told(path) for path in tmp_path.iterdir())) == set()
    for form in ("line", "json", "hex"):
        assert (
            found(
                "".join(
                    copied(form, inspection.store.messages([row])) for row in rows.tolist()
                ).encode()
            )
            == set()
        )
    with pytest.raises(UsageError, match="--redact"):
        export(str(tmp_path / "x.pcapng"), inspection, rows, lambda _: None)


@pytest.mark.parametrize(
    "more",
    [["--filter", "key = 5"], ["--columns", "nokey"], ["--vbucket", "x"], ["-o", "/nowhere/x"]],
    ids=lambda more: more[0],
)
def test_error_lines_have_no_marker(
    capture: Path, more: list[str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["read", str(capture), "--redact", *more]) == 2
    said = capfdbinary.readouterr()
    assert found(said.out + said.err) == set()
