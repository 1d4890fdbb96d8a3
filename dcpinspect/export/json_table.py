"""Tables as JSON: an object a row, its keys the columns."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.export.json import steered


def json_objects(batch: Any) -> Iterator[bytes]:
    """The object of each row of a record batch, on one line.

    Times have as many digits as their unit, bytes are hexadecimal digits, whole numbers stay whole however long.
    """
    for index, column in enumerate(batch.columns):
        if pa.types.is_timestamp(column.type):
            batch = batch.set_column(index, batch.schema.names[index], rfc3339(column))
    for row in batch.to_pylist(maps_as_pydicts="lossy"):  # of two values of one key the last; no engine makes such maps
        yield plain_json(row)


def plain_json(value: Any) -> bytes:
    """A value as Arrow gives it, as JSON that holds nothing a terminal would act on."""
    import orjson  # deferred: columnar formats do without

    return steered(orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS))


def _plain(value: Any) -> Any:
    """What JSON has no type for."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) and value == value.to_integral_value():
        import orjson  # as above

        return orjson.Fragment(str(int(value)))  # sums of 64-bit numbers have more than 64 bits
    return float(value) if isinstance(value, Decimal) else str(value)


def rfc3339(column: Any) -> Any:
    """Times as text, in UTC, with as many digits as their unit has."""
    naive = column.cast(pa.timestamp(column.type.unit))
    return pc.strftime(naive, "%Y-%m-%dT%H:%M:%SZ")
