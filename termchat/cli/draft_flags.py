"""The flags for drafts: `--draft` and `--draft-max`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from termchat.cli.help import Grouped

if TYPE_CHECKING:
    from termchat.decoding.drafting import DraftSettings

_MOST = 15
_FLAGS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--draft",
        {
            "type": click.Choice(["ngram", "auto", "off"]),
            "default": "off",
            "show_default": True,
            "help": "guess the next tokens from those that followed the same ones before, and decode them together: faster"
            " where a reply quotes; the tokens stay the same",
        },
    ),
    (
        "--draft-max",
        {
            "type": click.IntRange(1, _MOST),
            "metavar": "N",
            "help": f"with --draft: guess N tokens at most  [default: {_MOST}]",
        },
    ),
)


def draft_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags; their values go through `draft_of`."""
    for flag, how in reversed(_FLAGS):
        command = click.option(flag, cls=Grouped, group="Reply", **how)(command)
    return command


def draft_of(given: dict[str, Any], *, several: bool) -> DraftSettings | None:
    """Who drafts, None for nobody; the flags are taken out of what is given. `several` replies are made at once.

    Raises:
        click.UsageError: they do not go together, or with several replies.
    """
    by, most = given.pop("draft"), given.pop("draft_max")
    if by == "off":
        if most is not None:
            raise click.UsageError("--draft-max goes with --draft ngram or --draft auto")
        return None
    if several:
        raise click.UsageError("--draft is for replies one by one: those made at once are decoded together already")
    from termchat.decoding.drafting import DraftSettings

    return DraftSettings(by, _MOST if most is None else most)
