"""Why a peer is lost, in words. Pure."""

from __future__ import annotations

import errno
import os
from enum import IntEnum

from native.errors import TOO_OLD
from native.port.port import Loss


class Verdict(IntEnum):
    """Why a credential proves nobody; codes of m4."""

    INVALID = 12
    EXPIRED = 13
    USED = 14
    NOBODY_TELLS = 15  # munged does not answer


_EXPIRED = 6  # the code of m4
_ENOKEY = 126  # errno: we lack a key, not the peer
_SILENCE = {  # errno: whose
    errno.ETIME: "does not answer: its process is stopped or hangs",
    errno.ETIMEDOUT: "does not answer: its host is gone, or cut off",
}
_LOSS_TEXT = {
    Loss.UNREACHABLE: "cannot be reached",
    Loss.WRONG_KEY: "does not hold the same key",
    Loss.WRONG_VERSION: "speaks no version of the protocol that we do",
    Loss.WRONG_PEER: "is not the process that was dialled",
    Loss.CLOSED: "has closed the connection",
    Loss.DIED: "has died, or its connection is broken",
    Loss.RESTARTED: "has been restarted",
    Loss.MISBEHAVED: "broke the protocol and was cut off",
    Loss.REFUSED: "refused the connection",
    Loss.UNREAD: "was cut off: its user leaves too much unread",
    Loss.CREDENTIAL: "does not take the credential of MUNGE",
    Loss.CROWDED: "refused the connection: too many connections have not proven who they are",
}
_CREDENTIAL_TEXT = {
    11: "it is not root's, or has no libmunge; a key is needed",
    Verdict.INVALID: "it was made by another site's munged, or is not for it",
    Verdict.EXPIRED: "it has expired, or the clocks of the two hosts differ",
    Verdict.USED: "it was used before",
    Verdict.NOBODY_TELLS: "no munged answers on its host",
}


def loss_text(loss: Loss, detail: int) -> str:
    """The words for a loss, by what the transport says of it."""
    if loss is Loss.WRONG_KEY and detail == _ENOKEY:
        return "cannot be dialled: there is no key for it"
    if loss is Loss.WRONG_KEY and detail == _EXPIRED:
        return f"does not take the key, which has expired: {TOO_OLD}"
    text = _LOSS_TEXT[loss]
    if loss is Loss.CREDENTIAL:
        return f"{text}: {_CREDENTIAL_TEXT.get(detail, 'no reason is given')}"
    if loss is Loss.CROWDED and detail == 2:
        return "refused the connection: you have too many connections there"
    if loss is Loss.CROWDED and detail:
        return text.replace("connections", "connections of yours")
    if loss is Loss.DIED and detail in _SILENCE:
        return _SILENCE[detail]
    if loss in (Loss.UNREACHABLE, Loss.DIED) and detail:
        return f"{text}: {os.strerror(detail)}"
    if loss is Loss.WRONG_VERSION and detail:
        return f"{text}: its versions are {detail >> 8} to {detail & 255}"
    return text
