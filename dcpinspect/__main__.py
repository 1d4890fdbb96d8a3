"""The program itself, as ``dcpinspect`` and as ``python -m dcpinspect``: Ctrl-C ends it quietly as soon as ``run`` is called.

What comes before is not ours: the start of the interpreter, and what the script that pip made imports, some 20 ms together.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

TYPE_CHECKING = False  # as in the package
if TYPE_CHECKING:
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


class WithoutPandas:
    """Finds no pandas. Arrow would load it where there is one, only to ask whether what it is handed comes from there: 0.2 s.

    We hand it nothing of the kind. Spark does.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """As the import system asks. Raises ModuleNotFoundError."""
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError("pandas is for pipelines", name=name)


def run() -> NoReturn:
    """Be the program: ``main`` in a process of its own, which starts and ends as fast as it can."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # until main has loaded what can do better
    # NumPy's linear algebra, which we have no use for, would start a thread a processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # By default the collector looks 200 times at the modules that are being imported, and finds nothing. It still has to come:
    # 10,000 objects are few beside a batch.
    gc.set_threshold(10_000, 20, 20)
    if sys.argv[1:2] != ["pipeline"]:
        sys.meta_path.insert(0, WithoutPandas())
    status = main()
    if (storage := sys.modules.get("pyarrow.fs")) is not None and hasattr(storage, "ensure_s3_finalized"):
        atexit.unregister(storage.ensure_s3_finalized)  # it waits for requests that nobody waits for any more
    atexit._run_exitfuncs()
    from contextlib import suppress  # deferred: loaded by now

    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, AttributeError):  # what main could not write it has told; None: closed before the start
            stream.flush()
    os._exit(status)  # without taking every module apart, which takes 15 ms


if __name__ == "__main__":
    run()
