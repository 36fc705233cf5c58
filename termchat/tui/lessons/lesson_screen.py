"""The screen of a lesson: that of its chat, with a strip above the composer on which the lesson is played."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from textual import events
from textual.widget import Widget
from textual.worker import Worker

from termchat.chat.changes import Change, Notice, PathChanged
from termchat.chat.service import Chat
from termchat.config.origins import LESSON as FROM_LESSON
from termchat.conversation.tree import Place
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelInfo
from termchat.lessons.lesson import Lesson, LessonStep, LessonText
from termchat.lessons.lesson_facts import LessonFacts
from termchat.lessons.playing import LessonState, Playing, ResumePoint, truth_of
from termchat.tui.draw.ink import Line
from termchat.tui.draw.lines_view import Slip
from termchat.tui.keys.key import Label, keys_of
from termchat.tui.keys.tables import CHAT, LESSON, NO_LIGHTS, Lights, name_of
from termchat.tui.lessons.autoplay import Autoplay, DeedFailed
from termchat.tui.lessons.lesson_keeping import LessonKeeping
from termchat.tui.lessons.lesson_words import plain_text, rows_for, strip_lines
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.pages.panels import ALONE
from termchat.tui.screen.screen import ChatScreen
from termchat.tui.screen.walks_view import WalksView
from termchat.tui.themes.theme_file import Palette
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS

LOOKS_PER_SECOND = 4
_PANEL = "panel:"
_LONGEST_NUMBER = 12
_NUMBER = frozenset("0123456789.,-")
_ASIDE = re.compile(r"/(hint|learn|lesson-\w+|what|help|keys)(\s|$)")
"""Commands that nobody takes for the deed of a step."""
_SPARE = 3
"""Empty rows that the strip leaves above it."""
_PANELS = 18
"""Rows of a screen with panels that are not the strip's, so that the likeliest tokens are in sight below the knobs."""
_LABELS = {
    "hint": "hint", "lesson-do": "do it for me", "lesson-skip": "skip step", "lesson-more": "more",
    "lesson-list": "list", "lesson-leave": "leave", "lesson-next": "next lesson", "lesson-before": "previous lesson",
}  # fmt: skip
"""What the key line says of the keys of the strip."""
_IN_A_STEP = frozenset({"hint", "lesson-do", "lesson-skip"})


class LessonStrip(Slip, can_focus=True):
    """Plays one lesson: shows each step, goes on when it is done, and takes answers.

    It has the keyboard (is `open`) only between the key that leads to it and the next one.

    Args:
        keeping: keeps how far the lesson is.
        shown: the screen of the lesson's chat.
        lesson: the lesson to begin, or to resume.
        state: how far it was when it was left.
    """

    GROUND = "panel"
    BINDINGS = [key.binding for key in LESSON]  # noqa: RUF012

    def __init__(self, keeping: LessonKeeping, shown: ChatScreen, lesson: Lesson, state: LessonState) -> None:
        super().__init__(id="lesson")
        self._keeping, self._shown, self._chat, self.lesson = keeping, shown, shown.chat, lesson
        self._wanted, point = state.step, state.resumes
        if point is not None and point.leaf is not None and point.leaf not in self._chat.conversation.nodes:
            point = None  # another chat was begun in the lesson
        if point is not None:
            state = msgspec.structs.replace(state, step=point.step)
        elif not self._chat.session.id:  # steps build on one another
            state = msgspec.structs.replace(state, step=0)
        self._point = point
        self.playing = Playing(lesson, state)
        self.facts = LessonFacts(self._chat, self._screen_facts, lesson.messages, stopped_count=lesson.is_of_endings)
        self._typed = ""
        """The number that is being typed."""
        self.note = ""
        """What went wrong in this step, "" for nothing."""
        self._given = lesson.opening.text
        """What the lesson has put into the composer."""
        self._aside = ""
        """The same, while a command is written in its place."""
        self._ran = False
        """Whether a command was done in this step."""
        self._doing: Worker[None] | None = None
        self._model: ModelInfo | None = None
        self._seen: tuple[bool, int, str] = False, 0, ""
        """What was shown beside the step: whether digits answer, the rows, and what the step waits for."""
        self.open = self.begun = self.is_over = False

    def begin(self) -> None:
        """Show the first step."""
        shown, own, opening = self._shown, self._keeping.own, self.lesson.opening
        self._welcome, self._walks = shown.query_one("#welcome"), shown.query_one(WalksView)
        shown.transcript.looks, shown.panels.page = own.transcript.looks, own.panels.page
        shown.panels.open_like(own.panels)
        if self._point is not None:
            self._return_to(self._point)
        if self.playing.step < self._wanted:
            why = f"step {self._wanted + 1} begins in the middle of what the steps before it made"
            shown.tell(Notice(f"resumed at step {self.playing.number}", why))
        shown.tokens.find()
        if opening.look in LOOKS:
            shown.transcript.looks = next(one for one in LOOKS if one == opening.look), TOKEN_LOOKS[0]
        if opening.page in PAGES:
            shown.panels.page = opening.page
        self.set_interval(1 / LOOKS_PER_SECOND, self.look)
        shown.composer.before_all = self.direct
        shown.composer.commands = partial(self._run_command, shown.composer.commands)
        self.begun = True
        self.playing.update(self.facts)
        self._begin_step()
        shown.tick()
        if self.open:  # its key was pressed by now
            self.app.call_later(
                self.take_keyboard
            )  # behind the composer, which has the keyboard as the screen is mounted
        else:
            shown.take_keyboard()

    def on_unmount(self) -> None:
        self.is_over = True  # what still runs shows nothing any more

    @property
    def doing(self) -> bool:
        """Whether a step is being done for the reader."""
        return self._doing is not None and not self._doing.is_finished

    def _return_to(self, point: ResumePoint) -> None:
        """Show the branch and set the knobs with which a step began; a message that was sent in it can be sent again."""
        chat, conversation, leaf = self._chat, self._chat.conversation, point.leaf
        if leaf is not None and leaf != conversation.leaf:
            sent = [
                node.written
                for node in conversation.list_children(leaf)
                if node.role == "user" and not self.facts.is_strange(node)
            ]
            chat.branches.select_leaf(leaf)
            if sent and not conversation.unsent.draft.strip():
                conversation.unsent.draft = self._given = sent[-1]
                self._shown.composer.put(sent[-1])
        turned = Tuning().turn_knobs(point.knobs).find_differing(chat.tuning)
        if turned:
            chat.adjust_all(turned, dict.fromkeys(turned, FROM_LESSON))

    def _begin_step(self) -> None:
        """Show the step with the panels that it points at, put its text into the empty composer (in a lesson that is resumed it
        may be there), and note its beginning, if it can be resumed there."""
        playing, panels, chat, composer = self.playing, self._shown.panels, self._chat, self._shown.composer
        self._typed = self.note = ""
        self._ran = False
        elsewhere = chat.busy or chat.walks.shown is not None or self._mode in ("tune", "tokens", "walks")
        if not self.facts.has_strange and not elsewhere:
            playing.point = ResumePoint(playing.step, chat.conversation.leaf, chat.tuning.find_differing())
        step = LessonStep(LessonText()) if playing.finished else playing.current
        if any(point.startswith(_PANEL) for point in step.points) and self._shown.size.width >= ALONE:
            panels.need("lesson")
        else:
            panels.release("lesson")
        sends = bool(step.deeds) and step.deeds[0].sends
        text = step.compose or (self._given if sends else "")  # it may have been sent too early
        if text and composer.text in ("", text):
            self._given = text
            composer.put(text)
        self.show()

    def end(self) -> None:
        """Stop, and keep how far the lesson is."""
        self.is_over = True
        if self._doing is not None:
            self._doing.cancel()
        self._keeping.keep(self.playing)

    def _have_left(self, *notices: Notice) -> None:
        """Have the lesson left; the notices are shown in the reader's chat."""
        if not self.is_over:
            self.is_over = True
            self.app.call_next(self._keeping.leave, *notices, strip=self)

    # --- what happens --------------------------------------------------------------------------------------------------

    def heed(self, changes: Sequence[Change]) -> None:
        """Take in changes before the screen does; there may be none."""
        self.facts.note_list()
        if self._model is not self._chat.model:
            self._model = self._chat.model
            self._shown.call_next(self._judge_model)
        if any(isinstance(change, PathChanged) for change in changes) and not self._chat.session.view.lesson:
            paused = Notice(f"the lesson is paused: {self.lesson.title}", f"{name_of('learn')} resumes it")
            self._have_left(*(change for change in changes if isinstance(change, Notice)), paused)

    def _judge_model(self) -> None:
        """Leave where the engine of a new model cannot do what the lesson needs."""
        if (refused := self._keeping.refusal(self.lesson)) is not None:
            why = f"{refused.message}; {refused.hint}"
            self._have_left(Notice(f"{self.lesson.title} cannot be played here", why, "warning"))

    def look(self) -> None:
        """Look at the facts; a few times a second."""
        if self.is_over:
            return
        step, finished, missed = self.playing.step, self.playing.finished, len(self.playing.missed)
        if self.playing.update(self.facts):
            if len(self.playing.missed) > missed:
                why = "another model or other settings may be why"
                self._shown.tell(Notice("this came out otherwise than the lesson says", why))
            if (step, finished) != (self.playing.step, self.playing.finished):
                self._keeping.draw_picture(self.lesson, step + 1)
                self._begin_step()
            self.show()
        elif (self._is_direct, self.rows, self._awaits()) != self._seen:
            self.show()

    @property
    def _mode(self) -> str:
        """What has the keyboard: chat, tune, tokens, walks, big, or dialog: with its name."""
        shown, dialog, group = self._shown, self.app.screen, self._walks.group
        if dialog is not shown:
            return f"dialog:{shown.dialog or getattr(dialog, 'KEYS', '').lower().replace(' ', '-')}"
        if shown.tune is not None:
            return "tune"
        if shown.tokens.is_open:
            return "tokens"
        if shown.panels.big:
            return "big"
        focused = shown.under if shown.focused is self else shown.focused  # for one key; then that has it again
        if self._chat.walks.shown is not group:  # they are about to be shown, or to go
            return "walks" if group is None else "chat"
        return "walks" if group is not None and focused is self._walks.head else "chat"

    def _screen_facts(self) -> Mapping[str, object]:
        """Collect the facts that only the screen knows; the view only in token mode."""
        tokens, rolls = self._shown.tokens, self._shown.panels.shown.rolls
        cursor = tokens.transcript.cursor if tokens.is_open else None
        facts: dict[str, object] = {
            "look": tokens.transcript.look,
            "page": self._shown.panels.here,
            "mode": self._mode,
            "cursor": Place(*cursor) if cursor is not None else None,
            "rolls": rolls.n if rolls is not None else 0,
        }
        return facts | {"view": tokens.view} if tokens.is_open else facts

    # --- what it shows -------------------------------------------------------------------------------------------------

    @property
    def drawn(self) -> Sequence[Line]:
        return self._lines

    @property
    def lights(self) -> Lights:
        """The keys and pages at which the step points; a page whose panels are hidden is behind their key."""
        if self.playing.finished or self.doing:
            return NO_LIGHTS
        keys: list[str] = []
        pages: list[str] = []
        for point in self.playing.current.points:
            if not point.startswith(_PANEL):
                keys.append(point.partition(".")[0])
            elif self._shown.panels.display:
                pages.append(point.removeprefix(_PANEL))
            else:
                keys.append("panels")
        return Lights(tuple(dict.fromkeys(keys)), tuple(pages))

    def show(self) -> None:
        """Draw the strip, and have the screen follow: it lights keys, and says which answer. Keep how far the lesson is."""
        if self.is_over or not self.begun:
            return
        self._keeping.keep(self.playing)
        self._seen = self._is_direct, self.rows, self._awaits()
        lines = strip_lines(
            self.playing, max(self._shown.size.width - 2, 8), self.rows, note=self._find_note(), typed=self._typed,
            direct=self._is_direct, open=self.open, unfolded=self._is_whole,
        )  # fmt: skip
        self.show_lines(lines)
        self._shown.show_soon()

    @property
    def rows(self) -> int:
        """Rows that the strip may have: its own, and those above it that are empty, but for a few into which the chat grows."""
        shown, transcript = self._shown, self._shown.transcript
        height = shown.size.height
        least = rows_for(height, unfolded=self._is_whole or self.playing.finished)
        if self._walks.display:
            free = self._walks.spare
        elif transcript.display and transcript.size.height:
            free = transcript.size.height - transcript.virtual_size.height
        elif self._welcome.display:
            free = self._welcome.size.height
        else:
            return least
        most = min(height // 2, height - _PANELS) if shown.panels.display else height // 2
        return max(least, min(self.size.height + free - _SPARE, most))

    @property
    def _is_whole(self) -> bool:
        """Whether all of a step's text is shown: as the reader wants it, else for a projector, where panels have room too."""
        if self._keeping.unfolded is not None:
            return self._keeping.unfolded
        height = self._shown.size.height
        hides = rows_for(height, unfolded=True) > height - _PANELS
        return self._keeping.big and not (hides and self._shown.panels.display)

    def _find_note(self) -> str:
        """Find what to say of the state of the step; "" for nothing."""
        playing, question = self.playing, self.playing.asks
        skip = f"go on with {name_of('learn')} {name_of('lesson-skip')}."
        if self.doing:
            return "doing this step for you …"
        if self.note:
            return self.note
        if playing.already:
            return f"This holds already. Try it all the same, or {skip}"
        if question is not None and question.before and playing.held:
            return f"Done. Answer the question, or {skip}"
        return self._awaits()

    def _awaits(self) -> str:
        """Say what is missing from the step after a reply or a command, or what hinders it; "" before that."""
        playing, chat = self.playing, self._chat
        if playing.finished or playing.held or chat.busy:
            return ""
        if self.facts.has_strange:
            return f"A message of your own is in the chat: no reply to it counts here. {name_of('edit')} replaces it."
        step = playing.current
        missing = [check.written for check in step.checks if not check.holds(self.facts)]
        if missing == ["mode == 'chat'"] and len(step.checks) > 1 and playing.asks is None:
            return f"Press {name_of('back')} to return to the chat."
        counts = (self.facts.fact(name) for name in ("new_turns", "new_replies"))
        tried = self._ran or any(isinstance(count, (int, float)) and count > 0 for count in counts)
        if playing.hints or playing.asks is not None or not tried:
            return ""
        waits = plain_text(step.hints[-1]) if step.hints else "; ".join(check.written for check in step.checks)
        first = f"{name_of('back')}, then " if self._walks.display else ""
        return f"Not done yet. The whole step: {first}{waits}" if waits else ""

    # --- the keyboard --------------------------------------------------------------------------------------------------

    def take_keyboard(self) -> None:
        self.open = True
        self._shown.set_focus(self)  # not focus(): the very next key is for it
        self.show()

    def back(self) -> bool:
        """Give the keyboard back; False where the strip did not have it."""
        if not self.open:
            return False
        self.open = False
        self._typed = ""
        if self._shown.focused is self:
            self._shown.take_keyboard()
        self.show()
        return True

    def follow_screen(self) -> None:
        """Draw again where the screen has another size, or another widget the keyboard. Take back what a click did: one
        elsewhere took the keyboard, or one on the strip gave it, which is no way to its keys."""
        has = self._shown.focused is self
        if self.begun and self.open and not has:
            self.back()
        elif has and not self.open:
            self._shown.take_keyboard()
        self.show()

    def on_focus(self) -> None:
        self.follow_screen()

    def on_blur(self) -> None:
        self.follow_screen()

    def on_key(self, event: events.Key) -> None:
        """Take in a key that is none of the table."""
        if not (event.is_printable or event.key in ("enter", "backspace")):
            return
        event.stop()
        event.prevent_default()
        if not self._type(event.key, event.character):
            self.back()
            self._shown.tell(Notice("that is no key of the lesson", f"{name_of('keys')} lists them"))

    def direct(self, key: str, character: str | None) -> bool:
        """A key in the composer while nothing of the reader's own is in it: answers, and asks for a hint; True if it was for
        the lesson."""
        if not self._is_direct:
            return False
        composer = self._shown.composer
        if (self._typed or key not in ("enter", "backspace")) and self._type(key, character):
            return True
        if character == "/" and composer.text and composer.cursor_location == composer.document.end:
            composer.put("")  # a command is no end of the text that the lesson gave; that comes back after it
            self._aside = self._given
        elif character is None or self.playing.finished:
            return False
        elif character in "0123456789":  # what answers nothing is no message either
            self._answer(int(character))
            return True
        elif character == "?" and composer.is_blank:
            self.action_hint()
            return True
        return False

    @property
    def _is_direct(self) -> bool:
        """Whether the composer has the keyboard, and nothing that the reader wrote."""
        composer = self._shown.composer
        is_theirs = composer.aside is not None or composer.text not in ("", self._given)  # as a message that is edited
        return self._shown.focused is composer and not is_theirs

    @property
    def answers(self) -> str:
        """The keys in the composer that answer the question, in words; "" where none do."""
        question = self.playing.asks if self.begun and self._is_direct else None
        if question is None:
            return ""
        return "digits answer the lesson" if question.is_number else f"1-{len(question.answers)} answers the lesson"

    def _run_command(self, commands: Callable[[str], bool], text: str) -> bool:
        """Run what the reader wrote if it is a command, and note that."""
        step = self.playing.step
        known = commands(text)
        if known and not self.is_over and self.playing.step == step:
            self.note_command(text)
        return known

    def note_command(self, command: str) -> None:
        """Note that the reader ran a command; one with which the step only begins says nothing yet."""
        deeds = [deed.what for deed in self.playing.current.deeds if deed.kind != "wait"]
        aside = _ASIDE.match(command) is not None
        self._ran = self._ran or not (aside or command.strip() in deeds[:-1])
        if aside and self._aside == self._given and self._shown.composer.text == "":
            self._shown.composer.put(self._aside)
        self._aside = ""

    # --- what a person does --------------------------------------------------------------------------------------------

    def action_answer(self, number: float) -> None:
        """Answer with a digit; on the strip it is one of a number, if a number is asked for."""
        if not (self.open and self._type("", f"{number:.0f}")):
            self._answer(number)

    def _answer(self, number: float) -> None:
        self._typed = ""
        question, accepted = self.playing.asks, self.playing.answer(number)
        self.back()
        if accepted:
            self.look()
            self.show()
            return
        if question is None:
            refusal = Notice("the lesson asks nothing now", "a message may begin with a space")
        elif question.is_number:
            refusal = Notice("a share is 0 to 100 %" if question.is_share else "there is no such number")
        else:
            refusal = Notice(f"the answers are 1 to {len(question.answers)}", "a message may begin with a space")
        self._shown.tell(refusal)
        self.show()

    def passes(self, step: int) -> bool:
        """Look whether a step is over, for who plays the lesson; answer its question, as far as the right answer is known."""
        self.look()
        if self.playing.step == step and self.playing.asks is not None:
            self._answer(truth_of(self.playing.asks, self.facts) or 1.0)
        return self.playing.finished or self.playing.step != step

    def _type(self, key: str, character: str | None) -> bool:
        """Take in a key of a number, or the end of one; return False where it is none, or no number is asked for."""
        question = self.playing.asks
        is_digit = character is not None and character in _NUMBER
        if question is None or not question.is_number or not (is_digit or key in ("enter", "backspace")):
            return False
        if key == "backspace":
            self._typed = self._typed[:-1]
        elif character is not None and is_digit:
            self._typed = (self._typed + character.replace(",", "."))[:_LONGEST_NUMBER]
        elif self._typed:
            try:
                self._answer(float(self._typed))
            except ValueError:
                self._shown.tell(Notice(f"not a number: {self._typed}"))
                self._typed = ""
        self.show()
        return True

    def action_hint(self) -> None:
        playing = self.playing
        if playing.finished:
            return
        if not playing.current.rungs:
            self._shown.tell(Notice("this step has no hint"))
            return
        playing.hint()
        if playing.does_it:
            self.action_do()
        self.show()

    def action_do(self) -> None:
        """Have the step done."""
        playing, step = self.playing, self.playing.current
        if playing.finished or self.doing:
            return
        if not step.deeds:
            self._shown.tell(Notice("nobody can do this step but you"))
        elif playing.held and step.checks and not playing.already:
            self._shown.tell(Notice("this step is done; only its question waits"))
        else:
            if step.deeds[0].sends and self._given:
                self._shown.composer.put(self._given)  # whatever became of it
            self._doing = self.run_worker(self._do_deeds(), group="lesson", exclusive=True)
            self.show()

    async def _do_deeds(self) -> None:
        playing, step = self.playing, self.playing.step
        try:
            await Autoplay(self._shown).do(playing.current.deeds)
            if playing.step == step:  # a timer may have gone on: what the next one finds was not done for it
                playing.did()
        except DeedFailed as failure:
            self.note = f"This could not be done: {failure}."
        self._doing = None
        self.look()
        self.show()

    def action_skip(self) -> None:
        if not self.playing.finished:
            self.playing.skip(self.facts)
            self._begin_step()

    def action_more(self) -> None:
        self._keeping.unfolded = not self._is_whole
        self.show()


class LessonScreen(ChatScreen):
    """The chat of a lesson, begun or resumed from a state."""

    AUTO_FOCUS = "Composer"

    def __init__(
        self, chat: Chat, palette: Palette, keeping: LessonKeeping, lesson: Lesson, state: LessonState, **options: Any
    ) -> None:
        super().__init__(chat, palette, **options)
        self.strip = LessonStrip(keeping, self, lesson, state)

    def compose_strip(self) -> Iterable[Widget]:
        yield self.strip

    def on_mount(self) -> None:
        self.call_next(self._begin)  # behind the same of `ChatScreen`, which Textual calls by itself

    def _begin(self) -> None:
        self.tick()
        self.strip.begin()

    def paint_with(self, palette: Palette) -> None:
        super().paint_with(palette)
        self.strip.paint_with(palette)

    def heed(self, changes: Sequence[Change]) -> None:
        self.strip.heed(changes)

    @property
    def place(self) -> str:
        place = super().place
        return "LESSON" if self.strip.open and place not in ("TUNE", "TOKEN MODE") else place

    @property
    def lights(self) -> Lights:
        return self.strip.lights

    @property
    def labels(self) -> Sequence[Label]:
        """Keys of the strip, while it has the keyboard."""
        if not self.strip.open:
            return super().labels
        over = self.strip.playing.finished
        back = next(key for key in CHAT if key.id == "back")
        return [
            *(
                Label(name_of(key.id), _LABELS[key.id], keys_of(key)[0])
                for key in LESSON
                if key.id in _LABELS and keys_of(key) and not (over and key.id in _IN_A_STEP)
            ),
            Label(name_of("back"), "back", keys_of(back)[0]),
        ]

    @property
    def answers(self) -> str:
        return self.strip.answers

    def action_back(self) -> None:
        if not self.strip.back():
            super().action_back()

    def on_lines_view_laid(self) -> None:
        self.strip.follow_screen()
