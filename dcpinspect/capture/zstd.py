"""The module that reads and writes zstd: of Python itself from 3.14 on, of its backport before. It
is imported where it is needed.
"""

import sys

if sys.version_info >= (3, 14):
    from compression import zstd as zstd
else:
    from backports import zstd as zstd
