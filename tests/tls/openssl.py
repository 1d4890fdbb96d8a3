"""What OpenSSL can and Python's ``ssl`` does not show, by ctypes on the library that ``ssl`` itself
uses.

CPython keeps SSL_CTX* first in its context object, and SSL* second in its connection object.
"""

from __future__ import annotations

import _ssl
import ctypes
import ssl
from functools import cache

_SET_GROUPS_LIST = 92
_EARLY_DATA_FINISH = 2

NO_ENCRYPT_THEN_MAC = 0x80000
NO_EXTENDED_MASTER_SECRET = 0x1
ALLOW_CLIENT_RENEGOTIATION = 0x100
"""Of a server."""


@cache
def _library() -> ctypes.CDLL:
    # The extension module leads to the very libssl that it is linked with; built in, the program
    # does.
    library = ctypes.CDLL(getattr(_ssl, "__file__", None))
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for name, *arguments in (
        ("SSL_CTX_set_ciphersuites", pointer, ctypes.c_char_p),
        ("SSL_CTX_ctrl", pointer, ctypes.c_int, ctypes.c_long, pointer),
        ("SSL_CTX_set_block_padding", pointer, size),
        ("SSL_CTX_set_max_early_data", pointer, ctypes.c_uint32),
        ("SSL_key_update", pointer, ctypes.c_int),
        ("SSL_renegotiate", pointer),
        ("SSL_shutdown", pointer),
        ("SSL_write_early_data", pointer, ctypes.c_char_p, size, ctypes.POINTER(size)),
        ("SSL_read_early_data", pointer, pointer, size, ctypes.POINTER(size)),
    ):
        getattr(library, name).argtypes = arguments
    return library


def _context(context: ssl.SSLContext) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(context) + object.__basicsize__)


def _connection(tls: ssl.SSLObject) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(
        id(tls._sslobj) + object.__basicsize__ + ctypes.sizeof(ctypes.c_void_p)  # type: ignore[attr-defined]
    )


def _succeed(result: int) -> None:
    if result != 1:
        raise OSError(f"OpenSSL answered {result}")


def set_suites(context: ssl.SSLContext, suites: str) -> None:
    """The cipher suites of TLS 1.3, which ``set_ciphers`` leaves alone."""
    _succeed(_library().SSL_CTX_set_ciphersuites(_context(context), suites.encode()))


def set_groups(context: ssl.SSLContext, groups: str) -> None:
    """``P-256:X25519``; a client sends a key share of the first alone."""
    _succeed(_library().SSL_CTX_ctrl(_context(context), _SET_GROUPS_LIST, 0, groups.encode()))


def set_padding(context: ssl.SSLContext, block: int) -> None:
    """TLS 1.3: fill every record up to a multiple of so many bytes."""
    _succeed(_library().SSL_CTX_set_block_padding(_context(context), block))


def accept_early_data(context: ssl.SSLContext, size: int = 1 << 14) -> None:
    """A server's tickets say that so much may come early."""
    _succeed(_library().SSL_CTX_set_max_early_data(_context(context), size))


def update_keys(tls: ssl.SSLObject, *, both: bool) -> None:
    """TLS 1.3: the next write begins with a KeyUpdate; ``both``: the other side shall answer with
    its own.
    """
    _succeed(_library().SSL_key_update(_connection(tls), int(both)))


def renegotiate(tls: ssl.SSLObject) -> None:
    """TLS 1.2: the next ``do_handshake`` makes new keys."""
    _succeed(_library().SSL_renegotiate(_connection(tls)))


def say_goodbye(tls: ssl.SSLObject) -> None:
    """Write close_notify; unlike ``unwrap``, without waiting for the other side's, so that reading
    goes on.
    """
    if _library().SSL_shutdown(_connection(tls)) < 0:
        raise OSError("no close_notify")


def write_early(tls: ssl.SSLObject, data: bytes) -> None:
    """A client's early data, before its handshake; its session must allow it."""
    written = ctypes.c_size_t()
    _succeed(
        _library().SSL_write_early_data(_connection(tls), data, len(data), ctypes.byref(written))
    )


def read_early(tls: ssl.SSLObject) -> tuple[bytes, bool]:
    """(early data, whether there will be no more), at a server before its handshake."""
    buffer, size = ctypes.create_string_buffer(1 << 14), ctypes.c_size_t()
    result = _library().SSL_read_early_data(
        _connection(tls), buffer, len(buffer), ctypes.byref(size)
    )
    return buffer.raw[: size.value], result == _EARLY_DATA_FINISH
