"""Remembers filters, captures and the theme, each in a file that only the user can read."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from dataclasses import field
from pathlib import Path

from dcpinspect.lazy_dataclass import dataclass

MOST = 200
"""Number of texts that are kept."""
LONGEST = 2000
"""Greatest length of a kept text, in characters; longer ones were pasted."""
_SIZE = 2 * MOST * LONGEST
"""Number of bytes of the file that are read."""
CAPTURES = 20
"""Number of captures that are kept."""


class History:
    """Texts, the newest last.

    Without a file they are forgotten when the program ends. A file that cannot be read or written
    is no error.
    """

    def __init__(self, path: Path | None = None, limit: int = MOST) -> None:
        self._path = path
        self._most = limit
        self.texts = self._read()

    def add(self, text: str) -> None:
        """Makes a used text the newest one, for other runs of the program, too."""
        if not text or not _is_kept(text):
            return
        self.texts = self._newest(self.texts, text)
        if self._path is not None:
            try:
                # the file is read again, because another run may have added texts
                texts = self._newest(self._read(), text)
                replace_file(self._path, "".join(f"{json.dumps(text)}\n" for text in texts))
            except OSError:
                self._path = None

    def _newest(self, texts: list[str], text: str) -> list[str]:
        return [*(kept_text for kept_text in texts if kept_text != text), text][-self._most :]

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            lines = file_begin(self._path, _SIZE).decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [text for line in lines if (text := _text(line)) is not None and _is_kept(text)][
            -self._most :
        ]


def file_begin(path: Path, size: int) -> bytes:
    """Returns the first bytes of a file; of a pipe or a device none, because they may not end."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        return file.read(size) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""


def replace_file(path: Path, text: str) -> None:
    """Writes a file that only the user can read; one that was there stays until this is whole."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, name = tempfile.mkstemp(
        prefix=".dcpinspect-", dir=path.parent
    )  # the new file has mode 0600
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@dataclass(frozen=True, slots=True)
class Memory:
    """What the terminal UI remembers from other runs."""

    filters: History = field(default_factory=History)
    captures: History = field(default_factory=lambda: History(limit=CAPTURES))
    """Whole paths of captures."""
    themes: History = field(default_factory=lambda: History(limit=1))
    """The theme that was chosen last."""
    notes: Path | None = None
    """Folder for notes on captures whose own folder cannot be written. None: notes are forgotten
    when the program ends.
    """

    @classmethod
    def of_user(cls) -> Memory:
        """Returns the memory in the user's state folder."""
        import platformdirs  # deferred: only the terminal UI remembers anything

        folder = platformdirs.user_state_path("dcpinspect")
        return cls(
            History(folder / "filters"),
            History(folder / "captures", CAPTURES),
            History(folder / "theme", 1),
            folder / "notes",
        )


def _text(line: str) -> str | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, str) else None


def _is_kept(text: str) -> bool:
    return len(text) <= LONGEST and text.isprintable()
