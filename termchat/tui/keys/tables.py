"""Every key of the chat, declared once: bindings, the key line, the help and the palette are made from these tables.

Those of TUNE and of the dialogs are in `dialogs`, which is not needed before the first frame.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from termchat.chat.changes import Phase
from termchat.engine.port import ALL_FEATURES, Feature
from termchat.tui.keys.key import Key, Label, Situation, displayed, families, pressed
from termchat.tui.keys.offered import lacking

TOKEN_SITUATIONS: tuple[Situation, ...] = ("token", "token-busy", "token-paused")
WALK_SITUATIONS: tuple[Situation, ...] = ("walks", "walks-busy", "walks-paused")

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
_IN_WALKS: dict[Situation, Situation] = {"busy": "walks-busy", "paused": "walks-paused"}


def situation_of(
    phase: Phase, *, empty: bool, tokens: bool = False, big: bool = False, walks: bool = False
) -> Situation:
    """The situation of a chat in this phase, `empty` as long as it has no message; `tokens`: token mode is open; `big`: the
    big view of the panels is; `walks`: the walks view has the keyboard."""
    situation = _SITUATIONS[phase]
    if tokens:
        return _IN_TOKENS.get(situation, "token")
    if walks:
        return _IN_WALKS.get(situation, "walks")
    if big and situation in ("idle", "busy"):
        return "big"
    return "empty" if empty and situation == "idle" else situation


def _resting(label: str) -> dict[Situation, str]:
    return {"idle": label, "empty": label}


def _everywhere(label: str) -> dict[Situation, str]:
    return dict.fromkeys(("idle", "empty", "busy", "paused", "loading", "unloaded", "failed", "big"), label)


def _in_tokens(label: str) -> dict[Situation, str]:
    return dict.fromkeys(TOKEN_SITUATIONS, label)


def _in_walks(label: str) -> dict[Situation, str]:
    return dict.fromkeys(WALK_SITUATIONS, label)


def _running_walks(label: str) -> dict[Situation, str]:
    return {"walks-busy": label, "walks-paused": label}


COMPOSER: tuple[Key, ...] = (
    Key(
        "send", "enter", "send", "Send the message, or queue it while a reply is running",
        _resting("send") | {"busy": "queue", "paused": "queue", "loading": "queue", "unloaded": "send"},
        priority=False,
    ),
    Key("newline", "ctrl+j,shift+enter,alt+enter", "newline", "Insert a line break", {}, priority=False),
    Key("undo", "ctrl+underscore", "undo", "Undo typing", {}, priority=False),
    Key("redo", "alt+y", "redo", "Redo typing", {}, priority=False),
    Key("unfold", "tab", "unfold", "Expand a pasted text that is folded into a label", {}, priority=False),
)  # fmt: skip

CHAT: tuple[Key, ...] = (
    Key(
        "back", "escape", "back", "Close the innermost thing, then stop the reply",
        {**_in_tokens("back"), **_in_walks("back"), **_running_walks("end"), "busy": "stop", "paused": "stop", "big": "back"},
        priority=False,
    ),
    Key(
        "continue", "ctrl+o", "continue",
        "Resume a paused reply, or continue the last one; restart a stopped engine or make room in a full context first",
        {"idle": "continue", "paused": "resume", "unloaded": "load", "failed": "restart"}, "Continue the reply",
    ),
    Key(
        "tune", "ctrl+t", "tune", "Turn the knobs, even while a reply streams",
        _everywhere("tune") | _in_tokens("tune") | _in_walks("tune") | _running_walks("tune all"), "Tune",
    ),
    Key(
        "tokens", "ctrl+g", "tokens", "Token mode: inspect any token, fork, pause, step, ask why",
        _in_walks("tokens") | {"idle": "tokens", "busy": "tokens", "paused": "step"}, "Token mode",
    ),
    Key(
        "look", "ctrl+l", "look",
        "Next look: reading, or tokens by probability (model), after (chain), entropy, rank, time or drafts",
        _everywhere("look") | _in_tokens("look") | _in_walks("look"), "Look",
    ),
    Key("panels", "ctrl+b,ctrl+backslash", "panels", "Show or hide the panels (tmux takes Ctrl+B)", {}, "Panels",
        display="Ctrl+B/Ctrl+\\"),
    Key(
        "page", "ctrl+right_square_bracket", "turn_page(1)", "Next page of the panels: chain, plots of the reply, next token",
        {}, "Next page of the panels",
    ),
    Key("big", "f6", "big", "Show the panels full size instead of the chat, or go back", {}, "Big view of the panels"),
    Key(
        "regenerate", "ctrl+r", "regenerate", "Regenerate the reply, with new dice unless a seed is set",
        {"idle": "regenerate"}, "Regenerate",
    ),
    Key("walks", "ctrl+y", "dialog('walks')", "Walks: several replies at once, a grid of knobs, A/B, best of, vote or beams",
        {"idle": "walks"}, "Walks"),
    Key("answer", "f12", "answer", "End the thoughts of the model now, so that it answers; otherwise show or fold them",
        {"thinking": "answer now"}, "Answer now"),
    Key("thoughts", "", "thoughts", "Show or fold the thoughts before an answer", {}, "Thoughts of the last reply"),
    Key("edit", "f7", "edit", "Edit an earlier message or reply on a new branch; press again for the one before it", {},
        "Edit an earlier message"),
    Key("find", "ctrl+f", "find", "Find text in the chat", {}, "Find in the chat"),
    Key("new", "ctrl+n", "new", "New chat, as configured; /new keep keeps the knobs of this one", _resting("new"), "New chat"),
    Key("save", "ctrl+s", "dialog('save')", "Save a transcript (Markdown, HTML, JSON Lines and more)", _resting("save"),
        "Save transcript"),
    Key("sessions", "f4", "dialog('sessions')", "Saved chats: search, open, rename, delete", _resting("chats"), "Saved chats"),
    Key(
        "models", "f3", "dialog('models')", "Models: switch, download, unload",
        {"empty": "models", "unloaded": "models", "failed": "models"}, "Models",
    ),
    Key(
        "persona", "f5", "dialog('persona')", "Personas: a system prompt with the knobs that suit it", {}, "Personas",
        priority=False
    ),
    Key("presets", "f10", "dialog('presets')", "Presets: set the whole sampler chain at once, or save it", {}, "Presets"),
    Key("setup", "f2", "dialog('setup')", "New chat with a system prompt, or in raw mode without a template", {},
        "System prompt and raw mode"),
    Key("learn", "ctrl+space,ctrl+@", "app.learn", "Lessons: learn decoding by doing it; in a lesson, the way to its keys", {},
        "Lessons"),
    Key("unconstrain", "f11", "unconstrain", "Drop the constraint, also in mid-reply; again to put it back", {},
        "Drop the constraint, or put it back"),
    Key("editor", "f8", "editor", "Write the message in $VISUAL or $EDITOR", {}, "Edit the message in an editor"),
    Key("interrupt", "ctrl+c", "interrupt", "Copy the selection; otherwise stop the reply; otherwise quit", {}),
    Key("page-up", "pageup", "scroll('page_up')", "Scroll up one page", {}),
    Key("page-down", "pagedown", "scroll('page_down')", "Scroll down one page", {}),
    Key("line-up", "ctrl+up", "scroll('up')", "Scroll up one line", {}),
    Key("line-down", "ctrl+down", "scroll('down')", "Scroll down one line", {}),
    Key("top", "ctrl+home", "scroll('home')", "Scroll to the start of the chat", {}),
    Key("end", "ctrl+end", "scroll('end')", "Scroll to the end of the chat and follow it", {}),
    Key("turn-up", "ctrl+pageup", "turn(-1)", "Go to the start of this turn, or of the previous one", {}, "Previous turn"),
    Key("turn-down", "ctrl+pagedown", "turn(1)", "Go to the start of the next turn, or to the end", {}, "Next turn"),
)  # fmt: skip


def _jump(id: str, key: str, where: str, help: str) -> tuple[Key, Key]:
    return (
        Key(f"next-{id}", key, f"move('{where}_next')", help, {}, display=f"{key} {key.upper()}"),
        Key(f"previous-{id}", key.upper(), f"move('{where}_prev')", "", {}),
    )


TOKENS: tuple[Key, ...] = (
    Key("token-left", "h,left", "move('left')", "Move by token or line", _in_tokens("move"), display="hjkl"),
    Key("token-down", "j,down", "move('down')", "", {}),
    Key("token-up", "k,up", "move('up')", "", {}),
    Key("token-right", "l,right", "move('right')", "", {}),
    Key("pause", "space", "pause", "Pause or resume the reply",
        {"token-busy": "pause", "token-paused": "resume"}, "Pause or resume"),
    Key("step", "n", "step('token')", "Draw one token, then pause again", {"token-paused": "step"}),
    Key("choose-1", "1", "choose(1)", "Fork here with that candidate; while paused, force it",
        {"token": "fork", "token-paused": "force"}, display="1-9"),
    *(Key(f"choose-{digit}", str(digit), f"choose({digit})", "", {}) for digit in range(2, 10)),
    Key("token-keys", "?", "app.keys", "List all keys", _in_tokens("keys")),
    Key("other-text", "t", "type('text')", "Replace from here with your text, then continue",
        {"token": "text", "token-paused": "text"}),
    Key("why", "w", "type('why')", "Why not another token? Type text or #id", _in_tokens("why")),
    Key("step-sentence", ")", "step('sentence')", "Continue to the end of the sentence", {"token-paused": "sentence"}),
    Key("step-line", "]", "step('line')", "Continue to the end of the line", {"token-paused": "line"}),
    Key("token-walks", "W", "dialog('walks')", "Several continuations from here, or a grid, A/B, vote or beams",
        {"token": "walks"}),
    Key("cut", "x", "cut", "Redraw from here with the same dice", {"token": "redraw"}),
    Key("cut-paused", "X", "cut(True)", "Restart from here, paused, so you can step", {}),
    Key("ask-again", "i", "ask(False)", "Recompute this step, with its original settings", {"token": "recompute"}),
    Key("ask-now", "I", "ask(True)", "Recompute this step, with the current knobs", {}),
    Key("what-if", "v", "show('what-if')", "What-if: redraw the whole reply with the current knobs",
        {"token": "what-if"}, "What-if"),
    Key("roll", "r", "screen.roll", "Roll the dice 100 times at this token and count; again for 1,000, then 10,000", {},
        "Roll the dice many times"),
    Key("fork-there", "enter", "fork_there", "In what-if: fork at the first token that differs", {}),
    Key("token-half-down", "d", "half_page('down')", "Move half a page down or up", {}, display="d u"),
    Key("token-half-up", "u", "half_page('up')", "", {}),
    Key("token-turn-up", "{", "move('turn_up')", "Previous or next turn", {}, display="{ }"),
    Key("token-turn-down", "}", "move('turn_down')", "", {}),
    Key("token-line-start", "0,home", "move('line_start')", "Start or end of the line", {}, display="0 $"),
    Key("token-line-end", "$,end", "move('line_end')", "", {}),
    Key("token-first", "g", "move('first')", "First or last token of the chat", {}, display="g G"),
    Key("token-last", "G", "move('last')", "", {}),
    *_jump("uncertain", "e", "entropy", "Next or previous uncertain token (entropy peak)"),
    *_jump("surprise", "s", "surprise", "Next or previous surprise: not the model's likeliest token, or under 10% (model)"),
    *_jump("settings", "c", "change", "Next or previous settings change"),
    Key("token-version-before", "<", "screen.version(-1)", "Previous or next version of this turn", {},
        display="< >"),
    Key("token-version-next", ">", "screen.version(1)", "", {}),
    *_jump("fork", "f", "fork", "Next or previous fork"),
    Key("token-page", "tab", "screen.turn_page(1)", "Next or previous page of the panels", {}, display="Tab"),
    Key("token-page-before", "shift+tab", "screen.turn_page(-1)", "", {}),
    Key("ending", "o", "show('ending')", "Why the reply ended, with p(end) at every token", {}, "How the reply ended"),
    Key("ban", "minus", "bias('ban')", "Ban the token under the cursor from all replies, or lift the ban", {}, display="-"),
    Key("boost", "plus", "bias('more')", "Add 1 to its logit from now on (logit bias)", {}, display="+"),
    Key("bias", "B", "dialog('bias')", "Logit biases: ban or boost tokens, words and candidates", {}, "Logit biases"),
    Key("breakpoints", "b", "dialog('breakpoints')", "Breakpoints and stop rules", {}, "Breakpoints"),
    Key("constraint", "J", "dialog('constraint')", "Constrain replies to a JSON schema, regex, choice or grammar", {},
        "Constraint"),
    Key("copy-message", "m", "screen.copy_message", "Copy the reply under the cursor", {}),
    Key("tree", "y", "dialog('tree')", "Branch tree: browse, name, delete, compare", {}, "Branches"),
    Key("prompt", "p", "dialog('prompt')", "Tokens of the message, with the template around it, as the model reads them", {},
        "Prompt tokens"),
    Key("reply-tokens", "T", "dialog('reply-tokens')", "Tokens of the whole reply, with their ids", {}, "Tokens of the reply"),
    Key("tokenize", "P", "dialog('tokenize')", "Tokens of your draft, or of any text", {}, "Tokens of any text"),
)  # fmt: skip

BIG: tuple[Key, ...] = (
    Key("big-next", "tab,right,down", "screen.turn_page(1)", "Next or previous page", {"big": "page"}, display="Tab ←→"),
    Key("big-previous", "shift+tab,left,up", "screen.turn_page(-1)", "", {}),
    Key("big-roll", "r", "screen.roll", "Roll the dice 100 times at the newest token; again for more", {"big": "roll"}),
)  # fmt: skip
"""What works in the big view of the panels."""

WALKS: tuple[Key, ...] = (
    Key("walk-1", "1", "screen.walks('choose', 1)", "Go to walk 1 to 9", _in_walks("walk"), display="1-9"),
    *(Key(f"walk-{digit}", str(digit), f"screen.walks('choose', {digit})", "", {}) for digit in range(2, 10)),
    Key("walk-keep", "enter", "screen.walks('keep')", "Keep this walk: the others end, and the chat continues from it",
        _in_walks("keep")),
    Key("walks-view", "tab", "screen.walks('turn', 1)", "Next or previous view: text, where the walks part, table",
        _in_walks("view"), display="Tab"),
    Key("walks-view-before", "shift+tab", "screen.walks('turn', -1)", "", {}),
    Key("walk-pause", "space", "screen.walks('pause')", "Pause or resume all walks",
        {"walks-busy": "pause", "walks-paused": "resume"}),
    Key("walk-step", "n", "screen.walks('step')", "Draw one token of every walk, then pause again",
        {"walks-paused": "step"}),
    Key("walk-stop", "k", "screen.walks('stop')", "Stop this walk", _running_walks("stop")),
    Key("walk-tune", "t", "screen.walks('tune')", "Turn the knobs of this walk only", _running_walks("tune")),
    Key("walk-keep-all", "a", "screen.walks('keep_all')", "Continue from this walk, and let the others run on as branches",
        _in_walks("keep all")),
    Key("walk-pause-one", "p", "screen.walks('pause', True)", "Pause or resume this walk only", {}),
    Key("walk-step-one", "N", "screen.walks('step', True)", "Draw one token of this walk, then pause it again", {}),
    Key("walk-fork", "f", "screen.walks('fork')", "Fork this walk: choose a token in token mode",
        _in_walks("fork")),
    Key("walk-left", "left,h", "screen.walks('go', -1)", "Previous or next walk", {}, display="←→"),
    Key("walk-right", "right,l", "screen.walks('go', 1)", "", {}),
    Key("walk-up", "up", "screen.walks('line', -1)", "Scroll by a line; in a list, previous or next walk", {}, display="↑↓"),
    Key("walk-down", "down", "screen.walks('line', 1)", "", {}),
    Key("walk-first", "g,home", "screen.walks('jump', -1)", "First or last line, step or token", {}, display="g G"),
    Key("walk-last", "G,end", "screen.walks('jump', 1)", "", {}),
    Key("walks-keys", "?", "app.keys", "List all keys", _in_walks("keys")),
)  # fmt: skip
"""What works in the walks view."""

LESSON: tuple[Key, ...] = (
    Key("lesson-1", "1", "app.lesson('answer', 1)", "Answer the question, or type a number", {}, display="1-4"),
    *(Key(f"lesson-{digit}", str(digit), f"app.lesson('answer', {digit})", "", {}) for digit in range(2, 5)),
    Key("hint", "?,h", "app.lesson('hint')", "Hint: a nudge, then the key, then the step is done for you", {},
        "Lesson: hint"),
    Key("lesson-do", "d", "app.lesson('do')", "Have this step done for you", {}, "Lesson: do this step for me"),
    Key("lesson-more", "m", "app.lesson('more')", "Show all of the text, or less", {}, "Lesson: more text"),
    Key("lesson-skip", "s", "app.lesson('skip')", "Go on to the next step without doing this one", {},
        "Lesson: skip this step"),
    Key("lesson-next", "n", "app.lesson('go', 1)", "Next lesson", {}, "Lesson: next"),
    Key("lesson-before", "p", "app.lesson('go', -1)", "Previous lesson", {}, "Lesson: previous"),
    Key("lesson-list", "l,tab", "app.lesson('list')", "All lessons", {}),
    Key("lesson-leave", "x,q", "app.lesson('leave')", "Leave the lesson: your chat and its knobs come back", {},
        "Lesson: leave"),
)  # fmt: skip
"""What works on the strip of a lesson, while that has the keyboard."""

MODEL: tuple[Key, ...] = (
    Key("switch-back", "", "switch_back", "Switch back to the previous model", {}, "Previous model"),
    Key("unload", "", "unload", "Unload the model and free its memory", {}, "Unload the model"),
    Key("reload", "", "reload", "Reload the model", {}, "Reload the model"),
    Key("regenerate-same", "", "regenerate(True)", "Regenerate with the same dice, to see what a knob changes", {},
        "Regenerate with the same seed"),
    Key("grid", "", "dialog('grid')", "Replies for each value of one or two knobs, as a table", {}, "Grid of knobs"),
    Key("ab", "", "dialog('ab')", "Two settings with the same dice, token by token", {}, "A/B of two settings"),
    Key("best", "", "dialog('best')", "Several replies, ranked by mean logprob", {}, "Best of several replies"),
    Key("vote", "", "dialog('vote')", "Several replies, and their most common answer", {}, "Vote among replies"),
    Key("beams", "", "dialog('beams')", "Beam search: at each step, continue the likeliest beginnings", {}, "Beam search"),
    Key("prefill", "", "prefill", "Set how the next reply starts; the model continues from there", {},
        "Start the reply with"),
    Key("version-before", "", "version(-1)", "Previous version of the last turn that was edited, regenerated or forked", {},
        "Previous version"),
    Key("version-next", "", "version(1)", "Next version of the last turn that has several", {}, "Next version"),
    Key("draft", "", "page('drafts')", "Speculation: what drafted tokens gain, or would gain, and each round of them", {},
        "Speculation"),
    Key("open-walks", "", "open_walks", "Show the walks of the last reply again", {}, "Walks of the last reply"),
    Key("copy-chat", "", "copy_chat", "Continue in a copy of this chat", {}, "Copy the chat"),
    Key("copy-reply", "", "copy_reply", "Copy the last reply", {}, "Copy the last reply"),
    Key("copy-json", "", "copy_json", "Copy the last reply as JSON", {}, "Copy the last reply as JSON"),
    Key("pretty-json", "", "pretty_json", "Show the last reply as JSON with a line for each value", {},
        "Show the last reply as JSON"),
    Key("copy-thoughts", "", "copy_thoughts", "Copy the thoughts of the last reply", {}, "Copy the thoughts"),
    Key("copy-code", "", "copy_code", "Copy the last code block; press again for the one before it", {},
        "Copy the last code block"),
    Key("history", "", "dialog('history')", "Message history: search, use one again", {}, "Message history"),
    Key("queue", "", "dialog('queue')", "Queued messages: edit, remove, reorder", {}, "Queued messages"),
)  # fmt: skip
"""What has no key of its own: the palette has it, and the list of models."""

APP: tuple[Key, ...] = (
    Key("keys", "f1", "keys", "List all keys", {}, "Keys"),
    Key(
        "palette",
        "ctrl+p",
        "command_palette",
        "Command palette",
        _everywhere("menu") | _in_tokens("menu") | _in_walks("menu"),
    ),
    Key("theme", "f9", "theme", "Themes, with live preview", {}, "Themes", priority=False),
    Key("suspend", "ctrl+z", "suspend_process", "Suspend termchat; `fg` in the shell resumes it", {}, "Suspend"),
    Key(
        "quit",
        "ctrl+q",
        "quit",
        "Stop the reply, save and quit",
        _everywhere("quit") | _in_tokens("quit") | _in_walks("quit"),
        "Quit",
    ),
)

_OWN: tuple[tuple[tuple[Situation, ...], tuple[Key, ...]], ...] = (
    (TOKEN_SITUATIONS, TOKENS),
    (WALK_SITUATIONS, WALKS),
    (("big",), BIG),
)
"""What works in which situations instead of the composer's keys."""

NOT_OTHERWISE: Mapping[str, str] = {}


class Lights(NamedTuple):
    """What is pointed at: ids of keys, which stand out and come first, and pages of the panels."""

    keys: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


NO_LIGHTS = Lights()

_ALWAYS = ("token-keys", "walks-keys", "back")
"""In token mode and the walks view: the way to all other keys, and the way out."""


def name_of(id: str) -> str:
    """Return the key of that id for readers, as "Ctrl+T"."""
    key = next(key for key in (*TOKENS, *COMPOSER, *CHAT, *MODEL, *APP, *WALKS, *LESSON) if key.id == id)
    return displayed([key._replace(display="")])


_IN_SHORT = {"TUNE": "tune", "TOKEN MODE": "token mode", "BIG VIEW": "full view", "LESSON": "lesson keys"}
"""What the composer calls the places in which letters are keys and Esc leads back to it."""


def way_to_type(place: str) -> str:
    """Describe how text is typed in a place whose letters are keys; "" for other places."""
    if place == "WALKS":  # in which Esc ends the replies
        return "walks · / to type"
    return f"{_IN_SHORT[place]} · {name_of('back')} to type" if place in _IN_SHORT else ""


def way_to(id: str) -> str:
    """Return the keys that lead to it from the chat, as "Ctrl+T" or "Ctrl+G v"; "" for none."""
    name = name_of(id)
    way = next(
        (way for table, way in ((TOKENS, "tokens"), (LESSON, "learn")) if any(key.id == id for key in table)), ""
    )
    return f"{name_of(way)} {name}" if name and way else name


def working(
    situation: Situation,
    offers: Collection[Feature] = ALL_FEATURES,
    *,
    thinking: bool = False,
    words: Mapping[str, str] = NOT_OTHERWISE,
    lit: Sequence[str] = (),
) -> tuple[list[Label], list[Label]]:
    """What works now: what is shown as far as there is room, in order of use, and what always is. What needs more than the
    engine `offers` is marked. `thinking`: the reply is in its thoughts. `words`: the ids of keys that do something else now,
    and what; "" leaves one out. `lit` are the ids of keys that come first, in this order, and stand out."""
    own = next((table for situations, table in _OWN if situation in situations), COMPOSER)
    always = _ALWAYS if own in (TOKENS, WALKS) else tuple(key.id for key in APP)
    shown: tuple[list[Label], list[Label]] = [], []
    first: dict[int, Label] = {}
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
        if does and (name := displayed(family)):
            refused = lacking(key.id, offers, situation) is not None
            label = Label(name, does, pressed(family), refused, bool(pointed))
            if pointed:
                first[min(lit.index(one.id) for one in pointed)] = label
                continue
            row = shown[key.id in always]
            row.insert(0 if now == "thinking" else len(row), label)
    shown[0][:0] = [first[at] for at in sorted(first)]
    return shown
