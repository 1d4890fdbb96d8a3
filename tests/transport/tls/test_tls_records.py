from __future__ import annotations

from dcpinspect.transport.tls.tls_records import whole_records


def record(size: int, kind: int = 23) -> bytes:
    return bytes([kind, 3, 3]) + size.to_bytes(2, "big") + b"\xaa" * size


def test_whole_records_of_application_data_are_found_behind_anything() -> None:
    row = record(40) + record(2, kind=21) + record(100)
    assert whole_records(bytearray(b"\x99" * 7 + row)) == [(7, 52), (59, 164)]
    assert whole_records(bytearray(row + record(60)[:20])) == [(0, 45), (52, 157)], (
        "the last one is not whole"
    )


def test_a_row_of_records_reaches_the_end_of_the_data() -> None:
    assert whole_records(bytearray(record(40) + b"\x99" * 30)) == []
    assert whole_records(bytearray(b"\x99" * 50)) == []
    false = b"\x17\x03\x03" + (30).to_bytes(2, "big") + b"\x99" * 10
    assert whole_records(bytearray(false + record(40) + record(40))) == [(15, 60), (60, 105)], (
        "what looked like one led nowhere"
    )
