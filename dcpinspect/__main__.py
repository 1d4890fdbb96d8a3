"""The program itself, as ``dcpinspect`` and as ``python -m dcpinspect``: Ctrl-C ends it quietly from its first moment on."""

import sys

INTERRUPTED = 130


def main() -> int:
    """Run the command line and return the exit status."""
    try:
        from dcpinspect.cli import interrupts  # deferred, and the rest behind it: loading takes most of the time that some commands do

        with interrupts.outside_imports():
            from dcpinspect.cli.main import main

            return main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
