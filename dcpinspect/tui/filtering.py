"""Finds in the background which messages a filter lets through: first among all messages, then
among each new one.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial, reduce
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.errors import DcpInspectError
from dcpinspect.tables.filter import Filter, both
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.tui.filter_bar import FilterBar
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.progress_text import Progress
from dcpinspect.tui.row_index import RowIndex, Rows

if TYPE_CHECKING:
    from dcpinspect.tui.navigation import Navigation

HELD = 0.05
"""Seconds for which the screen stays unchanged while rows are searched."""


class Filtering:
    """The filter of a list. The list keeps its old rows until the new ones are known."""

    def __init__(self, rows: PacketList, bar: FilterBar, host: Navigation) -> None:
        self._list = rows
        self._bar = bar
        self._host = host
        self._only: Filter | None = None
        self._typed: Filter | None = None
        self._filter: FilterRows | None = None
        self._index = rows.index
        self._scanning: FilterRows | None = None
        self.text = ""
        """The filter as it was typed; empty for none."""
        self._before: tuple[str, Filter | None, FilterRows | None, RowIndex] = (
            "",
            None,
            None,
            rows.index,
        )
        """Filter and rows that are shown while other rows are searched."""
        self._held = ExitStack()

    def set(self, text: str, filter_: Filter | None) -> None:
        """Sets another filter; None for none."""
        if self._index is self._list.index:
            self._before = self.text, self._typed, self._filter, self._index
        self.text, self._typed = text, filter_
        filters = [part_filter for part_filter in (self._only, filter_) if part_filter is not None]
        self._filter = FilterRows(reduce(both, filters)) if filters else None
        self._index = RowIndex(is_filtered=self._filter is not None)
        if self._filter is None:
            self._grow()
            self._list.show(self._index)
            self._bar.show_status("")
        else:
            self._hold()
            self._scan(self._filter)

    def _hold(self) -> None:
        """Delays drawing, so that a filter and its rows are drawn together: drawing twice takes
        processor time from the search.
        """
        self._held.close()
        self._held.enter_context(self._list.app.batch_update())
        self._list.set_timer(HELD, self._look_on)

    def release(self) -> None:
        """Draws the delayed changes."""
        self._held.close()
        self._list.screen.check_idle()

    def _look_on(self) -> None:
        """Ends the delay, and shows a sign if the search is still running."""
        self.release()
        if self._index is not self._list.index:
            self._bar.show_status("…")

    def narrow(self, only: Filter | None) -> None:
        """Restricts the list to messages that ``only`` lets through, besides the typed filter;
        None: no restriction.
        """
        if only != self._only:
            self._only = only
            self._before = self.text, self._typed, self._filter, self._index
            self.set(self.text, self._typed)
            if self._filter is not None:
                self._list.show(self._index)  # the shown rows belong to the restriction before

    def stop(self) -> bool:
        """Ends a running search and restores the filter of the shown rows. Returns whether a search
        was running.
        """
        if self._index is self._list.index:
            return False
        self.text, self._typed, self._filter, self._index = self._before
        self._scanning = None
        self._bar.reset(self.text)
        self._bar.show_status("stopped: the rows are as before")
        return True

    def catch_up(self) -> None:
        """Adds the messages that came since the last call, and removes those that the store
        dropped.
        """
        first = self._host.inspection.store.first_row
        self._list.forget_before(first)
        self._index.drop(first)
        if self._filter is None:
            self._grow()
            self._list.grown()
        elif self._scanning is not self._filter:
            self._scan(self._filter)

    def _grow(self) -> None:
        store = self._host.inspection.store
        self._index.grow(store.first_row, store.rows)

    def _scan(self, filter_: FilterRows) -> None:
        self._scanning = filter_
        self._list.run_worker(
            partial(self._scan_behind, filter_, self._index.scanned), thread=True, group="filter"
        )

    def _scan_behind(self, filter_: FilterRows, scanned: int) -> None:
        """Searches the rows in a thread. Messages that come meanwhile are left for the next
        search.
        """
        store, progress = self._host.inspection.store, Progress()
        until = store.rows

        def goes_on(share: float) -> bool:
            if progress.is_due:
                self._host.from_thread(self._goes_on, filter_, progress.words(share))
            return filter_ is self._filter

        try:
            rows = store.matching(filter_, after=scanned, goes_on=goes_on)
        except InterruptedError:
            return
        except DcpInspectError as error:
            self._host.from_thread(self._failed, filter_, str(error))
        else:
            self._host.from_thread(
                self._scanned, filter_, rows[: int(np.searchsorted(rows, until, "right"))], until
            )

    def _goes_on(self, filter_: FilterRows, words: str) -> None:
        if filter_ is self._filter and self._index is not self._list.index:
            self._bar.show_status(f"… {words}")

    def _failed(self, filter_: FilterRows, why: str) -> None:
        if filter_ is self._filter:
            self.release()
            self._scanning = None
            self._host.show_status(why)

    def _scanned(self, filter_: FilterRows, rows: Rows, until: int) -> None:
        if filter_ is not self._filter:
            return
        self._scanning = None
        self._index.append(rows, until)
        if self._index is self._list.index:
            self._list.grown()
        else:
            self._list.show(self._index)
            if not self._list.row and len(self._index):
                self._list.move_to(0)
        rows_text = f"✔ {len(self._index):,} rows" if len(self._index) else self._list.why_empty
        self._bar.show_status(rows_text)
        if until < self._host.inspection.store.rows:
            self._scan(filter_)
