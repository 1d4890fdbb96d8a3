"""The ``dcpinspect`` command: finds the requested command, runs it, and turns errors into one line
and an exit status.

A command is a module ``dcpinspect/cli/<command>.py`` with a function ``<command>`` whose signature
typer reads, and a line in ``SECTIONS``. The module is imported only when the command is run or
completed, so ``--help`` costs the same however many commands there are. The function returns its
exit status, or ``None`` for 0. It raises :class:`~dcpinspect.errors.DcpInspectError` to end with an
error line.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from dcpinspect import __version__
from dcpinspect.cli import terminal
from dcpinspect.cli.choices import Choices, as_option, flat
from dcpinspect.cli.terminal import complain
from dcpinspect.errors import DcpInspectError, UsageError, memory_ended, reason
from dcpinspect.text import did_you_mean, escape, one_of

if TYPE_CHECKING:
    from dcpinspect.cli.config import Setting

PROGRAM = "dcpinspect"
COMPLETION_VARIABLE = "_DCPINSPECT_COMPLETE"

SECTIONS = {
    "Read": {
        "info": "Print who is in captures, when, which buckets, how complete.",
        "read": "Print the messages of captures.",
        "tui": "Open captures in the terminal UI.",
        "connections": "Print every connection: client, settings and state.",
        "follow": "Show the conversation on one connection.",
        "stats": "Count messages: commands, statuses, sizes, times, throughput, losses.",
        "io": "Count messages and bytes by command over time, with charts.",
        "sql": "Run a SQL query over captures.",
        "export": "Write the messages of captures to a file.",
        "mcp": "Let agents ask about captures.",
    },
    "Judge": {
        "check": "Print what is wrong, on which side, and what to do.",
        "vbuckets": "Print the state of every vbucket, client by client.",
        "timeline": "Show one vbucket, seqno by seqno and event by event.",
        "streams": "Print every stream: request, answer, delivery and end.",
        "snapshots": "Print every snapshot, and whether it is complete.",
        "gaps": "Print the seqnos that were not delivered, and why.",
        "rollbacks": "Print why streams were rolled back, and the request that would work.",
        "report": "Write what was found as one file to hand over.",
    },
    "Compare": {
        "diff": "Compare two captures of the same streams.",
        "log": "Print what the server's log says of streams.",
    },
    "Watch": {
        "live": "Print the messages on network interfaces as they come.",
        "watch": "Tell findings as they become certain, for weeks.",
        "pipeline": "Turn directories of captures into tables, with Spark.",
    },
    "Explain": {
        "explain": "Explain a command, a status, a control key or the bytes of a message.",
        "schema": "Print the JSON Schema of an output.",
    },
}
"""Name and summary of every command, by what it is for, in the order of ``--help``."""
COMMANDS = {name: summary for commands in SECTIONS.values() for name, summary in commands.items()}

GROUPS = {
    "pipeline": {
        "run": "Read new captures, and write the tables again.",
        "watch": "Read captures as they come, and tell findings.",
        "check": "Print what is wrong in all captures of a pipeline.",
        "report": "Write what was found in a pipeline as one file to hand over.",
        "sql": "Run a SQL query over the tables of a pipeline.",
        "expire": "Take old captures out of the tables.",
        "info": "Print what a pipeline has read, and which tables it has.",
    },
}
"""Groups of commands, each command with its summary; their functions are in the group's module."""

_RECORDS = ("connections", "vbuckets", "streams", "snapshots", "gaps", "rollbacks")
"""Commands that print a table of records, all in one module."""
BROKEN_PIPE = 141
"""Exit status that a shell reports after SIGPIPE; we handle the signal only to clean up."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status; an error is one line on standard error."""
    _replace_closed_streams()
    arguments = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        status = _run(arguments)
        with terminal.named():
            # flushes here, where a closed pipe can be handled, and not while the interpreter shuts
            # down
            sys.stdout.flush()
        return status
    except typer.TyperException as error:
        complain(_file_like_an_option(arguments) or _explain(error, arguments))
        return error.exit_code
    except DcpInspectError as error:
        complain(error, error.details)
        return error.exit_status
    except BrokenPipeError:
        # otherwise buffered text would be written at shutdown, and fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        if error.strerror is None:
            raise
        if error.errno == errno.ENOMEM and (ended := memory_ended(error)) is not None:
            _complain_without_memory(ended)
            return 2
        complain(
            reason(error)
            if error.filename is None
            else f"{escape(os.fsdecode(error.filename))}: {reason(error)}"
        )
        return 2
    except Exception as error:
        if (ended := memory_ended(error)) is None:
            raise
        _complain_without_memory(ended)
        return 2


def _complain_without_memory(line: str) -> None:
    try:
        complain(line)
    except MemoryError:  # not even for the escaping
        os.write(2, f"{PROGRAM}: {line}\n".encode())


def _replace_closed_streams() -> None:
    """Replaces streams that were closed when the program started: standard input is empty
    (``<&-``), what is written to standard output fails (``>&-``), and nobody reads standard error
    (``2>&-``).
    """
    for name, mode, access in (
        ("stdin", "r", os.O_RDONLY),
        ("stdout", "w", os.O_RDONLY),
        ("stderr", "w", os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.open(os.devnull, access), mode, encoding="utf-8"))  # noqa: SIM115 - for as long as the program runs


class _Program(TyperGroup):
    """The command group; its help lists the commands by section."""

    def format_commands(self, _context: Any, formatter: Any) -> None:
        """Writes the summaries, whole."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{name:<11}", summary) for name, summary in commands.items()])


def program() -> TyperGroup:
    """Returns the command group with every command, without importing any of them."""
    app = typer.Typer(
        cls=_Program,
        # plain help: importing rich to print it would cost more than all the rest of --help
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    app.callback()(_root)
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    for name, summary in COMMANDS.items():
        group.add_command(
            _group(name, summary) if name in GROUPS else DeferredCommand(name, summary)
        )
    return group


def _group(name: str, summary: str) -> TyperGroup:
    group = TyperGroup(name=name, help=summary, short_help=summary, rich_markup_mode=None)
    for command, about in GROUPS[name].items():
        group.add_command(DeferredCommand(command, about, group=name))
    return group


class DeferredCommand(TyperCommand):
    """A command with only name and summary, which stands for the real one until that is needed."""

    def __init__(self, name: str, summary: str, *, group: str | None = None) -> None:
        super().__init__(name, help=summary, rich_markup_mode=None)
        self._name = name
        self._module = group or ("record_tables" if name in _RECORDS else name)
        # name of the command's table in the config file
        self._table = f"{group}-{name}" if group else name

    def load(self) -> TyperCommand:
        """Imports the command's module, and returns the command made from its function."""
        return _built(
            getattr(import_module(f"dcpinspect.cli.{self._module}"), self._name), self._name
        )

    # Any: the classes of contexts belong to typer, and are only passed on
    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Parses the arguments as the real command does, with the defaults of the config file.

        The config becomes the object of the context.
        """
        command = self.load()
        # completion must not fail because of a broken config file
        if not extra.get("resilient_parsing"):
            from dcpinspect.cli import config  # deferred: only a command that runs needs it

            extra["obj"] = config.load(tables())
            extra["default_map"] = extra["obj"].defaults(self._table, _settings(command))
        with terminal.named():  # --help prints
            return command.make_context(info_name, _with_empty_values(args), parent, **extra)


@cache  # 8 ms, for programs that call main() often, such as our tests
def _built(function: Callable[..., int], name: str) -> TyperCommand:
    run, titles = flat(function)
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, cls=_Command)(run)
    command = typer.main.get_command(app)
    assert isinstance(command, _Command)
    command.titles = titles
    own_options = {option for parameter in command.params for option in parameter.opts}
    command.params += [
        parameter for parameter in _common() if own_options.isdisjoint(parameter.opts)
    ]
    return command


class _Look(Choices):
    """The look of the output of every command."""

    words = """
    --color: When to use colours. auto means on a terminal only.
    --ascii: Print ASCII characters only.
    """
    color: Annotated[Literal["auto", "always", "never"], {"callback": terminal.choose_color}] = (
        "auto"
    )
    ascii_: Annotated[bool, {"callback": terminal.choose_ascii}] = False


def _common() -> list[Any]:
    """Returns the options of every command for the look of its output."""

    def common(_: _Look) -> int:
        return 0

    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command()(flat(common)[0])
    parameters = typer.main.get_command(app).params
    for parameter in parameters:
        parameter.expose_value = False
    return parameters


def tables() -> list[str]:
    """Returns the names of the tables that the config file may have; for a command of a group,
    ``pipeline-run``.
    """
    groups = [f"{group}-{name}" for group, names in GROUPS.items() for name in names]
    return [*(name for name in COMMANDS if name not in GROUPS), *groups]


def _with_empty_values(arguments: list[str]) -> list[str]:
    """Returns the arguments, with an empty value added to options that stand alone."""
    from dcpinspect.cli.options import WITHOUT_VALUE  # deferred: only a command that runs needs it

    end = arguments.index("--") if "--" in arguments else len(arguments)
    behind = [*arguments[1:end], "--", *arguments[end:]]
    return [
        f"{argument}="
        if argument in WITHOUT_VALUE and position < end and len(after) > 1 and after.startswith("-")
        else argument
        for position, (argument, after) in enumerate(zip(arguments, behind, strict=False))
    ]


class _Command(TyperCommand):
    """A command with its options in groups, whose errors name the config file, if the refused value
    comes from there.
    """

    titles: Mapping[str, str]
    """The heading of each option; the others are just options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments, then the options of each group below its heading."""
        sections: dict[str, list[Any]] = {
            "Arguments": [],
            **{title: [] for title in self.titles.values()},
            "Options": [],
        }
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                is_option = isinstance(parameter, TyperOption)
                sections[
                    self.titles.get(parameter.name or "", "Options") if is_option else "Arguments"
                ].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command. An error about an option begins with the option's name."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            option = str(error).partition(" ")[0].rstrip(":")
            name = next(
                (
                    parameter.name
                    for parameter in self.params
                    if option in (*parameter.opts, *parameter.secondary_opts)
                ),
                None,
            )
            error.args = (_with_origin(ctx, name or "", str(error)),)
            raise


def _settings(command: TyperCommand) -> dict[str, Setting]:
    """Returns the keys that the command's table in the config file may have: its long options."""
    from dcpinspect.cli.config import Setting

    return {
        spelling.removeprefix("--"): Setting(
            option.name or "",
            is_flag=option.is_flag or option.count,
            is_negation=spelling in option.secondary_opts,
            is_repeatable=option.multiple,
        )
        for option in command.params
        if isinstance(option, TyperOption)
        for spelling in (*option.opts, *option.secondary_opts)
        if spelling.startswith("--")
    }


def _print_version(is_asked: bool) -> None:
    if is_asked:
        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        as_option("--version", "Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Inspect Couchbase's Database Change Protocol (DCP) in packet captures."""


def _run(arguments: list[str]) -> int:
    group = program()
    instruction = os.environ.get(COMPLETION_VARIABLE)
    if instruction:
        from typer.completion import shell_complete  # deferred: only completion needs it

        return shell_complete(group, {}, PROGRAM, COMPLETION_VARIABLE, instruction)
    arguments = _with_command(arguments)
    # typer's own main() would turn a closed pipe into status 1, which here means "findings"
    try:
        with terminal.named():  # as above, and --version
            context = group.make_context(PROGRAM, arguments)
        with context:
            status = group.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return status if isinstance(status, int) else 0


def _with_command(arguments: list[str]) -> list[str]:
    """Adds the command ``tui`` to a single capture in a terminal."""
    first = arguments[0]
    if first in COMMANDS or first.startswith("-"):
        return arguments
    if not os.path.exists(first):
        if "." not in first and os.sep not in first:
            return arguments  # an unknown command
        from dcpinspect.capture.byte_source import missing  # deferred, as every command

        raise missing(first)
    if not (os.path.isfile(first) or os.path.isdir(first)):
        return arguments
    from dcpinspect.cli.tui import is_terminal  # deferred, as every command

    if not is_terminal():
        raise UsageError(
            f"{escape(first)}: a capture alone opens the terminal UI, and this is no terminal; "
            "'dcpinspect read' prints messages, 'check' what is wrong"
        )
    return ["tui", *arguments]


TSHARK = {
    "-r": "captures are named without an option, as in 'dcpinspect read FILE'",
    "-Y": "a filter is SQL, as in --filter \"name = 'dcp_mutation' and vbucket = 5\"",
    "-R": "a filter is SQL, as in --filter \"name = 'dcp_mutation' and vbucket = 5\"",
    "-c": "-n N stops after N messages",
    "-T": "--format says how to write them, and --columns name,vbucket,by_seqno picks columns",
    "-e": "--columns name,vbucket,by_seqno picks columns; 'dcpinspect read --columns' lists them",
    "-D": "'dcpinspect live -D' lists the interfaces",
    "-z": "'dcpinspect stats', 'io' and 'connections' count",
    "-a": "'dcpinspect live -a duration:S' ends by itself",
}
"""What to use here in place of options of tshark."""
OF_FILES = ("--with-handshakes", "--with-secrets", "--decrypted")
"""Options of -w that apply to whole connections."""


def _file_like_an_option(arguments: Sequence[str]) -> str:
    """Returns what to write for a file whose name begins as an option; empty if there is none."""
    name = next(
        (
            argument
            for argument in arguments
            if argument.startswith("-") and os.path.isfile(argument)
        ),
        None,
    )
    return "" if name is None else f"{escape(name)}: is taken for options; write ./{escape(name)}"


def _explain(error: typer.TyperException, arguments: Sequence[str]) -> str:
    """Explains what is wrong with the command line, at which place, and what to do."""
    option = getattr(error, "option_name", None)
    if option in TSHARK:
        return f"{option}: {TSHARK[option]}"
    context = getattr(error, "ctx", None)
    if option in OF_FILES and context is not None and context.info_name in ("live", "watch"):
        return (
            f"{option}: packets are recorded as they come; afterwards use 'dcpinspect read FILE "
            f"-w OUT {option}'"
        )
    problem = _in_our_words(error, context)
    if isinstance(error, typer.BadParameter) and error.param is not None and context is not None:
        problem = _with_origin(context, error.param.name or "", problem)
    command = next(iter(arguments), "")  # typer takes its own options out
    path = f"{PROGRAM} {command}" if command in COMMANDS else PROGRAM
    path = path if context is None else context.command_path
    return f"{problem}{'' if problem.endswith('?') else ';'} see '{path} --help'"


# Any: the classes of contexts belong to typer
def _in_our_words(error: typer.TyperException, context: Any) -> str:
    """Returns what is wrong in the style of our errors, and in typer's words for rare errors."""
    problem = error.format_message().rstrip(".")
    if isinstance(error, typer.BadParameter) and error.param is not None:
        name = (
            max(error.param.opts, key=len)
            if isinstance(error.param, TyperOption)
            else error.param.make_metavar(context).strip("{}")
        )
        # the only argument may be a capture or a number
        if hasattr(error, "param_type") and context.info_name == "follow":
            return (
                "write a capture and then the number of a connection; 'dcpinspect connections "
                "CAPTURE' lists them"
            )
        if hasattr(error, "param_type") and name == "--vbucket":
            number = next(filter(str.isdecimal, context.params.get("captures") or ()), None)
            hint = "'dcpinspect vbuckets CAPTURE' lists them"
            return (
                f"--vbucket is missing; {hint if number is None else f'write --vbucket {number}'}"
            )
        if hasattr(error, "param_type"):
            return f"{name} is missing"
        possible = _possible_values(error.param.type)
        value = re.match(
            r"(['\"]?)(.*)\1 is not (?:in the range |a valid |one of )", error.message, re.DOTALL
        )
        if possible and value:
            has_report = name == "--format" and value[2] in ("md", "markdown", "html")
            report = f"; 'dcpinspect report --format {value[2]}' writes that" if has_report else ""
            return f"{name} {value[2] or 'is empty'}: write {possible}{report}"
        return problem
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        names = (
            [
                spelling
                for parameter in context.command.params
                for spelling in (*parameter.opts, *parameter.secondary_opts)
            ]
            if context
            else []
        )
        if option == "-v" and "--all" in names:
            return "there is no option -v; --all prints everything of each finding"
        return f"there is no option {escape(option)}{did_you_mean(option, names)}"
    if option is not None:
        if "requires" in problem:
            return f"{escape(option)} needs a value"
        return f"{escape(option)} takes no value"
    for pattern, ours in _OURS.items():
        pattern_match = re.fullmatch(pattern, problem, re.DOTALL)
        if pattern_match:
            if ours == _TOO_MANY and (interfaces := _interfaces(context, pattern_match[1])):
                return f"{ours.format(pattern_match[1])}, or write {interfaces}"
            names = list(context.command.commands) if "command " in ours else []
            return ours.format(pattern_match[1]) + did_you_mean(pattern_match[1], names)
    return problem


def _interfaces(context: Any, words: str) -> str:
    """Returns arguments as options for interfaces, if the command takes these and no arguments."""
    takes = [parameter.opts for parameter in context.command.params]
    is_for_interfaces = any("-i" in names for names in takes) and all(
        names[0].startswith("-") for names in takes
    )
    return " ".join(f"-i {word}" for word in words.split()) if is_for_interfaces else ""


_TOO_MANY = "too many arguments; leave out {}"
_OURS = {
    r"Missing (command)": "a {} is missing",
    r"No such command '(.*?)'(?:\. Did you mean .*)?": "there is no command {}",
    r"Got unexpected extra arguments?(?:\(s\))? \((.*)\)": _TOO_MANY,
}
"""Patterns of typer's errors, and our own words for them."""


def _possible_values(kind: Any) -> str:
    """Describes the possible values of a type; empty for other types than numbers or choices."""
    choices = getattr(kind, "choices", ())
    if choices:
        return one_of([str(getattr(choice, "value", choice)) for choice in choices])
    if not hasattr(kind, "min"):
        return ""
    number = "a number" if "float" in kind.name else "a whole number"
    if kind.max is None:
        return f"{number}, {kind.min} or more"
    return f"{number} from {kind.min} to {kind.max}"


def _with_origin(context: Any, parameter: str, problem: str) -> str:
    """Adds the place in the config file to an error about a parameter that has its value there."""
    source = context.get_parameter_source(parameter)
    if source is None or source.name != "DEFAULT_MAP":
        return problem
    from dcpinspect.cli.config import config_path

    return f"{escape(os.fspath(config_path()[0]))} [{context.info_name}] {problem}"
