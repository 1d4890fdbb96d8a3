"""Options and arguments that several commands of ``dcpinspect pipeline`` have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from dcpinspect.cli import options
from dcpinspect.cli.choices import Choices, as_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dcpinspect.spark.pipeline import Options

Out = Annotated[str, as_option("OUT", "The directory that a pipeline wrote.")]
Json = Annotated[bool, as_option("--json", "Print the summary as JSON.")]


class NewTables(Choices):
    """Where the tables are, and how captures become rows of them."""

    title = "The tables"
    words = """
    --output -o OUT: Directory of the tables. What is in it is updated.
    """
    output: str
    redaction: options.OutputRedaction = options.OutputRedaction()
    ports: options.Ports = options.Ports()
    capture_point: options.CapturePoint = None

    def run_options(self, captures: Sequence[str], **more: Any) -> Options:
        """Returns a run's options over these captures. ``more``: others. Raises UsageError."""
        from dcpinspect.spark.pipeline import Options  # deferred: only a command that runs needs it

        redaction = self.redaction
        return Options(
            captures,
            self.output,
            point_rule=self.capture_point,
            **self.ports.of_pipeline(),
            secrets=self.ports.decryption.secrets(),
            redacts=redaction.redact,
            salt_file=redaction.salt_file,
            **more,
        )
