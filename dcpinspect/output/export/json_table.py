"""Tables as JSON: an object per row, with the columns as keys."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dcpinspect.output.export.json import steered


def json_objects(batch: Any) -> Iterator[bytes]:
    """Yields the object of each row of a record batch, on one line.

    Times have as many digits as their unit, bytes are hexadecimal digits, and whole numbers of any
    size stay whole.
    """
    for index, column in enumerate(batch.columns):
        if pa.types.is_timestamp(column.type):
            batch = batch.set_column(index, batch.schema.names[index], rfc3339(column))
    # for two values of one key, the last one is kept; no engine makes such maps
    for row in batch.to_pylist(maps_as_pydicts="lossy"):
        yield plain_json(row)


def plain_json(value: Any) -> bytes:
    """Returns a value from Arrow as JSON without anything that a terminal would act on."""
    import orjson  # deferred: columnar formats do not need it

    return steered(orjson.dumps(value, default=_plain, option=orjson.OPT_NON_STR_KEYS))


def _plain(value: Any) -> Any:
    """Returns a JSON form of values for which JSON has no type."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal) and value == value.to_integral_value():
        import orjson  # as above

        return orjson.Fragment(str(int(value)))  # sums of 64-bit numbers can have more than 64 bits
    return float(value) if isinstance(value, Decimal) else str(value)


def rfc3339(column: Any) -> Any:
    """Returns times as text, in UTC, with as many digits as their unit has."""
    naive = column.cast(pa.timestamp(column.type.unit))
    return pc.strftime(naive, "%Y-%m-%dT%H:%M:%SZ")
