"""Untrusted bytes and text as text that is safe in a terminal, in HTML after its own quoting, and
in a file name's display.

Keys, values and names come from the wire. Shown raw, they could move the cursor, retitle the
window, write a link, or reverse the reading order of a line; and two different keys could look the
same. Whatever cannot be seen is therefore written out:

- ``\\xNN``: one byte, either an ASCII control character or a byte that is not part of valid UTF-8
- ``\\uNNNN``, ``\\UNNNNNNNN``: any other character that is invisible, changes the layout, or is not
  assigned
- ``\\\\``: a backslash, so that the result has one reading only
"""

from __future__ import annotations

import re
import sys
import unicodedata
from array import array
from collections.abc import Collection, Iterable, Sequence

_NOT_PLAIN = re.compile(r"[^ -\[\]-~]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_LINE_BREAKS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")

# str.isprintable() is false for every control, format (bidi, zero-width), surrogate, private and
# unassigned character and for separators other than the space. It is true for these, which draw
# nothing: a key could hide them.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)

_ELLIPSIS = "…"
_WORD = re.compile(" *[^ ]+")
"""A word with the blanks before it."""

FORMULA_STARTS = "'=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""Characters that spreadsheets may take for the start of a formula, also in the wide forms that
East Asian ones know. The apostrophe is included: it stands before such texts in CSV.
"""


def words_of(text: str) -> tuple[str, ...]:
    """Returns the words of a text: a long list of names, written as one."""
    return tuple(text.split())


def entries(text: str) -> list[tuple[str, str]]:
    """Returns what stands before and behind the first ``: `` in each entry of a text. An entry goes
    on in lines that are indented further than its first; one without ``: `` is a heading.
    """
    joined: list[tuple[int, str]] = []
    for line in filter(str.strip, text.splitlines()):
        indent = len(line) - len(line.lstrip())
        if joined and ": " in joined[-1][1] and indent > joined[-1][0]:
            joined[-1] = joined[-1][0], f"{joined[-1][1]} {line.strip()}"
        else:
            joined.append((indent, line.strip()))
    return [(head, body) for head, _, body in (entry.partition(": ") for _, entry in joined)]


def sections(text: str) -> list[tuple[str, list[tuple[str, str]]]]:
    """Returns the entries of a text below their headings. A heading of one word in small letters
    begins entries that ``use: word`` puts into others.
    """
    shared: dict[str, list[tuple[str, str]]] = {}
    headed: list[tuple[str, list[tuple[str, str]]]] = []
    below: list[tuple[str, str]] = []
    for head, body in entries(text):
        if head == "use":
            below += shared[body]
        elif body:
            below.append((head, body))
        elif head.islower() and " " not in head:
            below = shared[head] = []
        else:
            headed.append((head, below := []))
    return headed


def groups(text: str) -> dict[str, dict[str, str]]:
    """Returns the entries of a text by their headings."""
    grouped: dict[str, dict[str, str]] = {}
    within: dict[str, str] = {}
    for head, body in entries(text):
        if body:
            within[head] = body
        else:
            within = grouped[head] = {}
    return grouped


def escape(data: bytes | str) -> str:
    """Makes text in which every character can be seen; different inputs give different texts.

    Bytes are read as UTF-8. In a ``str``, a surrogate made by ``surrogateescape`` (as in file
    names) is the byte it stands for.
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return _NOT_PLAIN.sub(lambda match: _escape_character(match[0]), text)


def escape_rest(text: str) -> str:
    """Escapes a text in which bytes that were no UTF-8 are escapes: its backslashes stay."""
    return escape(text).replace("\\\\", "\\")


def name_text(name: str) -> str:
    """Returns a file name with escapes for bytes that are not UTF-8."""
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def one_line(message: str) -> str:
    """Makes a message of our own, or of a library, one line that cannot steer the terminal.

    Unlike :func:`escape` it leaves backslashes alone: the parts that came from outside were escaped
    when the message was made.
    """
    return _NOT_PLAIN.sub(
        lambda match: match[0] if match[0] == "\\" else _escape_character(match[0]),
        _LINE_BREAKS.sub(" ", message.strip()),
    )


_IN_ASCII = {
    ord(ours): theirs
    for ours, theirs in zip("→←–—…·×✖▁▂▃▄▅▆▇█░▒", "><--~.xX_.:-=+*#.:", strict=True)
}
"""ASCII signs for our own signs, if there is nothing but ASCII; they are as wide."""


def to_ascii(text: str) -> str:
    """Returns escaped text in ASCII: our own signs as similar ones, others as ``\\uNNNN``."""
    if text.isascii():
        return text
    return _NOT_ASCII.sub(lambda match: _numbered(match[0]), text.translate(_IN_ASCII))


def cells(text: str) -> int:
    """Counts the terminal columns that escaped text takes: two for East Asian wide characters, none
    for combining marks.
    """
    not_ascii = [] if text.isascii() else _NOT_ASCII.findall(text)
    return len(text) - len(not_ascii) + sum(map(_cells_of_character, not_ascii))


MOST_NAME = 100
"""Number of terminal columns of a name that only says who is meant."""


def clip(text: str, width: int) -> str:
    """Shortens escaped text to at most ``width`` terminal columns, with an ellipsis where something
    was left out.
    """
    if cells(text) <= width:
        return text
    characters, columns_left = [], width - 1  # one column is for the ellipsis
    for character in text:
        columns_left -= _cells_of_character(character)
        if columns_left < 0:
            break
        characters.append(character)
    return "".join(characters) + _ELLIPSIS if width > 0 else ""


def aligned(rows: Sequence[Sequence[str]], left: Collection[str]) -> list[str]:
    """Returns escaped rows, the heading first, as lines whose columns are aligned: those in ``left``
    to the left, others to the right.
    """
    widths = [max(map(cells, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padding = [" " * (width - cells(cell)) for cell, width in zip(row, widths, strict=True)]
        columns = zip(rows[0], row, padding, strict=True)
        texts = (cell + blank if name in left else blank + cell for name, cell, blank in columns)
        lines.append("  ".join(texts).rstrip())
    return lines


def wrap(text: str, width: int | None, indent: str = "") -> list[str]:
    """Splits escaped text into lines of at most ``width`` terminal columns, between words; None:
    one line.

    Lines after the first begin with ``indent``. A word that is longer than a line is divided,
    behind a comma if there is one.
    """
    if width is None or cells(text) <= width:
        return [text]
    lines: list[str] = []
    line = ""
    for word in _WORD.findall(text):
        if line.strip() and cells(line) + cells(word) > width:
            lines, line, word = [*lines, line], indent, word.lstrip()
        while word and cells(line) + cells(word) > width:
            fitting = next(
                (
                    size
                    for size in range(1, len(word))
                    if cells(line) + cells(word[: size + 1]) > width
                ),
                len(word),
            )
            fitting = 1 + word.rfind(",", 0, fitting) or fitting
            lines, line, word = [*lines, line + word[:fitting]], indent, word[fitting:]
        line += word
    return [*lines, line]


def _escape_character(character: str) -> str:
    code = ord(character)
    if character == "\\":
        return "\\\\"
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: the byte 0x80 to 0xFF
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x80:
        return f"\\x{code:02x}"
    if character.isprintable() and not _INVISIBLE.match(character):
        return character
    return _numbered(character)


def _numbered(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown_characters(count: int) -> bytes:
    """Returns 1 for each of the first ``count`` characters that stays though not ASCII, else 0."""
    encoding = f"utf-32-{sys.byteorder[0]}e"  # six times as fast as chr() for each
    characters = array("I", range(count)).tobytes().decode(encoding, "surrogatepass")
    is_shown = bytearray(map(str.isprintable, characters))
    for match in _INVISIBLE.finditer(characters):
        is_shown[match.start()] = 0
    return bytes(is_shown)


def _cells_of_character(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


HEADINGS = {
    "vb": "vbucket",
    "con": "connection",
    "seqno": "by_seqno",
    "message": "name",
    "bytes": "length",
}
"""Columns by the words that lists use for them, where these differ."""

_ALIKE, _MOST = 0.65, 3


def counted(number: int, noun: str) -> str:
    """Counts a noun: ``1 vbucket``, ``2 vbuckets``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def one_of(names: Sequence[str]) -> str:
    """Returns names as a choice: ``a, b or c``."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def listed(texts: Sequence[str], most: int) -> str:
    """Returns the first of some texts, and how many more there are: ``a, b and 2 more``."""
    more = f" and {len(texts) - most:,} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def range_text(first: int, last: int) -> str:
    """Returns a range of numbers, or the only one."""
    return f"{first}" if first == last else f"{first}–{last}"


def short_names(paths: Sequence[str]) -> list[str]:
    """Returns what tells files apart: the last parts of their paths, as many as all need, safe to
    print.
    """
    parted = [path.split("/") for path in paths]
    longest = max(map(len, parted), default=1)
    for count in range(1, longest + 1):
        names = ["/".join(parts[-count:]) for parts in parted]
        if len({*names}) == len({*paths}):
            break
    return [escape(name) for name in names] if paths else []


def did_you_mean(name: str, known_names: Iterable[str]) -> str:
    """Returns a clause for an error: a question with the known names like ``name``, or nothing."""
    import difflib  # deferred: only a mistake needs it

    known_names = list(known_names)
    meant = HEADINGS.get(name.lower())
    close = (
        [meant]
        if meant in known_names
        else difflib.get_close_matches(name, known_names, n=_MOST, cutoff=_ALIKE)
    )
    return _question(close)


def did_you_mean_file(name: str, beside: Iterable[str]) -> str:
    """Returns such a clause for names of files, which are compared up to their first dot: all
    captures end alike.
    """
    from difflib import SequenceMatcher  # deferred, as above

    def likeness(first: str, second: str) -> float:
        return SequenceMatcher(None, first, second).ratio()

    close = [
        candidate
        for candidate in beside
        if likeness(name.partition(".")[0], candidate.partition(".")[0]) >= _ALIKE
    ]
    return _question(sorted(close, key=lambda candidate: -likeness(name, candidate))[:_MOST])


def _question(close: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(close)}?" if close else ""
