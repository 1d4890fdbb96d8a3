"""Filters that were used before, kept for the next time in a file that is the user's alone."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

MOST = 200
"""Filters that are kept."""
LONGEST = 2000
"""Characters of a filter that is kept; longer ones were pasted."""
_SIZE = 2 * MOST * LONGEST
"""Bytes of the file that are read."""


def history_path() -> Path:
    """Where filters are kept between runs."""
    import platformdirs  # deferred: only the terminal UI keeps a history

    return platformdirs.user_state_path("dcpinspect") / "filters"


class History:
    """Filters, the newest last. Without a file they are forgotten with the program; a file that cannot be read or written is no fault."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.texts = self._read()

    def add(self, text: str) -> None:
        """A filter that was used: it is the newest now, for other runs of the program, too."""
        if not text or not _is_kept(text):
            return
        self.texts = _newest(self.texts, text)
        if self._path is not None:
            try:
                self._write(_newest(self._read(), text))  # another run may have added some
            except OSError:
                self._path = None

    def _read(self) -> list[str]:
        if self._path is None:
            return []
        try:
            with os.fdopen(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return []
                lines = file.read(_SIZE).decode("utf-8", "replace").splitlines()
        except OSError:
            return []
        return [text for line in lines if (text := _text(line)) is not None and _is_kept(text)][-MOST:]

    def _write(self, texts: list[str]) -> None:
        assert self._path is not None
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        number, name = tempfile.mkstemp(prefix=".filters-", dir=self._path.parent)  # mode 0600
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write("".join(f"{json.dumps(text)}\n" for text in texts))
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _newest(texts: list[str], text: str) -> list[str]:
    return [*(one for one in texts if one != text), text][-MOST:]


def _text(line: str) -> str | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _is_kept(text: str) -> bool:
    return len(text) <= LONGEST and text.isprintable()
