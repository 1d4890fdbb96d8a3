"""Plain English, as far as a program can tell: short sentences, no chains of colons, none of the
phrases that readers stumbled over.
"""

from __future__ import annotations

import re

BANNED = {
    r"what the captures? lacks?|captures? lacks?|lacks? bytes": "capture loss",
    r"what is not known is not judged": "where the capture cannot decide, there is no finding",
    r"nobody (?:knows|described|defined|tells|told|can read)": "unknown",
    r"never begun|\bbegun\b": "never created in this capture, started",
    r"accuses? nobody": "is never blamed on the server or the client",
    r"the header still tells": "the header still has",
    r"nobody's leave": "without asking anybody",
    r"held? \w+ against": "compare with",
    r"for who(?:ever)? ": "for those who",
    r"(?:is|are|was|were|had been) told (?:of|to|by|in)\b|told (?:of )?(?:a|the|no|nobody)\b": "name who sent what",
    r"nothing (?:tells|told|speaks)|speaks? of": "names, is about",
    r"not there any more|not any more|no more of it": "gone, removed",
    r"\banew\b": "again",
    r"\bbehind (?:messages|what)|what (?:comes|came) (?:once only|behind)": "after",
    r"what there is\b|that there are to\b": "which there are",
    r"for ever\b|for want of|by then\b(?= the)|whatever became": "forever, because of, then",
    r"partition uuid|vb ?uuid": "vbucket uuid",
    r"fail-over": "failover",
    r"roll-back": "rollback",
    r"dedup(?:ed)?\b": "de-duplicated",
    r"\bvbs?\b|partitions?\b": "vbucket",
    r"out-of-order snapshots?": "OSO snapshot",
    r"flow control window|window of flow control": "flow-control window",
    r"\bstream ids?\b": "stream-id",
    r"\bno-ops?\b": "noop",
    r"packet loss|lost in the capture": "capture loss",
}
"""Phrases that are not written, whatever their capitals, and what is said instead."""

MOST_WORDS = 30


def prose(text: str) -> list[str]:
    """The paragraphs and list items of a page, without code, tables, headings and pictures; code in
    a sentence is one word.
    """
    text = re.sub(r"^```.*?^```$", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(?:#|\||!\[).*$", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`|\b\w+/[\w/-]+\.md\b", "CODE", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*]|\d+\.) ", "\n", text, flags=re.MULTILINE)
    return [" ".join(block.split()) for block in re.split(r"\n\s*\n", text) if block.strip()]


def sentences(text: str) -> list[str]:
    """Each ends with a full stop, or with its paragraph."""
    return [
        sentence
        for block in prose(text)
        for sentence in re.split(r"(?<=[.!?])[\"')*]* (?=\S)", block)
    ]


def words(text: str) -> list[str]:
    """What has a letter or a digit."""
    return [word for word in text.split() if re.search(r"\w", word)]


def too_long(text: str) -> list[str]:
    """Sentences of too many words."""
    return [sentence for sentence in sentences(text) if len(words(sentence)) > MOST_WORDS]


def chains_of_colons(text: str) -> list[str]:
    """Sentences with more than one colon."""
    return [sentence for sentence in sentences(text) if len(re.findall(r":(?= |$)", sentence)) > 1]


def banned(text: str) -> list[str]:
    """Phrases that are not written, with what to write."""
    return [
        f"{found[0]!r} in {block!r}: write {better!r}"
        for block in prose(text)
        for phrase, better in BANNED.items()
        for found in re.finditer(phrase, block, re.IGNORECASE)
    ]


def unclear(message: str) -> list[str]:
    """What is wrong with a message or a cell of a table, whose parts have semicolons between
    them.
    """
    parts = [re.sub(r"'[^']* --?[^']*'", "CODE", part) for part in message.split("; ")]
    return banned(message) + [
        problem for part in parts for problem in (*chains_of_colons(part), *too_long(part))
    ]
