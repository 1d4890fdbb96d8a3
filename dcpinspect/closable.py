"""What has something open, until a ``with`` ends or it is closed by hand."""

from __future__ import annotations

from typing import Self


class Closable:
    """Its class says what ``close`` frees."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees what is open."""
        raise NotImplementedError
