"""What a person does on the chat's screen: the actions of its keys, and its dialogs by name.

The action `dialog('NAME')` opens a dialog of the table `DIALOGS`. A key whose action that is (`keys/tables.py`) is at the same
time its entry in the palette and its slash command. What a row opens is imported then: the first frame has none of it. The help
and the themes, which work on every screen, are the app's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal

from termchat.chat.changes import Notice
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.decoding.biases import format_bias
from termchat.decoding.plans import PLANS
from termchat.tui.context import ScreenContext
from termchat.tui.keys.tables import name_of
from termchat.tui.pages.candidates import can_roll, roll_more
from termchat.tui.pages.panel_pages import shown_step
from termchat.tui.pages.record import piece_of
from termchat.tui.terminal.screens import LeavingApp
from termchat.tui.transcript.looks import LOOKS, next_look

if TYPE_CHECKING:
    from termchat.decoding.group import GroupKind
    from termchat.tui.constraint.constraint_setting import ConstraintSetting
    from termchat.tui.lists.switching import ChatSwitching, ModelSwitching
    from termchat.tui.pages.turn_versions import TurnVersions
    from termchat.tui.screen.ask_line import AskLine, MessageEdit
    from termchat.tui.screen.notices import NoticeSlip
    from termchat.tui.screen.walks_view import WalksView
    from termchat.tui.terminal.clipboard import Clipboard

Scroll = Literal["page_up", "page_down", "up", "down", "home", "end"]


class ChatActions(ScreenContext):
    """A screen with the rooms that the keys act on."""

    choosing: ModelSwitching
    conversations: ChatSwitching
    constraining: ConstraintSetting
    _ask_line: AskLine
    _edit: MessageEdit
    _notices: NoticeSlip
    _versions: TurnVersions
    _walks: WalksView
    dialog = ""
    """Name of the dialog that was opened last."""
    _clipboard: Clipboard | None = None
    _code: tuple[list[str], int] = ([], 0)
    """The blocks of code that were there when one was copied last, and which one that was, from the end."""
    _interrupted: Literal["", "copied", "stopped"] = ""
    """What the key that interrupts did last, if nothing else was done since."""

    def show_panels(self) -> None:
        raise NotImplementedError

    def _show_path(self) -> None:
        raise NotImplementedError

    def action_dialog(self, name: str) -> None:
        self.dialog = name
        DIALOGS[name](self)

    # --- in, on and out ----------------------------------------------------------------------------------------------

    def action_back(self) -> None:
        if self._ask_line.close() or self._edit.close():
            self.show_soon()
        elif self.tune is not None:
            if self.tune.drop():
                self.show_knobs()
            else:
                self.close_tune()
        elif self.panels.big:
            self.set_big(False)
        elif self.tokens.back() or self._walks.back():
            return
        elif self._notices:
            self._notices.forget()
        elif self.chat.full is not None:
            self.chat.turns.make_room("stop")
        elif not self.panels.beside and self.panels.is_shown:
            self.panels.toggle()
        else:
            self.chat.stop()

    def action_continue(self) -> None:
        self._notices.forget()
        chat = self.chat
        if chat.full is not None and chat.phase == "idle":
            self.action_dialog("full")
        elif chat.phase == "no model" and chat.spec is None:  # nothing was chosen that could be loaded
            self.choosing.open()
        elif chat.phase in ("failed", "no model"):
            chat.loading.restart_engine()
        elif chat.phase == "paused":
            chat.replies.resume()
        else:
            chat.forks.continue_reply()

    def action_regenerate(self, same: bool = False) -> None:
        self._versions.regenerate(same=same)

    def action_version(self, by: int, node: int | None = None) -> None:
        if self._walks.open and (shown := self._walks.shown) is not None:
            self._walks.do_go(shown, by)  # on every page: the key of a page may do something else
        else:
            self._versions.step(by, node)

    def action_new(self) -> None:
        self.conversations.begin()

    def action_copy_chat(self) -> None:
        self.chat.copy_chat()

    def action_switch_back(self) -> None:
        self.chat.loading.switch_back()

    def action_unload(self) -> None:
        self.chat.loading.unload_model()

    def action_reload(self) -> None:
        self.chat.loading.reload_model()

    def action_unconstrain(self) -> None:
        if not self.constraining.toggle():
            self.action_dialog("constraint")

    def action_forget_notice(self, at: int) -> None:
        self._notices.drop(at)

    def action_interrupt(self) -> None:
        # What was just done is not done again: the next press goes a step further.
        selected = self.composer.selected_text or self.get_selected_text()
        if selected and not self._interrupted:
            self._interrupted = "copied"
            self.copy_to_clipboard(selected, "the selection")
        elif self.chat.busy and self._interrupted != "stopped":
            self._interrupted = "stopped"
            self.chat.stop()
        elif self.chat.busy:  # the engine does not hear
            self._leave()
        else:
            self.ask_to_quit()

    def ask_to_quit(self, key: str = "interrupt") -> None:
        """Ask whether to quit, and quit if that was asked a moment ago."""
        keeps = self.chat.session.store is not None and self.chat.saving_problem is None
        lost = "; your unsent text would be lost" if self.composer.text.strip() and not keeps else ""
        hint = f"it cannot be saved right now; use {name_of('save')} to write it to a file" if self.chat.unsaved else ""
        lost = "; this chat would be lost" if self.chat.unsaved else lost
        if self._notices.ask_to_quit(Notice(f"press {name_of(key)} again to quit{lost}", hint)):
            self._leave()

    def _leave(self) -> None:
        assert isinstance(self.app, LeavingApp)
        self.app.leave()

    # --- the composer, and what is asked above it ----------------------------------------------------------------------

    def action_edit(self, node: int | None = None) -> None:
        self._edit.edit(node)

    def action_find(self) -> None:
        self._ask_line.find()

    def action_prefill(self) -> None:
        self._ask_line.ask_beginning()

    def action_editor(self) -> None:
        self.composer.edit_outside()

    # --- what is looked at -------------------------------------------------------------------------------------------

    def action_scroll(self, where: Scroll) -> None:
        view = self.tokens.transcript
        if where == "end":
            view.follow()
        else:
            getattr(view, f"scroll_{where}")(animate=False)

    def action_turn(self, by: int) -> None:
        if self.tokens.is_open:
            self.tokens.action_move("turn_down" if by > 0 else "turn_up")
        else:
            self.transcript.jump(by)

    def action_look(self) -> None:
        if self.tokens.is_open:
            self.tokens.next_look()
            self.tokens.show()
            if self._walks.open:  # all walks have the look of the one under the cursor
                self._walks.set_look(self.tokens.transcript.look)
        elif (walks := self.chat.walks.shown) is not None:
            self._walks.set_look(next_look(LOOKS, self._walks.look, walks.nodes.values()))
        else:
            replies = (span.node for span in self.chat.conversation.find_path())
            self.transcript.look = next_look(LOOKS, self.transcript.look, replies)
            self.tokens.keep()

    def action_answer(self) -> None:
        if self.chat.replies.may_think:
            self.chat.replies.end_thinking()
        else:
            self.action_thoughts()

    def action_thoughts(self, node: int | None = None) -> None:
        if not self.tokens.transcript.toggle_thoughts(node):
            self.tell(Notice("no thoughts to show or fold here"))

    def action_walks(self, what: str, *arguments: object) -> None:
        self._walks.act(what, *arguments)

    def action_open_walks(self, group: int | None = None) -> None:
        self._walks.reopen(group)

    # --- tokens ------------------------------------------------------------------------------------------------------

    def action_tokens(self) -> None:
        """Enter token mode; only the key that goes back leaves."""
        if self.tune is not None:
            self.close_tune()
        self.tokens.enter()

    def action_choose(self, number: int) -> None:
        """Do what the digit of a candidate does, counted from 1; outside of token mode a paused reply takes it."""
        paused = self.chat.paused
        if self.tokens.is_open:
            self.tokens.action_choose(number)
        elif paused is not None and number <= len(paused.token.candidates):
            self.chat.replies.force_tokens([paused.token.candidates[number - 1].id])
        else:
            self.tell(Notice("no reply is paused", f"to fork with a click, open token mode ({name_of('tokens')})"))

    def action_bias(self, how: str) -> None:
        """Ban the token under the cursor or what a paused reply would take next, or add to its logit: "ban", "more"."""
        if (shown := self.tokens.shown()) is None:
            return
        knobs, token = self.knobs, shown.token
        knobs.bias(token.id, how)
        amount = format_bias(knobs.bias_of(token.id)) or "no bias"
        undo = f"{name_of('tune')} z undoes it" if how == "ban" else ""
        self.tell(Notice(knobs.error or f"{piece_of(token)} ({token.id}): {amount}", undo))
        self.show_soon()

    def action_roll(self, n: int = 0, first: int | None = None) -> None:
        """Roll the dice at the step that is shown (see `roll_more`), on a page that shows it. A reply that runs would take it
        out of sight, so that token mode holds it."""
        chat, tokens, panels = self.chat, self.tokens, self.panels
        if chat.busy and chat.paused is None and not tokens.is_open:
            tokens.enter()
        shown = shown_step(chat, tokens if tokens.is_open else None)
        if shown is None or not shown.token.candidates:
            hint = "send a message first" if shown is None else f"{name_of('ask-again')} asks the model for them"
            self.tell(Notice("no candidates to draw from", hint))
            return
        if not can_roll(shown.token):
            self.tell(Notice("the server that drew this token does not tell what its sampler chain left"))
            return
        panels.shown.rolls = roll_more(panels.shown.rolls, shown.node, shown.token.step, n, first)
        page = panels.page
        if panels.here != "next" and not (panels.big and tokens.is_open and panels.here == "chain"):
            page = "next"
        self.action_page(page)

    # --- panels and knobs --------------------------------------------------------------------------------------------

    def action_panels(self) -> None:
        self.panels.toggle()

    def action_turn_page(self, by: int) -> None:
        """Turn to another page; panels that are hidden are shown first."""
        if self.panels.display:
            self.panels.turn(by)
            self.show_panels()
        else:
            self.action_page(self.panels.page)

    def action_page(self, page: str) -> None:
        """Show a page, and the panels if they are hidden."""
        self.panels.page = page
        if not self.panels.display:
            self.panels.toggle()
        self.show_panels()

    def action_big(self, page: str | None = None) -> None:
        if page is not None:
            self.panels.page = page
        self.set_big(page is not None or not self.panels.big)

    def set_big(self, big: bool) -> None:
        """Open or close the big view, in which the panels take the place of the chat and have the keyboard, except in TUNE."""
        self.panels.enlarge(big)
        self.panels.can_focus = big
        self.set_class(big, "-big")
        self._show_path()
        self.take_keyboard()
        self.show_panels()

    def action_tune(self) -> None:
        if self.tune is not None:
            self.close_tune()
        else:
            self.open_tune()

    def action_tune_knob(self, knob: str) -> None:
        if self.tune is None:
            self.open_tune()
        self.knobs.select(knob)
        self.show_knobs()

    def action_all_knobs(self) -> None:
        """Open TUNE with every knob, or hide the knobs that do nothing again."""
        knobs = self.knobs
        if self.tune is None:
            self.open_tune()
        knobs.unfolded = not knobs.unfolded
        self.show_knobs()

    # --- copying: to the app's clipboard, the terminal's, and the system's ---------------------------------------------

    def copy_to_clipboard(self, text: str, what: str = "") -> None:
        from termchat.tui.terminal.clipboard import Clipboard  # not needed before the first frame

        self._clipboard = self._clipboard or Clipboard(self.app, self.tell)
        self._clipboard.copy(text, what)

    def action_copy_reply(self) -> None:
        if replies := self._list_replies():
            self.copy_to_clipboard(replies[-1], "the last reply")
        else:
            self.tell(Notice("no reply to copy yet"))

    def action_copy_message(self) -> None:
        """Copy the reply under the cursor, else the last one."""
        if spans := self.tokens.transcript.cursor_reply:
            self.copy_to_clipboard(answer_of(spans), "the reply")
        else:
            self.action_copy_reply()

    def action_copy_thoughts(self) -> None:
        thoughts = thoughts_of(self.chat.conversation.find_reply())
        if thoughts is not None:
            self.copy_to_clipboard(thoughts.text, "the thoughts")
        else:
            self.tell(Notice("the last reply has no thoughts"))

    def action_copy_code(self) -> None:
        """Copy the last code block; called again, the one before it."""
        from termchat.tui.transcript.markdown import find_code  # not needed before the first frame

        code_blocks = [block for reply in self._list_replies() for block in find_code(reply)]
        if not code_blocks:
            self.tell(Notice("no code block to copy"))
            return
        codes = [code for code, _ in code_blocks]
        before, back = self._code
        back = back % len(codes) + 1 if before == codes else 1
        self._code = codes, back
        at = len(codes) - back
        language = f" ({code_blocks[at][1]})" if code_blocks[at][1] else ""
        self.copy_to_clipboard(codes[at], f"code block {at + 1} of {len(codes)}{language}")

    def action_copy_json(self) -> None:
        """Copy the last reply as JSON with a line for each value."""
        if (text := self._format_json()) is not None:
            self.copy_to_clipboard(text, "the last reply as JSON")

    def action_pretty_json(self) -> None:
        from termchat.tui.draw.list_dialog import ReadDialog  # rarely needed
        from termchat.tui.draw.marks import prose

        if (text := self._format_json()) is not None:
            rows, title = text.split("\n"), "The last reply as JSON"
            self.open(
                ReadDialog(self.palette, title, lambda width: [line for row in rows for line in prose(row, width)])
            )

    def _format_json(self) -> str | None:
        from termchat.decoding.verdict import format_json

        replies = self._list_replies()
        text = format_json(replies[-1]) if replies else None
        if text is None:
            self.tell(Notice("the last reply is not JSON" if replies else "no reply yet"))
        return text

    def _list_replies(self) -> list[str]:
        turns = self.chat.conversation.turn_spans()
        return [answer_of(spans) for spans in turns if spans[0].node.role == "assistant"]


# --- dialogs ----------------------------------------------------------------------------------------------------------


def _open_history(screen: ChatActions) -> None:
    from termchat.tui.lists.small_dialogs import HistoryDialog

    composer = screen.composer
    screen.choose(HistoryDialog(screen.palette, composer.earlier.texts, composer.message), composer.put)


def _open_queue(screen: ChatActions) -> None:
    from termchat.tui.lists.small_dialogs import QueueDialog

    turns = screen.chat.turns

    def take_back(number: int) -> None:
        if number < len(turns.queue):
            screen.composer.give_back(turns.take_back(number))

    screen.choose(QueueDialog(screen.palette, screen.chat), take_back)


def _open_full(screen: ChatActions) -> None:
    from termchat.tui.lists.small_dialogs import FullDialog

    chat = screen.chat
    if chat.full is not None:
        screen.open(FullDialog(chat.full), lambda way: chat.turns.make_room(way or "stop"))


def _open_breakpoints(screen: ChatActions) -> None:
    from termchat.tui.lists.small_dialogs import BreakpointsDialog

    screen.open(BreakpointsDialog(screen.chat, screen.palette))


def _open_biases(screen: ChatActions) -> None:
    """Show the logit biases; in token mode with the candidates of the token under the cursor."""
    from termchat.tui.lists.bias_dialog import BiasDialog

    shown = screen.tokens.shown() if screen.tokens.is_open else None
    token = shown.token if shown is not None else None
    screen.open(BiasDialog(screen.chat, screen.knobs, screen.palette, token))


def _open_tree(screen: ChatActions) -> None:
    from termchat.tui.lists.branch_tree import TreeDialog

    chat = screen.chat

    def select(leaf: int) -> None:
        if leaf != chat.conversation.leaf:
            chat.branches.select_leaf(leaf)
            screen.tokens.follow()

    screen.choose(TreeDialog(chat, screen.palette, screen.conversations.sessions), select)


def _open_tokens(screen: ChatActions, *, prompt: bool) -> None:
    """Show the tokens of the reply under the cursor, or of the message before it."""
    from termchat.tui.lists.tokenizer import PiecesDialog

    chat, reply = screen.chat, screen.tokens.transcript.cursor_reply
    number = None if not reply else reply[0].node.parent if prompt else reply[0].node.number
    if number is not None:
        screen.open(PiecesDialog(screen.palette, "Prompt" if prompt else "Reply"))
        chat.questions.tokens_of(chat.conversation.nodes[number])
        screen.tokens.follow()


def tokenize(screen: ChatActions, text: str) -> None:
    """Show the tokens of a text, which can be typed on."""
    from termchat.tui.lists.tokenizer import MOST_TYPED, PiecesDialog, TokenizerDialog

    def ask(text: str) -> None:
        screen.chat.questions.ask_tokens(text)
        screen.tokens.follow()

    if len(text) <= MOST_TYPED:
        screen.open(TokenizerDialog(screen.palette, text, ask))
    else:
        screen.open(PiecesDialog(screen.palette, "Tokens"))
        ask(text)


def _open_constraint(screen: ChatActions) -> None:
    from termchat.tui.constraint.constraint_dialog import ConstraintDialog

    screen.open(ConstraintDialog(screen.constraining, screen.chat.constraint))


def _open_presets(screen: ChatActions) -> None:
    from termchat.tui.lists.preset_dialog import PresetsDialog, apply_preset

    screen.choose(PresetsDialog(screen), lambda preset: apply_preset(screen, preset))


def _open_walks(kind: GroupKind, screen: ChatActions) -> None:
    from termchat.tui.screen.walks_dialog import open_dialog

    open_dialog(screen, kind)


DIALOGS: Mapping[str, Callable[[ChatActions], None]] = {
    "models": lambda screen: screen.choosing.open(),
    "sessions": lambda screen: screen.conversations.browse(),
    "setup": lambda screen: screen.conversations.set_up(),
    "save": lambda screen: screen.conversations.save(),
    "persona": lambda screen: screen.conversations.browse_personas(),
    "presets": _open_presets,
    "history": _open_history,
    "queue": _open_queue,
    "full": _open_full,
    "breakpoints": _open_breakpoints,
    "constraint": _open_constraint,
    "bias": _open_biases,
    "tree": _open_tree,
    "prompt": partial(_open_tokens, prompt=True),
    "reply-tokens": partial(_open_tokens, prompt=False),
    "tokenize": lambda screen: tokenize(screen, screen.composer.message),
    **{plan.command: partial(_open_walks, kind) for kind, plan in PLANS.items()},
}
