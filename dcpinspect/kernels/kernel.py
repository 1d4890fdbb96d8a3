"""Sequential loops over columns, and the functions that they are written with.

A kernel is a plain function over NumPy arrays, ``Tables`` and integers. It runs as machine code
where the package has brought some (``library``). Elsewhere it runs as Python, many times slower,
with every array seen through a ``memoryview`` (an element costs 25 ns that way, 100 ns through
NumPy).

A kernel may only use what gives equal numbers in both forms. That is integer arithmetic that fits
int64 (u64 values only through ``np.uint64`` constants), and element access with
indices it has checked itself. Slices of one-dimensional arrays and functions marked
``@kernel_function`` are also allowed. Nothing checks bounds in the compiled form.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from dcpinspect.kernels.library import Code, library

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

IS_INTERPRETED = os.environ.get("DCPINSPECT_KERNELS") == "interpreted"
"""Whether kernels run as Python although there is machine code: to compare the two."""
HELPERS: dict[Callable[..., Any], Callable[..., Any] | None] = {}
"""The functions that kernels may call, each with the function that replaces it when compiled, or
None.

A function that replaces itself is compiled in place of each call.
"""


class Kernel(Generic[P, R]):
    """One function in two forms."""

    def __init__(self, function: Callable[P, R], signature: str) -> None:
        self.function = function
        self.signature = signature
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the compiled form if there is one, else the Python form."""
        if IS_INTERPRETED or (code := self.code) is None:
            return self.interpreted(*args, **kwargs)
        return code(*args, **kwargs)  # type: ignore[no-any-return] # it returns what the signature says

    @property
    def is_compiled(self) -> bool:
        """Whether calls run as machine code: for callers with a way faster than the Python form."""
        return not IS_INTERPRETED and self.code is not None

    def interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the Python form."""
        return self.function(*map(_view, args), **kwargs)

    def compiled(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the compiled form; raises ``RuntimeError`` where there is none."""
        if self.code is None:
            raise RuntimeError(f"there is no machine code of {self.__name__}")
        return self.code(*args, **kwargs)  # type: ignore[no-any-return] # as above

    @cached_property
    def code(self) -> Code | None:
        """The compiled form, or None where there is none."""
        compiled = library()
        return None if compiled is None else compiled.code(self.function, self.signature)


def _view(arg: Any) -> Any:
    """Returns an argument in the form whose elements cost least for the Python form."""
    if isinstance(arg, np.ndarray):
        return arg.data
    return arg.views() if hasattr(arg, "views") else arg


def kernel(signature: str) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Makes a function a kernel of a signature as ``library.parse_signature`` takes it, e.g.
    ``int64(octets, int64[::1], int64)``.
    """

    def decorate(function: Callable[P, R]) -> Kernel[P, R]:
        return Kernel(function, signature)

    return decorate


def kernel_function(function: F) -> F:
    """Lets kernels call ``function``, which stays an ordinary function for everyone else."""
    HELPERS[function] = None
    return function


def inlined(function: F) -> F:
    """Lets kernels call ``function``, a part that most of their items go through: machine code has
    it in place of each call.
    """
    HELPERS[function] = function  # measured: calls doubled the time of putting segments in order
    return function


def _inline_as(compiled: Callable[..., Any]) -> Callable[[F], F]:
    """Lets kernels call a helper, as ``kernel_function`` does, whose fast form is another."""

    def decorate(function: F) -> F:
        HELPERS[function] = compiled
        return function

    return decorate


@kernel_function
def be16(data: Any, at: int) -> int:  # Any: array or memoryview, also below
    """Returns the big-endian 16 bits of ``data`` at ``at``."""
    return int((data[at] << 8) | data[at + 1])


@kernel_function
def be32(data: Any, at: int) -> int:
    """Returns the big-endian 32 bits of ``data`` at ``at``."""
    return int((data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3])


@kernel_function
def le32(data: Any, at: int) -> int:
    """Returns the little-endian 32 bits of ``data`` at ``at``."""
    return int((data[at + 3] << 24) | (data[at + 2] << 16) | (data[at + 1] << 8) | data[at])


def _octet(data: Any, at: int) -> Any:
    # Measured: an index that may be negative is compared with 0 each time, which made a scan of
    # text a tenth slower.
    return np.int64(data[np.uint64(at)])


@_inline_as(_octet)
def octet(data: Any, at: int) -> int:
    """Returns the byte of ``data`` at ``at``, which is not negative, as a signed number.

    From signed and unsigned numbers together, machine code makes fractions.
    """
    return int(data[at])


def _put(data: Any, at: int, value: int) -> None:
    data[np.uint64(at)] = value


@_inline_as(_put)
def put(data: Any, at: int, value: int) -> None:
    """Sets the byte of ``data`` at ``at``, which is not negative; see ``octet``."""
    data[at] = value


def _copy(target: Any, at: int, source: Any, start: int, size: int) -> None:
    # Measured: with indices that cannot be negative this becomes a memcpy (0.1 us for 1,448 bytes);
    # written as target[at + i] it stays a loop over bytes (1.9 us), and an assignment of slices
    # costs 0.5 us.
    target_bytes, source_bytes = target[at : at + size], source[start : start + size]
    for i in range(size):
        target_bytes[i] = source_bytes[i]


@_inline_as(_copy)
def copy(target: Any, at: int, source: Any, start: int, size: int) -> None:
    """Copies ``size`` elements; the arrays must not overlap."""
    target[at : at + size] = source[start : start + size]
