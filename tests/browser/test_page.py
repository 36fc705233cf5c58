"""The page with the heat map in a real browser: what a person sees and points at, and that hostile text stays text."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from termchat.decoding.records import TAIL, Token
from termchat.text import sanitize
from tests.browser.chromium import Browser
from tests.formats import example_chats

pytestmark = pytest.mark.browser


class Server:
    """Counts who asks it for something, and answers nobody."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}/x"
        self.asked = 0
        threading.Thread(target=self._count, daemon=True).start()

    def _count(self) -> None:
        while True:
            try:
                found, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._hear, args=(found,), daemon=True).start()

    def _hear(self, found: socket.socket) -> None:
        with found:  # a browser may come by early, and then have nothing to ask
            self.asked += bool(found.recv(1))

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def ground(browser: Browser, selector: str) -> str:
    return str(browser.ask(f"getComputedStyle(document.querySelector({json.dumps(selector)})).backgroundColor"))


def text_of(browser: Browser, selector: str) -> list[str]:
    found: list[str] = browser.ask(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")
    return found


def test_the_tokens_are_there_one_by_one(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.whole()
    browser.open(page.write(tmp_path / "chat.html", "html"))
    node = page.chat.nodes[2]
    assert text_of(browser, ".piece[data-node='2'] .t") == [sanitize(text) for text in node.tokens.texts]
    assert text_of(browser, ".piece .mark") == [
        'temperature 0.8 → 1.2, stop off → "END", max_tokens off → 64 at token 3',
        '2 branches at token 4: "wild"',
        'temperature 1.2 → 0.8, stop "END" → off, max_tokens 64 → off at token 8',
    ]
    assert text_of(browser, ".turn h2") == ["System", "You", "smollm2", "You", "smollm2"]
    assert text_of(browser, ".user .text") == ["Write a story", "and then?"]
    shown: str = browser.ask("document.querySelector('.reply .text').innerText")
    assert "🦊\nmet a <bear>" in shown
    assert "gone" not in browser.ask("document.body.innerText")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_heat_follows_the_switch(browser: Browser, tmp_path: Path, theme: str) -> None:
    page = example_chats.long(300)
    tokens = page.chat.nodes[2].tokens
    browser.look(1280, 800, theme)
    browser.open(page.write(tmp_path / "chat.html", "html"))
    columns = {"probability": tokens.logprobs, "after": tokens.probabilities,
               "entropy": [-bits for bits in tokens.entropies], "rank": [-rank for rank in tokens.ranks]}  # fmt: skip
    plain = ground(browser, "body")
    for heat, measure in columns.items():
        browser.point(f"label:has(#heat-{heat})", click=True)
        scale: list[str] = browser.ask(
            f"[...document.querySelectorAll('.scale.{heat} i')].map(e => getComputedStyle(e).backgroundColor)"
        )
        assert len(set(scale)) == 8
        assert browser.ask(f"getComputedStyle(document.querySelector('.scale.{heat}')).display") == "flex"
        grounds: list[str] = browser.ask(
            "[...document.querySelectorAll('.t')].map(e => getComputedStyle(e).backgroundColor)"
        )
        steps = [scale.index(found) if found != "rgba(0, 0, 0, 0)" else 7 for found in grounds]
        by_measure = [step for _, step in sorted(zip(measure, steps, strict=True))]
        assert by_measure == sorted(by_measure)  # the likelier, the calmer
        assert len(set(steps)) > 4
        assert scale[-1] == plain
    browser.point("label:has(#heat-none)", click=True)
    assert browser.ask(
        "[...document.querySelectorAll('.t')].every(e => getComputedStyle(e).backgroundColor === 'rgba(0, 0, 0, 0)')"
    )


def test_pointing_at_a_token_tells_of_it(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.whole()
    browser.look(1280, 800, "light")
    browser.open(page.write(tmp_path / "chat.html", "html"))
    assert browser.ask("document.getElementById('panel').hidden")
    browser.point(".piece[data-node='2'] .t[data-n='1']")
    browser.wait("!document.getElementById('panel').hidden")
    assert text_of(browser, "#panel h3") == ["·upon"]
    facts = dict(zip(text_of(browser, "#panel dt"), text_of(browser, "#panel dd"), strict=True))
    assert facts == {
        "token": "1, id 1001",
        "bytes": "20 75 70 6f 6e",
        "model": "53.8%, rank 1",
        "after": "44.0%",
        "entropy": "3.9 bit",
        "end": "0.200%",
        "time": "6.1 ms decode, 0.31 ms sample",
    }
    rows: list[list[str]] = browser.ask(
        "[...document.querySelectorAll('#panel tr')].slice(1).map(r => [...r.cells].map(c => c.textContent))"
    )
    assert rows[0] == ["·c0", "60.7%", "50.0%", ""]
    assert len(rows) == 10
    browser.point(".piece[data-node='8'] .t[data-n='0']", click=True)
    assert text_of(browser, "#panel h3") == ["The"]
    browser.point("h1")
    assert text_of(browser, "#panel h3") == ["The"]  # it was clicked: it is kept
    for key in ("ArrowRight", "Escape"):
        browser("Input.dispatchKeyEvent", type="keyDown", key=key)
        expected = {"ArrowRight": "·end"}.get(key)
        assert not expected or text_of(browser, "#panel h3") == [expected]
    assert browser.ask("document.getElementById('panel').hidden")


def test_pointing_at_a_token_tells_what_was_drafted_there(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.drafted()
    browser.look(1280, 800, "light")
    browser.open(page.write(tmp_path / "chat.html", "html"))
    ngram = "ngram drafted ·b·c··x in 0.1 ms; 2 of 3 accepted; 4 rows decoded in 12.4 ms"
    small = "small drafted <E2><82> in 3.0 ms; 2 of 2 accepted; 3 rows decoded in 12.4 ms"
    expected = {
        0: None,
        1: ("·b, accepted", ngram, "12.4 ms decode, 0.31 ms sample"),
        3: ("··x, rejected; taken: ·d", ngram, "0.31 ms sample"),
        6: ("nothing; all 2 before it were accepted", small, "0.31 ms sample"),
        7: None,
    }
    for token, said in expected.items():
        browser.point(f".piece[data-node='2'] .t[data-n='{token}']")
        browser.wait(f"document.querySelector('#panel dd').textContent.startsWith('{token},')")
        facts = dict(zip(text_of(browser, "#panel dt"), text_of(browser, "#panel dd"), strict=True))
        found = tuple(facts.get(name) for name in ("drafted", "round", "time"))
        assert found == (said or (None, None, "6.1 ms decode, 0.31 ms sample"))


def press(browser: Browser, key: str, modifiers: int = 0) -> None:
    browser("Input.dispatchKeyEvent", type="keyDown", key=key, modifiers=modifiers)


def test_the_keyboard_alone_goes_from_token_to_token(browser: Browser, tmp_path: Path) -> None:
    browser.look(1280, 400, "light")
    browser.open(example_chats.long(300).write(tmp_path / "chat.html", "html"))
    assert browser.ask("document.getElementById('panel').hidden")
    for wanted in ("0, id 1000", "1, id 1001"):
        press(browser, "ArrowRight")
        assert text_of(browser, "#panel dd")[0] == wanted
    press(browser, "ArrowRight", modifiers=1)  # with Alt it is the browser's own
    assert text_of(browser, "#panel dd")[0] == "1, id 1001"
    press(browser, "Escape")
    browser.ask("document.querySelectorAll('.t')[150].scrollIntoView()")
    press(browser, "ArrowRight")
    number = int(text_of(browser, "#panel dd")[0].split(",")[0])
    assert number > 1  # the first in sight
    assert browser.ask(
        "document.querySelector('.now').getBoundingClientRect().top >="
        " document.querySelector('.switch').getBoundingClientRect().bottom"
    )


def test_on_paper_it_is_dark_on_white_with_the_heat(browser: Browser, tmp_path: Path) -> None:
    browser.look(1280, 800, "light")
    browser.open(example_chats.whole().write(tmp_path / "chat.html", "html"))
    light = [ground(browser, selector) for selector in ("body", ".t")]
    browser.look(1280, 800, "dark")
    assert ground(browser, "body") != light[0]
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser("Emulation.setEmulatedMedia", media="print", features=features)
    assert [ground(browser, selector) for selector in ("body", ".t")] == light
    assert browser.ask("getComputedStyle(document.querySelector('.t')).printColorAdjust") == "exact"
    assert browser.ask("getComputedStyle(document.querySelector('.switch')).display") == "none"
    browser("Emulation.setEmulatedMedia", media="", features=features)


def test_a_bound_is_marked_as_one(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.ExampleChat()
    page.say("hi")
    records = example_chats.stream([1, 2, 3], [b"Once", b" upon"])
    at = next(index for index, record in enumerate(records) if isinstance(record, Token))
    records[at] = msgspec.structs.replace(records[at], state={TAIL: 0.125})
    page.reply(records)
    browser.open(page.write(tmp_path / "chat.html", "html"))
    facts: list[list[str]] = []
    for number in (0, 1):
        browser.point(f".t[data-n='{number}']")
        facts.append(text_of(browser, "#panel dd"))
    assert {"≤3.9 bit", "≤0.200%", "12.5%"} <= set(facts[0])
    assert {"3.9 bit", "0.200%"} <= set(facts[1])


def test_the_plots_are_there(browser: Browser, tmp_path: Path) -> None:
    browser.open(example_chats.long(300).write(tmp_path / "chat.html", "html"))
    captions = text_of(browser, "figcaption")
    assert captions[0].startswith("entropy, up to ")
    assert "118.2 tokens/s" in captions[1]
    for kind in ("ribbon", "times"):
        box: list[float] = browser.ask(
            f"(b => [b.x, b.y, b.width, b.height])(document.querySelector('.plot.{kind} path').getBBox())"
        )
        assert box[2] == 300
        assert box[3] > 90


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.look(width, 800, "dark")
    hostile = (
        example_chats.hostile("http://127.0.0.1:9/"),
        example_chats.hostile_walks(),
        example_chats.hostile_drafts(),
    )
    for page in (example_chats.whole(), *hostile):
        browser.open(page.write(tmp_path / "chat.html", "html"))
        assert browser.ask("document.documentElement.scrollWidth") <= width


def test_hostile_text_runs_nothing_and_asks_nobody(browser: Browser, server: Server, tmp_path: Path) -> None:
    page = example_chats.hostile(server.address)
    path = page.write(tmp_path / "chat.html", "html")
    assert not path.read_text("utf-8").translate({10: None}).isascii()
    assert sanitize(path.read_text("utf-8")) == path.read_text("utf-8")
    browser.look(1280, 800, "light")
    browser.open(path)
    for token in ("0", "1", "3"):
        browser.point(f".t[data-n='{token}']", click=True)
        browser.wait("!document.getElementById('panel').hidden")
    press(browser, ">")  # the other branch, whose name is an attack
    assert text_of(browser, ".versions span") == ["2/2"]
    press(browser, "<")
    assert browser.ask("window.harmed") is None
    assert browser.ask("document.scripts.length") == 3  # ours, and data: of the one reply that is shown, and the tree
    assert browser.ask("document.querySelectorAll('a, img, iframe, object, embed, link, base').length") == 0
    assert (
        browser.ask(
            "document.querySelectorAll('main [onload], main [onerror], main [onmouseover], #panel [href]').length"
        )
        == 0
    )
    assert browser.requests == [path.as_uri()]
    assert server.asked == 0
    assert browser.dialogs == []
    assert browser.complaints == []
    # What was written can be read, as words.
    assert "<script>window.harmed = 'tag'</script>" in text_of(browser, ".user .text")[0]
    assert text_of(browser, "#panel td")[0] != ""


def test_the_policy_would_stop_what_got_in(browser: Browser, server: Server, tmp_path: Path) -> None:
    """Not that it should: a page that was changed by hand still runs no script, and asks for nothing."""
    whole = example_chats.whole().write(tmp_path / "chat.html", "html").read_text("utf-8")
    smuggled = (
        "<main><script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'>"
        f"<img src='{server.address}'><script src='{server.address}'></script><iframe src='{server.address}'></iframe>"
        "<a id=link href=\"javascript:window.harmed=3\">here</a>"
    )  # fmt: skip
    (tmp_path / "chat.html").write_text(whole.replace("<main>", smuggled, 1), "utf-8")
    browser.open(tmp_path / "chat.html")
    browser.point("#link", click=True)
    browser.wait("document.querySelectorAll('.t').length > 0")
    assert browser.ask("window.harmed") is None
    assert server.asked == 0
    browser.wait(lambda: any("Content Security Policy" in said for said in browser.complaints))
    browser.complaints.clear()


def test_a_reply_of_twenty_thousand_tokens_can_be_read(browser: Browser, tmp_path: Path) -> None:
    page = example_chats.long(20_000)
    browser.look(1280, 800, "light")
    browser.open(page.write(tmp_path / "chat.html", "html"))
    assert browser.ask("document.querySelectorAll('.t').length") == 20_000
    browser.point(".t[data-n='19999']")
    browser.wait("!document.getElementById('panel').hidden")
    assert text_of(browser, "#panel dd")[0] == "19999, id 20999"
    browser.point("label:has(#heat-rank)", click=True)
    assert browser.ask("document.getElementById('heat-rank').checked")
