from __future__ import annotations

import json

from dcpinspect.reading.store.store import Store
from dcpinspect.tui.copying import FORMS, conversation, copied


def test_every_form_of_a_message(store: Store) -> None:
    batch = store.messages([99])
    forms = {form: copied(form, batch) for form in FORMS}
    assert json.loads(forms["json"])["row"] == 99
    assert bytes.fromhex(forms["hex"]) == store.messages([99]).bytes_of(0)


def test_a_message_of_no_stream_has_the_conversation_of_its_connection(store: Store) -> None:
    assert conversation(store.messages([99])) == "connection = 2 and vbucket = 7 and opaque = 7"
    assert conversation(store.messages([1])) == "connection = 1"
