"""The page: one file for the browser, made of three of ours. Pure but for reading them."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple


class Page(NamedTuple):
    """The page as it is sent.

    Attributes:
        policy: the header that lets it do what it does, and nothing else.
    """

    data: bytes
    policy: str


def load(package: str = "partition.web") -> Page:
    """Read the files of a package's page, and put them together."""
    here = files(package)
    html, css, script = (
        here.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    data = html.replace("/* page.css */", css).replace("/* page.js */", script)
    policy = (
        f"default-src 'none'; style-src '{_hash(css)}'; script-src '{_hash(script)}';"
        " img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    )
    return Page(data.encode(), policy)


def _hash(text: str) -> str:
    return "sha256-" + b64encode(sha256(text.encode()).digest()).decode()
