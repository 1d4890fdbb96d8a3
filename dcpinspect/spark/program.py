"""Which code this process runs: parts of an output fit together only if the same code wrote them,
and so do the processes of a run.
"""

from __future__ import annotations

import hashlib
import importlib.resources
from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources.abc import Traversable

import dcpinspect

_APART = ("agents", "cli", "output", "scapy_layer", "spark", "tui")
"""Packages that no part depends on."""


@cache
def program() -> str:
    """Returns the version of the code that makes parts and puts them together: parts of different
    versions do not fit together.
    """
    return f"{dcpinspect.__version__} {_digest(_APART)}"


@cache
def build() -> str:
    """Returns the version of all code: the driver and its tasks must have the same."""
    return f"{dcpinspect.__version__} {_digest(())}"


def _digest(apart: Collection[str]) -> str:
    digest = hashlib.blake2b(digest_size=6)
    for _, module in sorted(
        _modules(importlib.resources.files(dcpinspect), (), apart), key=lambda one: one[0]
    ):
        digest.update(module.read_bytes())
    return digest.hexdigest()


def _modules(
    folder: Traversable, names: tuple[str, ...], apart: Collection[str]
) -> Iterator[tuple[tuple[str, ...], Traversable]]:
    """Yields each module, with the names of its folders and its own. The package may be in an
    archive.

    ``apart``: packages that are left out.
    """
    for entry in folder.iterdir():
        if entry.is_dir() and (names or entry.name not in apart):
            yield from _modules(entry, (*names, entry.name), apart)
        elif entry.name.endswith(".py"):
            yield (*names, entry.name), entry
