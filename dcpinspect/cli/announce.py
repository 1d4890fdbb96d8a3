"""``--check`` beside messages: tells findings as they are found, and all of them at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dcpinspect.cli.teller import Scene, Teller, TellingStyle
from dcpinspect.cli.terminal import columns_asked

if TYPE_CHECKING:
    from dcpinspect.output.export.formats import Format
    from dcpinspect.output.export.target import Target
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading.reading import Reading


class Announcer:
    """Writes the findings of a running reading between its messages."""

    def __init__(
        self,
        reading: Reading,
        output: Target,
        format_: Format,
        *,
        pauses: bool,
        redactor: Redactor | None = None,
    ) -> None:
        """``format_``: text or NDJSON. ``pauses``: the reading can wait long for input, so findings
        are also told before its end.
        """
        reading.check(redactor=redactor)
        self._reading = reading
        self._output = output
        self._is_text = format_.is_text
        self._teller = Teller(
            output, TellingStyle(is_text=format_.is_text, is_beside_messages=True)
        )
        self._pauses = pauses
        if pauses:
            reading.forget_what_is_over()
            reading.on_pause = self.check_when_due

    def check_when_due(self) -> None:
        """Tells new findings, if it is time for a check."""
        if self._pauses and self._teller.check_when_due(
            lambda: Scene.from_reading(self._reading), time.monotonic_ns()
        ):
            self._output.flush()

    def end(self, *, is_whole: bool) -> None:
        """Writes all findings, including those that were told before. ``is_whole``: whether the
        reading came to its end.
        """
        # deferred: most users who read messages do not need it
        from dcpinspect.output.render.finding_text import report_lines
        from dcpinspect.output.render.verdict import LookedAt, damage

        findings = self._reading.findings(is_whole=is_whole)
        files = [file.name for file in self._reading.capture.files]
        if not self._is_text:
            self._teller.put_records(files, findings, is_final=True)
            return
        width = self._output.width() or columns_asked()
        looked = LookedAt.from_reading(self._reading, damage=damage(self._reading))
        lines = report_lines(
            findings, files, self._output.painter(), width=width, looked=looked, limit=None
        )
        self._output.write_piece("".join(f"{line}\n" for line in ("", *lines)))
