"""Java's classes as an earlier session of Spark has loaded them: with these, Spark starts in about two thirds of the time.

Java writes them to a file at its end (class data sharing, JEP 350), for some seconds. So the first session on a machine leaves a mark, and
the second one makes the file: who starts in a new container each time does not wait for what is thrown away. Java looks itself whether a
file is of its own build and of the same jars, and whether its sums are right, and does without one that is not. Of a file that is cut off
it dies: so the mark has its size.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dcpinspect import code_cache
from dcpinspect.machine_code import tell
from dcpinspect.ownership import check_own
from dcpinspect.temporary import forget, remember

MOST_S = 120
"""Seconds that Java may take to write the file."""
UNUSED_S = 30 * 86_400
"""A file that was not used for so long leaves when another one comes."""
_QUIET = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Java would tell of each class that it cannot keep."""


class SharedClasses:
    """Those of one session."""

    def __init__(self, java_says: str, options: str) -> None:
        """``java_says``: what Java prints as its version, empty where none is started; ``options``: those that it is to have."""
        self.options = options
        """The same, with what makes it use classes that were kept, or keep them."""
        self._file: Path | None = None
        self._lock: int | None = None
        if "sharing" not in java_says or "-Xshare" in options or "Archive" in options:
            return  # it cannot, or somebody else decides
        try:
            self._choose(code_cache.folder("java-classes", is_made=True) / _name(java_says))
        except (OSError, ImportError):
            self.release()

    def _choose(self, file: Path) -> None:
        if '"' in str(file) or "\\" in str(file) or (os.path.lexists(file) and not file.is_file()):
            return
        mark = file.with_suffix(".used")
        if not _is_there(mark):
            mark.touch(0o600)
        elif _is_there(file) and mark.read_bytes() == str(file.stat().st_size).encode():
            os.utime(file)
            self.options += f' -XX:SharedArchiveFile="{file}" -XX:+VerifySharedSpaces {_QUIET}'
        else:
            import fcntl  # deferred: Windows has none, and does without

            self._lock = os.open(mark, os.O_RDWR)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # while one session makes the file, others go on without
            made = file.with_suffix(".part")
            made.unlink(missing_ok=True)
            remember(made)
            self._file = file
            self.options += f' -XX:ArchiveClassesAtExit="{made}" {_QUIET}'

    @contextmanager
    def kept(self, end: Callable[[], subprocess.Popen[bytes]]) -> Iterator[None]:
        """Around the session: once it is over, waits for the file, if Java makes one. ``end``: tells Java to end."""
        if self._file is None:
            yield
            return
        is_done, made = False, self._file.with_suffix(".part")
        try:
            yield
            is_done = True
        finally:
            with contextlib.suppress(Exception):  # of Spark's gateway, too; then there is no file
                self._put(end(), self._file, made, is_wanted=is_done)
            made.unlink(missing_ok=True)
            forget(made)
            self.release()

    def release(self) -> None:
        """Others may make the file; the end of the process does the same."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @staticmethod
    def _put(java: subprocess.Popen[bytes], file: Path, made: Path, *, is_wanted: bool) -> None:
        """Where it belongs. Those that nobody has used for long are of versions that are gone."""
        try:
            if is_wanted:
                tell("classes", f"Java's classes are kept in {file.parent}, once, so that Spark starts sooner from now on")
                if java.wait(MOST_S) == 0:
                    made.chmod(0o600)
                    os.replace(made, file)
                    file.with_suffix(".used").write_bytes(str(file.stat().st_size).encode())
                    for other in file.parent.glob("*.jsa"):
                        if other.stat().st_mtime < time.time() - UNUSED_S:
                            other.unlink()
        finally:
            java.kill()
            java.wait()


def _is_there(path: Path) -> bool:
    """Raises UnsafeError where another user could have put it there."""
    with contextlib.suppress(FileNotFoundError):
        check_own(path.lstat(), path)
        return True
    return False


def _name(java_says: str) -> str:
    import pyspark  # deferred: who asks has it

    facts = java_says, pyspark.__file__
    return f"spark-{pyspark.__version__}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa"
