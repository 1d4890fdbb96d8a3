"""``dcpinspect read``: what is asked for is printed, to a person or a program, and nothing else."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from pyarrow.dataset import dataset

from dcpinspect.capture.open import open_capture
from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import message_schema
from dcpinspect.output.render.message_lines import Lines
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.arrow import record_batch
from tests import builders
from tests.builders import Conversation
from tests.cli.test_output import wait_until_it_waits
from tests.encode import encode
from tests.schemas import validate
from tests.streams.told import capture, opened

SAMPLES = Path(__file__).parents[2] / "sample_captures"
SMALL = sorted(path for path in SAMPLES.glob("*.pcap*") if path.stat().st_size < 500_000)

Read = Callable[..., list[str]]

DUMPS = Path(__file__).parents[1] / "captures" / "field" / "x01-text-dumps"
"""What people paste of packets."""


@pytest.fixture
def talk(tmp_path: Path) -> str:
    """Ten rows: hello, select bucket, stream request, marker, three changes and a failure."""
    one = Conversation(mss=100)
    one.handshake()
    one.stream(True, encode("hello", opaque=1, features=[{"feature": 0x12}]))
    one.stream(False, encode("hello", "response", opaque=1, features=[{"feature": 0x12}]))
    one.stream(True, encode("dcp_stream_req", vbucket=7, opaque=0x11))
    one.stream(
        False,
        encode("dcp_stream_req", "response", opaque=0x11, failover_log=[{"uuid": 1, "seqno": 0}]),
    )
    one.stream(
        False,
        encode(
            "dcp_snapshot_marker", vbucket=7, opaque=0x11, end_seqno=9, snapshot_type=["memory"]
        ),
    )
    one.stream(
        False, builders.mutation(1, key=b"\x08user::1", value=b'{"n":"' + b"x" * 300 + b'"}')
    )
    one.stream(False, builders.mutation(2, key=b"\x09user::\x1b[2J"))
    one.stream(
        False,
        encode("dcp_deletion", vbucket=7, opaque=0x11, by_seqno=3, collection=8, key="order::1"),
    )
    one.stream(True, encode("get", vbucket=9, opaque=2, collection=8, key="user::9"))
    one.stream(False, encode("get", "response", opaque=2, status=1))
    one.close()
    path = tmp_path / "talk.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    return str(path)


@pytest.fixture
def read(capsysbinary: pytest.CaptureFixture[bytes]) -> Read:
    """Lines that the command prints; it must succeed and complain of nothing but bytes that the
    capture does not hold.
    """

    def run(*arguments: str) -> list[str]:
        status = main(["read", *arguments])
        printed = capsysbinary.readouterr()
        assert status == 0
        assert all(
            line.startswith(b"dcpinspect: connection 1, 10.11.0.")
            for line in printed.err.splitlines()
        )
        assert not printed.err or any(
            name in arguments[0] for name in ("capture-loss", "midstream")
        )
        return printed.out.decode().splitlines()

    return run


@pytest.fixture
def fails(capsysbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, str]]:
    """Exit status and the one line of the complaint."""

    def run(*arguments: str) -> tuple[int, str]:
        status = main(["read", *arguments])
        (line,) = capsysbinary.readouterr().err.decode().splitlines()
        return status, line

    return run


def shown(lines: list[str]) -> list[int]:
    """Rows of the messages."""
    assert lines[0].split()[0] == "Row"
    return [int(line.split()[0]) for line in lines[1:]]


@cache
def validator() -> Any:  # jsonschema's own type
    return jsonschema.Draft202012Validator(message_schema())


# -- text
# --------------------------------------------------------------------------------------------


def test_a_line_a_message_under_a_heading(
    talk: str, read: Read, golden: Callable[[str, str], None]
) -> None:
    golden("read/lines.txt", "\n".join(read(talk)) + "\n")


def test_field_tables_and_grids_follow_their_lines(
    talk: str, read: Read, golden: Callable[[str, str], None]
) -> None:
    golden("read/details.txt", "\n".join(read(talk, "-V", "-xx", "--opcode", "deletion")) + "\n")


def test_no_control_character_from_the_wire_reaches_the_terminal(talk: str, read: Read) -> None:
    for arguments in ((), ("-V", "-x"), ("--format", "json"), ("--format", "ndjson")):
        assert all(line.isprintable() for line in read(talk, *arguments))


def test_values_bounds_what_is_shown_of_a_value(talk: str, read: Read) -> None:
    table = [
        line for line in read(talk, "-V", "--values", "10", "--key", "user::1") if "Value" in line
    ]
    assert table == ['    Value        (63-370): {"n":"xxxx… (308 bytes) (json)']


def test_values_full_shows_all_of_it(talk: str, read: Read) -> None:
    assert any("x" * 300 in line for line in read(talk, "-V", "--values", "full"))


def test_values_none_shows_none_of_it(talk: str, read: Read) -> None:
    assert not any(
        "xx" in line.partition("0x")[0] for line in read(talk, "-V", "-xx", "--values", "none")
    )


@pytest.mark.parametrize("values", ["all", "-1", "", "1.5", "٣"])
def test_another_amount_of_values_is_refused(
    values: str, talk: str, fails: Callable[..., tuple[int, str]]
) -> None:
    status, line = fails(talk, "-V", f"--values={values}")
    assert status == 2
    assert line.startswith("dcpinspect: --values ")
    assert line.endswith(": write full, none or a number of bytes")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--format", "csv", "-V"], "--verbose: csv does not use it; it is for --format text"),
        (["--format", "json", "-x"], "--hex: json does not use it; it is for --format text"),
        (
            ["--format", "ndjson", "--time", "relative"],
            "--time: ndjson does not use it; it is for --format text",
        ),
        (
            ["--columns", "name", "-V"],
            "--verbose: is for whole messages, and --columns shows columns; leave one of them out",
        ),
        (
            ["--columns", "name", "-x"],
            "--hex: is for whole messages, and --columns shows columns; leave one of them out",
        ),
        (
            ["--columns", "name", "--time", "delta"],
            "--time: is for whole messages, and --columns shows columns; leave one of them out",
        ),
        (
            ["--format", "json", "--columns", "name", "--no-fields"],
            (
                "--no-fields: is for whole messages, and --columns shows columns; leave one of "
                "them out"
            ),
        ),
        (["--no-fields"], "--no-fields: text does not use it; it is for --format json or ndjson"),
        (
            ["--format", "csv", "--fields"],
            "--fields: csv does not use it; it is for --format json or ndjson",
        ),
        (
            ["--format", "csv", "--values", "10"],
            "--values: csv does not use it; it is for --format text, json or ndjson",
        ),
        (
            ["--format", "parquet", "--no-csv-guard"],
            "--no-csv-guard: parquet does not use it; it is for --format csv",
        ),
        (["--values", "10"], "--values: lines show no values; add -V or -x"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_that_would_do_nothing_is_refused(
    arguments: list[str], says: str, talk: str, fails: Callable[..., tuple[int, str]]
) -> None:
    assert fails(talk, *arguments) == (2, f"dcpinspect: {says}")


def test_options_of_the_config_file_are_for_the_formats_that_use_them(
    talk: str, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[read]\nverbose = true\nno-fields = true\ncolumns = "row"\nvalues = "none"\ntime = "delta"'
    )
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert read(talk, "--format", "csv", "-n", "1") == ['"row"', "1"]
    assert "fields" not in json.loads(read(talk, "--format", "ndjson", "-n", "1")[0])
    assert any("Opcode" in line for line in read(talk, "-n", "1"))
    assert read(talk, "-n", "1", "--columns", "row,name") == ["row  name", "  1  hello"]


def test_relative_times_count_from_the_first_packet(talk: str, read: Read) -> None:
    assert read(talk)[1].split()[1] == "0.000030"


def test_delta_times_count_from_the_line_before(talk: str, read: Read) -> None:
    times = [line.split()[1] for line in read(talk, "--time", "delta")[1:4]]
    assert times == ["0.000030", "0.000020", "0.000020"]


def test_absolute_times_are_utc_with_nine_digits(talk: str, read: Read) -> None:
    assert read(talk, "--time", "absolute")[1].split()[1:3] == ["2023-11-14", "22:13:20.000030000"]


# -- which messages
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ([], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        (["-n", "3"], [1, 2, 3]),
        (["-n", "0"], []),
        (["--skip", "8"], [9, 10]),
        (["--skip", "2", "-n", "2"], [3, 4]),
        (["--opcode", "mutation"], [6, 7]),
        (["--opcode", "dcp_mutation,0x58"], [6, 7, 8]),
        (["--opcode", "mutation", "-n", "1"], [6]),
        (["--opcode", "mutation", "--skip", "1"], [7]),
        (["--vbucket", "7"], [3, 4, 5, 6, 7, 8]),
        (["--vbucket", "8-9"], [9, 10]),
        (["--key", "user::*"], [6, 7, 9]),
        (["--key", "*1"], [6, 8]),
        (["--status", "error"], [10]),
        (["--status", "key_enoent"], [10]),
        (["--status", "0"], [2, 4]),
        (["--collection", "8"], [6, 8, 9]),
        (["--collection", "0x9"], [7]),
        (["--connection", "1", "--vbucket", "7", "--key", "order*"], [8]),
        (["--filter", "by_seqno > 1"], [7, 8]),
        (["--filter", "key like 'user::%' and name <> 'get'"], [6, 7]),
        (["--filter", "@errors or @markers"], [5, 10]),
        (["--filter", "vbucket = 7", "--opcode", "mutation"], [6, 7]),
        (["--filter", "vbucket = 7", "--skip", "1", "-n", "2"], [4, 5]),
    ],
    ids=str,
)
def test_rows_keep_their_numbers_under(
    arguments: list[str], rows: list[int], talk: str, read: Read
) -> None:
    assert shown(read(talk, *arguments)) == rows


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--opcode", "noop"],
            "--opcode noop may mean noop (0x0a) or dcp_noop (0x5c); write the number or dcp_noop",
        ),
        (["--opcode", "mutaton"], "--opcode mutaton: no command has this name; did you mean "),
        (
            ["--vbucket", "x"],
            "--vbucket 'x': 'x' is no number; write numbers and ranges, such as 1,5-9",
        ),
        (
            ["--vbucket", ""],
            "--vbucket '': '' is no number; write numbers and ranges, such as 1,5-9",
        ),
        (["--vbucket", "70000"], "--vbucket '70000': '70000' is not within 0-65535"),
        (
            ["--status", "rolback"],
            "--status rolback: no status has this name; did you mean rollback?",
        ),
        (
            ["--format", "csv", "--columns", "@nothing"],
            (
                "--columns @nothing: no set of columns has this name; there are @keys, @place, "
                "@requests, @seqnos"
            ),
        ),
        (
            ["--collection", "8,be er"],
            (
                "--collection 8,be er: be er is neither an id nor a name; write ids or names, as "
                "in 0x8,fruit,produce.fruit"
            ),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_condition_is_one_line_and_status_2(
    arguments: list[str], says: str, talk: str, fails: Callable[..., tuple[int, str]]
) -> None:
    status, line = fails(talk, *arguments)
    assert status == 2
    assert line.startswith(f"dcpinspect: {says}")


def test_a_wrong_filter_is_a_line_and_its_place_below(
    talk: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", talk, "--filter", "row = 1 and vbucket = 70000"]) == 2
    assert capsys.readouterr() == (
        "",
        (
            "dcpinspect: --filter: vbucket is from 0 to 65535\n  row = 1 and vbucket = 70000\n     "
            "                   ^\n"
        ),
    )


def test_a_filter_saved_in_the_config_file_has_a_name(
    talk: str, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        "[filters]\nlate = 'by_seqno > 1'\n[columns]\nmine = ['key', 'row']\n[read]\nfilter = "
        "'@late'\n"
    )
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert shown(read(talk)) == [7, 8]
    assert shown(read(talk, "--filter", "not @late")) == [6]
    assert read(talk, "--format", "csv", "--columns", "@mine")[0] == '"key","row"'


@pytest.mark.parametrize(
    "arguments",
    [["--columns"], ["--columns="], ["--columns", "-n", "1"], ["a.pcap", "--columns"]],
    ids=str,
)
def test_columns_alone_lists_them(arguments: list[str], read: Read) -> None:
    assert (
        read(*arguments)[0]
        == "row                    i64      number of the message in the reading, from 1"
    )


def test_a_filter_finds_the_same_in_a_pipe(talk: str) -> None:
    done = run(
        "-",
        "--filter",
        "by_seqno = 2",
        "--format",
        "csv",
        "--columns",
        "row",
        input=Path(talk).read_bytes(),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b'"row"\n7\n', b"")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--vbucket", "1000"],
        ["--vbucket", "1000", "--skip", "1"],
        ["--connection", "2"],
        ["--key", "nobody*"],
        ["--filter", "false"],
    ],
)
def test_conditions_that_nothing_meets_are_told(
    arguments: list[str], talk: str, fails: Callable[..., tuple[int, str]]
) -> None:
    assert fails(talk, *arguments) == (0, "dcpinspect: none of 10 messages met the conditions")


def test_a_key_that_no_message_has_hints_at_the_pattern_of_all_that_begin_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = builders.capture(tmp_path / "a.pcap", server=builders.mutation(1, key=b"order::7"))
    assert main(["read", str(path), "--key", "order"]) == 0
    assert capsys.readouterr().err.splitlines()[1:] == [
        "dcpinspect: --key order is compared with whole keys; 'order*' has all that begin with it"
    ]
    for is_met_or_a_pattern in ("order::7", "order*", "nobody*"):
        assert main(["read", str(path), "--key", is_met_or_a_pattern]) == 0
        assert "whole keys" not in capsys.readouterr().err


def test_skipping_all_there_is_to_show_is_told(
    talk: str, fails: Callable[..., tuple[int, str]]
) -> None:
    assert fails(talk, "--skip", "100") == (0, "dcpinspect: --skip left out all 10 messages")
    assert fails(talk, "--skip", "100", "--filter", "row < 4") == (
        0,
        "dcpinspect: --skip left out all 3 messages",
    )


def test_another_port_is_read_when_it_is_named(tmp_path: Path, read: Read) -> None:
    one = Conversation(server=("10.0.0.2", 12_000))
    one.handshake()
    one.stream(False, builders.mutation())
    path = tmp_path / "port.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    assert shown(read(str(path), "--port", "12000")) == [1]


# -- JSON
# --------------------------------------------------------------------------------------------


def test_ndjson_is_an_object_a_line(talk: str, read: Read) -> None:
    assert [json.loads(line)["row"] for line in read(talk, "--format", "ndjson")] == list(
        range(1, 11)
    )


def test_json_is_an_array_of_the_same_objects(talk: str, read: Read) -> None:
    array = json.loads("".join(read(talk, "--format", "json")))
    assert array == [json.loads(line) for line in read(talk, "--format", "ndjson")]


def test_json_of_no_message_is_an_empty_array(talk: str, read: Read) -> None:
    assert json.loads("".join(read(talk, "--format", "json", "-n", "0"))) == []


def test_no_fields_leaves_the_tables_out(talk: str, read: Read) -> None:
    assert all(
        "fields" not in json.loads(line) for line in read(talk, "--format", "ndjson", "--no-fields")
    )


def test_json_shows_all_of_a_value_unless_told_otherwise(talk: str, read: Read) -> None:
    (line,) = read(talk, "--format", "ndjson", "--key", "user::1")
    assert json.loads(line)["value"]["json"] == {"n": "x" * 300}
    (line,) = read(talk, "--format", "ndjson", "--key", "user::1", "--values", "3")
    assert json.loads(line)["value"]["text"] == '{"n'


def _shape(value: Any) -> Any:
    """The structure of a JSON value; two values of one shape are both valid, or break a rule about
    one number or text.
    """
    if isinstance(value, dict):
        return tuple((key, _shape(inner)) for key, inner in sorted(value.items()))
    if isinstance(value, list):
        return ("list", *dict.fromkeys(map(_shape, value)))
    return type(value).__name__


def _tile(fields: list[dict[str, Any]], end: int) -> bool:
    at = 0
    for field in fields:
        if field["offset"] != at:
            return False
        at += field["size"]
    return at == end


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SMALL])
def test_every_message_of_a_sample_is_valid_and_tiled(path: Path, read: Read) -> None:
    seen = set()
    messages = [json.loads(line) for line in read(str(path), "--format", "ndjson")]
    assert messages
    for row, message in enumerate(messages, 1):
        assert message["row"] == row
        assert _tile(message["fields"], message["length"])
        shape = _shape(message)
        if shape not in seen:
            seen.add(shape)
            validator().validate(message)


@pytest.mark.parametrize("path", [pytest.param(path, id=path.name) for path in SMALL])
def test_every_message_of_a_sample_is_printed_whole(path: Path, read: Read) -> None:
    lines = read(str(path), "-V", "-x")
    assert all(line.isprintable() for line in lines)
    titles = sum(1 for line in lines if re.fullmatch(r"    [A-Z0-9_]+ (command|response).*", line))
    assert titles == len(read(str(path))) - 1


# -- captures that are not as one would wish
# ---------------------------------------------------------


def test_a_capture_without_dcp_is_one_line_and_no_failure(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    one = Conversation(server=("10.0.0.2", 443))
    one.handshake()
    path = tmp_path / "web.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    assert main(["read", str(path)]) == 0
    assert (
        capsysbinary.readouterr().err.decode()
        == f"dcpinspect: {path}: no DCP in 3 packets; it has TCP ports 443; try --port 443\n"
    )


def test_auto_finds_a_port_and_stats_end_on_standard_error(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    one = Conversation(server=("10.0.0.2", 9999))
    one.handshake()
    one.stream(False, b"".join(builders.mutations(5)))
    path = tmp_path / "other.pcap"
    path.write_bytes(builders.pcap(builders.recorded(one.segments)))
    assert main(["read", "--port", "auto", "--stats", str(path)]) == 0
    printed = capsysbinary.readouterr()
    assert len(printed.out.splitlines()) == 6
    assert printed.err.split()[:3] == [b"5", b"packets", b"read"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.pcap", b""),
        ("text.pcap", b"not a capture\n"),
        ("short.pcap", b"\xd4\xc3\xb2\xa1\x02"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_capture_is_one_line_and_status_2(
    name: str, content: bytes, tmp_path: Path, fails: Callable[..., tuple[int, str]]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    status, line = fails(str(path))
    assert status == 2
    assert line.startswith(f"dcpinspect: {path}")


@pytest.mark.parametrize(
    "form", [[], ["--format", "json"], ["--format", "ndjson"]], ids=["text", "json", "ndjson"]
)
def test_nothing_is_printed_of_a_file_that_cannot_be_read(
    form: list[str], tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["read", str(tmp_path / "missing.pcap"), *form]) == 2
    assert capsysbinary.readouterr().out == b""


def test_a_directory_without_captures_is_one_line_and_status_2(
    tmp_path: Path, fails: Callable[..., tuple[int, str]]
) -> None:
    status, line = fails(str(tmp_path))
    assert (status, line) == (
        2,
        (
            f"dcpinspect: {tmp_path}: is a directory without captures; name one that has pcap or "
            "pcapng files"
        ),
    )


@pytest.mark.parametrize("form", [[], ["--format", "json"]], ids=["text", "json"])
def test_a_cut_last_record_is_status_3_after_all_that_could_be_read(
    form: list[str], talk: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    whole = Path(talk).read_bytes()
    Path(talk).write_bytes(whole[:-5])
    assert main(["read", talk, *form]) == 3
    printed = capsysbinary.readouterr()
    assert printed.err.decode().startswith(f"dcpinspect: {talk}, offset ")
    out = printed.out.decode()
    assert len(json.loads(out) if form else out.splitlines()[1:]) == 10


# -- as a program
# ------------------------------------------------------------------------------------


def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "dcpinspect", "read", *arguments],
        capture_output=True,
        check=False,
        timeout=60,
        **options,
    )


def test_standard_input_is_a_capture(talk: str) -> None:
    done = run("-", input=Path(talk).read_bytes())
    assert (done.returncode, done.stderr) == (0, b"")
    assert shown(done.stdout.decode().splitlines()) == list(range(1, 11))


def test_a_name_that_is_no_text_is_readable_and_writable(talk: str, tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/caf\xe9.pcap"
    os.link(talk, name)
    done = run(os.fsdecode(name), "--format", "ndjson", "-n", "1")
    assert done.returncode == 0
    assert json.loads(done.stdout)["file"] == {"hex": name.hex()}


@pytest.mark.parametrize("form", [[], ["--format", "json"], ["-V"]], ids=["text", "json", "tables"])
def test_a_closed_pipe_is_silent(form: list[str]) -> None:
    command = [sys.executable, "-m", "dcpinspect", "read", str(SAMPLES / "tour.pcapng"), *form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_output_is_utf_8_whatever_the_locale(talk: str) -> None:
    done = run(talk, env={**os.environ, "LC_ALL": "de_DE.ISO-8859-1", "PYTHONIOENCODING": "ascii"})
    assert "→" in done.stdout.decode()


@pytest.mark.parametrize("columns", ["name,vbucket,by_seqno", "row"])
def test_csv_has_a_line_for_each_message(talk: str, read: Read, columns: str) -> None:
    heading, *lines = read(talk, "--format", "csv", "--columns", columns)
    assert heading == ",".join(f'"{name}"' for name in columns.split(","))
    assert len(lines) == 10


def test_text_with_columns_is_a_table_of_them(talk: str, read: Read) -> None:
    assert read(talk, "--columns", "row,time,name,status,key", "--filter", "row in (2, 7, 9)") == [
        "row  time                            name          status  key",
        "  2  2023-11-14T22:13:20.000050000Z  hello              0",
        "  7  2023-11-14T22:13:20.000190000Z  dcp_mutation          user::\\x1b[2J",
        "  9  2023-11-14T22:13:20.000230000Z  get                   user::9",
    ]


def test_json_with_columns_has_these_keys(talk: str, read: Read) -> None:
    arguments = (
        talk,
        "--columns",
        "row,time,key,key_bytes,by_seqno,datatype",
        "-n",
        "1",
        "--opcode",
        "mutation",
    )
    record = {
        "row": 6,
        "time": "2023-11-14T22:13:20.000170000Z",
        "key": "user::1",
        "key_bytes": b"user::1".hex(),
        "by_seqno": 1,
    }
    (line,) = read(*arguments, "--format", "ndjson")
    assert json.loads(line) == {**record, "datatype": ["json"]}
    assert json.loads("".join(read(*arguments, "--format", "json"))) == [
        {**record, "datatype": ["json"]}
    ]


def test_csv_stops_where_it_is_told_to(talk: str, read: Read) -> None:
    assert read(talk, "--format", "csv", "--columns", "row", "-n", "2", "--skip", "3") == [
        '"row"',
        "4",
        "5",
    ]


def test_a_column_is_asked_for_once(talk: str, fails: Callable[..., tuple[int, str]]) -> None:
    assert fails(talk, "--format", "csv", "--columns", "name,name") == (
        2,
        "dcpinspect: --columns name,name: name is there twice",
    )


def test_counts_of_a_reading_that_stopped_early_say_so(
    talk: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["read", talk, "-n", "1", "--stats"]) == 0
    assert capsys.readouterr().err.startswith(
        "dcpinspect: reading stopped before the end; --stats counts what was read so far\n"
    )


@pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="looks at what the program has loaded"
)
def test_a_filter_is_ready_before_the_first_message_of_a_pipe() -> None:
    command = [
        sys.executable,
        "-m",
        "dcpinspect",
        "read",
        "-",
        "--filter",
        "by_seqno > 1 and name = 'dcp_mutation' and time > '2024-01-01'",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        capture = (SAMPLES / "snapshots.pcap").read_bytes()
        process.stdin.write(capture[:24])
        process.stdin.flush()
        wait_until_it_waits(process, process.stdin.fileno())
        assert "duckdb" in Path(f"/proc/{process.pid}/maps").read_text()
        process.stdin.write(capture[24:])
        process.stdin.close()
        assert len(process.stdout.read().splitlines()) > 10


# -- time and order
# ----------------------------------------------------------------------------------


def times(lines: list[str]) -> list[float]:
    return [float(line.split()[1]) for line in lines[1:]]


def test_since_and_until_choose_messages_by_their_time(read: Read) -> None:
    path = str(SAMPLES / "rollback.pcap")
    everything = times(read(path))
    assert times(read(path, "--since", "5ms", "--until", "6ms")) == [
        at for at in everything if 0.005 <= at < 0.006
    ]
    assert times(read(path, "--since", "12:01:00.94")) == [
        at for at in everything if at >= 0.010457
    ]
    latest = times(read(path, "--since", "-1ms"))
    assert 0 < len(latest) < len(everything)
    assert latest == everything[-len(latest) :]
    assert read(path, "--since", "-1ms", "--format", "csv", "--columns", "row")[1:] == [
        str(row) for row in shown(read(path, "--since", "-1ms"))
    ]


def test_what_is_not_over_has_no_end_to_count_from(fails: Callable[..., tuple[int, str]]) -> None:
    for arguments in (["-"], [str(SAMPLES / "rollback.pcap"), "--follow"]):
        status, line = fails(*arguments, "--since", "-3m")
        assert (status, line) == (
            2,
            (
                "dcpinspect: --since -3m: the end is not known before it comes; count from the "
                "start, as in 10m"
            ),
        )


@pytest.mark.parametrize(
    ("form", "heading", "first"),
    [
        ("absolute", "Time UTC", "2024-04-06 12:01:00.932921052"),
        ("local", "Time here", "2024-04-06 12:01:00.932921052+0000"),
        ("epoch", "Time since 1970", "1712404860.932921052"),
    ],
)
def test_times_say_what_they_count_from(form: str, heading: str, first: str, read: Read) -> None:
    lines = read(str(SAMPLES / "rollback.pcap"), "--time", form, "-n", "1")
    assert heading in lines[0]
    assert f" {first} " in lines[1]


def test_relative_times_are_a_column_for_filters(read: Read) -> None:
    path = str(SAMPLES / "rollback.pcap")
    arguments = (
        "--format",
        "csv",
        "--columns",
        "relative_ns,time_ns",
        "--filter",
        "relative_ns >= 5000000",
    )
    cells = [tuple(map(int, line.split(","))) for line in read(path, *arguments)[1:]]
    with Reading([path]) as reading:
        list(reading)
    assert {time_ns - relative_ns for relative_ns, time_ns in cells} == {reading.first_time_ns}
    assert min(cells)[0] >= 5_000_000


def test_the_slowest_answers_come_with_the_keys_of_their_requests(read: Read) -> None:
    path = str(SAMPLES / "large.pcapng.gz")
    gets = (
        "--filter",
        "name = 'get' and side = 'response'",
        "--sort",
        "rtt_ns",
        "--reverse",
        "-n",
        "3",
    )
    rows = read(path, *gets, "--columns", "request_key,rtt_ns", "--format", "csv")
    assert [int(row.split(",")[1]) for row in rows[1:]] == sorted(
        (int(row.split(",")[1]) for row in rows[1:]), reverse=True
    )
    keys = [row.split(",")[0].strip('"') for row in rows[1:]]
    assert all(key.startswith("basket::") for key in keys)
    assert [
        key
        for key, line in zip(keys, read(path, *gets)[1:], strict=True)
        if f"  {key}  " not in line
    ] == []


@pytest.mark.parametrize("batch", [4 << 10, 1 << 24])
def test_a_response_has_the_key_of_its_request_wherever_batches_end(batch: int) -> None:
    with Reading(open_capture(str(SAMPLES / "tour.pcapng"), batch_bytes=batch)) as reading:
        keys: dict[int, str | None] = {}
        told: dict[int, str | None] = {}
        for messages in reading:
            columns = record_batch(
                messages, np.arange(len(messages)), ["row", "key", "request_row", "request_key"]
            ).to_pydict()
            keys |= dict(zip(columns["row"], columns["key"], strict=True))
            told |= {
                row: key
                for row, key in zip(columns["request_row"], columns["request_key"], strict=True)
                if row is not None
            }
    assert told
    assert told == {row: keys[row] for row in told}


def test_all_messages_in_order_are_all_messages(read: Read) -> None:
    path = str(SAMPLES / "tour.pcapng")
    assert read(path, "--sort", "row") == read(path)
    assert read(path, "--sort", "row", "--reverse")[1:] == read(path)[:0:-1]
    lengths = [
        int(line)
        for line in read(
            path, "--sort", "length", "--columns", "length", "--format", "csv", "--skip", "5"
        )[1:]
    ]
    assert lengths == sorted(lengths)
    assert len(lengths) == len(read(path)) - 6


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--sort", "datatype"],
            (
                "--sort datatype: lists and bytes have no order; name a column of numbers, texts "
                "or times"
            ),
        ),
        (["--sort", "rtt"], "--sort rtt: messages have no such column; did you mean rtt_ns"),
        (["--reverse"], "--reverse: is for --sort; name the column, as in --sort rtt_ns"),
        (["--sort", "row", "-w", "x.pcapng"], "-w: --sort does not use it; leave one of them out"),
        (
            ["--sort", "row", "--follow"],
            (
                "--sort: needs the end of the capture, and a followed or live one has no end; "
                "record it first"
            ),
        ),
    ],
)
def test_what_cannot_be_put_in_order_is_said(
    arguments: list[str], says: str, fails: Callable[..., tuple[int, str]]
) -> None:
    status, line = fails(str(SAMPLES / "rollback.pcap"), *arguments)
    assert status == 2
    assert line.startswith(f"dcpinspect: {says}")


def test_x_prints_16_bytes_a_line_and_twice_the_grid_of_the_specification(read: Read) -> None:
    path = str(SAMPLES / "tour.pcapng")
    lines = read(path, "--opcode", "dcp_mutation", "-n", "1", "-x")
    assert lines[3:5] == [
        "    00000000  80 57 00 0c 1f 00 01 a1  00 00 00 50 00 00 00 14  .W.........P....",
        "    00000010  17 c3 af 17 ca a7 00 00  00 00 00 00 00 00 00 05  ................",
    ]
    assert (
        "    " + " " * 6 + "Byte/     0       |       1       |       2       |       3       |"
        in read(path, "--opcode", "dcp_mutation", "-n", "1", "-xx")
    )


@pytest.mark.parametrize("form", ["-x", "-xx"])
def test_what_is_secret_is_in_no_form_of_the_bytes(form: str, read: Read) -> None:
    text = "\n".join(read(str(SAMPLES / "tour.pcapng"), "--opcode", "sasl_auth,sasl_step", form))
    assert "**" in text
    assert "n,,n=" not in text


@pytest.fixture
def named(tmp_path: Path) -> str:
    """A capture that names collection 0x9 between two of its mutations, and 0x8 never."""
    talk = opened()
    stream = talk.stream(7)
    stream.mutation(1, "early", collection=9)
    stream.system_event(2, "create-scope", "produce", manifest_uid=2, scope_id=8)
    stream.system_event(
        3, "begin-collection", "fruit\x1b[2J", manifest_uid=3, scope_id=8, collection_id=10
    )
    stream.system_event(4, "begin-collection", "fruit", manifest_uid=3, scope_id=8, collection_id=9)
    stream.mutation(5, "late", collection=9)
    stream.mutation(6, "other", collection=8)
    stream.mutation(7, "hostile", collection=10)
    stream.mutation(8, "plain")
    path = tmp_path / "named.pcap"
    path.write_bytes(capture(talk))
    return str(path)


def test_lines_name_collections_where_the_capture_did(read: Read, named: str) -> None:
    told = [line.split("  ")[-1] for line in read(named, "--opcode", "mutation")[1:]]
    assert told[:3] == ["0x9:early", "produce.fruit (0x9):late", "0x8:other"]
    assert "\x1b" not in told[3]
    assert told[3].startswith("produce.fruit")
    assert told[3].endswith(" (0xa):hostile")
    assert told[4] == "plain"


def test_narrow_lines_name_collections_without_their_ids(named: str) -> None:
    with Reading(named) as reading:
        lines = [
            Lines(width=80).line(batch, index) for batch in reading for index in range(len(batch))
        ]
    (late,) = (line for line in lines if line.endswith("late"))
    assert late.endswith(" produce.fruit:late")


@pytest.mark.parametrize(
    ("choice", "keys"),
    [
        (("--collection", "fruit"), ["late"]),
        (("--collection", "produce.fruit,0x8"), ["late", "other"]),
        (("--collection", "0x9"), ["early", "late"]),
        (("--collection", "_default"), ["plain"]),
        (("--collection", "produce.leek"), []),
        (("--filter", "collection = 'produce.fruit'"), ["late"]),
        (("--filter", "collection like '0x%'"), ["early", "other"]),
    ],
)
def test_messages_are_chosen_by_the_name_of_their_collection(
    capsys: pytest.CaptureFixture[str], named: str, choice: tuple[str, str], keys: list[str]
) -> None:
    assert (
        main(
            ["read", named, "--opcode", "mutation", *choice, "--columns", "key", "--format", "csv"]
        )
        == 0
    )
    assert capsys.readouterr().out.split()[1:] == [f'"{key}"' for key in keys]


@pytest.mark.parametrize("form", ["ndjson", "json"])
@pytest.mark.parametrize("fields", ["--fields", "--no-fields"])
def test_json_names_collections_beside_their_ids(
    capsys: pytest.CaptureFixture[str], named: str, form: str, fields: str
) -> None:
    assert main(["read", named, "--opcode", "mutation", "--format", form, fields]) == 0
    text = capsys.readouterr().out
    found = json.loads(text) if form == "json" else [json.loads(line) for line in text.splitlines()]
    assert [(one["collection_id"], one["collection"]) for one in found] == [
        (9, "0x9"),
        (9, "produce.fruit"),
        (8, "0x8"),
        (10, "produce.fruit\x1b[2J"),
        (0, "_default._default"),
    ]
    for one in found:
        validate(one, message_schema())
    if fields == "--fields":
        meanings = [
            next(field["meaning"] for field in one["fields"] if field["name"] == "key")
            for one in found
        ]
        assert meanings[:2] == ["collection 0x9", "produce.fruit (0x9)"]


@pytest.mark.parametrize("ending", ["parquet", "arrow", "csv"])
def test_files_have_the_names_of_collections(tmp_path: Path, named: str, ending: str) -> None:
    path = tmp_path / f"out.{ending}"
    assert (
        main(
            ["read", named, "--opcode", "mutation", "--columns", "key,collection", "-o", str(path)]
        )
        == 0
    )
    table = dataset(path, format=ending).to_table().to_pydict()
    assert table["key"] == ["early", "late", "other", "hostile", "plain"]
    assert table["collection"] == [
        "0x9",
        "produce.fruit",
        "0x8",
        "produce.fruit\x1b[2J",
        "_default._default",
    ]


def test_messages_in_another_order_keep_the_names_of_their_rows(read: Read, named: str) -> None:
    shown = read(
        named,
        "--filter",
        "key is not null and collection_id = 9",
        "--sort",
        "row",
        "--reverse",
        "--columns",
        "row,collection",
    )
    assert [line.split()[1] for line in shown[1:]] == ["produce.fruit", "produce.fruit", "0x9"]


def test_lines_have_the_colours_of_the_kinds_and_of_the_users_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        (
            '[colors]\n"vbucket = 8 and by_seqno > 31" = "#ff8800"\n"vbucket = 8 and name = '
            '\'dcp_mutation\'" = "green"\n'
        ),
        "utf-8",
    )
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    monkeypatch.setenv("COLORTERM", "truecolor")
    written = {}
    for time in ("relative", "local"):  # by the kernel, and by Python
        for color in ("always", "never"):
            assert (
                main(["read", "--color", color, "--time", time, str(SAMPLES / "rollback.pcap")])
                == 0
            )
            written[time, color] = capfd.readouterr().out.splitlines()
        plain = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in written[time, "always"]]
        assert plain == written[time, "never"]
        colours = [
            found[0] if (found := re.findall("^\x1b\\[([0-9;]*)m", line)) else ""
            for line in written[time, "always"]
        ]
        assert colours[100] == "35", "a rollback"
        assert colours[107:110] == ["94", "32", "38;2;255;136;0"], "a marker, and two changes"


def test_a_colour_of_the_config_file_that_is_none_is_said_where_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[colors]\n"vbucket = 8" = "grene"\n', "utf-8")
    monkeypatch.setenv("DCPINSPECT_CONFIG", str(config))
    assert main(["read", str(SAMPLES / "rollback.pcap")]) == 0
    capfd.readouterr()
    assert main(["read", "--color", "always", str(SAMPLES / "rollback.pcap")]) == 2
    assert (
        capfd.readouterr().err
        == f"dcpinspect: {config}: [colors] vbucket = 8: grene is no colour; did you mean green?\n"
    )


def test_a_dump_of_packets_is_read_and_what_it_lacks_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "paste\x1b.txt"
    path.write_text((DUMPS / "tx.txt").read_text())
    assert main(["read", str(path)]) == 3, "its last packet is cut short"
    out = capsys.readouterr()
    assert "hello" in out.out
    assert f"{tmp_path}/paste\\x1b.txt: hex dump; it has no times" in out.err


def test_a_damaged_place_of_a_dump_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "paste.txt"
    path.write_text(f"{(DUMPS / 'tx.txt').read_text()}\n0123  00 11 22\n")
    assert main(["read", str(path)]) == 3
    assert "offset 291 where" in capsys.readouterr().err


def test_damage_of_a_followed_capture_is_told_when_it_is_met_and_once(tmp_path: Path) -> None:
    data = (SAMPLES / "rollback.pcap").read_bytes()
    path = tmp_path / "x.pcap"
    path.write_bytes(data[:5000] + bytes(16) + b"\xff" * 64 + data[5000:])
    command = [sys.executable, "-m", "dcpinspect", "read", str(path), "--follow"]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()  # it comes, or this waits for ever
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 3
    assert line.startswith(f"dcpinspect: {path}, offset ")
    assert line not in rest


def test_a_terminal_that_a_capture_is_read_from_is_told_that_it_waits() -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "dcpinspect", "read", "-"],
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        process.terminate()
    os.close(ours)
    os.close(theirs)
    assert line == (
        "dcpinspect: reads a capture from this terminal, and waits for it; Ctrl-C ends it\n"
    )


def test_a_request_whose_end_the_server_sets_has_no_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["read", str(SAMPLES / "tour.pcapng"), "--skip", "222", "-n", "1"])
    assert "from 0, to-latest, strict-vbucket-uuid" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "hint"), [("delete", "dcp_deletion"), ("set", "")])
def test_a_command_beside_dcp_that_is_not_there_hints_at_that_of_dcp(
    name: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["read", str(SAMPLES / "rollback.pcap"), "--opcode", name])
    err = capsys.readouterr().err
    assert (f"--opcode {name}: the command of DCP is {hint}\n" in err) == bool(hint)
