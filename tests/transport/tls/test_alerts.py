from __future__ import annotations

import ssl

from dcpinspect.transport.tls.alerts import ALERTS, HARMLESS


def test_alerts_have_the_numbers_that_openssl_has() -> None:
    known = {
        one.value: one.name.removeprefix("ALERT_DESCRIPTION_")
        .lower()
        .replace("_", "-")
        .replace("cancelled", "canceled")
        for one in ssl.AlertDescription
    }
    for number, (name, meaning) in ALERTS.items():
        assert number not in known or known[number] == name
        assert meaning[0].islower()
        assert not meaning.endswith(".")
    assert {number for number in known if number in ALERTS} >= {
        0,
        10,
        20,
        40,
        42,
        45,
        46,
        48,
        70,
        80,
    }
    assert set(HARMLESS) < set(ALERTS)
