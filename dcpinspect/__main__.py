"""``python -m dcpinspect`` is the ``dcpinspect`` command."""

import sys

from dcpinspect.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
