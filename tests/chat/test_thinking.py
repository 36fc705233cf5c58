"""Thoughts in a chat: what the model is told of them later, how they are switched, ended and kept."""

from __future__ import annotations

import msgspec
import pytest

from termchat.chat.opening import load_latest
from termchat.config.settings import Settings
from termchat.conversation.store.store import Store
from termchat.conversation.thoughts import answer_of, thoughts_of
from termchat.decoding.conditions import ThinkingBudget
from termchat.decoding.samplers import Tuning
from termchat.decoding.thinking import ThinkingTags
from termchat.engine.port import EndThinking, Message, ModelSpec, Render
from tests.chat.driven_chat import Driven, Faked, Make
from tests.tui.fake_engine import INFO

pytestmark = pytest.mark.usefixtures("home")
TAGS = ThinkingTags("<think>", "</think>", "\n</think>\n\n")


class Thinker(Faked):
    """A chat with a model that thinks."""

    def __init__(self, tuning: Tuning | None = None, *, switch: bool = True, **more: object) -> None:
        super().__init__(tuning, **more)
        self.engine.info = msgspec.structs.replace(INFO, thinking=TAGS, thinking_switch=switch)
        self.chat.loading.reload_model()
        self.pump()

    def thought(self, text: str, *pieces: str, answer: tuple[str, ...]) -> None:
        self.chat.send(text)
        self.pump()
        self.engine.say(*pieces, phase="thinking")
        self.engine.say(*answer)
        self.engine.end()
        self.pump()

    @property
    def asked(self) -> Render:
        return self.engine.asked(Render)[-1]


def test_thoughts_are_left_to_the_template_with_the_ids_of_the_reply() -> None:
    driven = Thinker()
    driven.thought("Hi", "<think>", "Hm.", "</think>", answer=("\n\n", "Hello", "!"))
    drawn = list(driven.reply.ids)
    driven.thought("And?", "<think>", "Well.", "</think>", answer=("Fine.",))
    assert driven.asked.messages == [
        Message("user", "Hi"), Message("assistant", "Hello!", "<think>Hm.</think>", drawn), Message("user", "And?"),
    ]  # fmt: skip
    assert driven.asked.before == [*driven.engine.prompt, *drawn]


def test_in_raw_mode_the_text_stays_whole() -> None:
    driven = Thinker()
    driven.chat.new(raw=True)
    driven.pump()
    driven.thought("Hi", "<think>", "Hm.", "</think>", answer=("Hello",))
    driven.replied("And?", "Fine.")
    assert driven.engine.asked(Render) == []
    first, second = (command.ids for command in driven.engine.generated[-2:])
    spans = driven.chat.conversation.find_path()
    assert second == [*first, *spans[1].node.ids, *spans[2].node.ids]


@pytest.mark.parametrize(("value", "think"), [(-1, None), (0, False), (512, True), (1_000_000, True)])
def test_the_knob_is_what_the_template_hears(value: int, think: bool | None) -> None:
    driven = Thinker(Tuning(seed=7, think=value))
    driven.replied("Hi", "Hello!")
    assert driven.asked.think is think
    budget = [c for c in driven.engine.generated[-1].conditions if isinstance(c, ThinkingBudget)]
    assert budget == ([ThinkingBudget(512)] if value == 512 else [])


def test_another_reply_after_the_switch_is_made_from_another_prompt() -> None:
    driven = Thinker()
    driven.replied("Hi", "Hello!")
    driven.chat.adjust_setting("think", 0)
    driven.chat.forks.regenerate()
    driven.pump()
    assert driven.asked.think is False
    driven.engine.end()
    driven.pump()
    asked = len(driven.engine.asked(Render))
    driven.chat.forks.regenerate()
    driven.pump()
    assert len(driven.engine.asked(Render)) == asked


def test_what_a_model_cannot_do_is_told() -> None:
    plain, always = Faked(), Thinker(switch=False)
    for driven, value, told in (
        (plain, 1_000_000, "this model does not think: its chat template has no thinking tags"),
        (always, 0, "thinking cannot be turned off: the model's chat template has no switch"),
    ):
        driven.chat.adjust_setting("think", value)
        driven.pump()
        assert driven.notices[-1] == told
    for driven, value in ((plain, 0), (always, 64), (Thinker(), 0)):
        before = len(driven.notices)
        driven.chat.adjust_setting("think", value)
        driven.pump()
        assert len(driven.notices) == before


def test_thoughts_are_counted_while_they_last_and_can_be_ended() -> None:
    driven = Thinker()
    driven.chat.replies.end_thinking()
    driven.pump()
    assert driven.notices[-1] == "the model is not thinking"
    driven.chat.send("Hi")
    driven.pump()
    assert driven.chat.replies.may_think  # the template may have opened the thoughts
    driven.engine.say("<", phase=None)
    driven.pump()
    assert driven.chat.thinking is None
    driven.engine.say("think>", " Hm", phase="thinking")
    driven.pump()
    assert driven.chat.thinking == 3
    driven.chat.replies.end_thinking()
    driven.engine.say("Hello")
    driven.pump()
    assert driven.engine.asked(EndThinking) == [EndThinking()]
    assert driven.chat.thinking is None
    assert bytes(driven.reply.tokens.forced) == b"\0\0\0\1\0"
    told = len(driven.notices)
    driven.chat.replies.end_thinking()
    driven.pump()
    assert driven.notices[told:] == ["the model is not thinking"]


def test_step_by_step_is_a_prefill_that_stays_until_it_is_turned_off() -> None:
    driven = Faked(step_by_step_text="Slowly now.")
    driven.chat.adjust_setting("step_by_step", 1)
    for text in ("Hi", "And?"):
        driven.replied(text, " Well")
        assert driven.reply.text() == "Slowly now. Well"
        assert driven.reply.start is not None
        assert driven.reply.start.prefill == "Slowly now."
    driven.chat.adjust_setting("step_by_step", 0)
    driven.chat.forks.regenerate()
    driven.pump()
    assert driven.engine.generated[-1].prefill == ""
    driven.engine.end()
    driven.pump()
    driven.chat.begin_with("Yes")
    driven.chat.adjust_setting("step_by_step", 1)
    driven.chat.forks.regenerate()
    driven.pump()
    assert driven.engine.generated[-1].prefill == "Yes"  # what a person said of this reply goes first


def test_thoughts_of_a_real_model_are_ended_kept_and_forked(
    spec: ModelSpec, make: Make, store: Store, config: Settings
) -> None:
    """The model has no such template: its tags are configured, and the opening one is forced."""
    tuning = Tuning(seed=3, max_tokens=60)
    driven: Driven = make(tuning, store=store)
    driven.chat.loading.load(msgspec.structs.replace(spec, thinking=("<think>", "</think>")))
    driven.idle()
    driven.chat.begin_with("<think>\n")
    driven.stepped("Why is the sky blue?", 12)
    assert driven.chat.thinking == len(driven.reply.tokens)
    driven.chat.replies.end_thinking()
    driven.until(lambda: 1 in driven.reply.tokens.forced[-1:])
    driven.chat.replies.resume()
    driven.idle()
    spans = driven.chat.conversation.find_reply()
    thoughts, node = thoughts_of(spans), driven.reply
    assert thoughts is not None
    assert thoughts.seconds > 0
    assert "think>" not in thoughts.text
    assert node.text() == node.tokens.texts.join_texts(thoughts.tokens) + node.tokens.texts.join_texts(
        None, thoughts.tokens
    )
    assert answer_of(spans) == node.tokens.texts.join_texts(None, thoughts.tokens).lstrip()

    driven.chat.forks.fork_reply(node, 9)  # in the thoughts: they go on, and nothing ends them
    driven.idle()
    fork = driven.chat.conversation.find_reply()
    assert thoughts_of(fork) is not None
    assert fork[-1].node.tokens.thought == len(fork[-1].node.tokens)
    assert driven.chat.conversation.list_ids()[-len(fork[-1].node.ids) - 9 : -len(fork[-1].node.ids)] == list(
        node.ids[:9]
    )

    driven.chat.conversation.leaf = node.number
    driven.chat.session.save_leaf()
    before = driven.chat.conversation.list_ids()
    said = driven.say("And at night?")
    prompt = driven.chat.conversation.list_ids()[: -len(said.ids)]
    assert list(node.ids[: node.tokens.thought]) != prompt[len(before) - len(node.ids) :][: node.tokens.thought]
    driven.chat.close()
    assert store.flush()
    again = load_latest(store, config)
    assert again is not None
    assert again.conversation.nodes[node.number].tokens.thought == thoughts.tokens
    assert thoughts_of(again.conversation.find_reply(node.number)) == thoughts
