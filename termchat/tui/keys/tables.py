"""Every key, declared once: bindings, the key line, the help and the palette are made from these tables.

A key without an action is not bound by us: its widget does it (Enter in a field) or what is typed is taken letter by letter.
It stands here to be read, and cannot be remapped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, cast

from textual.content import Content
from textual.style import Style

from termchat.chat.changes import Phase
from termchat.decoding.samplers import KNOBS
from termchat.engine.port import ALL_FEATURES, Feature
from termchat.tui.keys.key import Key, Label, Situation, displayed, families, keys_of, pressed, shown

_RESTING: tuple[Situation, ...] = ("idle", "empty")
_IN_TOKENS: tuple[Situation, ...] = ("token", "token-busy", "token-paused")
_WALKS_RUNNING: tuple[Situation, ...] = ("walks-busy", "walks-paused")
_IN_WALKS: tuple[Situation, ...] = ("walks", *_WALKS_RUNNING)
_EVERYWHERE: tuple[Situation, ...] = (
    *_RESTING, "busy", "paused", "loading", "unloaded", "failed", "big", *_IN_TOKENS, *_IN_WALKS,
)  # fmt: skip


def _in(situations: Iterable[Situation], label: str) -> dict[Situation, str]:
    return dict.fromkeys(situations, label)


COMPOSER: tuple[Key, ...] = (
    Key("send", "enter", "send", "Send the message, or queue it while a reply is running",
        labels=_in((*_RESTING, "unloaded"), "send") | _in(("busy", "paused", "loading"), "queue"),
        priority=False),
    Key("newline", "ctrl+j,shift+enter,alt+enter", "newline", "Insert a line break", priority=False),
    Key("undo", "ctrl+underscore", "undo", "Undo typing", priority=False),
    Key("redo", "alt+y", "redo", "Redo typing", priority=False),
    Key("unfold", "tab", "unfold", "Expand a pasted text that is folded into a label", priority=False),
)  # fmt: skip

CHAT: tuple[Key, ...] = (
    Key("back", "escape", "back", "Close the innermost thing, then stop the reply",
        labels=_in((*_IN_TOKENS, *_IN_WALKS, "big"), "back") | _in(_WALKS_RUNNING, "end") | _in(("busy", "paused"), "stop"),
        priority=False),
    Key("continue", "ctrl+o", "continue",
        "Resume a paused reply, or continue the last one; restart a stopped engine or make room in a full context first",
        "Continue the reply", {"idle": "continue", "paused": "resume", "unloaded": "load", "failed": "restart"},
        needs="continue"),
    Key("tune", "ctrl+t", "tune", "Turn the knobs, even while a reply streams", "Tune",
        _in(_EVERYWHERE, "tune") | _in(_WALKS_RUNNING, "tune all")),
    Key("tokens", "ctrl+g", "tokens", "Token mode: inspect any token, fork, pause, step, ask why", "Token mode",
        _in(_IN_WALKS, "tokens") | {"idle": "tokens", "busy": "tokens", "paused": "step"}),
    Key("look", "ctrl+l", "look",
        "Next look: reading, or tokens by probability (model), after (chain), entropy, rank, time or drafts", "Look",
        _in(_EVERYWHERE, "look")),
    Key("panels", "ctrl+b,ctrl+backslash", "panels", "Show or hide the panels (tmux takes Ctrl+B)", "Panels",
        display="Ctrl+B/Ctrl+\\"),
    Key("page", "ctrl+right_square_bracket", "turn_page(1)", "Next page of the panels: chain, plots of the reply, next token",
        "Next page of the panels"),
    Key("big", "f6", "big", "Show the panels full size instead of the chat, or go back", "Big view of the panels"),
    Key("regenerate", "ctrl+r", "regenerate", "Regenerate the reply, with new dice unless a seed is set", "Regenerate",
        {"idle": "regenerate"}),
    Key("walks", "ctrl+y", "dialog('walks')", "Walks: several replies at once, a grid of knobs, A/B, best of, vote or beams",
        "Walks", {"idle": "walks"}, needs="walks"),
    Key("answer", "f12", "answer", "End the thoughts of the model now, so that it answers; otherwise show or fold them",
        "Answer now", {"thinking": "answer now"}, needs="force"),
    Key("thoughts", "", "thoughts", "Show or fold the thoughts before an answer", "Thoughts of the last reply"),
    Key("edit", "f7", "edit", "Edit an earlier message or reply on a new branch; press again for the one before it",
        "Edit an earlier message"),
    Key("find", "ctrl+f", "find", "Find text in the chat", "Find in the chat"),
    Key("new", "ctrl+n", "new", "New chat, as configured; /new keep keeps the knobs of this one", "New chat",
        _in(_RESTING, "new")),
    Key("save", "ctrl+s", "dialog('save')", "Save a transcript (Markdown, HTML, JSON Lines and more)", "Save transcript",
        _in(_RESTING, "save")),
    Key("sessions", "f4", "dialog('sessions')", "Saved chats: search, open, rename, delete", "Saved chats",
        _in(_RESTING, "chats")),
    Key("models", "f3", "dialog('models')", "Models: switch, download, unload", "Models",
        {"empty": "models", "unloaded": "models", "failed": "models"}),
    Key("persona", "f5", "dialog('persona')", "Personas: a system prompt with the knobs that suit it", "Personas",
        priority=False),
    Key("presets", "f10", "dialog('presets')", "Presets: set the whole sampler chain at once, or save it", "Presets"),
    Key("setup", "f2", "dialog('setup')", "New chat with a system prompt, or in raw mode without a template",
        "System prompt and raw mode"),
    Key("learn", "ctrl+space,ctrl+@", "app.learn", "Lessons: learn decoding by doing it; in a lesson, the way to its keys",
        "Lessons"),
    Key("unconstrain", "f11", "unconstrain", "Drop the constraint, also in mid-reply; again to put it back",
        "Drop the constraint, or put it back"),
    Key("editor", "f8", "editor", "Write the message in $VISUAL or $EDITOR", "Edit the message in an editor"),
    Key("interrupt", "ctrl+c", "interrupt", "Copy the selection; otherwise stop the reply; otherwise quit"),
    Key("page-up", "pageup", "scroll('page_up')", "Scroll up one page"),
    Key("page-down", "pagedown", "scroll('page_down')", "Scroll down one page"),
    Key("line-up", "ctrl+up", "scroll('up')", "Scroll up one line"),
    Key("line-down", "ctrl+down", "scroll('down')", "Scroll down one line"),
    Key("top", "ctrl+home", "scroll('home')", "Scroll to the start of the chat"),
    Key("end", "ctrl+end", "scroll('end')", "Scroll to the end of the chat and follow it"),
    Key("turn-up", "ctrl+pageup", "turn(-1)", "Go to the start of this turn, or of the previous one", "Previous turn"),
    Key("turn-down", "ctrl+pagedown", "turn(1)", "Go to the start of the next turn, or to the end", "Next turn"),
)  # fmt: skip


def _jump(id: str, key: str, where: str, help: str) -> tuple[Key, Key]:
    return (
        Key(f"next-{id}", key, f"move('{where}_next')", help, display=f"{key} {key.upper()}"),
        Key(f"previous-{id}", key.upper(), f"move('{where}_prev')"),
    )


TOKENS: tuple[Key, ...] = (
    Key("token-left", "h,left", "move('left')", "Move by token or line", labels=_in(_IN_TOKENS, "move"), display="hjkl"),
    Key("token-down", "j,down", "move('down')"),
    Key("token-up", "k,up", "move('up')"),
    Key("token-right", "l,right", "move('right')"),
    Key("pause", "space", "pause", "Pause or resume the reply", "Pause or resume",
        {"token-busy": "pause", "token-paused": "resume"}, needs="pause"),
    Key("step", "n", "step('token')", "Draw one token, then pause again", labels={"token-paused": "step"}, needs="step"),
    Key("choose-1", "1", "choose(1)", "Fork here with that candidate; while paused, force it",
        labels={"token": "fork", "token-paused": "force"}, needs="continue", display="1-9"),
    *(Key(f"choose-{digit}", str(digit), f"choose({digit})", needs="continue") for digit in range(2, 10)),
    Key("token-keys", "?", "app.keys", "List all keys", labels=_in(_IN_TOKENS, "keys")),
    Key("other-text", "t", "type('text')", "Replace from here with your text, then continue",
        labels={"token": "text", "token-paused": "text"}, needs="continue"),
    Key("why", "w", "type('why')", "Why not another token? Type text or #id", labels=_in(_IN_TOKENS, "why"), needs="explain"),
    Key("step-sentence", ")", "step('sentence')", "Continue to the end of the sentence", labels={"token-paused": "sentence"},
        needs="step"),
    Key("step-line", "]", "step('line')", "Continue to the end of the line", labels={"token-paused": "line"}, needs="step"),
    Key("token-walks", "W", "dialog('walks')", "Several continuations from here, or a grid, A/B, vote or beams",
        labels={"token": "walks"}, needs="walks"),
    Key("cut", "x", "cut", "Redraw from here with the same dice", labels={"token": "redraw"}, needs="seeds"),
    Key("cut-paused", "X", "cut(True)", "Restart from here, paused, so you can step", needs="pause"),
    Key("ask-again", "i", "ask(False)", "Recompute this step, with its original settings", labels={"token": "recompute"},
        needs="inspect"),
    Key("ask-now", "I", "ask(True)", "Recompute this step, with the current knobs", needs="inspect"),
    Key("what-if", "v", "show('what-if')", "What-if: redraw the whole reply with the current knobs", "What-if",
        {"token": "what-if"}, needs="score"),
    Key("roll", "r", "screen.roll", "Roll the dice 100 times at this token and count; again for 1,000, then 10,000",
        "Roll the dice many times"),
    Key("fork-there", "enter", "fork_there", "In what-if: fork at the first token that differs", needs="score"),
    Key("token-half-down", "d", "half_page('down')", "Move half a page down or up", display="d u"),
    Key("token-half-up", "u", "half_page('up')"),
    Key("token-turn-up", "{", "move('turn_up')", "Previous or next turn", display="{ }"),
    Key("token-turn-down", "}", "move('turn_down')"),
    Key("token-line-start", "0,home", "move('line_start')", "Start or end of the line", display="0 $"),
    Key("token-line-end", "$,end", "move('line_end')"),
    Key("token-first", "g", "move('first')", "First or last token of the chat", display="g G"),
    Key("token-last", "G", "move('last')"),
    *_jump("uncertain", "e", "entropy", "Next or previous uncertain token (entropy peak)"),
    *_jump("surprise", "s", "surprise", "Next or previous surprise: not the model's likeliest token, or under 10% (model)"),
    *_jump("settings", "c", "change", "Next or previous settings change"),
    Key("token-version-before", "<", "screen.version(-1)", "Previous or next version of this turn", display="< >"),
    Key("token-version-next", ">", "screen.version(1)"),
    *_jump("fork", "f", "fork", "Next or previous fork"),
    Key("token-page", "tab", "screen.turn_page(1)", "Next or previous page of the panels", display="Tab"),
    Key("token-page-before", "shift+tab", "screen.turn_page(-1)"),
    Key("ending", "o", "show('ending')", "Why the reply ended, with p(end) at every token", "How the reply ended"),
    Key("ban", "minus", "bias('ban')", "Ban the token under the cursor from all replies, or lift the ban", needs="bias",
        display="-"),
    Key("boost", "plus", "bias('more')", "Add 1 to its logit from now on (logit bias)", needs="bias", display="+"),
    Key("bias", "B", "dialog('bias')", "Logit biases: ban or boost tokens, words and candidates", "Logit biases",
        needs="bias"),
    Key("breakpoints", "b", "dialog('breakpoints')", "Breakpoints and stop rules", "Breakpoints"),
    Key("constraint", "J", "dialog('constraint')", "Constrain replies to a JSON schema, regex, choice or grammar",
        "Constraint", needs="constrain"),
    Key("copy-message", "m", "screen.copy_message", "Copy the reply under the cursor"),
    Key("tree", "y", "dialog('tree')", "Branch tree: browse, name, delete, compare", "Branches"),
    Key("prompt", "p", "dialog('prompt')", "Tokens of the message, with the template around it, as the model reads them",
        "Prompt tokens", needs="tokenize"),
    Key("reply-tokens", "T", "dialog('reply-tokens')", "Tokens of the whole reply, with their ids", "Tokens of the reply",
        needs="tokenize"),
    Key("tokenize", "P", "dialog('tokenize')", "Tokens of your draft, or of any text", "Tokens of any text",
        needs="tokenize"),
)  # fmt: skip

BIG: tuple[Key, ...] = (
    Key("big-next", "tab,right,down", "screen.turn_page(1)", "Next or previous page", labels={"big": "page"},
        display="Tab ←→"),
    Key("big-previous", "shift+tab,left,up", "screen.turn_page(-1)"),
    Key("big-roll", "r", "screen.roll", "Roll the dice 100 times at the newest token; again for more",
        labels={"big": "roll"}),
)  # fmt: skip
"""What works in the big view of the panels."""

WALKS: tuple[Key, ...] = (
    Key("walk-1", "1", "screen.walks('choose', 1)", "Go to walk 1 to 9", labels=_in(_IN_WALKS, "walk"), display="1-9"),
    *(Key(f"walk-{digit}", str(digit), f"screen.walks('choose', {digit})") for digit in range(2, 10)),
    Key("walk-keep", "enter", "screen.walks('keep')", "Keep this walk: the others end, and the chat continues from it",
        labels=_in(_IN_WALKS, "keep")),
    Key("walks-view", "tab", "screen.walks('turn', 1)", "Next or previous view: text, where the walks part, table",
        labels=_in(_IN_WALKS, "view"), display="Tab"),
    Key("walks-view-before", "shift+tab", "screen.walks('turn', -1)"),
    Key("walk-pause", "space", "screen.walks('pause')", "Pause or resume all walks",
        labels={"walks-busy": "pause", "walks-paused": "resume"}, needs="pause"),
    Key("walk-step", "n", "screen.walks('step')", "Draw one token of every walk, then pause again",
        labels={"walks-paused": "step"}, needs="step"),
    Key("walk-stop", "k", "screen.walks('stop')", "Stop this walk", labels=_in(_WALKS_RUNNING, "stop")),
    Key("walk-tune", "t", "screen.walks('tune')", "Turn the knobs of this walk only", labels=_in(_WALKS_RUNNING, "tune"),
        needs="adjust"),
    Key("walk-keep-all", "a", "screen.walks('keep_all')", "Continue from this walk, and let the others run on as branches",
        labels=_in(_IN_WALKS, "keep all")),
    Key("walk-pause-one", "p", "screen.walks('pause', True)", "Pause or resume this walk only", needs="pause"),
    Key("walk-step-one", "N", "screen.walks('step', True)", "Draw one token of this walk, then pause it again", needs="step"),
    Key("walk-fork", "f", "screen.walks('fork')", "Fork this walk: choose a token in token mode",
        labels=_in(_IN_WALKS, "fork")),
    Key("walk-left", "left,h", "screen.walks('go', -1)", "Previous or next walk", display="←→"),
    Key("walk-right", "right,l", "screen.walks('go', 1)"),
    Key("walk-up", "up", "screen.walks('line', -1)", "Scroll by a line; in a list, previous or next walk", display="↑↓"),
    Key("walk-down", "down", "screen.walks('line', 1)"),
    Key("walk-first", "g,home", "screen.walks('jump', -1)", "First or last line, step or token", display="g G"),
    Key("walk-last", "G,end", "screen.walks('jump', 1)"),
    Key("walks-keys", "?", "app.keys", "List all keys", labels=_in(_IN_WALKS, "keys")),
)  # fmt: skip
"""What works in the walks view."""

LESSON: tuple[Key, ...] = (
    Key("lesson-1", "1", "app.lesson('answer', 1)", "Answer the question, or type a number", display="1-4"),
    *(Key(f"lesson-{digit}", str(digit), f"app.lesson('answer', {digit})") for digit in range(2, 5)),
    Key("hint", "?,h", "app.lesson('hint')", "Hint: a nudge, then the key, then the step is done for you", "Lesson: hint"),
    Key("lesson-do", "d", "app.lesson('do')", "Have this step done for you", "Lesson: do this step for me"),
    Key("lesson-more", "m", "app.lesson('more')", "Show all of the text, or less", "Lesson: more text"),
    Key("lesson-skip", "s", "app.lesson('skip')", "Go on to the next step without doing this one", "Lesson: skip this step"),
    Key("lesson-next", "n", "app.lesson('go', 1)", "Next lesson", "Lesson: next"),
    Key("lesson-before", "p", "app.lesson('go', -1)", "Previous lesson", "Lesson: previous"),
    Key("lesson-list", "l,tab", "app.lesson('list')", "All lessons"),
    Key("lesson-leave", "x,q", "app.lesson('leave')", "Leave the lesson: your chat and its knobs come back", "Lesson: leave"),
)  # fmt: skip
"""What works on the strip of a lesson, while that has the keyboard."""

MODEL: tuple[Key, ...] = (
    Key("switch-back", "", "switch_back", "Switch back to the previous model", "Previous model"),
    Key("unload", "", "unload", "Unload the model and free its memory", "Unload the model"),
    Key("reload", "", "reload", "Reload the model", "Reload the model"),
    Key("regenerate-same", "", "regenerate(True)", "Regenerate with the same dice, to see what a knob changes",
        "Regenerate with the same seed", needs="seeds"),
    Key("grid", "", "dialog('grid')", "Replies for each value of one or two knobs, as a table", "Grid of knobs",
        needs="walks"),
    Key("ab", "", "dialog('ab')", "Two settings with the same dice, token by token", "A/B of two settings", needs="walks"),
    Key("best", "", "dialog('best')", "Several replies, ranked by mean logprob", "Best of several replies", needs="walks"),
    Key("vote", "", "dialog('vote')", "Several replies, and their most common answer", "Vote among replies", needs="walks"),
    Key("beams", "", "dialog('beams')", "Beam search: at each step, continue the likeliest beginnings", "Beam search",
        needs="beams"),
    Key("prefill", "", "prefill", "Set how the next reply starts; the model continues from there", "Start the reply with",
        needs="continue"),
    Key("version-before", "", "version(-1)", "Previous version of the last turn that was edited, regenerated or forked",
        "Previous version"),
    Key("version-next", "", "version(1)", "Next version of the last turn that has several", "Next version"),
    Key("draft", "", "page('drafts')", "Speculation: what drafted tokens gain, or would gain, and each round of them",
        "Speculation"),
    Key("open-walks", "", "open_walks", "Show the walks of the last reply again", "Walks of the last reply"),
    Key("copy-chat", "", "copy_chat", "Continue in a copy of this chat", "Copy the chat"),
    Key("copy-reply", "", "copy_reply", "Copy the last reply", "Copy the last reply"),
    Key("copy-json", "", "copy_json", "Copy the last reply as JSON", "Copy the last reply as JSON"),
    Key("pretty-json", "", "pretty_json", "Show the last reply as JSON with a line for each value",
        "Show the last reply as JSON"),
    Key("copy-thoughts", "", "copy_thoughts", "Copy the thoughts of the last reply", "Copy the thoughts"),
    Key("copy-code", "", "copy_code", "Copy the last code block; press again for the one before it",
        "Copy the last code block"),
    Key("history", "", "dialog('history')", "Message history: search, use one again", "Message history"),
    Key("queue", "", "dialog('queue')", "Queued messages: edit, remove, reorder", "Queued messages"),
)  # fmt: skip
"""What has no key of its own: the palette has it, and the list of models."""

APP: tuple[Key, ...] = (
    Key("keys", "f1", "keys", "List all keys", "Keys"),
    Key("palette", "ctrl+p", "command_palette", "Command palette", labels=_in(_EVERYWHERE, "menu")),
    Key("theme", "f9", "theme", "Themes, with live preview", "Themes", priority=False),
    Key("suspend", "ctrl+z", "suspend_process", "Suspend termchat; `fg` in the shell resumes it", "Suspend"),
    Key("quit", "ctrl+q", "quit", "Stop the reply, save and quit", "Quit", _in(_EVERYWHERE, "quit")),
)

TUNE: tuple[Key, ...] = (
    Key("tune-less", "left", "move(-1)", "Change the value by one step", display="←→"),
    Key("tune-more", "right", "move(1)"),
    Key("tune-much-less", "shift+left", "move(-1, True)", "Change the value by a large step", display="Shift+←→"),
    Key("tune-much-more", "shift+right", "move(1, True)"),
    Key("tune-before", "up", "step(-1)", "Previous or next knob", display="↑↓"),
    Key("tune-after", "down", "step(1)"),
    Key("tune-earlier", "shift+up", "reorder(-1)", "Move the stage earlier or later in the chain", display="Shift+↑↓"),
    Key("tune-later", "shift+down", "reorder(1)"),
    Key("tune-unfold", "v", "unfold", "Show every knob, or only those that do something"),
    Key("tune-type", "0-9", "", "Type a value"),
    Key("tune-accept", "enter", "accept", "Accept the value; edit texts and the order"),
    Key("tune-stop-after", "tab", "", "In the editor of stop sequences: stop after the text and keep it in the reply"),
    Key("tune-erase", "backspace", "erase", "Erase the last character"),
    Key("tune-off", "x", "off", "Set the knob to off"),
    Key("tune-default", "d", "default", "Reset the knob to its default"),
    Key("tune-undo", "z", "take_back", "Undo the last change, or a preset"),
    *(Key(f"tune-{name}", knob.key, f"select('{name}')", f"{name}: {knob.help}") for name, knob in KNOBS.items()),
)

DIALOG: tuple[Key, ...] = (Key("close", "escape", "close", "Close the innermost dialog or field"),)
"""What works in every dialog."""

ARROWS: tuple[Key, ...] = (
    Key("list-up", "up", "move('up')", "Move one row up or down", display="↑↓"),
    Key("list-down", "down", "move('down')"),
    Key("list-page-up", "pageup", "move('page_up')", "Move one page up or down", display="PgUp PgDn"),
    Key("list-page-down", "pagedown", "move('page_down')"),
)
"""What moves in a list, also while a field has the keyboard."""

READING: tuple[Key, ...] = (
    Key("read-first", "home,g", "move('first')", "First or last line", priority=False, display="g G"),
    Key("read-last", "end,G", "move('last')", priority=False),
)
"""What moves in text that is only read, beside the arrows."""

ENGINE: tuple[Key, ...] = (
    Key("engine-less", "left", "move(-1)", "Change the selected setting", display="←→"),
    Key("engine-more", "right", "move(1)"),
    Key("engine-next", "space", "move(1)", "Next value of the selected setting"),
    Key("engine-type", "a-z 0-9", "", "Type a value"),
    Key("engine-erase", "backspace", "erase", "Erase the last character"),
    Key("engine-unset", "delete", "unset", "Reset this setting for this model"),
    Key("engine-load", "enter", "load", "Load the model with these settings and save them"),
)

START: tuple[Key, ...] = (
    Key("start-walks", "enter", "start", "Start the walks", priority=False),
    Key("start-before", "up", "step(-1)", "Previous or next row", display="↑↓"),
    Key("start-after", "down", "step(1)"),
    Key("start-less", "left", "move(-1)", "Change the selected value", display="←→"),
    Key("start-more", "right", "move(1)"),
    Key("start-next", "space", "move(1)", "Next value; in a text, a space"),
    Key("start-type", "a-z 0-9", "", "Type a value"),
    Key("start-erase", "backspace", "erase", "Erase the last character"),
    Key("start-reset", "delete", "reset", "Empty a text, or reset the value"),
)
"""What works in the dialog that starts walks."""


class KeyGroup(NamedTuple):
    """Keys of one place. `at` names the tables that work there with them; `written`: text is typed there, so that no letter
    can be a key. `typed` are the characters that are typed there although other letters are keys."""

    title: str
    table: tuple[Key, ...]
    at: tuple[tuple[Key, ...], ...] = ()
    written: bool = False
    typed: str = ""

    @property
    def keys(self) -> list[Key]:
        """All keys that work there."""
        return [key for table in (self.table, *self.at) for key in table]

    def takes(self, text: str) -> bool:
        """Whether text is typed in this place; else it is for the composer. A form decides by its row, with a method of this
        name."""
        return set(text) <= set(self.typed)


_NUMBER = "0123456789.-"
_IN_CHAT = (CHAT, MODEL, APP)
_IN_DIALOG = (DIALOG, APP)
_IN_LIST = (ARROWS, *_IN_DIALOG)

GROUPS: tuple[KeyGroup, ...] = (
    KeyGroup("CHAT", (*COMPOSER, *CHAT, *MODEL), (APP,), written=True),
    KeyGroup("TOKEN MODE", TOKENS, _IN_CHAT),
    KeyGroup("BIG VIEW", BIG, _IN_CHAT),
    KeyGroup("WALKS", WALKS, _IN_CHAT),
    KeyGroup("LESSON", LESSON, _IN_CHAT, typed=_NUMBER + ","),
    KeyGroup("TUNE", TUNE, _IN_CHAT, typed=_NUMBER),
    KeyGroup("EVERYWHERE", APP, written=True),
    KeyGroup("MODELS", (
        Key("model-enter", "enter", "", "Chat with the highlighted model, or download it"),
        Key("model-engine", "ctrl+t", "engine", "Settings of the highlighted model"),
        Key("model-reload", "ctrl+r", "reload", "Reload the model"),
        Key("model-unload", "ctrl+o", "unload", "Unload the model"),
        Key("model-draft", "ctrl+g", "draft", "Draft for the loaded model with the highlighted one, or unload it"),
        Key("model-cancel", "delete", "cancel", "Stop the highlighted download; it can be resumed"),
        Key("model-skipped", "ctrl+s", "skipped", "Files that were skipped"),
    ), _IN_LIST, written=True),
    KeyGroup("MODEL SETTINGS", ENGINE, _IN_LIST),
    KeyGroup("SAVED CHATS", (
        Key("session-enter", "enter", "", "Open the highlighted chat"),
        Key("session-rename", "ctrl+r", "rename", "Rename the highlighted chat"),
        Key("session-duplicate", "f5", "duplicate", "Duplicate the highlighted chat"),
        Key("session-delete", "delete", "drop", "Delete the highlighted chat"),
        Key("session-undelete", "ctrl+y", "undo", "Restore the last deleted chat"),
        Key("session-new", "ctrl+n", "new", "New chat"),
    ), _IN_LIST, written=True),
    KeyGroup("BRANCHES", (
        Key("tree-up", "k", "move('up')", "Move one row up or down", display="k j"),
        Key("tree-down", "j", "move('down')"),
        Key("tree-first", "home,g", "move('first')", "First or last row", display="g G"),
        Key("tree-last", "end,G", "move('last')"),
        Key("tree-parent", "left,h", "parent", "Parent turn"),
        Key("tree-go", "enter", "go", "Go to the end of the branch"),
        Key("tree-rename", "n", "rename", "Name the branch"),
        Key("tree-delete", "d,delete", "drop", "Delete the branch and everything below it"),
        Key("tree-undelete", "z,u", "undo", "Restore the last deleted branch"),
        Key("tree-mark", "m", "mark", "Mark the reply, to compare others with it"),
        Key("tree-compare", "c", "compare", "Compare with the marked reply, or with the last one of the chat"),
        Key("tree-other", "o", "other", "Compare with a reply of another saved chat"),
    ), _IN_LIST),
    KeyGroup("REPLIES", (
        Key("reply-up", "k", "move('up')", "Move one row up or down", display="k j"),
        Key("reply-down", "j", "move('down')"),
        Key("reply-choose", "enter", "choose", "Compare with the highlighted reply"),
    ), _IN_LIST),
    KeyGroup("THEMES", (
        Key("theme-first", "home,g", "move('first')", "First or last theme", priority=False, display="g G"),
        Key("theme-last", "end,G", "move('last')", priority=False),
        Key("theme-keep", "enter", "keep", "Use the highlighted theme", priority=False),
    ), _IN_LIST),
    KeyGroup("PERSONAS", (
        Key("persona-up", "k", "move('up')", "Previous or next persona", priority=False, display="k j"),
        Key("persona-down", "j", "move('down')", priority=False),
        Key("persona-begin", "enter", "begin", "Start a chat with the highlighted persona", priority=False),
        Key("persona-here", "h,H", "here", "Use only its knobs, from here on in this chat", priority=False),
    ), _IN_LIST),
    KeyGroup("PRESETS", (
        Key("preset-up", "k", "move('up')", "Previous or next preset", priority=False, display="k j"),
        Key("preset-down", "j", "move('down')", priority=False),
        Key("preset-apply", "enter", "apply", "Apply the highlighted preset, or save under the typed name", priority=False),
        Key("preset-save", "s", "save", "Save the knobs of the chain as a preset of your own", priority=False),
        Key("preset-rename", "r", "rename", "Rename the highlighted preset, if it is your own", priority=False),
        Key("preset-remove", "delete,d", "drop", "Remove the highlighted preset, if it is your own", priority=False),
    ), _IN_LIST),
    KeyGroup("LESSONS", (
        Key("lessons-up", "k", "move('up')", "Previous or next lesson", priority=False, display="k j"),
        Key("lessons-down", "j", "move('down')", priority=False),
        Key("lessons-number", "0-9", "", "Go to the lesson with this number"),
        Key("lessons-begin", "enter", "begin", "Begin the highlighted lesson, or resume it", priority=False),
        Key("lessons-anew", "r", "begin(True)", "Begin it from the start", priority=False),
    ), _IN_LIST, typed="0123456789"),
    KeyGroup("START WALKS", START, _IN_DIALOG),
    KeyGroup("BREAKPOINTS", (
        Key("rule-enter", "enter", "", "Add the typed rule, or switch the selected one on or off"),
        Key("rule-delete", "delete", "drop", "Delete the selected rule"),
    ), _IN_LIST, written=True),
    KeyGroup("CONSTRAINT", (
        Key("constraint-set", "enter", "set", "Apply the constraint; without text, remove it", priority=False),
        Key("constraint-kind", "tab", "kind(1)", "Next or previous kind of constraint", display="Tab"),
        Key("constraint-kind-before", "shift+tab", "kind(-1)"),
        Key("constraint-recent", "pageup", "recent(1)", "Earlier or later constraint", display="PgUp PgDn"),
        Key("constraint-later", "pagedown", "recent(-1)"),
        Key("constraint-stage", "f2", "stage", "Put the stage first, or after the others"),
        Key("constraint-editor", "f8", "editor", "Edit the text in $VISUAL or $EDITOR"),
    ), _IN_DIALOG, written=True),
    KeyGroup("LOGIT BIASES", (
        Key("bias-ban", "enter", "", "Ban the selected token, or lift the ban"),
        Key("bias-less", "shift+left", "shift(-1)", "Add to or take from its logit", display="Shift+←→"),
        Key("bias-more", "shift+right", "shift(1)"),
        Key("bias-word", "tab", "word", "Ban the typed word in all its spellings; again: those of several tokens, too"),
        Key("bias-remove", "delete", "remove", "Remove the selected bias"),
        Key("bias-undo", "ctrl+y", "undo", "Undo the last change"),
    ), _IN_LIST, written=True),
    KeyGroup("SAVE", (
        Key("save-enter", "enter", "", "Save; press again to overwrite an existing file"),
    ), _IN_DIALOG, written=True),
    KeyGroup("NEW CHAT", (
        Key("setup-start", "enter", "start", "Start the chat", priority=False),
        Key("setup-raw", "tab", "raw", "Switch raw mode on or off"),
        Key("setup-keep", "shift+tab", "keep", "Keep the knobs and breakpoints of this chat, or not"),
    ), _IN_DIALOG, written=True),
    KeyGroup("CONTEXT FULL", (
        Key("full-drop", "d", "choose('drop')", "Drop the oldest turns from the model's context", priority=False),
        Key("full-summarise", "s", "choose('summarise')", "Let the model summarise them first", priority=False),
    ), _IN_DIALOG),
    KeyGroup("MESSAGE HISTORY", (
        Key("history-enter", "enter", "", "Put the highlighted message back into the composer"),
    ), _IN_LIST, written=True),
    KeyGroup("QUEUE", (
        Key("queue-edit", "enter", "edit", "Edit the highlighted message"),
        Key("queue-remove", "delete,d", "drop", "Remove the highlighted message"),
        Key("queue-earlier", "shift+up,K", "shift(-1)", "Move it earlier or later in the queue", display="Shift+↑↓"),
        Key("queue-later", "shift+down,J", "shift(1)"),
    ), _IN_LIST),
    KeyGroup("LISTS", ARROWS, _IN_DIALOG, written=True),
    KeyGroup("READING", READING, _IN_LIST),
    KeyGroup("COMPARE", (
        Key("compare-why", "w", "why", "Why the replies differ, with both distributions; again: the texts", priority=False),
    ), (READING, *_IN_LIST)),
    KeyGroup("TOKENS OF A TEXT", (
        Key("pieces-view", "tab", "next_view", "Show the ids of the tokens; again: one per line, with its bytes"),
    ), _IN_LIST, written=True),
    KeyGroup("DIALOGS", DIALOG, (APP,), written=True),
)  # fmt: skip
"""All keys, by where they work; each is in one of them."""

KEYS = {key.id: key for group in GROUPS for key in group.table}
_FAMILIES = {family[0].id: family for group in GROUPS for family in families(group.table)}


def group_of(place: str) -> KeyGroup | None:
    """Return the group of keys with that title."""
    return next((group for group in GROUPS if group.title == place), None)


def actions(table: tuple[Key, ...]) -> dict[str, str]:
    """Return the actions by key, for widgets that handle keys themselves."""
    return {name: key.action for key in table if key.action for name in keys_of(key)}


# --- how keys are named ----------------------------------------------------------------------------------------------


def name_of(id: str) -> str:
    """Return the first key of that id for readers, as "Ctrl+T"; "" for none."""
    return shown(next(iter(keys_of(KEYS[id])), ""))


def way_to(id: str) -> str:
    """Return the keys that lead to it from the chat, as "Ctrl+T" or "Ctrl+G v"; "" for none."""
    name, key = name_of(id), KEYS[id]
    way = "tokens" if key in TOKENS else "learn" if key in LESSON else ""
    return f"{name_of(way)} {name}" if name and way else name


_IN_SHORT = {"TUNE": "tune", "TOKEN MODE": "token mode", "BIG VIEW": "full view", "LESSON": "lesson keys"}
"""What the composer calls the places in which letters are keys and Esc leads back to it."""


def way_to_type(place: str) -> str:
    """Describe how text is typed in a place whose letters are keys; "" for other places."""
    if place == "WALKS":  # in which Esc ends the replies
        return "walks · / to type"
    return f"{_IN_SHORT[place]} · {name_of('back')} to type" if place in _IN_SHORT else ""


def hint(*does: tuple[str, str], before: str = "") -> Content:
    """Format a sentence of keys, by their ids, and their effects, after `before`. A click on one presses it."""
    parts = [part for id, words in does if (part := link(id, words))]
    sentence = Content(", ").join(parts) + "." if parts else Content()
    return Content(before + " ") + sentence if before and parts else Content(before) + sentence


def link(id: str, words: str, gap: str = " ") -> Content:
    """Format a key and its effect, clickable; empty if it has no key."""
    family = _FAMILIES[id]
    name = displayed(family)
    content = Content(f"{name}{gap}{words}" if name else "")
    key = pressed(family) if family[0].action else family[0].keys
    return content.stylize(Style.from_meta({"@click": f"app.press({key!r})"})) if name and key else content


def labels(*does: tuple[str, str]) -> list[Label]:
    named = [(_FAMILIES[id], words) for id, words in does]
    return [Label(name, words, pressed(family)) for family, words in named if (name := displayed(family))]


# --- what works now --------------------------------------------------------------------------------------------------

_SITUATIONS = {"no model": "unloaded", "rendering": "busy", "prefill": "busy", "decoding": "busy"}
"""Those of phases that go by another name."""
NOT_OTHERWISE: Mapping[str, str] = {}


class Lights(NamedTuple):
    """Ids of keys that a lesson points at, which stand out and come first, and pages of the panels."""

    keys: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


NO_LIGHTS = Lights()


def situation_of(
    phase: Phase, *, empty: bool, tokens: bool = False, big: bool = False, walks: bool = False
) -> Situation:
    """Return the situation of a chat in this phase, `empty` as long as it has no message; `tokens`: token mode is open; `big`:
    the big view of the panels is; `walks`: the walks view has the keyboard."""
    situation = _SITUATIONS.get(phase, phase)
    if tokens or walks:
        place = "token" if tokens else "walks"
        situation = f"{place}-{situation}" if situation in ("busy", "paused") else place
    elif big and situation in ("idle", "busy"):
        situation = "big"
    elif empty and situation == "idle":
        situation = "empty"
    return cast(Situation, situation)


def lacking(key: Key, offers: Collection[Feature], situation: Situation | None = None) -> Feature | None:
    """Return the feature that a key needs and the engine does not offer; None for a key that works."""
    if key.id == "continue" and situation != "idle":  # it also loads a model, or resumes
        return None
    return None if key.needs is None or key.needs in offers else key.needs


def working(
    situation: Situation,
    offers: Collection[Feature] = ALL_FEATURES,
    *,
    thinking: bool = False,
    words: Mapping[str, str] = NOT_OTHERWISE,
    lit: Sequence[str] = (),
) -> tuple[list[Label], list[Label]]:
    """Return labels of the keys that work now: those shown if there is room, in order of use, and those always shown.

    Args:
        situation: what the chat is doing.
        offers: what the engine offers; keys that need more are marked.
        thinking: the reply is in its thoughts.
        words: ids of keys that do something else now, and what; "" leaves one out.
        lit: ids of keys that come first, in this order, and stand out.
    """
    own, always = COMPOSER, [key.id for key in APP]
    if situation in _IN_TOKENS or situation in _IN_WALKS:  # the way to all other keys, and the way out
        own, always = TOKENS if situation in _IN_TOKENS else WALKS, ["token-keys", "walks-keys", "back"]
    elif situation == "big":
        own = BIG
    ranked: list[tuple[int, Label]] = []
    important: list[Label] = []
    for family in families((*own, *CHAT, *APP)):
        key = family[0]
        now: Situation = "thinking" if thinking and "thinking" in key.labels else situation
        does = words.get(key.id, key.labels.get(now, ""))
        pointed = [one for one in family if one.id in lit]
        if pointed and not does:  # in few words, so that there is room for the others
            id_words = pointed[0].id.removeprefix("token-").replace("-", " ")
            does = min(key.palette.lower() or id_words, id_words, key=len)
        if pointed and len(pointed) < len(family):
            family = [one._replace(display="") for one in pointed]
        name = displayed(family)
        if not (does and name):
            continue
        refused = lacking(key, offers, situation) is not None
        label = Label(name, does, pressed(family), refused, bool(pointed))
        if pointed:
            ranked.append((min(lit.index(one.id) for one in pointed) - len(lit), label))
        elif key.id in always:
            important.append(label)
        else:
            ranked.append((0 if now == "thinking" else 1, label))
    return [label for _, label in sorted(ranked, key=itemgetter(0))], important
