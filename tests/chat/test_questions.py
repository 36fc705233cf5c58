"""Questions about tokens, replies and texts: what is asked of the engine, and to whom answers belong."""

from __future__ import annotations

from pathlib import Path

from termchat.chat.changes import Answered
from termchat.chat.opening import load_latest
from termchat.config.settings import load
from termchat.conversation.session import Session
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation, Node, Place
from termchat.decoding.samplers import Tuning
from termchat.engine.port import Describe, Explain, Inspect, Score, Tokenize
from tests.chat.driven_chat import Faked

TUNING = Tuning(temperature=0.7, seed=7)


def turned(it: Faked) -> Node:
    """A reply of four tokens; the temperature was turned from 0.7 to 1.5 before the third, and is 0.3 now."""
    reply = it.writing("hi", " one", " two")
    it.chat.adjust_setting("temperature", 1.5)
    it.engine.say(" three", " four")
    it.engine.end()
    it.pump()
    it.chat.adjust_setting("temperature", 0.3)
    it.pump()
    return reply


def test_a_position_is_asked_about_with_the_settings_of_then_or_now() -> None:
    it = Faked(TUNING)
    reply = turned(it)
    for index, now, temperature in ((1, False, 0.7), (2, False, 1.5), (4, False, 1.5), (1, True, 0.3)):
        it.chat.questions.inspect_token(reply, index, now=now)
        asked = it.engine.asked(Inspect)[-1]
        assert asked.ids == [1, 2, 3, 1000, 1001, 1002, 1003][: 3 + index]
        assert asked.samplers.temperature == temperature
        assert (asked.seed, asked.done) == (7, index)
        it.pump()
        answer = it.chat.questions.inspected
        assert answer is not None
        assert (answer.node, answer.index, answer.now) == (reply, index, now)
        assert answer.inspected.token.entropy == 7.25
    assert it.told.count(Answered()) == 4


def test_steps_of_a_reply_in_pieces_are_counted_from_its_beginning() -> None:
    it = Faked(TUNING)
    it.replied("hi", " one", " two", reason="user")
    it.chat.forks.continue_reply()
    it.pump()
    it.engine.say(" three")
    it.pump()
    it.chat.questions.inspect_token(it.reply, 1)
    asked = it.engine.asked(Inspect)[-1]
    assert (asked.done, asked.seed) == (3, 7)
    assert asked.ids == [1, 2, 3, 1000, 1001, 1002]


def test_a_message_is_asked_about_with_the_knobs_as_they_are() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one")
    turn = it.chat.conversation.nodes[reply.parent or 0]
    it.chat.questions.inspect_token(turn, 2)
    assert it.engine.asked(Inspect)[-1].ids == [1, 2]
    it.pump()
    assert it.chat.questions.inspected is not None
    it.chat.questions.inspect_token(turn, 0)
    it.pump()
    assert it.chat.questions.inspected is None
    assert it.chat.questions.failed == "nothing precedes this token"


def test_works_while_a_reply_streams_and_while_it_waits() -> None:
    it = Faked(TUNING)
    reply = it.writing("hi", " one", " two")
    it.chat.questions.inspect_token(reply, 2)
    it.pump()
    assert it.chat.questions.inspected is not None
    it.chat.replies.pause()
    it.pump()
    it.chat.questions.explain_token(reply, 2, 17)
    it.pump()
    assert it.chat.questions.explained is not None
    assert it.chat.phase == "paused"


def test_works_after_the_chat_was_opened_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s.db")
    before = Faked(TUNING, store=store)
    number = turned(before).number
    store.close()
    found = load_latest(Store.open(tmp_path / "s.db"), load({}, environ={}, file=tmp_path / "none.toml"))
    assert found is not None
    it = Faked(session=found)
    reply = found.conversation.nodes[number]
    it.chat.questions.inspect_token(reply, 2)
    asked = it.engine.asked(Inspect)[-1]
    assert (asked.samplers.temperature, asked.seed, asked.done) == (1.5, 7, 2)
    assert asked.ids == [1, 2, 3, 1000, 1001]


def test_of_many_questions_one_is_open_and_the_newest_wins() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one", " two", " three")
    it.engine.hears = False
    for index in (0, 1, 2):
        it.chat.questions.inspect_token(reply, index)
    assert [asked.done for asked in it.engine.asked(Inspect)] == [0]
    it.engine.answer_questions()
    it.pump()
    assert it.chat.questions.inspected is None  # what was answered is not what is asked by now
    assert [asked.done for asked in it.engine.asked(Inspect)] == [0, 2]
    it.engine.answer_questions()
    it.pump()
    assert it.chat.questions.inspected is not None
    assert it.chat.questions.inspected.index == 2


def test_a_question_that_the_engine_gave_up_for_other_work_is_asked_once_more() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one", " two", " three")
    it.engine.hears = False
    it.chat.questions.score_reply(reply)
    it.engine.give_up()
    it.pump()
    assert it.chat.questions.failed is None
    assert it.engine.asked(Score)[1:] == it.engine.asked(Score)[:1]
    it.chat.adjust_setting("temperature", 1.4)
    it.engine.give_up()
    it.pump()
    assert [asked.samplers.temperature for asked in it.engine.asked(Score)] == [0.7, 0.7, 1.4]
    it.engine.answer_questions()
    it.pump()
    assert it.chat.questions.scored is not None
    assert it.chat.questions.scored.settings.temperature == 1.4


def test_an_answer_to_what_was_forgotten_is_not_shown() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one")
    it.engine.hears = False
    it.chat.questions.inspect_token(reply, 0)
    it.chat.new()
    it.engine.answer_questions()
    it.pump()
    assert it.chat.questions.inspected is None


def test_why_not_asks_about_the_first_token_of_a_text() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one", " two")
    it.chat.questions.explain_token(reply, 1, " fox and bear")
    it.pump()
    asked = it.engine.asked(Explain)[-1]
    assert it.engine.words.text(asked.id) == " fox"
    answer = it.chat.questions.explained
    assert answer is not None
    assert (answer.text, answer.more) == (" fox and bear", 2)
    assert answer.explained.explanation.id == asked.id
    it.chat.questions.explain_token(reply, 1, "fox")
    it.pump()
    assert it.engine.asked(Explain)[-1].id != asked.id  # without the space it is another token
    it.chat.questions.explain_token(reply, 1, "")
    it.pump()
    assert it.chat.questions.explained is None
    assert it.chat.questions.failed == "type some text first"


def test_why_not_says_which_tokens_were_penalised() -> None:
    it = Faked(Tuning(repeat_penalty=1.3, seed=7))
    reply = it.replied("hi", " one", " two")
    it.chat.questions.explain_token(reply, 2, 17)
    it.pump()
    answer = it.chat.questions.explained
    assert answer is not None
    assert answer.explained.explanation.penalised is not None
    assert answer.pieces == {4: " two"}


def test_what_if_covers_every_piece_and_follows_the_knobs() -> None:
    it = Faked(TUNING)
    first = it.replied("hi", " one", " two", reason="user")
    second = it.continued(" three", " four")
    it.chat.questions.score_reply(first)
    it.pump()
    asked = it.engine.asked(Score)[-1]
    assert asked.ids == [1, 2, 3, 1000, 1001, 1002, 1003]
    assert (asked.count, asked.done, asked.seed) == (4, 0, 7)
    answer = it.chat.questions.scored
    assert answer is not None
    assert answer.summary.kept == 1.0
    it.chat.adjust_setting("temperature", 1.5)
    assert it.chat.questions.scored is answer  # stays until there is a newer one
    it.pump()
    answer = it.chat.questions.scored
    assert answer is not None
    assert answer.settings.temperature == 1.5
    assert answer.summary.changed == (2,)
    assert answer.summary.kept == 0.75
    assert answer.texts == [" one", " two", " three", " four"]
    assert answer.places[2] == Place(second.number, 0)


def test_a_what_if_that_is_closed_is_not_asked_again() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one", " two")
    it.chat.questions.score_reply(reply)
    it.pump()
    it.chat.questions.forget_answers("scored")
    it.chat.adjust_setting("temperature", 1.5)
    it.pump()
    assert len(it.engine.asked(Score)) == 1
    assert it.chat.questions.scored is None


def test_knobs_that_turn_fast_are_asked_about_once() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one", " two", " three")
    it.chat.questions.score_reply(reply)
    it.pump()
    it.engine.hears = False
    for step in range(11, 20):
        it.chat.adjust_setting("temperature", step / 10)
    while len(it.engine.asked(Score)) < 3:
        it.engine.answer_questions()
        it.pump()
    it.engine.answer_questions()
    it.pump()
    assert [asked.samplers.temperature for asked in it.engine.asked(Score)] == [0.7, 1.1, 1.9]
    assert it.chat.questions.scored is not None
    assert it.chat.questions.scored.settings.temperature == 1.9


def test_a_token_that_a_person_chose_does_not_count_as_changed() -> None:
    it = Faked(Tuning(temperature=1.5, seed=7))
    it.writing("hi", " one", " two")
    it.chat.replies.force_tokens([17])
    it.engine.end()
    it.pump()
    it.chat.questions.score_reply(it.reply)
    it.pump()
    answer = it.chat.questions.scored
    assert answer is not None
    assert answer.scored.ids[2] != answer.ids[2]
    assert answer.summary.first is None


def test_texts_and_messages_are_shown_as_tokens() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one")
    it.chat.questions.ask_tokens("a fox")
    it.pump()
    assert it.engine.asked(Tokenize)[-1] == Tokenize("a fox")
    assert it.chat.questions.tokenized is not None
    assert it.chat.questions.tokenized.tokenized.names == ["a", " fox"]
    turn = it.chat.conversation.nodes[reply.parent or 0]
    it.chat.questions.tokens_of(turn)
    it.pump()
    assert it.engine.asked(Describe)[-1].ids == [1, 2, 3]
    answer = it.chat.questions.tokenized
    assert answer is not None
    assert answer.node is turn
    assert answer.tokenized.control == [0, 1]


def test_what_cannot_be_asked_says_why() -> None:
    nobody = Faked(TUNING)
    nobody.engine.loads = False
    reply = nobody.replied("hi", " one")
    assert nobody.chat.spec is not None
    nobody.chat.loading.load(nobody.chat.spec)
    nobody.pump()
    for ask in (
        lambda: nobody.chat.questions.inspect_token(reply, 0),
        lambda: nobody.chat.questions.score_reply(reply),
        lambda: nobody.chat.questions.ask_tokens("a"),
    ):
        ask()
        nobody.pump()
        assert nobody.chat.questions.failed == "no model is loaded"


def test_an_engine_that_dies_answers_nothing_and_can_be_asked_again() -> None:
    it = Faked(TUNING)
    reply = it.replied("hi", " one", " two")
    it.engine.hears = False
    it.chat.questions.inspect_token(reply, 1)
    it.chat.questions.inspect_token(reply, 0)
    it.engine.die("gone")
    it.pump()
    assert it.chat.questions.inspected is None
    it.engine.hears = True
    it.chat.loading.restart_engine()
    it.pump()
    it.chat.questions.inspect_token(reply, 1)
    it.pump()
    assert it.chat.questions.inspected is not None
    assert it.chat.questions.failed is None


def test_an_answer_belongs_to_the_chat_that_was_asked_about() -> None:
    """Node numbers begin anew in every chat."""
    it = Faked(TUNING)
    old = it.replied("hi", " one", " two")
    it.engine.hears = False
    it.chat.questions.inspect_token(old, 0)
    it.chat.questions.inspect_token(old, 1)
    it.chat.show_session(Session(conversation=Conversation("another")))
    it.engine.answer_questions()
    it.pump()
    assert it.engine.asked(Inspect)[-1].ids == [1, 2, 3, 1000]
    assert it.chat.questions.inspected is None
