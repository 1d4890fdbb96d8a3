"""The config file: defaults for the options of each command, and filters and sets of columns saved
under names.

A TOML file with a table for each command; its keys are option names, with dashes or underscores,
and a value reads as it would on the command line. The command line wins over it. The tables
``filters`` and ``columns`` hold what ``--filter @name`` and ``--columns @name`` stand for::

    [read]
    no-fields = true
    port = 11999
    vbucket = "0-511"

    [filters]
    slow = "rtt_ns > 1000000"

    [columns]
    times = ["row", "time", "rtt_ns"]

The table ``colors`` has the colours of messages, by filters::

    [colors]
    "vbucket = 417" = "magenta"

It is ``config.toml`` in the platform's place for configuration, or the file that
``DCPINSPECT_CONFIG`` names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

from dcpinspect.capture.folders import check_is_file
from dcpinspect.errors import UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import did_you_mean, escape

VARIABLE = "DCPINSPECT_CONFIG"
MAX_SIZE = 1 << 20
"""Greatest size of a config file in bytes; nobody writes more, and a device would never end."""

FILTERS, COLUMN_SETS = "filters", "columns"
"""Tables of texts that are saved under names."""
COLORS = "colors"
"""The table of colours, by the filter of the messages that have them."""

Default = bool | str | list[str]
"""A default in the form of the command line: the state of a flag, or text that is not parsed yet.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """What a key of a command's table sets."""

    parameter: str
    """Name of the command's parameter."""
    is_flag: bool
    is_negation: bool
    """Whether the key is the negative form of a flag: ``no-fields = true`` is ``fields = false``.
    """
    is_repeatable: bool


@dataclass(frozen=True, slots=True)
class Config:
    """A config file that was read."""

    path: Path
    tables: Mapping[str, Mapping[str, object]]
    """Keys and values by command."""

    def defaults(self, command: str, settings: Mapping[str, Setting]) -> dict[str, Default]:
        """Returns the defaults for a command, by parameter name. ``settings``: the keys that its
        table may have, with dashes.
        """
        defaults: dict[str, Default] = {}
        for key, value in self.tables.get(command, {}).items():
            setting = settings.get(key.replace("_", "-"))
            if setting is None:
                raise self.error(
                    command,
                    key,
                    f"dcpinspect {command} has no such option{_suggestion(key, settings)}",
                )
            defaults[setting.parameter] = self._default(command, key, value, setting)
        return defaults

    def saved(self, table: str) -> dict[str, str]:
        """Returns the texts in FILTERS or COLUMN_SETS, by name, as they would be typed."""
        texts = {}
        for name, value in self.tables.get(table, {}).items():
            if re.fullmatch(r"[A-Za-z0-9_-]+", name) is None:
                raise self.error(table, name, "a name has letters, digits, dashes and underscores")
            values = value if isinstance(value, list) and table == COLUMN_SETS else [value]
            words = [word for word in values if isinstance(word, str)]
            if len(words) < len(values):
                raise self.error(
                    table,
                    name,
                    "write text" + (", or a list of names" if table == COLUMN_SETS else ""),
                )
            texts[name] = ",".join(words)
        return texts

    def colors(self) -> dict[str, str]:
        """Returns colours by filter, in the order of the file."""
        texts = {}
        for filter_, color in self.tables.get(COLORS, {}).items():
            if not isinstance(color, str):
                raise self.error(
                    COLORS, filter_, 'write a colour, as in "vbucket = 417" = "magenta"'
                )
            texts[filter_] = color
        return texts

    def name_position(self, table: str, key: str | None) -> str:
        """Names a place in the file."""
        return f"{escape(os.fspath(self.path))}: [{escape(table)}]" + (
            f" {escape(key)}" if key else ""
        )

    def error(self, table: str, key: str | None, what: str) -> UsageError:
        """Returns an error that names a place in the file."""
        return UsageError(f"{self.name_position(table, key)}: {what}")

    def _default(self, command: str, key: str, value: object, setting: Setting) -> Default:
        if setting.is_flag:
            if not isinstance(value, bool):
                raise self.error(command, key, "write true or false")
            return value != setting.is_negation
        values = value if isinstance(value, list) else [value]
        if any(isinstance(item, (bool, list, dict)) for item in values):
            raise self.error(command, key, "write text, a number, or a list of these")
        if any(isinstance(item, int) and item.bit_length() > 64 for item in values):
            raise self.error(command, key, "write a number of at most 64 bits")
        if setting.is_repeatable:
            return [str(item) for item in values]
        if isinstance(value, list):
            raise self.error(command, key, "the option takes one value, not a list")
        return str(value)


def config_path() -> tuple[Path, bool]:
    """Returns the path of the config file, and whether the user named it."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named), True
    if sys.platform == "linux":  # as platformdirs says, which would load a dozen modules for it
        folder = os.environ.get("XDG_CONFIG_HOME", "")
        return Path(
            folder if os.path.isabs(folder) else os.path.expanduser("~/.config"),
            "dcpinspect",
            "config.toml",
        ), False
    import platformdirs

    return platformdirs.user_config_path("dcpinspect") / "config.toml", False


def load(commands: Collection[str]) -> Config:
    """Reads the config file; empty if there is none. ``commands``: the tables that it may have."""
    path, is_named = config_path()
    config = Config(path, _parse(path, is_named))
    tables = [*commands, FILTERS, COLUMN_SETS, COLORS]
    for command, table in config.tables.items():
        if not isinstance(table, dict):
            raise UsageError(
                f"{escape(os.fspath(path))}: {escape(command)} belongs to a command; put it in "
                "its table, for instance under [read]"
            )
        if command not in tables:
            raise config.error(
                command, None, f"dcpinspect has no such command{_suggestion(command, tables)}"
            )
    return config


def _suggestion(word: str, known_words: Collection[str]) -> str:
    """Returns a clause for an error about an unknown word: the closest known words, or all."""
    everything = f"; it has {', '.join(sorted(known_words))}" if known_words else ""
    return did_you_mean(word, known_words) or everything


def _parse(path: Path, is_named: bool) -> Mapping[str, Mapping[str, object]]:
    try:
        check_is_file(str(path))
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
        import tomllib  # deferred: few have such a file

        if len(content) > MAX_SIZE:
            raise UsageError(
                f"{escape(os.fspath(path))}: larger than {MAX_SIZE >> 20} MiB, so no config file"
            )
        return tomllib.loads(content.decode("utf-8-sig"))
    except FileNotFoundError:
        if is_named:
            raise UsageError(
                f"{escape(os.fspath(path))}: no such config file; correct or unset {VARIABLE}"
            ) from None
        return {}
    except OSError as error:
        if not is_named and isinstance(error, (PermissionError, NotADirectoryError)):
            return {}  # HOME may be another user's, and so may this file
        raise UsageError(
            f"{escape(os.fspath(path))}: {error.strerror}; {VARIABLE} may name another config file"
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{escape(os.fspath(path))}, offset {error.start}: not UTF-8; save the config file "
            "as UTF-8"
        ) from error
    except ValueError as error:  # also of a number of thousands of digits
        what = str(error).partition("; use sys")[0]
        raise UsageError(f"{escape(os.fspath(path))}: not valid TOML: {what}") from error
    except RecursionError:
        raise UsageError(
            f"{escape(os.fspath(path))}: lists or tables are nested too deep"
        ) from None
