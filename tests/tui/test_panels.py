"""The panels' rows and what TUNE's keys do, without a screen."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from termchat.chat.changes import Notice
from termchat.chat.live import Live
from termchat.decoding.drafting import DraftSettings
from termchat.decoding.records import Candidate, Prefill, Stage, Token
from termchat.decoding.samplers import KNOBS, ORDER, Tuning
from termchat.engine.abilities import EngineAbilities
from termchat.tui.draw.ink import Line
from termchat.tui.draw.marks import bar, count, percent, sparkline
from termchat.tui.keys import tables
from termchat.tui.keys.key import displayed, keys_of, remap
from termchat.tui.keys.tables import TUNE
from termchat.tui.pages import tune_mode
from termchat.tui.pages.candidates import candidate_lines
from termchat.tui.pages.chain_view import chain_lines
from termchat.tui.pages.panel_pages import timing_lines
from termchat.tui.pages.tune_mode import Tune
from termchat.tui.screen.header_line import context_used, header_line
from termchat.tui.screen.key_line import key_line, tune_line
from termchat.tui.screen.notices import notice_lines, queue_lines
from tests import made_records
from tests.tui.fake_engine import FakeEngine, replaced
from tests.tui.running_app import idle_chat


def texts(lines: list[Line]) -> list[str]:
    return [line.text.rstrip() for line in lines]


def candidate(token_id: int, text: str, probability: float, removed_by: str | None = None) -> Candidate:
    return Candidate(token_id, text, 18.2 - token_id, math.log(0.31 / (token_id + 1)), probability, 0.75, removed_by)


def step(**fields: object) -> Token:
    return replaced(made_records.token(0, b"x", "x"), **fields)


def live_with(token: Token) -> Live:
    live = Live()
    live.take_record(token)
    return live


# --- marks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fraction", "filled"), [(0.0, 0), (0.001, 1), (0.5, 5), (1.0, 10), (3.0, 10)])
def test_a_bar_shows_whatever_is_above_zero_and_never_overflows(fraction: float, filled: int) -> None:
    (full, _), (rest, _) = bar(fraction, 10)
    assert (len(full), len(full + rest)) == (filled, 10)


def test_a_sparkline_has_the_newest_at_the_right_and_the_highest_at_full_height() -> None:
    assert sparkline([1, 2, 8, 4], 3) == "▃█▅"
    assert sparkline([8], 3) == "  █"
    assert sparkline([], 2) == "  "


def test_numbers_are_short() -> None:
    assert [count(n) for n in (9999, 12_400, 131_072)] == ["9999", "12.4k", "131k"]
    assert [percent(p) for p in (0.0, 0.0004, 0.31, 1.0)] == ["0.0%", "<0.1%", "31.0%", "100.0%"]


# --- the chain -------------------------------------------------------------------------------------------------------


def test_the_chain_has_a_line_per_knob_with_value_and_survivors_after_its_stage() -> None:
    token = step(stages=[Stage("penalties", 49152), Stage("top_k", 40), Stage("min_p", 4), Stage("temperature", 4)])
    tuning = Tuning(temperature=1.2, stop=("\n6.",), max_tokens=512, repeat_penalty=1.1)
    lines = texts(chain_lines(tuning, token, 43))
    by_label = {line[2:11].strip(): line for line in lines[1:]}
    assert by_label["top_k"].endswith(" 40")
    assert by_label["last_n"].endswith("49152")  # the last knob of the penalties
    assert not by_label["repeat"].endswith("49152")
    assert "1.2" in by_label["temp"]
    assert '"\\n6."' in by_label["stop"]
    assert "512" in by_label["max"]
    assert "fresh" in by_label["seed"]


def test_what_is_off_is_folded_and_can_be_unfolded() -> None:
    def labels(tuning: Tuning, **how: Any) -> list[str]:
        return [line[2:11].strip() for line in texts(chain_lines(tuning, step(), 43, **how))[1:-1]]

    assert labels(Tuning()) == ["repeat", "top_k", "top_p", "min_p", "temp", "stop", "max", "seed"]
    folded = texts(chain_lines(Tuning(), step(), 43))[-1]
    assert folded.split() == ["+", "10", "more", "stages", "are", "off", "v", "shows"]
    assert labels(Tuning(xtc_probability=0.5))[4:6] == ["xtc", "xtc_from"]
    assert labels(Tuning(frequency_penalty=0.5))[:3] == ["repeat", "last_n", "freq"]
    assert "tau" in labels(Tuning(mirostat=2))
    assert labels(Tuning(draft="ngram"))[-4:] == ["draft", "draftmax", "always", "seed"]
    assert labels(Tuning(draft_max=3)) == labels(Tuning())  # it does nothing while nobody drafts
    assert labels(Tuning(), selected="top_h")[4] == "top_h"
    assert len(labels(Tuning(), unfolded=True)) == len(KNOBS)
    assert texts(chain_lines(Tuning(), step(), 43, unfolded=True))[-1].split() == ["every", "stage", "v", "folds"]


def test_the_panel_has_the_order_of_the_chain_and_says_what_does_not_act() -> None:
    tuning = Tuning(order=("temperature", "min_p", "top_k"))
    lines = texts(chain_lines(tuning, None, 43))
    assert [line[2:11].strip() for line in lines[1:6]] == ["temp", "min_p", "top_k", "repeat", "top_p"]
    assert "left out" in lines[5]
    assert "temperature;min_p;top_k" in lines[6]
    replaced = texts(chain_lines(Tuning(mirostat=2), None, 43))
    assert "mirostat instead" in replaced[2]
    assert "mirostat instead" not in replaced[5]  # the temperature


def test_an_engine_with_a_chain_of_its_own_has_its_knobs_in_that_order() -> None:
    own = ("grammar", "logit_bias", "penalties", "temperature", "min_p", "top_k", "top_p")
    lines = texts(chain_lines(Tuning(), None, 43, order=own))
    assert [line[2:11].strip() for line in lines[1:6]] == ["repeat", "temp", "min_p", "top_k", "top_p"]
    chat = idle_chat(FakeEngine())
    assert chat.model is not None
    chat.host.model = msgspec.structs.replace(chat.model, abilities=EngineAbilities(order=own))
    tune = Tune(chat)
    tune.press("down", None)
    assert tune.selected == "min_p"


def test_a_stage_that_cuts_says_what_mass_it_left() -> None:
    token = step(stages=[Stage("penalties", 49152, 1.0), Stage("top_k", 40, 0.912), Stage("top_p", 3, 0.001)])
    lines = {line[2:11].strip(): line for line in texts(chain_lines(Tuning(), token, 43))}
    assert lines["top_k"].split()[-2:] == ["91%", "40"]
    assert lines["top_p"].split()[-2:] == ["<1%", "3"]
    for mass in (0.9999, 1.0):  # of nearly nothing that was cut, the float may be 1
        token = step(stages=[Stage("top_k", 40, 0.4), Stage("top_p", 3, mass)])
        assert ">99%" in texts(chain_lines(Tuning(), token, 43))[3]
    assert "%" not in lines["repeat"]


def test_the_order_is_changed_and_undone_from_the_keyboard() -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    tune.select("top_p")
    pressed(tune, "shift+up")
    assert chat.tuning.order[3:6] == ("top_p", "top_k", "typical_p")
    pressed(tune, "shift+up")
    pressed(tune, "shift+up")
    assert tune.error == "top_p is already first"
    pressed(tune, "z")
    pressed(tune, "z")
    assert (chat.tuning.order, tune.selected) == (ORDER, "top_p")
    tune.select("mirostat")
    pressed(tune, "shift+down")
    assert tune.error == "mirostat always comes last"
    tune.select("order")
    tune.write("top_k;temp")
    assert chat.tuning.order == ("top_k", "temperature")
    tune.select("min_p")
    pressed(tune, "shift+down")
    assert chat.tuning.order == ("top_k", "temperature", "min_p")


def test_the_knob_that_tune_is_on_stands_out_and_shows_what_is_typed() -> None:
    lines = chain_lines(Tuning(), None, 43, selected="top_p", typed="0.9")
    chosen = [line for line in lines if line.ground == "panel"]
    assert [line.text.rstrip() for line in chosen] == ["p top_p    0.9▏"]


@pytest.mark.parametrize("width", [20, 43, 60])
def test_no_line_of_the_chain_is_wider_than_the_panel(width: int) -> None:
    tuning = Tuning(stop=("a very long stop sequence that fits no panel at all",), seed=2**53 - 1)
    assert all(len(line.text) <= width for line in chain_lines(tuning, step(), width) if width >= 30)


# --- candidates ------------------------------------------------------------------------------------------------------


def test_a_candidate_shows_logit_both_probabilities_and_the_dice() -> None:
    token = step(
        id=1, candidates=[candidate(0, " hungry", 0.56), candidate(1, " old", 0.44), candidate(2, "x", 0, "min_p")]
    )
    _, first, drawn, cut = texts(candidate_lines(live_with(token), 43, 10))
    assert first.split() == ["·hungry", "18.2", "31.0%", "56.0%"]
    assert drawn.split() == ["·old", "17.2", "15.5%", "44.0%", "●"]
    assert cut.split() == ["x", "16.2", "10.3%", "cut", "min_p"]


def test_the_drawn_token_is_shown_even_where_there_is_no_room_for_its_rank() -> None:
    token = step(id=9, candidates=[candidate(i, f"t{i}", 0.1) for i in range(10)])
    lines = texts(candidate_lines(live_with(token), 43, 3))
    assert [line.split()[0] for line in lines[1:]] == ["t0", "t1", "t9"]
    assert lines[-1].endswith("●")


def test_a_wide_panel_shows_the_noise() -> None:
    token = step(id=0, candidates=[candidate(0, "a", 1.0)])
    narrow, wide = (texts(candidate_lines(live_with(token), width, 3))[1] for width in (43, 56))
    assert "+0.75" not in narrow
    assert "+0.75" in wide


def test_a_preview_is_marked_and_says_when_it_was_recomputed() -> None:
    live = live_with(step())
    live.preview = step()
    assert texts(candidate_lines(live, 43, 1))[0].startswith("PREVIEW ")
    assert "recomputed" not in texts(candidate_lines(live, 43, 1))[0]
    live.preview_recomputed = True
    assert texts(candidate_lines(live, 43, 1))[0].startswith("PREVIEW recomputed")
    assert texts(candidate_lines(live, 43, 1, 0.0134))[0].startswith("PREVIEW ±1.3% ")
    assert texts(candidate_lines(live, 43, 1, 0.0))[0].startswith("PREVIEW ±0 ")


def test_foreign_text_in_candidates_and_errors_is_shown_as_marks() -> None:
    token = step(id=0, candidates=[candidate(0, "\x1b]52;c;x\x07\u202e", 1.0)])
    shown = "".join(texts(candidate_lines(live_with(token), 43, 3)))
    shown += "".join(texts(notice_lines([Notice("bad \x1b[31m\x9b", "\u202ehint\nhint", "error")], 60)))
    shown += "".join(texts(queue_lines(["two\nlines \x1b[2J"], 60)))
    assert "␛" in shown
    assert not set("\x1b\x07\x9b\u202e\n") & set(shown)


# --- timing and header -----------------------------------------------------------------------------------------------


def test_timing_shows_rates_from_the_engines_own_times() -> None:
    live = Live()
    live.prefill = Prefill(410, 310, [50, 50], 500.0)
    live.ttft_ms = 84.4
    for _ in range(5):
        live.take_record(step(decode_us=9000, sample_us=1000, entropy=3.9, p_end=0.002))
    shown = "\n".join(texts(timing_lines(live, 43)))
    for part in ("entropy 3.90 bit", "p(end) 0.20%", "TTFT 84 ms", "prefill 200 t/s", "310 reused", "decode 100 t/s"):
        assert part in shown
    assert "sampling 10%" in shown
    assert all(len(line.text) <= 43 for line in timing_lines(live, 43))


def test_what_is_only_a_bound_is_marked() -> None:
    live = live_with(step(entropy=3.9, p_end=0.002, state={"tail": 0.0083}))
    shown = "\n".join(texts(timing_lines(live, 43)))
    assert "entropy ≤3.90 bit" in shown
    assert "p(end) ≤0.20%" in shown


def test_the_header_keeps_what_matters_most_where_there_is_little_room() -> None:
    chat = idle_chat(FakeEngine())
    chat.conversation.title = "fox and bear"
    wide, narrow = header_line(chat, 120).text, header_line(chat, 60).text
    for part in ("termchat", "tiny Q4_1", "cpu, 2 threads", "0/2048", "fox and bear", "ready"):
        assert part in wide
    assert "0/2048" in narrow
    assert "ready" in narrow
    assert "fox" not in narrow
    assert len(narrow) <= 60


def test_the_context_gauge_counts_the_path_and_not_the_branches() -> None:
    engine = FakeEngine()
    chat = idle_chat(engine)
    chat.send("hi")
    chat.pump_events()
    chat.pump_events()
    engine.say("a", "b")
    engine.end()
    chat.pump_events()
    assert context_used(chat.conversation) == len(chat.conversation.list_ids()) == 5
    chat.forks.regenerate()
    chat.pump_events()
    engine.say("c")
    chat.pump_events()
    assert context_used(chat.conversation) == 4


def test_the_key_line_names_what_works_now_and_remapped_keys() -> None:
    idle, busy = (key_line(situation, 130).text for situation in ("idle", "busy"))
    assert "Enter send" in idle
    assert "Enter queue" in busy
    assert "Esc stop" in busy
    assert "Esc" not in idle
    remap({"tune": "f9"})
    try:
        assert "F9 tune" in key_line("idle", 130).text
    finally:
        remap({})
    assert "Ctrl+Q quit" in key_line("idle", 40).text  # the way out is always there
    assert "Ctrl+O restart" in key_line("failed", 80).text
    let_go = key_line(tables.situation_of("no model", empty=False), 100).text
    assert all(told in let_go for told in ("Enter send", "Ctrl+O load", "F3 models"))  # the next message loads it again


def test_keys_are_named_as_they_are_written_on_a_keyboard() -> None:
    named = [displayed([key]) for key in (*tables.COMPOSER, *tables.CHAT, *tables.APP)]
    assert "Ctrl+_" in named
    assert all(len(name) < 14 for name in named)  # the list of keys has no room for longer ones


def test_every_key_has_its_own_id_key_and_help() -> None:
    table = [*tables.COMPOSER, *tables.CHAT, *tables.APP]
    names = [name for key in table for name in key.keys.split(",")]
    assert len(set(names)) == len(names)
    assert len({key.id for key in table}) == len(table)
    assert all(key.help and key.binding.tooltip == key.help for key in table)


# --- TUNE ------------------------------------------------------------------------------------------------------------


def pressed(tune: Tune, *names: str) -> None:
    for name in names:
        character = name if len(name) == 1 else {"space": " "}.get(name)
        tune.press({".": "full_stop", "-": "minus"}.get(name, name), character)


def test_letters_pick_arrows_move_and_undo_goes_all_the_way_back() -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "k", "right", "right", "t", "left", "shift+right")
    assert (chat.tuning.top_k, chat.tuning.temperature) == (42, 1.0)
    pressed(tune, "z", "z", "z")
    assert (chat.tuning.top_k, chat.tuning.temperature) == (41, 0.8)
    pressed(tune, "z", "z")
    assert (chat.tuning, tune.error) == (Tuning(seed=1), "nothing to undo")


def test_a_typed_value_counts_when_it_is_accepted_and_a_bad_one_says_the_range() -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "p", "0", ".", "5")
    assert (tune.typed, chat.tuning.top_p) == ("0.5", 0.95)
    pressed(tune, "enter")
    assert (tune.typed, chat.tuning.top_p) == (None, 0.5)
    pressed(tune, "7", "enter")
    assert "top_p must be a number from 0 to 1" in tune.error
    assert chat.tuning.top_p == 0.5
    assert "from 0 to 1" in tune_line(tune, 120).text
    assert tune.drop()
    assert not tune.drop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What time it is in TUNE."""
    now = [100.0]
    monkeypatch.setattr(tune_mode, "monotonic", lambda: now[0])
    return now


def typed(tune: Tune, clock: list[float], text: str, gap: float = 0.2) -> None:
    for character in text:
        clock[0] += gap
        pressed(tune, {" ": "space"}.get(character, character))


def test_what_was_typed_by_mistake_is_taken_back_at_once(clock: list[float]) -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "k", "right")
    clock[0] += 5
    typed(tune, clock, "exact words, made up: 0.3")
    pressed(tune, "enter")
    changed = {name for name in KNOBS if getattr(chat.tuning, name) != getattr(Tuning(seed=1), name)}
    assert changed == {"top_k", "top_p"}
    clock[0] += 2
    pressed(tune, "z")
    assert (chat.tuning, tune.selected) == (Tuning(seed=1, top_k=41), "top_k")
    pressed(tune, "z")
    assert chat.tuning == Tuning(seed=1)


def test_letters_that_only_picked_knobs_are_taken_back_to_the_one_that_was_selected(clock: list[float]) -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "k", "right")
    clock[0] += 5
    typed(tune, clock, "me")
    clock[0] += 2
    pressed(tune, "z")
    assert (chat.tuning.top_k, tune.selected) == (41, "top_k")


def test_letters_that_do_nothing_are_taken_back_before_what_was_turned(clock: list[float]) -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "k", "right")
    clock[0] += 5
    typed(tune, clock, "hello")
    clock[0] += 2
    pressed(tune, "z")
    assert chat.tuning.top_k == 41
    pressed(tune, "z")
    assert chat.tuning == Tuning(seed=1)


def test_what_is_turned_with_a_look_at_each_is_taken_back_one_by_one(clock: list[float]) -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    typed(tune, clock, "mxkx", gap=1.0)
    clock[0] += 1
    typed(tune, clock, "p0.5")
    pressed(tune, "enter")
    typed(tune, clock, "t1.2")
    pressed(tune, "enter")
    before = Tuning(seed=1)
    for turned in ({"min_p": 0.0, "top_k": 0, "top_p": 0.5}, {"min_p": 0.0, "top_k": 0}, {"min_p": 0.0}, {}):
        clock[0] += 1
        pressed(tune, "z")
        assert chat.tuning == before.turn_knobs(turned)


def test_a_letter_that_means_nothing_says_so_and_how_to_leave() -> None:
    tune = Tune(idle_chat(FakeEngine()))
    for key, said in (("q", "q does nothing here; Esc leaves TUNE"), ("space", "Space does nothing here")):
        tune.press(key, {"space": " "}.get(key, key))
        assert said in tune_line(tune, 120).text
    assert not tune.press("f12", None)
    assert not tune.drop()  # Esc leaves at once


def test_off_and_default() -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "m", "x")
    assert chat.tuning.min_p == 0.0
    pressed(tune, "d")
    assert chat.tuning.min_p == 0.05
    pressed(tune, "i", "x")
    assert chat.tuning.seed is None
    pressed(tune, "right")
    assert "type a number" in tune.error


def test_a_choice_moves_stops_at_the_ends_and_is_undone() -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    pressed(tune, "G", "right", "left", "left")
    assert chat.tuning.draft == "off"
    pressed(tune, *["right"] * 5)
    assert chat.tuning.draft == "auto"
    pressed(tune, "F", "left", "shift+left")
    assert chat.tuning.drafts == DraftSettings("auto", 10)
    pressed(tune, "z", "z", "z")
    assert chat.tuning.drafts == DraftSettings("model", 15)
    pressed(tune, "x")
    assert chat.tuning.drafts is None
    pressed(tune, "3", "enter")
    assert tune.error == "draft must be one of off, ngram, model, auto, not '3'"


def test_stop_sequences_are_added_with_escapes_and_removed_by_name() -> None:
    chat = idle_chat(FakeEngine())
    tune = Tune(chat)
    tune.select("stop")
    tune.write("\\n6.")
    tune.write("END")
    assert chat.tuning.stop == ("\n6.", "END")
    tune.write("\\n6.")
    assert chat.tuning.stop == ("END",)
    pressed(tune, "x")
    assert chat.tuning.stop == ()
    pressed(tune, "z")
    assert chat.tuning.stop == ("END",)


def test_no_knobs_letter_is_a_command_of_tune() -> None:
    letters = {knob.key for knob in KNOBS.values()}
    others = {name for key in TUNE if not key.action.startswith("select") for name in keys_of(key)}
    assert len(letters) == len(KNOBS)
    assert not letters & others
