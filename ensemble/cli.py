"""The command yod-ensemble: runs a study, one server and the clients that it asks for."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click

from ensemble import config as configuration
from ensemble.host import place
from native import options
from native.errors import UsageError, YodError
from native.host import stdio
from native.waitstatus import WRONG_USAGE


def _print_options(context: click.Context, option: click.Parameter, is_given: bool) -> None:
    if is_given:
        click.echo(configuration.options_text())
        context.exit()


@click.command(context_settings={"help_option_names": ["--help", "-help", "-h"]})
@click.option(
    "--config", "-c", "--config_name", "config", metavar="FILE", help="The study, in JSON."
)
@click.option("--dry-run", is_flag=True, help="Show what would be submitted, and submit nothing.")
@click.option(
    "--print-options",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_options,
    help="Print the keys of the file with their defaults.",
)
@click.argument("what", required=False, metavar="[stop|resume]")
@click.argument("directory", required=False, metavar="[DIR]")
@click.version_option(None, "-v", "--version", **options.VERSION)
def command(config: str | None, dry_run: bool, what: str | None, directory: str | None) -> None:
    """Run a study: a server, and the clients that it asks for.

    With stop or resume: end the launcher that works in the output directory DIR, or go on there.

    Exit status: 0 the study is complete; 1 it has failed; 2 wrong usage; 128 and its number after
    a signal.
    """
    if what is not None:
        if what not in ("stop", "resume") or directory is None or config is not None or dry_run:
            raise UsageError("wrong usage: --config FILE, stop DIR, or resume DIR")
        path = Path(directory).absolute()
        if what == "stop":
            place.stop(path)
            return
        sys.exit(_run(Path(place.origin(path).file), path, is_dry=False))
    if config is None:
        raise UsageError("no study: --config FILE names it")
    sys.exit(_run(Path(config).absolute(), None, is_dry=dry_run))


def _run(file: Path, directory: Path | None, is_dry: bool) -> int:
    """Run a study.

    Args:
        directory: for its output; None: as the file says.
    """
    is_resumed = directory is not None
    read = file if directory is None else directory / place.CONFIG_NAME
    try:
        text = read.read_bytes()
    except OSError as error:
        raise UsageError(f"{read}: {error.strerror}") from None
    given = configuration.read(text, str(file))
    if directory is None:
        directory = Path(given.output_dir or place.default_path(time.time())).absolute()
    from ensemble.driver import Study  # with what a scheduler needs

    with ExitStack() as stack:
        study = Study(given, file, text, directory, stack, is_resumed=is_resumed)
        if is_dry:
            click.echo("\n".join(study.shown()))
            return 0
        return study.run()


def main() -> None:
    """Run the command."""
    stdio.take_numbers()
    try:
        command(prog_name="yod-ensemble", standalone_mode=False)
    except click.ClickException as error:
        click.echo(f"yod-ensemble: {error.format_message()}", err=True)
        sys.exit(WRONG_USAGE)
    except UsageError as error:
        click.echo(f"yod-ensemble: {error}", err=True)
        sys.exit(WRONG_USAGE)
    except YodError as error:
        click.echo(f"yod-ensemble: {error}", err=True)
        sys.exit(1)
    except click.Abort:
        sys.exit(130)


if __name__ == "__main__":
    main()
