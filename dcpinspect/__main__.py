"""The program itself, as ``dcpinspect`` and as ``python -m dcpinspect``: Ctrl-C ends it quietly from its first moment on.

Imports little, because nothing answers Ctrl-C before ``main`` runs.
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

_WAIT = 0.01
"""Seconds after which an interrupt that met an import is tried again."""
_IMPORTS = "<frozen importlib._bootstrap>"
"""File name that the import system's own functions have."""
_HAS_TIMER = sys.platform != "win32"


def main() -> int:
    """Run the command line and return the exit status: 130 when interrupted."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # started in the background: to be ignored
        return _command()
    signal.signal(signal.SIGINT, _interrupt)
    if _HAS_TIMER:
        signal.signal(signal.SIGALRM, _interrupt)
    try:
        return _command()
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:  # while the interpreter shuts down, a traceback would tell nobody anything
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if _HAS_TIMER:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)


def _command() -> int:
    from dcpinspect.cli.main import main  # deferred: an interrupt while this loads is answered above

    return main()


def _interrupt(_: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, but not within an import: an extension module whose start is interrupted crashes, or goes on regardless."""
    while frame is not None and _HAS_TIMER:
        if frame.f_code.co_filename == _IMPORTS:
            signal.setitimer(signal.ITIMER_REAL, _WAIT)
            return
        frame = frame.f_back
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
