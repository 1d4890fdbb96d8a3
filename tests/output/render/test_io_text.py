"""The lines of messages over time."""

from __future__ import annotations

import numpy as np

from dcpinspect.output.render.io_text import CHARTS, io_lines
from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.tables.io_series import IO
from dcpinspect.tables.record_tables import ColumnValues, Records

S = 10**9


def records(*rows: tuple[int, str, int]) -> Records:
    seconds, names, messages = zip(*rows, strict=True) if rows else ((), (), ())
    relative = np.array(seconds, dtype=np.int64) * S
    columns: dict[str, ColumnValues] = {
        "time": NumberColumn(relative + 1_712_404_860 * S),
        "relative_ns": NumberColumn(relative),
        "interval_ns": NumberColumn(np.full(len(rows), S)),
        "name": list(names),
        "side": ["request"] * len(rows),
        "messages": NumberColumn(np.array(messages, dtype=np.int64)),
        "bytes": NumberColumn(np.array(messages, dtype=np.int64) * 24),
    }
    return Records(IO, columns, len(rows))


def shown(*rows: tuple[int, str, int]) -> list[str]:
    return [line for line, _ in io_lines(records(*rows), S, width=None)]


def test_silence_is_one_line_and_bars_are_in_proportion() -> None:
    lines = shown((0, "get", 10), (0, "set", 10), (7, "get", 10))
    assert lines[:5] == [
        "from 2024-04-06 12:01:00.000 UTC, a row is 1 s",
        "        time s   messages         bytes  get  set  messages",
        "      0.000000         20           480   10   10  " + "█" * 20,
        "             …  nothing for 6 s",
        "      7.000000         10           240   10    0  " + "█" * 10,
    ]


def test_charts_have_a_block_for_each_span() -> None:
    (chart,) = [line for line in shown((0, "get", 1), (2, "get", 8)) if line.startswith("get")]
    assert f"{'▁' * 20}{' ' * 20}{'█' * 20}  at most" in chart


def test_charts_end_with_the_capture() -> None:
    rows = records((0, "get", 4), (1, "get", 4))
    end_ns = rows.values("time")[0] + 6 * S
    lines = [line for line, _ in io_lines(rows, S, width=None, end_ns=end_ns)]
    assert lines[4].endswith("nothing for 4 s, to the end of the capture")
    assert any(f"{'█' * 20}{' ' * 40}  at most" in line for line in lines)


def test_nothing_has_no_lines() -> None:
    assert shown() == []


def test_commands_beyond_the_charts_are_counted() -> None:
    lines = shown(*[(0, f"opcode_{number:02}", 1) for number in range(CHARTS + 8)])
    named = ", ".join(f"opcode_{number}" for number in range(CHARTS, CHARTS + 6))
    assert lines[-1] == (
        f"8 more commands without a chart: {named}, and 2 more; --format csv has all"
    )
