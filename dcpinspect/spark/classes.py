"""Keeps the Java classes that a session of Spark has loaded: with them, Spark starts in about two
thirds of the time.

Java writes the classes to a file at its end (class data sharing, JEP 350); this takes some seconds.
So the first session on a machine only leaves a mark, and the second one makes the file: users who
start in a new container each time need not wait for a file that is thrown away. Java itself checks
whether the file fits its own build and its jars, and whether the checksums are right; it ignores a
file that does not fit. But Java crashes on a truncated file, so the mark contains the size of the
file.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dcpinspect.kernels.library import warn_once
from dcpinspect.ownership import check_above, check_around, check_own
from dcpinspect.temporary import forget, remember

MOST_S = 120
"""Greatest number of seconds for Java to write the file."""
UNUSED_S = 30 * 86_400
"""Number of seconds without use after which a file is removed when another one is made."""
_QUIET = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
"""Stops Java from reporting each class that it cannot keep."""


class SharedClasses:
    """The stored classes of one session."""

    def __init__(self, java_says: str, options: str) -> None:
        """Chooses the file. ``java_says``: what Java prints as its version, empty if no Java is
        started. ``options``: options for Java.
        """
        self.options = options
        """The options for Java, with those added that use the stored classes, or store them."""
        self._file: Path | None = None
        self._lock: int | None = None
        if "sharing" not in java_says or "-Xshare" in options or "Archive" in options:
            return  # Java cannot share classes, or the user decides about it
        try:
            self._choose(_folder() / _name(java_says))
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
            self._lock = os.open(mark, os.O_RDWR)
            # while one session makes the file, other sessions run without it
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            made = file.with_suffix(".part")
            made.unlink(missing_ok=True)
            remember(made)
            self._file = file
            self.options += f' -XX:ArchiveClassesAtExit="{made}" {_QUIET}'

    @contextmanager
    def session_context(self, end: Callable[[], subprocess.Popen[bytes]]) -> Iterator[None]:
        """Surrounds a session. Then waits for the file if Java makes one. ``end``: ends Java."""
        if self._file is None:
            yield
            return
        is_done, made = False, self._file.with_suffix(".part")
        try:
            yield
            is_done = True
        finally:
            # also exceptions of Spark's gateway; then no file is kept
            with contextlib.suppress(Exception):
                self._install(end(), self._file, made, is_wanted=is_done)
            made.unlink(missing_ok=True)
            forget(made)
            self.release()

    def release(self) -> None:
        """Releases the lock, so other sessions can make the file; the process's end does, too."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @staticmethod
    def _install(java: subprocess.Popen[bytes], file: Path, made: Path, *, is_wanted: bool) -> None:
        """Moves the finished file to its place. Removes files that were not used for long, because
        they are of old versions.
        """
        try:
            if is_wanted and java.wait(MOST_S) == 0:
                made.chmod(0o600)
                os.replace(made, file)
                file.with_suffix(".used").write_bytes(str(file.stat().st_size).encode())
                warn_once(
                    "classes",
                    f"Java's classes are kept in {file.parent}, once, so that Spark starts "
                    "sooner from now on",
                )
                for old_file in file.parent.glob("*.jsa"):
                    if old_file.stat().st_mtime < time.time() - UNUSED_S:
                        old_file.unlink()
        finally:
            java.kill()
            java.wait()


def _is_there(path: Path) -> bool:
    """Returns whether a file exists. Raises UnsafeError if another user could have put it there."""
    with contextlib.suppress(FileNotFoundError):
        check_own(path.lstat(), path)
        return True
    return False


def _name(java_says: str) -> str:
    import pyspark  # deferred: the caller has loaded it already

    facts = java_says, pyspark.__file__
    return (
        f"spark-{pyspark.__version__}-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.jsa"
    )


def _folder() -> Path:
    """Returns the folder for classes in the user's cache, checked from the top down; makes it if it
    is missing. Raises OSError, also UnsafeError.

    Whoever can write there can make Java do anything. Nobody can put a file there, or replace a
    folder, between the checks: at each step only the owner could.
    """
    from platformdirs import user_cache_path  # deferred, as all that only a session needs

    path = user_cache_path("dcpinspect").absolute()
    check_around(path)
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(0o700, exist_ok=True)
    check_above(path.stat(), path)
    path /= "java-classes"
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    check_own(path.lstat(), path)
    return path
