"""One prompt, one or several replies on stdout, as text or as the record stream."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import NamedTuple

from termchat.chat.changes import Notice
from termchat.chat.host import Host
from termchat.chat.opening import find_drafter, find_model
from termchat.chat.service import Chat
from termchat.commands.ranking_report import walks_named
from termchat.commands.run_output import Printer, complain, drop_stdout, printer_of
from termchat.config.origins import FLAG
from termchat.config.settings import Settings
from termchat.conversation.session import Breakpoint, Session
from termchat.conversation.standing_reply import standing_reply
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.conditions import Condition
from termchat.decoding.constraint import Constraint
from termchat.decoding.records import Failed
from termchat.decoding.samplers import KNOBS, well_formed
from termchat.decoding.walk_plan import WalkPlan
from termchat.engine.abilities import (
    EngineAbilities,
    Feature,
    Refused,
    find_refusal,
    most_of,
    refused_constraint,
    refused_knobs,
    refused_rule,
)
from termchat.engine.port import Engine, EngineError, ModelSpec
from termchat.models.errors import ModelError

FAILED, USAGE, CUT_OFF = 1, 2, 3
"""Exit codes; 3: a reply was cut off, by a full context or before it matched its constraint."""

Refuses = Callable[[Feature], Refused | None]

_GATHER = 0.04
"""Seconds between reads while tokens stream: waking for every token would take a core when the engine needs all of them."""
_STOPS_WITHIN = 3.0
"""Seconds that an engine has to end a reply in good order; one that does not hear is ended itself."""


class Question(NamedTuple):
    """A prompt, and so many `replies` that are wanted to it, each started with `prefill` and ended by `rules`, which match the
    `constraint`.

    `messages` is a file of what was said before ("-" is stdin); the prompt None is the last of them. A `plan` says which
    replies are made at once.
    """

    prompt: str | None
    messages: Path | None = None
    prefill: str = ""
    raw: bool = False
    replies: int = 1
    rules: tuple[Condition, ...] = ()
    constraint: Constraint | None = None
    plan: WalkPlan | None = None


class QuestionError(Exception):
    """It cannot be asked. `hint` says what to do; `code` is the exit code that stands for it."""

    def __init__(self, message: str, hint: str = "", code: int = FAILED) -> None:
        super().__init__(message)
        self.message, self.hint, self.code = message, hint, code


class _Signals:
    """Remembers the first SIGINT or SIGTERM; a second one ends the process at once."""

    def __init__(self) -> None:
        self.caught: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on)

    def _on(self, number: int, _frame: FrameType | None) -> None:
        if self.caught is not None:
            os._exit(128 + number)  # the worker leaves when our end of its pipe closes
        self.caught = number


def answer(config: Settings, engine: Engine, asked: Question, *, as_json: bool, candidates: int) -> int:
    """Prints the replies and returns the exit code: 0, 1 failed, 3 cut off, 130 or 143 interrupted."""
    signals = _Signals()
    if sys.stdout is None:
        complain("stdout is closed")
        return FAILED
    printer = printer_of(asked.plan, asked.replies, as_json=as_json)
    try:
        return _answer(config, engine, asked, printer, signals, candidates)
    except QuestionError as error:
        complain(error.message, error.hint)
        return error.code
    except EngineError as error:
        return _fail(printer, Failed(error.kind, error.message, error.hint))
    except BrokenPipeError:
        drop_stdout()
        return 128 + signal.SIGPIPE
    except OSError as error:
        complain(f"the reply cannot be written: {error.strerror or error}")
        drop_stdout()
        return FAILED
    finally:
        engine.close()


def _answer(
    config: Settings, engine: Engine, asked: Question, printer: Printer, signals: _Signals, candidates: int
) -> int:
    """See `answer`.

    Raises:
        QuestionError, EngineError: the prompt cannot be asked, or the engine not be started.
        OSError: stdout cannot be written.
    """
    conversation, prompt = _chat_so_far(config, asked)
    try:
        found: tuple[Settings, ModelSpec | Failed] = find_model(config)
    except ModelError as error:
        found = config, Failed("model", well_formed(error.message), well_formed(error.hint))
    config, spec = found
    for problem in config.problems:  # only now: a recommendation of the model may be one
        complain(problem)
    if isinstance(spec, Failed):
        return _fail(printer, spec)
    most, name = most_of(spec.engine), spec.engine.shown if spec.engine.url else "this engine"
    known = partial(find_refusal, offers=most.list_features(), abilities=most, name=name)
    _check_abilities(config, asked, name, known, most)  # before anything is loaded
    session = Session(
        tuning=config.tuning,
        origins=config.knob_origin(),
        conversation=conversation,
        breakpoints=tuple(map(Breakpoint, asked.rules)),
        listeners=[printer.record],
    )
    chat = Chat(
        Host(engine),
        session,
        candidates=candidates,
        keep_logits=False,
        step_by_step_text=config.step_by_step_text,
    )
    chat.set_constraint(asked.constraint)
    chat.loading.load(spec, _drafter(config) if asked.plan is None else None, heeds=config.recommendations)
    if spec.engine.url:
        ended = _wait(chat, printer, signals)  # for the model, which tells what the engine can
        if ended:
            return ended
    _check_abilities(config, asked, name, chat.find_refusal, chat.abilities)
    if asked.plan is not None:
        return _at_once(chat, asked, prompt, printer, signals)
    if config.origin["draft"] == FLAG and config.tuning.draft in ("ngram", "model"):
        ended = _wait(chat, printer, signals)  # for the models
        if ended or chat.cannot_draft or chat.host.drafter_failure is not None:
            if chat.host.drafter_failure is not None:
                printer.failed(chat.host.drafter_failure)
            return ended or FAILED
    return _one_after_the_other(chat, asked, prompt, printer, signals)


def _check_abilities(
    config: Settings, asked: Question, name: str, refused: Refuses, abilities: EngineAbilities
) -> None:
    """Whether the engine of that name can do what the flags ask for.

    Raises:
        QuestionError: it cannot.
    """
    plan = asked.plan
    wanted: dict[Feature, bool] = {
        "walks": plan is not None and plan.group.beams is None,
        "beams": plan is not None and plan.group.beams is not None,
        "constrain": asked.constraint is not None,
        "continue": bool(asked.prefill),
        "raw": asked.raw,
        "drafts": config.origin["draft"] == FLAG and config.tuning.draft in ("ngram", "model"),
    }
    for feature in wanted:
        why = refused(feature) if wanted[feature] else None
        if why is not None:
            raise QuestionError(*why, USAGE)
    reasons = [
        *(why for knob, why in refused_knobs(config.tuning, abilities, name).items() if config.origin[knob] == FLAG),
        *(refused_rule(rule, abilities, name) for rule in asked.rules),
        refused_constraint(asked.constraint, abilities, name) if asked.constraint is not None else None,
    ]
    if (why := next(filter(None, reasons), None)) is not None:
        raise QuestionError(*why, USAGE)
    lacking = [knob for knob in abilities.lacks if config.origin[knob] == FLAG]
    if lacking:
        raise QuestionError(
            f"{name} has no {', '.join(lacking)}", "leave it out" if len(lacking) == 1 else "leave them out", USAGE
        )


def _drafter(config: Settings) -> ModelSpec | Failed | None:
    """The model that is to draft, if one is, or why it cannot.

    Raises:
        QuestionError: a flag asks for one, and there is none, or it cannot be used.
    """
    by = config.tuning.draft
    found = find_drafter(config) if by in ("model", "auto") else None
    if by != "model" or config.origin["draft"] != FLAG or isinstance(found, ModelSpec):
        return found
    if found is None:
        raise QuestionError("no draft model is chosen", "Name one: --draft MODEL, or set draft_model.", USAGE)
    raise QuestionError(
        found.message, f"{found.hint} Or pass --draft {', '.join(KNOBS['draft'].choices)}.".lstrip(), USAGE
    )


def _one_after_the_other(chat: Chat, asked: Question, prompt: str, printer: Printer, signals: _Signals) -> int:
    """Makes the replies that are asked for, and returns the exit code."""
    code, seed = 0, chat.tuning.seed
    for number in range(asked.replies):
        printer.number = number + 1
        if seed is not None:
            chat.session.update_settings(tuning=chat.tuning.turn_knobs({"seed": seed + number}))
        if asked.prefill:
            chat.begin_with(asked.prefill)
        if number:
            chat.forks.regenerate()
        else:
            chat.send(prompt)
        ended = _wait(chat, printer, signals)
        if ended:
            return ended
        which = f"reply {number + 1}" if asked.replies > 1 else "the reply"
        node = chat.conversation.find_reply()[-1].node
        code = _complain_of(chat.conversation, node, which) or code
        _tell_not_drafted(chat, [node])
        if node.finished is not None and node.finished.reason == "context":
            code = _complain_of_context(f"{which} was", node, chat.abilities.larger_context)
    return code


def _at_once(chat: Chat, asked: Question, prompt: str, printer: Printer, signals: _Signals) -> int:
    """Makes the walks that are asked for, and returns the exit code."""
    plan = asked.plan
    assert plan is not None
    ended = _wait(chat, printer, signals)  # for the model
    if ended:
        return ended
    if asked.prefill:
        chat.begin_with(asked.prefill)
    chat.walks.start(plan, text=prompt)
    ended = _wait(chat, printer, signals)
    group = chat.walks.shown
    if group is None or ended == FAILED:
        return ended or FAILED
    ranking = group.rank_replies()
    printer.ranked(group.nodes, ranking)
    nodes = sorted(group.nodes.items())
    codes = [_complain_of(chat.conversation, node, f"walk {walk + 1}") for walk, node in nodes]
    _tell_not_drafted(chat, [node for _, node in nodes])
    full = [walk for walk, node in nodes if node.finished is not None and node.finished.reason == "context"]
    if full:
        cut = "the search was" if plan.group.beams else f"{walks_named(full)} {'was' if len(full) == 1 else 'were'}"
        fewer = f"make fewer {'beams' if plan.group.beams else 'walks'}, "
        codes.append(_complain_of_context(cut, group.nodes[full[0]], chat.abilities.larger_context, fewer))
    if plan.group.kind == "vote" and not ended and ranking.walks[0].score is None:
        complain("no walk has an answer", "Check the pattern, or raise --max-tokens.")
        codes.append(FAILED)
    return ended or max(codes)


def _complain_of(conversation: Conversation, node: Node, which: str) -> int:
    """Says what is wrong with a reply that is over, but for the context; the exit code that stands for it."""
    dropped = next((settings.constraint_dropped for settings in node.settings if settings.constraint_dropped), "")
    if node.failed is not None:
        complain(f"{which} failed: {node.failed.message}", node.failed.hint)
    if dropped:
        complain(f"{which} does not match the constraint, which was dropped: {dropped}")
    if node.failed is not None or dropped:
        return FAILED
    return _complain_of_mismatch(conversation, node, which)


def _complain_of_mismatch(conversation: Conversation, node: Node, which: str) -> int:
    """Says that a reply ended before it matched its constraint, unless it was to end there; the exit code."""
    end = node.finished
    if end is None or end.reason in ("stop", "context") or not any(one.constraint for one in node.settings):
        return 0
    from termchat.decoding.verdict import Judgement, verdict_on  # compiles grammars

    standing = standing_reply(conversation, node, len(node.tokens))
    thinks = Judgement("incomplete", "the answer did not begin")
    verdict = verdict_on(standing.constraint, standing.data) if standing is not None else thinks
    if verdict.kind not in ("incomplete", "invalid"):
        return 0
    by = f" at {end.why}" if end.reason == "length" else ""
    complain(
        f"{which} ended{by} before it matched the constraint: {verdict.detail}",
        "Raise --max-tokens." if end.reason == "length" else "",
    )
    return CUT_OFF


def _tell_not_drafted(chat: Chat, nodes: list[Node]) -> None:
    """Say why nothing was drafted for any of these replies, if a flag asked for drafts."""
    reasons = [node.finished.not_drafted if node.finished is not None else "" for node in nodes]
    if all(reasons) and chat.origin["draft"] == FLAG:
        complain(
            f"nothing was drafted: {reasons[0]}", "" if chat.tuning.draft_always else "--draft-always on drafts anyway"
        )


def _complain_of_context(cut: str, node: Node, larger: str, remedy: str = "") -> int:
    """Says that replies were cut off, of which `node` is one; the exit code that stands for it. `larger` gives more context."""
    detail = node.finished.why if node.finished is not None else ""
    used, _, why = detail.partition(": ")
    complain(
        f"{cut} cut off: the context is full ({used} tokens{why and f', {why}'})",
        f"{remedy}shorten the prompt, or {larger}",
    )
    return CUT_OFF


def _chat_so_far(config: Settings, asked: Question) -> tuple[Conversation, str]:
    """What was said before the prompt, and the prompt.

    Raises:
        QuestionError: the messages cannot be read, or have no place for the prompt.
    """
    if asked.messages is None:
        return Conversation(config.system, raw=asked.raw), asked.prompt or ""
    from termchat.conversation.transcripts import FORMATS, importing
    from termchat.conversation.transcripts.transcript import TranscriptError

    try:
        with importing.open_readable(asked.messages) as file:
            found = list(islice(importing.chats(file, FORMATS["openai"]), 2))
    except TranscriptError as error:
        raise QuestionError(error.message, error.hint) from None
    if left_out := found[0].left_out:  # without it the prompt would be another one
        raise QuestionError(f"{file.name}, {left_out[0]}", "Remove it, or write it as a message of the user.")
    if len(found) > 1:
        raise QuestionError(f"{file.name} contains more than one chat", "Pass one of them.")
    chat = found[0].conversation
    if chat.system and config.origin["system"] == FLAG:
        raise QuestionError(f"--system is given, but {file.name} has a system message, too", "Remove one of them.")
    chat.first_system = chat.system or config.system
    last = chat.find_path()[-1].node
    if last.failed is not None:  # stands for the missing reply to the last message
        chat.drop_node(last)
        last = chat.find_path()[-1].node
    if asked.prompt is not None:
        return chat, asked.prompt
    if last.role == "assistant":
        raise QuestionError(
            f"the last message in {file.name} is the assistant's", "End with a user message, or pass one as PROMPT."
        )
    chat.drop_node(last)
    return chat, last.written


def _wait(chat: Chat, printer: Printer, signals: _Signals) -> int:
    """Until what runs has ended; returns the exit code if that was not its own end."""
    refused = False
    stopped: float | None = None
    going = True
    while going:
        for change in chat.pump_events(0.05):
            if isinstance(change, Notice) and change.severity != "information":
                complain(change.message, change.hint)
                refused = refused or change.severity == "error"
        if signals.caught is not None:
            if not chat.busy or (stopped is not None and monotonic() > stopped + _STOPS_WITHIN):
                break
            if stopped is None:
                stopped = monotonic()
                chat.stop()
        going = chat.busy or chat.phase == "loading" or chat.forks.waits or chat.walks.running
        if chat.phase == "decoding":
            sleep(_GATHER)
    if signals.caught is not None:
        return 128 + signals.caught
    if chat.failure is not None:
        printer.failed(chat.failure)
    return FAILED if refused or chat.failure is not None else 0


def _fail(printer: Printer, failure: Failed) -> int:
    complain(failure.message, failure.hint)
    printer.failed(failure)
    return FAILED
