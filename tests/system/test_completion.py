"""The scripts of `yodctl completion` in their shells."""

import os
import re
import subprocess

import pytest

from tests.support.partition import BIN
from tests.support.terminal import a_terminal_of
from tests.support.wait import LIMIT_S, read_until

CASES = (  # what is typed, what is offered among others, what is not
    ("yod --ke", "--keep-going", "--label"),
    ("yod -sz 4 --mpi p", "pmix", "auto"),
    ("yod -sz 4 hostnam", "hostname", "--mpi"),
    ("yod -sz 4 cat conft", "conftest.py", "--mpi"),
    ("yod -sz 4 cat --ke", "", "--keep-going"),
    ("yodjob al", "alloc", "attach"),
    ("yodjob alloc --exc", "--exclusive", "--keep-going"),
    ("yodjob alloc -sz 4 hostnam", "hostname", "--mpi"),
    ("yodjob signal US", "USR1", "-help"),
    ("yodctl ", "drain", "--local"),
    ("yodctl completion ", "fish", "--local"),
    ("pct --cgroups ", "auto", "--cpus"),
    ("pingd --js", "--json", "-parse"),
    ("yod-ensemble --dry", "--dry-run", "--config"),
    ("yod-pilot ", "map", "--version"),
    ("yod-pilot map -c", "-cores", "--output"),
    ("yod-server --id", "--idle-s", "--slots"),
)
BASH = """
source /dev/stdin
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_yod_complete "$1" "${!#}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source - ; complete -C "$argv[1]"'

ZSHRC = """
fpath=(HERE $fpath)
autoload -Uz compinit; compinit -u
take() { zle -I; print -r -- "<$BUFFER>"; BUFFER= }
zle -N take
bindkey '^X' take
PROMPT='next: '
"""


@pytest.fixture(scope="module")
def scripts():
    """By shell."""
    return {
        shell: subprocess.check_output([f"{BIN}/yodctl", "completion", shell], text=True)
        for shell in ("bash", "zsh", "fish")
    }


def offered(shell: list[str], script: str, words: list[str]) -> list[str]:
    done = subprocess.run(
        [*shell, *words],
        input=script,
        text=True,
        capture_output=True,
        timeout=LIMIT_S,
        cwd=os.path.dirname(__file__),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def demand(found, wanted, unwanted):
    assert (wanted in found if wanted else not found or "" in found) and unwanted not in found


@pytest.mark.parametrize(("typed", "wanted", "unwanted"), CASES)
def test_bash_offers_what_fits(scripts, typed, wanted, unwanted):
    shell = ["bash", "--norc", "-c", BASH, "bash"]
    demand(offered(shell, scripts["bash"], typed.split(" ")), wanted, unwanted)


def test_bash_knows_a_value_behind_an_equals_sign(scripts):
    shell = ["bash", "--norc", "-c", BASH, "bash"]
    assert offered(shell, scripts["bash"], ["yod", "--mpi", "=", "pm"]) == ["pmi1", "pmi2", "pmix"]


@pytest.mark.parametrize(("typed", "wanted", "unwanted"), CASES)
def test_fish_offers_what_fits(scripts, typed, wanted, unwanted):
    demand(offered(["fish", "-N", "-c", FISH], scripts["fish"], [typed]), wanted, unwanted)


ZSH_CASES = {  # what is typed, with a Tab behind it, and what it becomes
    "yod --ke": "yod --keep-going ",
    "yod -sz 4 --label --keep": "yod -sz 4 --label --keep-going ",
    "yodjob al": "yodjob alloc ",
    "yodjob alloc --exclus": "yodjob alloc --exclusive ",
    "yodjob signal USR1 --part": "yodjob signal USR1 --partition ",
    "yodctl completion z": "yodctl completion zsh ",
    "yod -sz 4 hostnamec": "yod -sz 4 hostnamectl ",
    "yod -sz 4 cat --keep": "yod -sz 4 cat --keep",
}


def test_zsh_completes_what_has_one_meaning(scripts, tmp_path):
    tmp_path.joinpath("_yod").write_text(scripts["zsh"])
    tmp_path.joinpath(".zshrc").write_text(ZSHRC.replace("HERE", str(tmp_path)))
    own = {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb"}
    found = {}
    with a_terminal_of("zsh", "-i", env=own) as (_, terminal):
        read_until(terminal, b"next: ")
        for typed in ZSH_CASES:
            os.write(terminal, f"{typed}\t\x18".encode())
            (found[typed],) = re.findall("<(.*)>", read_until(terminal, b"next: ").decode())
    assert found == ZSH_CASES
