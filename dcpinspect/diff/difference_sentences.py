"""Describes in a sentence what shows a difference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dcpinspect.streams import words as w


def evidence(kind: str, lacks: str | None, row: Mapping[str, Any]) -> str:
    """Returns the sentence; ``row``: the result row of the query for this kind."""
    side = (lacks or "").upper()
    if kind == "differs":
        return "both sides have it: " + ", ".join(_differs(field, row) for field in row["fields"])
    if kind == "filter":
        return f"A asked for {' and '.join(row['a_asks'])}; B for {' and '.join(row['b_asks'])}"
    if kind == "snapshot":
        return (
            f"{row['ends']:,} ends are on one side only; A has {row['a_ends']:,}, B "
            f"{row['b_ends']:,}"
        )
    if kind == "no-stream":
        return f"no stream of the vbucket is in {side}'s capture"
    if kind == "rolled-back":
        return (
            f"the latest failover log of {'A' if lacks == 'b' else 'B'} does not have its "
            "branch up to there"
        )
    if kind == "other-history":
        departure = (
            f", which left this one at {row['snapshot_start']}"
            if row["snapshot_start"] is not None
            else ""
        )
        return f"{side}'s failover log has another branch there{departure}"
    where = f"connection {row['connection']} of {side}"
    if kind == "before-capture":
        return f"{side}'s capture begins after seqno {row['began']}"
    if row["reached"] is not None:
        behind = (
            ", with capture loss behind that" if row["is_lost"] and kind == "not-reached" else ""
        )
        more = ", with capture loss within that" if kind == "capture-loss" else behind
        return f"{side}'s streams cover {row['began'] + 1}–{row['reached']}{more}"
    gap = (
        f"{where} goes from {row['gap_after']} to {row['gap_before']}"
        if row["gap_after"] is not None
        else f"{where} covers it"
    )
    if kind == "not-sent" and row["cause"] == w.UNEXPLAINED and row["high"] is None:
        return f"{gap}, and nothing explains the gap"
    if row["high"] is None:
        return gap
    return f"{gap} in a snapshot that ends at {row['high']}"


def _differs(field: str, row: Mapping[str, Any]) -> str:
    if field == "cas":
        return f"CAS 0x{row['a_cas']:016x} and 0x{row['b_cas']:016x}"
    return {
        "key": "another key",
        "state": "one stores, the other deletes",
        "datatype": "another datatype",
        "value": "another value",
    }[field]
