"""The demo's audience: told of one step after another, and on a terminal of the one that is being made."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console, RenderableType

PLAIN_WIDTH = 100
"""Characters a line, where the output is no terminal."""

Say = Callable[[str], None]


@contextmanager
def audience(console: Console) -> Iterator[Say]:
    """Give what tells of the next step: a line for each, with the seconds since the beginning.

    On a terminal something moves beside a step for as long as it lasts, and its line is written when it is over;
    elsewhere the line is written at once.
    """
    began = time.monotonic()
    current: list[str] = []

    def line(step: str) -> str:
        return f"{time.monotonic() - began:5.1f} s  {step}"

    def over() -> None:
        if current:
            console.print(current.pop())

    if not console.is_terminal:
        yield lambda step: click.echo(line(step))
        return
    with console.status("") as status:

        def say(step: str) -> None:
            over()
            current.append(line(step))
            status.update(step)

        try:
            yield say
        finally:
            over()


def put(console: Console, made: RenderableType) -> None:
    """Write what rich made, without the blanks that it puts at the ends of lines."""
    with console.capture() as captured:
        console.print(made)
    for text in captured.get().splitlines():
        click.echo(text.rstrip(), color=console.is_terminal)
