"""Engines elsewhere in the list of models: shown with what they have, chatted with, and never in the way of the others."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import monotonic, sleep

import msgspec
import pytest

from termchat.chat.loading import Choice
from termchat.config.settings import load
from termchat.engine.address import EngineAddress
from termchat.engine.port import LoadDraft, ModelSpec
from termchat.models import elsewhere
from termchat.models.elsewhere import engine_rows
from termchat.models.listing import ModelRow
from termchat.tui.lists import gather
from termchat.tui.lists.models_dialog import ModelsDialog
from termchat.tui.screen.header_line import header_line
from tests.fake_ssh import install, lab
from tests.tui.models_dialog import Shop, shop

pytestmark = pytest.mark.usefixtures("home")

CONFIG = "".join(f"[engines.{name}]\nurl = 'ssh://{name}'\n" for name in ("lab", "old", "slow"))


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The lab has two models, the old one is dead, and the slow one answers once this is set."""
    answered = threading.Event()

    def rows(address: EngineAddress) -> list[ModelRow]:
        def row(name: str, model: str = "", **more: object) -> ModelRow:
            made = {"wanted": address.asked_as(model), "name": name, "state": "ready", "engine": address.name}
            return ModelRow(**made | {"source": address.url} | more)  # type: ignore[arg-type]

        if address.name == "old" and not answered.is_set():
            problem = "old cannot be reached: Connection refused"
            return [row("old", state="broken", problem=problem, told="connection refused")]
        if address.name == "old":
            return [row("old", told="qwen · draws here", round_trip=0.0412)]
        if address.name == "slow":
            answered.wait(60)
            return [row("slow")]
        own = row("lab", told="2 models · here everything works", round_trip=0.0015)
        return [own, row("lab: small", "small"), row("lab: large", "large", size=40 * 10**9, context=131072)]

    monkeypatch.setattr(elsewhere, "engine_rows", rows)
    return answered


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "config.toml"
    file.write_text(CONFIG)
    return file


async def highlight(desk: Shop, name: str) -> None:
    await desk.find(name)
    await desk.until(lambda: desk.line(name))


async def test_each_engine_and_its_models_have_rows_as_soon_as_it_answers(
    answers: threading.Event, config: Path
) -> None:
    async with shop(file=config) as desk:
        await desk.until(lambda: desk.line("lab: large") and "no answer" in desk.line("old"))
        assert re.search(r"lab +2 models · here everything works +1\.5 ms", desk.line("lab"))
        assert "ssh://lab" in desk.line("lab: small")
        assert "40.0 GB" in desk.line("lab: large")
        assert "too large" not in desk.line("lab: large")
        assert re.match(r"✗ old +no answer since \d\d:\d\d \(connection refused\)", desk.line("old"))
        assert "asking …" in desk.line("slow")
        answers.set()
        await desk.until(lambda: "asking" not in desk.line("slow"))


async def test_one_that_did_not_answer_is_asked_again(answers: threading.Event, config: Path) -> None:
    async with shop(file=config, size=(200, 50)) as desk:
        await highlight(desk, "old")
        await desk.until(lambda: "no answer" in desk.line("old"))
        assert "ssh://old" in desk.line("old")
        await desk.shows("old cannot be reached: Connection refused")
        answers.set()
        await desk.type("", "enter")
        await desk.until(lambda: "41 ms" in desk.line("old"))
        assert "no answer" not in desk.line("old")
        await desk.shows("old answers")
        assert len(desk.loads) == 1


@pytest.mark.usefixtures("answers")
def test_that_an_engine_is_asked_no_more_is_news_also_after_its_rows(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, ask = threading.Event(), gather._ask_engine

    def slowly(address: EngineAddress) -> Iterator[list[ModelRow]]:
        yield from ask(address)
        ends.wait(60)

    monkeypatch.setattr(gather, "_ask_engine", slowly)
    models = gather.Models(load({}, {}, config))
    models.ask_engine("lab")
    end = monotonic() + 60
    while not models.take():
        assert monotonic() < end
        sleep(0.01)
    assert models.asks("lab")
    assert not models.take()
    ends.set()
    while models._tasks["ask lab"].running:
        assert monotonic() < end
        sleep(0.01)
    assert models.take()
    assert not models.asks("lab")


def test_rows_that_a_search_has_on_the_way_are_kept_where_an_engine_answers_meanwhile(config: Path) -> None:
    models = gather.Models(load({}, {}, config))
    found, answer, again = (
        ModelRow(wanted=name, name=name, state="ready", engine=engine)
        for name, engine in (("here", ""), ("@lab/a", "lab"), ("@lab/b", "lab"))
    )
    update = partial(models.rows.__setitem__, found.wanted, found)  # as the search makes it, in its thread
    models._list_engine("lab", [answer])
    update()
    models._list_engine("lab", [again])
    assert list(models.rows) == ["here", "@lab/b"]


async def test_enter_chats_with_a_model_there_and_the_header_names_its_machine(
    answers: threading.Event, config: Path
) -> None:
    answers.set()
    async with shop(file=config) as desk:
        await highlight(desk, "lab: large")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open and len(desk.loads) == 2)
        spec = desk.loads[-1]
        assert (spec.engine.name, spec.path) == ("lab", "large")
        await desk.until(lambda: desk.app.chat.phase == "idle")
        for width in (80, 120):
            assert "lab: tiny" in header_line(desk.app.chat, width).text
        assert "cpu, 2 threads" in header_line(desk.app.chat, 120).text
        await desk.type("", "f3")
        await desk.until(lambda: desk.line("lab: large"))
        assert desk.line("lab: large").startswith("●")
        desk.engine.die("the line to lab was cut")
        await desk.until(lambda: desk.app.chat.phase == "failed")
        assert header_line(desk.app.chat, 120).text.endswith("  the line was cut ")


async def test_a_server_that_does_not_tell_its_threads_has_none_in_the_header(
    answers: threading.Event, config: Path
) -> None:
    answers.set()
    async with shop(file=config) as desk:
        desk.engine.info = msgspec.structs.replace(desk.engine.info, device="gpu", threads=0)
        await highlight(desk, "lab: small")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open and desk.app.chat.phase == "idle")
        said = header_line(desk.app.chat, 120).text
        assert "lab: tiny Q4_1   gpu   context" in said
        assert "thread" not in said


async def test_a_draft_model_for_a_model_elsewhere_is_one_of_that_machine(
    answers: threading.Event, config: Path
) -> None:
    answers.set()
    async with shop(file=config) as desk:
        await highlight(desk, "lab: large")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open and desk.app.chat.phase == "idle")
        await desk.type("/draft small", "enter")
        await desk.until(lambda: [one.spec for one in desk.engine.asked(LoadDraft) if one.spec is not None])
        spec = desk.engine.asked(LoadDraft)[-1].spec
        assert spec is not None
        assert (spec.engine.name, spec.path) == ("lab", "small")


@pytest.mark.usefixtures("answers")
async def test_one_that_does_not_answer_says_why_and_nothing_is_loaded(config: Path) -> None:
    async with shop(file=config) as desk:
        await highlight(desk, "old")
        await desk.until(lambda: "no answer" in desk.line("old"))
        await desk.type("", "enter")
        await desk.shows("Connection refused")
        assert desk.open
        assert len(desk.loads) == 1


def test_the_rows_of_an_engine_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    install(tmp_path / "bin", monkeypatch)
    first, *models = engine_rows(lab(), 60.0)
    assert (first.wanted, first.name, first.engine) == ("@lab", "lab", "lab")
    assert first.told == "1 model · here everything works"
    assert first.source == "ssh://lab"
    assert first.round_trip is not None
    assert [(row.wanted, row.name, row.size) for row in models] == [("@lab/smollm2", "lab: smollm2", 98362432)]
    (dead,) = engine_rows(lab("echo Connection refused >&2; exit 255"), 60.0)
    assert (dead.state, dead.problem) == (
        "broken",
        "lab cannot be reached: Connection refused. Check it with: ssh lab",
    )


async def test_the_one_model_of_a_server_is_its_row_however_it_was_asked_for(tmp_path: Path, monkeypatch) -> None:
    def rows(_address: EngineAddress) -> list[ModelRow]:
        return [ModelRow(wanted="@box", name="box", state="ready", engine="box", told="qwen · draws here")]

    monkeypatch.setattr(elsewhere, "engine_rows", rows)
    file = tmp_path / "config.toml"
    file.write_text("[engines.box]\nurl = 'http://box'\n")
    async with shop(file=file) as desk:
        address = EngineAddress(name="box", url="http://box", model="/models/qwen.gguf")
        desk.app.chat.loading.switch_model(Choice(ModelSpec("/models/qwen.gguf", "qwen", engine=address), {}))
        await desk.until(lambda: desk.line("box").startswith("●"))
        assert "draws here" in desk.line("box")
        assert not desk.line("box: tiny")


BOX = EngineAddress(name="box", url="http://box")


def box(address: EngineAddress = BOX, *serves: str) -> ModelRow:
    name = address.shown
    told = f"{serves[0] if serves else 'tiny'} · draws here"
    return ModelRow(
        wanted=address.asked_as(), name=name, state="ready", engine=name, source=address.url, told=told, context=2048,
        round_trip=0.0015, serves=serves,
    )  # fmt: skip


@asynccontextmanager
async def on_box(tmp_path: Path, address: EngineAddress = BOX, engine: str = "") -> AsyncIterator[Shop]:
    """A chat with a server's model, the list of models open."""
    file = tmp_path / "config.toml"
    file.write_text("[engines.box]\nurl = 'http://box'\n")
    async with shop(file=file, opened=False, engine=engine) as desk:
        desk.app.chat.loading.switch_model(Choice(ModelSpec("", address.shown, engine=address), {}))
        await desk.until(lambda: desk.app.chat.phase == "idle")
        await desk.type("", "f3")
        await desk.until(
            lambda: "draws here" in desk.text and not desk.app._models._tasks
        )  # else it is not asked again
        yield desk


async def test_enter_loads_the_other_model_that_a_server_has_by_now(tmp_path: Path, monkeypatch) -> None:
    there = ["/tiny.gguf"]
    monkeypatch.setattr(elsewhere, "engine_rows", lambda _: [box(BOX, *there)])
    async with on_box(tmp_path) as desk:
        assert desk.line("box").startswith("●")
        await desk.type("", "escape")
        there[:] = ["other-7b"]
        await desk.type("", "f3")
        await desk.until(lambda: desk.line("box").startswith("○ box"))
        assert desk.line("box: tiny").startswith("●")
        before = len(desk.loads)
        await desk.find("other-7b")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open and len(desk.loads) == before + 1)
        assert (desk.loads[-1].engine.name, desk.loads[-1].path) == ("box", "")


async def test_a_server_is_left_and_keeps_its_model(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(elsewhere, "engine_rows", lambda _: [box()])
    async with on_box(tmp_path) as desk:
        await desk.type("", "ctrl+t")
        assert "how it runs is set where its server is started" in desk.text
        await desk.type("", "ctrl+o")
        await desk.shows("box is disconnected, and its server keeps the model; the next message connects again")
        assert "It is being loaded" not in desk.text
        assert desk.line("box").startswith("○")


async def test_a_server_of_which_only_the_url_was_given_has_a_row_like_any(tmp_path: Path, monkeypatch) -> None:
    url = "http://127.0.0.1:8200"
    monkeypatch.setattr(elsewhere, "engine_rows", lambda address: [box(address)])
    async with on_box(tmp_path, EngineAddress(url=url), url) as desk:
        await desk.until(lambda: "1.5 ms" in desk.line(url))
        assert re.match(rf"● {re.escape(url)} +tiny · draws here · 2,?048 tokens +1\.5 ms", desk.line(url))


async def test_one_that_was_not_asked_is_told_with_its_model_and_its_context(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(elsewhere, "engine_rows", lambda _: [box(BOX)])
    async with on_box(tmp_path, EngineAddress(url="http://127.0.0.1:8200")) as desk:
        desk.engine.info = msgspec.structs.replace(desk.engine.info, context_trained=8192)
        desk.app.chat.loading.reload_model()
        await desk.until(lambda: desk.app.chat.model is not None and desk.app.chat.model.context_trained == 8192)
        await desk.type("", "escape", "f3")
        assert isinstance(desk.app.screen, ModelsDialog)
        loaded = desk.app.screen.loaded
        assert loaded is not None
        assert (loaded.name, loaded.context) == ("http://127.0.0.1:8200: tiny", 2048)


async def test_an_engine_is_a_model_to_switch_to(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(elsewhere, "engine_rows", lambda _: [box()])
    file = tmp_path / "config.toml"
    file.write_text("[engines.box]\nurl = 'http://box'\n")
    async with shop(file=file, opened=False) as desk:
        await desk.type("/model bo")
        assert "http://box" in desk.text
        await desk.type("x", "enter")
        await desk.until(lambda: desk.loads[-1].engine.name == "box")
