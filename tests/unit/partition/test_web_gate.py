"""Who is let in to the page, and what is no request."""

import pytest

from native.errors import UsageError
from partition.web import address
from partition.web.exchange import HEADERS_MAX_BYTES, BadRequest, Exchange
from partition.web.gate import Gate

GATE = Gate("s3cret", {"front.example.org"})


def why_not(host="127.0.0.1:8080", token="s3cret", authorization=""):
    return GATE.why_not(host, token, authorization)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8080", "front.example.org"],
)
def test_whoever_has_the_token_is_let_in_by_the_hosts_names(host):
    assert why_not(host) == ""


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "localhost.evil", "[x]:1",
     "localhost:80:80", "127.0.0.1:x", "evil.example\x00127.0.0.1"],
)  # fmt: skip
def test_a_name_that_is_not_the_hosts_is_refused_whatever_the_token(host):
    assert "name" in why_not(host)


@pytest.mark.parametrize("token", ["", "s3cre", "s3cret ", "S3CRET", "s3cretx", "\udcff", "é"])
def test_a_wrong_token_is_refused(token):
    assert "token" in why_not(token=token)


def test_the_token_may_come_as_a_bearer():
    assert why_not(token="", authorization="Bearer s3cret") == ""
    assert why_not(token="", authorization="bearer s3cret") == ""
    assert why_not(token="", authorization="Basic s3cret") != ""
    assert why_not(token="s3cret", authorization="Bearer wrong") != ""


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("", "127.0.0.1", 0), ("8080", "127.0.0.1", 8080), (":8080", "127.0.0.1", 8080),
     ("0.0.0.0:80", "0.0.0.0", 80), ("front", "front", 0), ("[::1]:80", "::1", 80),
     ("[::1]", "::1", 0)],
)  # fmt: skip
def test_an_address_is_a_host_a_port_or_both(text, host, port):
    assert address.parse(text) == (host, port)


@pytest.mark.parametrize("text", ["a:b", "a:70000", "a:-1", "a b:1", "http://a:1/", "a\n:1", "a@b"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="--web="):
        address.parse(text)


def test_what_is_printed_can_be_opened():
    assert address.url("::1", 80, "abc") == "http://[::1]:80/?token=abc"


def test_a_request_is_read_byte_by_byte():
    exchange = Exchange()
    data = b"GET /x?token=a%2Bb&y HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br, gzip\r\n\r\n"
    read = [exchange.receive(data[n : n + 1]) for n in range(len(data))]
    (request,) = [each for each in read if each is not None]
    assert read[-1] is request
    assert request == ("GET", "/x", "h", "a+b", "", True)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nx" + b"y" * HEADERS_MAX_BYTES, 431),
        (b"GET /" + b"a" * HEADERS_MAX_BYTES, 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET /?" + b"&".join(b"a=1" for _ in range(9)) + b" HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET http://[/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_refused_with_a_status(data, status):
    exchange = Exchange()
    with pytest.raises(BadRequest) as refused:
        for begin in range(0, len(data), 4096):
            exchange.receive(data[begin : begin + 4096])
    assert refused.value.status == status
    assert exchange.head(status, [("Content-Length", "0")]).startswith(b"HTTP/1.1 %d " % status)
