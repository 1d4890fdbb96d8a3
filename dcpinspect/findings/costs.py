"""What findings cost, in plain words that make the first line of a report: ``3 vbuckets lost
data``.

A rule of errors or warnings names its cost where it is declared, and so do a few rules of notes.
Here are the words, and the costs that several rules share.
"""

from __future__ import annotations

from typing import Literal, get_args

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import entries

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
        return 1 if self.lasts else 3 if self == SHARED["refused"] else 2


def cost(text: str) -> Cost:
    """Reads a cost: what is counted, the words for one and for several, and how it is."""
    counted, single, several, *how = text.split(", ")
    assert counted in get_args(Counted), counted
    words = "".join(how).split()
    return Cost(counted, single, several, "lasts" in words, "usual" in words, "loss" in words)  # type: ignore[arg-type] # the assertion shows it


SHARED = {
    name: cost(text)
    for name, text in entries(
        """
        lost: vbucket, lost data, lost data, loss
        refused: vbucket, was refused, were refused, usual
        wrong-data: vbucket, has messages that break the protocol, have messages that break the
            protocol
        broken-messages: connection, has broken messages, have broken messages
        wrong-documents: vbucket, has documents with a wrong datatype or xattrs, have documents with
            a wrong datatype or xattrs
        stuck: vbucket, receives nothing, receive nothing, lasts
        back: vbucket, was rolled back, were rolled back, usual
        stalled: connection, has stalled, have stalled, lasts usual
        unanswered: connection, lets noops wait, let noops wait
        unasked: connection, has messages that do not fit its settings, have messages that do not
            fit their settings
        unmatched: connection, has answers that nobody asked for, have answers that nobody asked for
        has-loss: connection, has capture loss, have capture loss, usual
        """
    )
}
"""Costs that several rules share, by name."""
