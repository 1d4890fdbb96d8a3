"""``-w``: the packets of the messages that are shown, in a capture file of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dcpinspect.cli import interrupts
from dcpinspect.cli.output import STDOUT, refuse_to_overwrite
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape

if TYPE_CHECKING:
    from dcpinspect.export.atomic import AtomicFile
    from dcpinspect.export.subset import Subset


@contextmanager
def packets_written(
    path: str | None, captures: Sequence[str], *, with_handshakes: bool, is_redacted: bool, output: str | None
) -> Iterator[Subset | None]:
    """Who follows a reading to write its packets to ``path`` at the end, which is also that of Ctrl-C; None without a path.

    ``output`` is where the messages go. Raises UsageError for what cannot be.
    """
    if path is None:
        if with_handshakes:
            raise UsageError("--with-handshakes: is for the packets of -w FILE")
        yield None
        return
    if is_redacted:
        raise UsageError("--write: packets have all that --redact replaces; leave out one of the two")
    if path in STDOUT:
        raise UsageError(f"--write {path}: name a file; a program takes the packets as in -w >(wireshark -k -i -)")
    if output == path:
        raise UsageError("--write and --output name the same file")
    refuse_to_overwrite(path, captures)
    from dcpinspect.export.atomic import AtomicFile  # deferred: only -w needs it
    from dcpinspect.export.subset import Subset

    file = AtomicFile(path)
    try:
        with Subset(with_handshakes=with_handshakes) as subset:
            try:
                yield subset
            except KeyboardInterrupt:
                _write(subset, file, wants_bar=wants_progress(output))
                complain(f"interrupted; {escape(path)} has the packets of what was read until then")
                raise
            _write(subset, file, wants_bar=wants_progress(output))
    finally:
        file.discard()


def _write(subset: Subset, file: AtomicFile, *, wants_bar: bool) -> None:
    with interrupts.deferred(), progress("writing packets", lambda: subset.position, subset.size, wanted=wants_bar):
        subset.write(file, check=interrupts.check)
        file.commit()
