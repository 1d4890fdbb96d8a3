"""What findings cost, in plain words that make the first line of a report: ``3 vbuckets lost
data``.

A rule of errors or warnings names its cost where it is declared, and so do a few rules of notes.
Here are the words, and the costs that several rules share.
"""

from __future__ import annotations

from typing import Literal

from dcpinspect.lazy_dataclass import dataclass

Counted = Literal["vbucket", "client", "connection"]


@dataclass(frozen=True, slots=True)
class Cost:
    """What a finding means for those that it happened to."""

    of: Counted
    """What is counted."""
    one: str
    """The words for one of them: ``loops``."""
    many: str
    """The words for several: ``loop``."""
    lasts: bool = False
    """Whether it goes on until somebody acts, so that the report says since when."""
    is_usual: bool = False
    """Whether it also happens where nothing is wrong, so that a note names it, too."""
    is_loss: bool = False
    """Whether data was lost, or may have been."""

    @property
    def rank(self) -> int:
        """The place among costs of one severity: what lost data, what does not go on, all others,
        refusals.
        """
        if self.is_loss:
            return 0
        return 1 if self.lasts else 3 if self == REFUSED else 2


LOST = Cost("vbucket", "lost data", "lost data", is_loss=True)
REFUSED = Cost("vbucket", "was refused", "were refused", is_usual=True)
WRONG_DATA = Cost(
    "vbucket", "has messages that break the protocol", "have messages that break the protocol"
)
BROKEN_MESSAGES = Cost("connection", "has broken messages", "have broken messages")
WRONG_DOCUMENTS = Cost(
    "vbucket",
    "has documents with a wrong datatype or xattrs",
    "have documents with a wrong datatype or xattrs",
)
STUCK = Cost("vbucket", "receives nothing", "receive nothing", lasts=True)
BACK = Cost("vbucket", "was rolled back", "were rolled back", is_usual=True)
STALLED = Cost("connection", "has stalled", "have stalled", lasts=True)
UNASKED = Cost(
    "connection",
    "has messages that do not fit its settings",
    "have messages that do not fit their settings",
)
UNMATCHED = Cost(
    "connection", "has answers that nobody asked for", "have answers that nobody asked for"
)
