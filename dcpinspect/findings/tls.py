"""Rules about TLS: connections that cannot be read, alerts, and certificates."""

from __future__ import annotations

from collections.abc import Iterator

from dcpinspect.coverage import DirectionCoverage
from dcpinspect.findings.context import ends_of
from dcpinspect.findings.finding import Occurrence
from dcpinspect.findings.rule import rules
from dcpinspect.findings.rule_set import ReadingEnd, RuleSet
from dcpinspect.protocol.foreign import TLS
from dcpinspect.streams.tcp_facts import TcpConnection
from dcpinspect.text import escape
from dcpinspect.transport.tls.alerts import ALERTS, HARMLESS
from dcpinspect.transport.tls.certificates import host_named, read_certificate
from dcpinspect.transport.tls.connection import (
    IN_MESH,
    MISFIT,
    MISMATCHES,
    PLAIN_TO_TLS,
    TLS_TO_PLAIN,
    TlsConnection,
)

_GIVE = "give the client's key log with --keylog FILE (docs/tls.md says how clients write one)"
_IN_CLEAR = (
    "the client speaks in clear, and the server answers with an alert of TLS: it expects TLS"
)
_OTHER_NAME = "the client asks for another name than those of the certificate"

_FATAL = [name for number, (name, _) in ALERTS.items() if number not in HARMLESS]

RULES = rules(
    f"""
    tls-without-key capture note capture
        fires: a connection is encrypted, and no key log was given
        next: {_GIVE}; in a service mesh, {IN_MESH}
    tls-key-unknown capture note capture
        fires: a connection is encrypted, and the key log has no secret that opens it
        next: look for its client random in the key log; the log must have been written by this
            client while the connection began
    wrong-port session error client
        fires: a client begins TLS, and the server closes the connection without a byte; or a client
            speaks in clear, and the server answers with an alert of TLS
        unless: TLS on port 11207, which servers may refuse for other reasons
        next: set the other port of the node in the client's settings; a client should tell its user
            that the port is wrong
        causes: {TLS_TO_PLAIN} {PLAIN_TO_TLS}
        reports: couchbase-cxx-client#63, couchbase-cxx-client#197
        cost: connection, was made to the wrong port, were made to the wrong port
    tls-alert session error unknown
        fires: a side ends the connection with an alert of TLS; those that only close it are left
            out
        next: look at what the alert names: the certificates, the authorities that are trusted, the
            ciphers, or the version; a client should tell its user the alert
        causes: {" ".join(_FATAL)}
        cost: connection, was ended by TLS, were ended by TLS
    tls-certificate session warning server
        fires: the server's certificate had expired at capture time, was not valid yet, or does not
            name the host that the client asks for
        unless: where the certificate is encrypted and there are no secrets
        next: renew the certificate, or add the host's name to it; a client has to ask for a name
            that it has
        causes: expired not-yet-valid other-name
        cost: connection, has a certificate that clients refuse, have a certificate that clients
            refuse
    """
)


def findings(finished: ReadingEnd) -> Iterator[Occurrence]:
    """Yields all occurrences."""
    tls = finished.coverage.tls
    for direction_coverage in finished.coverage.where(
        lambda all_: (all_.direction == 0) & all_.is_own & (all_.not_decodable > all_.http)
    ):
        about = tls.get(direction_coverage.connection)
        if (
            direction_coverage.connection
            and direction_coverage.protocol == TLS
            and (about is None or not about.mismatch)
        ):
            advice = finished.coverage.tls_advice([direction_coverage.connection])
            yield _unread(
                direction_coverage,
                about,
                advice,
                has_keys=finished.coverage.has_keys,
                with_names=finished.with_keys,
            )
    links = finished.context.by_number  # other connections are of another protocol
    for number, about in tls.items():
        link = links.get(number)
        if link is not None and about.mismatch and link.proxied is None:
            yield _wrong_port(link, about)
        elif link is not None:
            yield from _alerts(number, about)
            yield from _certificate(number, about, link.first_ns, with_names=finished.with_keys)


def _unread(
    direction_coverage: DirectionCoverage,
    about: TlsConnection | None,
    advice: str,
    *,
    has_keys: bool,
    with_names: bool,
) -> Occurrence:
    seen = "encrypted" if about is None or not about.is_misfit else f"encrypted, and {MISFIT}"
    seen += (
        f" by sidecars of a service mesh ({about.mesh})" if about is not None and about.mesh else ""
    )
    descriptions = [] if about is None else _descriptions(about, with_names=with_names)
    facts = {"client random": about.client.random.hex()} if about and about.client else {}
    randoms = [f"{name} {number}" for name, number in facts.items()]
    message, shared = (
        ": ".join(filter(None, [seen, ", ".join(texts)]))
        for texts in ([*descriptions, *randoms], descriptions)
    )
    return Occurrence(
        "tls-key-unknown" if has_keys else "tls-without-key",
        message,
        direction_coverage.connection,
        next=None if has_keys else advice,
        shared=shared,
        facts=facts,
    )


def _wrong_port(link: TcpConnection, about: TlsConnection) -> Occurrence:
    is_tls = about.mismatch == TLS_TO_PLAIN
    close_text = (
        f"the client begins TLS, and the server {link.how_it_closes} the connection: it expects no TLS"
        if is_tls
        else _IN_CLEAR
    )
    port = link.server.rpartition(":")[2]
    return Occurrence(
        "wrong-port",
        f"{close_text} on port {port}",
        link.number,
        ends_of(link),
        cause=about.mismatch,
        next=MISMATCHES[about.mismatch],
        time_ns=link.first_ns,
        last_time_ns=link.last_ns,
        closes=link.number,
    )


def _descriptions(about: TlsConnection, *, with_names: bool) -> list[str]:
    """Returns what was seen of a connection in plain text, without its client random.
    ``with_names``: also the server's name, as the client calls it.
    """
    texts = [about.version_name, about.suite_name]
    if about.client is None:
        texts += [about.start_text, about.search_text]
    elif (name := about.client.server_name) and with_names:
        texts.append(f"server name {escape(name)}")
    return list(filter(None, texts))


def _alerts(number: int, about: TlsConnection) -> Iterator[Occurrence]:
    for side, name, meaning in about.alerts:
        cause = None if name.startswith("alert-") else name
        yield Occurrence("tls-alert", f"the {side} says {name}: {meaning}", number, cause=cause)


def _certificate(
    number: int, about: TlsConnection, time_ns: int, *, with_names: bool
) -> Iterator[Occurrence]:
    certificate = None if about.certificate is None else read_certificate(about.certificate)
    if certificate is None:
        return
    wrong: dict[str, str] = {}
    if time_ns > certificate.until_ns:
        wrong["expired"] = f"the certificate expired at {certificate.until}"
    elif time_ns < certificate.since_ns:
        wrong["not-yet-valid"] = f"the certificate is valid from {certificate.since} on"
    name = None if about.client is None else about.client.server_name
    if name and certificate.names and not host_named(name, certificate.names):
        names = ", ".join(map(escape, certificate.names[:3])) + (
            ", …" if len(certificate.names) > 3 else ""
        )
        message = f"the client asks for {escape(name)}, and the certificate names {names}"
        wrong["other-name"] = message if with_names else _OTHER_NAME
    for cause, message in wrong.items():
        yield Occurrence("tls-certificate", message, number, cause=cause)


RULE_SET = RuleSet(RULES, findings=findings)
