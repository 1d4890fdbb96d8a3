"""Sequential loops over columns: interpreted while small, compiled by numba once large.

A kernel is a plain function over NumPy arrays and integers. Small inputs run it as Python, with every array seen through a
``memoryview`` (an element costs 25 ns that way, 100 ns through NumPy). From ``COMPILE_FROM`` items of
work in one process on, it is compiled, and stays so.

What a kernel may use, so that both forms give equal numbers: integer arithmetic that fits int64 (u64 values only through ``np.uint64``
constants and ``be64``), element access with indices it has checked itself, slices of one-dimensional arrays, and functions
marked ``@inline``. Nothing checks bounds in the compiled form.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

COMPILE_FROM = 80_000
"""Items (packets, messages) a kernel works through before compiling pays: all kernels together take 8 us an item interpreted, and
loading numba and what it compiled takes 0.7 s."""
COMPILE_FROM_THEN = 4_000
"""The same once numba is there for another kernel: loading one more takes 0.03 s."""

_lock = threading.RLock()
_inlines: list[tuple[Callable[..., Any], Callable[..., Any] | None]] = []
_state = {"inlines": 0, "told": 0, "warned": 0, "numba": 1, "loaded": 0}


class Kernel(Generic[P, R]):
    """One function in two forms; ``kernel(size, *args)`` picks the form by the work done so far."""

    def __init__(self, function: Callable[P, R], signature: str, compile_from: int | None) -> None:
        self.function = function
        self.signature = signature
        self._compile_from = compile_from
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self._done = 0
        self._compiled: Callable[..., R] | None = None

    def __call__(self, size: int, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs on ``args``; ``size`` is how many packets or messages they hold."""
        compiled = self._compiled
        if compiled is None:
            self._done += size
            if _mode() == "interpreted" or (not self._is_worth_it() and _mode() != "compiled"):
                return self.interpreted(*args, **kwargs)
            compiled = self._compile()
            if compiled is None:
                return self.interpreted(*args, **kwargs)
        return compiled(*args, **kwargs)

    def runs_compiled(self, size: int) -> bool:
        """Whether a call with so much more work would run compiled: for callers that have another way to do little work."""
        if self._compiled is not None or _mode() != "auto":
            return self._compiled is not None or _mode() == "compiled"
        self._done += size
        return self._is_worth_it() and self._compile() is not None

    def _is_worth_it(self) -> bool:
        if self._compile_from is not None:
            return self._done >= self._compile_from
        return self._done >= (COMPILE_FROM_THEN if _state["loaded"] else COMPILE_FROM)

    def interpreted(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the Python form."""
        views: list[Any] = [arg.data if isinstance(arg, np.ndarray) else arg for arg in args]
        return self.function(*views, **kwargs)

    def compiled(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs the compiled form; raises ``RuntimeError`` where numba is not installed."""
        compiled = self._compiled or self._compile()
        if compiled is None:
            msg = "numba is not installed"
            raise RuntimeError(msg)
        return compiled(*args, **kwargs)

    def _compile(self) -> Callable[..., R] | None:
        with _lock:
            if self._compiled is None and _state["numba"]:
                try:
                    self._compiled = _compiled_form(self)
                except ImportError:
                    _state["numba"] = 0  # the interpreted form gives the same result, slower
            return self._compiled


def kernel(signature: str, *, compile_from: int | None = None) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Makes a function a kernel. ``signature`` is numba's, e.g. ``int64(octets, int64[::1], int64)``.

    ``octets`` stands for a one-dimensional uint8 array that is only read (bytes of the capture may be read-only). ``compile_from``
    replaces ``COMPILE_FROM`` for a kernel whose interpreted form costs much more, or much less.
    """

    def decorate(function: Callable[P, R]) -> Kernel[P, R]:
        return Kernel(function, signature, compile_from)

    return decorate


def inline(function: F) -> F:
    """Lets kernels call ``function``, which stays an ordinary function for everyone else."""
    _inlines.append((function, None))
    return function


def _inline_as(compiled: Callable[..., Any]) -> Callable[[F], F]:
    """As ``inline``, for helpers whose fast form differs between Python and numba."""

    def decorate(function: F) -> F:
        _inlines.append((function, compiled))
        return function

    return decorate


@inline
def be16(data: Any, at: int) -> int:  # Any: array or memoryview, also below
    """Big-endian 16 bits of ``data`` at ``at``."""
    return int((data[at] << 8) | data[at + 1])


@inline
def be32(data: Any, at: int) -> int:
    """Big-endian 32 bits of ``data`` at ``at``."""
    return int((data[at] << 24) | (data[at + 1] << 16) | (data[at + 2] << 8) | data[at + 3])


@inline
def le32(data: Any, at: int) -> int:
    """Little-endian 32 bits of ``data`` at ``at``."""
    return int((data[at + 3] << 24) | (data[at + 2] << 16) | (data[at + 1] << 8) | data[at])


def _be64(data: Any, at: int) -> Any:
    value = np.uint64(0)
    for i in range(8):
        value = (value << np.uint64(8)) | np.uint64(data[at + i])
    return value


@_inline_as(_be64)
def be64(data: Any, at: int) -> Any:
    """Big-endian 64 bits of ``data`` at ``at``: an ``int`` when interpreted, ``np.uint64`` when compiled."""
    return int.from_bytes(data[at : at + 8], "big")


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


def _mode() -> str:
    return os.environ.get("DCPINSPECT_KERNELS", "auto")


def _compiled_form(kernel: Kernel[P, R]) -> Callable[..., R]:
    import numba  # deferred: 0.5 s, and small captures never need it
    from numba.core import types
    from numba.extending import overload, register_jitable

    for function, other in _inlines[_state["inlines"] :]:
        if other is None:
            register_jitable(function)
        else:
            overload(function, strict=False)(_always(other))
    _state["inlines"] = len(_inlines)
    names = {**types.__dict__, "octets": types.Array(types.uint8, 1, "C", readonly=True), "none": types.none}
    signature = eval(kernel.signature, {"__builtins__": {}}, names)  # noqa: S307 - a literal in our own source, in numba's notation
    folder = _cache_folder(numba.__version__)
    function = kernel.function
    if not _is_cached(folder, function) and not _state["told"]:
        _state["told"] = 1
        sys.stderr.write("dcpinspect: compiling for large captures, once for this version (up to 15 s)\n")
    jit = numba.njit(nogil=True, cache=False, error_model="numpy")(function)
    if folder is not None:
        config: Any = numba.config  # numba fills this module at run time
        before = config.CACHE_DIR
        try:
            config.CACHE_DIR = before or str(folder)
            jit.enable_caching()
        except (RuntimeError, OSError) as error:
            _warn_once(f"compiled code is not kept: {error}")
        finally:
            config.CACHE_DIR = before
    jit.compile(signature)
    _state["loaded"] = 1
    jit.disable_compile()
    compiled: Callable[..., R] = jit
    return compiled


def _always(function: Callable[..., Any]) -> Callable[..., Any]:
    """numba's ``overload`` wants a function that, given the types, returns the implementation."""
    return lambda *_: function


def _cache_folder(numba_version: str) -> Path | None:
    """The folder for compiled kernels, or ``None`` (with one warning) where nothing can be written.

    The name holds whatever changes the code that numba makes, the helpers of this file too, which numba's own check does not see.
    """
    if os.environ.get("NUMBA_CACHE_DIR"):
        return Path(os.environ["NUMBA_CACHE_DIR"])
    helpers = hashlib.sha256(b"".join((compiled or function).__code__.co_code for function, compiled in _inlines)).hexdigest()[:8]
    key = f"{_version()}-numba{numba_version}-py{platform.python_version()}-{helpers}"
    from platformdirs import user_cache_path

    folder = user_cache_path("dcpinspect") / "kernels" / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        _warn_once(
            f"compiled code is not kept: {folder}: {error.strerror}; set XDG_CACHE_HOME or NUMBA_CACHE_DIR to a folder that can be written"
        )
        return None
    return folder


def _version() -> str:
    try:
        return metadata.version("dcpinspect")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "0"


def _is_cached(folder: Path | None, function: Callable[..., Any]) -> bool:
    stem = f"{Path(function.__code__.co_filename).stem}.{function.__qualname__}-{function.__code__.co_firstlineno}."
    return folder is not None and next(folder.glob(f"*/{stem}*.nbi"), None) is not None


def _warn_once(text: str) -> None:
    if not _state["warned"]:
        _state["warned"] = 1
        sys.stderr.write(f"dcpinspect: {text}\n")


Octets = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
