"""Rows: consecutive ones, and those by packets, which are in the same order however the packets are
shared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.reading.numbering import AT_END, MOST_PACKETS, STEP, ByPacket, Numbering
from dcpinspect.reading.reading import Reading
from dcpinspect.transport.tls.keylog import KeyLog
from tests import builders
from tests.builders import START_NS, Recorded
from tests.damage import Talk
from tests.spark.cuts import packets_of, written
from tests.tls.damage import save
from tests.tls.forged import Forged


def numbers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_rows_count_from_one_over_all_batches() -> None:
    rows = Numbering()
    assert rows.rows(numbers(7, 7), numbers(1, 2), at_end=False).tolist() == [1, 2]
    assert rows.rows(numbers(9), numbers(1), at_end=True).tolist() == [3]


def test_rows_say_which_packet_made_a_message_readable_and_which_of_its_messages_it_is() -> None:
    rows = ByPacket(lambda: numbers(0, 5))
    found = rows.rows(numbers(3, 3, 3, 8, 8, 9), numbers(1, 1, 1, 2, 2, 1), at_end=False)
    assert found.tolist() == [4_0000000, 4_0000001, 4_0000002, 9_0000000, 9_0000001, 10_0000000]


def test_messages_of_one_packet_in_two_batches_have_different_rows() -> None:
    rows = ByPacket(lambda: numbers(0))
    found = [
        *rows.rows(numbers(3, 3), numbers(1, 1), at_end=False),
        *rows.rows(numbers(3, 4), numbers(1, 1), at_end=False),
    ]
    assert found == sorted(set(found))


def test_what_the_end_released_comes_last_in_order_of_connections() -> None:
    rows = ByPacket(lambda: numbers(2, 5, 900))
    before = rows.rows(numbers(MOST_PACKETS - 1), numbers(3), at_end=False)
    found = rows.rows(numbers(7, 7, 7), numbers(1, 3, 3), at_end=True)
    assert found.tolist() == [AT_END + 3 * STEP, AT_END + 901 * STEP, AT_END + 901 * STEP + 1]
    assert (found > before).all()
    assert AT_END + MOST_PACKETS * STEP + STEP - 1 < 1 << 63


def test_what_cannot_be_numbered_is_no_row() -> None:
    with pytest.raises(OverflowError):
        ByPacket(lambda: numbers(0)).rows(numbers(MOST_PACKETS), numbers(1), at_end=False)
    many = np.zeros(STEP + 1, np.int64)
    with pytest.raises(OverflowError):
        ByPacket(lambda: numbers(0)).rows(many, many + 1, at_end=False)


@pytest.mark.parametrize("rows", [Numbering(), ByPacket(lambda: numbers(0))])
def test_no_messages_have_no_rows(rows: Numbering) -> None:
    assert rows.rows(numbers(), numbers(), at_end=False).tolist() == []


def _conversations(folder: Path) -> tuple[list[Recorded], list[Recorded], list[str]]:
    """Packets of a connection with TLS 1.3, those of a plain one beside it, and the lines of the
    key log.
    """
    forged = Forged(folder / "tls")
    for seqno in range(1, 61):
        forged.send(1, builders.mutation(seqno, value=bytes(300)))
        if seqno % 10 == 0:
            forged.send(0, builders.message(magic=0x80, opcode=0x5C))
    tls = forged.finish()
    plain = Talk(50_001, start_ns=START_NS + 5000)
    plain.handshake()
    for number in range(90):
        plain.stream(number % 2, builders.message(magic=0x80, opcode=0x5C))
    plain.close()
    beside = save(folder / "plain.pcap", plain.packets)
    return (
        packets_of(tls.path),
        packets_of(beside),
        tls.keylog.read_text().splitlines(keepends=True),
    )


def test_a_message_inside_tls_that_only_the_end_of_its_connection_makes_certain_comes_there(
    tmp_path: Path,
) -> None:
    forged = Forged(tmp_path / "tls")
    forged.send(0, builders.message(magic=0x80, opcode=0x5D, extras=bytes(4)))
    for seqno in range(1, 31):
        forged.send(1, builders.mutation(seqno, value=bytes(300)))
    tls = forged.finish()
    capture = written(tmp_path / "x.pcap", packets_of(tls.path)[9:])
    orders = []
    for size in (1 << 20, 6000, 200):
        with Reading(
            open_capture(capture, batch_bytes=size), keys=KeyLog([str(tls.keylog)])
        ) as reading:
            orders.append([int(direction) for batch in reading for direction in batch.direction])
    assert orders == [[1] * len(orders[0][:-1]) + [0]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("label", ["", "CLIENT_", "SERVER_"])
@pytest.mark.parametrize(
    "left_out",
    [slice(0), slice(3, 4), slice(30), slice(20, 23)],
    ids=["nothing", "hello", "beginning", "middle"],
)
def test_messages_inside_tls_have_the_same_order_whatever_the_batches(
    left_out: slice, label: str, tmp_path: Path
) -> None:
    """Also those that wait for secrets which never come."""
    tls, plain, lines = _conversations(tmp_path)
    del tls[left_out]
    capture = written(tmp_path / "x.pcap", sorted(tls + plain, key=lambda packet: packet.time_ns))
    (tmp_path / "keys.log").write_text("".join(line for line in lines if label in line))
    orders = []
    for size in (1 << 20, 6000, 700, 200):
        with Reading(
            open_capture(capture, batch_bytes=size), keys=KeyLog([str(tmp_path / "keys.log")])
        ) as reading:
            orders.append(
                [
                    place
                    for batch in reading
                    for place in zip(
                        batch.connection, batch.direction, batch.stream_offset, strict=True
                    )
                ]
            )
    assert len({connection for connection, *_ in orders[0]}) == 2
    assert orders == orders[:1] * 4
