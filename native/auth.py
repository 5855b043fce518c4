"""Keys and MACs, as the transport's C computes them (native/transport/src/pure/ptl_auth.c).

It imports nothing but BLAKE2b. A key is 32 bytes. FRAMES.md says what each key proves;
native/port/portals.py has the kinds.
"""

from _blake2 import blake2b
from _operator import _compare_digest as compare_digest

KEY_BYTES = 32
NEVER = (1 << 63) - 1  # as a key's expiry


def mac(key: bytes, person: str, data: bytes) -> bytes:
    """MAC of ``data`` for one use: 32 bytes.

    Args:
        key: 32 bytes.
        person: names the use, at most 16 ASCII characters; the transport's own
            begin with "yod.".
        data: the bytes to authenticate.
    """
    return blake2b(data, digest_size=32, key=key, person=person.encode()).digest()


def is_valid(key: bytes, person: str, data: bytes, tag: bytes) -> bool:
    """Is ``tag`` the MAC of ``data``? Compared in constant time."""
    return compare_digest(mac(key, person, data), tag)


def derive_user_key(partition_key: bytes, uid: int) -> bytes:
    """The key that proves one user's identity."""
    return mac(partition_key, "yod.user", uid.to_bytes(4, "little"))


def derive_job_key(partition_key: bytes, job_id: int, uid: int, expires: int) -> bytes:
    """The key of one job.

    Args:
        partition_key: of the partition that granted it.
        job_id: the job.
        uid: its owner.
        expires: seconds since 1970; a connection is refused after that.
    """
    data = job_id.to_bytes(8, "little") + uid.to_bytes(4, "little") + expires.to_bytes(8, "little")
    return mac(partition_key, "yod.job", data)


def derive_ranks_key(partition_key: bytes, job_id: int, uid: int) -> bytes:
    """The key with which the ranks of a job connect to one another.

    It differs from the job's key of :func:`derive_job_key`, which opens the job's PCTs and
    expires within a minute.
    """
    data = job_id.to_bytes(8, "little") + uid.to_bytes(4, "little")
    return mac(partition_key, "yod.ranks", data)


def sign(partition_key: bytes, credential: bytes) -> bytes:
    """bebopd's MAC of a credential."""
    return mac(partition_key, "credential", credential)


def is_signed(partition_key: bytes, credential: bytes, tag: bytes) -> bool:
    """Did this partition's bebopd sign the credential?"""
    return is_valid(partition_key, "credential", credential, tag)
