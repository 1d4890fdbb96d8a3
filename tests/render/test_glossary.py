"""Every word that tables print has a meaning, and the documents say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dcpinspect.findings.rule import FAMILIES, SEVERITIES
from dcpinspect.render.explain import explain
from dcpinspect.render.glossary import GLOSSARY
from dcpinspect.streams import words as w
from dcpinspect.streams.contracts import ALL
from dcpinspect.streams.rollback import CAUSES as ROLLBACK_CAUSES
from dcpinspect.streams.transitions import SNAPSHOT_STATES
from dcpinspect.tables.schema import COLUMNS

LISTS = {
    "answer of a stream": w.ANSWERS,
    "verdict of a stream": w.STREAM_VERDICTS,
    "end_reason of a stream": w.END_REASONS,
    "verdict of a connection": w.CONNECTION_VERDICTS,
    "state of a snapshot": SNAPSHOT_STATES,
    "type of a snapshot": w.SNAPSHOT_TYPES,
    "layout of a snapshot marker": w.SNAPSHOT_LAYOUTS,
    "convention of a snapshot": w.CONVENTIONS,
    "cause of a gap": w.CAUSES,
    "cause of a rollback": ROLLBACK_CAUSES,
    "role of the TCP server": w.ROLES,
    "severity of a finding": SEVERITIES,
    "family of a rule": FAMILIES,
}


@pytest.mark.parametrize("topic", LISTS)
def test_every_word_of_a_list_has_a_meaning(topic: str) -> None:
    assert sorted(GLOSSARY[topic]) == sorted(LISTS[topic])


def test_every_word_is_explained() -> None:
    for topic, meanings in GLOSSARY.items():
        for word, meaning in meanings.items():
            lines = explain(word.upper())
            assert lines is not None
            assert lines[lines.index(f"{word}: {topic}") + 1] == f"  {meaning}"
    assert set(w.VBUCKET_VERDICTS) <= {word for meanings in GLOSSARY.values() for word in meanings}


def test_the_documents_say_the_same() -> None:
    text = (Path(__file__).parents[2] / "docs" / "streams.md").read_text("utf-8")
    documented = {}
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        rows = re.findall(r"^\| `([^`]+)` \|(?: `[^`]` \|)? (.+?) \|$", part.partition("\n## ")[0], re.MULTILINE)
        if rows:
            documented[part.partition("\n")[0].replace("`", "")] = {word: meaning.replace("`", "") for word, meaning in rows}
    assert documented
    assert documented == {topic: GLOSSARY[topic] for topic in documented}


def test_every_column_is_explained() -> None:
    for name in [*(column.name for column in COLUMNS), *(column.name for table in ALL for column in table.columns)]:
        assert explain(name) is not None, name
    assert explain("rtt_ns") == ["rtt_ns: column of messages", "  time from that request to the response"]
