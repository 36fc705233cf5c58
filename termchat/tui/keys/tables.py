"""Every key of the chat, declared once: bindings, the key line, the help and the palette are made from these tables.

Those of TUNE and of the dialogs are in `dialogkeys`, which is not needed before the first frame; what a key is, is in `key`.
"""

from __future__ import annotations

from collections.abc import Collection

from termchat.chat.changes import Phase
from termchat.engine.port import ALL_FEATURES, Feature
from termchat.tui.keys.key import Key, Label, Situation, displayed, families, pressed
from termchat.tui.keys.offered import refusal

TOKEN_SITUATIONS: tuple[Situation, ...] = ("token", "token-busy", "token-paused")

_SITUATIONS: dict[Phase, Situation] = {
    "no model": "unloaded",
    "failed": "failed",
    "loading": "loading",
    "idle": "idle",
    "rendering": "busy",
    "prefill": "busy",
    "decoding": "busy",
    "paused": "paused",
}
_IN_TOKENS: dict[Situation, Situation] = {"busy": "token-busy", "paused": "token-paused"}


def situation_of(phase: Phase, *, empty: bool, tokens: bool = False, big: bool = False) -> Situation:
    """The situation of a chat in this phase, `empty` as long as it has no message; `tokens`: token mode is open; `big`: the
    big view of the panels is."""
    situation = _SITUATIONS[phase]
    if tokens:
        return _IN_TOKENS.get(situation, "token")
    if big and situation in ("idle", "busy"):
        return "big"
    return "empty" if empty and situation == "idle" else situation


def _resting(label: str) -> dict[Situation, str]:
    return {"idle": label, "empty": label}


def _everywhere(label: str) -> dict[Situation, str]:
    return dict.fromkeys(("idle", "empty", "busy", "paused", "loading", "unloaded", "failed", "big"), label)


def _in_tokens(label: str) -> dict[Situation, str]:
    return dict.fromkeys(TOKEN_SITUATIONS, label)


COMPOSER: tuple[Key, ...] = (
    Key(
        "send", "enter", "send", "Send the message; while a reply runs it waits in the queue",
        _resting("send") | {"busy": "queue", "paused": "queue", "loading": "queue", "unloaded": "send"},
        priority=False,
    ),
    Key("newline", "ctrl+j,shift+enter", "newline", "Begin a new line in the message", {}, priority=False),
    Key("undo", "ctrl+underscore", "undo", "Take back what was just written", {}, priority=False),
    Key("unfold", "tab", "unfold", "Show the text of what was pasted in place of its label", {}, priority=False),
)  # fmt: skip

CHAT: tuple[Key, ...] = (
    Key(
        "back", "escape", "back", "Close the innermost thing, then stop the reply",
        _in_tokens("back") | {"busy": "stop", "paused": "stop", "big": "back"}, priority=False,
    ),
    Key(
        "continue", "ctrl+o", "continue", "Go on: a paused reply, or the last one from its last token; restart a dead engine",
        {"idle": "continue", "paused": "go on", "unloaded": "load", "failed": "restart and go on"}, "Continue the reply",
    ),
    Key(
        "tune", "ctrl+t", "tune", "Turn the knobs of the chain, also while a reply streams",
        _everywhere("tune") | _in_tokens("tune"), "Tune",
    ),
    Key(
        "tokens", "ctrl+g", "tokens", "Token mode: look at every token, fork, pause, step, ask why",
        {"idle": "tokens", "busy": "tokens", "paused": "step"}, "Token mode",
    ),
    Key(
        "look", "ctrl+l", "look", "The next look: reading, or tokens coloured by probability, entropy, rank or time",
        _everywhere("look") | _in_tokens("look"), "Look",
    ),
    Key("panels", "ctrl+b", "panels", "Show or hide the panels", {}, "Panels"),
    Key(
        "page", "ctrl+right_square_bracket", "turn_page(1)", "The panels: the chain, plots of the reply, the next token",
        {}, "Next page of the panels",
    ),
    Key("big", "f6", "big", "The panels in place of the chat, and back", {}, "Big view of the panels"),
    Key(
        "regenerate", "ctrl+r", "regenerate", "Another reply to the last message, with new dice unless a seed is set",
        {"idle": "again"}, "Regenerate",
    ),
    Key("edit", "f7", "edit", "Edit an earlier message or a reply, on a new branch; again: the one before", {},
        "Edit an earlier message"),
    Key("find", "ctrl+f", "find", "Find a text in the chat", {}, "Find in the chat"),
    Key("new", "ctrl+n", "new", "An empty chat; model, knobs and system prompt stay", _resting("new"), "New chat"),
    Key("save", "ctrl+s", "dialog('save')", "Save a transcript, for people or for programs", _resting("save"),
        "Save transcript"),
    Key("sessions", "f4", "dialog('sessions')", "Saved chats: search, open, rename, delete", _resting("chats"), "Saved chats"),
    Key(
        "models", "f3", "dialog('models')", "All models: switch, download, let go",
        {"empty": "models", "unloaded": "models", "failed": "models"}, "Models",
    ),
    Key(
        "persona", "f5", "dialog('persona')", "Personas: a system prompt with the knobs that suit it", {}, "Personas",
        priority=False
    ),
    Key("setup", "f2", "dialog('setup')", "A new chat with a system prompt, or raw, without template", {},
        "System prompt and raw mode"),
    Key("editor", "f8", "editor", "The message in your editor: $VISUAL, $EDITOR", {}, "Edit the message in an editor"),
    Key("interrupt", "ctrl+c", "interrupt", "Copy the selection, else stop the reply, else quit", {}),
    Key("page-up", "pageup", "scroll('page_up')", "Scroll the chat up a page", {}),
    Key("page-down", "pagedown", "scroll('page_down')", "Scroll the chat down a page", {}),
    Key("line-up", "ctrl+up", "scroll('up')", "Scroll the chat up a line", {}),
    Key("line-down", "ctrl+down", "scroll('down')", "Scroll the chat down a line", {}),
    Key("top", "ctrl+home", "scroll('home')", "Scroll to the beginning of the chat", {}),
    Key("end", "ctrl+end", "scroll('end')", "Scroll to the end of the chat and follow it", {}),
    Key("turn-up", "ctrl+pageup", "turn(-1)", "Go to the beginning of this turn, or of the one before", {}, "Turn before"),
    Key("turn-down", "ctrl+pagedown", "turn(1)", "Go to the beginning of the next turn, or to the end", {}, "Next turn"),
)  # fmt: skip


def _jump(id: str, key: str, where: str, help: str) -> tuple[Key, Key]:
    return (
        Key(f"next-{id}", key, f"move('{where}_next')", help, {}, display=f"{key} {key.upper()}"),
        Key(f"previous-{id}", key.upper(), f"move('{where}_prev')", "", {}),
    )


TOKENS: tuple[Key, ...] = (
    Key("token-left", "h,left", "move('left')", "A token or a line on", _in_tokens("move"), display="hjkl"),
    Key("token-down", "j,down", "move('down')", "", {}),
    Key("token-up", "k,up", "move('up')", "", {}),
    Key("token-right", "l,right", "move('right')", "", {}),
    Key("pause", "space", "pause", "Pause the reply, or let it go on",
        {"token-busy": "pause", "token-paused": "go on"}, "Pause or go on"),
    Key("step", "n", "step('token')", "One token, then pause again", {"token-paused": "step"}),
    Key("choose-1", "1", "choose(1)", "Go on from here with that candidate; while paused, take it",
        {"token": "fork", "token-paused": "take"}, display="1-9"),
    *(Key(f"choose-{digit}", str(digit), f"choose({digit})", "", {}) for digit in range(2, 10)),
    Key("token-keys", "?", "app.keys", "All keys", _in_tokens("keys")),
    Key("other-text", "t", "type('text')", "Type another text and go on behind it", {"token": "text", "token-paused": "text"}),
    Key("why", "w", "type('why')", "Why was it not … ? A text, or #id", _in_tokens("why")),
    Key("step-sentence", ")", "step('sentence')", "To the end of the sentence", {"token-paused": "sentence"}),
    Key("step-line", "]", "step('line')", "To the end of the line", {"token-paused": "line"}),
    Key("ask-again", "i", "ask('then')", "Ask the model again, under the settings of then", {"token": "ask"}),
    Key("ask-now", "I", "ask('now')", "Ask the model again, under the knobs as they are", {}),
    Key("what-if", "v", "show('what-if')", "What if the whole reply had been drawn with these knobs",
        {"token": "what if"}, "What if"),
    Key("cut", "x", "cut", "Cut here and draw on, with the same dice", {"token": "cut"}),
    Key("cut-paused", "X", "cut_paused", "Cut here and wait, to step from here", {}),
    Key("fork-there", "enter", "fork_there", "In what if: fork at the first token that would be another one", {}),
    Key("token-half-down", "ctrl+d", "half_page('down')", "Half a page down or up", {}, display="Ctrl+D Ctrl+U"),
    Key("token-half-up", "ctrl+u", "half_page('up')", "", {}),
    Key("token-turn-up", "{", "move('turn_up')", "A turn up or down", {}, display="{ }"),
    Key("token-turn-down", "}", "move('turn_down')", "", {}),
    Key("token-line-start", "0,home", "move('line_start')", "The beginning or end of the line", {}, display="0 $"),
    Key("token-line-end", "$,end", "move('line_end')", "", {}),
    Key("token-first", "g", "move('first')", "The first or last token of the chat", {}, display="g G"),
    Key("token-last", "G", "move('last')", "", {}),
    *_jump("uncertain", "e", "entropy", "The next or previous uncertain token: a peak of entropy"),
    *_jump("surprise", "s", "surprise", "The next or previous surprise: not the likeliest, or improbable"),
    *_jump("settings", "c", "change", "The next or previous change of settings"),
    Key("token-version-before", "<", "screen.version(-1)", "The version before of this turn, or the next one", {},
        display="< >"),
    Key("token-version-next", ">", "screen.version(1)", "", {}),
    *_jump("fork", "f", "fork", "The next or previous fork"),
    Key("token-page", "tab", "screen.turn_page(1)", "The next page of the panels, or the one before", {}, display="Tab"),
    Key("token-page-before", "shift+tab", "screen.turn_page(-1)", "", {}),
    Key("ending", "o", "show('ending')", "How it ended: p(end) all along, and why", {}, "How the reply ended"),
    Key("breakpoints", "b", "dialog('breakpoints')", "Breakpoints and stop rules", {}, "Breakpoints"),
    Key("copy-message", "m", "screen.copy_message", "Copy the reply under the cursor", {}),
    Key("token-find", "/", "screen.find", "Find a text in the chat", {}),
    Key("tree", "y", "dialog('tree')", "The tree of branches: walk, name, delete, compare", {}, "Branches"),
    Key("prompt", "p", "dialog('prompt')", "The tokens of the turn before, as the model reads them", {}, "Prompt tokens"),
    Key("tokenize", "P", "dialog('tokenize')", "The tokens of what is being typed", {}, "Tokenize what is typed"),
)  # fmt: skip

BIG: tuple[Key, ...] = (
    Key(
        "big-next",
        "tab,right,down",
        "screen.turn_page(1)",
        "The next page, or the one before",
        {"big": "page"},
        display="Tab ←→",
    ),
    Key("big-previous", "shift+tab,left,up", "screen.turn_page(-1)", "", {}),
)
"""What works in the big view of the panels."""

MODEL: tuple[Key, ...] = (
    Key("switch-back", "", "switch_back", "Go on with the model before this one", {}, "Model before"),
    Key("unload", "", "unload", "Let the model go; its memory is free for sure", {}, "Unload the model"),
    Key("reload", "", "reload", "Let the model go and load it again", {}, "Load the model again"),
    Key(
        "regenerate-same",
        "",
        "regenerate(True)",
        "The last reply once more with the same dice: what other knobs change",
        {},
        "Regenerate with the same seed",
    ),
    Key(
        "prefill",
        "",
        "prefill",
        "Say how the next reply begins; the model goes on from there",
        {},
        "Begin the reply with",
    ),
    Key(
        "version-before",
        "",
        "version(-1)",
        "The version before of the last turn that has others: edited, made again or forked",
        {},
        "Version before",
    ),
    Key("version-next", "", "version(1)", "The next version of the last turn that has others", {}, "Next version"),
    Key("copy-reply", "", "copy_reply", "Copy the last reply", {}, "Copy the last reply"),
    Key(
        "copy-code",
        "",
        "copy_code",
        "Copy the last block of code; again: the one before it",
        {},
        "Copy the last code block",
    ),
    Key(
        "history",
        "",
        "dialog('history')",
        "Messages that were written before: search, write one again",
        {},
        "Earlier messages",
    ),
    Key(
        "queue", "", "dialog('queue')", "Messages that wait: edit, remove, put in another order", {}, "Queued messages"
    ),
)
"""What has no key of its own: the palette has it, and the list of models."""

APP: tuple[Key, ...] = (
    Key("keys", "f1", "keys", "All keys: what works where", {}, "Keys"),
    Key("palette", "ctrl+p", "command_palette", "All there is to do", _everywhere("all") | _in_tokens("all")),
    Key("theme", "f9", "theme", "Themes: each is shown while you look for one", {}, "Themes", priority=False),
    Key(
        "suspend", "ctrl+z", "suspend_process", "Give the terminal back to the shell; fg comes back here", {}, "Suspend"
    ),
    Key("quit", "ctrl+q", "quit", "End the reply, save and leave", _everywhere("quit") | _in_tokens("quit"), "Quit"),
)

_ALWAYS_IN_TOKENS = ("token-keys", "back")
"""The way to all other keys, and the way out."""


def name_of(id: str) -> str:
    """How the key of that id is written: "Ctrl+T"."""
    key = next(key for key in (*TOKENS, *COMPOSER, *CHAT, *MODEL, *APP) if key.id == id)
    return displayed([key._replace(display="")])


def working(situation: Situation, offers: Collection[Feature] = ALL_FEATURES) -> tuple[list[Label], list[Label]]:
    """What works now: what is shown as far as there is room, in order of use, and what always is. What needs more than the
    engine `offers` is marked."""
    tokens = situation in TOKEN_SITUATIONS
    always = _ALWAYS_IN_TOKENS if tokens else tuple(key.id for key in APP)
    shown: tuple[list[Label], list[Label]] = [], []
    for family in families((*(TOKENS if tokens else BIG if situation == "big" else COMPOSER), *CHAT, *APP)):
        key = family[0]
        if situation in key.labels and (name := displayed(family)):
            refused = bool(refusal(key.id, offers))
            shown[key.id in always].append(Label(name, key.labels[situation], pressed(family), refused))
    return shown
