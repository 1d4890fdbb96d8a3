from __future__ import annotations

import numpy as np
import pyarrow as pa

from dcpinspect.protocol.column_types import NumberColumn
from dcpinspect.tables.arrow_types import hex64, record_type
from dcpinspect.tables.schema import COLUMNS


def test_numbers_of_64_bits_have_all_their_digits() -> None:
    numbers = np.array([0, 10, 2**64 - 1, 7], np.uint64)
    given = np.array([True, True, True, False])
    assert hex64(NumberColumn(numbers, given)).to_pylist() == [
        "0x0000000000000000",
        "0x000000000000000a",
        "0xffffffffffffffff",
        None,
    ]


def test_a_record_has_the_types_that_columns_of_its_kinds_have() -> None:
    (log,) = (column.records for column in COLUMNS if column.name == "failover_log")
    assert log is not None
    assert record_type(log) == pa.struct([("uuid", pa.string()), ("seqno", pa.uint64())])
