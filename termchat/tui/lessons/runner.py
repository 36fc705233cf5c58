"""One lesson on the screen: it begins in a chat of its own, goes on when a step is done, and gives the reader's chat back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from textual.timer import Timer
from textual.worker import Worker

from termchat.chat.changes import Change, Notice, PathChanged
from termchat.config.origins import LESSON
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.tree import Node
from termchat.decoding.constraint import Constraint
from termchat.decoding.samplers import Tuning
from termchat.engine.port import ModelInfo
from termchat.lessons import shelf
from termchat.lessons.lesson import Lesson, LessonQuestion
from termchat.lessons.lesson_claims import ClaimMeasuring, ClaimResults
from termchat.lessons.lesson_facts import LessonFacts
from termchat.lessons.playing import Guess, LessonState, Playing, ResumePoint
from termchat.tui.draw.ink import Run
from termchat.tui.draw.marks import STRONG
from termchat.tui.keys.tables import NO_LIGHTS, Lights, name_of
from termchat.tui.lessons.hands import DeedFailed, Hands
from termchat.tui.lessons.lesson_list import refusal_of
from termchat.tui.lessons.lesson_words import filled, plain
from termchat.tui.lessons.screen_facts import mode_of, screen_facts
from termchat.tui.lessons.strip import LessonStrip
from termchat.tui.lessons.strip_lines import AskedWords, StripWords, rows_for, strip_lines
from termchat.tui.panels.pages import PAGES
from termchat.tui.screen.drawer import ALONE
from termchat.tui.screen.parts import Parts
from termchat.tui.transcript.looks import LOOKS, TOKEN_LOOKS, Look, TokenLook
from termchat.tui.walks.walks_view import WalksView

LOOKS_PER_SECOND = 4
TESTED_WITH = "5b23ed29748cd5131287cba7cba73a5cbeab2db0a38e72b5edd8ba391d1d04e4"
"""The model on which what the course relies on is known to hold: the SmolLM2 that comes as a package."""
_PANEL = "panel:"
_LONGEST_NUMBER = 12
_ASIDE = re.compile(r"/(hint|learn|lesson-\w+|what|help|keys)(\s|$)")
"""Commands that nobody takes for the deed of a step."""
_SPARE = 3
"""Empty rows that the strip leaves above it."""
_PANELS = 18
"""Rows of a screen with panels that are not the strip's, so that the likeliest tokens are in sight below the knobs."""
_NUMBER = frozenset("0123456789.,-")


class _Before(NamedTuple):
    """How the screen was looked at before the lesson."""

    looks: tuple[Look, TokenLook]
    page: str
    drawer: bool


class Runner:
    """One lesson after the other may be begun; the reader's chat comes back when the last of them is left.

    Args:
        show: has the screen show its state soon.
        keep: keeps how far a lesson is.
        picture: takes a picture of the screen at the end of a step, by its number.
        results: what was measured of claims.
        strip: its widget, mounted.
        recorded: whether a recording answers in place of a model.
        big: it shows all of a step's text.
    """

    def __init__(
        self,
        parts: Parts,
        strip: LessonStrip,
        *,
        show: Callable[[], object],
        keep: Callable[[Playing], object],
        picture: Callable[[Lesson, int], object],
        results: ClaimResults,
        leave: Callable[[], object],
        go: Callable[[Lesson, int], object],
        dialog: Callable[[], str],
        recorded: Callable[[], bool],
        big: bool = False,
    ) -> None:
        self._parts, self.strip = parts, strip
        self._show_soon, self._keep, self._leave, self._go, self._dialog = show, keep, leave, go, dialog
        self._picture, self._results, self._recorded = picture, results, recorded
        self._playing: Playing | None = None
        self._facts: LessonFacts | None = None
        self._before: _Before | None = None
        self._typed = ""
        self._big = big
        self._unfolded: bool | None = None
        """Whether the reader wants all of a step's text; None where nothing was said."""
        self._note = ""
        self._given = ""
        """What the lesson has put into the composer."""
        self._aside = ""
        """The same, while a command is written in its place."""
        self._ran = False
        """Whether a command was done in this step."""
        self._doing: Worker[None] | None = None
        self._steps: list[_Deed] = []
        self._began = Tuning(), 0
        """The knobs with which the step began, and how many of `_steps` were done before it."""
        self._seen: tuple[object, ...] = ()
        self._timer: Timer | None = None
        self._measuring: ClaimMeasuring | None = None
        self._different: dict[int, str] = {}
        """What is different with this model, by the number of the step in which that is said."""
        self._model: ModelInfo | None = None
        self.open = False

    @property
    def playing(self) -> Playing:
        assert self._playing is not None
        return self._playing

    @property
    def lesson(self) -> Lesson:
        return self.playing.lesson

    @property
    def facts(self) -> LessonFacts:
        assert self._facts is not None
        return self._facts

    @property
    def note(self) -> str:
        """What went wrong in this step, "" for nothing."""
        return self._note

    @property
    def doing(self) -> bool:
        """Whether a step is being done for the reader."""
        return self._doing is not None and not self._doing.is_finished

    # --- in and out ----------------------------------------------------------------------------------------------------

    def begin(self, lesson: Lesson, state: LessonState, left: Session | None = None) -> None:
        """`left` is the chat in which it was left, to go on in."""
        parts, opening, chat = self._parts, lesson.opening, self._parts.chat
        self._stop_doing()
        if self._before is None:
            panels = parts.panels
            self._before = _Before(parts.transcript.looks, panels.page, parts.drawer.shown)
        if parts.tokens.mode.open:
            parts.tokens.leave()
        if parts.desk.tune is not None:
            parts.desk.close_tune()
        if parts.panels.big:  # the chat is to be seen
            parts.screen.call_next(parts.screen.app.run_action, "big", parts.screen)
        wanted, point = state.step, state.resumes
        if left is not None and point is not None and point.leaf not in left.conversation.nodes:
            point = None  # another chat was begun in the lesson
        if point is not None and (left is not None or point.leaf is None):
            state = state._replace(step=point.step)
        elif left is None:  # steps build on one another
            state, point = state._replace(step=0), None
        self._playing = Playing(lesson, state)
        self._given = opening.text
        if left is not None:
            parts.do(lambda: chat.begin_lesson(lesson.id, opening.knobs, opening.system, raw=opening.raw, left=left))
            if parts.composer.text in {step.compose for step in lesson.steps}:  # each step puts its own there
                chat.conversation.unsent.draft = ""
                parts.composer.clear()
        else:
            parts.do(
                lambda: chat.begin_lesson(
                    lesson.id, opening.knobs, opening.system, raw=opening.raw, text=opening.text, title=lesson.title
                )
            )
            points = [Breakpoint(rule) for rule in opening.rules]
            parts.do(lambda: chat.set_breakpoints(points))
            parts.do(lambda: chat.set_constraint(opening.constraint))
        self._facts = LessonFacts(
            chat, lambda: screen_facts(parts, self._dialog()), lesson.messages, stopped_count=lesson.is_of_endings
        )
        if point is not None:
            self._return_to(point)
        if state.step < wanted:
            self._tell_earlier(state.step, wanted)
        parts.tokens.mode.find()
        self._look_as(opening.look, opening.page)
        self._typed, self._note, self._steps, self._seen = "", "", [], ()
        self._ran = False
        if self._timer is None:
            self._timer = parts.screen.set_interval(1 / LOOKS_PER_SECOND, self.look)
        self._measuring, self._different = self._claims(lesson), {}
        self._watch()
        self._mark()
        self._playing.update(self._facts)
        self._compose()
        self._changed()
        parts.desk.take_keyboard()

    def _return_to(self, point: ResumePoint) -> None:
        """Shows the branch and sets the knobs with which a step began; a message that was sent in it can be sent again."""
        parts, chat = self._parts, self._parts.chat
        conversation, leaf = chat.conversation, point.leaf
        if leaf is not None and leaf != conversation.leaf:
            sent = [node.written for node in conversation.list_children(leaf) if self._is_own(node)]
            parts.do(lambda: chat.branches.select_leaf(leaf))
            if sent and not conversation.unsent.draft.strip():
                conversation.unsent.draft = self._given = sent[-1]
                parts.composer.put(sent[-1])
        turned = Tuning().turn_knobs(point.knobs).find_differing(chat.tuning)
        if turned:
            parts.do(lambda: chat.adjust_all(turned, dict.fromkeys(turned, LESSON)))

    def _tell_earlier(self, step: int, wanted: int) -> None:
        why = f"step {wanted + 1} begins in the middle of what the steps before it made"
        self._parts.tell(Notice(f"resumed at step {step + 1}", why))

    def _mark(self) -> None:
        """Shows the panels that a step speaks of, and notes with what it begins, if that can be made again."""
        playing, parts = self.playing, self._parts
        speaks = not playing.finished and any(point.startswith(_PANEL) for point in playing.current.points)
        if speaks and parts.screen.size.width >= ALONE:
            parts.drawer.need("lesson")
        else:
            parts.drawer.release("lesson")
        chat = parts.chat
        self._began = chat.tuning, len(self._steps)
        strange = self.facts.has_strange
        if strange or chat.busy or chat.walks.shown is not None or mode_of(parts, "") in ("tune", "tokens", "walks"):
            playing.points.pop(playing.step, None)
            return
        playing.points[playing.step] = ResumePoint(playing.step, chat.conversation.leaf, chat.tuning.find_differing())

    def _claims(self, lesson: Lesson) -> ClaimMeasuring | None:
        """What measures what the lesson relies on."""
        return ClaimMeasuring(self._parts.chat, lesson.claims, self._results) if lesson.claims else None

    @property
    def _measures(self) -> bool:
        """Whether something is still to be measured."""
        return self._measuring is not None and self._parts.chat.model is not None and not self._tested

    @property
    def _tested(self) -> bool:
        """Whether all is known to hold: a lesson of the course, on the model that it is tested with."""
        model = self._parts.chat.model
        return model is not None and model.sha256 == TESTED_WITH and self.lesson.path.parent == shelf.COURSE

    def _measure(self) -> None:
        """Goes on measuring; what does not hold on this model is told."""
        measuring, model = self._measuring, self._parts.chat.model
        if measuring is None or model is None:
            return
        if self._tested:
            self._measuring = None
            return
        measuring.pump()
        if not measuring.done:
            return
        self._measuring = None
        told = ""
        for claim in measuring.otherwise:
            said = plain(claim.otherwise)
            if claim.step:
                self._different[claim.step] = f"{self._different.get(claim.step, '')} {said}".strip()
            if claim.step < self.playing.number:
                told = f"{told} {said}".strip()
        if measuring.otherwise:
            why = told or "the steps say where"
            self._parts.tell(Notice(f"with {model.name} some of this lesson is different", why, "warning"))
        self.show()

    def _look_as(self, look: str, page: str) -> None:
        parts = self._parts
        if look in LOOKS:
            parts.transcript.looks = next(one for one in LOOKS if one == look), TOKEN_LOOKS[0]
        if page in PAGES:
            parts.panels.page = page

    def pause(self) -> None:
        """Another lesson is to begin."""
        self._stop_doing()
        self._keep(self.playing)

    def end(self, *, back: bool = True) -> None:
        """Gives the reader's chat back, and how it was looked at; `back` False where another chat was opened meanwhile."""
        parts = self._parts
        self._stop_doing()
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        self.open = False
        if self._playing is not None:
            self._keep(self.playing)
        if parts.tokens.mode.open:
            parts.tokens.leave()
        if parts.desk.tune is not None:
            parts.desk.close_tune()
        parts.do(lambda: parts.chat.end_lesson(back=back))
        parts.drawer.release("lesson")
        if self._before is not None:
            parts.transcript.looks, parts.panels.page = self._before.looks, self._before.page
            if parts.drawer.shown != self._before.drawer:
                parts.drawer.toggle()
        if back:
            parts.tokens.mode.find()
        self._before = self._playing = self._facts = None
        self.strip.show_lines([])
        parts.desk.take_keyboard()
        self._show_soon()

    # --- what happens --------------------------------------------------------------------------------------------------

    def heard(self, changes: Sequence[Change]) -> None:
        """Before the screen takes them in; there may be none."""
        if self._playing is None:
            return
        if self._facts is not None:
            self._facts.note_list()
        if self._model is not self._parts.chat.model:
            self._model = self._parts.chat.model
            self._parts.screen.call_next(self._left_by_engine)
        self._measure()
        if any(isinstance(change, PathChanged) for change in changes) and self._parts.chat.shows_other:
            self._parts.screen.call_next(self._left_for_another)

    def _left_by_engine(self) -> None:
        """A model that came only now, or another one, may be on an engine that cannot do what the lesson needs."""
        if self._playing is not None and (refused := refusal_of(self.lesson, self._parts.chat)) is not None:
            why = f"{refused.message}; {refused.hint}"
            self._parts.tell(Notice(f"{self.lesson.title} cannot be played here", why, "warning"))
            self._leave()

    def _left_for_another(self) -> None:
        if self._playing is not None and self._parts.chat.shows_other:
            self._parts.tell(Notice(f"the lesson is paused: {self.lesson.title}", f"{name_of('learn')} resumes it"))
            self._leave()

    def look(self) -> None:
        """Looks at the facts; a few times a second."""
        if self._playing is None or self._facts is None:
            return
        self._measure()
        self._watch()
        step, finished = self.playing.step, self.playing.finished
        if self.playing.update(self._facts):
            if (step, finished) != (self.playing.step, self.playing.finished):
                self._mark()
                self._typed = self._note = ""
                self._ran = False
                self._picture(self.lesson, step + 1)
                self._compose()
            self._changed()
        elif (self._direct, self.rows, self._awaits()) != self._seen_looks:
            self.show()

    def _compose(self) -> None:
        """Puts the text of a step into the empty composer; in a lesson that is resumed it may be there."""
        step = self.playing.current
        text = "" if self.playing.finished else step.compose
        if not text and not self.playing.finished and step.deeds[:1] and step.deeds[0].kind == "send":
            text = self._given  # it may have been sent too early
        if text and self._parts.composer.text in ("", text):
            self._given = text
            self._parts.composer.put(text)

    def _changed(self) -> None:
        self._keep(self.playing)
        self.show()
        self._show_soon()

    # --- what it shows -------------------------------------------------------------------------------------------------

    @property
    def lights(self) -> Lights:
        """What the step points at; a page whose panels are hidden is behind their key."""
        if self._playing is None or self.playing.finished or self.doing:
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
        if self._playing is None:
            return
        size = self._parts.screen.size
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
        height, transcript = parts.screen.size.height, parts.transcript
        least = rows_for(height, unfolded=self._whole or self.playing.finished)
        welcome, walks = parts.screen.query_one("#welcome"), parts.screen.query_one(WalksView)
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
        if self._unfolded is not None:
            return self._unfolded
        height = self._parts.screen.size.height
        hides = rows_for(height, unfolded=True) > height - _PANELS
        return self._big and not (hides and self._parts.panels.display)

    def _awaits(self) -> str:
        """What the step waits for, where a reply was made or a command was run and it is not done, and what keeps it from being
        done; "" while it may be."""
        playing, chat = self.playing, self._parts.chat
        if playing.finished or playing.held or chat.busy:
            return ""
        if self.facts.has_strange:
            undo = f"{name_of('learn')} {name_of('lesson-undo')}"
            return f"A message of your own is in the chat: no reply to it counts here. {undo} takes it back."
        missing = [check.written for check in playing.current.checks if not check.holds(self.facts)]
        if missing == ["mode == 'chat'"] and len(playing.current.checks) > 1 and playing.asks is None:
            return f"Press {name_of('back')} to return to the chat."
        if playing.hints or playing.asks is not None or not (self._ran or self._made("turns") or self._made("replies")):
            return ""
        step = playing.current
        waits = plain(step.hints[-1]) if step.hints else "; ".join(check.written for check in step.checks)
        first = f"{name_of('back')}, then " if self._parts.screen.query_one(WalksView).display else ""
        return f"Not done yet. The whole step: {first}{waits}" if waits else ""

    def _made(self, what: str) -> bool:
        """Whether there is a new one since the step began."""
        found = self.facts.fact(f"new_{what}")
        return isinstance(found, (int, float)) and found > 0

    def ran(self, command: str) -> None:
        """A command of the reader's was done; one with which the step only begins says nothing yet."""
        deeds = [deed.written for deed in self.playing.current.deeds if deed.kind != "wait"]
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
        note = self._note
        if self.doing:
            note = "doing this step for you …"
        elif not note and self._measures and self._parts.chat.model is not None:
            note = f"Trying this lesson's examples on {self._parts.chat.model.name} …"
        elif not note and playing.already:
            note = (
                f"This holds already. Try it all the same, or go on with {name_of('learn')} {name_of('lesson-skip')}."
            )
        elif not note and question is not None and question.before and playing.held:
            note = f"Done. Answer the question, or go on with {name_of('learn')} {name_of('lesson-skip')}."
        elif not note:
            note = f"{self._different.get(playing.number, '')} {self._awaits()}".strip()
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
        """How the guess of the step before compares with the truth."""
        result, question = self.playing.result, self.playing.result_question
        if result is None or question is None or self.playing.guess is not None or self.playing.hints:
            return "", None
        return compared(result, question)

    # --- what a person does --------------------------------------------------------------------------------------------

    def take_keyboard(self) -> None:
        self.open = True
        self._parts.screen.set_focus(self.strip)  # not focus(): the very next key is for it
        self.show()
        self._show_soon()

    def back(self) -> bool:
        """Gives the keyboard back; False where the strip did not have it."""
        if not self.open:
            return False
        self.open = False
        self._typed = ""
        if self._parts.screen.focused is self.strip:
            self._parts.desk.take_keyboard()
        self.show()
        self._show_soon()
        return True

    def lost_keyboard(self) -> None:
        """A click elsewhere took it, or one on the strip gave it: that alone is no way to its keys."""
        has = self._parts.screen.focused is self.strip
        if self.open and not has:
            self.back()
        elif has and not self.open:
            self._parts.desk.take_keyboard()

    def act(self, what: str, *arguments: Any) -> None:
        if self._playing is not None:
            _ACTS[what](self, *arguments)

    def direct(self, key: str, character: str | None) -> bool:
        """A key in the composer while nothing of the reader's own is in it: answers, and asks for a hint; True if it was for
        the lesson."""
        if self._playing is None or not self._direct or character is None:
            return self._direct_number(key)
        question, composer = self.playing.asks, self._parts.composer
        if character == "/" and composer.text and composer.cursor_location == composer.document.end:
            composer.put("")  # a command is no end of the text that the lesson gave; that comes back after it
            self._aside = self._given
            return False
        if question is not None and question.is_number and character != "?":
            return self._direct_number(key, character)
        if character in "0123456789" and not self.playing.finished:  # what answers nothing is no message either
            self.answer(int(character))
            return True
        if character == "?" and self._parts.composer.is_blank and not self.playing.finished:
            self._hint()
            return True
        return False

    def _direct_number(self, key: str, character: str | None = None) -> bool:
        if self._playing is None or not self._direct:
            return False
        question = self.playing.asks
        if question is None or not question.is_number:
            return False
        if (character is not None and character in _NUMBER) or (self._typed and key in ("enter", "backspace")):
            self._type(key, character)
            return True
        return False

    @property
    def answers(self) -> str:
        """The keys in the composer that answer the question, in words; "" where none do."""
        question = self.playing.asks if self._playing is not None and self._direct else None
        if question is None:
            return ""
        return "digits answer the lesson" if question.is_number else f"1-{len(question.answers)} answers the lesson"

    @property
    def _direct(self) -> bool:
        """Whether the composer has the keyboard, and nothing that the reader wrote."""
        composer = self._parts.composer
        has = self._parts.screen.focused is composer
        return (
            has and composer.aside is None and composer.text in ("", self._given)
        )  # a message that is edited is theirs

    def answer(self, number: float) -> None:
        playing = self.playing
        if playing.asks is not None and playing.asks.is_number and self.open:
            self._type("", f"{number:.0f}")
            return
        if not playing.answer(number):
            self.back()
            self._parts.tell(_refusal(playing.asks))
            self._typed = ""
            self.show()
            return
        self._typed = ""
        self.back()
        self.look()
        self._changed()

    def _type(self, key: str, character: str | None) -> None:
        """A key of a number, or the end of one."""
        if key == "enter":
            self._accept()
            return
        if key == "backspace":
            self._typed = self._typed[:-1]
        elif character is not None:
            self._typed = (self._typed + character.replace(",", "."))[:_LONGEST_NUMBER]
        self.show()

    def _accept(self) -> None:
        try:
            number = float(self._typed)
        except ValueError:
            if self._typed:
                self._parts.tell(Notice(f"not a number: {self._typed}"))
            self._typed = ""
            self.show()
            return
        was, self.open = self.open, False
        self.answer(number)
        self.open = was
        self.back()

    def _take_key(self, key: str, character: str | None) -> None:
        """On the strip, a key that is none of the table."""
        question = self.playing.asks
        ends, digit = key in ("enter", "backspace"), character is not None and character in _NUMBER
        if question is not None and question.is_number and (ends or digit):
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
        playing.hint(self._facts)
        if playing.does_it:
            self._do()
        self.show()
        self._show_soon()

    def _do(self) -> None:
        """Has the step done."""
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
        if self._recorded():
            self._take_back_step()
        if step.deeds[0].kind == "send" and self._given:
            self._parts.composer.put(self._given)  # whatever became of it
        self._doing = self._parts.screen.run_worker(self._do_deeds(), group="lesson", exclusive=True)
        self.show()
        self._show_soon()

    async def _do_deeds(self) -> None:
        playing, step = self.playing, self.playing.step
        try:
            await Hands(self._parts, self.answer).do(playing.current.deeds)
            if playing.step == step:  # a timer may have gone on: what the next one finds was not done for it
                playing.did()
            else:
                self._watch()
                self._began = self._parts.chat.tuning, len(self._steps)  # what it did behind its step was recorded, too
        except DeedFailed as failure:
            self._note = f"This could not be done: {failure}."
        self._doing = None
        if self._playing is playing:
            self.look()
            self.show()
            self._show_soon()

    def _stop_doing(self) -> None:
        if self._measuring is not None:
            self._measuring.cancel()
            self._measuring = None
        if self._doing is not None:
            self._doing.cancel()
            self._doing = None

    def _skip(self) -> None:
        self.back()
        if self._facts is not None and not self.playing.finished:
            self._typed = self._note = ""
            self._ran = False
            self.playing.skip(self._facts)
            self._mark()
            self._compose()
            self._changed()

    def _more(self) -> None:
        self.back()
        self._unfolded = not self._whole
        self.show()

    def _next(self, by: int) -> None:
        self.back()
        self._go(self.lesson, by)

    def _end(self) -> None:
        self.back()
        self._leave()

    # --- undo ----------------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Notes what was done, so that it can be undone: a knob that was turned, or a turn that was added."""
        chat = self._parts.chat
        newest = max(chat.conversation.nodes, default=0)
        now = (id(chat.conversation), chat.tuning, newest, chat.conversation.leaf, chat.constraint)
        if not self._seen:
            self._seen = now
            return
        if now == self._seen:
            return
        before, self._seen, at = self._seen, now, self.playing.step
        if before[0] != now[0]:
            self._steps.clear()
        elif before[2] != now[2]:
            self._steps.append(_Deed("node", at, int(str(before[2])) + 1))
        elif before[1] != now[1]:
            self._steps.append(_Deed("knob", at))
        elif before[4] != now[4]:
            self._steps.append(_Deed("constraint", at, before=before[4]))
        elif before[3] != now[3] and chat.walks.shown is None:  # there the cursor moves it
            self._steps.append(_Deed("leaf", at, before=before[3]))

    def _undo(self) -> None:
        """Takes the last thing back, as the reader could."""
        self.back()
        self._watch()
        parts, chat = self._parts, self._parts.chat
        if chat.busy:
            parts.do(chat.stop)
            parts.tell(Notice("stopped the reply", "undo again to take it back"))
            return
        if not self._steps:
            parts.tell(Notice("nothing to undo in this lesson"))
            return
        deed = self._steps.pop()
        again = self.playing.finished or self.playing.step > deed.step
        if again and parts.composer.text == self._given:  # it is of the step that is left
            parts.composer.clear()
        said = self._undone(deed)
        self._seen = ()
        self._watch()
        parts.tell(Notice(f"undone: {said}"))
        if self._facts is not None and again:
            self.playing.go_to(deed.step, self._facts)  # what it was done for is to do again
            self._mark()
        self._compose()
        self._changed()

    def _undone(self, deed: _Deed) -> str:
        """Takes it back; returns what is said of it."""
        parts, chat = self._parts, self._parts.chat
        if deed.kind == "knob":
            parts.do(parts.desk.knobs.undo)
            said, parts.desk.knobs.error = parts.desk.knobs.error or "the knob is back", ""
            return said
        if deed.kind == "constraint":
            constraint = deed.before if isinstance(deed.before, Constraint) else None
            parts.do(lambda: chat.set_constraint(constraint))
            return "the constraint is as before"
        if deed.kind == "leaf":
            leaf = deed.before
            if isinstance(leaf, int):
                parts.do(lambda: chat.branches.select_leaf(leaf))
            return "back on the branch before"
        return self._take_back(deed.node)

    def _take_back_step(self) -> None:
        """Back to where the step began: from there on it was recorded. Of a reply that is not over, only the knobs."""
        parts, chat = self._parts, self._parts.chat
        self._watch()
        tuning, before = self._began
        mine = self._steps[before:]
        rest = [deed for deed in mine if chat.busy and deed.kind != "knob"]
        for deed in reversed(mine):
            if deed.kind != "knob" and deed not in rest:
                self._undone(deed)
        self._steps[before:] = rest
        if turned := tuning.find_differing(chat.tuning):
            parts.do(lambda: chat.adjust_all(turned, dict.fromkeys(turned, LESSON)))
        self._seen = ()
        self._watch()

    def _is_own(self, node: Node) -> bool:
        """Whether it is a message that the lesson has the reader send."""
        return node.role == "user" and not self.facts.is_strange(node)

    def _take_back(self, number: int) -> str:
        """The first node that was added, and all that came with it: walks are many. What the lesson had written comes back into
        the empty composer."""
        parts, chat = self._parts, self._parts.chat
        node = chat.conversation.nodes.get(number)
        if node is None:
            return "it is gone already"
        others = chat.conversation.list_children(node.parent)
        was_edited = any(one.number < number and one.role == "user" for one in others)  # and what it was before is back
        text = node.written if self._is_own(node) and not was_edited else ""
        for one in [one for one in chat.conversation.nodes if one >= number]:
            parts.do(partial(chat.branches.delete_branch, one))  # what is hidden already stays so
        if text and parts.composer.is_blank:
            self._given = text
            parts.composer.put(text)
        return "the message is taken back" if node.role == "user" else "the reply is taken back"


class _Deed(NamedTuple):
    """What can be undone: a knob, a constraint, a node that was added, or a way to another leaf; and in which step it was done.
    `before` is the constraint or the leaf that was."""

    kind: str
    step: int
    node: int = 0
    before: object = None


_ACTS: dict[str, Callable[..., None]] = {
    "answer": Runner.answer,
    "hint": lambda runner: runner._hint(),
    "do": lambda runner: runner._do(),
    "undo": lambda runner: runner._undo(),
    "more": lambda runner: runner._more(),
    "skip": lambda runner: runner._skip(),
    "go": lambda runner, by: runner._next(by),
    "leave": lambda runner: runner._end(),
    "typed": lambda runner, key, character: runner._take_key(key, character),
}


def said(question: LessonQuestion, guess: float) -> str:
    """An answer in words."""
    if question.is_number:
        return question.measured(f"{guess:.6g}")
    number = int(guess)
    return plain(question.answers[number - 1]) if 1 <= number <= len(question.answers) else str(number)


def _refusal(question: LessonQuestion | None) -> Notice:
    """What is said of what is no answer."""
    if question is None:
        return Notice("the lesson asks nothing now", "a message may begin with a space")
    if question.is_number:
        return Notice("a share is 0 to 100 %" if question.is_share else "there is no such number")
    return Notice(f"the answers are 1 to {len(question.answers)}", "a message may begin with a space")


def shown_truth(question: LessonQuestion, truth: float) -> str:
    """A number as precise as anyone would say it."""
    if not question.is_number:
        return said(question, truth)
    return question.measured(f"{truth:.3g}" if abs(truth) < 1000 else f"{truth:,.0f}")


def compared(result: Guess, question: LessonQuestion) -> tuple[str, bool | None]:
    """Guess and truth side by side, and whether the guess was right."""
    guess, right = said(question, result.guess), result.is_right(question)
    if result.truth is None:
        return f"You said {guess}; this could not be measured here.", None
    truth = shown_truth(question, result.truth)
    if question.is_number:
        return f"You said {guess}, it is {truth}.", right
    if right:
        return f"You said: {guess}. Right.", True
    return f"You said: {guess}. The answer: {truth}.", False
