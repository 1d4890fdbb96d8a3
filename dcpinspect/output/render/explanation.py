"""The texts of ``dcpinspect explain`` about a command, a status, a control key, a feature, a rule,
or pasted bytes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from dcpinspect.errors import UsageError
from dcpinspect.findings.rule import Rule
from dcpinspect.output.render.byte_grid import byte_grid
from dcpinspect.output.render.field_table import field_table
from dcpinspect.output.render.glossary import DOCS as PIPELINE
from dcpinspect.output.render.glossary import GLOSSARY
from dcpinspect.output.render.layout_table import layout_lines, status_lines
from dcpinspect.output.render.message_lines import short_name
from dcpinspect.output.render.palette import GLYPHS
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.command_statuses import COMMAND_STATUSES
from dcpinspect.protocol.control_keys import CONTROL_KEYS, control_key
from dcpinspect.protocol.features import FEATURES
from dcpinspect.protocol.fields import MessageSide
from dcpinspect.protocol.flags import OPEN_FLAGS, OSO_FLAGS, SNAPSHOT_FLAGS, STREAM_FLAGS
from dcpinspect.protocol.header import HEADER_SIZE, MAGIC_DOCS, Header, decode_header, encode_header
from dcpinspect.protocol.hextext import HexError, parse_hex, tcp_payload
from dcpinspect.protocol.layout_choice import choose
from dcpinspect.protocol.layouts import layouts_of
from dcpinspect.protocol.message import Context, Message
from dcpinspect.protocol.opcodes import DEVELOPMENT, Opcode, ServerOpcode, opcode_doc, opcode_name
from dcpinspect.protocol.statuses import Status
from dcpinspect.streams.words import by_side
from dcpinspect.text import clip, escape

MAX_MESSAGES = 1000
"""Greatest number of messages in pasted bytes that are explained."""
_SHOWN = 60
"""Number of columns of an unknown text that the error repeats."""
_MAGICS = tuple(bytes([magic]) for magic in MAGIC_DOCS)
_FLAGS = {
    "a DCP open": OPEN_FLAGS,
    "a stream request": STREAM_FLAGS,
    "a snapshot marker": SNAPSHOT_FLAGS,
    "an OSO snapshot": OSO_FLAGS,
}
_SHORT_NAMES = {
    "nmvb": "not_my_vbucket",
    "tmpfail": "etmpfail",
    "dedup": "deduplicated",
    "hsn": "high seqno",
}
"""Names that people say, and what stands for it in messages and tables."""


def explained(text: str) -> list[str]:
    """Returns what ``explain`` does. Raises UsageError, with what may have been meant, if the text
    is no name, number or bytes.
    """
    lines = explain(text)
    if lines is not None:
        return lines
    if not text.strip():
        raise UsageError("nothing to explain: give a name, a number, or bytes in hex")
    clipped = clip(escape(text.strip()), _SHOWN)
    if close := suggestions(text):
        raise UsageError(f"nothing is called {clipped}; did you mean {' or '.join(close)}?")
    try:
        parse_hex(text)
    except HexError as error:
        reason = f"{clipped} is no command, status, control key, feature, rule, word or column"
        is_word = re.fullmatch(r"[^\W\d]+(?:[ _-]+[^\W\d]+)*", text.strip()) is not None
        lists = "'dcpinspect check --list-rules' and 'dcpinspect read --columns' list names"
        more = f"; {lists}" if is_word else f", and no hex either: {error}"
        raise UsageError(reason + more) from None
    raise UsageError(f"{clipped} is the number of no command, status or feature")


def explain(text: str) -> list[str] | None:
    """Returns lines about a name, a number or bytes, with every meaning of an ambiguous one; None
    if the text is none of these.
    """
    asked = text.strip()
    word = _SHORT_NAMES.get(asked.lower(), asked)
    commands = _commands(word)
    # a number from DCP is more likely one of DCP's commands, or a status, than another command
    meanings = {
        "the command": [lines for lines in commands if lines[0].startswith("dcp_")],
        "the status": _statuses(word),
        "the command ": [lines for lines in commands if not lines[0].startswith("dcp_")],
        "the control key": _control_keys(word),
        "the feature": _features(word),
        "the rule": _rules(word),
        "the flag": _flags(word),
        "the word": _words(word),
    }
    meanings["the column"] = _columns(word)
    meanings["the sign"] = _signs(asked)
    if (meanings["the word"] or meanings["the status"]) and (rules := _rules_with_cause(asked)):
        rule_names = ", ".join(rule.id for rule in rules)
        meanings["the cause"] = [[f"{_joined(asked, '-')}: a cause in findings of {rule_names}"]]
    if not any(meanings.values()) and len(word) > 2 and word.lower().endswith("s"):
        singular = word[:-3] + "y" if word.lower().endswith("ies") else word[:-1]
        if (lines := explain(singular)) is not None:
            return lines  # several of what has a name
    if not any(meanings.values()):
        meanings["the cause"] = _causes(word)
    if not any(meanings.values()):
        meanings["the word"] = _words(re.sub(r"[\s_-]bytes$", "", word))
    if not any(meanings.values()):  # how a vbucket stands, as maps say it
        phrases = re.split(r"(?<=^ended): | (?=after a rollback$)", word)
        by_phrase = [*map(_words, phrases)]
        meanings["the word"] = [*chain(*by_phrase)] if all(by_phrase) else []
    explanations = [lines for texts in meanings.values() for lines in texts]
    if all(lines[0].endswith(" of a pipeline") for lines in explanations):
        meanings["the member"] = _members(word)
    titled = [(kind.strip(), lines) for kind, texts in meanings.items() for lines in texts]
    output: list[str] = []
    if len(titled) > 1 and _number(word) is not None:
        names = [f"{kind} {lines[0].partition(':')[0]}" for kind, lines in titled]
        output += [f"{escape(word)} is {', '.join(names[:-1])} and {names[-1]}", ""]
    for _, lines in titled:
        output += [*lines, ""]
    if output:
        return output[:-1]
    if _number(word) is not None:
        return None
    try:
        packets = parse_hex(text)
    except HexError:
        return None
    return explain_packets(packets) if any(packets) else None


def suggestions(text: str) -> list[str]:
    """Returns known names that look like an unknown word."""
    from dcpinspect.findings.registry import RULES  # deferred: needs NumPy and the decoder
    from dcpinspect.tables.schema import BY_NAME

    names = [op.name.lower() for op in Opcode] + [op.name.lower() for op in ServerOpcode]
    names += [short_name(name) for name in names if name.startswith("dcp_")]
    first = len(names)
    names += [status.name.lower() for status in Status]
    names += (
        [control.key for control in CONTROL_KEYS]
        + [feature.name for feature in FEATURES]
        + list(RULES)
    )
    names += [word for meanings in GLOSSARY.values() for word in meanings] + list(BY_NAME)
    other_commands = {
        op.name.lower() for op in (*Opcode, *ServerOpcode) if not op.name.startswith("DCP_")
    } - set(dict.fromkeys(names[first:]))
    names += [bit.name for bits in _FLAGS.values() for bit in bits]
    known = dict.fromkeys(names)
    whole_words = f"-{_joined(text, '-')}-"
    close = [name for name in known if whole_words in f"-{_joined(name, '-')}-"]
    long_enough = [name for name in known if 2 * len(name) > len(text.strip())]
    close += difflib.get_close_matches(text.strip(), long_enough, n=12, cutoff=0.65)
    close = [name for name in close if name.removesuffix("s") == name or name[:-1] not in close]
    # commands around DCP come after all that is DCP's, and those of TAP last, because they have
    # been out of use for long
    return sorted(
        dict.fromkeys(close), key=lambda name: (name.startswith("tap_"), name in other_commands)
    )[:3]


def explain_packets(packets: Sequence[bytes]) -> list[str]:
    """Explains the messages in pasted bytes, each as grid and field table; packet headers before
    them are skipped.
    """
    payload = b"".join(tcp_payload(packet) for packet in packets)
    headers = sum(map(len, packets)) - len(payload)
    output = [f"{headers} bytes of packet headers skipped", ""] if headers else []
    if not payload:
        return [*output, "no message after them"]
    offset = 0
    for offset, message in islice(messages_in(payload), MAX_MESSAGES):
        if offset:
            output += ["", f"at byte {offset}:"]
        output += [*byte_grid(message), "", *field_table(message)]
        supposed = _supposed(payload[offset:])
        if supposed is not None:
            lines, message = supposed
            return [*output, "", *lines, "", *byte_grid(message), "", *field_table(message)]
        offset += message.size
    if offset >= len(payload):
        return output
    return [*output, "", f"{len(payload) - offset} more bytes are not explained"]


def messages_in(data: bytes) -> Iterator[tuple[int, Message]]:
    """Yields the messages at the start of some bytes, each with its place; the last one is where no
    message follows. What was negotiated is guessed, because bytes alone have no HELLO.
    """
    offset = 0
    while offset < len(data):
        header = (
            decode_header(data[offset : offset + HEADER_SIZE])
            if len(data) - offset >= HEADER_SIZE
            else None
        )
        end = len(data) if header is None else offset + header.size
        is_last = data[end : end + 1] not in _MAGICS
        message_bytes = data[offset:] if is_last else data[offset:end]
        yield offset, annotate(message_bytes, context=_likely_context(message_bytes))
        if is_last:
            return
        offset = end


def _likely_context(data: bytes) -> Context:
    """Guesses whether keys have a collection id, because pasted bytes have no HELLO. No key without
    an id begins with certain bytes.
    """
    if len(data) < HEADER_SIZE:
        return Context()
    header = decode_header(data)
    key_start = HEADER_SIZE + header.framing_size + header.extras_size
    first = data[key_start] if header.key_size > 1 and key_start < len(data) else None
    if first is not None and (first == 0 or 8 <= first < 0x20):
        return Context("inferred")
    return Context()


def _supposed(data: bytes) -> tuple[list[str], Message] | None:
    """Returns lines and message, if a header says that there is no body although the command needs
    one, as in printed examples.

    The lines name the contradiction and what is assumed instead: all bytes that follow are the
    body, and the extras have the length of a layout that fits.
    """
    if len(data) <= HEADER_SIZE:
        return None
    header = decode_header(data)
    body = len(data) - HEADER_SIZE
    is_denied = header.value_size < 0 or (
        header.body_size == 0 and data[HEADER_SIZE] not in MAGIC_DOCS
    )
    if header.magic not in MAGIC_DOCS or not (is_denied or header.body_size == body):
        return None
    fixed = _divided(replace(header, body_size=body), data)
    if fixed.value_size < 0 or (not is_denied and fixed == header):
        return None
    message = annotate(encode_header(fixed) + data[HEADER_SIZE:], context=Context("off"))
    if header.value_size >= 0 and message.problems:
        return None
    wrong = (
        [f"total body {header.body_size}, and {body} bytes follow"]
        if header.body_size != body
        else []
    )
    words = f"the body is the {body} bytes that follow"
    if fixed.extras_size != header.extras_size:
        wrong.append(
            f"extras length {header.extras_size}, and a {message.name} in the "
            f"{message.generation} layout has {fixed.extras_size}"
        )
        words += (
            " and all of it is extras"
            if fixed.extras_size == body
            else f", {fixed.extras_size} of extras and {fixed.value_size} of value"
        )
    wrong += [problem.reason for problem in message.problems if problem.rule == "contradiction"]
    return [f"These bytes contradict themselves: {'; '.join(wrong)}.", "", f"If {words}:"], message


def _divided(header: Header, data: bytes) -> Header:
    """Returns the header with extras of a length that fits a layout, if its own does not."""
    declared = header.extras_size
    sizes = {
        layout.extras_size
        for layout in layouts_of(header.opcode, header.side, server=header.is_server)
    }
    extras_start = HEADER_SIZE + header.framing_size
    for size in (declared, *sorted(sizes - {declared})) if not header.key_size else ():
        tried = replace(header, extras_size=size)
        if tried.value_size >= 0:
            choice = choose(tried, data[extras_start : extras_start + size], tried.value_size)
            if choice.layout is not None and not choice.rule:
                return tried
    return header


def _number(word: str) -> int | None:
    try:
        number = int(word, 16) if word.lower().startswith("0x") else int(word)
    except ValueError:
        return None
    return number if 0 <= number <= 0xFFFF and len(word) <= 6 else None


def _commands(word: str) -> list[list[str]]:
    number = _number(word)
    name = _joined(word, "_")
    texts = []
    for server, table in ((False, Opcode), (True, ServerOpcode)):
        for op in table:
            full = op.name.lower()
            if number == int(op) or name in (full, short_name(full), full.removeprefix("dcp_")):
                texts.append(_command(int(op), server=server))
    return [*texts, *(_command(opcode, server=False) for opcode in DEVELOPMENT if opcode == number)]


def _command(opcode: int, *, server: bool) -> list[str]:
    name = opcode_name(opcode, server=server)
    table = ", of the magics 0x82 and 0x83" if server else ""
    lines = [f"{name}: opcode 0x{opcode:02x}{table}", f"  {opcode_doc(opcode, server=server)}"]
    sides: tuple[MessageSide, MessageSide] = ("request", "response")
    for side in sides:
        for layout in layouts_of(opcode, side, server=server):
            lines += ["", *layout_lines(layout)]
    if not server and opcode in COMMAND_STATUSES:
        lines += ["", "what it may be answered", *status_lines(COMMAND_STATUSES[opcode])]
    return lines


def _statuses(word: str) -> list[list[str]]:
    number = _number(word)
    name = _joined(word, "_")
    return [
        [f"{status.name.lower()}: status 0x{int(status):04x}", f"  {status.meaning}"]
        for status in Status
        if number == int(status) or name == status.name.lower()
    ]


def _control_keys(word: str) -> list[list[str]]:
    control = control_key(word) or control_key(_joined(word, "_"))
    if control is None:
        return []
    lines = [
        f"{control.key}: DCP control key, since {control.since}",
        f"  {control.doc}",
        f"  values: {control.values}",
        f"  default: {control.default}",
    ]
    return [[*lines, f"  refused: {control.failure}"] if control.failure else lines]


def _rules(word: str) -> list[list[str]]:
    # other words are not rules; the module of rules loads NumPy and the decoder
    name = _joined(word, "-")
    if "-" not in name and name not in ("rollback", "failover"):
        return []
    from dcpinspect.findings.registry import RULES

    return [list(rule_lines(RULES[name]))] if name in RULES else []


def _causes(word: str) -> list[list[str]]:
    title = f"{_joined(word, '-')}: a cause of findings of"
    return [[f"{title} {rule.id}", "", *rule_lines(rule)] for rule in _rules_with_cause(word)]


def _rules_with_cause(word: str) -> list[Rule]:
    from dcpinspect.findings.registry import RULES  # deferred, as above

    name = _joined(word, "-")
    return [
        rule
        for rule in RULES.values()
        if name
        and (name in rule.causes or (not isinstance(rule.whose, str) and name in rule.whose))
    ]


def _words(word: str) -> list[list[str]]:
    from dcpinspect.diff.difference_columns import MEANINGS  # deferred: it needs NumPy

    name = _joined(word, "")
    entries = (
        (topic, term, meaning)
        for topic, meanings in {**GLOSSARY, "kind of difference": MEANINGS}.items()
        for term, meaning in meanings.items()
    )
    return [
        [f"{term}: {topic}", f"  {meaning}"]
        for topic, term, meaning in entries
        for noun in [topic.rpartition(" ")[2]]
        for title in [meaning.partition(":")[0]]  # as tables name a convention
        if name in (_joined(text, "") for text in (term, f"{noun} {term}", f"{term} {noun}", title))
    ]


def _joined(word: str, by: str) -> str:
    """Returns a name in small letters; space, hyphen and underscore are the same."""
    return re.sub(r"[\s_-]+", by, word.strip().lower())


def _flags(word: str) -> list[list[str]]:
    name = _joined(word, "-")
    return [
        [f"{bit.name}: flag 0x{bit.mask:x} of {message_name}", f"  {bit.doc}"]
        for message_name, bits in _FLAGS.items()
        for bit in bits
        if bit.name == name
    ]


def _columns(word: str) -> list[list[str]]:
    name = _joined(word, "_")
    if not re.fullmatch(r"[a-z][a-z_0-9]*", name):
        return []
    from dcpinspect.diff.difference_columns import PATHS  # deferred: these need NumPy
    from dcpinspect.findings.finding_records import CONTRACTS
    from dcpinspect.findings.logs.log_events import LOG_EVENTS
    from dcpinspect.output.render.column_help import words_of
    from dcpinspect.tables.schema import BY_NAME

    # JSON and Parquet have a time with all digits under this name
    time_name = name.removesuffix("_ns") if name.endswith("_time_ns") else ""
    docs: dict[tuple[str, str], list[str]] = {}
    columns_of = {"messages": tuple(BY_NAME.values())} | {
        table: contract.columns
        for table, contract in {**CONTRACTS, "paths": PATHS, "log": LOG_EVENTS}.items()
    }
    for table, columns in columns_of.items():
        for column in columns:
            if column.name == name or (column.name == time_name and table != "messages"):
                unit = ", in nanoseconds since 1970" if column.name == time_name else ""
                docs.setdefault((column.doc + unit, words_of(column)), []).append(table)
    for table, meanings in PIPELINE.items():
        if name in meanings:
            docs.setdefault((meanings[name], ""), []).append(f"{table} of a pipeline")
    return [
        [f"{name}: column of {', '.join(names)}", f"  {doc}", *([f"  {words}"] if words else [])]
        for (doc, words), names in docs.items()
        if doc != name.replace("_", " ")  # says nothing
    ]


def _members(word: str) -> list[list[str]]:
    """Explains a member of records as JSON that is no column, from their schemas."""
    from dcpinspect.output.export.table_schema import SCHEMAS  # deferred: it needs NumPy

    name, docs = _joined(word, "_"), dict[str, list[str]]()
    for output, schema in SCHEMAS.items():
        for doc in descriptions(schema, name):
            docs.setdefault(doc, []).append(output)
    return [
        [f"{name}: in JSON of {', '.join(dict.fromkeys(outputs))}", f"  {doc}"]
        for doc, outputs in docs.items()
    ]


def descriptions(schema: Any, name: str) -> Iterator[str]:
    """Yields what a JSON schema says of each member of this name, at any depth."""
    if isinstance(schema, dict):
        properties = schema.get("properties", {})
        if isinstance(properties, dict) and name in properties:
            yield properties[name]["description"]
    inner = schema.values() if isinstance(schema, dict) else schema
    if isinstance(schema, dict | list):
        for form in inner:
            yield from descriptions(form, name)


def _signs(sign: str) -> list[list[str]]:
    """Explains a letter or glyph of timelines, lists and maps."""
    if len(sign) != 1:
        return []
    from dcpinspect.output.render.event_lines import EFFECT  # deferred: these need NumPy
    from dcpinspect.output.render.lanes import UNICODE, legend
    from dcpinspect.output.render.message_lines import ARROWS
    from dcpinspect.output.render.verdict import LETTERS

    meanings = [one.word for line in legend() for one in line if sign in one.glyph]
    meanings += [
        word
        for signs, word in (
            (EFFECT, "explained by the finding above"),
            (UNICODE.density, "items"),
            (UNICODE.back, "a rollback leads back to here"),
            (UNICODE.end, "the line of the stream ends here"),
            (ARROWS[0], "from the client to the server"),
            (ARROWS[1], "from the server to the client"),
        )
        if sign in signs
    ]
    meanings += [severity for severity, glyph in GLYPHS.items() if glyph == sign]
    on_maps = [f"on a map: {state}" for state, letter in LETTERS.items() if letter == sign]
    texts = [*dict.fromkeys(meanings), *on_maps]
    return [[f"{sign}: sign of an output", *(f"  {text}" for text in texts)]] if texts else []


def _features(word: str) -> list[list[str]]:
    number = _number(word)
    return [
        [
            f"{feature.name}: HELLO feature 0x{feature.code:02x} ({feature.effect})",
            f"  {feature.doc}",
        ]
        for feature in FEATURES
        if feature.name.lower() == word.lower() or number == feature.code
    ]


def rule_lines(rule: Rule) -> Iterator[str]:
    """Yields the text about a rule, for the terminal."""
    yield f"{rule.id}: {rule.severity} of the family {rule.family}"
    yield f"  found when: {rule.fires}"
    if rule.unless:
        yield f"  not when: {rule.unless}"
    whose = re.sub(r"\bnormal\b", "normal, so nobody is at fault", whose_of(rule))
    swapped = "; for a node that replicates to another one, client and server are swapped"
    yield f"  whose: {by_side(whose)}{swapped if by_side(whose) != whose else ''}"
    costs = dict.fromkeys(filter(None, map(rule.cost_of, ("", *rule.causes))))
    if costs:
        yield f"  costs: {', or '.join(f'a {cost.of} {cost.one}' for cost in costs)}"
    yield f"  next: {by_side(rule.next)}"
    if rule.causes:
        yield f"  causes: {', '.join(rule.causes)}"
    if rule.reports:
        yield f"  reported as: {', '.join(rule.reports)}"


def whose_of(rule: Rule) -> str:
    """Returns who has to change something, by cause if this differs."""
    if isinstance(rule.whose, str):
        return rule.whose
    causes: dict[str, list[str]] = {}
    for cause, blamed in rule.whose.items():
        causes.setdefault(blamed, []).append(cause)
    return "; ".join(
        f"{blamed} ({', '.join(names)})" if any(names) else blamed
        for blamed, names in causes.items()
    )
