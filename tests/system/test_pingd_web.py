"""pingd --web: the page in a real browser, and clients that mean no good."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.chromium import NAME, Chromium
from tests.support.partition import BIN, finish
from tests.support.wait import LIMIT_S, read_until, wait_until

has_chromium = pytest.mark.skipif(shutil.which(NAME) is None, reason="chromium is not there")
TAB, ENTER, ESCAPE, END, LEFT, RIGHT, DOWN = 9, 13, 27, 35, 37, 39, 40


class Web:
    """A pingd that serves.

    Attributes:
        url: what it has printed.
    """

    def __init__(self, partition, **env):
        self.process = subprocess.Popen(
            [BIN / "pingd", "--web"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=partition.environment(env),
        )
        line = read_until(self.process.stdout.fileno(), b"\n").decode()
        self.url = line.removeprefix("pingd: open ").strip()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32})", self.url)
        self.port, self.token = int(found[1]), found[2]

    def get(self, path, method="GET", **headers):
        """Status, headers and body of an answer; the headers as given, Host if it is not."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer.status, answer.headers, body

    def connect(self, data=b""):
        """A connection on which something has been sent."""
        sock = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        sock.sendall(data)
        return sock

    def close(self):
        """End it as a user does."""
        self.process.send_signal(signal.SIGINT)
        done = finish(self.process)
        assert (done.status, done.err) == (0, "")


@contextmanager
def serving(partition, **env):
    web = Web(partition, **env)
    try:
        yield web
    finally:
        web.close()


@pytest.fixture
def web(local):
    with serving(local) as web:
        yield web


@pytest.fixture
def browser(web):
    chromium = Chromium()
    try:
        chromium.open(web.url)
        chromium.wait("document.querySelectorAll('#nodes i').length === 4")
        yield chromium
        assert chromium.complaints() == []
    finally:
        chromium.close()


@pytest.fixture
def job(local):
    """Five ranks on the first two nodes."""
    yod = local.start_yod("-sz", "5", "sh", "-c", "echo up; exec sleep 600")
    read_until(yod.stdout.fileno(), b"up\n" * 5)
    yield yod
    if yod.poll() is None:
        yod.terminate()
    finish(yod)


def looks(browser):
    return browser.run("[...document.querySelectorAll('#nodes i')].map((i) => i.className)")


@has_chromium
def test_the_page_shows_how_many_nodes_and_ranks_of_a_launch_have_come(start_local):
    env = {"YOD_NOTICE_S": "0.5", "YOD_PROGRESS_TOLD_S": "0.1"}
    partition = start_local(3, slots=1, env=env)
    with serving(partition) as web:
        chromium = Chromium()
        try:
            chromium.open(web.url)
            chromium.wait("document.querySelectorAll('#nodes i').length === 3")
            late = partition.pcts[2].unix_pid
            os.kill(late, signal.SIGSTOP)
            yod = partition.start_yod("-sz", "3", "sh", "-c", "echo up; exec sleep 600", env=env)
            chromium.wait("document.querySelector('#jobs').innerText.includes('its nodes join')")
            chromium.wait(
                "document.querySelector('#jobs').innerText.includes('2 of 3 nodes, 2 of 3 ranks')"
            )
            bar = "document.querySelector('#jobs progress')"
            assert chromium.run(f"[{bar}.value, {bar}.max]") == [2, 3]
            os.kill(late, signal.SIGCONT)
            read_until(yod.stdout.fileno(), b"up\n" * 3)
            chromium.wait("document.querySelector('#jobs').innerText.includes('running')")
            chromium.wait(f"{bar} === null")
            yod.terminate()
            finish(yod)
            assert chromium.complaints() == []
        finally:
            chromium.close()


@has_chromium
def test_the_page_shows_a_job_from_its_beginning_to_its_end(local, browser, job):
    browser.wait("document.querySelectorAll('#nodes i.busy').length === 2")
    browser.wait("document.querySelector('#jobs').innerText.includes('running')")
    said = browser.run("document.querySelector('#jobs').innerText")
    assert "5 slots" in said and "nodes 0..1" in said and "sh" in said
    job.terminate()
    browser.wait("document.querySelectorAll('#nodes i.free').length === 4")
    browser.wait("!document.querySelector('#no-jobs').hidden")
    browser.wait("document.querySelector('#events').innerText.includes('began on 2 nodes')")
    browser.wait("document.querySelectorAll('#bars > div').length >= 1")


@has_chromium
def test_the_page_is_used_by_keyboard_alone(local, browser, job):
    browser.wait("document.querySelectorAll('#nodes i.busy').length === 2")
    for _ in range(20):
        browser.key("Tab", TAB)
        if browser.run("document.activeElement.id") == "nodes":
            break
    else:
        raise AssertionError("Tab does not reach the grid")
    browser.key("ArrowRight", RIGHT)
    label = (
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        ".getAttribute('aria-label')"
    )
    assert browser.run(label) == "node 1, node1, busy"
    browser.wait("document.querySelector('#node').innerText.includes('ranks 4')")
    browser.key("Enter", ENTER, "\r")
    browser.wait("document.querySelectorAll('#nodes i.dim').length === 2")
    browser.key("Escape", ESCAPE)
    browser.wait("document.querySelectorAll('#nodes i.dim').length === 0")
    browser.key("End", END)
    assert browser.run(label) == "node 3, node3, free"
    browser.key("Tab", TAB)
    assert browser.run("document.activeElement.closest('#jobs') !== null")
    browser.key("Enter", ENTER, "\r")
    browser.wait("document.activeElement.getAttribute('aria-pressed') === 'true'")


@has_chromium
def test_everything_has_a_name_for_those_who_do_not_see_it(browser):
    def tree():
        """Its nodes, once Chromium has made those of the whole page."""
        nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
        roles = {node.get("role", {}).get("value") for node in nodes}
        return roles >= {"listbox", "status", "button"} and nodes

    nodes = wait_until(tree, what="the accessibility tree of the page")
    named = {"button", "listbox", "searchbox", "option", "region", "list"}
    lacking = [
        node["role"]["value"]
        for node in nodes
        if node.get("role", {}).get("value") in named - {"option", "list"}
        and not node.get("name", {}).get("value")
        and not node.get("ignored")
    ]
    assert lacking == []


@has_chromium
@pytest.mark.parametrize("width", [320, 390, 768])
def test_a_narrow_page_has_nothing_beside_it(browser, job, width):
    browser.resize(width, 700, is_phone=True)
    browser.wait(f"window.innerWidth === {width}")
    assert browser.run("document.documentElement.scrollWidth") <= width
    low = browser.run(
        "Math.min(...[...document.querySelectorAll('button')].filter((b) => b.offsetParent)"
        ".map((b) => b.getBoundingClientRect().height))"
    )
    assert low >= 28, "a button too small for a finger"


@has_chromium
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast(browser, scheme):
    media = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=media)
    browser.wait("document.querySelector('#states button') !== null")
    found = browser.run(
        """(() => {
            const light = (colour) => {
                const [r, g, b] = colour.match(/[\\d.]+/g).map((n) => {
                    const part = n / 255;
                    return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
                });
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const back = light(getComputedStyle(document.querySelector("section")).backgroundColor);
            return [".muted", "h2", "#states button"].map((each) => {
                const text = light(getComputedStyle(document.querySelector(each)).color);
                return (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
            });
        })()"""
    )
    assert min(found) >= 4.5


@has_chromium
def test_the_page_says_that_bebopd_is_lost_and_goes_on_with_the_next(start_local):
    partition = start_local(4, env={"YOD_ANNOUNCE_RETRY_S": "0.1"})
    with serving(partition, YOD_ANNOUNCE_RETRY_S="0.1") as web:
        chromium = Chromium()
        try:
            chromium.open(web.url)
            chromium.wait("document.querySelectorAll('#nodes i.free').length === 4")
            partition.bebopd.kill()
            chromium.wait("!document.querySelector('#lost').hidden")
            assert web.get(f"/metrics?token={web.token}")[2].find(b"yod_bebopd_up 0") > 0
            partition.replace_bebopd()
            chromium.wait("document.querySelector('#lost').hidden")
            chromium.wait("document.querySelectorAll('#nodes i.free').length === 4")
        finally:
            chromium.close()


@has_chromium
def test_the_page_asks_nobody_else_for_anything(web, browser):
    asked = [
        event["params"]["request"]["url"]
        for event in browser.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked and all(
        url.startswith((f"http://127.0.0.1:{web.port}/", "data:", "about:")) for url in asked
    )


def test_metrics_are_read_by_a_parser_with_the_token_as_bearer(local, web):
    status, headers, body = web.get("/metrics", Authorization=f"Bearer {web.token}")
    assert status == 200
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    families = list(text_string_to_metric_families(body.decode()))
    (nodes,) = [family for family in families if family.name == "yod_nodes"]
    assert sum(sample.value for sample in nodes.samples) == 4


def test_nothing_is_shown_without_the_token(web):
    for path in ("/", "/events", "/metrics", "/nothing", "/?token=", f"/?token={'x' * 32}"):
        status, _, body = web.get(path)
        assert status == 403 and b"node" not in body.replace(b"node0", b"node")
    assert web.get("/", Authorization=f"Bearer {web.token}x")[0] == 403


def test_a_page_of_another_site_reaches_nothing(web):
    for host in ("evil.example", f"evil.example:{web.port}", "", "127.0.0.1.evil.example"):
        status, headers, body = web.get(f"/?token={web.token}", Host=host)
        assert status in (400, 403) and b"<html" not in body
        assert "Access-Control-Allow-Origin" not in headers
    status, headers, _ = web.get(f"/?token={web.token}")
    assert status == 200
    assert headers["X-Frame-Options"] == "DENY" and headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/..%2f..%2fetc/passwd", "//etc/passwd", "/page.js", "/%00"]
)
def test_there_are_three_places_and_no_files(web, path):
    assert web.get(f"{path}?token={web.token}")[0] == 404


def test_only_reading_is_possible(web):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "BREW"):
        assert web.get(f"/?token={web.token}", method)[0] == 405
    status, headers, body = web.get(f"/?token={web.token}", "HEAD")
    assert (status, body) == (200, b"") and int(headers["Content-Length"]) > 1000


def test_what_is_too_large_or_no_request_is_answered_and_cut_off(web):
    for data, status in (
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 20_000, b"431"),
        (b"\x16\x03\x01 no tls here\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
    ):
        with web.connect(data) as sock:
            assert sock.recv(12) == b"HTTP/1.1 " + status


def test_a_client_that_sends_slowly_is_given_up(local):
    with serving(local, YOD_WEB_REQUEST_S="0.3") as web, web.connect(b"GET / HTT") as sock:
        assert sock.recv(1) == b""


def test_clients_without_the_token_give_way_to_others(local):
    with serving(local, YOD_WEB_CLIENTS_COUNT="4") as web:
        idle = [web.connect(b"GET / HTT") for _ in range(10)]
        assert web.get(f"/?token={web.token}")[0] == 200
        for sock in idle[:5]:
            assert sock.recv(1) == b""
        for sock in idle:
            sock.close()


def test_streams_are_bounded_and_do_not_give_way(local):
    with serving(local, YOD_WEB_CLIENTS_COUNT="2") as web:
        ask = f"GET /events?token={web.token} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        streams = [web.connect(ask) for _ in range(2)]
        for sock in streams:
            read_until(sock.fileno(), b'"whole":true')
        with web.connect() as third:
            assert third.recv(1) == b""
        for sock in streams:
            sock.close()
        wait_until(lambda: _status(web) == 200)


def _status(web):
    try:
        return web.get(f"/?token={web.token}")[0]
    except (ConnectionError, http.client.BadStatusLine):
        return 0


def test_an_address_that_is_taken_is_named_in_a_line(local, web):
    process = subprocess.Popen(
        [BIN / "pingd", f"--web=127.0.0.1:{web.port}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=local.environment(),
    )
    done = finish(process)
    assert done.status == 2
    where = f"127.0.0.1:{web.port}"
    assert done.err == f"pingd: --web: cannot listen at {where}: Address already in use\n"


def test_without_a_partition_nothing_is_served(embedded):
    process = subprocess.Popen(
        [BIN / "pingd", "--web"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=embedded.environment(),
    )
    done = finish(process)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("pingd: no partition is up here")
