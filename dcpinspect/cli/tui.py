"""``dcpinspect tui``: the terminal UI on files, on captures that are being written, and for ``live
--tui`` on interfaces.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dcpinspect.cli import interrupts, options
from dcpinspect.cli.choices import Choices, as_option
from dcpinspect.cli.terminal import complain, wants_ascii
from dcpinspect.errors import CaptureError, DcpInspectError, UsageError
from dcpinspect.lazy_dataclass import dataclass
from dcpinspect.text import escape

if TYPE_CHECKING:
    from dcpinspect.protocol.redact import Redactor
    from dcpinspect.reading.reading import Packets, Reading
    from dcpinspect.tui.base_app import Opening, ThemedApp

KEPT_MIB = 2048
"""MiB of packets that are kept of captures that come only once."""
Keep = Annotated[
    int,
    as_option(
        "--keep MIB",
        "For a pipe or a live capture, how many MiB of the newest packets to keep.",
        min=1,
    ),
]
if TYPE_CHECKING:
    View = str
else:
    # the same as keys.VIEWS, without the import
    View = Literal["overview", "packets", "vbuckets", "timeline", "findings", "stats"]
CRASHED = 70
"""Exit status after a fault of the program itself, from sysexits.h."""

_BATCH_BYTES = 8 << 20
"""Half the usual size of batches: a batch is in memory beside everything that is shown."""


class UiLook(Choices):
    """How the UI looks."""

    title = "The look"
    words = """
    --theme NAME: Colours to begin with, as in textual-light. ctrl+p has all of them.
    """
    ascii_: options.Ascii = False
    theme: str | None = None


class PictureOrder(Choices):
    """Whether a view is drawn to a file, in place of the terminal."""

    title = "A picture"
    words = """
    --screenshot: Draw this view to the file of -o, as SVG, without a terminal.
    --output -o FILE: For --screenshot, the picture, which appears when it is complete.
    --size COLUMNSxLINES: For --screenshot, the size of the terminal. By default 120x36.
    """
    screenshot: Annotated[View | None, {"show_default": False}] = None
    output: str | None = None
    size: str | None = None


@dataclass(frozen=True, slots=True)
class UiOptions:
    """What holds for every capture that one run of the UI opens."""

    ports: dict[str, Any]
    """The arguments of a reading."""
    keep_mib: int = KEPT_MIB
    """MiB of packets that are kept of captures that come only once."""
    redactor: Redactor | None = None
    look: UiLook = UiLook()


@dataclass(frozen=True, slots=True)
class OpenedCapture:
    """A capture for the UI, and how it is shown first."""

    capture: Packets
    filter_text: str = ""
    is_saved: bool = True
    """Whether the packets are in a file, so that leaving loses nothing."""
    can_read_again: bool = False
    notices: Sequence[str] = ()
    """Lines for the user; lines may be added later."""
    prepare: Callable[[Reading], object] = lambda _: None
    """Called with the reading before it begins."""


def tui(
    context: typer.Context,
    picture: PictureOrder,
    look: UiLook,
    times: options.Times,
    redaction: options.Redaction,
    ports: options.Ports,
    captures: Annotated[list[str] | None, {"callback": options.with_folders}] = None,
    follow: bool = False,
    filter_: options.FilterOption = None,
    keep: Keep = KEPT_MIB,
) -> int:
    """Open captures in the terminal UI: messages and their bytes, every vbucket, timelines,
    findings.

    Options:
    captures [CAPTURE…]: Capture files, or directories of them, read as one in order of time. - is
        standard input. Without one, choose it there.
    --follow: Also read what another program still writes to the capture.
    """
    captures = captures or []
    ui = UiOptions(ports.reading_arguments(), keep, redaction.redactor(), look)
    is_growing = follow or options.STDIN in captures
    if picture.screenshot is not None:
        if follow or not captures:
            raise UsageError(
                "--screenshot: is of captures that are complete; name one, without --follow"
            )
        filter_text = _with_times(filter_, times, captures, is_growing=is_growing)
        return _draw(context, captures, picture, filter_text, ui)
    for option, value in (("-o", picture.output), ("--size", picture.size)):
        if value is not None:
            raise UsageError(
                f"{option}: is for --screenshot; name the view, as in --screenshot timeline"
            )
    if not is_terminal(with_keys=options.STDIN not in captures):
        raise UsageError(
            "tui: standard input, output and error must be a terminal; 'dcpinspect read' "
            "prints messages, 'check' what is wrong"
        )
    if len(captures) > 1 and is_growing:
        growing = options.STDIN if options.STDIN in captures else "--follow"
        raise UsageError(
            f"{growing}: one capture at a time; leave out all but the one that is being written"
        )
    if not captures:
        if follow or filter_ or times.since or times.until:
            raise UsageError(
                "tui: --follow, --filter, --since and --until are for a capture; "
                "name one, or choose it in the UI"
            )
        return explore(context, None, ui)
    filter_text = _with_times(filter_, times, captures, is_growing=is_growing)
    # deferred: --help and completion do not need it
    from dcpinspect.capture.open import open_capture

    # captures from a pipe are followed, too, so that the user can stop before the pipe ends
    is_piped = len(captures) == 1 and Path(captures[0]).is_fifo()
    capture = open_capture(captures, batch_bytes=_BATCH_BYTES, follow=is_growing or is_piped)
    capture_to_open = OpenedCapture(
        capture,
        filter_text,
        is_saved=options.STDIN not in captures,
        can_read_again=not (is_growing or is_piped),
    )
    with _keys_of_terminal() if options.STDIN in captures else nullcontext():
        return explore(context, capture_to_open, ui)


def _with_times(
    filter_: str | None, times: options.Times, captures: list[str], *, is_growing: bool
) -> str:
    """Returns the filter that the list opens with: it includes the span of time, so that the user
    can change it there.

    Raises UsageError.
    """
    span = times.span(None if is_growing else captures)
    if span is None:
        return filter_ or ""
    from dcpinspect.capture.open import open_capture
    from dcpinspect.tables.record_tables import time_text

    counted = any(
        moment is not None and moment.counts_from != "epoch" for moment in (span.since, span.until)
    )
    if counted and options.STDIN in captures:
        raise UsageError(
            f"{'--since' if times.since else '--until'}: the start is not known before it "
            "comes; write the date, too"
        )
    first_ns = 0
    if counted:
        with open_capture(captures) as capture:
            first_ns = next((int(batch.time_ns[0]) for batch in capture if len(batch)), 0)
    low, high = span.bounds(first_ns)
    conditions = [f"({filter_})"] if filter_ else []
    conditions += [f"time >= '{time_text(low)}'"] if span.since is not None else []
    conditions += [f"time < '{time_text(high)}'"] if span.until is not None else []
    return " and ".join(conditions)


def is_terminal(*, with_keys: bool = True) -> bool:
    """Whether there is a terminal to draw on, and one for the keys unless they come elsewhere."""
    return all(
        stream.isatty() for stream in (sys.stdout, sys.stderr, *([sys.stdin] if with_keys else []))
    )


def explore(context: typer.Context, capture_to_open: OpenedCapture | None, ui: UiOptions) -> int:
    """Opens the terminal UI on a capture, or on the screen that chooses one; waits for its end."""
    # it would check the imported objects again and again, for 60 ms, although all of them stay
    gc.disable()
    # deferred: Textual and the decoder, which --help and completion do not need
    from dcpinspect.tui.app import InspectApp
    from dcpinspect.tui.inspection import Inspection
    from dcpinspect.tui.opening import StartApp

    gc.freeze()
    gc.enable()
    look = _look_and_memory(context, ui.look)
    saved = options.saved_filters(context.obj)
    message = ""
    memory, colors = look["memory"], options.color_rules(context.obj)
    while True:
        if capture_to_open is None:
            opening, status = _run(StartApp(**look, message=message))
        else:
            inspection = Inspection(
                capture_to_open.capture,
                **ui.ports,
                is_saved=capture_to_open.is_saved,
                notices=capture_to_open.notices,
                keep=ui.keep_mib << 20,
                redactor=ui.redactor,
            )
            capture_to_open.prepare(inspection.reading)
            can_read_again = capture_to_open.can_read_again
            app = InspectApp(
                inspection,
                **look,
                saved=saved,
                colors=colors,
                filter_text=capture_to_open.filter_text,
                can_read_again=can_read_again,
            )
            if can_read_again and len(inspection.files) == 1:
                memory.captures.add(os.path.abspath(inspection.files[0]))
            try:
                opening, status = _run(app, app.close)
            finally:
                app.close()
        if opening is None:
            return status
        try:
            capture_to_open = _open_choice(opening, ui)
        except DcpInspectError as error:
            capture_to_open, message = None, str(error)


def _look_and_memory(context: typer.Context, look: UiLook) -> dict[str, Any]:
    """Returns look and memory of an application: the common arguments of every ``ThemedApp``.
    Raises UsageError.
    """
    from rich.console import Console  # deferred, as above

    from dcpinspect.tui.history import Memory
    from dcpinspect.tui.theme import known_theme

    theme, option_text = look.theme, "--theme"
    # this also applies to live --tui
    if theme is None and (named := context.obj.tables.get("tui", {}).get("theme")):
        theme, option_text = str(named), context.obj.name_position("tui", "theme")
    return {
        "is_ascii": look.ascii_ or wants_ascii() or os.environ.get("TERM") == "linux",
        "memory": Memory.of_user(),
        "theme_name": known_theme(theme, option_text) if theme else "",
        "has_few_colors": Console().color_system == "standard",
    }


def _draw(
    context: typer.Context,
    captures: list[str],
    picture: PictureOrder,
    filter_text: str,
    ui: UiOptions,
) -> int:
    """Writes a picture of a view to a file. The user's own theme, history and terminal do not
    change it. Raises UsageError.
    """
    view, size, output = picture.screenshot or "", picture.size, picture.output
    if not output:
        raise UsageError("--screenshot: name the file, as in -o view.svg")
    # deferred, as above
    from dcpinspect.cli.output import refuse_to_overwrite
    from dcpinspect.cli.remarks import remarks
    from dcpinspect.output.export.atomic import AtomicFile
    from dcpinspect.tui.app import InspectApp
    from dcpinspect.tui.history import Memory
    from dcpinspect.tui.inspection import Inspection
    from dcpinspect.tui.screenshot import LARGEST, SIZE, SMALLEST, screenshot

    size_match = re.fullmatch(r"(\d{1,4})x(\d{1,4})", size or "x".join(map(str, SIZE)), re.ASCII)
    columns, lines = (int(size_match[1]), int(size_match[2])) if size_match else (0, 0)
    if not all(SMALLEST <= length <= LARGEST for length in (columns, lines)):
        raise UsageError(
            f"--size {escape(size or '')}: write columns and lines, {SMALLEST} to {LARGEST} of "
            "each, as in 120x36"
        )
    refuse_to_overwrite(output, captures)
    look = _look_and_memory(context, ui.look) | {
        "memory": Memory(),
        "has_few_colors": False,
        "is_ascii": ui.look.ascii_,
    }
    with AtomicFile(output) as file:
        inspection = Inspection(captures, **ui.ports, redactor=ui.redactor)
        saved, colors = options.saved_filters(context.obj), options.color_rules(context.obj)
        app = InspectApp(inspection, **look, saved=saved, colors=colors, filter_text=filter_text)
        try:
            drawn = screenshot(app, view, (columns, lines))
        finally:
            app.close()
        if inspection.state == "failed":
            raise CaptureError(captures[0], inspection.error, "nothing was drawn")
        status = remarks(inspection.reading)
        if status == CaptureError.exit_status:
            file.discard()
        else:
            file.write_piece(drawn)
    return status


def _run(app: ThemedApp, close: Callable[[], object] = lambda: None) -> tuple[Opening | None, int]:
    """Runs an application to its end. Returns what to open next, and the exit status. ``close``:
    frees what it has, which takes no endless time after a signal.
    """
    no_color = os.environ.get("NO_COLOR")  # Textual removes it from the environment
    # exit restores the terminal; it never returns where that is gone
    with interrupts.stopping(app.exit, within_s=interrupts.LONGEST_S):
        opening = app.run()
        status = interrupts.status_of(app.return_code or 0)
        if interrupts.status_of(0):
            close()  # findings may be worked out, which nothing stops
    if no_color is not None:
        os.environ["NO_COLOR"] = no_color
    if app.cut_export:
        complain(
            f"{escape(app.cut_export)}: is not written, since the UI was closed before the export "
            "was complete"
        )
    if app.crash is None:
        return opening, status
    complain(
        "a fault of dcpinspect ended the terminal UI; please send its log, which has nothing "
        f"from the capture: {_log(app.crash)}"
    )
    return None, CRASHED


def _open_choice(opening: Opening, ui: UiOptions) -> OpenedCapture:
    """Opens what was chosen in the UI. Raises DcpInspectError."""
    if opening.interface:
        from dcpinspect.cli.capturing import Capturing

        source, notices = Capturing(interface=[opening.interface]).interfaces(), list[str]()
        capture = source.capture(**ui.ports, tell=notices.append)
        return OpenedCapture(capture, is_saved=False, notices=notices, prepare=source.bound)
    from dcpinspect.capture.open import open_capture

    if opening.keylog:
        options.choose_keylogs([opening.keylog])
    return OpenedCapture(
        open_capture(options.with_folders(opening.captures), batch_bytes=_BATCH_BYTES),
        can_read_again=True,
    )


@contextmanager
def _keys_of_terminal() -> Iterator[None]:
    """Reads keys from the terminal while standard input is the capture. Raises UsageError if there
    is no terminal.
    """
    before = sys.__stdin__
    try:
        keys = open("/dev/tty", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise UsageError(
            f"-: there is no terminal to read keys from ({error.strerror}); 'dcpinspect read "
            "-' prints messages"
        ) from error
    sys.__stdin__ = keys  # type: ignore[misc] # where Textual takes the terminal from
    try:
        yield
    finally:
        sys.__stdin__ = before  # type: ignore[misc]
        keys.close()


def _log(crash: BaseException) -> str:
    """Writes a report on a crash to a file, and returns its name.

    The report has a traceback without values, and so no data of the capture.
    """
    import platform
    import tempfile
    import traceback

    from dcpinspect import __version__

    lines = traceback.StackSummary.extract(traceback.walk_tb(crash.__traceback__)).format()
    with tempfile.NamedTemporaryFile(
        "w", prefix="dcpinspect-", suffix=".log", encoding="utf-8", delete=False
    ) as file:
        file.write(
            f"dcpinspect {__version__}, Python {platform.python_version()}, "
            f"{platform.platform()}\n{''.join(lines)}"
        )
        file.write(f"{type(crash).__name__}\n")
    return file.name
