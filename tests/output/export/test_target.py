from __future__ import annotations

from pathlib import Path

import pytest

from dcpinspect.output.export.atomic import AtomicFile


def test_pieces_are_written_as_they_are_and_whole(tmp_path: Path) -> None:
    target = AtomicFile(str(tmp_path / "x"))
    for piece in ("é\n", b"\x1b\xff\n"):
        target.write_piece(piece)
    target.write_network_text(b"\x1b[2J\n")
    assert target.tell() == 11
    target.commit()
    assert (tmp_path / "x").read_bytes() == b"\xc3\xa9\n\x1b\xff\n\x1b[2J\n"


@pytest.mark.parametrize(
    ("name", "is_stream"), [("x.arrows", True), ("x.arrow", False), ("x", False)]
)
def test_a_stream_is_named_as_such(name: str, is_stream: bool, tmp_path: Path) -> None:
    file = AtomicFile(str(tmp_path / name))
    assert file.is_stream is is_stream
    file.discard()
