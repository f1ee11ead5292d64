"""The root of the command. A verb is a file of its own, and imports what it needs when it is called: `onceflow --help`
does not wait for an engine."""

from __future__ import annotations

import click

from onceflow.cli.demo import demo


def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        import importlib.metadata  # slow to import, seldom needed

        try:
            version = importlib.metadata.version("onceflow")
        except importlib.metadata.PackageNotFoundError:
            version = "(not installed)"
        click.echo(f"onceflow {version}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show the version."
)
def main() -> None:
    """Run graphs of ordinary Python functions exactly once."""


main.add_command(demo)
