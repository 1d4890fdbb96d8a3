"""Readings of some connections each, put together: all that is told is what one reading of
everything tells, however it is divided.
"""

from __future__ import annotations

import pickle
import random
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dcpinspect.capture.batch import PacketBatch
from dcpinspect.capture.open import open_capture
from dcpinspect.capture.zstd import zstd
from dcpinspect.findings.finding import Finding
from dcpinspect.findings.registry import RULES
from dcpinspect.reading.joining import ReadingPart, merged, packed
from dcpinspect.reading.reading import Reading
from dcpinspect.streams import leaving, rollbacks
from tests.builders import Recorded
from tests.captures import real_server
from tests.catalogue import first_of
from tests.crowd import KINDS, crowd
from tests.damage import PORT, batches
from tests.doubled import Doubled, packets_of, passed_on, translated, written
from tests.model.dice import Dice
from tests.model.judge import COMPLETE, DAMAGED, conversation, damaged
from tests.model.packets import laid
from tests.model.play import play
from tests.parted import Options, divided, everything, findings, joined, recut, whole
from tests.peers.truth import SAMPLES
from tests.streams.told import opened, packets

CAPTURES = sorted(path.name for path in SAMPLES.glob("*.pcap*") if "large" not in path.name)
ROWS = {
    "row",
    "rows",
    "open_row",
    "end_row",
    "request_row",
    "answer_row",
    "log_row",
    "evidence",
    "explanation",
    "over_row",
}
"""What names messages by their rows, alone or in words."""


@pytest.fixture(autouse=True)
def _few_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the snapshots of a stream hardly any stays that parts can set apart."""
    for module in (leaving, rollbacks):
        monkeypatch.setattr(module, "BACK", 1)


@cache
def batches_of(name: str | Path) -> tuple[list[PacketBatch], list[str]]:
    with open_capture(str(SAMPLES / name), batch_bytes=1 << 16) as capture:
        return [replace(batch, data=batch.data.copy()) for batch in capture], [
            file.name for file in capture.files
        ]


def check(
    given: list[PacketBatch], files: list[str], options: Options, parts: int, rng: random.Random
) -> None:
    """Holds several readings against one."""
    shares, left_out = divided(given, parts, rng)
    shares = [recut(share, rng) for share in shares]
    together, one = (
        everything(joined(shares, files, options, left_out)),
        everything(whole(given, files, options)),
    )
    for name, expected in one.items():
        assert together[name] == expected, name


@pytest.mark.slow
@pytest.mark.parametrize("doubled", [translated, passed_on])
def test_copies_in_different_parts_count_once(doubled: Doubled, tmp_path: Path) -> None:
    with open_capture(
        str(written(tmp_path, doubled(packets_of(real_server("durability")))))
    ) as capture:
        given, files = (
            [replace(batch, data=batch.data.copy()) for batch in capture],
            [file.name for file in capture.files],
        )
    found = whole(given, files)
    assert {copy.of for copy in found.tracker.copies.among(found.links).values()} == set(
        range(1, len(found.links) + 1, 2)
    )
    check(given, files, Options(), 3, random.Random(7))


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("find_ports", [False, True])
def test_samples_that_are_divided_tell_the_same(name: str, find_ports: bool) -> None:
    check(*batches_of(name), Options(list(RULES), find_ports=find_ports), 3, random.Random(name))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["tour.pcapng", "loop.pcap", pytest.param(real_server("6.0.5-dcp2"), id="messages refused")],
)
def test_one_part_of_all_is_what_an_ordinary_reading_tells_but_for_the_numbers_of_rows(
    name: str | Path,
) -> None:
    given, files = batches_of(name)
    with Reading([str(SAMPLES / name)]) as reading:
        reading.check()
        for _ in reading:
            pass
        expected = everything(reading)
    found = everything(whole(given, files))

    def without_rows(table: Any) -> Any:
        return [
            {key: unnumbered(value) for key, value in record.items() if key not in ROWS}
            for record in table
        ]

    def unnumbered(value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return without_rows(value)
        return re.sub(r"\brow \d+", "row", value) if isinstance(value, str) else value

    for table in (
        "connections",
        "streams",
        "snapshots",
        "gaps",
        "rollbacks",
        "vbuckets",
        "findings",
    ):
        assert without_rows(found[table]) == without_rows(expected[table])
    assert [place["stream_offset"] for one in found["findings"] for place in one["evidence"]] == [
        place["stream_offset"] for one in expected["findings"] for place in one["evidence"]
    ]
    assert (found["directions"], found["packets"]) == (expected["directions"], expected["packets"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1054, 1068, 1136, 1276, 1323, 1346])
def test_nodes_whose_captures_are_numbered_one_after_the_other_tell_what_their_packets_do_by_time(
    seed: int, tmp_path: Path
) -> None:
    nodes: dict[bytes, list[Recorded]] = {}
    for packet in laid(play(Dice(seed))).packets:
        source, target, port = packet.data[26:30], packet.data[30:34], packet.data[34:36]
        server = source if int.from_bytes(port) == PORT else target
        nodes.setdefault(server, []).append(Recorded(packet.data, packet.wire, packet.time_ns))
    parts: list[list[PacketBatch]] = []
    paths: list[str] = []
    count = 0
    for number, packets_of_node in enumerate(nodes.values()):
        path = written(tmp_path, packets_of_node, f"node{number}.pcap")
        batches_of_node = batches_of(path)[0]
        parts.append(
            [
                replace(batch, file=number, packet=count + batch.packets, frame=batch.frames)
                for batch in batches_of_node
            ]
        )
        paths.append(str(path))
        count += len(packets_of_node)

    def told(of: list[Finding]) -> list[tuple[object, ...]]:
        """Connections and rows have other numbers, also in words."""
        return sorted(
            (one.rule, one.severity, str(one.cause), one.vbuckets, one.over, one.count)
            for one in of
        )

    options = Options(list(RULES))
    with options.reading(paths, is_part=False) as reading:
        for _ in reading:
            pass
        expected = told(reading.findings())
    assert len(parts) > 1
    assert told(findings(joined(parts, paths, options).merged)) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("damage", "seed"),
    first_of(
        [
            *((damage, seed) for seed in range(3) for damage in (*COMPLETE, *DAMAGED)),
            ("snaplen", 4),
        ],
        10,
    ),
)
def test_conversations_that_are_divided_tell_the_same(damage: str, seed: int) -> None:
    dice, rng = Dice(seed), random.Random(seed)
    play(dice)
    capture = conversation(damage, dice.choices)
    left = damaged(capture, damage, rng)
    sizes = [rng.randrange(1, 400) for _ in range(3)]
    check(
        list(batches(left.packets, sizes)), ["model.pcap"], Options(list(RULES)), 2 + seed % 3, rng
    )


@pytest.mark.slow
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(("port", "find_ports"), [(PORT, False), (PORT, True), (9_999, True)])
def test_a_crowd_that_is_divided_tells_the_same(
    closed: bool, port: int, find_ports: bool, tmp_path: Path
) -> None:
    path = tmp_path / "crowd.pcap"
    path.write_bytes(b"".join(crowd(KINDS, 120, closed=closed, port=port)))
    with open_capture(str(path)) as capture:
        given = [replace(batch, data=batch.data.copy()) for batch in capture]
    check(
        given, ["crowd.pcap"], Options(list(RULES), find_ports=find_ports), 4, random.Random(port)
    )


@pytest.mark.slow
def test_what_is_replaced_is_replaced_by_the_same_in_all_parts() -> None:
    check(*batches_of("tour.pcapng"), Options(salt=b"salt"), 4, random.Random(1))


def test_another_port_is_looked_at_in_all_parts() -> None:
    moved = [replace(batch, data=_on_port(batch, 12_000)) for batch in batches_of("loop.pcap")[0]]
    options = Options(extra_ports=(12_000,))
    check(moved, ["moved.pcap"], options, 3, random.Random(2))
    assert len(everything(whole(moved, ["moved.pcap"], options))["streams"]) > 0


def _on_port(batch: PacketBatch, port: int) -> Any:
    old, new = (11_210).to_bytes(2, "big"), port.to_bytes(2, "big")
    data = batch.data.copy()
    for start in batch.offset.tolist():
        for at in (start + 34, start + 36):
            if data[at : at + 2].tobytes() == old:
                data[at : at + 2] = np.frombuffer(new, np.uint8)
    return data


def test_a_client_that_came_again_tells_other_parts_that_its_connection_ended() -> None:
    talks = [opened("x", port=port) for port in range(40_000, 40_006)]
    for talk in talks:
        talk.stream(7).snapshot(0, 5, "memory")
    given = list(batches(packets(*talks)))
    check(given, ["again.pcap"], Options(list(RULES)), 4, random.Random(3))
    states = [one["state"] for one in everything(whole(given, ["again.pcap"]))["snapshots"]]
    assert states == ["unknown"] * 5 + ["open"]


def test_parts_without_packets_or_messages_change_nothing() -> None:
    given, files = batches_of("loop.pcap")
    none: list[PacketBatch] = []
    handshake = list(batches(packets(opened(port=40_000))[:3]))
    later = [replace(batch, first_packet=10**6, first_frame=10**6) for batch in handshake]
    assert everything(joined([given, none], files)) == everything(whole(given, files))
    assert everything(joined([none], files))["streams"] == []
    together, one = (
        everything(joined([later, given], files)),
        everything(whole([*given, *later], files)),
    )
    assert together == one
    assert len(one["connections"]) == 1 + len(everything(whole(given, files))["connections"])


@pytest.mark.slow
def test_no_order_of_the_parts_matters() -> None:
    given, files = batches_of("tour.pcapng")
    shares, _ = divided(given, 5, random.Random(7))
    assert everything(joined(shares, files)) == everything(joined(shares[::-1], files))


def test_parts_have_to_be_checked_by_the_same_rules() -> None:
    given, files = batches_of("loop.pcap")

    def part(rules: list[str] | None) -> ReadingPart:
        with Options(rules).reading(_source(given, files)) as reading:
            for _ in reading:
                pass
            return ReadingPart.from_reading(reading)

    with pytest.raises(ValueError, match="the same rules"):
        merged([part(None), part(["bad-magic"])], files)
    unchecked = Reading(_source(given, files), track=True, is_part=True)
    for _ in unchecked:
        pass
    with pytest.raises(ValueError, match="some did not"):
        merged([part(None), ReadingPart.from_reading(unchecked)], files)
    with pytest.raises(ValueError, match="does not track"):
        ReadingPart.from_reading(Reading(_source(given, files), is_part=True))


def _source(given: list[PacketBatch], files: list[str]) -> Any:
    from dcpinspect.capture.open import CaptureFile
    from tests.parted import Given

    return Given([CaptureFile(name) for name in files], given)


class _Touches:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_bytes_that_are_no_part_bring_nothing_to_life(tmp_path: Path) -> None:
    pickles = [
        b"no pickle",
        *map(pickle.dumps, (_Touches(tmp_path / "touched"), {"a": 1}, Options())),
    ]
    for data in (
        b"",
        b"not packed",
        zstd.compress(b"no sizes"),
        *(packed([plain]) for plain in pickles),
    ):
        with pytest.raises(ValueError, match="no part"):
            ReadingPart.from_bytes(data)
    assert list(tmp_path.iterdir()) == []
