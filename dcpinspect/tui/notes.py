"""Marks and notes on messages; they are kept for the next time that the capture is opened.

They are in ``CAPTURE.dcpinspect.json``, or in the user's own folder if that file cannot be written.
A note belongs to a row and a time.

If the capture is read with other options, another message can have that row; then the note is kept,
but not shown. A file that is about another capture, or is not ours, is neither shown nor changed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tui.history import file_begin, replace_file

SCHEMA = "dcpinspect.notes/1"
SUFFIX = ".dcpinspect.json"
LONGEST = 2000
"""Greatest length of a note, in characters."""
MOST = 10_000
"""Greatest number of messages with marks or notes."""
_SIZE = MOST * (LONGEST + 100)
"""Number of bytes of the file that are read."""
_HEAD = 1 << 12
"""Number of bytes at the start of a capture that identify it; they stay while it grows."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note on a message; an empty text is only a mark."""

    time_ns: int
    text: str = ""


class Notes:
    """The marks and notes on one capture, by row. Without files they end with the program."""

    def __init__(self, files: Sequence[Path] = (), identity: str = "") -> None:
        """Reads the notes. ``files``: where they can be kept, the best place first. ``identity``:
        identifies the capture.
        """
        self.of: dict[int, Note] = {}
        self.why = ""
        """Why the notes could not be saved; empty if they were, or if there is nothing to save."""
        self._files = list(files)
        self._identity = identity
        self._unseen: dict[int, Note] = {}
        """Notes of earlier runs, on rows that are still to be read."""
        self._others: dict[int, Note] = {}
        """Notes of earlier runs, on messages that have other rows now."""
        for path in files:
            saved = _read(path)
            if saved is None:
                continue
            if saved.get("capture") == identity:
                self._unseen = _notes(saved)
                self._files = [path, *(file for file in self._files if file != path)]
                break
            self._files.remove(path)  # the file is about something else

    @classmethod
    def beside(cls, captures: Sequence[str], folder: Path) -> Notes:
        """Returns the notes on captures in files. ``folder``: the user's own. Notes on a pipe or an
        interface are not saved.
        """
        if not captures or not all(os.path.isfile(name) for name in captures):
            return cls()
        try:
            identity = _identity(captures)
        except OSError:
            return cls()
        first = Path(captures[0])
        digest = hashlib.sha256(str(first.resolve()).encode(errors="surrogateescape")).hexdigest()[
            :16
        ]
        return cls([first.with_name(first.name + SUFFIX), folder / f"{digest}{SUFFIX}"], identity)

    def meet(self, last: int, times: Callable[[list[int]], Sequence[int]]) -> int:
        """Takes up the notes of earlier runs on rows up to ``last``, and returns how many.
        ``times`` returns the times of rows.
        """
        rows = sorted(row for row in self._unseen if row <= last)
        met = 0
        for row, time_ns in zip(rows, times(rows) if rows else (), strict=True):
            note = self._unseen.pop(row)
            is_same = note.time_ns == time_ns
            (self.of if is_same else self._others).setdefault(row, note)
            met += is_same
        return met

    @property
    def rows(self) -> list[int]:
        """The rows that have a mark or a note, rising."""
        return sorted(self.of)

    def text(self, row: int) -> str:
        """Returns the note on a row; empty if there is none."""
        note = self.of.get(row)
        return note.text if note is not None else ""

    def mark(self, row: int, time_ns: int) -> None:
        """Marks a row, or removes its mark and note."""
        if self.of.pop(row, None) is None:
            self.of[row] = Note(time_ns)
        self._write()

    def write(self, row: int, time_ns: int, text: str) -> None:
        """Sets the note on a row; an empty text keeps a mark that was there."""
        text = " ".join(text.split())[:LONGEST]
        if text or row in self.of:
            self.of[row] = Note(time_ns, text)
            self._write()

    def drop_before(self, row: int) -> None:
        """Removes marks and notes on rows before ``row``, which were dropped."""
        self.of = {noted_row: note for noted_row, note in self.of.items() if noted_row >= row}

    def _write(self) -> None:
        """Saves the notes in the first file that can be written; none if there are no notes."""
        every = sorted((self._others | self._unseen | self.of).items())
        content = {
            "schema": SCHEMA,
            "capture": self._identity,
            "messages": [_entry(row, note) for row, note in every],
        }
        for path in self._files:
            try:
                if every:
                    replace_file(path, f"{json.dumps(content, indent=1, ensure_ascii=False)}\n")
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                self.why = f"not kept: {error.strerror}"
            else:
                self.why = ""
                return


def _identity(captures: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in captures:
        with open(name, "rb") as file:
            digest.update(hashlib.sha256(file.read(_HEAD)).digest())
    return digest.hexdigest()


def _entry(row: int, note: Note) -> dict[str, int | str]:
    return {"row": row, "time_ns": note.time_ns, **({"note": note.text} if note.text else {})}


def _read(path: Path) -> dict[str, Any] | None:
    """Returns the content of a file; None if there is none, empty if it is not ours."""
    try:
        saved = json.loads(file_begin(path, _SIZE))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        return {}
    return saved if isinstance(saved, dict) and saved.get("schema") == SCHEMA else {}


def _notes(saved: dict[str, Any]) -> dict[int, Note]:
    entries = saved.get("messages")
    notes: dict[int, Note] = {}
    for entry in entries[:MOST] if isinstance(entries, list) else ():
        row, time_ns, text = (
            (entry.get(name) for name in ("row", "time_ns", "note"))
            if isinstance(entry, dict)
            else (None, None, None)
        )
        if type(row) is int and row > 0 and type(time_ns) is int:
            notes[row] = Note(time_ns, text[:LONGEST] if isinstance(text, str) else "")
    return notes
