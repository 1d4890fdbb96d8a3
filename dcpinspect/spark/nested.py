"""A task that needs tasks itself. It ends where it needs their results, and starts again once these
are there.

A task of Spark cannot start others, and the driver has no room for what the task looks at. So the
driver starts the inner tasks, and gets only the places of files: the task writes what others are to
do, and these write what they have found. Unpickling runs code, and somebody may change a file
meanwhile. So each process compares what it reads with a digest that came by way of Spark.
"""

from __future__ import annotations

import hashlib
import hmac
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from dcpinspect.errors import DcpInspectError, OutputError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.spark import files
from dcpinspect.spark.attempts import attempt
from dcpinspect.spark.salt import Salt
from dcpinspect.spark.task_runner import Item, Result, TaskRunner, is_little
from dcpinspect.text import escape


def nested(
    tasks: TaskRunner,
    what: str,
    work: Callable[[Item, TaskRunner], Result],
    item: Item,
    *,
    stem: str,
    salt: Salt | None = None,
) -> Result:
    """Calls ``work`` in a task, with tasks that it can use. Raises UsageError and OutputError, as
    ``work`` does, and SparkFailedError.

    ``work`` starts again after each use of its tasks, so it must do the same each time. ``what``:
    describes the work. ``stem``: path of temporary files.
    """
    results: list[Sequence[_Stored]] = []
    (stored_item,) = _stored([pickle.dumps(item)], stem, salt)  # with many captures it is large
    while True:
        inner = partial(
            _tried, work=work, processors=tasks.processors, results=results, stem=stem, salt=salt
        )
        (ended,) = tasks.map(what, inner, [stored_item], [0])
        if isinstance(ended, _MissingTasks):
            results += ended.done
            results.append(
                tasks.map(
                    ended.what, partial(_done, stem=stem, salt=salt), ended.items, ended.sizes
                )
            )
        elif isinstance(ended, DcpInspectError):
            raise ended
        else:
            return ended.result  # type: ignore[no-any-return] # of ``work``


@dataclass(frozen=True, slots=True)
class _Stored:
    """An object in a file."""

    path: str
    start: int
    size: int
    digest: bytes

    def read(self, salt: Salt | None) -> Any:
        """Returns the object. Raises UsageError if the file is gone or was changed."""
        try:
            with files.source(self.path, salt) as source:
                source.seek(self.start)
                data = bytes(source.read(self.size))
        except OSError as error:
            raise UsageError(
                f"{escape(self.path)}: cannot be read ({escape(str(error))}); run it again"
            ) from error
        if not hmac.compare_digest(_digest(data), self.digest):
            raise UsageError(
                f"{escape(self.path)}: was changed by something else while this ran; run it again"
            )
        return pickle.loads(data)  # noqa: S301 - its digest is that of what our own task wrote


@dataclass(frozen=True, slots=True)
class _Done:
    result: Any


@dataclass(frozen=True, slots=True)
class _MissingTasks:
    """Inner tasks that have to run."""

    what: str
    items: Sequence[_Stored]
    """What each has to do: a function and its argument."""
    sizes: Sequence[int]
    done: Sequence[Sequence[_Stored]]
    """Results of what was little work, so that it is not done again."""


class _NeedError(Exception):
    """Results are needed that are not there yet."""

    def __init__(self, wanted: _MissingTasks) -> None:
        super().__init__()
        self.wanted = wanted


class _Inner(TaskRunner):
    """The tasks that a task can use."""

    def __init__(
        self, processors: int, results: Sequence[Sequence[_Stored]], stem: str, salt: Salt | None
    ) -> None:
        super().__init__()
        self.processors = processors
        self._results = list(results)
        self._done: list[list[bytes]] = []
        self._stem = stem
        self._salt = salt

    def map(
        self, what: str, work: Callable[[Item], Result], items: Sequence[Item], sizes: Sequence[int]
    ) -> list[Result]:
        """As ``TaskRunner`` has it. A little work is done here and now."""
        if not items:
            return []
        if self._results:
            return [stored.read(self._salt) for stored in self._results.pop(0)]
        if not is_little(sizes):
            done = [_stored(results, self._stem, self._salt) for results in self._done]
            pickled_work = [pickle.dumps((work, item)) for item in items]
            raise _NeedError(
                _MissingTasks(what, _stored(pickled_work, self._stem, self._salt), sizes, done)
            )
        results = [work(item) for item in items]
        self._done.append(list(map(pickle.dumps, results)))  # now, since the work may change them
        return results


def _tried(
    given: _Stored,
    *,
    work: Callable[[Any, TaskRunner], Any],
    processors: int,
    results: Sequence[Sequence[_Stored]],
    stem: str,
    salt: Salt | None,
) -> _Done | _MissingTasks | DcpInspectError:
    try:
        return _Done(work(given.read(salt), _Inner(processors, results, stem, salt)))
    except _NeedError as need:
        return need.wanted
    except DcpInspectError as error:
        return (OutputError if isinstance(error, OutputError) else UsageError)(str(error))


def _done(item: _Stored, *, stem: str, salt: Salt | None) -> _Stored:
    """Does the work of an inner task, and returns where its result is."""
    work, work_item = item.read(salt)
    return _stored([pickle.dumps(work(work_item))], stem, salt)[0]


def _stored(pickled: Sequence[bytes], stem: str, salt: Salt | None) -> list[_Stored]:
    """Writes pickled objects to a file, and returns where they are."""
    path, start, stored = f"{stem}.{attempt()}.objects", 0, []
    with files.created(path, salt) as stream:
        for data in pickled:
            stream.write(data)
            stored.append(_Stored(path, start, len(data), _digest(data)))
            start += len(data)
    return stored


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()
