"""The partition's keys as a daemon holds them: one, and while that is changed several.

The first signs and is dialled with; all of them verify. So a key is changed without a stop: first
every daemon gets to know the new one, then it becomes the first everywhere, then the old one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from native import auth
from native.host.keyfile import KeyFileError, read_partition_keys
from native.text import plural, shown
from native.wire import codec

JOBS_MAX = 1024  # more than a node has at a time


class Keyring:
    """Keys, the first of which is used."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = tuple(keys)
        self._of_jobs: dict[int, bytes] = {}  # with which their credential was signed

    def read_again(self, path: str, hold: Callable[[Sequence[bytes]], None]) -> str:
        """Take the keys that the file has by now.

        Args:
            hold: what else is to hold them.

        Returns:
            What has come of it, for the log.
        """
        try:
            keys = read_partition_keys(path)
        except (OSError, KeyFileError) as error:
            return f"the key stays as it is: {error}"
        self._keys = keys
        hold(keys)
        return f"key file {shown(path)} is in force, {plural(len(keys), 'key')}"

    @property
    def keys(self) -> tuple[bytes, ...]:
        """All of them, the first first."""
        return self._keys

    def sign(self, credential: bytes) -> bytes:
        """bebopd's MAC of a credential."""
        return auth.sign(self._keys[0], credential)

    def job_key(self, job_id: int, uid: int, expires: int) -> bytes:
        """The key of a job that is granted."""
        return auth.derive_job_key(self._keys[0], job_id, uid, expires)

    def is_signed(self, credential: bytes, tag: bytes) -> bool:
        """Did this partition's bebopd sign the credential?"""
        for key in self._keys:
            if auth.is_signed(key, credential, tag):
                job_id = codec.decode_credential(credential).job_id
                self._of_jobs[job_id] = key
                if len(self._of_jobs) > JOBS_MAX:
                    del self._of_jobs[next(iter(self._of_jobs))]
                return True
        return False

    def ranks_key(self, job_id: int, uid: int) -> bytes:
        """The key of a job's ranks: the same on all of its nodes, whichever keys these have."""
        key = self._of_jobs.get(job_id, self._keys[0])
        return auth.derive_ranks_key(key, job_id, uid)
