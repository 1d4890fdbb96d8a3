"""The program itself, as ``dcpinspect`` and as ``python -m dcpinspect``: Ctrl-C waits until ``run``
can answer it.

What happens before is not ours: the start of the interpreter, and the imports of the script that
pip made, some 20 ms together. Python answers Ctrl-C there with a traceback.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT, pthread_sigmask  # type: ignore[import-not-found] # in C; signal itself loads more

_BEFORE = pthread_sigmask(SIG_BLOCK, {SIGINT})

from dcpinspect.cli import interrupts  # noqa: E402 - a signal waits for it

TYPE_CHECKING = False  # as in the package
if TYPE_CHECKING:
    from typing import NoReturn


ROOM = {
    "numpy": 96 << 20,
    "pyarrow.lib": 240 << 20,
    "pyarrow._compute": 32 << 20,
    "_duckdb": 320 << 20,
}
"""Bytes of address space that libraries take while they are loaded and start their threads, and
some more. Where these get no memory they end the process, NumPy's with status 1, which ``check``
has for findings.
"""


class ImportWatcher:
    """Looks at what is imported.

    Arrow would load pandas where it is installed, only to ask whether its input comes from there:
    0.2 s. We give Arrow no such input. Spark does.
    """

    def __init__(self, *, hides_pandas: bool) -> None:
        self._hides_pandas = hides_pandas

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Raises ModuleNotFoundError for pandas, and MemoryError for a library that has no room;
        the import system calls this.
        """
        del path, target
        if name == "pandas" and self._hides_pandas:
            raise ModuleNotFoundError("pandas is for pipelines", name=name)
        if name in ROOM:
            import mmap

            try:
                mmap.mmap(-1, ROOM[name]).close()
            except OSError as error:
                raise MemoryError(f"block of {ROOM[name] >> 20} MiB") from error


def open_standard_input() -> None:
    """Makes standard input empty if who started the program had closed it, as some schedulers do.

    Else the next file that is opened would be number 0, and read as standard input.
    """
    try:
        os.fstat(0)
    except OSError:
        os.open(os.devnull, os.O_RDONLY)


def run() -> NoReturn:
    """Runs the command line in a process of its own, which starts and ends as fast as it can."""
    if sys.flags.optimize > 1:
        sys.stderr.write(
            "dcpinspect: docstrings declare the options, and python -OO (PYTHONOPTIMIZE=2) leaves "
            "them out; use -O (PYTHONOPTIMIZE=1), or neither\n"
        )
        sys.exit(2)
    open_standard_input()
    interrupts.install()  # before anything else is loaded
    if sys.stderr is not None:  # which the terminal UI draws on; None: closed before the start
        sys.stderr.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # a file is
    pthread_sigmask(SIG_SETMASK, _BEFORE)
    # NumPy's linear algebra, which we have no use for, would start a thread a processor.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # By default the collector looks 200 times at the modules that are being imported, 90,000
    # objects, and finds nothing. It still has to come: so many objects are few beside a batch.
    gc.set_threshold(100_000, 20, 20)
    is_pipeline = sys.argv[1:2] == ["pipeline"]
    sys.meta_path.insert(0, ImportWatcher(hides_pandas=not is_pipeline))
    if not is_pipeline:
        # NumPy would write docstrings of its functions that are in C, for as long as thirty of our
        # modules take.
        for name in ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"):
            sys.modules[name] = type(sys)(name)
    from dcpinspect.cli.main import main

    status = main()
    interrupts.ignore()
    if (storage := sys.modules.get("pyarrow.fs")) is not None and hasattr(
        storage, "ensure_s3_finalized"
    ):
        # it waits for requests that nobody waits for any more
        atexit.unregister(storage.ensure_s3_finalized)
    atexit._run_exitfuncs()
    from contextlib import suppress  # deferred: loaded by now

    for stream in (sys.stdout, sys.stderr):
        # main has told what it could not write; None: closed before the start
        with suppress(OSError, AttributeError):
            stream.flush()
    os._exit(status)  # without taking every module apart, which takes 15 ms


if __name__ == "__main__":
    run()
