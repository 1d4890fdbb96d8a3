"""Options that mean the same in every command: declared once, and used as types in signatures of
commands.

Most stand in groups (``choices``), whose methods make of the text as typed what the command works
with.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Container, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dcpinspect.cli import completion, terminal
from dcpinspect.cli.choices import Choices, as_option
from dcpinspect.cli.config import COLORS, COLUMN_SETS, FILTERS, Config
from dcpinspect.cli.output import choose_format, open_output
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import UsageError
from dcpinspect.output.export.bounded import command_bound
from dcpinspect.output.export.formats import FORMATS, Format
from dcpinspect.text import did_you_mean, escape, one_of

if TYPE_CHECKING:
    from dcpinspect.output.export.target import Target
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.spark.secrets import Secrets
    from dcpinspect.tables.color_rules import ColorRules
    from dcpinspect.tables.filter import Filter
    from dcpinspect.tables.filter_rows import FilterRows
    from dcpinspect.tables.filter_tree import FilterSource
    from dcpinspect.tables.record_tables import RecordTable
    from dcpinspect.tables.select import Selection
    from dcpinspect.tables.times import TimeSpan

_LOOKING_S = 1
"""A walk through directories that takes longer is told."""
STDIN = "-"
"""Name of standard input among captures."""


def with_folders(names: Sequence[str] | None) -> list[str]:
    """Returns the names of captures, with directories replaced by their captures. What the command
    writes is as private as they are.
    """
    from dcpinspect.capture import folders, rights  # deferred: only a command that runs needs them

    looking = threading.Timer(
        _LOOKING_S, complain, (f"looking for captures in {', '.join(map(escape, names or ()))}",)
    )
    looking.daemon = True
    if any(map(os.path.isdir, names or ())):
        looking.start()
    try:
        paths = folders.with_folders(names or ())
    finally:
        looking.cancel()
    rights.be_as_private_as(paths)
    return paths


def choose_keylogs(names: list[str] | None) -> list[str] | None:
    """Applies ``--keylog``. What the command writes is as private as the key logs. Raises
    UsageError, CaptureError.
    """
    # deferred: few commands need secrets
    from dcpinspect.capture import rights
    from dcpinspect.transport.tls.keylog import MOST_CONNECTIONS, command_secrets

    paths = []
    for name in names or ():
        if name == "env" and not os.environ.get("SSLKEYLOGFILE"):
            raise UsageError("--keylog env: the variable SSLKEYLOGFILE is not set; name the file")
        paths.append(os.environ["SSLKEYLOGFILE"] if name == "env" else name)
    keys = command_secrets.choose(paths)
    rights.be_as_private_as(keys.paths)
    for damaged in keys.damage[:1]:
        more = keys.damaged - 1
        complain(
            f"{escape(damaged.path)}, line {damaged.line}: is no line of a key log"
            + (f", and so are {more:,} more" if more else "")
            + f"; {keys.count:,} secrets were read"
        )
    for cut in keys.cut[:1]:
        complain(
            f"{escape(cut.path)}, line {cut.line}: has no end, so it is left out until it is complete"
        )
    if keys.dropped:
        complain(
            f"--keylog: has more than {MOST_CONNECTIONS:,} connections; the oldest "
            f"{keys.dropped:,} are left out"
        )
    return names


def choose_search(trials: int | None) -> int | None:
    """Applies ``--tls-search``."""
    from dcpinspect.transport.tls.keylog import SEARCH, command_secrets  # deferred, as above

    command_secrets.search = SEARCH if trials is None else trials
    return trials


def choose_copies(copies: bool) -> bool:
    """Applies ``--copies``."""
    from dcpinspect.streams.tcp_facts import command_counting  # deferred, as above

    command_counting.copies = copies
    return copies


Captures = Annotated[
    list[str],
    as_option(
        "CAPTURE…",
        "Capture files, or directories of them, read as one in order of time. - is standard input.",
        callback=with_folders,
    ),
]
if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]
VBuckets = Annotated[str | None, as_option("--vbucket LIST", "Only these vbuckets, as in 1,5-9.")]
Connections = Annotated[
    str | None,
    as_option("--connection LIST", "Only these connections, as in 1,3-4."),
]


def filter_option(
    rows: str, example: str, complete: Callable[[str], list[str]] = completion.record_filters
) -> Any:
    """Returns the option ``--filter``. ``of``: what meets the condition; ``complete``: completes
    names of saved filters.
    """
    help_text = f'Only {rows} where this is true, as in "{example}"; @name is a saved filter.'
    return typer.Option("--filter", metavar="SQL", autocompletion=complete, help=help_text)


FilterOption = Annotated[
    str | None,
    filter_option("messages", "vbucket in (1, 5) and by_seqno > 100", completion.message_filters),
]
SaltFile = Annotated[
    str | None,
    as_option(
        "--salt-file FILE",
        "The salt of --redact. By default, it is OUT.salt beside OUT, which the first run "
        "makes, and nobody but you can read.",
    ),
]
Ascii = Annotated[bool, as_option("--ascii", "Draw with ASCII characters only.")]


class OutputFormat(Choices):
    """Where a result goes, and in which format."""

    title = "The output"
    words = """
    format_name --format -f: The format. By default, the name of -o FILE chooses it, or it is text.
    --output -o FILE: Write to this file, which appears when it is complete. - is standard output.
    --max-bytes N: For JSON, print no more than N bytes: whole records, and how many are left out on
        standard error.
    """
    format_name: Annotated[FormatName | None, {"show_default": False}] = None
    output: str | None = None
    max_bytes: Annotated[int | None, {"min": 1000, "callback": command_bound.set}] = None

    def target(
        self, format_: Format, captures: Sequence[str], others: Sequence[str] = ()
    ) -> AbstractContextManager[Target]:
        """Returns the output as a context; parameters as of ``open_output``."""
        guard = getattr(self, "csv_guard", True)
        return open_output(self.output, format_, captures, others, guard=guard)

    def format(self, context: typer.Context) -> Format:
        """Returns the format. Raises UsageError for options that it does not use."""
        format_ = choose_format(self.format_name, self.output)
        refuse_unused(context, format_)
        return format_


class Output(OutputFormat):
    """The same for a result that may be CSV."""

    words = """
    --csv-guard/--no-csv-guard: For CSV, put an apostrophe before a text that a spreadsheet would
        run as a formula.
    """
    csv_guard: bool = True


class Redaction(Choices):
    """Whether the user's data are replaced by pseudonyms."""

    title = "The output"
    words = """
    --redact: Replace keys, values and names by pseudonyms. Equal texts get equal pseudonyms within
        this run.
    --redact-salt TEXT: Redact with this salt. Runs with the same salt have the same pseudonyms.
    """
    redact: bool = False
    redact_salt: str | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether one of the two was given: a salt also asks for it."""
        return self.redact or self.redact_salt is not None

    def redactor(self, digits: int = 32) -> Redactor | None:
        """Returns the redactor; None if nothing is redacted. ``digits``: of a pseudonym. Raises
        UsageError for an empty salt.
        """
        if not self.is_wanted:
            return None
        if self.redact_salt == "":
            raise UsageError(
                "--redact-salt: is empty; give a text that others cannot guess, or --redact "
                "alone for a random one"
            )
        from dcpinspect.protocol.redact import Redactor  # deferred: only redaction needs it

        return Redactor(
            None if self.redact_salt is None else self.redact_salt.encode(errors="surrogateescape"),
            digits,
        )


class OutputRedaction(Choices):
    """The same for what a pipeline keeps."""

    title = "The output"
    words = """
    --redact: Replace keys, values and names by pseudonyms in all tables. All else that OUT keeps is
        encrypted.
    """
    redact: bool = False
    salt_file: SaltFile = None


class Decryption(Choices):
    """What opens TLS, and what counts once. These options act by themselves."""

    title = "The captures"
    words = """
    --keylog [POINT=]FILE: Decrypt TLS with the secrets of this key log, or of all in a folder. env
        means the file that SSLKEYLOGFILE names. May be repeated. pipeline uses POINT=FILE for this
        capture point only.
    --tls-search N: For a TLS 1.3 connection that began before the capture, try secrets and record
        numbers up to N times. By default 5,000,000, which takes 2 s at most; less after connections
        that no secret opened.
    --copies: In tables and counts, have a conversation as often as the capture shows it: before and
        after address translation, and on both sides of a proxy. Findings have it once.
    """
    keylog: Annotated[list[str] | None, {"callback": choose_keylogs}] = None
    tls_search: Annotated[int | None, {"min": 0, "callback": choose_search}] = None
    copies: Annotated[bool, {"callback": choose_copies}] = False

    def secrets(self) -> Secrets:
        """Returns where the TLS secrets are. Raises UsageError for a pipe, because processes of
        Spark read it, too.
        """
        from dcpinspect.spark.secrets import secrets_at
        from dcpinspect.transport.tls.keylog import command_secrets

        return secrets_at(command_secrets.names, command_secrets.search, "--keylog")


class Ports(Choices):
    """Which connections are of Couchbase."""

    title = "The captures"
    words = """
    --port PORT|auto: A server port besides 11210 and 11207. auto finds any that carries DCP. May be
        repeated.
    """
    port: list[str] | None = None
    decryption: Decryption = Decryption()

    def reading_arguments(self) -> dict[str, Any]:
        """Returns ``extra_ports`` and ``find_ports`` of a ``Reading``. Raises UsageError."""
        numbers = [value for value in self.port or () if value != "auto"]
        for value in numbers:
            if not (
                value.isascii()
                and value.isdecimal()
                and len(value) <= 5
                and 0 < int(value) < 65_536
            ):
                raise UsageError(f"--port {escape(value)}: write a number from 1 to 65535, or auto")
        return {
            "extra_ports": [int(value) for value in numbers],
            "find_ports": "auto" in (self.port or ()),
        }

    def of_pipeline(self) -> dict[str, Any]:
        """Returns the same for a pipeline, which keeps what an earlier run was told: None where
        nothing is given. Raises UsageError.
        """
        port_choice = self.reading_arguments()
        if self.port is None:
            return dict.fromkeys(port_choice)
        return {**port_choice, "extra_ports": tuple(port_choice["extra_ports"])}


class Input(Choices):
    """How captures are read, and what is said of that."""

    title = "The captures"
    words = """
    --stats: At the end, print on standard error how many packets and bytes were read, skipped or
        lost.
    """
    ports: Ports = Ports()
    stats: bool = False


class Times(Choices):
    """A span of time."""

    title = "Only some"
    words = """
    --since TIME: Only from this time on. It is in UTC ('2024-04-06 12:03:41', 12:03:41), after the
        start (90s, 10m), or before the end (-10m).
    --until TIME: Only before this time, which is written as for --since.
    """
    since: str | None = None
    until: str | None = None

    def span(self, captures: Sequence[str] | None) -> TimeSpan | None:
        """Returns the span. ``captures``: None if their end is not known. Raises UsageError."""
        if self.since is None and self.until is None:
            return None
        from dcpinspect.capture.open import last_time  # deferred: only a command that runs needs it
        from dcpinspect.tables.times import TimeSpan, moment

        begin = moment(self.since, "--since") if self.since is not None else None
        end = moment(self.until, "--until") if self.until is not None else None
        for option, text, bound in (("--since", self.since, begin), ("--until", self.until, end)):
            if (
                bound is not None
                and bound.counts_from == "end"
                and (captures is None or STDIN in captures)
            ):
                raise UsageError(
                    f"{option} {escape(text or '')}: the end is not known before it comes; "
                    "count from the start, as in 10m"
                )
        return TimeSpan(begin, end, cache(lambda: last_time(captures or ())))

    def span_of_whole(self) -> TimeSpan | None:
        """Returns the span for a command that reads a whole capture, and so knows its end, before
        it prints. Raises UsageError.
        """
        return self.span(())


class Conditions(Choices):
    """Conditions on messages; all must be met."""

    title = "Only some"
    words = """
    --opcode LIST: Only these commands, by name or number, as in dcp_mutation,0x58.
    --key GLOB: Only messages whose key matches, as in 'user::*'. Most answers have no key; --filter
        has request_key.
    --status LIST: Only responses of these statuses, by name or number.
    --collection LIST: Only these collections, by name or id, as in produce.fruit,fruit,0,8-0xa.
    """
    vbucket: VBuckets = None
    opcode: Annotated[str | None, {"autocompletion": completion.opcodes}] = None
    connection: Connections = None
    key: str | None = None
    status: Annotated[str | None, {"autocompletion": completion.statuses}] = None
    collection: str | None = None
    filter_: FilterOption = None
    times: Times = Times()

    @property
    def hint(self) -> str:
        """What to try if no message meets the conditions; empty: nothing comes to mind."""
        if self.opcode is not None:
            from dcpinspect.tables.select import dcp_commands_like  # deferred: it needs NumPy

            for name in self.opcode.lower().split(","):
                command = name.strip().replace("-", "_").removeprefix("dcp_")
                like = [meant[4:] for meant in dcp_commands_like(command)]
                if like and command != like[0] and "_" not in like[0]:
                    return f"--opcode {escape(name)}: the command of DCP is dcp_{like[0]}"
        if self.key is None or not set(self.key).isdisjoint("*?["):
            return ""
        key = escape(self.key)
        return f"--key {key} is compared with whole keys; '{key}*' has all that begin with it"

    def selection(
        self, captures: Sequence[str] | None, config: Config | None, row: str | None = None
    ) -> Selection:
        """Returns the conditions. ``captures``: as for ``Times.span``. ``config``: has saved
        filters.

        Raises UsageError, which names the option.
        """
        from dcpinspect.tables import select  # deferred: NumPy, which --help does not need

        return select.Selection(
            numbers=_ranges(row, "--row", (1 << 63) - 2),
            vbuckets=vbuckets_in(self.vbucket),
            commands=select.commands(self.opcode) if self.opcode is not None else None,
            connections=connections_in(self.connection),
            keys=select.key_pattern(self.key) if self.key is not None else None,
            statuses=select.statuses(self.status) if self.status is not None else (),
            collections=select.collections(self.collection)
            if self.collection is not None
            else None,
            filter=_filter(self.filter_, config) if self.filter_ is not None else None,
            span=self.times.span(captures),
        )


Level = Literal["error", "warning", "note"]
"""Severity of a finding."""
_LINT = "lint"
"""The family of rules that are only checked on request."""


class RuleChoice(Choices):
    """Which rules are checked."""

    title = "Only some"
    words = """
    --rule RULE: Only this rule, and those of --family. May be repeated.
    --family FAMILY: Only rules of this family, and those of --rule. May be repeated.
    --lint: Also check the recommendations to clients (the rules of the family lint).
    --no-rule RULE: Not this rule. May be repeated.
    --severity: Only findings of this severity, or worse.
    """
    rule: Annotated[list[str] | None, {"autocompletion": completion.rules}] = None
    family: Annotated[list[str] | None, {"autocompletion": completion.families}] = None
    lint: bool = False
    no_rule: Annotated[list[str] | None, {"autocompletion": completion.rules}] = None
    severity: Annotated[Level | None, {"show_default": False}] = None

    def ids(self) -> list[str]:
        """Returns the ids of the rules that are asked for. Raises UsageError."""
        # deferred: only a command that runs needs it
        from dcpinspect.findings.registry import RULES

        rules, families = self.rule or (), self.family or ()
        self._refuse_unknown()
        rule_ids = [
            rule.id
            for rule in RULES.values()
            if (self.lint or rule.family != _LINT)
            and (rule.id in rules or rule.family in families or not (rules or families))
            and rule.id not in (self.no_rule or ())
        ]
        if not rule_ids:
            raise UsageError(
                "--no-rule: no rule is left to check; remove one of the --no-rule options"
            )
        if self.lint and not any(RULES[rule].family == _LINT for rule in rule_ids):
            raise UsageError(
                "--lint: none of its rules is among the chosen ones; add --family lint"
            )
        return rule_ids

    def _refuse_unknown(self) -> None:
        """Raises UsageError for names that no rule or family has, and for rules of the family lint
        without ``--lint``.
        """
        from dcpinspect.findings.registry import RULES
        from dcpinspect.findings.rule import FAMILIES

        named = (
            ("--rule", self.rule, RULES),
            ("--no-rule", self.no_rule, RULES),
            ("--family", self.family, FAMILIES),
        )
        for option, values, known_names in named:
            for value in values or ():
                if value not in known_names:
                    close = did_you_mean(value, known_names) or (
                        f"; there are {', '.join(known_names)}"
                        if known_names is FAMILIES
                        else "; 'dcpinspect check --list-rules' lists all"
                    )
                    raise UsageError(
                        f"{option} {escape(value)}: no "
                        f"{option.removeprefix('--no-').removeprefix('--')} has this name{close}"
                    )
        for option, values, known_names in named:
            for value in values or () if option != "--no-rule" and not self.lint else ():
                if (value if known_names is FAMILIES else RULES[value].family) == _LINT:
                    raise UsageError(
                        f"{option} {value}: the rules of the family lint are only checked with "
                        "--lint; add it"
                    )


def list_columns(context: typer.Context, text: str | None) -> str | None:
    """Prints the columns of the command's output and exits, if ``--columns`` stands alone."""
    if text != "" or context.resilient_parsing:
        return text
    # deferred: only needed on request
    from dcpinspect.output.render.column_help import columns_list, columns_of_tables

    config: Config = context.obj
    tables = completion.tables_of(context)
    lines = columns_of_tables(tables) if tables else columns_list(config.saved(COLUMN_SETS))
    terminal.put_folded(lines)
    raise typer.Exit


WITHOUT_VALUE = ("--columns",)
"""Options that may stand without a value, which is then the empty text."""


def columns_option(
    example: str, complete: Callable[..., list[str]] = completion.record_columns
) -> Any:
    """Returns the option ``--columns``. ``complete``: completes names of columns."""
    help_text = (
        f"Show these columns, in this order, as in {example}. Without a list, list all columns."
    )
    return typer.Option(
        "--columns",
        metavar="[LIST]",
        callback=list_columns,
        is_eager=True,
        autocompletion=complete,
        help=help_text,
    )


Columns = Annotated[
    str | None, columns_option("name,vbucket,by_seqno or @seqnos", completion.message_columns)
]


class SparkSession(Choices):
    """The session of Spark that a pipeline works in."""

    title = "Spark"
    words = """
    --master URL: Spark's master, as in local[4]. By default, it is this machine.
    --conf KEY=VALUE: A setting of Spark. May be repeated.
    """
    master: str | None = None
    conf: list[str] | None = None

    def settings(self) -> dict[str, str]:
        """Returns the settings from ``--conf``. Raises UsageError."""
        settings = {}
        for setting in self.conf or ():
            name, sign, value = setting.partition("=")
            if not sign or not name.strip():
                raise UsageError(
                    f"--conf {escape(setting)}: write KEY=VALUE, as in spark.driver.memory=4g"
                )
            settings[name.strip()] = value
        return settings


def is_typed(context: typer.Context, parameter: str) -> bool:
    """Whether a parameter was given on the command line, not by the config file, whose defaults are
    ignored where they do not fit.
    """
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def refuse_unused(context: typer.Context, format_: Format) -> None:
    """Raises UsageError for a typed option that other formats use, but not ``format_``."""
    for option in context.command.params:
        name = option.name or ""
        formats = [form.name for form in FORMATS.values() if name in form.options]
        if formats and format_.name not in formats:
            users = one_of(formats)
            refuse_typed(context, (name,), f"{format_} does not use it; it is for --format {users}")


def refuse_others(context: typer.Context, flag: str, users: Sequence[str]) -> None:
    """Raises UsageError for a typed option that ``flag`` does not use; it uses ``users``."""
    unused = {option.name or "" for option in context.command.params} - {*users}
    refuse_typed(context, unused, f"{flag} does not use it; leave one of them out")


def refuse_typed(context: typer.Context, names: Container[str], why: str) -> None:
    """Raises UsageError, which says ``why``, if one of these options was typed."""
    for option in context.command.params:
        if option.name in names and is_typed(context, option.name or ""):
            raise UsageError(f"{_spelling(context, option)}: {why}")


def _spelling(context: typer.Context, option: Any) -> str:
    """Returns an option as it was typed, in its long form."""
    is_negated = bool(option.secondary_opts) and not context.params[option.name]
    spelling: str = max(option.secondary_opts if is_negated else option.opts, key=len)
    return spelling


def _filter(text: str, config: Config | None) -> FilterRows:
    from dcpinspect.tables.filter import parse_filter
    from dcpinspect.tables.filter_rows import FilterRows

    return FilterRows(parse_filter(text, saved=saved_filters(config)))


def vbuckets_in(text: str | None) -> tuple[range, ...]:
    """Returns the vbuckets that ``--vbucket`` names; none without it. Raises UsageError."""
    return _ranges(text, "--vbucket", 0xFFFF)


def connections_in(text: str | None, option: str = "--connection") -> tuple[range, ...]:
    """Returns the connections that an option names; none without it. Raises UsageError."""
    return _ranges(text, option, (1 << 31) - 1)


def _ranges(text: str | None, option: str, limit: int) -> tuple[range, ...]:
    from dcpinspect.tables.select import number_ranges  # deferred, as above

    return () if text is None else number_ranges(text, option, limit=limit)


def record_filter(text: str | None, table: RecordTable, config: Config | None) -> Filter | None:
    """Returns what ``--filter`` asks of the records of a table; None without it. Raises UsageError,
    PlacedError.
    """
    from dcpinspect.tables.record_rows import parse_record_filter  # deferred, as above

    return None if text is None else parse_record_filter(text, table, saved=saved_filters(config))


def saved_filters(config: Config | None) -> dict[str, FilterSource]:
    """Returns the filters in the config file, by name, each with its place there."""
    from dcpinspect.tables.filter_tree import FilterSource  # deferred, as above

    if config:
        return {
            name: FilterSource(config.name_position(FILTERS, name), text)
            for name, text in config.saved(FILTERS).items()
        }
    return {}


def color_rules(config: Config | None) -> ColorRules | None:
    """Returns the user's colour rules; None if there are none. Raises UsageError, PlacedError."""
    colors = config.colors() if config else {}
    if not config or not colors:
        return None
    from dcpinspect.tables.color_rules import ColorRules  # deferred, as above

    return ColorRules(colors, place=config.name_position(COLORS, None), saved=saved_filters(config))


def column_names(text: str | None, config: Config | None = None) -> list[str] | None:
    """Returns the columns that ``--columns`` names, in that order, with sets replaced by their
    columns.

    Raises UsageError, which lists the columns.
    """
    if text is None:
        return None
    from dcpinspect.tables import presets  # deferred, as above
    from dcpinspect.tables.schema import column_name

    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words:
        raise UsageError("--columns: name at least one column, as in name,vbucket,by_seqno")
    sets = {
        **{name: preset.text for name, preset in presets.COLUMN_SETS.items()},
        **(config.saved(COLUMN_SETS) if config else {}),
    }
    names: list[str] = []
    for word in words:
        if words.count(word) > 1:
            raise UsageError(f"--columns {escape(text)}: {escape(word)} is there twice")
        if not word.startswith("@"):
            names.append(column_name(word, "--columns"))
        elif word[1:] in sets:
            names += [
                column_name(name.strip(), f"--columns {word}") for name in sets[word[1:]].split(",")
            ]
        else:
            close = (
                did_you_mean(word[1:], sets)
                or f"; there are {', '.join(f'@{name}' for name in sorted(sets))}"
            )
            raise UsageError(f"--columns {escape(word)}: no set of columns has this name{close}")
    return list(dict.fromkeys(names))
