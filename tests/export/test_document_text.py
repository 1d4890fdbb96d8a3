"""Documents with xattrs written at once say what the annotated message says."""

from __future__ import annotations

import pytest

from dcpinspect.export.document_text import document_text
from dcpinspect.export.json import dump, field_object, value_object
from dcpinspect.protocol.annotate import annotate
from dcpinspect.protocol.encode import encode, encode_document
from dcpinspect.protocol.fields import Field, Kind
from dcpinspect.protocol.message import Context


def both(body: str, xattrs: dict[str, str], *, json: bool, snappy: bool, name: str = "dcp_mutation") -> tuple[object, object]:
    """(written at once, written from the annotated message)."""
    value, datatype = encode_document(body, xattrs=xattrs, json=json, snappy=snappy)
    message = annotate(encode(name, key="k", value=value, datatype=datatype), context=Context("off"))
    field = message.field("value")
    assert field is not None
    assert message.value is not None
    assert message.layout is not None
    (spec,) = message.layout.value
    assert isinstance(spec, Field)
    written = document_text(spec, value, datatype, field.offset, fields=True)
    return written, (dump(field_object(field, "full")), dump(value_object(message.value, "full")))


@pytest.mark.parametrize("snappy", [True, False])
@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize("body", ["", '{"a":\n1}', "é\x7f", '"quoted\\\\"'])
@pytest.mark.parametrize("xattrs", [{"_sync": '{"rev":"1"}'}, {"a": "1", "é": '"\u202e"'}])
def test_plain_documents_are_written_alike(body: str, xattrs: dict[str, str], json: bool, snappy: bool) -> None:
    written, expected = both(body, xattrs, json=json, snappy=snappy)
    assert written == expected or (written is None and json and body == "é\x7f")


@pytest.mark.parametrize(
    ("body", "xattrs", "name"),
    [
        ("not json", {"a": "1"}, "dcp_mutation"),
        ("{}", {"a": "no json"}, "dcp_mutation"),
        ("{}", {}, "dcp_mutation"),
        ("{}", {"a": "1"}, "dcp_deletion"),
    ],
    ids=["body", "xattr", "no-xattrs", "deletion-with-body"],
)
def test_what_is_not_plain_goes_the_ordinary_way(body: str, xattrs: dict[str, str], name: str) -> None:
    assert both(body, xattrs, json=True, snappy=False, name=name)[0] is None


def test_without_fields_only_the_object_is_written() -> None:
    value, datatype = encode_document("{}", xattrs={"a": "1"}, json=True)
    spec = Field("value", 0, Kind.DOCUMENT, "the document", "Value")
    found = document_text(spec, value, datatype, 60, fields=False)
    assert found is not None
    assert (found[0], found[1][:18]) == (b"", b'{"encoding":"json"')
