from __future__ import annotations

import dataclasses
import json

from dcpinspect.reading.store.store import Store
from dcpinspect.tui.copying import FORMS, conversation, copied


def test_every_form_of_a_message(store: Store) -> None:
    batch = store.messages([99])
    forms = {form: copied(form, batch) for form in FORMS}
    assert json.loads(forms["json"])["row"] == 99
    assert bytes.fromhex(forms["hex"]) == store.bytes_of(99)
    assert forms["tshark"].startswith("tshark -r ")
    assert forms["tshark"].endswith("rollback.pcap -V -Y 'frame.number == 93'")


def test_a_message_of_no_stream_has_the_conversation_of_its_connection(store: Store) -> None:
    assert conversation(store.messages([99])) == "connection = 2 and vbucket = 7 and opaque = 7"
    assert conversation(store.messages([1])) == "connection = 1"


def test_names_and_ports_that_tshark_has_to_be_told(store: Store) -> None:
    batch = store.messages([99])
    batch = dataclasses.replace(
        batch,
        files=["a b;.pcap"],
        frame=batch.frame - 2,
        endpoints=dataclasses.replace(batch.endpoints, server=["h:1"] * 9),
    )
    assert copied("tshark", batch).startswith(
        "tshark -r 'a b;.pcap' -d tcp.port==1,couchbase -V -Y 'frame.number >= 91 && "
    )
