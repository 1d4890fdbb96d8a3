"""Reads Couchbase's Database Change Protocol from packet captures and explains it.

Importing this package loads nothing else: ``dcpinspect --help`` and ``--version`` must answer at once.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
