"""``-w``: writes the packets of the shown messages to a capture file of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from dcpinspect.cli import options
from dcpinspect.cli.choices import Choices
from dcpinspect.cli.output import STDOUT, refuse_to_overwrite
from dcpinspect.cli.progress import progress, wants_progress
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

if TYPE_CHECKING:
    from dcpinspect.findings.finding import Finding
    from dcpinspect.output.export.atomic import AtomicFile
    from dcpinspect.output.export.packet_subset import PacketWishes, Subset
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading.reading import Reading

CLASSIC = (".pcap", ".cap", ".dmp")
"""Endings of classic pcap files."""


class PacketForm(Choices):
    """In which form packets are written."""

    title = "The packets"
    words = """
    --with-secrets: For -w, also write the TLS secrets of the connections written, and how they
        began. Whoever has the file can decrypt it.
    --decrypted: For -w, write the messages of TLS in plain text, in packets made for them.
    """
    with_secrets: bool = False
    decrypted: bool = False

    def wishes(
        self, path: str | None, redactor: Redactor | None, *, with_handshakes: bool = False
    ) -> PacketWishes | None:
        """Returns how to write packets to ``path``; None without a path. Raises UsageError for
        options that do not fit together.
        """
        if path is None:
            is_given_by_option = {
                "--with-handshakes": with_handshakes,
                "--with-secrets": self.with_secrets,
                "--decrypted": self.decrypted,
            }
            for option, is_given in is_given_by_option.items():
                if is_given:
                    raise UsageError(f"{option}: is for the packets of -w FILE")
            return None
        if redactor is not None and self.with_secrets:
            raise UsageError(
                "--with-secrets: the secrets open all that --redact replaces; leave out one of "
                "the two"
            )
        if redactor is not None and not self.decrypted:
            raise UsageError(
                "--write: packets have what --redact replaces; with --decrypted packets are "
                "made that do not have it"
            )
        if self.with_secrets and self.decrypted:
            raise UsageError(
                "--with-secrets: what --decrypted writes needs none; leave out one of the two"
            )
        if self.with_secrets and path.lower().endswith(CLASSIC):
            raise UsageError(
                f"--with-secrets: {escape(path)} has the name of a classic pcap file, which "
                "holds no secrets; name it .pcapng"
            )
        # deferred: only -w needs it
        from dcpinspect.output.export.packet_subset import PacketWishes

        return PacketWishes(with_handshakes, self.with_secrets, self.decrypted, redactor)


class Packets(Choices):
    """Whether the packets of messages are written, and in which form."""

    title = "The packets"
    words = """
    --write -w FILE: Also write the packets of the messages to this file, as pcapng.
    --with-handshakes: For -w, also write how each connection began (TCP and TLS handshake, HELLO,
        bucket, DCP open and controls) and ended.
    """
    write: str | None = None
    with_handshakes: bool = False
    form: PacketForm = PacketForm()

    def wishes(self, redactor: Redactor | None) -> PacketWishes | None:
        """Returns how to write packets; None if none are asked for. Raises UsageError."""
        return self.form.wishes(self.write, redactor, with_handshakes=self.with_handshakes)


class EvidencePackets(Choices):
    """Whether the packets of findings are written, how many, and in which form."""

    title = "The packets"
    words = """
    --write -w FILE: Also write the connections with findings to this file, as pcapng with comments.
    --around N: For -w, write no connection whole, but this many messages before and after each one
        that shows a finding.
    """
    write: str | None = None
    around: Annotated[int | None, {"min": 0}] = None
    form: PacketForm = PacketForm()

    @contextmanager
    def file(
        self,
        context: typer.Context,
        captures: Sequence[str],
        redactor: Redactor | None,
        *,
        output: str | None,
        beside: Sequence[str],
    ) -> Iterator[EvidenceFile | None]:
        """Yields the file; None if none is asked for. Raises UsageError. ``beside``: other files
        that are read.
        """
        wishes = self.form.wishes(self.write, redactor)
        if self.write is None or wishes is None:
            if options.is_typed(context, "around"):
                raise UsageError("--around: is for the packets of -w FILE")
            yield None
            return
        from dcpinspect.output.export.packet_subset import Subset  # deferred: only -w needs it

        refuse_to_overwrite(self.write, (), beside)
        target = _target(self.write, captures, output, is_private=wishes.is_private)
        with ExitStack() as stack:
            stack.callback(target.discard)
            is_gone = any(name == options.STDIN or not os.path.isfile(name) for name in captures)
            keeper = stack.enter_context(Subset()) if is_gone else None
            yield EvidenceFile(
                target, keeper, wishes, self.around, wants_bar=wants_progress(output)
            )


@contextmanager
def packets_written(
    path: str | None, captures: Sequence[str], wishes: PacketWishes | None, output: str | None
) -> Iterator[Subset | None]:
    """Yields the keeper of a reading, which writes its packets to ``path`` at the end, also after a
    closed pipe; None without a path.

    ``output``: where the messages go. Raises UsageError for files that cannot be written.
    """
    if path is None or wishes is None:
        yield None
        return
    from dcpinspect.output.export.packet_subset import Subset  # deferred: only -w needs it

    with (
        _target(path, captures, output, is_private=wishes.is_private) as file,
        Subset(wishes) as subset,
    ):
        try:
            yield subset
        except BrokenPipeError:
            _write(subset, file, wants_bar=wants_progress(output))
            complain(
                f"the output was closed; {escape(path)} has the packets of what was read until then"
            )
            raise
        _write(subset, file, wants_bar=wants_progress(output))


def _target(
    path: str, captures: Sequence[str], output: str | None, *, is_private: bool
) -> AtomicFile:
    """Opens the file for packets. Raises UsageError."""
    if path in STDOUT:
        raise UsageError(
            f"--write {path}: name a file; a program takes the packets as in -w >(wireshark -k "
            "-i -)"
        )
    if output is not None and os.path.realpath(output) == os.path.realpath(path):
        raise UsageError("--write and --output name the same file")
    refuse_to_overwrite(path, captures)
    say_what_is_written(path)
    from dcpinspect.output.export.atomic import AtomicFile  # deferred: only -w needs it

    return AtomicFile(path, is_private=is_private)


def say_what_is_written(path: str) -> None:
    """Says that packets are written as pcapng, if the name of the file says otherwise."""
    if path.lower().endswith(CLASSIC):
        complain(
            f"{escape(path)}: is written as pcapng, whatever its name; Wireshark and tshark "
            "read it, too"
        )


@dataclass(frozen=True, slots=True)
class EvidenceFile:
    """The file of ``check -w``, for the packets of findings; they are written once the findings
    are known.
    """

    target: AtomicFile
    keeper: Subset | None
    """Keeps packets that can be read only once; None if all can be read again."""
    wishes: PacketWishes
    around: int | None
    """Number of messages before and after each one that shows a finding; None if connections are
    written whole, as far as they have few packets.
    """
    wants_bar: bool

    def write(self, findings: Sequence[Finding], reading: Reading) -> None:
        """Writes the packets. ``reading``: the reading that found the findings."""
        from dcpinspect.output.export import evidence_packets  # deferred, as above

        whole, around = list[int](), self.around
        if around is None:
            whole = evidence_packets.whole_connections(findings, reading)
            around = evidence_packets.AROUND
        evidence = evidence_packets.EvidenceCapture(
            findings, around=around, whole=whole, wishes=self.wishes
        )
        names = reading.files if self.keeper is None else self.keeper.names
        size = reading.capture.size
        with progress("writing packets", lambda: evidence.position, size, wanted=self.wants_bar):
            evidence.write(self.target, names, **reading.options)
            self.target.commit()


def _write(subset: Subset, file: AtomicFile, *, wants_bar: bool) -> None:
    with progress("writing packets", lambda: subset.position, subset.size, wanted=wants_bar):
        subset.write(file)
        file.commit()
