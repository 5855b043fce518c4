"""The site's configuration file: what is wrong with it is said with its place."""

import pytest

import allocator.command.cli
import pct.command.cli
from native.errors import UsageError
from native.host import config
from native.limits import Limits


@pytest.fixture
def path(tmp_path):
    return tmp_path / "yod.conf"


def read(path, text):
    path.write_text(text)
    return config.read(str(path))


def test_a_file_sets_limits_and_the_environment_goes_before(path):
    found = read(path, "[limits]\nphase_s = 7\nwaiting_count = 5\n")
    limits = found.in_force({"YOD_WAITING_COUNT": "9"})
    assert limits == Limits(phase_s=7.0, waiting_count=9)


def test_a_file_gives_a_daemon_options_that_its_command_line_lacks(path):
    found = read(path, '[pct]\nbebopd = "head:7117"\nslots = 8\nstore = ["/a", "/b"]\n')
    defaults = found.defaults("pct", pct.command.cli.command.params)
    assert defaults == {"bebopd": "head:7117", "slots": "8", "store": ("/a", "/b")}
    assert found.defaults("bebopd", allocator.command.cli.command.params) == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[limits]\nphase = 7\n", "[limits] phase: no such limit; `yodctl limits` shows all"),
        ("[limits]\nphase_s = 0\n", "[limits] phase_s=0: must be from 0.001 to 1099511627776"),
        ("[limits]\nphase_s = nan\n", "[limits] phase_s=nan: must be from"),
        ("[limits]\nphase_s = true\n", "[limits] phase_s: not a number"),
        ('[limits]\nphase_s = "7"\n', "[limits] phase_s: not a number"),
        ("[limits]\nwaiting_count = 1.5\n", "[limits] waiting_count=1.5: not a number"),
        ("[pcts]\n", "pcts: no such section; there is pct"),
        ("limits = 3\n", "limits: no such section"),
        ("[limits\n", "Expected"),
        ("[limits]\nphase_s = 1\nphase_s = 2\n", "line 3"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(path, text, said):
    with pytest.raises(UsageError) as caught:
        read(path, text)
    assert str(caught.value).startswith(f"{path}: ") and said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[bebopd]\nlisen = ":1"\n', "[bebopd] lisen: no such option in a file; there is listen"),
        ("[bebopd]\nready-fd = 3\n", "[bebopd] ready-fd: no such option in a file"),
        ("[bebopd]\nuntil-fd = 3\n", "[bebopd] until-fd: no such option in a file"),
        ("[bebopd]\nlisten = true\n", "[bebopd] listen: takes a text or a number"),
        ("[bebopd]\nlisten = [1]\n", "[bebopd] listen: takes a text or a number"),
        ("[bebopd]\ndebug = 1\n", "[bebopd] debug: takes true or false"),
    ],
)
def test_an_option_is_one_of_the_daemon_and_has_a_value_of_its_kind(path, text, said):
    found = read(path, text)
    with pytest.raises(UsageError) as caught:
        found.defaults("bebopd", allocator.command.cli.command.params)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_a_value_that_the_option_refuses_is_named(path):
    found = read(path, '[pct]\nslots = "many"\n')
    with pytest.raises(UsageError, match=r"\[pct\] slots: 'many' is not a valid integer"):
        found.defaults("pct", pct.command.cli.command.params)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"no\.conf: No such file or directory"):
        config.read(str(tmp_path / "no.conf"))


def test_only_a_command_line_names_a_file(path):
    path.write_text("[limits]\nphase_s = 7\n")
    assert config.of_words(["--listen", ":1"]) == config.Config()
    assert config.of_words(["--config", "/nowhere", "--config", str(path)]).limits == {"phase_s": 7}
