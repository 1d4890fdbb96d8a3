from __future__ import annotations

from dcpinspect.output.vbucket_heat import SPANS, Heat
from dcpinspect.reading.reading import Reading
from tests.tui.screens import SAMPLES


def counted(sample: str) -> tuple[Heat, Reading]:
    counter = Heat()
    with Reading([str(SAMPLES / sample)], track=True) as reading:
        for batch in reading:
            counter.feed(batch)
    return counter, reading


def test_each_item_is_counted_once_and_the_time_fits_into_the_spans() -> None:
    heat, reading = counted("rollback.pcap")
    table = reading.tables.streams
    items: dict[int, int] = {}
    for vbucket, own in zip(table.values("vbucket"), table.values("items"), strict=True):
        items[vbucket] = items.get(vbucket, 0) + own
    assert {vbucket: int(heat.counts[vbucket].sum()) for vbucket in items} == items
    assert SPANS // 2 < heat.used <= SPANS
    assert heat.counts.sum() == sum(items.values())


def test_items_of_a_cache_transfer_are_counted() -> None:
    capture = "../tests/captures/real-server/v85-cache-transfer.pcap.gz"
    heat, reading = counted(capture)
    rows = list(reading.tables.vbuckets.rows("vbucket", "items", "cached_items"))
    assert sum(cached or 0 for *_, cached in rows) >= 100
    for vbucket, items, cached in rows:
        assert int(heat.counts[vbucket].sum()) == items + (cached or 0)


def test_cells_have_all_items_however_they_are_gathered() -> None:
    heat, _ = counted("rollback.pcap")
    total = int(heat.counts.sum())
    for together in (1, 3, 7, heat.used, 5 * heat.used):
        assert heat.cells([(0, len(heat.counts) - 1)], together).sum() == total
        assert heat.cells([(7, 7), (8, 9)], together).sum() == heat.counts[7:10].sum()
    assert Heat().cells([(0, 3)], 1).shape == (1, 0)
