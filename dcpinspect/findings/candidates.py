"""What rules over the columns of a batch hand to the collector."""

from __future__ import annotations

from collections.abc import Callable

from dcpinspect.findings.finding import MessagePlace
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.column_types import RowNumbers
from dcpinspect.protocol.message import Severity


@dataclass(frozen=True, slots=True)
class Candidates:
    """Messages of a batch that break a rule."""

    rule: str
    rows: RowNumbers
    words: Callable[[int], str] | str | None = None
    """What to say of all messages, or of one; None: what the division into fields says."""
    severity: Severity | None = None
    """None: the severity of the rule."""
    seqnos: Callable[[int], tuple[int, ...]] | None = None
    others: Callable[[int], tuple[MessagePlace, ...]] | None = None
    """Returns earlier messages that one of the messages contradicts."""
    shared: str | None = None
    """What several of the messages have in common; None: what their words have in common."""
    cause: str | None = None
    """The kind by which the rule's findings are told apart, if it has kinds."""
    vbuckets: Callable[[int], tuple[int, ...]] | None = None
    """Returns other vbuckets that one of the messages is about, too."""
    next: str | None = None
    """What to do; None: the rule's own text says it."""
