"""Compares connections that were captured at several points: loss between two points, transit
times, and difference of the clocks.

A part of copies knows where the connections that count instead are. The task that reads the part
also reads those connections. The result is in a file beside the part, so that later runs need not
read either of them again.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dcpinspect.diff.network_paths import paths
from dcpinspect.diff.reading_side import AnswerTimes, Tap
from dcpinspect.reading.reading import Reading
from dcpinspect.spark import files
from dcpinspect.spark.spark_schema import PATHS
from dcpinspect.text import escape

if TYPE_CHECKING:
    from dcpinspect.spark.analysis import PartTask


def _tap(name: str, work: PartTask, reading: Reading, answers: AnswerTimes) -> Tap:
    """Returns a capture point's view of some connections. ``reading``: the reading of ``work``,
    which has ended.
    """
    engine = reading.engine
    links, transport = engine.links, engine.transport
    return Tap(name, [work.point], links, transport, answers, lambda: nullcontext(work.packets()))


def read_paths(part: str) -> Any:
    """Reads the comparison of a part of copies, as a table. Raises OSError."""
    with files.source(f"{part}.paths") as source:
        return pa.ipc.open_file(source).read_all()


def write_paths(part: str, work: PartTask, reading: Reading, answers: AnswerTimes) -> str:
    """Compares a part of copies with the connections that count. Writes the result beside the part,
    and returns its path.

    ``reading``: the reading of the part, which has ended. ``answers``: the answers of that reading.
    """
    from dcpinspect.spark.analysis import ids

    tables = [PATHS.empty_table()]
    for original in work.beside:
        waited = AnswerTimes()
        with original.reading() as counting:
            for batch in counting:
                waited.feed(batch)
        path_table = paths(
            _tap("a", original, counting, waited), _tap("b", work, reading, answers)
        ).arrow()
        sides = {"a": (original.point, counting), "b": (work.point, reading)}
        for side, (point, side_reading) in sides.items():
            numbers = path_table[f"{side}_connection"].to_numpy()
            path_table = path_table.append_column(
                f"{side}_connection_id", pa.array(ids(side_reading)[numbers])
            )
            path_table = path_table.append_column(
                f"{side}_capture_point", pa.array([escape(point)] * len(path_table), pa.string())
            )
        tables.append(path_table.select(PATHS.names))
    path = f"{part}.paths"
    with files.created(path) as stream, pa.ipc.new_file(stream, PATHS) as file:
        file.write_table(pa.concat_tables(tables))
    return path
