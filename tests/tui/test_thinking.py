"""Thoughts on the screen: dim behind a bar while they come, folded when they are over, counted, and ended by a key."""

from __future__ import annotations

import msgspec
import pytest
from textual.pilot import Pilot

from termchat.chat.service import Chat
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from termchat.decoding.thinking import ThinkingTags
from termchat.engine.port import EndThinking
from termchat.tui.screen.key_line import key_line
from termchat.tui.transcript import Look
from tests.chats import chat_on
from tests.tui.fake_engine import FakeEngine
from tests.tui.running_app import Desktop, desktop
from tests.tui.transcripts import Host, ask, finished, reply, settled, texts, token

THOUGHTS, ANSWER = ("<think>", "\nLet", " me", " see.", "\n</think>"), ("\n\n", "It", " is", " **blue**.")


def thinking(chat: Conversation, pieces: tuple[str, ...] = THOUGHTS, answer: tuple[str, ...] = ANSWER) -> int:
    """A reply that thinks; the number of its node."""
    ask(chat, "Why?")
    node = reply(chat)
    for piece in pieces:
        node.add(msgspec.structs.replace(token(len(node.tokens), piece), phase="thinking", decode_us=100_000))
    for piece in answer:
        node.add(token(len(node.tokens), piece))
    return node.number


async def shown(pilot: Pilot[None], app: Host) -> list[str]:
    await settled(pilot)
    return [line.rstrip() for line in texts(app)]


async def test_thoughts_fold_when_the_answer_begins_and_open_again() -> None:
    chat = Conversation()
    number = thinking(chat, answer=())
    app, node = Host(chat), chat.nodes[number]
    async with app.run_test(size=(60, 24)) as pilot:
        lines = await shown(pilot, app)
        assert "▎ Let me see." in [line.strip() for line in lines]
        assert not any("thought for" in line for line in lines)
        for piece in ANSWER:
            node.add(token(len(node.tokens), piece))
            app.transcript.grew(number)
        lines = await shown(pilot, app)
        at = next(row for row, line in enumerate(lines) if "▸ thought for 5 tokens, 0.5 s" in line)
        assert not any("▎" in line for line in lines)
        assert [line.strip("▌ ") for line in lines[at + 1 : at + 3]] == ["", "It is blue."]
        node.add(finished())
        app.transcript.grew(number)
        assert app.transcript.toggle_thoughts()
        lines = await shown(pilot, app)
        at = next(row for row, line in enumerate(lines) if "▾ thought for 5 tokens, 0.5 s" in line)
        assert [line.strip() for line in lines[at + 1 : at + 6]] == [
            "▎ <think>", "▎ Let me see.", "▎ </think>", "", "It is blue.",
        ]  # fmt: skip
        assert app.transcript.toggle_thoughts(number)
        assert not any("▎" in line for line in await shown(pilot, app))


@pytest.mark.parametrize("look", ["probability", "rank"])
async def test_in_a_token_look_every_token_of_the_thoughts_can_be_reached(look: Look) -> None:
    chat = Conversation()
    node = chat.nodes[thinking(chat)]
    node.add(finished())
    app = Host(chat, look)
    async with app.run_test(size=(60, 24)) as pilot:
        assert "Let me see." in "\n".join(await shown(pilot, app))
        app.transcript.open_cursor()
        app.transcript.move_cursor("first")
        reached = []
        for _ in range(len(node.tokens)):
            assert app.transcript.cursor is not None
            reached.append(app.transcript.cursor.index)
            app.transcript.move_cursor("right")
        assert reached == list(range(len(node.tokens)))
        assert not app.transcript.toggle_thoughts()


async def test_what_may_become_a_tag_waits_until_it_is_known() -> None:
    chat = Conversation()
    number = thinking(chat, (), ())
    app, node = Host(chat), chat.nodes[number]
    async with app.run_test(size=(60, 20)) as pilot:
        node.add(msgspec.structs.replace(token(0, "<b"), phase=None))
        app.transcript.grew(number)
        assert "<b" not in "\n".join(await shown(pilot, app))
        node.add(token(1, "> word"))
        app.transcript.grew(number)
        assert "<b> word" in "\n".join(await shown(pilot, app))


def budgeted(engine: FakeEngine) -> Chat:
    return chat_on(engine, Tuning(seed=1, think=512))


async def begun(desk: Desktop) -> None:
    """A message, and a reply that thinks."""
    info = desk.engine.info
    tags = ThinkingTags("<think>", "</think>")
    desk.engine.info = msgspec.structs.replace(info, thinking=tags, thinking_switch=True)
    desk.chat.loading.reload_model()
    await desk.settle()
    await desk.type("Why?", "enter")
    desk.engine.say("<think>", " Hm", phase="thinking")
    await desk.settle()


async def test_the_thoughts_are_counted_and_ended_by_a_key() -> None:
    async with desktop(chat=budgeted) as desk:
        await begun(desk)
        assert "thinking 2 / 512" in desk.text
        assert "F12 answer now" in desk.text
        await desk.type("", "f12")
        assert desk.engine.asked(EndThinking) == [EndThinking()]
        desk.engine.say(" Blue.")
        await desk.settle()
        assert "writing" in desk.text
        assert "answer now" not in desk.text
        assert "▸ thought for 3 tokens" in desk.text
        await desk.type("", "f12")
        assert "▾ thought for 3 tokens" in desk.text
        assert "Hm" in desk.text


async def test_slash_commands_and_a_click_do_the_same() -> None:
    async with desktop() as desk:
        await begun(desk)
        await desk.type("/answer", "enter")
        assert desk.engine.asked(EndThinking) == [EndThinking()]
        desk.engine.say(" Blue.")
        desk.engine.end()
        await desk.settle()
        row = next(y for y, line in enumerate(desk.text.split("\n")) if "▸ thought" in line)
        await desk.pilot.click(offset=(4, row))
        await desk.settle()
        assert "▾ thought" in desk.text
        await desk.type("/thoughts", "enter")
        assert "▸ thought" in desk.text


async def test_a_copy_of_the_reply_is_its_answer_and_the_thoughts_are_copied_on_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    async with desktop() as desk:
        await begun(desk)
        desk.engine.say("\n\n", "Blue.")
        desk.engine.end()
        await desk.settle()
        monkeypatch.setattr(desk.app.screen, "copy_to_clipboard", lambda text, _what="": copied.append(text))  # type: ignore[attr-defined]
        await desk.type("/copy-reply", "enter")
        await desk.type("/copy-thoughts", "enter")
        assert copied == ["Blue.", "<think> Hm"]


@pytest.mark.parametrize("thinking", [False, True])
def test_the_key_is_named_only_while_the_model_thinks(thinking: bool) -> None:
    for width in (80, 120):
        assert ("answer now" in key_line("busy", width, thinking=thinking).text) == thinking
