"""The chat: one session on one host, and everything a person can do to it.

No method waits. What was asked is done when `pump_events` has brought the engine's answers; `pump_events` returns what
changed since. What a chat consists of is in `state`; how things are done is in the rooms beside it, which know the state and
not the chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from termchat.chat.branches import Branches
from termchat.chat.changes import (
    BreakpointsChanged,
    Change,
    LiveChanged,
    Notice,
    PathChanged,
    StatusChanged,
    TuningChanged,
)
from termchat.chat.forks import Forks
from termchat.chat.groups import Walks
from termchat.chat.host import Choice, Host, known_of
from termchat.chat.live import Live
from termchat.chat.loading import Loading, measure_batches
from termchat.chat.questions import Questions
from termchat.chat.replies import Replies
from termchat.chat.state import State
from termchat.chat.turns import Turns
from termchat.config.origins import MODEL, followed
from termchat.conversation.session import Breakpoint, Session, View
from termchat.conversation.tree import Conversation
from termchat.conversation.unsent import ALONE, Wish
from termchat.decoding import biases
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed
from termchat.decoding.samplers import KNOBS, STEP_BY_STEP, Tuning, Value
from termchat.decoding.setting import SettingError
from termchat.decoding.stages import LOGIT_BIAS
from termchat.engine.port import Event


class Chat(State):
    """A session on a host. Several chats may stand on one host.

    `on_full` is what is done about a full context without asking, or "ask". With `keep_logits` a reply may be asked what other
    settings would have made of it. Replies begin with `step_by_step_text` while the knob `step_by_step` is on. `configured` is
    what a new chat begins with: its prompt and settings, those that nobody has set as the model recommends, else at their
    defaults; None stands for those of `session`. With `measures` batches of a model that is new here are measured while the
    chat rests.
    """

    def __init__(
        self,
        host: Host,
        session: Session,
        *,
        candidates: int = 20,
        on_full: str = "stop",
        keep_logits: bool = True,
        step_by_step_text: str = STEP_BY_STEP,
        configured: Session | None = None,
        measures: bool = False,
    ) -> None:
        super().__init__(host, session, candidates, on_full, keep_logits, step_by_step_text)
        self._measures = measures
        tree = self.conversation
        self.configured = configured or Session(
            tuning=self.tuning, origins=dict(self.origin), conversation=Conversation(tree.system, raw=tree.raw)
        )
        self._wish: Choice | None = None
        """The model of the session that is shown, to be loaded as soon as nothing runs."""
        self._read_only = self._rests = False
        self.replies = Replies(self)
        self.turns = Turns(self, self.replies)
        self.forks = Forks(self, self.turns, self.replies)
        self.walks = Walks(self, self.turns, self.replies, self.forks, self.send)
        self.branches = Branches(self, self.forks, self.walks)
        self.questions = Questions(self)
        self.loading = Loading(self, self._forget_questions)
        self.show_session(session)

    def send(self, text: str, wish: Wish = ALONE) -> None:
        """Queue a message, to be answered as the `wish` says; it goes out as soon as nothing else is going on."""
        self.turns.add(text, wish)
        if self.walks.shown is not None and self.replies.run is None:
            self.walks.keep_reply(self.walks.shown.cursor)
        if self.full is not None and self.full.failure is None:
            self.turns.make_room("stop")  # whoever writes on has read the reply as it is
        self.replies.held = self.full is not None
        if self.phase == "no model":
            self.loading.reload_model()
        self._go_on()

    def stop(self) -> None:
        """End the running reply; its tokens stay. The queue waits for the next message."""
        self.turns.stop()

    def begin_with(self, text: str) -> None:
        """Set the beginning of the next reply, new or regenerated; "" leaves it to the dice.

        Its tokens are forced, and on record as such. A text that never came to begin a reply waits for the next.
        """
        if not self.accepts_text(text) or (text and not self.check_offered("continue")):
            return
        self.prefill = None
        if text or self.beginning:  # else there is nothing that "" would take back
            self.prefill = text
        self.add_changes(StatusChanged())

    def set_breakpoints(self, breakpoints: Iterable[Breakpoint]) -> None:
        """Set the breakpoints of the running reply and all that follow. One that the engine cannot look at is off."""
        points = list(breakpoints)
        for at, point in enumerate(points):
            if point.enabled and point not in self.breakpoints and (why := self.refused_rule(point.condition)):
                self.add_changes(Notice(*why))
                points[at] = Breakpoint(point.condition, enabled=False)
        self.session.update_settings(breakpoints=tuple(points))
        self.add_changes(BreakpointsChanged())
        if self.replies.run is not None:
            self.replies.run.follow_chat()

    def set_constraint(self, constraint: Constraint | None) -> None:
        """Set what the running reply has to match from its next token on, and later ones from their first; None: nothing."""
        if constraint == self.constraint:
            return
        if constraint is not None and (why := self.refused_constraint(constraint)) is not None:
            self.add_changes(Notice(*why))
            return
        self.session.constraint = constraint
        self._apply_tuning(self.tuning, {})

    def set_view(self, view: View) -> None:
        """Save how the chat is looked at, for when it is opened again."""
        self.session.update_settings(view=msgspec.structs.replace(view, lesson=self.session.view.lesson))

    # --- sessions -----------------------------------------------------------------------------------------------------

    def show_session(self, session: Session, choice: Choice | None = None, missing: str = "") -> None:
        """Show a session as it was left, in place of the one that is shown; one that is still in memory goes first.

        A reply that is running ends, and its end is kept with the session it belongs to; so are the draft and the queue. The
        model of `choice` is loaded as soon as nothing runs, if it is another one; `missing` says why the session's own model
        cannot be had.
        """
        sessions = self.host.sessions
        known = next((one for one in sessions if one.id and one.is_own and one.current_id == session.id), None)
        if known is not None:
            known.conversation.title = session.conversation.title
            session = known
        if session is self.session and session in sessions:
            return
        self.forks.stop_making()
        self._wish, self.loading.then_continue = None, False
        if session not in sessions:
            session.close_interrupted()
        chat = session.conversation
        if not chat.nodes and not session.view.lesson:
            chat.unsent = self.blank
        sessions.add(session)
        self.session, self._read_only = session, not session.is_own
        if session.newest is None:
            session.read_newest()
        self.live = Live.restore_from(chat, session.newest)
        self.replies.held = bool(self.turns.queue)  # it waits for the next message
        self.check_template()
        self.add_changes(PathChanged(), LiveChanged(), StatusChanged(), TuningChanged(), BreakpointsChanged())
        self.questions.forget_answers()
        if not session.is_own:
            hint = "it is shown as it was saved; a message from here goes into a copy (/copy-chat makes one now)"
            self.add_changes(Notice("another termchat is writing this chat", hint))
        if missing:
            goes_on = f"it continues with {self.spec.name}" if self.spec else "choose another model"
            self.add_changes(Notice(f"this chat used {missing}", goes_on, "warning"))
        elif choice is not None and known_of(choice.spec) != self.host.loaded:
            self._wish = choice
            if not self.host.busy:
                self._load_wish()
        if self._wish is None:
            self.loading.speculation.follow_setting()

    @property
    def lesson(self) -> str:
        """The id of the lesson whose chat it is, or ""."""
        return self.configured.view.lesson

    def fresh_settings(self) -> tuple[Tuning, dict[str, str]]:
        """Compute the settings of a new chat with the loaded model, and the origin of each."""
        tuning, origins, wanted = self.configured.tuning, dict(self.configured.origins), self.host.wanted
        recommended = wanted.recommended if wanted is not None else {}
        if recommended or MODEL in origins.values():
            tuning, origins, _ = followed(tuning, origins, recommended)
        return tuning, origins

    def list_lost(self) -> dict[str, Value]:
        """List the knobs that a new chat does not keep, with their values in this one."""
        return self.tuning.find_differing(self.fresh_settings()[0])

    def new(self, system: str | None = None, *, raw: bool | None = None, keep: bool = False) -> None:
        """Show an empty session, as configured; `keep` keeps the settings of the present one instead."""
        base = self.session if keep else self.configured
        tuning, origins = (base.tuning, dict(base.origins)) if keep else self.fresh_settings()
        chat = base.conversation
        self.show_session(
            Session(
                model=self.host.model_ref or self.session.model,
                tuning=tuning,
                origins=origins,
                breakpoints=base.breakpoints,
                constraint=base.constraint,
                view=View(lesson=self.lesson),
                conversation=Conversation(
                    chat.system if system is None else system, raw=chat.raw if raw is None else raw
                ),
                store=self.session.store,
                kept=self.session.kept,
            )
        )

    def rename_chat(self, title: str) -> None:
        self.session.rename_chat(title)
        self.add_changes(StatusChanged())

    def copy_chat(self) -> None:
        """Go on in a copy of the chat, in place of the chat itself."""
        if self.busy or self.conversation.leaf is None:
            why = "a reply is running" if self.busy else "nothing was said yet"
            self.add_changes(Notice(f"cannot copy the chat: {why}"))
        else:
            self.session.copy_chat()
            self._read_only = True  # until `_report_changes` tells
            self.add_changes(PathChanged(), StatusChanged())

    # --- chats on one host ---------------------------------------------------------------------------------------------

    def beside(self, session: Session, configured: Session) -> Chat:
        """Make another chat on the same host, served in the same way. What this one makes ends, and nothing begins until it
        comes back; its queue waits for the next message."""
        self._rests = True
        self.forks.stop_making()
        self.questions.forget_answers()
        self._wish, self.loading.then_continue, self.replies.held = None, False, bool(self.turns.queue)
        return Chat(
            self.host,
            session,
            candidates=self.candidates,
            on_full=self.on_full,
            keep_logits=self.keep_logits,
            step_by_step_text=self.step_by_step_text,
            configured=configured,
            measures=self._measures,
        )

    def come_back(self, other: Chat, choice: Choice | None) -> None:
        """Go on after another chat on the host, with the session that it shows if that is no lesson's. The loaded model runs
        again as in `choice`."""
        self._rests = False
        self.replies.forget_cells()
        if not other.session.view.lesson:
            self.show_session(other.session)
            self._wish, other._wish = other._wish, None
        if self.phase == "failed":
            self.failure = other.failure
        self.check_template()
        self.loading.speculation.follow_setting()
        self.run_as(choice)
        self._go_on()

    def run_as(self, choice: Choice | None) -> None:
        """Have the loaded model run again as in `choice`, if it is the same one, as soon as nothing runs."""
        spec = self.spec
        if choice is None or spec is None or self._wish is not None:
            return
        if spec != choice.spec and known_of(spec) == known_of(choice.spec):
            self._wish = choice
            if not self.host.busy:
                self._load_wish()

    def _load_wish(self) -> bool:
        """Begin to load the model that is wished for; False where nothing is to be loaded."""
        wish, self._wish = self._wish, None
        return wish is not None and self.loading.switch_model(wish)

    # --- knobs --------------------------------------------------------------------------------------------------------

    def adjust_setting(self, name: str, value: object) -> None:
        """Turn a knob: the next token obeys, or while nothing runs the shown distribution is reshaped.

        Raises:
            SettingError: the knob refuses the value; nothing has changed.
        """
        turned = self.tuning.turn_knobs({name: value})
        if name in self.list_lacking(turned):
            raise SettingError(f"{name}: {self.host.engine_name} has no such knob")
        if (why := self.refused_knobs(turned).get(name)) is not None:
            raise SettingError(why.message)
        unknown = biases.find_unknown(turned.logit_bias, self.model.vocabulary) if self.model is not None else None
        if name == LOGIT_BIAS and unknown is not None:
            raise SettingError(f"{name}: token {unknown} is not in this model's vocabulary")
        if turned != self.tuning:
            self._apply_tuning(turned, {name: "panel"})

    def adjust_all(self, values: Mapping[str, object], places: Mapping[str, str]) -> None:
        """Turn several knobs at once, as one change; `places` are the origins of the values. By default, knobs or values
        that the engine lacks are skipped.

        Raises:
            SettingError: a knob refuses its value; nothing has changed.
        """
        turned = self.tuning.turn_knobs(values)
        lacking = [name for name in self.list_lacking(turned) if name in values]
        if lacking:
            turned = turned.turn_knobs({name: KNOBS[name].default for name in lacking})
            self.add_changes(Notice(f"{self.host.engine_name} has no {', '.join(lacking)}: left out"))
        beyond = {name: why for name, why in self.refused_knobs(turned).items() if name in values}
        if beyond:
            turned = turned.turn_knobs({name: KNOBS[name].default for name in beyond})
            self.add_changes(*(Notice(why.message, "left out") for why in beyond.values()))
        self._apply_tuning(turned, places)

    def _apply_tuning(self, turned: Tuning, origin: Mapping[str, str]) -> None:
        before = self.tuning
        self.session.update_settings(tuning=turned)
        self.session.origins |= origin
        if turned.think != before.think:
            self.check_thinking()
        if turned.draft != before.draft:
            self.loading.speculation.follow_setting()
        self.add_changes(TuningChanged())
        if self.replies.run is not None:
            self.replies.run.follow_chat()
        else:
            self.questions.ask_preview()
        self.questions.repeat_current()

    def close(self) -> None:
        """End the engine; replies that run on it are cancelled first, so that their ends are recorded."""
        if self.host.busy and self.engine.alive:
            self.stop()
            for _ in range(20):
                self.pump_events(0.05)
                if not self.host.busy or not self.engine.alive:
                    break
        self.engine.close()

    # --- what the engine says ----------------------------------------------------------------------------------------

    def pump_events(self, timeout: float | None = 0.0) -> list[Change]:
        """Take in all that the engine has sent, waiting up to `timeout` seconds for the first word of it."""
        self._pumping = True
        try:
            if self.engine.alive:
                for number, event in self.engine.receive(timeout):
                    self._hear_event(number, event)
                    self._go_on()
            return self._report_changes()
        finally:
            self._pumping = False

    def _report_changes(self) -> list[Change]:
        self.follow_host()
        self.turns.withdraw_question()
        self.walks.sync_with_tree()
        if self._read_only and self.session.is_own:
            self._read_only = False
            self.add_changes(Notice("this is a copy of the chat now", "the chat itself stays as it is"))
        if self.session.store is not None:
            self.add_changes(*(Notice(*notice, "warning") for notice in self.session.store.take_notices()))
        return self.take_changes()

    def _hear_event(self, number: int, event: Event) -> None:
        if isinstance(event, Failed) and event.kind == "engine":
            self.host.fail_waiting(event)
            self.forks.drop_waiting()
            self.loading.speculation.forget_drafter()
            self.host.model = None
            self.enter_phase("failed")
            self.report_failure(event)
        elif not self.host.deliver_event(number, event) and isinstance(event, Failed):
            self.report_failure(event)

    def _forget_questions(self) -> None:
        """Drop what waits for an answer of a model that is unloaded."""
        self.forks.drop_waiting()
        self.questions.forget_answers()

    def _go_on(self) -> None:
        """Start what waits, once nothing else is going on."""
        if self._rests or self.phase != "idle" or self.host.busy or self._load_wish() or self.turns.go_on():
            return
        if self.loading.then_continue:
            self.loading.then_continue = False
            self.forks.continue_reply()
        elif self.forks.waits:
            self.forks.make_waiting()
        elif self.turns.queue and not self.replies.held:
            self.turns.send_next()
        elif self._measures and not self.host.waits:
            measure_batches(self)
