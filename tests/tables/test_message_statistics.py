"""Statistics of messages: the same as counting one by one, however the reading is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from dcpinspect.reading.reading import Reading
from dcpinspect.tables.message_statistics import MessageStats, distribution
from dcpinspect.tables.messages import SIDES
from tests.peers.truth import SAMPLES

Row = dict[str, Any]


def counted(sample: str) -> tuple[MessageStats, list[tuple[str, str, int, int | None, int]]]:
    """The statistics of a capture, and (command, side, size, time of the answer, time) of each
    message, one by one.
    """
    stats, messages = MessageStats(), []
    with Reading([str(SAMPLES / sample)]) as reading:
        for batch in reading:
            half = np.arange(len(batch) // 2)
            stats.feed(batch, half)
            stats.feed(batch, np.arange(len(half), len(batch)))
            stats.feed(batch, np.arange(0))
            for row in range(len(batch)):
                side = SIDES[bool(batch.decoded.is_response[row])]
                rtt = batch.rtt_ns.value_at(row) if side == "response" else None
                messages.append(
                    (batch.name_of(row), side, int(batch.length[row]), rtt, int(batch.time_ns[row]))
                )
    return stats, messages


@pytest.mark.parametrize("sample", ["tour.pcapng", "rollback.pcap", "midstream.pcap"])
def test_every_message_is_in_its_row(sample: str) -> None:
    stats, messages = counted(sample)
    rows = list(stats.rows())
    commands = [row for row in rows if row["section"] == "commands"]
    assert Counter({(row["name"], row["side"]): row["count"] for row in commands}) == Counter(
        message[:2] for message in messages
    )
    for row in commands:
        sizes = sorted(
            size
            for name, side, size, _, _ in messages
            if (name, side) == (row["name"], row["side"])
        )
        assert (row["bytes"], row["least"], row["greatest"]) == (sum(sizes), sizes[0], sizes[-1])
        assert row["share"] == sum(sizes) / sum(message[2] for message in messages)
    assert [row["count"] for row in commands] == sorted(
        (row["count"] for row in commands), reverse=True
    )
    answers = {row["name"]: row for row in rows if row["section"] == "answers"}
    times = {
        name: sorted(rtt for one, _, _, rtt, _ in messages if one == name and rtt is not None)
        for name in {m[0] for m in messages}
    }
    assert {
        name: (row["count"], row["least"], row["greatest"]) for name, row in answers.items()
    } == {name: (len(own), own[0], own[-1]) for name, own in times.items() if own}
    statuses = [row for row in rows if row["section"] == "statuses"]
    assert sum(row["count"] for row in statuses) == sum(
        message[1] == "response" for message in messages
    )
    assert sum(row["share"] for row in statuses) == pytest.approx(1)
    spans = [row for row in rows if row["section"] == "throughput"]
    assert (sum(row["count"] for row in spans), sum(row["bytes"] for row in spans)) == (
        len(messages),
        sum(m[2] for m in messages),
    )
    for row in spans:
        inside = [m for m in messages if row["time"] <= m[4] < row["time"] + row["seconds"] * 1e9]
        assert (row["count"], row["bytes"]) == (len(inside), sum(m[2] for m in inside))


def test_nothing_is_no_rows() -> None:
    assert list(MessageStats().rows()) == []


def test_what_can_be_drawn_is_what_was_counted() -> None:
    stats, messages = counted("tour.pcapng")
    names = {(name, side): number for number, name, side in stats.commands()}
    assert set(names) == {message[:2] for message in messages}
    for (name, side), number in names.items():
        own = [message for message in messages if message[:2] == (name, side)]
        assert stats.messages_by_time.rows[number].sum() == len(own)
        assert stats.bytes_by_time.rows[number].sum() == sum(message[2] for message in own)
    octaves = dict(stats.answer_octaves())
    for name, counts in octaves.items():
        times = [
            message[3] for message in messages if message[0] == name and message[3] is not None
        ]
        assert counts.tolist() == [
            sum(max(time, 1).bit_length() - 1 == power for time in times) for power in range(64)
        ]


def test_a_distribution() -> None:
    assert distribution(np.array([3, 1, 2])) == {
        "least": 1,
        "p50": 2,
        "p95": 3,
        "p99": 3,
        "greatest": 3,
    }


def test_each_connection_has_its_messages_and_bytes() -> None:
    stats, messages = counted("tour.pcapng")
    with Reading([str(SAMPLES / "tour.pcapng")]) as reading:
        numbers = [int(number) for batch in reading for number in batch.connection]
    found = {
        number: (int(count), int(size))
        for number, (count, size) in enumerate(stats.by_connection)
        if count
    }
    assert {number: count for number, (count, _) in found.items()} == Counter(numbers)
    assert sum(size for _, size in found.values()) == sum(message[2] for message in messages)
