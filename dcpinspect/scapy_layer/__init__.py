"""DCP for users of Scapy: packets made from the table of layouts, and a session that reassembles
streams for ``sniff``.

``DCP`` is the header with its framing extras; above it stands a class for each layout of each
message::

    DCP(vbucket=5, opaque=0x11) / DcpMutation(by_seqno=17, key=b"k", value=b"{}")
    DCP() / DcpSnapshotMarker(end_seqno=9, snapshot_type="memory")
    sniff(offline="capture.pcapng", session=DCPSession)

Names follow the table: ``dcp_mutation`` is ``DcpMutation`` and its response
``DcpMutationResponse``; commands around DCP begin with ``Mcbp``, those that a server sends with
``McbpServer``, framing extras with ``DcpFrame``. A class of that name has the newest layout; called
with fields, or a ``generation``, that only another layout has, it makes that one.

Importing this imports Scapy, which nothing else here does before it needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dcpinspect.scapy_layer.frames import FRAMES, DcpFrame
from dcpinspect.scapy_layer.scapy_fields import RECORDS
from dcpinspect.scapy_layer.scapy_packets import (
    DCP,
    MESSAGES,
    PORT,
    HiddenBody,
    McbpError,
    MessageBody,
)
from dcpinspect.scapy_layer.scapy_session import DCPSession, Origin

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Stands for the classes that are made from the table, which type checkers cannot see."""


globals().update(MESSAGES)
globals().update(FRAMES)
globals().update(RECORDS)

__all__ = [
    "DCP",
    "MESSAGES",
    "PORT",
    "DCPSession",
    "DcpFrame",
    "HiddenBody",
    "McbpError",
    "MessageBody",
    "Origin",
    *MESSAGES,
    *FRAMES,
    *RECORDS,
]
