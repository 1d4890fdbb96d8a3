"""The filter language: a condition over the columns of the messages table, in the part of SQL that
every engine reads alike.

::

    name = 'dcp_mutation' and vbucket in (1, 5) and by_seqno > 100
    key like 'user::%' or (status_name = 'rollback' and not rtt_ns < 1000000)
    @errors and time between '2024-04-06 05:34' and '2024-04-06 05:35'

Comparisons, ``and``, ``or``, ``not``, ``in``, ``between``, ``like``, ``is null``, values, and
``@name`` for a filter that was saved under a name. Nothing else: no functions, arithmetic or
sub-selects. A text is checked as a whole before anything is read: columns, the values they can
take, and that it is a condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.tables.column_kinds import Column
from dcpinspect.tables.filter_tree import (
    And,
    ColumnName,
    Compare,
    Condition,
    Constant,
    FilterSource,
    IsNull,
    Not,
    Operator,
    Or,
    TextPosition,
    Truth,
    names,
)
from dcpinspect.tables.filter_values import comparison, family, likeness, membership
from dcpinspect.tables.presets import FILTERS
from dcpinspect.tables.schema import BY_NAME
from dcpinspect.text import clip, did_you_mean, escape

MAX_LENGTH = 65_536
"""Greatest length of a filter in characters, with the saved filters that it calls, each as often as
it is called; a list of some thousand keys fits.
"""
MAX_DEPTH = 100
"""Greatest depth of nested parentheses, negations and saved filters."""

_SHOWN = 40
"""Number of columns of a word that an error repeats."""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter that was parsed and checked."""

    condition: Condition
    columns: tuple[str, ...]
    """Columns that the filter reads, in the order of the table."""


def parse_filter(
    text: str,
    *,
    name: str = "--filter",
    saved: Mapping[str, FilterSource] | None = None,
    columns: Mapping[str, Column] = BY_NAME,
) -> Filter:
    """Parses a filter. ``columns``: for a table other than messages, its columns; such tables have
    no built-in filters.

    ``name``: where the filter was written, for errors. ``saved``: filters that it can use as
    ``@name``, besides the built-in ones. Raises PlacedError, which points at the mistake.
    """
    built_in = (
        {
            preset: FilterSource(f"@{preset}", preset_filter.text)
            for preset, preset_filter in FILTERS.items()
        }
        if columns is BY_NAME
        else {}
    )
    condition = _Parser(
        FilterSource(name, text), {**built_in, **(saved or {})}, (), columns=columns
    ).condition()
    read = names(condition)
    return Filter(
        condition,
        tuple(column for column in columns if column in read)
        + tuple(sorted(read - columns.keys())),
    )


def both(one: Filter, other: Filter) -> Filter:
    """Returns the filter of messages that both filters let through."""
    read = {*one.columns, *other.columns}
    return Filter(
        And((one.condition, other.condition)), tuple(column for column in BY_NAME if column in read)
    )


TokenKind = Literal["number", "text", "bytes", "word", "saved", "sign", "unreadable", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text of a filter."""

    kind: TokenKind
    text: str
    """Words in lower case, text without its quotes; for an unreadable piece, the reason."""
    place: TextPosition


_TOKENS = re.compile(
    r"""(?P<blank>\s+)
    |(?P<bytes>[xX]'(?P<digits>[^']*)')
    |(?P<text>'(?:[^']|'')*')
    |(?P<number>[0-9][0-9A-Za-z_.]*)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)?)
    |(?P<saved>@[A-Za-z0-9_-]+)
    |(?P<sign><=|>=|<>|!=|==|--|/\*|&&|\|\||::|[-=<>(),])""",
    re.VERBOSE,
)
_HEX = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_OPERATORS: dict[str, Operator] = {sign: sign for sign in get_args(Operator)}
_OPERATORS |= {"==": "=", "!=": "<>"}
_KEYWORDS = frozenset(
    {"and", "or", "not", "in", "between", "like", "escape", "is", "null", "true", "false"}
)
_INSTEAD = {
    '"': "text is put in single quotes, and names of columns in none",
    "`": "names of columns are written without quotes",
    ";": "a filter is one condition, without a semicolon",
    "--": "a filter has no comments",
    "/*": "a filter has no comments",
    "&&": "write 'and' instead",
    "||": "write 'or' instead",
    "!": "write 'not' instead",
    "&": "a filter has no arithmetic; bits have names, as in flags = 'producer'",
    "::": "a filter has no casts",
    ".": "names of columns are written without a table",
    **dict.fromkeys("+*/%^|", "a filter has no arithmetic"),
    "~": "a filter has no regular expressions; use like, as in key like 'user::%'",
    "@": "name the saved filter, as in @errors",
    "ilike": "use like; it distinguishes capital and small letters",
    **dict.fromkeys(
        ("glob", "regexp", "rlike", "similar", "matches", "contains"),
        "use like, as in key like 'user::%'",
    ),
    **dict.fromkeys(
        ("select", "where", "from", "case", "exists"),
        "a filter is one condition; 'dcpinspect sql' takes whole queries",
    ),
}


def _tokens(source: FilterSource) -> list[Token]:
    """Returns the pieces of a text up to its end, or up to an unreadable piece, so that earlier
    mistakes are reported first.
    """
    text, position, tokens = source.text, 0, list[Token]()
    while position < len(text):
        match = _TOKENS.match(text, position)
        span = TextPosition(source, position, match.end() if match else position + 1)
        if match is None:
            character = text[position]
            reason = _INSTEAD.get(character) or (
                "the text has no closing quote"
                if character == "'"
                else f"{escape(character)} is not part of the language of filters"
            )
            return [*tokens, Token("unreadable", reason, span)]
        position = match.end()
        if match.lastgroup != "blank":
            tokens.append(_token(match, span))
            if tokens[-1].kind == "unreadable":
                return tokens
    return [*tokens, Token("end", "", TextPosition(source, position, position))]


def _token(match: re.Match[str], position: TextPosition) -> Token:
    """Returns the token of a match. It is unreadable if engines read it in different ways."""
    text = match[0]
    if match["bytes"]:
        if re.fullmatch(r"(?:[0-9a-fA-F]{2})*", match["digits"]) is None:
            return Token(
                "unreadable", "bytes are pairs of hexadecimal digits, as in x'00ff'", position
            )
        return Token("bytes", match["digits"], position)
    if match["text"]:
        if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in text):
            problem = (
                "text is UTF-8 without NUL; other keys are compared as bytes, as in "
                "key_bytes = x'00ff'"
            )
            return Token("unreadable", problem, position)
        return Token("text", text[1:-1].replace("''", "'"), position)
    if match["number"]:
        if text.isdecimal() or _HEX.fullmatch(text):
            return Token("number", text, position)
        return Token("unreadable", f"{clip(escape(text), _SHOWN)} is no whole number", position)
    if match["saved"]:
        return Token("saved", text[1:], position)
    if match["word"]:
        return Token("word", text.lower(), position)
    if text in _INSTEAD:
        return Token("unreadable", _INSTEAD[text], position)
    return Token("sign", text, position)


class _Parser:
    """A recursive-descent parser for a source's tokens, a method for each precedence."""

    def __init__(
        self,
        source: FilterSource,
        saved: Mapping[str, FilterSource],
        inside: tuple[str, ...],
        depth: int = 0,
        *,
        columns: Mapping[str, Column],
        called: _Parser | None = None,
    ) -> None:
        """``called``: the parser of the filter that calls this one, which is a saved one."""
        self._whole: _Parser = self if called is None else called._whole
        self.length = 0
        """Characters of the filter and of what it called so far: a few that call each other twice
        would stand for millions.
        """
        self._whole.length += len(source.text)
        if self._whole.length > MAX_LENGTH:
            subject = (
                "the filter"
                if called is None
                else "the filter, with the saved filters that it calls,"
            )
            raise TextPosition(source, 0, 0).error(
                f"{subject} is longer than {MAX_LENGTH} characters"
            )
        self._tokens = _tokens(source)
        self._at = 0
        self._saved = saved
        self._inside = inside
        """Names of the saved filters that are being parsed."""
        self._depth = depth
        self._columns = columns

    def condition(self) -> Condition:
        """Returns the condition that the whole text consists of."""
        if self._next.kind == "end":
            raise self._next.place.error(
                "the filter is empty; write a condition, as in vbucket = 5"
            )
        condition = self._either()
        token = self._next
        if token.kind != "end":
            if token.text == ")":
                raise token.place.error("this parenthesis was not opened")
            if token.text in _OPERATORS:
                raise token.place.error("a comparison has two sides; join two of them with and")
            before = self._tokens[self._at - 1]
            if before.kind == "text" and before.place.end == token.place.start:
                raise token.place.error("a quote within text is doubled, as in 'it''s'")
            raise token.place.error(_INSTEAD.get(token.text) or "join conditions with and or or")
        return condition

    # -- tokens --

    @property
    def _next(self) -> Token:
        token = self._tokens[self._at]
        if token.kind == "unreadable":
            raise token.place.error(token.text)
        return token

    def _next_token(self) -> Token:
        token = self._next
        self._at += token.kind != "end"
        return token

    def _accept(self, *texts: str) -> Token | None:
        """Takes the next token if it is one of these keywords or signs; otherwise returns None."""
        token = self._next
        return (
            self._next_token() if token.kind in ("word", "sign") and token.text in texts else None
        )

    def _expect(self, text: str, what: str) -> Token:
        token = self._accept(text)
        if token is None:
            raise self._next.place.error(what)
        return token

    def _deeper(self, position: TextPosition) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise position.error(f"conditions are nested more than {MAX_DEPTH} deep")

    # -- conditions --

    def _either(self) -> Condition:
        items = [self._both()]
        while self._accept("or"):
            items.append(self._both())
        return items[0] if len(items) == 1 else Or(tuple(items))

    def _both(self) -> Condition:
        items = [self._negated()]
        while self._accept("and"):
            items.append(self._negated())
        return items[0] if len(items) == 1 else And(tuple(items))

    def _negated(self) -> Condition:
        token = self._accept("not")
        if token is None:
            return self._single()
        self._deeper(token.place)
        condition = Not(self._negated())
        self._depth -= 1
        return condition

    def _single(self) -> Condition:
        """Parses a condition in parentheses, a saved condition, or a condition about a column."""
        token = self._next
        if self._accept("("):
            self._deeper(token.place)
            condition = self._either()
            self._expect(")", "a closing parenthesis is missing")
            self._depth -= 1
        elif token.kind == "saved":
            condition = self._saved_condition(self._next_token())
        else:
            return self._about(self._operand())
        if self._next.text in _OPERATORS:
            raise self._next.place.error("columns and values are compared, not conditions")
        return condition

    def _saved_condition(self, token: Token) -> Condition:
        source = self._saved.get(token.text)
        if source is None:
            saved_names = (
                f"there are {', '.join(f'@{name}' for name in sorted(self._saved))}"
                if self._saved
                else "the config file has none"
            )
            close = did_you_mean(token.text, self._saved) or f"; {saved_names}"
            raise token.place.error(f"no filter is saved as @{token.text}{close}")
        if token.text in self._inside:
            raise token.place.error(f"@{token.text} refers to itself")
        self._deeper(token.place)
        inside = (*self._inside, token.text)
        condition = _Parser(
            source, self._saved, inside, self._depth, columns=self._columns, called=self
        ).condition()
        self._depth -= 1
        return condition

    def _about(self, left: ColumnName | Constant) -> Condition:
        """Parses what is said about an operand."""
        token = self._next_token()
        if token.text in _OPERATORS and token.kind == "sign":
            return comparison(_OPERATORS[token.text], left, self._operand(), token.place)
        if token.kind == "word" and token.text == "is":
            column = self._column(left, "is null")
            negation = self._accept("not")
            self._expect("null", "only is null and is not null can be asked here")
            return Not(IsNull(column)) if negation else IsNull(column)
        negation = token if token.kind == "word" and token.text == "not" else None
        if negation:
            token = self._next_token()
        condition = self._predicate(left, token)
        if condition is not None:
            return Not(condition) if negation else condition
        if negation:
            raise token.place.error("behind not, in, between or like is missing")
        return self._alone(left, token)

    def _predicate(self, left: ColumnName | Constant, token: Token) -> Condition | None:
        """Parses ``in``, ``between`` and ``like``; returns None if the token is none of them."""
        if token.kind != "word":
            return None
        if token.text == "in":
            return membership(self._column(left, "in"), self._values())
        if token.text == "between":
            low = self._operand()
            self._expect("and", "between takes two bounds, as in between 1 and 5")
            high = self._operand()
            return And(
                (
                    comparison(">=", left, low, token.place),
                    comparison("<=", left, high, token.place),
                )
            )
        if token.text == "like":
            column, pattern = self._column(left, "like"), self._value("a pattern")
            return likeness(
                column,
                pattern,
                self._value("a character") if self._accept("escape") else None,
                token.place,
            )
        return None

    def _alone(self, left: ColumnName | Constant, token: Token) -> Condition:
        """Parses an operand without a comparison: it is a condition only if it is true or false."""
        is_end = token.kind == "end" or token.text in (")", "and", "or")
        if not is_end:
            raise token.place.error(
                _INSTEAD.get(token.text) or "a comparison is missing here, such as =, < or in"
            )
        self._at -= token.kind != "end"
        if isinstance(left, Constant):
            if isinstance(left.value, bool):
                return Truth(left.value)
            raise left.place.error("a value alone is no condition; compare a column with it")
        if family(left.column) != "truth":
            example = (
                f"{left.column.name} = 5"
                if family(left.column) == "number"
                else f"{left.column.name} is not null"
            )
            raise left.place.error(
                f"{left.column.name} alone is no condition; write one, as in {example}"
            )
        return Compare("=", left, Constant(True, left.place))

    # -- operands --

    def _values(self) -> list[Constant]:
        self._expect("(", "in takes a list, as in in (1, 5)")
        values = [self._value("a value")]
        while self._accept(","):
            values.append(self._value("a value"))
        self._expect(")", "a comma or a closing parenthesis is missing")
        return values

    def _value(self, what: str) -> Constant:
        operand = self._operand()
        if isinstance(operand, ColumnName):
            raise operand.place.error(f"{what} is expected here, not a column")
        return operand

    @staticmethod
    def _column(operand: ColumnName | Constant, what: str) -> ColumnName:
        if isinstance(operand, Constant):
            raise operand.place.error(f"{what} is asked of a column, not of a value")
        return operand

    def _operand(self) -> ColumnName | Constant:
        token = self._next_token()
        token_position = token.place
        if token.text == "-" and token.kind == "sign" and self._next.kind == "number":
            token = self._next_token()
            return Constant(
                -_number(token),
                TextPosition(token_position.source, token_position.start, token.place.end),
            )
        match token.kind:
            case "number":
                return Constant(_number(token), token_position)
            case "text":
                return Constant(token.text, token_position)
            case "bytes":
                return Constant(bytes.fromhex(token.text), token_position)
            case "word" if token.text in ("true", "false"):
                return Constant(token.text == "true", token_position)
            case "word" if token.text == "null":
                raise token_position.error("nothing equals null; write is null or is not null")
            case "word" if token.text not in _KEYWORDS:
                return self._named(token)
        if token.kind == "saved":
            raise token_position.error(f"@{token.text} is a condition, and cannot be compared")
        raise token_position.error(
            _INSTEAD.get(token.text) or "a column or a value is missing here"
        )

    def _named(self, token: Token) -> ColumnName:
        if token.text in self._columns:
            return ColumnName(self._columns[token.text], token.place)
        if token.text in _INSTEAD:
            raise token.place.error(_INSTEAD[token.text])
        if "." in token.text and token.text.partition(".")[2] in self._columns:
            raise TextPosition(
                token.place.source, token.place.start + token.text.index("."), token.place.end
            ).error(_INSTEAD["."])
        written = token.place.source.text[token.place.start : token.place.end]
        if self._next.text == "(" and self._next.kind == "sign":
            raise token.place.error(f"a filter has no functions, such as {clip(written, _SHOWN)}")
        shown_name = clip(written, _SHOWN)
        is_value = (
            self._tokens[self._at - 2].text in (*_OPERATORS, ",", "like", "between")
            and self._at > 1
        )
        all_of_them = (
            "'dcpinspect read --columns' lists them"
            if self._columns is BY_NAME
            else f"there are {', '.join(self._columns)}"
        )
        hint = f"text is put in single quotes: '{shown_name}'" if is_value else all_of_them
        raise token.place.error(
            "no column is called "
            f"{shown_name}{did_you_mean(token.text, self._columns) or f'; {hint}'}"
        )


def _number(token: Token) -> int:
    if len(token.text) > _SHOWN:  # no column has such values, and int() takes quadratic time
        raise token.place.error("the number is beyond 64 bits")
    return int(token.text, 16 if _HEX.fullmatch(token.text) else 10)
