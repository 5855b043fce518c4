"""One study from its configuration to its end: back-end, machine, listener, loop."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import native.limits
from ensemble.config import Config
from ensemble.host import schedulers
from ensemble.host.carrier import Carrier
from ensemble.host.journal import Journal, Left
from ensemble.host.listener import Listener, listen
from ensemble.host.place import Place
from ensemble.host.runners import Runner
from ensemble.host.story import Story
from ensemble.machine import job as j
from ensemble.machine.job import Job
from ensemble.machine.settings import Settings
from ensemble.machine.state import Ensemble
from ensemble.schedulers.backend import Program
from native.errors import UsageError
from native.loop.reactor import Reactor

Say = Callable[[str], None]
TOKEN_BYTES = 24
ANY = "0.0.0.0"
LOOPBACK = "127.0.0.1"


class Study:
    """A study that is about to run.

    Args:
        file: the configuration's.
        directory: for output.
        stack: closes what is opened.
        is_resumed: the first server goes on from the checkpoint of an earlier one.

    Raises:
        UsageError: it cannot run; nothing has been submitted.
    """

    def __init__(
        self,
        config: Config,
        file: Path,
        text: bytes,
        directory: Path,
        stack: ExitStack,
        *,
        is_resumed: bool = False,
    ) -> None:
        self._config = config
        self._text = text
        self._file = file
        self._directory = directory
        self._stack = stack
        self._is_resumed = is_resumed
        self._words = {
            True: _executable("server_executable", config.server_executable, file.parent),
            False: _executable("client_executable", config.client_executable, file.parent),
        }
        self._token = secrets.token_urlsafe(TOKEN_BYTES)
        self._host, self._port, self._protocol = "HOST", 0, config.protocol
        self._prefix = "yod-ensemble"

    def shown(self) -> list[str]:
        """What would be submitted: a server and a client."""
        lines = []
        runner = schedulers.runner(
            self._config, self._program, self._directory, self._reactor(), _nobody
        )
        for what, client in (("server", -1), ("client 0", 0)):
            job = Job(
                client + 2, f"{self._prefix}-{client + 2}", 1, client, self._config.group_size
            )
            lines += [f"{what}:", *(f"  {line}" for line in runner.shown(job))]
        return lines

    def run(self) -> int:
        """Run it to its end; the exit status."""
        config, stack = self._config, self._stack
        reactor = self._reactor()
        carriers: list[Carrier] = []  # one, when all that it needs is there

        def on_event(event: j.Event) -> None:
            carriers[0].on_event(event)

        # What may be wrong is found before there is a directory, and that before a job.
        runner = schedulers.runner(config, self._program, self._directory, reactor, on_event)
        stack.callback(runner.close)
        self._host, at = _addresses(config.bind)
        sock, self._protocol = listen(at, config.port, config.protocol)
        stack.callback(sock.close)
        self._port = sock.getsockname()[1]
        web = self._web(at)
        try:
            place = Place(self._directory, self._file, self._text)
            journal = Journal(self._directory, is_synced=runner.polls)
            stack.callback(journal.close)
            story = Story(self._directory / "launcher.log", config.verbose > 0)
            stack.callback(story.close)
            place.enter()
            stack.callback(place.leave)
        except OSError as error:
            path = error.filename or self._directory
            raise UsageError(f"output_dir: {path}: {error.strerror}") from None
        machine = self._machine(journal.left, runner, place)
        carrier = Carrier(machine, journal, story, reactor, shows_messages=config.verbose > 1)
        carriers.append(carrier)
        carrier.runner = runner
        carrier.listener = Listener(sock, self._token, reactor, on_event)
        stack.callback(carrier.listener.close)
        story.say(f"study in {self._directory}, by {config.scheduler}")
        if web is not None:
            self._serve(carrier, reactor, web, story.say)
        finish = carrier.run()
        if not finish.exit_status:
            story.say("all is over")
        return finish.exit_status

    def _serve(self, carrier: Carrier, reactor: Reactor, sock: socket.socket, say: Say) -> None:
        """Show the study in browsers."""
        from ensemble.status.serve import serve

        host = sock.getsockname()[0]
        token = self._config.http_token or secrets.token_urlsafe(TOKEN_BYTES)
        name = socket.gethostname() if host == ANY else host
        names = {name, socket.gethostname(), socket.getfqdn(), self._config.bind}
        limits = native.limits.load(os.environ)
        study = str(self._directory)
        status, url = serve(sock, reactor, limits, token, name, names, study, carrier.machine)
        carrier.observe = status.take
        self._stack.callback(status.close)
        say(f"open {url}")

    def _web(self, at: str) -> socket.socket | None:
        """A listener for browsers: at the address that was named, or for this host alone."""
        if self._config.http_port < 0:
            return None
        sock, _ = listen(self._config.bind or LOOPBACK, self._config.http_port, "tcp", "http_port")
        self._stack.callback(sock.close)
        return sock

    def _reactor(self) -> Reactor:
        reactor = Reactor()
        self._stack.callback(reactor.close)
        return reactor

    def _machine(self, left: Left, runner: Runner, place: Place) -> Ensemble:
        config = self._config
        self._prefix = place.prefix
        settings = Settings(
            prefix=self._prefix,
            polls=runner.polls,
            job_limit=config.job_limit,
            timer_s=config.timer_s,
            update_s=config.update_s,
            server_timeout_s=config.server_timeout_s,
            connect_s=config.connect_timeout,
            stop_s=config.stop_timeout,
            restarts=config.restart_limit,
            restarts_s=config.restart_window,
            is_tolerant=config.fault_tolerance,
            from_checkpoint=config.load_from_checkpoint or self._is_resumed,
            group_size=config.group_size,
        )
        return Ensemble(settings, left.jobs, left.uid, left.epoch)

    def _program(self, job: Job, from_checkpoint: bool) -> Program:
        """What a job runs."""
        who = "server" if job.is_server else f"client-{job.client}"
        directory = str(self._directory)
        variables = {
            "MELISSA_FAULT_TOLERANCE": "ON" if self._config.fault_tolerance else "OFF",
            "YOD_ENSEMBLE_CONFIG": str(self._file),
            "YOD_ENSEMBLE_DIRECTORY": directory,
            "YOD_ENSEMBLE_EPOCH": str(job.epoch),
        }
        if job.is_server:
            variables |= {
                "MELISSA_LAUNCHER_HOST": self._host,
                "MELISSA_LAUNCHER_PORT": str(self._port),
                "MELISSA_LAUNCHER_PROTOCOL": self._protocol.upper(),
                "YOD_ENSEMBLE_TOKEN": self._token,
                "YOD_ENSEMBLE_FROM_CHECKPOINT": "1" if from_checkpoint else "0",
            }
        else:
            variables |= {
                **dict(job.variables),
                "MELISSA_CLIENT_ID": str(job.client),
                "YOD_GROUP_SIZE": str(job.group_size),
            }
        return Program(
            words=self._words[job.is_server],
            variables=tuple(variables.items()),
            processes=(
                self._config.server_processes if job.is_server else self._config.client_processes
            ),
            directory=directory,
            out=f"{directory}/job.{job.uid}.{who}.out",
            err=f"{directory}/job.{job.uid}.{who}.err",
        )


def _executable(key: str, words: tuple[str, ...], directory: Path) -> tuple[str, ...]:
    """Words with the whole path of the program.

    Raises:
        UsageError: it is not there, or cannot be executed.
    """
    path = Path(words[0])
    if path.name == words[0]:
        found = shutil.which(words[0])
        path = directory / path if found is None else Path(found)
    path = path if path.is_absolute() else directory / path
    try:
        is_there = path.is_file()
    except OSError as error:  # a directory that cannot be searched, a name that is too long
        raise UsageError(f"{key}: {path}: {error.strerror}") from None
    if not is_there:
        raise UsageError(f"{key}: {path}: no such file")
    if not os.access(path, os.X_OK):
        raise UsageError(f"{key}: {path}: not executable")
    return (str(path), *words[1:])


def _addresses(bind: str) -> tuple[str, str]:
    """The name that servers are told, and where to listen."""
    if bind:
        return (socket.gethostname() if bind == ANY else bind), bind
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, 0)
    except socket.gaierror:
        return LOOPBACK, LOOPBACK
    return name, ANY


def _nobody(event: j.Event) -> None:
    """Takes no events."""
