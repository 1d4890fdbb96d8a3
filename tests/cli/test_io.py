"""``dcpinspect io``: what came when, in every format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.cli.main import main
from dcpinspect.output.export.table_schema import table_schema
from dcpinspect.tables.io_series import IO
from tests.captures import field, real_server
from tests.doubled import packets_of, passed_on, written
from tests.peers.truth import SAMPLES
from tests.schemas import validate

LARGE = str(SAMPLES / "large.pcapng.gz")
LOOP = str(SAMPLES / "loop.pcap")


def rows(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["io", *arguments, "--format", "ndjson"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_every_message_and_byte_is_in_one_row(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, LOOP, "--interval", "100ms")
    for row in found:
        validate(row, table_schema(IO))
    assert main(["read", LOOP, "--format", "csv", "--columns", "length,relative_ns,name,side"]) == 0
    messages = [line.split(",") for line in capsys.readouterr().out.splitlines()[1:]]
    assert sum(row["messages"] for row in found) == len(messages)
    assert sum(row["bytes"] for row in found) == sum(int(length) for length, *_ in messages)
    one = found[-1]
    own = [
        int(length)
        for length, relative, name, side in messages
        if int(relative) // 10**8 == one["relative_ns"] // 10**8
        and (name.strip('"'), side.strip('"')) == (one["name"], one["side"])
    ]
    assert (one["messages"], one["bytes"]) == (len(own), sum(own))


def test_intervals_and_filters_are_as_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, LARGE, "--interval", "0.25s", "--opcode", "dcp_mutation")
    assert [row["relative_ns"] for row in found] == [0, 250_000_000, 500_000_000, 750_000_000][
        : len(found)
    ]
    assert {row["name"] for row in found} == {"dcp_mutation"}
    assert {row["interval_ns"] for row in found} == {250_000_000}
    assert all(
        row["relative_ns"] >= 500_000_000
        for row in rows(capsys, LARGE, "--interval", "100ms", "--since", "500ms")
    )


def test_the_silence_at_the_end_is_told_unless_an_end_was_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(field("p06-zero-window"))
    assert main(["io", path]) == 0
    assert "nothing for 65.39 s, to the end of the capture" in capsys.readouterr().out
    assert main(["io", str(real_server("6.0.5-dcp1"))]) == 0
    told = capsys.readouterr().out
    assert re.search(r"\n +22\.500000 .*\n +…  nothing for 250.\d ms, to the end", told), (
        "half a row"
    )
    assert main(["io", path, "--until", "10s"]) == 0
    assert "to the end of the capture" not in capsys.readouterr().out
    assert main(["io", LOOP]) == 0
    told = capsys.readouterr().out
    assert "to the end of the capture" not in told
    assert "dcp_stream_req response " in told, "named as stats names it"


def test_spans_are_chosen_for_the_messages(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, LARGE)
    assert {row["interval_ns"] for row in found} == {20_000_000}
    assert sum(row["messages"] for row in found) == 104_436
    assert 20 <= len({row["relative_ns"] for row in found}) <= 50


def test_the_table_and_the_charts_fit_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("dcpinspect.cli.terminal.width", lambda: 80)
    assert main(["io", LARGE, "--interval", "100ms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "from 2024-04-06 12:01:00.384 UTC, a row is 100 ms"
    assert lines[2].split()[:4] == ["0.000000", "16,309", "3,473,906", "13,888"]
    (chart,) = [line for line in lines if line.startswith("dcp_mutation")]
    assert chart.endswith("at most 13,888")
    assert "█" in chart


def test_a_wide_terminal_has_more_commands_and_wider_blocks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    charts, heads = [], []
    for width in (110, 200):
        monkeypatch.setattr("dcpinspect.cli.terminal.width", lambda width=width: width)
        assert main(["io", LARGE]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= width
        charts.append(next(line for line in lines if line.startswith("dcp_mutation")))
        heads.append(lines[1].split("  "))
    assert [line.endswith(" a block") for line in charts] == [True, True]
    assert len(charts[1]) > len(charts[0]) + 40
    assert len(heads[1]) > len(heads[0]) + 3
    assert any(line.startswith("a block of 2 columns is 20 ms") for line in lines)


@pytest.mark.parametrize("interval", ["0", "-1s", "soon", "2024-04-06"])
def test_an_interval_is_a_length_of_time(interval: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["io", LOOP, "--interval", interval]) == 2
    assert capsys.readouterr().err.startswith(
        f"dcpinspect: --interval {interval}: write a length of time"
    )


def test_messages_of_a_copy_are_not_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packets = packets_of(field("t00-base"))
    of_alone = rows(capsys, str(written(tmp_path, packets)), "--interval", "1s")
    assert (
        rows(capsys, str(written(tmp_path, passed_on(packets))), "--interval", "1s")
        == of_alone
        != []
    )
