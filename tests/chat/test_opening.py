"""From the store and a configuration to a chat that goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from termchat.chat.opening import choose_model, find_model, load_latest
from termchat.config.origins import followed
from termchat.config.settings import Settings, load
from termchat.conversation.store.store import Store
from termchat.conversation.tree import Conversation
from termchat.decoding.samplers import Tuning
from termchat.models import catalogue
from tests.conversation.stored import saved_with_knobs
from tests.models import gguf_files


def test_only_what_a_person_turned_in_a_chat_stays_when_it_is_opened_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    drawn = {"temperature": 0.5, "top_p": 0.7, "min_p": 0.2, "repeat_penalty": 1.2}
    left = Tuning(**drawn, max_tokens=99, top_k=3)
    places = {"temperature": "panel", "top_p": "model", "min_p": "config.toml", "repeat_penalty": "flag"}
    saved_with_knobs(store, places, left, **drawn)  # top_k and max_tokens were turned after the reply
    found = load_latest(store, load({"repeat_last_n": 9}, {}, tmp_path / "none"))
    again = load_latest(store, load({}, {"TERMCHAT_TOP_P": "0.3", "TERMCHAT_MIN_P": "0.1"}, tmp_path / "none"))
    store.close()
    assert found is not None
    assert again is not None
    turned = {"temperature": 0.5, "repeat_penalty": 1.2, "max_tokens": 99, "top_k": 3}
    assert found.tuning == Tuning(**turned, top_p=0.7, repeat_last_n=9)
    assert {name for name, place in found.origins.items() if place == "session"} == turned.keys()
    other, *_ = followed(
        found.tuning, found.origins, {"temperature": 0.1, "top_k": 1, "min_p": 0.4, "repeat_last_n": 1}
    )
    assert other == Tuning(**turned, min_p=0.4, repeat_last_n=9)
    assert again.tuning == Tuning(**turned, top_p=0.3, min_p=0.1)
    assert again.origins["top_p"] == "TERMCHAT_TOP_P"


def test_what_a_chat_without_a_reply_was_set_to_stays(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    chat = Conversation("")
    session = store.begin(chat, tuning=Tuning(temperature=0.5))
    store.add_node(session, chat.grow_node("user", parent=None, at=0, text="hi"))
    found = load_latest(store, load({"top_k": 9}, {}, tmp_path / "none"))
    store.close()
    assert found is not None
    tuning, origins, _ = followed(found.tuning, found.origins, {"temperature": 0.1, "top_p": 0.1, "top_k": 1})
    assert tuning == Tuning(temperature=0.5, top_k=9, top_p=0.1)
    assert [origins[name] for name in ("temperature", "top_p", "top_k")] == ["session", "model", "flag"]


def test_what_a_model_is_run_with_is_the_users_word_then_the_files_then_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    file = tmp_path / "termchat/models/smollm3/SmolLM3-Q4_K_M.gguf"
    file.parent.mkdir(parents=True)
    file.write_bytes(
        gguf_files.model(
            {"general.sampling.temp": (gguf_files.F32, 0.25), "general.sampling.top_k": (gguf_files.I32, 7)}
        )
    )
    ours = load({"top_p": "0.5"}, {}, tmp_path / "none")
    entry = 'description = "d"\nrepo = "ggml-org/SmolLM3-3B-GGUF"\nfile = "SmolLM3-Q4_K_M.gguf"\n'
    ships = tmp_path / "ships.toml"
    ships.write_text(f"[smollm3]\n{entry}recommended = {{ temperature = 0.6, top_p = 0.95, min_p = 0.01 }}\n")
    monkeypatch.setattr(catalogue.paths, "shipped_file", lambda _: ships)

    def drawn_with() -> tuple[object, ...]:
        tuning = find_model(ours_for("smollm3"))[0].tuning
        assert choose_model(ours, "smollm3").recommended["temperature"] == tuning.temperature
        return tuning.temperature, tuning.top_k, tuning.top_p, tuning.min_p, tuning.stop

    def ours_for(name: str) -> Settings:
        return load({"model": name, "top_p": "0.5"}, {}, tmp_path / "none")

    assert drawn_with() == (0.25, 7, 0.5, 0.01, ())
    own = tmp_path / "termchat/models.toml"
    own.write_text(f'[smollm3]\n{entry}recommended = {{ temperature = 1.5, stop = ["END"] }}\n')
    assert drawn_with() == (1.5, 7, 0.5, Tuning().min_p, ("END",))
