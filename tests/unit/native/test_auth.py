"""Keys and MACs: Python, C and hashlib say the same."""

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from native import auth
from native.port import endpoint

KEY = bytes(range(32))


@given(key=st.binary(min_size=32, max_size=32), data=st.binary(max_size=700))
def test_mac_in_c_equals_hashlib(key: bytes, data: bytes) -> None:
    expected = blake2b(data, digest_size=32, key=key, person=b"yod.test").digest()
    assert endpoint.mac(key, "yod.test", data) == expected
    assert auth.mac(key, "yod.test", data) == expected


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 129, 255, 256, 257, 4096, 100_001])
def test_digest_in_c_equals_hashlib(size: int) -> None:
    data = bytes(n * 7 & 255 for n in range(size))
    assert endpoint.digest(data) == blake2b(data, digest_size=32).digest()


def test_derived_keys_depend_on_every_id() -> None:
    keys = {
        auth.derive_user_key(KEY, 1),
        auth.derive_user_key(KEY, 2),
        auth.derive_user_key(bytes(32), 1),
        auth.derive_job_key(KEY, 1, 2, 3),
        auth.derive_job_key(KEY, 9, 2, 3),
        auth.derive_job_key(KEY, 1, 9, 3),
        auth.derive_job_key(KEY, 1, 2, 9),
        auth.derive_job_key(bytes(32), 1, 2, 3),
    }
    assert len(keys) == 8
    assert {len(key) for key in keys} == {auth.KEY_BYTES}


def test_a_tag_is_valid_only_for_its_data_key_and_use() -> None:
    tag = auth.mac(KEY, "one", b"data")
    assert auth.is_valid(KEY, "one", b"data", tag)
    assert not auth.is_valid(KEY, "two", b"data", tag)
    assert not auth.is_valid(KEY, "one", b"date", tag)
    assert not auth.is_valid(bytes(32), "one", b"data", tag)
    assert not auth.is_valid(KEY, "one", b"data", tag[:-1])
