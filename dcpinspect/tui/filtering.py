"""Finds in the background which messages a filter lets through, also of those that come."""

from __future__ import annotations

from contextlib import ExitStack
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from dcpinspect.tables.filter import Filter, both
from dcpinspect.tables.filter_rows import FilterRows
from dcpinspect.text import counted
from dcpinspect.tui.filter_bar import FilterBar
from dcpinspect.tui.packet_list import PacketList
from dcpinspect.tui.row_index import RowIndex, Rows
from dcpinspect.tui.task import Task

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
        self._task = Task(host)
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
        self._task.stop()
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
        """Restricts the list to messages that ``only``, if not None, and the typed filter let through."""
        if only != self._only:
            self._only = only
            self._before = self.text, self._typed, self._filter, self._index
            self.set(self.text, self._typed)
            if self._filter is not None:
                self._list.show(self._index)  # the shown rows belong to the restriction before

    def stop(self) -> bool:
        """Ends a search, and restores the filter of the shown rows. Returns whether one ran."""
        if self._index is self._list.index:
            return False
        self.text, self._typed, self._filter, self._index = self._before
        self._task.stop()
        self._bar.reset(self.text)
        self._bar.show_status("stopped: the rows are as before")
        return True

    def catch_up(self) -> None:
        """Adds the messages since the last call, and removes those that the store dropped."""
        first = self._host.inspection.store.first_row
        self._list.forget_before(first)
        self._index.drop(first)
        if self._filter is None:
            self._grow()
            self._list.grown()
        elif not self._task.is_running:
            self._scan(self._filter)

    def _grow(self) -> None:
        store = self._host.inspection.store
        self._index.grow(store.first_row, store.rows)

    def _scan(self, filter_: FilterRows) -> None:
        store, scanned = self._host.inspection.store, self._index.scanned
        until = store.rows  # later messages are left for the next search
        self._task.begin(
            lambda goes_on: store.matching(filter_, after=scanned, goes_on=goes_on),
            lambda rows: self._scanned(
                filter_, rows[: int(np.searchsorted(rows, until, "right"))], until
            ),
            say=self._goes_on,
            failed=self._failed,
        )

    def _goes_on(self, words: str) -> None:
        if self._index is not self._list.index:
            self._bar.show_status(f"… {words}")

    def _failed(self, why: str) -> None:
        self.release()
        self._host.show_status(why)

    def _scanned(self, filter_: FilterRows, rows: Rows, until: int) -> None:
        self._index.append(rows, until)
        if self._index is self._list.index:
            self._list.grown()
        else:
            self._list.show(self._index)
        row_count = len(self._index)
        self._bar.show_status(
            f"✔ {counted(row_count, 'row')}" if row_count else self._list.why_empty
        )
        if until < self._host.inspection.store.rows:
            self._scan(filter_)
