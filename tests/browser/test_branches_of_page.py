"""All branches on one page: what is shown is what the tree says, whichever way one went there."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from termchat.conversation.tree import Conversation, Node
from termchat.conversation.versions import Versions
from termchat.text import sanitize
from tests.browser.chromium import Browser
from tests.formats import example_chats
from tests.formats.example_chats import ExampleChat
from tests.formats.trees import tree
from tests.made_walks import group, walked

pytestmark = pytest.mark.browser

SHOWN = """[...document.querySelectorAll("main .user, main .reply")].map((section) => [
  [...section.querySelectorAll(".piece")].at(-1).dataset.node,
  section.querySelector("h2").textContent,
  section.querySelector(".versions span")?.textContent ?? "",
  [...section.querySelectorAll(".piece")].map((piece) => [...piece.childNodes]
    .filter((part) => !part.hidden && !part.classList?.contains("mark")).map((part) => part.textContent).join("")).join(""),
])"""
VISIBLE = "[...document.querySelectorAll('main .t')].filter((token) => token.getClientRects().length)"


def press(browser: Browser, key: str) -> None:
    browser("Input.dispatchKeyEvent", type="keyDown", key=key)


def turns_of(chat: Conversation, leaf: int) -> list[list[Node]]:
    found: list[list[Node]] = []
    for span in chat.find_path(leaf):
        if not found or span.node.role == "user" or found[-1][-1].role == "user":
            found.append([])
        found[-1].append(span.node)
    return found


def expected(chat: Conversation, leaf: int) -> list[list[str]]:
    """What the page should say of each turn on the way to a leaf: the node it ends in, its version and its text."""
    counts = {span.node.number: span.count for span in chat.find_path(leaf)}
    rows = []
    for turn in turns_of(chat, leaf):
        this, ends = Versions(chat).find_versions(turn[0], turn[-1])
        version = f"{this + 1}/{len(ends)}" if len(ends) > 1 else ""
        text = "".join(node.text(counts[node.number]) for node in turn)
        rows.append([str(turn[-1].number), version, without_returns(sanitize(text))])
    return rows


def shown(browser: Browser) -> list[list[str]]:
    found: list[list[str]] = browser.ask(SHOWN)
    return [[end, version, without_returns(text)] for end, _, version, text in found]


def system(browser: Browser) -> list[str]:
    found: list[str] = browser.ask("""[...document.querySelectorAll(".system")].flatMap((section) => [
      section.querySelector("h2").textContent, section.querySelector(".versions span")?.textContent ?? "",
      section.querySelector(".text").textContent])""")
    return found


def expected_system(chat: Conversation, leaf: int) -> list[str]:
    """Its heading, its version and its text; nothing if the chat has none."""
    texts = list(dict.fromkeys(chat.system_of(node.number) for node in chat.list_children(None)))
    if texts in ([], [""]):
        return []
    prompt = chat.system_of(leaf)
    version = f"{texts.index(prompt) + 1}/{len(texts)}" if len(texts) > 1 else ""
    return ["System" if prompt else "System: none", version, sanitize(prompt.replace("\r\n", "\n"))]


def without_returns(text: str) -> str:
    """A carriage return before a line break is not shown, unless the two are of different tokens."""
    return text.replace("␍", "")


def test_keys_arrows_and_marks_switch_between_branches(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.whole()
    browser.look(1280, 800, "light")
    browser.open(page.write(tmp_path / "chat.html", "html"))
    first, wild, other = (expected(page.chat, leaf) for leaf in (8, 4, 5))
    assert shown(browser) == first
    assert [version for _, version, _ in first] == ["", "1/3", "", ""]
    press(browser, ">")
    assert shown(browser) == wild
    assert wild[1][2] == "Once upon a time wild"
    assert browser.ask(f"{VISIBLE}.length") == 5
    press(browser, ">")
    assert shown(browser) == other
    press(browser, ">")  # the last one
    assert shown(browser) == other
    browser.point(".versions button:first-child", click=True)
    assert shown(browser) == wild
    browser.point(".fork:not([hidden])", click=True)  # back to where the reply went on by itself
    assert shown(browser) == first
    browser.point(".fork:not([hidden])", click=True)
    assert shown(browser) == wild
    browser.point(".versions button:first-child", click=True)
    assert shown(browser) == first
    assert browser.requests == [(tmp_path / "chat.html").as_uri()]


def test_tokens_of_another_branch_tell_of_themselves(browser: Browser, tmp_path: Path) -> None:
    browser.look(1280, 800, "light")
    browser.open(example_chats.whole().write(tmp_path / "chat.html", "html"))
    browser.point(".piece[data-node='8'] .t", click=True)
    press(browser, "<")  # of the turn of the kept token, which has no other version: of the last one that has
    press(browser, ">")
    assert browser.ask("document.getElementById('panel').hidden")  # its token is no more to be seen
    for _ in range(5):
        press(browser, "ArrowRight")
    assert browser.ask("document.querySelector('#panel h3').textContent") == "·wild"
    press(browser, "ArrowRight")
    assert browser.ask("document.querySelector('.now').closest('.piece').dataset.node") == "4"
    assert browser.ask("[...document.querySelectorAll('.foot')].map(e => e.classList.contains('part'))") == [
        True,
        False,
    ]
    assert browser.ask("getComputedStyle(document.querySelector('.foot.part .plots')).display") == "none"


def test_a_version_comes_back_as_it_was_left_and_stays_in_place(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.long(400)
    chat = page.chat
    again = page.reply(example_chats.stream([1, 2, 3], [b"short"]), parent=1)
    chat.leaf = 2
    page.say("more")
    page.reply(example_chats.stream([], [b"yes"]))
    page.reply(example_chats.stream([], [b"no"]), parent=chat.leaf and 4)
    chat.leaf = 5
    browser.look(1280, 500, "light")
    browser.open(page.write(tmp_path / "chat.html", "html"))
    assert shown(browser)[-1] == ["5", "1/2", "yes"]
    press(browser, ">")
    assert shown(browser)[-1] == ["6", "2/2", "no"]
    browser.ask("document.querySelector('main .reply .versions').scrollIntoView({block: 'center'})")
    top = browser.ask("document.querySelector('main .reply').getBoundingClientRect().top")
    browser.point("main .reply .versions button:last-child", click=True)
    assert shown(browser)[-1] == [str(again.number), "2/2", "short"]
    browser.point("main .reply .versions button:first-child", click=True)
    assert shown(browser)[-1] == ["6", "2/2", "no"]  # as it was left
    assert abs(browser.ask("document.querySelector('main .reply').getBoundingClientRect().top") - top) < 300


def test_a_branch_with_another_system_prompt_is_shown_with_it(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.whole()
    leaf = page.chat.leaf or 0
    first = page.chat.grow_node("user", parent=None, at=0, text="Write a story")
    first.system = "Be wild."
    page.reply(example_chats.stream([1, 2, 3], [b"Oh!"]))
    page.chat.leaf = leaf
    browser.open(page.write(tmp_path / "chat.html", "html"))
    assert system(browser) == ["System", "1/2", "Be brief."]
    browser.point(".system .versions button:last-child", click=True)
    assert system(browser) == ["System", "2/2", "Be wild."]
    assert [text for _, _, text in shown(browser)] == ["Write a story", "Oh!"]
    press(browser, "<")
    assert system(browser) == ["System", "1/2", "Be brief."]
    assert shown(browser) == expected(page.chat, leaf)


def test_a_chat_without_a_message_is_a_page_that_works(browser: Browser, tmp_path: Path) -> None:
    browser.open(example_chats.ExampleChat("Be brief.").write(tmp_path / "chat.html", "html"))
    assert system(browser) == ["System", "", "Be brief."]
    assert browser.ask("document.body.classList.contains('live')")  # the script has come to its end


@pytest.mark.parametrize("seed", range(20))
def test_any_way_through_a_tree_shows_what_the_tree_says(browser: Browser, tmp_path: Path, seed: int) -> None:
    page, dice = tree(seed), random.Random(seed)
    browser.open(page.write(tmp_path / "chat.html", "html"))
    leaf = page.chat.leaf
    if leaf is None or any(page.chat.is_hidden(span.node.number) for span in page.chat.find_path()):
        return
    assert shown(browser) == expected(page.chat, leaf)
    assert system(browser) == expected_system(page.chat, leaf)
    for _ in range(10):
        buttons = browser.ask("document.querySelectorAll('main button:enabled:not([hidden])').length")
        if not buttons:
            break
        browser.ask(
            f"document.querySelectorAll('main button:enabled:not([hidden])')[{dice.randrange(buttons)}].click()"
        )
        now = shown(browser)
        assert now == expected(page.chat, int(now[-1][0]))
        assert system(browser) == expected_system(page.chat, int(now[-1][0]))


def test_without_scripts_the_chosen_branch_is_there(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.whole()
    page.chat.leaf = 4
    browser("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(page.write(tmp_path / "chat.html", "html"))
        assert shown(browser) == expected(page.chat, 4)
        assert browser.ask("getComputedStyle(document.querySelector('.versions button')).visibility") == "hidden"
        assert browser.ask(f"{VISIBLE}.map((token) => token.textContent).join('')") == "Once upon a time wild"
    finally:
        browser("Emulation.setScriptExecutionDisabled", value=False)


COLUMNS = """[...document.querySelectorAll("main .walk")].map((walk) => [
  walk.querySelector(".text").textContent, !walk.querySelector(".on").hidden, walk.closest(".turn").className])"""


def test_walks_stand_beside_each_other_and_say_which_one_the_chat_goes_on_with(
    browser: Browser, tmp_path: Path
) -> None:
    made = example_chats.walks()
    made.say("and then?")
    for text in (b"on", b"off"):
        made.reply(example_chats.stream([1, 2, 3], [text]), parent=4)
    browser.look(1200, 800, "light")
    browser.open(made.write(tmp_path / "chat.html", "html"))
    best_first = [[" wide and deep", True, "turn reply"], [" wide and 42", False, "turn reply"]]
    assert browser.ask(COLUMNS) == best_first
    tops = browser.ask("[...document.querySelectorAll('main .walk')].map((walk) => walk.getBoundingClientRect().top)")
    assert tops[0] == tops[1]
    browser.point(".walk[data-node='2'] .t[data-n='1']")
    browser.wait("!document.getElementById('panel').hidden")
    assert browser.ask("document.querySelector('#panel dd').textContent") == "1, id 1001"
    browser.point(".versions button:not(:disabled)", click=True)  # back to the first walk
    browser.wait("document.querySelectorAll('main .user').length === 1")
    assert browser.ask(COLUMNS) == [[*best_first[0][:1], False, "turn reply"], [*best_first[1][:1], True, "turn reply"]]
    press(browser, ">")
    assert browser.ask(COLUMNS) == best_first
    browser.look(400, 800, "dark")
    tops = browser.ask("[...document.querySelectorAll('main .walk')].map((walk) => walk.getBoundingClientRect().top)")
    assert tops[0] < tops[1]
    assert browser.complaints == []


def test_walks_from_the_middle_of_a_reply_stay_under_it(browser: Browser, tmp_path: Path) -> None:
    made = ExampleChat()
    made.say("go")
    made.reply(example_chats.stream([1, 2, 3], [b"one", b" two"]))
    for walk, word in enumerate((b" or", b" but")):
        made.reply(walked([1, 2, 3], walk, group(2), [word]), parent=2, at=1)
    made.say("and then?")
    browser.open(made.write(tmp_path / "chat.html", "html"))
    for _ in range(3):  # the three versions of the reply, from the last one back
        assert browser.ask("document.querySelector('.walks').closest('.turn') === document.querySelector('.reply')")
        on = browser.ask(
            "[...document.querySelectorAll('.on:not([hidden])')].map((mark) => mark.closest('.walk').dataset.node)"
        )
        assert on == [end for end in (shown(browser)[1][0],) if end != "2"]
        assert len(browser.ask(COLUMNS)) == 2
        press(browser, "<")
