"""``dcpinspect diff``: exit status, formats, filters, and what it says of bad usage."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import SCHEMAS
from dcpinspect.output.render.difference_text import _clocks
from tests.captures import field, real_server
from tests.diff.pairs import streaming
from tests.diff.taps import conversation, taps, written
from tests.doubled import Doubled, packets_of, passed_on, translated
from tests.doubled import written as captured
from tests.peers.truth import SAMPLES
from tests.schemas import validate
from tests.streams.told import capture

TOUR = str(SAMPLES / "tour.pcapng")
LOSSY, HOLES = str(SAMPLES / "lossy.pcap"), str(SAMPLES / "capture-loss.pcap")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """B was not sent two of the events."""
    paths = []
    for name, left_out in (("a", ()), ("b", (4, 6))):
        talk, stream = streaming()
        stream.snapshot(0, 2, "memory", "checkpoint")
        for seqno in range(1, 9):
            if seqno == 3:
                stream.snapshot(3, 8, "memory", "checkpoint")
            if seqno not in left_out:
                stream.mutation(seqno, f"key-{seqno}")
        paths.append(tmp_path / f"{name}.pcap")
        paths[-1].write_bytes(capture(talk))
    return str(paths[0]), str(paths[1])


def test_the_status_says_whether_the_sides_differ(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", TOUR, TOUR]) == 0
    assert "A and B do not differ, as far as both captures tell." in capsys.readouterr().out
    assert main(["diff", *pair]) == 1
    assert (
        "2 events not sent to B, though its stream covers the seqno and nothing is lost there: "
        "vb 7 seqnos 4 and 6"
    ) in capsys.readouterr().out


@pytest.mark.parametrize("doubled", [translated, passed_on])
def test_events_that_a_side_shows_twice_are_compared_once(
    doubled: Doubled, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(real_server("6.6.5-dcp"))
    alone, twice = (
        str(captured(tmp_path, made, name))
        for name, made in (("a.pcap", packets), ("b.pcap", doubled(packets)))
    )
    assert main(["diff", alone, twice, "--summary"]) == 0
    assert "152 events on both sides" in capsys.readouterr().out


def test_clocks_of_the_same_packets_agree_whatever_is_given_or_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["diff", str(real_server("resume")), str(real_server("resume-lost"))]) == 0
    assert "    clocks: they agree (by the handshake)\n" in capsys.readouterr().out


def test_times_that_were_replaced_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    sides = [str(field("t00-base")), str(field("f17-negative-times"))]
    main(["diff", *sides])
    printed = capsys.readouterr().out
    assert "clocks: times cannot be compared, as some are before 1970 or after 2262\n" in printed
    assert " ms" not in printed
    main(["diff", *sides, "--paths", "--format", "ndjson"])
    record = json.loads(capsys.readouterr().out.splitlines()[0])
    assert record["segments"] > 0
    assert record["clock_offset_ns"] is record["delay_max_ns"] is record["client_side"] is None


def test_clocks_years_apart_are_not_told_in_milliseconds() -> None:
    row: dict[str, Any] = {"clock_offset_ns": -54 * 365 * 86_400 * 10**9, "clock_error_ns": 105_000}
    row["clock_from"] = "handshake"
    assert _clocks(row) == "B's is 19,710 days behind, give or take 0.105 ms (by the handshake)"


def test_what_a_capture_lost_is_no_difference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", LOSSY, HOLES, "--summary"]) == 0
    said = capsys.readouterr()
    assert "7 events may have come to B: packets are missing in its capture" in said.out
    assert {line.split(",")[0] for line in said.err.splitlines()} == {"dcpinspect: B: connection 1"}


def test_captures_of_one_name_are_told_apart_by_their_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / side / "capture.pcap" for side in "ab"]
    for path, sample in zip(paths, ("lossy.pcap", "capture-loss.pcap"), strict=True):
        path.parent.mkdir()
        path.write_bytes((SAMPLES / sample).read_bytes())
    main(["diff", *map(str, paths)])
    a, b = capsys.readouterr().out.splitlines()[:2]
    assert (a.rpartition("  ")[2], b.rpartition("  ")[2]) == ("a/capture.pcap", "b/capture.pcap")


def test_sides_may_have_several_captures_and_folders(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "side"
    folder.mkdir()
    (folder / "b.pcap").write_bytes(Path(pair[1]).read_bytes())
    assert main(["diff", pair[0], str(folder), "-f", "ndjson"]) == 1
    whole = capsys.readouterr().out
    assert (
        main(
            [
                "diff",
                "--a",
                pair[0],
                "--a",
                LOSSY,
                "--b",
                str(folder),
                "--vbucket",
                "7",
                "-f",
                "ndjson",
            ]
        )
        == 1
    )
    assert [json.loads(line)["key"] for line in capsys.readouterr().out.splitlines()] == [
        "key-4",
        "key-6",
    ]
    assert [json.loads(line)["key"] for line in whole.splitlines()] == ["key-4", "key-6"]


def test_every_format_has_the_records(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *pair, "--format", "json"]) == 1
    records = json.loads(capsys.readouterr().out)
    for record in records:
        validate(record, SCHEMAS["difference"])
    assert [(one["kind"], one["first_seqno"], one["vbucket_uuid"]) for one in records] == [
        ("not-sent", 4, "0x000000000000abcd"),
        ("not-sent", 6, "0x000000000000abcd"),
    ]
    assert main(["diff", *pair, "-o", str(tmp_path / "d.csv"), "--columns", "kind,key,lacks"]) == 1
    with (tmp_path / "d.csv").open() as file:
        assert list(csv.reader(file)) == [
            ["kind", "key", "lacks"],
            ["not-sent", "key-4", "b"],
            ["not-sent", "key-6", "b"],
        ]
    assert main(["diff", *pair, "-o", str(tmp_path / "d.parquet")]) == 1
    assert pq.read_table(tmp_path / "d.parquet").column("a_row").to_pylist() == [
        record["a_row"] for record in records
    ]


def test_records_are_filtered_sorted_and_limited(
    pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    def seqnos(*options: str) -> list[int]:
        main(["diff", *pair, "-f", "ndjson", *options])
        return [json.loads(line)["first_seqno"] for line in capsys.readouterr().out.splitlines()]

    assert seqnos("--filter", "first_seqno > 4 and kind = 'not-sent'") == [6]
    assert seqnos("--sort", "first_seqno", "--reverse") == [6, 4]
    assert seqnos("-n", "1") == [4]
    assert seqnos("--vbucket", "8") == []


def test_keys_are_redacted(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *pair, "--redact"]) == 1
    assert "key-" not in capsys.readouterr().out


def test_paths_of_the_same_connection_are_another_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = written(tmp_path, *taps(conversation(), lost={20}))
    assert main(["diff", str(a), str(b)]) == 0
    text = capsys.readouterr().out
    assert "  1 of A is 1 of B: 10.0.0.1:50000 to 10.0.0.2:11210; A is nearer to the client" in text
    assert "lost there and sent again 1 time, 162 bytes" in text
    assert main(["diff", str(a), str(b), "--paths", "-f", "ndjson", "--filter", "lost > 0"]) == 0
    assert [json.loads(line)["direction"] for line in capsys.readouterr().out.splitlines()] == [
        "s2c"
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([TOUR, TOUR, "--paths", "--vbucket", "3"], "a path has no vbucket"),
        ([TOUR], "only one capture: name two"),
        ([TOUR, TOUR, TOUR], "3 captures: name two"),
        ([], "the captures are missing"),
        (["--a", TOUR], "the captures are missing"),
        ([TOUR, TOUR, "--a", TOUR], "--a, --b: name all captures by them"),
        (["-", "-"], "standard input can be one side only"),
        ([TOUR, TOUR, "--filter", "kinf = 'x'"], "kinf"),
        ([TOUR, TOUR, "--sort", "nothing"], "differences have no such column"),
        ([TOUR, TOUR, "-o", TOUR], "no format has names in .pcapng"),
        ([TOUR, "/nowhere.pcap"], "/nowhere.pcap"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *arguments]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.splitlines()[0].startswith("dcpinspect: ")
    assert len(error.splitlines()) == (
        3 if "--filter" in arguments else 1
    )  # where it points at the mistake


def test_a_side_without_streams_cannot_be_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(Path(HOLES).read_bytes()[:24])
    assert main(["diff", TOUR, str(empty), "-o", str(tmp_path / "out.json")]) == 2
    assert "nothing is compared, because of side B: " in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ["rollback.pcap", "snapshots.pcap"],
            "Nothing could be compared: no vbucket has a stream on both sides.",
        ),
        (
            ["rollback.pcap", "rollback.pcap", "--vbucket", "999"],
            "Nothing could be compared: A and B have no stream of what was asked for.",
        ),
        (
            ["rollback.pcap", "rollback.pcap", "--a-connection", "1", "--b-connection", "8-9"],
            "side B: connection 8-9: there are 2;",
        ),
        (["rollback.pcap", "snapshots.pcap", "-f", "csv"], "nothing could be compared: no vbucket"),
    ],
)
def test_where_nothing_was_compared_nothing_is_alike(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["diff", *(str(SAMPLES / one) if one.endswith(".pcap") else one for one in arguments)])
        == 2
    )
    text = "".join(capsys.readouterr())
    assert told in text
    assert "do not differ" not in text


def test_a_capture_that_ends_before_the_history_begins_anew_is_only_earlier(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Vbucket 9 of the sample is rolled back to 0, to a history without a common branch; the
    shorter capture ends before.
    """
    whole, cut = SAMPLES / "rollback.pcap", tmp_path / "cut.pcap"
    cut.write_bytes(whole.read_bytes()[:3000])
    assert main(["diff", str(cut), str(whole), "--summary"]) == 3, "damaged, and nothing differs"
    text = capsys.readouterr().out
    assert "No event is on both sides; 82 events on one side only could not be compared." in text
    assert "another branch" not in text
