"""The folder that a store keeps its tables in: readable by its owner alone, and removed with the
session, however that ends.
"""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import Any

from dcpinspect.errors import SpoolError
from dcpinspect.temporary import new_folder, remove


class Spool:
    """A new folder in ``parent`` (by default the folder for large temporary files, which ``TMPDIR``
    names). ``close`` removes it.
    """

    def __init__(self, parent: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(new_folder(parent))
        self._finalizer = weakref.finalize(self, remove, self.folder)

    def path(self, name: str) -> Path:
        """Returns the path of the file of this name."""
        return self.folder / name

    def write(self, name: str, batch: Any) -> Any:
        """Writes a record batch as an uncompressed Arrow file; returns it mapped into memory.
        Raises SpoolError.

        Nothing else writes to the file or shortens it, so reading the mapped batch cannot fail.
        """
        import pyarrow as pa

        path = self.path(name)
        try:
            with path.open("wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
                writer.write_batch(batch)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise SpoolError(self.folder, error) from error
        return pa.ipc.open_file(pa.memory_map(str(path))).get_batch(0)

    def remove(self, name: str) -> None:
        """Deletes a file; a batch that is mapped from it stays readable."""
        self.path(name).unlink(missing_ok=True)

    def close(self) -> None:
        """Removes the folder and everything in it."""
        self._finalizer()
