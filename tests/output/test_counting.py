"""What a capture shows twice is counted once, where it can be read again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dcpinspect.capture.open import open_capture
from dcpinspect.output.counting import count_once
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.reading.reading import Reading
from dcpinspect.streams.tcp_facts import command_counting
from dcpinspect.tables.messages import MessageBatch
from tests.captures import field
from tests.doubled import packets_of, passed_on, written


class Rowcount:
    def __init__(self) -> None:
        self.rows = 0

    def feed(self, _batch: MessageBatch, rows: RowNumbers) -> None:
        self.rows += len(rows)


def all_rows(batch: MessageBatch) -> RowNumbers:
    return np.arange(len(batch))


def mutations(batch: MessageBatch) -> RowNumbers:
    return np.flatnonzero(batch.decoded.opcode == 0x57)


def count(
    path: Path, rows_of: Callable[[MessageBatch], RowNumbers], batch_bytes: int = 1 << 24
) -> tuple[int, set[int]]:
    with Reading(open_capture([str(path)], batch_bytes=batch_bytes)) as reading:
        counter, copies = count_once(reading, reading, Rowcount, rows_of)
        return counter.rows, set(copies)


@pytest.mark.parametrize("rows_of", [all_rows, mutations])
@pytest.mark.parametrize("batch_bytes", [4096, 1 << 24])
def test_a_copy_is_not_counted_whatever_is_chosen(
    rows_of: Callable[[MessageBatch], RowNumbers], batch_bytes: int, tmp_path: Path
) -> None:
    packets = packets_of(field("t00-base"))
    alone = count(written(tmp_path, packets), rows_of)
    assert alone[0] > 0
    assert (
        count(written(tmp_path, passed_on(packets)), rows_of, batch_bytes)
        == alone
        == (alone[0], set())
    )


def test_copies_count_if_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = packets_of(field("t00-base"))
    alone, _ = count(written(tmp_path, packets), all_rows)
    monkeypatch.setattr(command_counting, "copies", True)
    assert count(written(tmp_path, passed_on(packets)), all_rows)[0] == 2 * alone
