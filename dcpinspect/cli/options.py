"""Options that mean the same in every command: declared once, and used as types in signatures of commands.

``def read(captures: Captures, vbucket: VBuckets = None, …)``. Options hold text as typed; the command parses it where it uses it.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from dcpinspect.cli import completion, terminal
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.escape import escape
from dcpinspect.export.formats import FORMATS, Format
from dcpinspect.suggest import did_you_mean

if TYPE_CHECKING:
    from dcpinspect.cli.config import Config
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.spark.secrets import Secrets
    from dcpinspect.tables.color_rules import ColorRules
    from dcpinspect.tables.filter_rows import FilterRows
    from dcpinspect.tables.filter_tree import Source
    from dcpinspect.tables.select import Selection
    from dcpinspect.tables.times import Span


def with_folders(names: Sequence[str] | None) -> list[str]:
    """Returns the names of captures, with directories replaced by their captures. What the command writes is as private as they are."""
    from dcpinspect.capture import folders, rights  # deferred: only a command that runs needs them

    paths = folders.with_folders(names or ())
    rights.be_as_private_as(paths)
    return paths


Captures = Annotated[
    list[str],
    typer.Argument(
        metavar="CAPTURE…",
        callback=with_folders,
        help="Capture files, or directories of them, read as one in order of time. - is standard input.",
    ),
]
Port = Annotated[
    list[str] | None,
    typer.Option(
        "--port", metavar="PORT|auto", help="A server port besides 11210 and 11207. auto finds any that carries DCP. May be repeated."
    ),
]
Stats = Annotated[
    bool, typer.Option("--stats", help="At the end, print on standard error how many packets and bytes were read, skipped or lost.")
]
Limit = Annotated[int | None, typer.Option("-n", "--limit", metavar="N", min=0, help="Stop after N messages, counted after the filters.")]
Skip = Annotated[int, typer.Option("--skip", metavar="N", min=0, help="Leave out the first N messages, counted after the filters.")]
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]
OutputFormat = Annotated[
    FormatName | None,
    typer.Option("--format", "-f", show_default=False, help="The format. By default, the name of -o FILE chooses it, or it is text."),
]
OutputFile = Annotated[
    str | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write to this file, which appears when it is complete. - is standard output."),
]
Write = Annotated[
    str | None, typer.Option("--write", "-w", metavar="FILE", help="Also write the packets of the messages to this file, as pcapng.")
]
WithHandshakes = Annotated[
    bool,
    typer.Option(
        "--with-handshakes",
        help="For -w, also write how each connection began (TCP and TLS handshake, HELLO, bucket, DCP open and controls).",
    ),
]
WithSecrets = Annotated[
    bool,
    typer.Option(
        "--with-secrets",
        help="For -w, also write the TLS secrets of the connections written, and how they began. Whoever has the file can decrypt it.",
    ),
]
Decrypted = Annotated[
    bool,
    typer.Option("--decrypted", help="For -w, write the messages of TLS in plain text, in packets made for them."),
]
CsvGuard = Annotated[
    bool,
    typer.Option("--csv-guard/--no-csv-guard", help="For CSV, put an apostrophe before a text that a spreadsheet would run as a formula."),
]
Redact = Annotated[
    bool,
    typer.Option("--redact", help="Replace keys, values and names by pseudonyms. Equal texts get equal pseudonyms within this run."),
]
RedactSalt = Annotated[
    str | None,
    typer.Option("--redact-salt", metavar="TEXT", help="Redact with this salt. Runs with the same salt have the same pseudonyms."),
]

RedactOutput = Annotated[
    bool,
    typer.Option("--redact", help="Replace keys, values and names by pseudonyms in all tables. All else that OUT keeps is encrypted."),
]
SaltFile = Annotated[
    str | None,
    typer.Option(
        "--salt-file",
        metavar="FILE",
        help="The salt of --redact. By default, it is OUT.salt beside OUT, which the first run makes, and nobody but you can read.",
    ),
]

Rows = Annotated[str | None, typer.Option("--row", metavar="LIST", help="Only these rows, as in 99,100-112.")]
VBuckets = Annotated[str | None, typer.Option("--vbucket", metavar="LIST", help="Only these vbuckets, as in 1,5-9.")]
Opcodes = Annotated[
    str | None,
    typer.Option(
        "--opcode",
        metavar="LIST",
        autocompletion=completion.opcodes,
        help="Only these commands, by name or number, as in dcp_mutation,0x58.",
    ),
]
Connections = Annotated[str | None, typer.Option("--connection", metavar="LIST", help="Only these connections, as in 1,3-4.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="GLOB",
        help="Only messages whose key matches, as in 'user::*'. Most answers have no key; --filter has request_key.",
    ),
]
Statuses = Annotated[
    str | None,
    typer.Option(
        "--status", metavar="LIST", autocompletion=completion.statuses, help="Only responses of these statuses, by name or number."
    ),
]
Collections = Annotated[
    str | None,
    typer.Option("--collection", metavar="LIST", help="Only these collections, by name or id, as in produce.fruit,fruit,0,8-0xa."),
]

Filter = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="SQL",
        autocompletion=completion.message_filters,
        help='Only where this is true, as in "vbucket in (1, 5) and by_seqno > 100"; @name is a saved filter.',
    ),
]


class Level(StrEnum):
    """Severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


Rules = Annotated[
    list[str] | None,
    typer.Option("--rule", metavar="RULE", autocompletion=completion.rules, help="Only this rule, and those of --family. May be repeated."),
]
Families = Annotated[
    list[str] | None,
    typer.Option(
        "--family",
        metavar="FAMILY",
        autocompletion=completion.families,
        help="Only rules of this family, and those of --rule. May be repeated.",
    ),
]
Lint = Annotated[bool, typer.Option("--lint", help="Also check the recommendations to clients (the rules of the family lint).")]
NoRules = Annotated[
    list[str] | None, typer.Option("--no-rule", metavar="RULE", autocompletion=completion.rules, help="Not this rule. May be repeated.")
]
Severity = Annotated[Level | None, typer.Option("--severity", show_default=False, help="Only findings of this severity, or worse.")]

Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TIME",
        help="Only from this time on. It is in UTC ('2024-04-06 12:03:41', 12:03:41), after the start (90s, 10m), or"
        " before the end (-10m).",
    ),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Only before this time, which is written as for --since.")]

Ascii = Annotated[bool, typer.Option("--ascii", help="Draw with ASCII characters only.")]


def list_columns(context: typer.Context, text: str | None) -> str | None:
    """Prints the columns of the command's output and exits, if ``--columns`` stands alone."""
    if text != "" or context.resilient_parsing:
        return text
    from dcpinspect.cli.config import COLUMN_SETS  # deferred: only needed on request
    from dcpinspect.render.columns import columns_list, columns_of_tables

    config: Config = context.obj
    tables = completion.tables_of(context)
    lines = columns_of_tables(tables) if tables else columns_list(config.saved(COLUMN_SETS))
    terminal.put_folded(lines)
    raise typer.Exit


STDIN = "-"
WITHOUT_VALUE = ("--columns",)
"""Options that may stand without a value, which is then the empty text."""

Columns = Annotated[
    str | None,
    typer.Option(
        "--columns",
        metavar="[LIST]",
        callback=list_columns,
        is_eager=True,
        autocompletion=completion.message_columns,
        help="Show these columns, as in name,vbucket,by_seqno or @seqnos. Without a list, list all columns.",
    ),
]

_LINT = "lint"
"""The family of rules that are only checked on request."""

T = TypeVar("T")


def shared(function: Callable[..., Any], *, without: Sequence[str] = ()) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Gives a command the options of ``function``, besides its own; the command gets them as ``**choices``, to pass them on.

    typer reads options from signatures. Parameters of ``function`` without a default are not options. ``without``: options to leave out.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        theirs = [one for one in inspect.signature(function, eval_str=True).parameters.values() if one.default is not one.empty]
        others = [one.replace(kind=one.KEYWORD_ONLY) for one in theirs if one.name not in (*signature.parameters, *without)]
        setattr(command, "__signature__", signature.replace(parameters=[*own, *others]))  # noqa: B010 - functions do not declare it
        return command

    return decorate


def taken(function: Callable[..., T], choices: dict[str, Any]) -> T:
    """Takes the options of ``function`` out of ``choices``, and calls ``function`` with them. See ``shared``."""
    return function(**{name: choices.pop(name) for name in inspect.signature(function).parameters})


def is_typed(context: typer.Context, parameter: str) -> bool:
    """Whether a parameter was given on the command line, not by the config file, whose defaults are ignored where they do not fit."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, format_: Format) -> None:
    """Raises UsageError for a typed option that other formats use, but not ``format_``."""
    for option in context.command.params:
        formats = [one.name for one in FORMATS.values() if option.name in one.options]
        if formats and format_.name not in formats and is_typed(context, option.name or ""):
            one_of = ", ".join(formats[:-1]) + f" or {formats[-1]}" if len(formats) > 1 else formats[0]
            raise UsageError(f"{_spelling(context, option)}: {format_} does not use it; it is for --format {one_of}")


def refuse_others(context: typer.Context, flag: str, users: Sequence[str]) -> None:
    """Raises UsageError for a typed option that ``flag`` does not use. ``users``: the parameters that it uses."""
    for option in context.command.params:
        if option.name not in users and is_typed(context, option.name or ""):
            raise UsageError(f"{_spelling(context, option)}: {flag} does not use it; leave one of them out")


def refuse_with_columns(context: typer.Context, others: Sequence[str]) -> None:
    """Raises UsageError if ``--columns`` was typed together with one of the ``others``, which are for showing whole messages."""
    for option in context.command.params:
        if is_typed(context, "columns") and option.name in others and is_typed(context, option.name or ""):
            raise UsageError(f"{_spelling(context, option)}: is for whole messages, and --columns shows columns; leave one of them out")


def _spelling(context: typer.Context, option: Any) -> str:
    """Returns an option as it was typed, in its long form."""
    is_negated = bool(option.secondary_opts) and not context.params[option.name]
    spelling: str = max(option.secondary_opts if is_negated else option.opts, key=len)
    return spelling


def redactor(is_wanted: bool, salt: str | None) -> Redactor | None:
    """Returns the redactor for ``--redact`` and ``--redact-salt``, which also asks for it. Raises UsageError for an empty salt."""
    if salt is None and not is_wanted:
        return None
    if salt == "":
        raise UsageError("--redact-salt: is empty; give a text that others cannot guess, or --redact alone for a random one")
    from dcpinspect.protocol.redact import Redactor  # deferred: only redaction needs it

    return Redactor(None if salt is None else salt.encode(errors="surrogateescape"))


SparkMaster = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master, as in local[4]. By default, it is this machine.")
]
CapturePoint = Annotated[
    str | None,
    typer.Option(
        "--capture-point",
        metavar="dir|stem|name:NAME",
        help="How files belong to one capture point. By default, by their directory (dir). stem takes the name without its "
        "number, and name:NAME takes all files.",
    ),
]
SparkConf = Annotated[list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark. May be repeated.")]


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """Returns the settings from ``--conf``. Raises UsageError."""
    found = {}
    for one in conf or ():
        name, sign, value = one.partition("=")
        if not sign or not name.strip():
            raise UsageError(f"--conf {escape(one)}: write KEY=VALUE, as in spark.driver.memory=4g")
        found[name.strip()] = value
    return found


def ports(values: list[str] | None) -> tuple[list[int], bool]:
    """Returns the ports that ``--port`` names, and whether to find others. Raises UsageError."""
    numbers = [value for value in values or () if value != "auto"]
    for value in numbers:
        if not (value.isascii() and value.isdecimal() and len(value) <= 5 and 0 < int(value) < 65_536):
            raise UsageError(f"--port {escape(value)}: write a number from 1 to 65535, or auto")
    return [int(value) for value in numbers], "auto" in (values or ())


def rules_of(rule: list[str] | None, family: list[str] | None, no_rule: list[str] | None, *, lint: bool) -> list[str]:
    """Returns the ids of the rules that ``--rule``, ``--family``, ``--no-rule`` and ``--lint`` ask for. Raises UsageError."""
    from dcpinspect.findings.registry import RULES

    families = list(dict.fromkeys(one.family for one in RULES.values()))
    for option, values, known in (("--rule", rule, RULES), ("--no-rule", no_rule, RULES), ("--family", family, families)):
        for value in values or ():
            if value not in known:
                close = did_you_mean(value, known) or (
                    f"; there are {', '.join(known)}" if known is families else "; 'dcpinspect check --list-rules' lists all"
                )
                raise UsageError(f"{option} {escape(value)}: no {option.removeprefix('--no-').removeprefix('--')} has this name{close}")
    for option, value in (*(("--rule", one) for one in rule or ()), *(("--family", one) for one in family or ())):
        if not lint and _LINT in (value, RULES[value].family if option == "--rule" else None):
            raise UsageError(f"{option} {value}: the rules of the family lint are only checked with --lint; add it")
    chosen = [
        one.id
        for one in RULES.values()
        if (lint or one.family != _LINT)
        and (one.id in (rule or ()) or one.family in (family or ()) or not (rule or family))
        and one.id not in (no_rule or ())
    ]
    if not chosen:
        raise UsageError("--no-rule: no rule is left to check; remove one of the --no-rule options")
    if lint and not any(RULES[one].family == _LINT for one in chosen):
        raise UsageError("--lint: none of its rules is among the chosen ones; add --family lint")
    return chosen


def choose_keylogs(names: list[str] | None) -> list[str] | None:
    """Applies ``--keylog``. Raises UsageError, CaptureError."""
    from dcpinspect.transport.tls.keylog import MOST_CONNECTIONS, chosen  # deferred: few commands need secrets

    paths = []
    for name in names or ():
        if name == "env" and not os.environ.get("SSLKEYLOGFILE"):
            raise UsageError("--keylog env: the variable SSLKEYLOGFILE is not set; name the file")
        paths.append(os.environ["SSLKEYLOGFILE"] if name == "env" else name)
    keys = chosen.choose(paths)
    for one in keys.damage:
        complain(f"{escape(one.path)}, line {one.line}: is no line of a key log; the others are used")
    if keys.dropped:
        complain(f"--keylog: has more than {MOST_CONNECTIONS:,} connections; the oldest {keys.dropped:,} are left out")
    return names


def secrets() -> Secrets:
    """Returns where the TLS secrets are that ``--keylog`` names. Raises UsageError for a pipe, because processes of Spark read it, too."""
    from dcpinspect.spark.secrets import secrets_at
    from dcpinspect.transport.tls.keylog import chosen

    return secrets_at(chosen.names, chosen.search, "--keylog")


def choose_search(trials: int | None) -> int | None:
    """Applies ``--tls-search``."""
    from dcpinspect.transport.tls.keylog import SEARCH, chosen  # deferred, as above

    chosen.search = SEARCH if trials is None else trials
    return trials


def choose_copies(*, copies: bool) -> bool:
    """Applies ``--copies``."""
    from dcpinspect.streams.links import chosen  # deferred, as above

    chosen.copies = copies
    return copies


def selection(
    *,
    row: str | None = None,
    vbucket: str | None,
    opcode: str | None,
    connection: str | None,
    key: str | None,
    status: str | None,
    collection: str | None,
    filter_: str | None = None,
    span: Span | None = None,
    config: Config | None = None,
) -> Selection:
    """Returns the conditions from these options; all must be met.

    ``config``: has saved filters. Raises UsageError, which names the option.
    """
    from dcpinspect.tables import select  # deferred: NumPy, which --help does not need

    return select.Selection(
        numbers=select.number_ranges(row, "--row", most=(1 << 63) - 2) if row is not None else (),
        vbuckets=select.number_ranges(vbucket, "--vbucket", most=0xFFFF) if vbucket is not None else (),
        commands=select.commands(opcode) if opcode is not None else None,
        connections=select.number_ranges(connection, "--connection", most=(1 << 31) - 1) if connection is not None else (),
        keys=select.key_pattern(key) if key is not None else None,
        statuses=select.statuses(status) if status is not None else (),
        collections=select.collections(collection) if collection is not None else None,
        filter=_filter(filter_, config) if filter_ is not None else None,
        span=span,
    )


def span_of_whole(since: str | None, until: str | None) -> Span | None:
    """Returns the span of time for a command that reads a whole capture, and so knows its end, before it prints. Raises UsageError."""
    return span(since, until, ())


def span(since: str | None, until: str | None, captures: Sequence[str] | None) -> Span | None:
    """Returns the span of ``--since`` and ``--until``. ``captures``: None if their end is not known. Raises UsageError."""
    if since is None and until is None:
        return None
    from dcpinspect.capture.open import last_time  # deferred, as above
    from dcpinspect.tables.times import Span, moment

    begin = moment(since, "--since") if since is not None else None
    end = moment(until, "--until") if until is not None else None
    for option, text, one in (("--since", since, begin), ("--until", until, end)):
        if one is not None and one.counts_from == "end" and (captures is None or STDIN in captures):
            raise UsageError(f"{option} {escape(text or '')}: the end is not known before it comes; count from the start, as in 10m")
    return Span(begin, end, cache(lambda: last_time(captures or ())))


def _filter(text: str, config: Config | None) -> FilterRows:
    from dcpinspect.tables.filter import parse_filter
    from dcpinspect.tables.filter_rows import FilterRows

    return FilterRows(parse_filter(text, saved=saved_filters(config)))


def saved_filters(config: Config | None) -> dict[str, Source]:
    """Returns the filters in the config file, by name, each with its place there."""
    from dcpinspect.cli.config import FILTERS  # deferred, as above
    from dcpinspect.tables.filter_tree import Source

    return {name: Source(config.place(FILTERS, name), text) for name, text in config.saved(FILTERS).items()} if config else {}


def color_rules(config: Config | None) -> ColorRules | None:
    """Returns the user's colour rules; None if there are none. Raises UsageError, PlacedError."""
    colors = config.colors() if config else {}
    if not config or not colors:
        return None
    from dcpinspect.cli.config import COLORS  # deferred, as above
    from dcpinspect.tables.color_rules import ColorRules

    return ColorRules(colors, place=config.place(COLORS, None), saved=saved_filters(config))


def column_names(text: str | None, config: Config | None = None) -> list[str] | None:
    """Returns the columns that ``--columns`` names, in that order, with sets replaced by their columns.

    Raises UsageError, which lists the columns.
    """
    if text is None:
        return None
    from dcpinspect.cli.config import COLUMN_SETS  # deferred, as above
    from dcpinspect.tables import presets
    from dcpinspect.tables.schema import column_name

    given = [word.strip() for word in text.split(",") if word.strip()]
    if not given:
        raise UsageError("--columns: name at least one column, as in name,vbucket,by_seqno")
    sets = {**{name: preset.text for name, preset in presets.COLUMN_SETS.items()}, **(config.saved(COLUMN_SETS) if config else {})}
    names: list[str] = []
    for word in given:
        if given.count(word) > 1:
            raise UsageError(f"--columns {escape(text)}: {escape(word)} is there twice")
        if not word.startswith("@"):
            names.append(column_name(word, "--columns"))
        elif word[1:] in sets:
            names += [column_name(name.strip(), f"--columns {word}") for name in sets[word[1:]].split(",")]
        else:
            close = did_you_mean(word[1:], sets) or f"; there are {', '.join(f'@{name}' for name in sorted(sets))}"
            raise UsageError(f"--columns {escape(word)}: no set of columns has this name{close}")
    return list(dict.fromkeys(names))
