"""The base of all views, and the places that lead back to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widget import Widget

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tui import theme
from dcpinspect.tui.theme import Glyphs

if TYPE_CHECKING:
    from dcpinspect.tui.export_choices import Choice
    from dcpinspect.tui.line_view import LineView
    from dcpinspect.tui.navigation import Navigation


@dataclass(frozen=True, slots=True)
class Spot:
    """Everything that is needed to bring a view back as it was."""

    view: str
    row: int = 0
    """Row of the packet list; 0: none."""
    field: str = ""
    """Path of the field that was selected."""
    filter: str = ""
    top: int = 0
    """First line that was visible."""
    vbucket: int | None = None
    seqno: int | None = None
    since_ns: int | None = None
    """Time on a timeline along time or on the heat map, in nanoseconds since the capture began."""
    finding: int | None = None
    connection: int | None = None
    """Number of the connection that is shown alone."""


class View(Widget):
    """One of the views. Its methods ``action_…`` do what ``keys`` names; for actions that it lacks,
    the application's methods are used.
    """

    DEFAULT_CSS = "View { width: 1fr; height: 1fr; layout: vertical; overflow: hidden hidden; }"

    def __init__(self, host: Navigation, name: str, *parts: Widget) -> None:
        """Makes the view of its parts. ``host``: the holder of the views, which leads to others."""
        super().__init__(*parts, id=name)
        self.host = host

    @property
    def _glyphs(self) -> Glyphs:
        return theme.glyphs_of(self.app)

    @property
    def keyboard(self) -> Widget:
        """The widget that gets the focus when the view is shown."""
        return self

    def take_up(self) -> None:
        """Takes up new results: shows them if the view is shown, so that following a capture costs
        nothing here while it is hidden.
        """
        if self.display:
            self.arrive()

    def arrive(self) -> None:
        """Updates the view when it is shown."""

    def fit(self) -> None:
        """Fits the parts to the size of now, in the colours of now."""
        self.arrive()

    def on_resize(self) -> None:
        """Fits the parts to the new size, once they have it."""
        self.call_after_refresh(self.fit)

    def notify_style_update(self) -> None:
        """Redraws in the colours of another theme."""
        super().notify_style_update()
        if self.is_mounted and self.display:
            self.fit()

    def spot(self) -> Spot:
        """Returns what is needed to bring this view back as it is."""
        return Spot(self.id or "", top=int(self.keyboard.scroll_offset.y))

    def stop(self) -> bool:
        """Stops what the view does in the background. Returns whether there was anything."""
        return False

    def leave(self) -> bool:
        """Leaves a state inside the view, such as a filter. Returns whether there was any."""
        return False

    def restore(self, spot: Spot) -> None:
        """Restores what ``spot`` has saved."""
        self.keyboard.scroll_to(y=spot.top, animate=False, immediate=True)

    def legend(self) -> Sequence[str]:
        """Returns what the glyphs of this view mean, besides those of all views."""
        return ()

    def exports(self) -> Sequence[Choice]:
        """Returns what the view can export, besides messages that are shown or marked, or all: by
        default, the messages of the vbucket under the cursor.
        """
        from dcpinspect.tui.export_choices import of_vbucket  # deferred: until somebody exports

        inspection, number = self.host.inspection, self.vbucket_here
        if number is None or number not in inspection.results.vbuckets:
            return ()
        return (of_vbucket(inspection, number),)

    @property
    def vbucket_here(self) -> int | None:
        """Number of the vbucket under the cursor; None if there is none."""
        return None

    @property
    def row_here(self) -> int:
        """Row of the message under the cursor; 0 if there is none."""
        return 0

    def action_vbucket(self) -> None:
        """Goes to the timeline of the vbucket under the cursor, at the message under it."""
        vbucket = self.vbucket_here
        if vbucket is None:
            no_vbucket = self.host.inspection.results.no_vbucket
            self.host.show_status(no_vbucket or "this is not about a vbucket")
        else:
            self.host.to_vbucket(vbucket, row=self.row_here)

    def action_by_this(self) -> None:
        """Shows the messages of the vbucket under the cursor."""
        if self.vbucket_here is None:
            self.host.show_status("this is not about a vbucket")
        else:
            condition = f"vbucket = {self.vbucket_here}"
            self.host.action_view("packets", lambda: self.host.packets.bar.apply(condition))

    def action_mark(self) -> None:
        """Marks the message under the cursor, or removes its mark."""
        if self.row_here:
            self.host.mark(self.row_here)

    def action_finding(self) -> None:
        """Goes to the worst finding about the vbucket under the cursor."""
        vbucket = self.vbucket_here
        numbers = [] if vbucket is None else self.host.inspection.results.findings_of(vbucket)
        if numbers:
            self.host.to_finding(numbers[0], vbucket=vbucket)
        else:
            self.host.show_status("no finding here; n goes to the next error or warning")

    def to_next(
        self,
        shown: LineView,
        what: str = "error or warning",
        is_wanted: Callable[[int], bool] | None = None,
        *,
        back: bool,
    ) -> bool:
        """Moves a cursor to the next place of a kind, by default to an error or a warning, or to the
        one before. Says so where there is none. Returns whether there is one.
        """
        is_wanted = is_wanted or shown.is_bad
        line = shown.next_place(is_wanted, back=back)
        if line is not None:
            shown.set_cursor(line)
        else:
            is_behind = shown.next_place(is_wanted, back=not back) is not None
            is_here = bool(shown.count) and is_wanted(shown.at)
            self.tell_none(what, is_behind=is_behind, is_here=is_here, back=back)
        return line is not None

    def tell_none(self, what: str, *, is_behind: bool, is_here: bool, back: bool) -> None:
        """Says that no place of a kind is ahead, and whether one is behind or under the cursor."""
        ahead, behind = ("before", "after") if back else ("after", "before")
        self.host.show_status(
            f"no {what} {ahead} here; there are some {behind}"
            if is_behind
            else f"no {'other ' * is_here}{what}"
        )

    def action_bad(self, back: bool = False) -> None:
        """Moves to the next error or warning of what the view shows; by default, to the next such
        message. ``back``: to the one before.
        """
        self.host.to_bad_row(back=back)
