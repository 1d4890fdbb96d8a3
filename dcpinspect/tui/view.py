"""What the views have in common, and what they ask of what is around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from textual.widget import Widget

from dcpinspect.tui.export import Choice
from dcpinspect.tui.inspection import Inspection
from dcpinspect.tui.jumps import Spot
from dcpinspect.tui.results import Results


class Host(Protocol):
    """What a view asks for: a word to the user, and the ways to other views."""

    inspection: Inspection
    beside: Inspection | None
    """Of another capture, whose timelines are drawn below."""
    marked_vbuckets: list[int]
    """Those that timelines are compared with."""

    def say(self, text: str) -> None:
        """A word in the line above the keys, until the next key."""

    def copy(self, text: str) -> None:
        """To the terminal's clipboard; nothing, if there is nothing."""

    def mark(self, row: int) -> None:
        """Marks a message, or not any more."""

    def mark_vbucket(self, vbucket: int) -> None:
        """Marks a vbucket, so that its timeline is drawn below that of any other, or not any more."""

    def note(self, row: int) -> None:
        """Lets the user write a note on a message."""

    def from_thread(self, what: Callable[..., Any], *arguments: Any) -> None:
        """Calls something of the application from a thread that works behind it."""

    def to_row(self, row: int, *fields: str) -> None:
        """To a message, and to the first of these fields that it has, whatever view is shown."""

    def to_time(self, time_ns: int) -> None:
        """To the first message at or after a time, nanoseconds since 1970."""

    def to_map(self, vbucket: int) -> None:
        """To a vbucket on the map of all."""

    def choose(self, connection: int | None) -> None:
        """Looks at one connection alone, or at all."""

    def to_bad_row(self, *, back: bool = False) -> None:
        """To the next message with an error or a warning."""

    def to_vbucket(
        self,
        vbucket: int,
        seqno: int | None = None,
        *,
        stream: tuple[int, int, int, int] | None = None,
        span: tuple[int, int] | None = None,
        row: int = 0,
    ) -> None:
        """To the timeline of a vbucket, and to a message, a seqno, a stream (as in ``Spot``) or a span of time of it.

        ``span``: nanoseconds since the capture began.
        """

    def to_finding(self, number: int, others: Sequence[int] = (), *, row: int = 0, vbucket: int | None = None) -> None:
        """To a finding, one of several of a message, and to this row of its evidence, or to the first of a vbucket."""

    def to_filter(self, condition: str) -> None:
        """To the messages for which this is true."""


class View(Widget):
    """One of the views. It does what ``keys`` names in methods ``action_…``; what it has none for, the application does."""

    DEFAULT_CSS = "View { width: 1fr; height: 1fr; layout: vertical; overflow: hidden hidden; }"

    host: Host
    """What the view asks for a way out of itself."""

    @property
    def keyboard(self) -> Widget:
        """What the keyboard goes to when the view is shown."""
        return self

    def take_up(self, results: Results) -> None:
        """More is known of the capture."""

    def arrive(self) -> None:
        """The view is shown."""

    def spot(self) -> Spot:
        """What brings this view back as it is."""
        return Spot(self.id or "", top=int(self.keyboard.scroll_offset.y))

    def stop(self) -> bool:
        """Ends what the view does behind what it shows; whether there was anything."""
        return False

    def leave(self) -> bool:
        """Out of something that is inside of the view, such as a filter of its own; whether there was anything to leave."""
        return False

    def restore(self, spot: Spot) -> None:
        """As it was."""
        self.keyboard.scroll_to(y=spot.top, animate=False, immediate=True)

    def legend(self) -> Sequence[str]:
        """What its glyphs mean, besides those of all views."""
        return ()

    def exports(self) -> Sequence[Choice]:
        """What it has to export besides messages that are shown, marked, or there."""
        return ()

    @property
    def vbucket_here(self) -> int | None:
        """The one under the cursor; None where there is none."""
        return None

    def action_finding(self) -> None:
        """The worst that was found of the vbucket under the cursor."""
        vbucket = self.vbucket_here
        for number, one in enumerate(self.host.inspection.results.findings):
            if vbucket in one.vbuckets:
                self.host.to_finding(number, vbucket=vbucket)
                return
        self.host.say("no finding here; n goes to the next error or warning")

    def action_bad(self, back: bool = False) -> None:
        """To the next error or warning of what the view shows: messages, where it does not say otherwise."""
        self.host.to_bad_row(back=back)
