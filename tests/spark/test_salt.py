from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pytest

from dcpinspect.errors import UsageError
from dcpinspect.protocol.redact import Redactor
from dcpinspect.spark import files
from dcpinspect.spark.manifest import Manifest
from dcpinspect.spark.output_reading import compared
from dcpinspect.spark.pipeline import Options, expire
from dcpinspect.spark.salt import Salt, is_sealed
from tests.parted import findings
from tests.spark.cuts import cut, packets_of, written
from tests.spark.outputs import here, ran, stored, told
from tests.spark.test_pipeline import SAMPLES, equal

pytestmark = pytest.mark.slow


def test_runs_replace_by_one_salt_that_only_the_owner_reads(tmp_path: Path) -> None:
    packets, out = packets_of(SAMPLES / "tour.pcapng"), tmp_path / "out"
    first, *_ = cut(tmp_path / "ring", packets, [100, 220])
    ran(out, first, redacts=True)
    ran(out, tmp_path / "ring", redacts=True)
    salt = tmp_path / "out.salt"
    assert salt.stat().st_mode & 0o777 == 0o600
    redactor = Redactor(salt.read_bytes().strip())
    whole = written(tmp_path / "whole.pcap", packets)
    equal(stored(out, cut=True), told(whole, cut=True, redactor=redactor))
    elsewhere = salt.rename(tmp_path / "elsewhere")
    assert findings(compared(Manifest.newest(out).with_salt(str(elsewhere))).merged)
    for options in ({"redacts": True}, {"redacts": None}):
        with pytest.raises(
            UsageError, match=r"out.salt: is missing, and .* name its file with --salt-file"
        ):
            ran(out, whole, **options)
    expire(Options((), str(out), redacts=None, salt_file=str(elsewhere)), 1 << 62, here)
    assert Manifest.newest(out).dataset("messages").count_rows() == 0


def test_an_output_is_redacted_from_its_first_run_on_and_by_one_salt_or_not_at_all(
    tmp_path: Path,
) -> None:
    capture, out, plain = SAMPLES / "upr.pcap", tmp_path / "out", tmp_path / "plain"
    ran(out, capture, redacts=True)
    ran(plain, capture)
    before = Manifest.newest(out)
    with pytest.raises(
        UsageError,
        match=r"^--redact: .*out has pseudonyms; give --redact again, or name a new directory$",
    ):
        ran(out, capture)
    with pytest.raises(
        UsageError,
        match=r"^--redact: .*plain was written without it; leave it out, or name a new directory$",
    ):
        ran(plain, capture, redacts=True)
    other = tmp_path / "other"
    other.write_text("another salt, which is as long\n")
    with pytest.raises(
        UsageError,
        match=(
            r"other: is not the salt that .*out was redacted with; name its file with "
            r"--salt-file$"
        ),
    ):
        ran(out, capture, redacts=True, salt_file=str(other))
    with pytest.raises(UsageError, match=r"plain is not redacted; leave it out$"):
        Manifest.newest(plain).with_salt(str(other))
    with pytest.raises(UsageError, match=r"--salt-file .*: cannot be written \(.*\)$"):
        ran(tmp_path / "new", capture, redacts=True, salt_file="/proc/none/salt")
    with pytest.raises(
        UsageError,
        match=(
            r"^--redact: nothing in storage is kept from its readers; name a file for the salt "
            r"of s3://b/out"
        ),
    ):
        Salt.read_or_make("s3://b/out", None)
    assert Manifest.newest(out) == before


def test_what_is_encrypted_can_be_had_at_any_place_with_the_salt_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.salt"
    salt = Salt.read_or_make(str(tmp_path / "x"), None, makes=True)
    assert Salt.read_or_make(str(tmp_path / "x"), None, makes=True).mark == salt.mark
    data = bytes(range(256)) * 5
    files.write(str(tmp_path / "whole"), data, salt)
    with files.created(str(tmp_path / "pieces"), salt) as stream:
        assert (
            stream.writable(),
            stream.write(data[:33]),
            stream.write(data[33:]),
            stream.tell(),
        ) == (True, 33, len(data) - 33, len(data))
    for name in ("whole", "pieces"):
        file = str(tmp_path / name)
        assert files.content(file, salt) == data
        assert data[:33] not in (tmp_path / name).read_bytes()
        with files.source(file, salt) as source:
            for at in (0, 1, 15, 16, 17, 1000, len(data)):
                assert (source.seek(at), source.read(40)) == (at, data[at : at + 40])
            assert source.seek(-3, os.SEEK_END) == len(data) - 3
            assert (source.tell(), source.read(), source.readable(), source.seekable()) == (
                len(data) - 3,
                data[-3:],
                True,
                True,
            )
    path.write_text("another salt, which is as long\n")
    assert files.content(str(tmp_path / "whole"), salt) != data
    assert not is_sealed(io.BytesIO(data))
    (tmp_path / "plain").write_bytes(data)
    with pytest.raises(OSError, match="is not encrypted"):
        files.content(str(tmp_path / "plain"), salt)


def test_arrow_reads_what_it_wrote_encrypted(tmp_path: Path) -> None:
    salt, path, schema = (
        Salt.read_or_make(str(tmp_path / "x"), None, makes=True),
        str(tmp_path / "a.arrow"),
        pa.schema([("n", pa.int64())]),
    )
    with files.created(path, salt) as stream, pa.ipc.new_file(stream, schema) as file:
        for number in range(3):
            file.write_batch(pa.record_batch({"n": [number] * 1000}))
    with files.source(path, salt) as source:
        assert pa.ipc.open_file(source).get_batch(2)["n"].to_pylist() == [2] * 1000
