"""Who may see the page: whoever has its token, and names this host as it is named. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from hmac import compare_digest

_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_IPV6 = re.compile(r"\[[0-9a-fA-F:.]+\]")


class Gate:
    """Lets requests in, or says why not.

    Args:
        token: the secret in the printed address.
        command: that has printed the address.
        names: of this host. A page of another site reaches us under a name of its own, when
            that name leads to our address; so numbers and these names alone are ours.
    """

    def __init__(self, token: str, names: Collection[str], command: str = "pingd") -> None:
        self._command = command
        self._token = token.encode()
        self._names = {name.lower() for name in names} | {"localhost"}

    def why_not(self, host: str, token: str, authorization: str) -> str:
        """Why a request is refused; empty: it is let in.

        Args:
            host: its header ``Host``.
            token: of its address; empty: it has none.
            authorization: its header; empty: it has none.
        """
        name = _without_port(host).lower()
        is_number = _IPV4.fullmatch(name) or _IPV6.fullmatch(name)
        if not is_number and name not in self._names:
            return "this host is not known by that name"
        scheme, _, bearer = authorization.partition(" ")
        if scheme.lower() == "bearer":
            token = bearer.strip()
        if not compare_digest(token.encode(errors="replace"), self._token):
            return f"open the address that {self._command} has printed, with its token"
        return ""


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and (port.isdecimal() or not port) else host
