"""Resources: files of RADICAL-Pilot's form are obeyed, or refused by the name of a key."""

from __future__ import annotations

import pytest

from native.errors import UsageError
from yod.pilot.model.resources import BUILT_IN, lines_of, resource_of_entries
from yod.pilot.site import resources

SITE = """\
{
    "big": {
        "description": "a machine",
        "default_schema": "local",
        "schemas": {
            "local": {"job_manager_endpoint": "slurm://big.org/", "filesystem_endpoint": "file://big.org/"},
            "ssh": {"job_manager_endpoint": "slurm+ssh://big.org/"},
            "interactive": {"job_manager_endpoint": "fork://localhost/"}
        },
        "default_queue": "wholenode",
        "resource_manager": "SLURM",
        "agent_scheduler": "CONTINUOUS",
        # "agent_scheduler": "CONTINUOUS_COLO",
        "launch_methods": {"order": ["SRUN"], "SRUN": {}},
        "pre_bootstrap_0": ["module load a"],
        "pre_bootstrap_1": ["module load b"],
        "virtenv_mode": "use",
        "virtenv": "$HOME/ve",
        "default_remote_workdir": "$PROJECT",
        "system_architecture": {"exclusive": true, "smt": 2, "options": ["nvme"]},
        "mandatory_args": ["project"],
        "cores_per_node": 64,
        "mem_per_node": 1000,
        "lfs_size_per_node": 20
    },
    "odd": {"job_manager_endpoint": "slurm://h/", "forward_tunnel_endpoint": "node:22"}
}
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.setenv("YOD_PILOT_RESOURCES", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "resource_org.json").write_text(SITE)
    return tmp_path


def test_a_file_of_the_references_form_is_read(site):
    found = resources.resource_of("org.big")
    assert (found.manager, found.queue, found.mandatory) == ("slurm", "wholenode", ("project",))
    assert (found.cores_per_node, found.mem_per_node, found.lfs_per_node) == (128, 1000, 20)
    assert found.before == ("module load a", "module load b", '. "$HOME/ve/bin/activate"')
    assert (found.options, found.is_exclusive, found.is_job) == (("nvme",), True, True)
    assert resources.resource_of("org.big", "interactive").manager == "fork"
    assert resources.names() == [*BUILT_IN, "org.big", "org.odd"]
    assert found.as_dict()["default_remote_workdir"] == "$PROJECT"


def test_what_cannot_be_obeyed_is_refused_by_name(site):
    with pytest.raises(UsageError, match=r"big: slurm\+ssh://big.org/: pilots are handed in from"):
        resources.resource_of("org.big", "ssh")
    with pytest.raises(UsageError, match="there is no schema 'gsissh'; known are local, ssh"):
        resources.resource_of("org.big", "gsissh")
    with pytest.raises(
        UsageError, match="'forward_tunnel_endpoint' cannot be obeyed: there is no tunnel"
    ):
        resources.resource_of("org.odd")
    with pytest.raises(
        UsageError, match=r"no resource 'org\.none'; known are local\.localhost, .*org\.odd"
    ):
        resources.resource_of("org.none")
    with pytest.raises(UsageError, match="no schema 'gsissh': pilots start from here"):
        resources.resource_of("slurm.here", "gsissh")


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"defualt_queue": "a"}, "no key 'defualt_queue'; did you mean 'default_queue'"),
        ({"virtenv_mode": "create"}, "'virtenv_mode' is 'create', and nothing is installed there"),
        ({"cores_per_node": "many"}, "'cores_per_node' is 'many'"),
        ({"pre_bootstrap_0": [1]}, "'pre_bootstrap_0' is"),
        (
            {"job_manager_endpoint": "lsf://h/"},
            "'job_manager_endpoint' is 'lsf://h/'; known are slurm",
        ),
        ({"system_architecture": {"blocked_cores": [0]}}, "'blocked_cores' cannot be obeyed"),
        ({"system_architecture": {"smtt": 1}}, "has no key 'smtt'"),
        ({"task_pre_exec": ["a"]}, "'task_pre_exec' cannot be obeyed: say it in the descriptions"),
        ({"schemas": ["local"]}, "'schemas' is no table"),
    ],
)
def test_a_wrong_entry_is_named(entries, text):
    whole = {"job_manager_endpoint": "slurm://h/", **entries}
    with pytest.raises(UsageError, match=f"f: org.x: .*{text}"):
        resource_of_entries("org.x", whole, "", "f")


def test_a_file_that_is_no_json_is_named(site):
    (site / "resource_bad.json").write_text("{")
    with pytest.raises(UsageError, match=r"resource_bad\.json: "):
        resources.resource_of("bad.x")
    assert "org.big" in resources.names()
    assert lines_of('{\n # "a"\n}') == "{\n\n}"
