"""What a snapshot length cut off has no value in any column; what it left has the value that the
whole capture shows.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dcpinspect.protocol.decode import PROBLEMS
from dcpinspect.reading.engine import Engine
from dcpinspect.tables.messages import MessageBatch
from tests import damage
from tests.builders import Recorded, pcap
from tests.damage import PORT, Packet

pytestmark = pytest.mark.slow

NAMES = ("tour", "upr", "snapshots", "rollback", "generated")


def messages(packets: list[Packet]) -> dict[tuple[int, int, int], tuple[MessageBatch, int]]:
    """By connection, direction and stream offset, where each message is."""
    engine = Engine(["x"], ports=(PORT,))
    found: dict[tuple[int, int, int], tuple[MessageBatch, int]] = {}
    for batch in [*(engine.feed(part) for part in damage.batches(packets)), engine.finish()]:
        if batch is not None:
            places = zip(
                batch.connection.tolist(),
                batch.direction.tolist(),
                batch.stream_offset.tolist(),
                strict=True,
            )
            found |= {place: (batch, index) for index, place in enumerate(places)}
    return found


def numbers(batch: MessageBatch, index: int) -> dict[str, Any]:
    decoded = batch.decoded
    found = {name: column.value_at(index) for name, column in decoded.numbers.items()}
    return found | {
        "sid": decoded.sid.value_at(index),
        "collection_id": decoded.collection_id.value_at(index),
        "key": batch.key_of(index),
    }


@pytest.mark.parametrize("snaplen", [97, 105, 112, 128, 160, 200])
def test_columns_have_what_the_whole_capture_has_or_nothing(snaplen: int) -> None:
    kept = lacking = 0
    for name in NAMES:
        tape = (
            damage.generated(300, values=damage.nested)
            if name == "generated"
            else damage.sample(name)
        )
        whole = messages(tape.packets)
        for place, (batch, index) in messages(
            [packet.cut(snaplen) for packet in tape.packets]
        ).items():
            if place not in whole:
                continue  # a part of a value that looks like a message
            found, true = numbers(batch, index), numbers(*whole[place])
            if (
                batch.decoded.collections[index]
                != whole[place][0].decoded.collections[whole[place][1]]
            ):
                del (
                    found["collection_id"],
                    found["key"],
                )  # the HELLO that tells whether there are collections was cut
            cut, full = batch.decoded, whole[place][0].decoded
            own, others = PROBLEMS[cut.problem[index]], PROBLEMS[full.problem[whole[place][1]]]
            assert own in ("", "truncated", others), (name, place)
            shown = {field.name for field in batch.annotate(index).fields if not field.missing}
            for column, value in found.items():
                if value is not None:
                    kept += 1
                    assert value == true[column], (name, place, column)
                elif true[column] is not None:
                    lacking += 1
                    assert batch.missing.ranges_of(index), (name, place, column)
                    assert column in ("key", "collection_id") or column not in shown, (
                        name,
                        place,
                        column,
                    )
    assert kept > 50
    assert lacking > 10


def test_tables_filters_and_lines_say_nothing_for_what_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    packets = [packet.cut(94) for packet in damage.sample("snapshots").packets]
    path.write_bytes(pcap(Recorded(packet.data, packet.wire, packet.time_ns) for packet in packets))
    told = [
        line.split(",")
        for line in run(
            "read", str(path), "--format", "csv", "--columns", "name,by_seqno,missing_bytes"
        ).splitlines()
    ]
    cut = [row for row in told if row[0] == '"dcp_mutation"' and row[2] != "0"]
    assert len(cut) > 20
    assert {row[1] for row in cut} == {""}
    assert (
        run("read", str(path), "--filter", "by_seqno = 0 and missing_bytes > 0").strip().count("\n")
        == 0
    )
    assert not [
        line
        for line in run("read", str(path)).splitlines()
        if re.search(r"mutation .* 0 +\d+  .*bytes not captured", line)
    ]


def run(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "dcpinspect", *arguments], capture_output=True, text=True, check=True
    ).stdout
