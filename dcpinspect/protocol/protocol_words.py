"""The protocol's own words in a text, which name nothing of a user's: what layouts have as
``Field.shown``.

All of these return the text with everything else replaced. A key is kept or replaced as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.protocol.control_keys import control_key

Replace = Callable[[bytes], bytes]
"""Returns what stands for a text."""

MECHANISMS = frozenset(
    {b"SCRAM-SHA512", b"SCRAM-SHA256", b"SCRAM-SHA1", b"PLAIN", b"OAUTHBEARER", b"CRAM-MD5"}
)
"""Names of SASL mechanisms that servers have or had."""
_NUMBER = re.compile(r"(?:0x)?[0-9A-Fa-f]{1,16}|[0-9]{1,20}", re.ASCII)
"""A number of at most 64 bits, with hexadecimal or decimal digits."""
_VERSION = re.compile(
    rb"\d+(?:\.\d+)*(?:[-_]\d+)?(?:[-_](?:g[0-9a-f]{4,40}|enterprise|community))?"
)
"""The version of a server, as ``7.6.2-3721-enterprise``."""
_OPTIONS = frozenset({"uid", "sid", "collections", "scope", "purge_seqno", "cts"})
"""Members of a stream request that servers know."""
_TRANSFER_OPTIONS = frozenset({"free_memory", "all_keys"})
"""Members of the member ``cts``."""
_BLANKS = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class Words:
    """Shows a text that is one of these words."""

    known: frozenset[bytes]

    def __call__(self, text: bytes, _: bytes, replace: Replace) -> bytes:
        """Returns the text, or its replacement."""
        return text if text in self.known else replace(text)


@dataclass(frozen=True, slots=True)
class ListOfWords:
    """Shows these words of a text that has words between blanks."""

    known: frozenset[bytes]

    def __call__(self, text: bytes, _: bytes, replace: Replace) -> bytes:
        """Returns the words, some of them replaced."""
        return b" ".join(word if word in self.known else replace(word) for word in text.split(b" "))


def name_of_control(text: bytes, _: bytes, replace: Replace) -> bytes:
    """Shows the keys of DCP control that servers know."""
    return text if control_key(text.decode(errors="replace")) is not None else replace(text)


def value_of_control(text: bytes, key: bytes, replace: Replace) -> bytes:
    """Shows what a known DCP control can be set to: a number, a boolean, or one of its words."""
    control = control_key(key.decode(errors="replace"))
    if control is not None and control.takes(text.decode(errors="replace")):
        return text
    return replace(text)


def version_of_server(text: bytes, _: bytes, replace: Replace) -> bytes:
    """Shows the version of a server."""
    return text if _VERSION.fullmatch(text) else replace(text)


def error_map(text: bytes, _: bytes, replace: Replace) -> bytes:
    """Shows a JSON object: the server's build says what is in it."""
    import orjson  # deferred, as below

    try:
        return text if isinstance(orjson.loads(text), dict) else replace(text)
    except orjson.JSONDecodeError:
        return replace(text)


def stream_options(text: bytes, _: bytes, replace: Replace) -> bytes:
    """Shows the known members of a stream request's value as far as they are numbers; ids are
    hexadecimal texts.
    """
    import orjson  # deferred: not every command shows values

    try:
        document = orjson.loads(text)
    except orjson.JSONDecodeError:
        return replace(text)
    if not isinstance(document, dict):
        return replace(text)

    def shown_option(value: Any) -> Any:
        if (
            value is None
            or isinstance(value, bool | int)
            or (isinstance(value, str) and _NUMBER.fullmatch(value))
        ):
            return value
        return replacement(value)

    def replacement(value: Any) -> str:
        if isinstance(value, str):
            return replace(value.encode()).decode()
        try:
            return replace(orjson.dumps(value)).decode()
        except orjson.JSONEncodeError:  # it is nested too deeply to be written
            return replace(text).decode()

    def members(values: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for name, value in values.items():
            if name not in names:
                written[replacement(name)] = replacement(value)
            elif isinstance(value, list):
                written[name] = [shown_option(item) for item in value]
            else:
                written[name] = (
                    members(value, _TRANSFER_OPTIONS)
                    if name == "cts" and isinstance(value, dict)
                    else shown_option(value)
                )
        return written

    written = orjson.dumps(members(document, _OPTIONS))
    # A member that is there twice has two values, of which only one was looked at.
    return text if text.translate(None, _BLANKS) == written else written
