"""Catalogues: one test tries all their entries. As tests of their own, thousands of entries take longer to collect than to try."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any


def each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """As ``pytest.mark.parametrize``, in one test without fixtures; what fails says of which entry."""
    entries = [value if isinstance(names, tuple) else (value,) for value in values]

    def decorated(test: Callable[..., None]) -> Callable[[], None]:
        @functools.wraps(test)
        def tried() -> None:
            assert entries
            for entry in entries:
                try:
                    test(*entry)
                except Exception as error:
                    error.add_note(f"{test.__name__}: {entry!r}")
                    raise

        tried.__signature__ = inspect.Signature()  # type: ignore[attr-defined]
        return tried

    return decorated
