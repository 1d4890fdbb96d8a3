"""The program itself, as ``dcpinspect`` and as ``python -m dcpinspect``: Ctrl-C ends it quietly from its first moment on."""

import atexit
import gc
import os
import sys
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return the exit status."""
    try:
        from dcpinspect.cli import interrupts  # deferred, and the rest behind it: loading takes most of the time that some commands do

        with interrupts.outside_imports():
            from dcpinspect.cli.main import main

            return main()
    except KeyboardInterrupt:
        return INTERRUPTED


def run() -> NoReturn:
    """Be the program: ``main`` in a process of its own, which starts and ends as fast as it can."""
    # NumPy's linear algebra, which we have no use for, would start a thread a processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # By default the collector looks 200 times at the modules that are being imported, and finds nothing. It still has to come:
    # 10,000 objects are few beside a batch.
    gc.set_threshold(10_000, 20, 20)
    status = main()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # what main could not write it has told; None: closed before the start
            stream.flush()
    os._exit(status)  # without taking every module apart, which takes 15 ms


if __name__ == "__main__":
    run()
