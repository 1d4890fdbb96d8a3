from __future__ import annotations

import numpy as np
import pytest

from dcpinspect.transport.key_numbers import KeyNumbers, find_keys, slot_of

WIDE = np.iinfo(np.int64)


@pytest.mark.parametrize("form", ["interpreted", "compiled"])
@pytest.mark.parametrize("parts", [1, 9])
def test_keys_are_numbered_in_the_order_in_which_they_came(
    form: str, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dcpinspect.transport.key_numbers.find_keys", getattr(find_keys, form))
    rng = np.random.default_rng(5)
    wanted = np.concatenate(
        [
            rng.integers(WIDE.min, WIDE.max, (3000, 2)),
            rng.integers(-2, 2, (200, 2)),
            [[WIDE.min, WIDE.max], [0, 0]],
        ]
    )
    wanted = wanted[rng.integers(0, len(wanted), 8000)].repeat(rng.integers(1, 4, 8000), axis=0)
    keys = KeyNumbers()
    found = np.concatenate([keys.find(part) for part in np.array_split(wanted, parts)])
    expected: dict[tuple[int, ...], int] = {}
    assert found.tolist() == [
        expected.setdefault(tuple(key), len(expected)) for key in wanted.tolist()
    ]
    assert keys.count == len(expected)
    assert keys.keys[: keys.count].tolist() == [[*key] for key in expected]


def test_only_known_keys_keep_their_numbers() -> None:
    keys = KeyNumbers()
    wanted = np.arange(2000).reshape(-1, 2)
    keys.find(wanted)
    keys.reset(wanted[500:])
    assert keys.find(wanted[::-1].copy()).tolist() == [*reversed(range(500)), *range(500, 1000)]


@pytest.mark.parametrize("secret", [1 << 16, 1 << 20, (1 << 30) + (1 << 18), 123_456_789])
def test_ports_one_after_the_other_have_slots_of_their_own_whatever_the_secret(secret: int) -> None:
    """A scan must not take the square of its packets: with the low bits of the sums alone, some
    secrets leave 16 slots of 16,384.
    """
    keys = np.stack(
        (np.full(4096, 0x0A000007_0B000000), 1024 + np.arange(4096) << 16 | 11_210), axis=-1
    )
    slots = {slot_of(keys, row, secret, 1 << 14) for row in range(4096)}
    assert len(slots) > 3400, "of 4,096 at random slots 3,600 are apart"
