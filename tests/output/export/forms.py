"""Kernels of rows in both their forms, and the samples that they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dcpinspect.kernels.kernel import Kernel
from dcpinspect.reading.reading import Reading
from dcpinspect.tables.messages import MessageBatch
from tests.peers.truth import SAMPLES

CAPTURES = sorted(path for path in SAMPLES.glob("*.pcap*") if "large" not in path.name)

T = TypeVar("T")


def in_both_forms(make: Callable[[], T]) -> T:
    """What the kernels make, which is the same interpreted and compiled."""
    made = []
    for form in (Kernel.interpreted, Kernel.compiled):
        with only(form):
            made.append(make())
    assert made[0] == made[1]
    return made[1]


@contextmanager
def only(form: Callable[..., Any]) -> Iterator[None]:
    """All kernels run in one form, also where callers have another way than the interpreted one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "__call__", form)
        patch.setattr(Kernel, "is_compiled", True)
        yield


def batches(path: Path) -> list[MessageBatch]:
    """All messages of a capture."""
    with Reading([str(path)]) as reading:
        return list(reading)


@cache
def sample(path: Path) -> list[MessageBatch]:
    """The same of one of ``CAPTURES``, which many tests write."""
    return batches(path)
