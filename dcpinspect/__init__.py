"""Reads Couchbase's Database Change Protocol from packet captures and explains it.

``dcpinspect.open`` is where Python begins. Importing this package loads nothing else: ``dcpinspect
--help`` and ``--version`` must answer at once.
"""

from __future__ import annotations

# typing's own takes 5 ms to load, in which Ctrl-C would meet a program that cannot answer yet
TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import Literal

    from dcpinspect.api import Decoded, Recording, Text

__all__ = ["__version__", "decode", "explain", "open"]

__version__ = "0.2.0"


def __dir__() -> list[str]:
    return __all__


def open(  # noqa: A001 - as in gzip.open: it is called with the name of the package
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    port: int | Literal["auto"] | Sequence[int | Literal["auto"]] | None = None,
    keep: int | None = None,
    keylog: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    tls_search: int | None = None,
) -> Recording:
    """The messages of one or more captures, read as one in order of time: tables for Arrow, and any
    message with every field explained.

    ``paths``: pcap and pcapng files, plain or packed by gzip, zstd, xz or bzip2; directories of
    them; a pipe; ``-`` for standard input. ``port``: a server port besides 11210 and 11207,
    several, or "auto": any that carries DCP. ``keep``: bytes of packets that are kept of a pipe,
    which can be read only once, 2 GiB unless said otherwise; the oldest messages are forgotten with
    theirs. ``keylog``: files with secrets, by which connections of TLS are decrypted.
    ``tls_search``: how many secrets and record numbers are tried for a connection that began before
    the capture; 5,000,000 unless said otherwise, which takes 2 s at most; less after connections
    that no secret opened.

    Raises CaptureError when nothing can be read, UsageError for a port that is none. Both, as all
    errors of this package, are ``dcpinspect.errors.DcpInspectError``; the text of each is one line
    that says what is wrong, where, and what to do.
    """
    from dcpinspect.api import Recording  # deferred: NumPy, Arrow and the decoder, 0.4 s

    return Recording(paths, port=port, keep=keep, keylog=keylog, tls_search=tls_search)


def decode(data: bytes | bytearray | memoryview) -> list[Decoded]:
    """The messages in some bytes, without a capture, each with every field explained: ``[message] =
    dcpinspect.decode(data)``.

    The last one is where no message follows, so it may be damaged or cut; its ``message.problems``
    say so. Whether keys begin with a collection id is guessed from their bytes.

    Raises UsageError for what is no bytes.
    """
    from dcpinspect.api import decode  # deferred, as above

    return decode(data)


def explain(what: str | int) -> Text:
    """What ``dcpinspect explain`` prints of a command, status, control key, feature, rule, word or
    column, or of bytes in hex.

    Raises UsageError, with what may have been meant.
    """
    from dcpinspect.api import explain  # deferred, as above

    return explain(what)
