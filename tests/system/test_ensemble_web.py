"""The status of a study: in a real browser, and for programs."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import signal

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.chromium import NAME, Chromium
from tests.support.ensemble import Study
from tests.support.partition import finish
from tests.support.wait import LIMIT_S, wait_until

# Clients 0 to 4 end, 5 fails, 6 and 7 run until the end of the study.
SERVER = """
server.submit(0, 8)
while server.unfinished > 2:
    server.poll(60)
while not os.path.exists("go"):
    server.poll(0.1)
server.finish()
"""
CLIENT = "[ $MELISSA_CLIENT_ID -lt 6 ] || exec sleep 600; exit $((MELISSA_CLIENT_ID == 5))"


class Running:
    """A study that runs, and the address that its launcher has printed."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.process = study.start()
        study.wait_for("open http://")
        found = re.search(r"open (http://127\.0\.0\.1:(\d+)/\?token=([\w-]{32}))", study.log)
        assert found
        self.url, self.port, self.token = found[1], int(found[2]), found[3]

    def get(self, path, method="GET", **headers):
        """Status and body of an answer."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)
        client.request(method, path, headers=headers)
        answer = client.getresponse()
        body = answer.read()
        client.close()
        return answer.status, body.decode()

    def jobs(self):
        return json.loads(self.get("/jobs", token=self.token)[1])


@pytest.fixture
def running(place, tmp_path):
    found = Running(Study(place, tmp_path, server=SERVER, client=CLIENT, job_limit=8))
    wait_until(lambda: sum(job["state"] == "RUNNING" for job in found.jobs()) == 3)
    wait_until(lambda: len([job for job in found.jobs() if "ended" in job]) == 6)
    yield found
    found.process.send_signal(signal.SIGTERM)  # which is nothing where it has ended
    finish(found.process)
    found.study.is_clean()


def test_programs_ask_with_the_token_and_nobody_without(running):
    jobs = {job["client"]: job for job in running.jobs()}
    assert {client: jobs[client]["state"] for client in (None, 0, 5, 6)} == {
        None: "RUNNING", 0: "TERMINATED", 5: "FAILED", 6: "RUNNING",
    }  # fmt: skip
    status, body = running.get(f"/jobs/{jobs[5]['uid']}", authorization=f"Bearer {running.token}")
    assert (status, json.loads(body)) == (200, jobs[5])
    assert running.get(f"/jobs?token={running.token}")[0] == 200
    for path in ("/", "/jobs", "/jobs/1", "/events", "/metrics", "/nothing"):
        assert running.get(path)[0] == 403
        assert running.get(path, token="x" * 32)[0] == 403
        assert running.get(path, token=running.token, host="evil.example")[0] == 403
    for path in ("/jobs/99", "/jobs/x", "/jobs/", "/job", "/jobs/" + "9" * 5000):
        assert running.get(path, token=running.token)[0] in (404, 200 if path == "/jobs/" else 404)
    assert running.get("/jobs", "POST", token=running.token)[0] == 405
    text = running.get("/metrics", token=running.token)[1]
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert values["yod_ensemble_clients", "running"] == 2
    assert values["yod_ensemble_ended_total", "terminated"] == 5
    assert values["yod_ensemble_ended_total", "failed"] == 1
    assert values["yod_ensemble_epoch",] == 1


@pytest.mark.skipif(shutil.which(NAME) is None, reason="chromium is not there")
def test_the_page_shows_server_clients_and_restarts(running):
    browser = Chromium()
    try:
        browser.open(running.url)
        browser.wait("document.querySelectorAll('#jobs tr').length === 9")
        said = browser.run("document.querySelector('#facts').innerText")
        assert re.search(r"server\s+connected", said) and re.search(r"running\s+2", said)
        assert re.search(r"ended\s+5", said) and re.search(r"failed\s+1", said)
        assert browser.run("document.querySelectorAll('#course polygon').length") == 4
        assert browser.run("document.querySelectorAll('#jobs td.bad').length") == 1
        said = browser.run("document.querySelector('#story').innerText")
        assert "the server has connected (epoch 1)" in said
        (running.study.out / "go").touch()
        running.process.wait(LIMIT_S)
        browser.wait("document.querySelector('#link').className === 'lost'")
        said = browser.run("document.querySelector('#story').innerText")
        assert "the study is complete" in said
        assert all(
            "Failed to load resource" in each or "ERR_" in each for each in browser.complaints()
        )
    finally:
        browser.close()
