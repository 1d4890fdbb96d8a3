"""Captures that tests read, by name: recordings of real servers, and what public reports describe.
README.md says what each is.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent
FIELD = FOLDER / "field"
REAL_SERVER = FOLDER / "real-server"


def field(name: str) -> Path:
    """The capture that reproduces a public report. Some are no captures at all."""
    return FIELD / f"{name}.pcap"


def real_server(name: str) -> Path:
    """The recording of a conversation with a real server."""
    return REAL_SERVER / f"{name}.pcap.gz"
