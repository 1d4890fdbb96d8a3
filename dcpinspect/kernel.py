"""Sequential loops over columns: interpreted while small, compiled by numba once large.

A kernel is a plain function over NumPy arrays and integers. Small inputs run it as Python, with every array seen through a ``memoryview``
(an element costs 25 ns that way, 100 ns through NumPy). From ``LOAD_FROM`` items of work in one process on it runs as machine code if the
package brought it or an earlier process made it. From ``COMPILE_FROM`` items on it is compiled. Once it runs as machine code, it stays so.

A kernel may only use what gives equal numbers in both forms. That is integer arithmetic that fits int64 (u64 values only through
``np.uint64`` constants and ``be64``), and element access with indices it has checked itself. Slices of one-dimensional arrays and functions
marked ``@inline`` are also allowed. Nothing checks bounds in the compiled form.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dcpinspect.machine_code import Source

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

LOAD_FROM = 10_000
"""Number of items (packets, messages) that a kernel works through before loading machine code pays. All kernels together take 8 us an item
interpreted, and loading llvmlite and the code takes 0.05 s."""
COMPILE_FROM = 80_000
"""Number of items from which on it pays to make the machine code first, which takes seconds, once."""
LOAD_FROM_THEN, COMPILE_FROM_THEN = 60, 4_000
"""The two numbers once another kernel has been loaded, or compiled: one more takes 0.5 ms, or a second."""

_lock = threading.RLock()
_helpers: dict[Callable[..., Any], Callable[..., Any] | None] = {}
_state = {"numba": 1, "loaded": 0, "compiled": 0}


class Kernel(Generic[P, R]):
    """One function in two forms; ``kernel(size, *args)`` picks the form by the work done so far."""

    def __init__(self, function: Callable[P, R], signature: str, cost: int) -> None:
        self.function = function
        self.signature = signature
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._cost = cost
        self._done = 0
        self._sought = False
        self._compiled: Callable[..., R] | None = None

    def __call__(self, size: int, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs on ``args``; ``size`` is how many packets or messages they hold."""
        compiled = self._compiled or self._compiled_for(size)
        return self.interpreted(*args, **kwargs) if compiled is None else compiled(*args, **kwargs)

    def runs_compiled(self, size: int) -> bool:
        """Returns whether a call with so much more work would run compiled: for callers that have another way to do little work."""
        return (self._compiled or self._compiled_for(size)) is not None

    def interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the Python form."""
        return self.function(*map(_view, args), **kwargs)

    def compiled(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the compiled form; raises ``RuntimeError`` where there is none and numba is not installed."""
        compiled = self._compiled or self._compile()
        if compiled is None:
            msg = "numba is not installed"
            raise RuntimeError(msg)
        return compiled(*args, **kwargs)

    def prepare(self) -> None:
        """Makes machine code available from the first call on, if possible: it is loaded, or made now."""
        if os.environ.get("DCPINSPECT_KERNELS", "auto") != "interpreted":
            self._compile()

    def _compiled_for(self, size: int) -> Callable[..., R] | None:
        mode = os.environ.get("DCPINSPECT_KERNELS", "auto")
        if mode == "interpreted":
            return None
        with _lock:
            self._done += size * self._cost
            if mode == "compiled" or self._done >= (COMPILE_FROM_THEN if _state["compiled"] else COMPILE_FROM):
                return self._compile()
            if self._done >= (LOAD_FROM_THEN if _state["loaded"] else LOAD_FROM):
                return self._load()
        return None

    def _load(self) -> Callable[..., R] | None:
        with _lock:
            if self._compiled is None and not self._sought:
                from dcpinspect import machine_code  # deferred: small captures need none

                self._sought = True
                self._compiled = machine_code.load(self.source())
                _state["loaded"] |= self._compiled is not None
            return self._compiled

    def _compile(self) -> Callable[..., R] | None:
        with _lock:
            if self._load() is None and _state["numba"]:
                from dcpinspect import compiling, machine_code

                try:
                    self._compiled = compiling.make(self.source())
                    _state["loaded"] = _state["compiled"] = 1
                except (ImportError, OSError) as error:
                    _state["numba"] = 0  # the interpreted form gives the same result, slower
                    if not isinstance(error, ModuleNotFoundError):
                        machine_code.tell_unloaded(error)
            return self._compiled

    def source(self) -> Source:
        """Returns what its machine code is made from, and found by."""
        from dcpinspect.machine_code import Source

        return Source(self.function, self.signature, _helpers)


def _view(arg: Any) -> Any:
    """Returns an argument in the form whose elements cost least for the Python form."""
    if isinstance(arg, np.ndarray):
        return arg.data
    return arg.views() if hasattr(arg, "views") else arg


def expect_much() -> None:
    """Tells that there will probably be much work: machine code that exists will be loaded when a kernel is first needed."""
    _state["loaded"] = 1


def make_no_machine_code() -> None:
    """Lets kernels run as machine code only if there is some already, for callers that cannot wait seconds meanwhile."""
    _state["numba"] = 0


def kernel(signature: str, *, cost: int = 1) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Makes a function a kernel of a signature as ``machine_code.parse_signature`` takes it, e.g. ``int64(octets, int64[::1], int64)``.

    ``cost`` says how many ordinary items one costs, if a kernel, or its replacement, is much slower interpreted.
    """

    def decorate(function: Callable[P, R]) -> Kernel[P, R]:
        return Kernel(function, signature, cost)

    return decorate


def inline(function: F) -> F:
    """Lets kernels call ``function``, which stays an ordinary function for everyone else."""
    _helpers[function] = None
    return function


def step(function: F) -> F:
    """Lets kernels call ``function``, a part that most of their items go through: machine code has it in place of each call."""
    _helpers[function] = function  # measured: calls doubled the time of putting segments in order
    return function


def _inline_as(compiled: Callable[..., Any]) -> Callable[[F], F]:
    """Lets kernels call a helper, as ``inline`` does, whose fast form differs between Python and numba."""

    def decorate(function: F) -> F:
        _helpers[function] = compiled
        return function

    return decorate


@inline
def be16(data: Any, at: int) -> int:  # Any: array or memoryview, also below
    """Returns the big-endian 16 bits of ``data`` at ``at``."""
    return int((data[at] << 8) | data[at + 1])


@inline
def be32(data: Any, at: int) -> int:
    """Returns the big-endian 32 bits of ``data`` at ``at``."""
    return int((data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3])


@inline
def le32(data: Any, at: int) -> int:
    """Returns the little-endian 32 bits of ``data`` at ``at``."""
    return int((data[at + 3] << 24) | (data[at + 2] << 16) | (data[at + 1] << 8) | data[at])


def _be64(data: Any, at: int) -> Any:
    value = np.uint64(0)
    for i in range(8):
        value = (value << np.uint64(8)) | np.uint64(data[at + i])
    return value


@_inline_as(_be64)
def be64(data: Any, at: int) -> Any:
    """Returns the big-endian 64 bits of ``data`` at ``at``: an ``int`` when interpreted, ``np.uint64`` when compiled."""
    return int.from_bytes(data[at : at + 8], "big")


def _octet(data: Any, at: int) -> Any:
    # Measured: an index that may be negative is compared with 0 each time, which made a scan of text a tenth slower.
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
    # Measured: with indices that cannot be negative this becomes a memcpy (0.1 us for 1,448 bytes); written as
    # target[at + i] it stays a loop over bytes (1.9 us), and an assignment of slices costs 0.5 us.
    to, of = target[at : at + size], source[start : start + size]
    for i in range(size):
        to[i] = of[i]


@_inline_as(_copy)
def copy(target: Any, at: int, source: Any, start: int, size: int) -> None:
    """Copies ``size`` elements; the arrays must not overlap."""
    target[at : at + size] = source[start : start + size]


Octets = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
