"""TLS alerts: their names and what they mean (RFC 8446, 6; RFC 5246, 7.2)."""

CLOSE_NOTIFY, USER_CANCELED, NO_RENEGOTIATION = 0, 90, 100
HARMLESS = (CLOSE_NOTIFY, USER_CANCELED, NO_RENEGOTIATION)
"""Alerts that report no fault."""

ALERTS = {
    0: ("close-notify", "ends the connection"),
    10: ("unexpected-message", "a message came that does not belong there"),
    20: ("bad-record-mac", "a record was changed on the way, or encrypted with another key"),
    22: ("record-overflow", "a record is too long"),
    40: ("handshake-failure", "the two sides have no cipher suite, key or parameter in common"),
    42: ("bad-certificate", "the certificate is damaged, or its signature is wrong"),
    43: ("unsupported-certificate", "the certificate is of a type that is not supported"),
    44: ("certificate-revoked", "the certificate was revoked"),
    45: ("certificate-expired", "the certificate has expired, or is not valid yet"),
    46: ("certificate-unknown", "the certificate was not accepted, for a reason that is not said"),
    47: ("illegal-parameter", "a field of the handshake has a value that is not allowed"),
    48: ("unknown-ca", "the certificate is signed by an authority that is not trusted"),
    49: ("access-denied", "the certificate is good, and its owner may not connect"),
    50: ("decode-error", "a handshake message cannot be read"),
    51: ("decrypt-error", "a signature or a Finished message is wrong"),
    70: ("protocol-version", "the other side's version of TLS is not supported"),
    71: ("insufficient-security", "the other side's ciphers are too weak"),
    80: ("internal-error", "the side failed for a reason of its own"),
    86: ("inappropriate-fallback", "the client retried with an older version without need"),
    90: ("user-canceled", "the user ended the handshake"),
    100: ("no-renegotiation", "the side does not negotiate again"),
    109: ("missing-extension", "an extension is missing that the version needs"),
    110: ("unsupported-extension", "an extension came that was not asked for"),
    112: ("unrecognized-name", "the server does not know the name that the client asks for"),
    113: ("bad-certificate-status-response", "the status of the certificate is wrong"),
    115: ("unknown-psk-identity", "the key of the session is not known"),
    116: ("certificate-required", "the server wants a certificate of the client, and got none"),
    120: ("no-application-protocol", "the two sides have no application protocol in common"),
}
"""Name and meaning of alerts, by number."""
