"""One lesson on the screen of its chat: shows what to do, goes on when a step is done, and takes answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from textual.worker import Worker

from termchat.chat.changes import Change, Notice, PathChanged
from termchat.config.origins import LESSON
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.constraint import Constraint
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelInfo
from termchat.lessons import shelf
from termchat.lessons.lesson import Lesson, LessonQuestion
from termchat.lessons.lesson_facts import LessonFacts
from termchat.lessons.playing import Guess, LessonState, Playing, ResumePoint
from termchat.tui.draw.ink import Run
from termchat.tui.draw.marks import STRONG
from termchat.tui.keys.tables import NO_LIGHTS, Lights, name_of
from termchat.tui.lessons.autoplay import Autoplay, DeedFailed
from termchat.tui.lessons.lesson_keeping import LessonKeeping, refusal_of
from termchat.tui.lessons.lesson_words import filled, plain
from termchat.tui.lessons.screen_facts import mode_of, screen_facts
from termchat.tui.lessons.strip import LessonStrip
from termchat.tui.lessons.strip_lines import AskedWords, StripWords, rows_for, strip_lines
from termchat.tui.pages.panel_pages import PAGES
from termchat.tui.pages.panels import ALONE
from termchat.tui.screen.screen import ChatScreen
from termchat.tui.screen.walks_view import WalksView
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS

LOOKS_PER_SECOND = 4
TESTED_WITH = "5b23ed29748cd5131287cba7cba73a5cbeab2db0a38e72b5edd8ba391d1d04e4"
"""The model for which the claims of the course hold: the SmolLM2 that comes as a package."""
_PANEL = "panel:"
_LONGEST_NUMBER = 12
_ASIDE = re.compile(r"/(hint|learn|lesson-\w+|what|help|keys)(\s|$)")
"""Commands that nobody takes for the deed of a step."""
_SPARE = 3
"""Empty rows that the strip leaves above it."""
_PANELS = 18
"""Rows of a screen with panels that are not the strip's, so that the likeliest tokens are in sight below the knobs."""
_NUMBER = frozenset("0123456789.,-")


class _StepBeginning(NamedTuple):
    """The state in which a step began."""

    conversation: Conversation
    newest: int
    leaf: int | None
    tuning: Tuning
    constraint: Constraint | None


class LessonSession:
    """One lesson on the screen of its chat, from the `state` in which it was left. `keeping` keeps how far it is."""

    def __init__(
        self,
        keeping: LessonKeeping,
        parts: ChatScreen,
        lesson: Lesson,
        state: LessonState,
    ) -> None:
        self._keeping, self._parts, self.lesson = keeping, parts, lesson
        self.notices: tuple[Notice, ...] = ()
        """What is told as it begins."""
        self.strip = LessonStrip(id="lesson")
        tree, point = parts.chat.conversation, state.resumes
        self._wanted = state.step
        if point is not None and point.leaf is not None and point.leaf not in tree.nodes:
            point = None  # another chat was begun in the lesson
        if point is not None:
            state = msgspec.structs.replace(state, step=point.step)
        elif not parts.chat.session.id:  # steps build on one another
            state = msgspec.structs.replace(state, step=0)
        self._point = point
        self.playing = Playing(lesson, state)
        self._typed = ""
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
        self.open = self.begun = self.is_over = False
        self.facts = LessonFacts(
            parts.chat, lambda: screen_facts(parts, parts.dialog), lesson.messages, stopped_count=lesson.is_of_endings
        )
        self._began = self._beginning()

    def begin(self) -> None:
        """Show the first step."""
        parts, own, opening = self._parts, self._keeping.own, self.lesson.opening
        parts.transcript.looks, parts.panels.page = own.transcript.looks, own.panels.page
        parts.panels.open_like(own.panels)
        if self._point is not None:
            self._return_to(self._point)
        if self.playing.step < self._wanted:
            why = f"step {self._wanted + 1} begins in the middle of what the steps before it made"
            parts.tell(Notice(f"resumed at step {self.playing.number}", why))
        for notice in self.notices:
            parts.tell(notice)
        parts.tokens.mode.find()
        if opening.look in LOOKS:
            parts.transcript.looks = next(one for one in LOOKS if one == opening.look), TOKEN_LOOKS[0]
        if opening.page in PAGES:
            parts.panels.page = opening.page
        parts.set_interval(1 / LOOKS_PER_SECOND, self.look)
        parts.composer.before_all = self.direct
        parts.composer.commands = self.run_with(parts.composer.commands)
        self._mark()
        self.playing.update(self.facts)
        self._compose()
        self._changed()
        parts.tick()
        parts.take_keyboard()
        self.begun = True

    @property
    def doing(self) -> bool:
        """Whether a step is being done for the reader."""
        return self._doing is not None and not self._doing.is_finished

    # --- in and out ----------------------------------------------------------------------------------------------------

    def _return_to(self, point: ResumePoint) -> None:
        """Show the branch and set the knobs with which a step began; a message that was sent in it can be sent again."""
        parts, chat = self._parts, self._parts.chat
        conversation, leaf = chat.conversation, point.leaf
        if leaf is not None and leaf != conversation.leaf:
            sent = [node.written for node in conversation.list_children(leaf) if self._is_own(node)]
            chat.branches.select_leaf(leaf)
            if sent and not conversation.unsent.draft.strip():
                conversation.unsent.draft = self._given = sent[-1]
                parts.composer.put(sent[-1])
        turned = Tuning().turn_knobs(point.knobs).find_differing(chat.tuning)
        if turned:
            chat.adjust_all(turned, dict.fromkeys(turned, LESSON))

    def _mark(self) -> None:
        """Show the panels that a step speaks of, and note its beginning, if that can be made again."""
        playing, parts = self.playing, self._parts
        speaks = not playing.finished and any(point.startswith(_PANEL) for point in playing.current.points)
        if speaks and parts.size.width >= ALONE:
            parts.panels.need("lesson")
        else:
            parts.panels.release("lesson")
        self._typed = self.note = ""
        self._ran = False
        self._began, chat = self._beginning(), parts.chat
        strange = self.facts.has_strange
        if strange or chat.busy or chat.walks.shown is not None or mode_of(parts, "") in ("tune", "tokens", "walks"):
            playing.points.pop(playing.step, None)
            return
        playing.points[playing.step] = ResumePoint(playing.step, chat.conversation.leaf, chat.tuning.find_differing())

    def end(self) -> None:
        """Stop, and keep how far the lesson is."""
        self.is_over = True
        if self._doing is not None:
            self._doing.cancel()
        self._keeping.keep(self.playing)

    def _leave(self, *notices: Notice) -> None:
        """Have the lesson left; the notices are shown in the reader's chat."""
        if not self.is_over:
            self.is_over = True
            self._parts.post_message(LessonStrip.Left(*notices))

    # --- what happens --------------------------------------------------------------------------------------------------

    def heard(self, changes: Sequence[Change]) -> None:
        """Take in changes before the screen does; there may be none."""
        self.facts.note_list()
        if self._model is not self._parts.chat.model:
            self._model = self._parts.chat.model
            self._parts.call_next(self._judge_model)
        if any(isinstance(change, PathChanged) for change in changes) and not self._parts.chat.session.view.lesson:
            paused = Notice(f"the lesson is paused: {self.lesson.title}", f"{name_of('learn')} resumes it")
            self._leave(*(change for change in changes if isinstance(change, Notice)), paused)

    def _judge_model(self) -> None:
        """Leave where the engine of a new model cannot do what the lesson needs; tell which model the course is tested with."""
        if (refused := refusal_of(self.lesson, self._parts.chat)) is not None:
            why = f"{refused.message}; {refused.hint}"
            self._leave(Notice(f"{self.lesson.title} cannot be played here", why, "warning"))
            return
        model, is_ours = self._model, self.lesson.path.parent == shelf.COURSE
        if model is not None and model.sha256 != TESTED_WITH and is_ours and self._keeping.recording is None:
            why = f"with {model.name} some of what they say may be different"
            self._parts.tell(Notice("the lessons are tested with SmolLM2-135M", why))

    def look(self) -> None:
        """Look at the facts; a few times a second."""
        if self.is_over:
            return
        step, finished = self.playing.step, self.playing.finished
        if self.playing.update(self.facts):
            if (step, finished) != (self.playing.step, self.playing.finished):
                self._mark()
                self._keeping.draw_picture(self.lesson, step + 1)
                self._compose()
            self._changed()
        elif (self._direct, self.rows, self._awaits()) != self._seen_looks:
            self.show()

    def _compose(self) -> None:
        """Put the text of a step into the empty composer; in a lesson that is resumed it may be there."""
        step = self.playing.current
        text = "" if self.playing.finished else step.compose
        if not text and not self.playing.finished and step.deeds[:1] and step.deeds[0].sends:
            text = self._given  # it may have been sent too early
        if text and self._parts.composer.text in ("", text):
            self._given = text
            self._parts.composer.put(text)

    def _changed(self) -> None:
        self._keeping.keep(self.playing)
        self.show()
        self._parts.show_soon()

    # --- what it shows -------------------------------------------------------------------------------------------------

    @property
    def lights(self) -> Lights:
        """The keys and pages at which the step points; a page whose panels are hidden is behind their key."""
        if self.playing.finished or self.doing:
            return NO_LIGHTS
        parts = self._parts
        keys: list[str] = []
        pages: list[str] = []
        for point in self.playing.current.points:
            if not point.startswith(_PANEL):
                keys.append(point.partition(".")[0])
            elif parts.panels.display:
                pages.append(point.removeprefix(_PANEL))
            else:
                keys.append("panels")
        return Lights(tuple(dict.fromkeys(keys)), tuple(pages))

    def show(self) -> None:
        size = self._parts.size
        self._seen_looks = self._direct, self.rows, self._awaits()
        lines = strip_lines(
            self._words(), max(size.width - 2, 8), self.rows,
            direct=self._direct, open=self.open, unfolded=self._whole,
        )  # fmt: skip
        self.strip.show_lines(lines)

    _seen_looks: tuple[bool, int, str] = False, 0, ""

    @property
    def rows(self) -> int:
        """Rows that the strip may have: its own, and those above it that are empty, but for a few into which the chat grows."""
        parts = self._parts
        height, transcript = parts.size.height, parts.transcript
        least = rows_for(height, unfolded=self._whole or self.playing.finished)
        welcome, walks = parts.query_one("#welcome"), parts.query_one(WalksView)
        if walks.display:
            free = walks.spare
        elif transcript.display and transcript.size.height:
            free = transcript.size.height - transcript.virtual_size.height
        elif welcome.display:
            free = welcome.size.height
        else:
            return least
        most = min(height // 2, height - _PANELS) if parts.panels.display else height // 2
        return max(least, min(self.strip.size.height + free - _SPARE, most))

    @property
    def _whole(self) -> bool:
        """Whether all of a step's text is shown: as the reader wants it, else for a projector, where panels have room too."""
        if self._keeping.unfolded is not None:
            return self._keeping.unfolded
        height = self._parts.size.height
        hides = rows_for(height, unfolded=True) > height - _PANELS
        return self._keeping.big and not (hides and self._parts.panels.display)

    def _awaits(self) -> str:
        """What the step waits for, where a reply was made or a command was run and it is not done, and what keeps it from being
        done; "" while it may be."""
        playing, chat = self.playing, self._parts.chat
        if playing.finished or playing.held or chat.busy:
            return ""
        if self.facts.has_strange:
            return f"A message of your own is in the chat: no reply to it counts here. {name_of('edit')} replaces it."
        missing = [check.written for check in playing.current.checks if not check.holds(self.facts)]
        if missing == ["mode == 'chat'"] and len(playing.current.checks) > 1 and playing.asks is None:
            return f"Press {name_of('back')} to return to the chat."
        if playing.hints or playing.asks is not None or not (self._ran or self._made("turns") or self._made("replies")):
            return ""
        step = playing.current
        waits = plain(step.hints[-1]) if step.hints else "; ".join(check.written for check in step.checks)
        first = f"{name_of('back')}, then " if self._parts.query_one(WalksView).display else ""
        return f"Not done yet. The whole step: {first}{waits}" if waits else ""

    def _made(self, what: str) -> bool:
        """Whether there is a new one since the step began."""
        found = self.facts.fact(f"new_{what}")
        return isinstance(found, (int, float)) and found > 0

    def run_with(self, commands: Callable[[str], bool]) -> Callable[[str], bool]:
        """Note each command that the reader runs."""

        def run_command(text: str) -> bool:
            step = self.playing.step
            known = commands(text)
            if known and not self.is_over and self.playing.step == step:
                self.ran(text)
            return known

        return run_command

    def ran(self, command: str) -> None:
        """Note that the reader ran a command; one with which the step only begins says nothing yet."""
        deeds = [deed.what for deed in self.playing.current.deeds if deed.kind != "wait"]
        aside = _ASIDE.match(command) is not None
        self._ran = self._ran or not (aside or command.strip() in deeds[:-1])
        if aside and self._aside == self._given and self._parts.composer.text == "":
            self._parts.composer.put(self._aside)
        self._aside = ""

    def _words(self) -> StripWords:
        playing, lesson = self.playing, self.lesson
        told, good = self._told()
        if playing.finished:
            text = (
                [*filled(lesson.learned), ("  Next: ", STRONG), *filled(lesson.next)]
                if lesson.next
                else filled(lesson.learned)
            )
            return StripWords(lesson.title, len(lesson.steps), len(lesson.steps), text, told, good, over=True)
        step, question = playing.current, playing.asks
        note = self.note
        if self.doing:
            note = "doing this step for you …"
        elif not note and playing.already:
            note = (
                f"This holds already. Try it all the same, or go on with {name_of('learn')} {name_of('lesson-skip')}."
            )
        elif not note and question is not None and question.before and playing.held:
            note = f"Done. Answer the question, or go on with {name_of('learn')} {name_of('lesson-skip')}."
        elif not note:
            note = self._awaits()
        asked = None
        if question is not None:
            asked = AskedWords(plain(question.ask), tuple(map(plain, question.answers)), question.unit, self._typed)
        own = playing.current.question
        guess = said(own, playing.guess) if own is not None and playing.guess is not None else ""
        hint: Iterable[Run] = ()
        if 0 < playing.hints <= len(step.hints):
            hint = filled(step.hints[playing.hints - 1])
        return StripWords(
            lesson.title,
            playing.number,
            len(lesson.steps),
            filled(step.text),
            told,
            good,
            asked,
            guess,
            list(hint),
            note,
        )

    def _told(self) -> tuple[str, bool | None]:
        """Compare the guess of the step before with the truth."""
        result, question = self.playing.result, self.playing.result_question
        if result is None or question is None or self.playing.guess is not None or self.playing.hints:
            return "", None
        return compared(result, question)

    # --- what a person does --------------------------------------------------------------------------------------------

    def take_keyboard(self) -> None:
        self.open = True
        self._parts.set_focus(self.strip)  # not focus(): the very next key is for it
        self.show()
        self._parts.show_soon()

    def back(self) -> bool:
        """Give the keyboard back; False where the strip did not have it."""
        if not self.open:
            return False
        self.open = False
        self._typed = ""
        if self._parts.focused is self.strip:
            self._parts.take_keyboard()
        self.show()
        self._parts.show_soon()
        return True

    def laid(self) -> None:
        """Draw again where the screen has another size, or another widget the keyboard. Take back what a click did: one
        elsewhere took the keyboard, or one on the strip gave it, which is no way to its keys."""
        has = self._parts.focused is self.strip
        if self.open and not has:
            self.back()
        elif has and not self.open:
            self._parts.take_keyboard()
        self.show()

    def act(self, what: str, *arguments: Any) -> None:
        _ACTS[what](self, *arguments)

    def direct(self, key: str, character: str | None) -> bool:
        """A key in the composer while nothing of the reader's own is in it: answers, and asks for a hint; True if it was for
        the lesson."""
        if not self._direct:
            return False
        question, composer = self.playing.asks, self._parts.composer
        if question is not None and question.is_number:
            is_digit = character is not None and character in _NUMBER
            if is_digit or (self._typed and key in ("enter", "backspace")):
                self._type(key, character)
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
            self._hint()
            return True
        return False

    @property
    def answers(self) -> str:
        """The keys in the composer that answer the question, in words; "" where none do."""
        question = self.playing.asks if self._direct else None
        if question is None:
            return ""
        return "digits answer the lesson" if question.is_number else f"1-{len(question.answers)} answers the lesson"

    @property
    def _direct(self) -> bool:
        """Whether the composer has the keyboard, and nothing that the reader wrote."""
        composer = self._parts.composer
        is_theirs = composer.aside is not None or composer.text not in ("", self._given)  # as a message that is edited
        return self._parts.focused is composer and not is_theirs

    def answer(self, number: float) -> None:
        """Answer with a digit; on the strip it is one of a number, if a number is asked for."""
        if self.playing.asks is not None and self.playing.asks.is_number and self.open:
            self._type("", f"{number:.0f}")
        else:
            self._answer(number)

    def _answer(self, number: float) -> None:
        self._typed = ""
        accepted = self.playing.answer(number)
        self.back()
        if accepted:
            self.look()
            self._changed()
        else:
            self._parts.tell(_refusal(self.playing.asks))
            self.show()

    def _type(self, key: str, character: str | None) -> None:
        """Take in a key of a number, or the end of one."""
        if key == "backspace":
            self._typed = self._typed[:-1]
        elif key != "enter" and character is not None:
            self._typed = (self._typed + character.replace(",", "."))[:_LONGEST_NUMBER]
        elif key == "enter":
            try:
                number = float(self._typed)
            except ValueError:
                if self._typed:
                    self._parts.tell(Notice(f"not a number: {self._typed}"))
                self._typed = ""
            else:
                self._answer(number)
                return
        self.show()

    def _take_key(self, key: str, character: str | None) -> None:
        """Take in a key on the strip that is none of its table."""
        question, is_digit = self.playing.asks, character is not None and character in _NUMBER
        if question is not None and question.is_number and (is_digit or key in ("enter", "backspace")):
            self._type(key, character)
            return
        self.back()
        self._parts.tell(Notice("that is no key of the lesson", f"{name_of('keys')} lists them"))

    def _hint(self) -> None:
        playing = self.playing
        self.back()
        if playing.finished:
            return
        if not playing.current.rungs:
            self._parts.tell(Notice("this step has no hint"))
            return
        playing.hint()
        if playing.does_it:
            self._do()
        self.show()
        self._parts.show_soon()

    def _do(self) -> None:
        """Have the step done."""
        self.back()
        if self.playing.finished or self.doing:
            return
        if not self.playing.current.deeds:
            self._parts.tell(Notice("nobody can do this step but you"))
            return
        step = self.playing.current
        if self.playing.held and step.checks and not self.playing.already:
            self._parts.tell(Notice("this step is done; only its question waits"))
            return
        if self._keeping.recording is not None:
            self._take_back_step()
        if step.deeds[0].sends and self._given:
            self._parts.composer.put(self._given)  # whatever became of it
        self._doing = self._parts.run_worker(self._do_deeds(), group="lesson", exclusive=True)
        self.show()
        self._parts.show_soon()

    async def _do_deeds(self) -> None:
        playing, step = self.playing, self.playing.step
        try:
            await Autoplay(self._parts).do(playing.current.deeds)
            if playing.step == step:  # a timer may have gone on: what the next one finds was not done for it
                playing.did()
            else:
                self._began = self._beginning()  # what it did behind its step was recorded, too
        except DeedFailed as failure:
            self.note = f"This could not be done: {failure}."
        self._doing = None
        if not self.is_over:
            self.look()
            self.show()
            self._parts.show_soon()

    def _skip(self) -> None:
        self.back()
        if not self.playing.finished:
            self.playing.skip(self.facts)
            self._mark()
            self._compose()
            self._changed()

    def _more(self) -> None:
        self.back()
        self._keeping.unfolded = not self._whole
        self.show()

    def _beginning(self) -> _StepBeginning:
        chat = self._parts.chat
        conversation = chat.conversation
        newest = max(conversation.nodes, default=0)
        return _StepBeginning(conversation, newest, conversation.leaf, chat.tuning, chat.constraint)

    def _take_back_step(self) -> None:
        """Go back to where the step began: from there on it was recorded. Of a reply that is not over, only the knobs."""
        chat, began = self._parts.chat, self._began
        if began.conversation is not chat.conversation:
            return
        if not chat.busy:
            for number in [number for number in chat.conversation.nodes if number > began.newest]:
                chat.branches.delete_branch(number)  # what is hidden already stays so
            if chat.constraint != began.constraint:
                chat.set_constraint(began.constraint)
            if began.leaf is not None and began.leaf != chat.conversation.leaf:
                leaf = began.leaf
                chat.branches.select_leaf(leaf)
        if turned := began.tuning.find_differing(chat.tuning):
            chat.adjust_all(turned, dict.fromkeys(turned, LESSON))

    def _is_own(self, node: Node) -> bool:
        """Whether it is a message that the lesson has the reader send."""
        return node.role == "user" and not self.facts.is_strange(node)


_ACTS: dict[str, Callable[..., None]] = {
    "answer": LessonSession.answer,
    "hint": LessonSession._hint,
    "do": LessonSession._do,
    "more": LessonSession._more,
    "skip": LessonSession._skip,
    "typed": LessonSession._take_key,
}


def said(question: LessonQuestion, guess: float) -> str:
    """Write an answer in words."""
    if question.is_number:
        return question.measured(f"{guess:.6g}")
    number = int(guess)
    return plain(question.answers[number - 1]) if 1 <= number <= len(question.answers) else str(number)


def _refusal(question: LessonQuestion | None) -> Notice:
    """Tell which answers the question takes."""
    if question is None:
        return Notice("the lesson asks nothing now", "a message may begin with a space")
    if question.is_number:
        return Notice("a share is 0 to 100 %" if question.is_share else "there is no such number")
    return Notice(f"the answers are 1 to {len(question.answers)}", "a message may begin with a space")


def shown_truth(question: LessonQuestion, truth: float) -> str:
    """Write the right answer, a number with three digits."""
    if not question.is_number:
        return said(question, truth)
    return question.measured(f"{truth:.3g}" if abs(truth) < 1000 else f"{truth:,.0f}")


def compared(result: Guess, question: LessonQuestion) -> tuple[str, bool | None]:
    """Write guess and truth side by side; return that, and whether the guess was right."""
    guess, right = said(question, result.guess), result.is_right(question)
    if result.truth is None:
        return f"You said {guess}; this could not be measured here.", None
    truth = shown_truth(question, result.truth)
    if question.is_number:
        return f"You said {guess}, it is {truth}.", right
    if right:
        return f"You said: {guess}. Right.", True
    return f"You said: {guess}. The answer: {truth}.", False
