from __future__ import annotations

import numpy as np

from dcpinspect.output.render.verdict import LOST
from dcpinspect.reading.reading import Reading
from dcpinspect.tui.heat import (
    CLOSED,
    END,
    HEATS,
    REQUEST,
    ROLLBACK,
    SPANS,
    Heat,
    HeatCounter,
    measured,
    signs,
)
from tests.tui.screens import SAMPLES


def counted(sample: str) -> tuple[Heat, Reading]:
    counter = HeatCounter()
    with Reading([str(SAMPLES / sample)], track=True) as reading:
        for batch in reading:
            counter.feed(batch)
    return counter.now, reading


def test_each_item_is_counted_once_and_the_time_fits_into_the_spans() -> None:
    heat, reading = counted("rollback.pcap")
    table = reading.tables.streams
    items: dict[int, int] = {}
    for vbucket, own in zip(table.values("vbucket"), table.values("items"), strict=True):
        items[vbucket] = items.get(vbucket, 0) + own
    assert {vbucket: int(heat.counts[vbucket].sum()) for vbucket in items} == items
    assert SPANS // 2 < heat.used <= SPANS
    assert heat.counts.sum() == sum(items.values())


def test_cells_have_all_items_however_they_are_gathered() -> None:
    heat, _ = counted("rollback.pcap")
    total = int(heat.counts.sum())
    for together in (1, 3, 7, heat.used, 5 * heat.used):
        assert heat.cells([(0, len(heat.counts) - 1)], together).sum() == total
        assert heat.cells([(7, 7), (8, 9)], together).sum() == heat.counts[7:10].sum()
    assert Heat().cells([(0, 3)], 1).shape == (1, 0)


def test_whatever_is_measured_each_is_counted_once() -> None:
    heat, reading = counted("capture-loss.pcap")
    records, vbuckets = reading.tables.by_name, reading.tables.vbuckets
    lost = sum(one["gaps"].get(cause, 0) for one in vbuckets.records() for cause in LOST)
    found = {
        measure: int(measured(heat, records, measure).counts[:, : heat.used].sum())
        for measure in HEATS
    }
    assert (
        0.9 * sum(vbuckets.values("bytes")) < found.pop("bytes") < sum(vbuckets.values("bytes"))
    ), "markers have bytes, too"
    assert found == {
        "items": sum(vbuckets.values("items")),
        "gaps": lost,
        "rollbacks": sum(vbuckets.values("rollbacks")),
    }
    assert lost
    assert [measured(Heat(), {}, measure).cells([(0, 3)], 1).shape for measure in HEATS] == [
        (1, 0)
    ] * 4


def test_the_worst_that_happened_wins_a_cell() -> None:
    heat, reading = counted("rollback.pcap")
    place_of = np.full(11, -1)
    place_of[7:11] = 0, 1, -1, 2
    shape = (3, heat.used)
    found = signs(
        heat,
        {"streams": reading.tables.streams, "snapshots": reading.tables.snapshots},
        place_of,
        shape,
        1,
    )
    assert {REQUEST, CLOSED, END, ROLLBACK} <= set(found[0].tolist())
    whole = signs(heat, {"streams": reading.tables.streams}, place_of, (3, 1), heat.used)
    assert whole.tolist() == [[ROLLBACK], [END], [ROLLBACK]]
