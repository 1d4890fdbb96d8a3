"""Catalogues: one test tries all their entries, or the deep search tries the others.

As tests of their own, thousands of entries take longer to collect than to try.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(
    names: str | tuple[str, ...], values: Iterable[Any]
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """As ``pytest.mark.parametrize``, in one test without fixtures; what fails says of which
    entry.
    """
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


def first_of(values: Iterable[Any], first: int) -> list[Any]:
    """The first of many that differ by chance, or by size; the others are of the deep search."""
    return [
        value
        if place < first
        else pytest.param(
            *(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.deep
        )
        for place, value in enumerate(values)
    ]
