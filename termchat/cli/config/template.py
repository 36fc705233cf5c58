"""The config file that explains every setting and every key, made from the tables that they are declared in.

What is set in it is commented out with a # and no space, as sshd_config does it: without these, it says the defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from termchat.config.options import range_of
from termchat.config.settings import SETTINGS, TABLES
from termchat.config.sources import KEYS
from termchat.toml import literal

_WIDTH = 100
_FOREWORD = """\
Settings of termchat. What stands behind a # with no space is the default: take the # away and change it.

Flags go before this file, and so do variables: TERMCHAT_TOP_K for top_k. Where neither says anything, the model's own
recommendation goes before the default. termchat config show says where each value comes from, and termchat config check
whether all is well.\
"""
_ABOUT = {
    "engine": "How the model is run.",
    "sampling": "The knobs of the chain, as every chat begins. In the chat, Ctrl+T turns them.",
    KEYS: 'Keys, as one text: "ctrl+k", or with a comma between them: "ctrl+k,f8". "" is no key at all.',
}


def text() -> str:
    """The whole file."""
    return "\n".join((*_comment(_FOREWORD), "", *_settings(), *_keys(), ""))


def _settings() -> Iterator[str]:
    for table, names in groupby(sorted(SETTINGS, key=lambda name: TABLES[name] != ""), key=lambda name: TABLES[name]):
        if table:
            yield from (f"[{table}]", *_comment(_ABOUT[table]), "")
        for name in names:
            setting = SETTINGS[name]
            takes = "true false" if setting.kind == "bool" else range_of(setting)
            yield from _comment(f"{setting.help} ({takes})")
            default = "fresh" if setting.default is None else setting.default
            yield from (f"#{name} = {literal(default)}", "")


def _keys() -> Iterator[str]:
    from termchat.tui.keys.dialogs import GROUPS

    yield from (f"[{KEYS}]", *_comment(_ABOUT[KEYS]))
    for group in GROUPS:
        yield from ("", f"# {group.title}")
        for key in group.table:
            if key.action:
                yield from _comment(key.help) if key.help else ()
                yield f"#{key.id} = {literal(key.keys)}"


def _comment(words: str) -> list[str]:
    return [f"# {line}".rstrip() for paragraph in words.split("\n\n") for line in (*wrap(paragraph, _WIDTH), "")][:-1]
