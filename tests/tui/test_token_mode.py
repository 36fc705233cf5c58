"""Token mode on a fake engine: every key, and what then stands on the screen."""

from __future__ import annotations

import pytest
from textual.events import Paste
from textual.widgets import Input, Label

from termchat.decoding.conditions import Threshold
from termchat.decoding.records import Candidate
from termchat.engine.port import Explain, Force, Inspect, Pause, Resume, Score, Step
from termchat.tui.lists.tokenizer import MOST_TYPED
from termchat.tui.transcript import TokenRef, TranscriptView
from tests.tui.running_app import Desktop, desktop
from tests.tui.token_mode import index, looking

# --- in, out and about -----------------------------------------------------------------------------------------------


async def test_token_mode_shows_the_record_of_the_token_and_leaves_what_is_being_written_alone() -> None:
    async with looking() as desk:
        assert "TOKEN 10" in desk.text
        assert "CANDIDATES" in desk.text
        assert "hjkl move" in desk.text
        await desk.type("", "escape")
        assert "TOKEN 10" not in desk.text
        assert desk.composer.text == "draft"
        await desk.type("ed")
        assert desk.composer.text == "drafted"


async def test_what_is_told_again_stands_there_once() -> None:
    async with looking() as desk:
        await desk.type("", "n", "n", "space", "n")
        assert desk.text.count("pause the reply before stepping") == 1
        assert desk.text.count("no reply is running") == 1


async def test_without_a_token_it_says_so_and_the_composer_keeps_the_keyboard() -> None:
    async with desktop() as desk:
        await desk.type("", "ctrl+g")
        assert "no tokens yet" in desk.text
        await desk.type("hello")
        assert desk.composer.text == "hello"


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        (("h",), 9), (("left", "left"), 8), (("h", "h", "l"), 9), (("h", "right"), 10), (("g",), 0), (("g", "G"), 10),
        (("0",), 5), (("home",), 5), (("0", "$"), 10), (("0", "end"), 10), (("g", "j"), 5), (("0", "up"), 0),
        (("{",), 0), (("g", "down"), 5), (("0", "k"), 0), (("h", "h", "}"), 8),
    ],
)  # fmt: skip
async def test_the_cursor_moves(keys: tuple[str, ...], at: int) -> None:
    async with looking() as desk:
        await desk.type("", *keys)
        assert index(desk) == at
        assert f"TOKEN {at}" in desk.text


async def test_jumps_go_to_uncertain_surprising_and_newly_set_tokens_and_to_forks() -> None:
    async with desktop() as desk:
        await desk.sent("tell me", "Once")
        desk.engine.say(" sure", entropy=9.0)
        desk.engine.say(" and", " then")
        desk.engine.say(" odd", rank=7)
        await desk.type("", "ctrl+t", "t", "2", "enter", "escape")
        desk.engine.say(" hot", settings=1)
        desk.engine.say(" end")
        desk.engine.end()
        await desk.settle()
        await desk.type("", "ctrl+g", "g", "e")
        assert index(desk) == 1
        await desk.type("", "s")
        assert index(desk) == 4
        await desk.type("", "c")
        assert index(desk) == 5
        await desk.type("", "G", "C")
        assert index(desk) == 5
        await desk.type("", "S")
        assert index(desk) == 4
        await desk.type("", "E")
        assert index(desk) == 1


async def test_a_cursor_on_a_token_without_candidates_says_how_to_get_them() -> None:
    async with looking() as desk:
        desk.chat.session.kept = {}  # nothing is on record
        await desk.type("", "h")
        assert "No candidates were recorded for this token" in desk.text
        assert "CANDIDATES" not in desk.text
        await desk.type("", "i")
        assert desk.engine.asked(Inspect)[-1].done == 9
        assert "RECOMPUTED" in desk.text
        assert "7.25 bit" in desk.text
        assert "TOKEN 9" not in desk.text
        await desk.type("", "h")
        assert "RECOMPUTED" not in desk.text


async def test_the_end_token_goes_by_its_name() -> None:
    async with looking(ended=False) as desk:
        end = [
            Candidate(2, "<|im_end|>", 18.2, -0.5, 0.6, 0.25, None),
            Candidate(9, " and", 17.0, -1.7, 0.2, 0.1, None),
        ]
        desk.engine.say("", id=2, bytes=b"", candidates=end)
        desk.engine.end()
        await desk.settle()
        await desk.type("", "G")
        assert "TOKEN 11 <|im_end|>" in desk.text


@pytest.mark.parametrize(("reason", "said"), [("end", False), ("length", True), ("user", True)])
async def test_space_on_a_reply_that_is_over_says_how_to_go_on(reason: str, said: bool) -> None:
    async with looking(ended=False) as desk:
        desk.engine.end(reason)
        await desk.settle()
        await desk.type("", "space")
        told = " ".join(desk.text.split())
        assert "X restarts from here, paused" in told
        assert ("Ctrl+O continues it" in told) == said


# --- forks -----------------------------------------------------------------------------------------------------------


async def test_a_number_goes_on_from_the_token_with_that_candidate() -> None:
    async with looking() as desk:
        await desk.type("", "4")
        request = desk.engine.generated[-1]
        assert request.ids[-10:] == [1000 + step for step in range(10)]
        assert [(one.step, one.id) for one in request.script] == [(10, 3)]
        assert "A fox met a bear c3" in desk.text
        assert "TOKEN 10 ·c3" in desk.text  # the cursor stands on what was chosen


async def test_after_a_fork_in_mid_reply_the_cursor_stands_on_the_forked_token_and_stays_there() -> None:
    async with looking(ended=False) as desk:
        await desk.type("", "h", "h", "4")
        assert "TOKEN 8 ·c3" in desk.text
        desk.engine.say(" and", " more")
        await desk.settle()
        assert "TOKEN 8 ·c3" in desk.text


async def test_after_a_cut_the_cursor_waits_for_the_first_token_that_is_drawn_anew() -> None:
    async with looking() as desk:
        await desk.type("", "h", "h", "x")
        assert "TOKEN 7" in desk.text
        desk.engine.say(" wolf", " ran", id=2001)
        await desk.settle()
        assert "TOKEN 8 ·wolf" in desk.text


async def test_who_moves_on_before_the_fork_has_a_token_is_left_where_they_are() -> None:
    async with looking() as desk:
        await desk.type("", "h", "h", "x", "h")
        desk.engine.say(" wolf")
        await desk.settle()
        assert "TOKEN 6" in desk.text


async def test_a_text_goes_on_from_the_token_and_letters_are_not_keys_while_it_is_typed() -> None:
    async with looking() as desk:
        await desk.type("", "g", "t", "space", "b", "e", "e", "enter")
        request = desk.engine.generated[-1]
        assert [desk.engine.words.text(one.id or 0) for one in request.script] == [" bee"]
        assert request.done == 0
        assert desk.composer.text == "draft"


async def test_a_line_that_is_typed_is_dropped_by_esc_before_token_mode_is() -> None:
    async with looking() as desk:
        count = len(desk.engine.generated)
        await desk.type("", "t", "b", "escape")
        assert "TOKEN 10" in desk.text
        await desk.type("", "h")
        assert index(desk) == 9
        assert len(desk.engine.generated) == count


async def test_cutting_draws_on_from_before_the_token_with_the_same_seed_and_step() -> None:
    async with looking() as desk:
        first = desk.engine.generated[-1]
        await desk.type("", "h", "h", "x")
        request = desk.engine.generated[-1]
        assert request.seed == first.seed
        assert request.done == 8
        assert request.script == ()
        assert not request.paused


# --- pause and step --------------------------------------------------------------------------------------------------


async def test_space_pauses_and_resumes_and_the_panel_shows_what_waits() -> None:
    async with looking(ended=False) as desk:
        await desk.type("", "space")
        assert any(isinstance(command, Pause) for command in desk.engine.commands)
        assert "PENDING 11" in desk.text
        assert "paused" in desk.text
        await desk.type("", "space")
        assert any(isinstance(command, Resume) for command in desk.engine.commands)
        assert "PENDING" not in desk.text


@pytest.mark.parametrize(("key", "unit", "taken"), [("n", "token", 1), (")", "sentence", 3), ("]", "line", 3)])
async def test_a_paused_reply_is_stepped(key: str, unit: str, taken: int) -> None:
    async with looking(ended=False) as desk:
        await desk.type("", "space", key)
        assert desk.engine.asked(Step) == [Step(unit)]  # type: ignore[arg-type]
        assert f"PENDING {11 + taken}" in desk.text


async def test_a_paused_reply_takes_a_candidate_and_the_taken_one_says_that_it_was_forced() -> None:
    async with looking(ended=False) as desk:
        await desk.type("", "space", "2")
        assert Force([1]) in desk.engine.commands
        assert "PENDING 12" in desk.text
        await desk.type("", "h")
        assert "TOKEN 11" in desk.text
        assert "forced" in desk.text


async def test_what_is_not_taken_yet_has_no_time_of_sampling() -> None:
    async with looking(ended=False) as desk:
        assert "sample " in desk.text
        desk.engine.wait(sample_us=0)
        await desk.settle()
        await desk.type("", "G", "l")
        assert "PENDING 11" in desk.text
        assert "sample " not in desk.text


async def test_tokens_of_a_later_piece_count_from_the_beginning_of_the_reply_without_a_record_too() -> None:
    async with looking() as desk:
        desk.chat.session.kept = {}  # nothing is on record
        await desk.type("", "h", "t", "o", "k", "enter")
        assert "TOKEN 9 ok" in desk.text
        assert "forced" in desk.text


async def test_a_paused_reply_takes_a_text() -> None:
    async with looking(ended=False) as desk:
        await desk.type("", "space", "t", "o", "k", "enter")
        (forced,) = desk.engine.asked(Force)
        assert [desk.engine.words.text(one) for one in forced.ids] == ["ok"]
        assert "bear.ok" in desk.text


async def test_from_what_waits_the_cursor_goes_back_into_the_reply_and_on_to_it_again() -> None:
    async with looking(ended=False) as desk:
        await desk.type("", "space", "left")
        assert "TOKEN 10" in desk.text
        await desk.type("", "left")
        assert "TOKEN 9" in desk.text
        await desk.type("", "l", "l")
        assert "PENDING 11" in desk.text


async def test_cutting_with_shift_waits_there() -> None:
    async with looking() as desk:
        await desk.type("", "h", "X")
        assert desk.engine.generated[-1].paused
        assert "PENDING 9" in desk.text


async def test_a_breakpoint_pauses_a_reply_says_why_and_ctrl_o_goes_on() -> None:
    async with desktop() as desk:
        await desk.sent("go", "some")
        desk.engine.wait("entropy > 3")
        await desk.settle()
        assert "paused" in desk.text
        assert "entropy > 3" in desk.text
        await desk.type("", "ctrl+o")
        assert desk.engine.asked(Resume)


# --- questions -------------------------------------------------------------------------------------------------------


async def test_at_80_columns_it_says_that_an_id_may_be_typed() -> None:
    async with desktop(size=(80, 24)) as desk:
        await desk.sent("go", "some", " more")
        await desk.type("", "ctrl+g", "w")
        await desk.settle()
        assert "why not … ? text or #id" in desk.text


@pytest.mark.parametrize(("typed", "about"), [(("space", "t"), "·t"), (("number_sign", "9"), "·c9")])
async def test_why_not_is_asked_by_text_or_id_and_answered_in_the_panel(typed: tuple[str, ...], about: str) -> None:
    async with looking() as desk:
        await desk.type("", "w", *typed, "enter")
        assert desk.engine.asked(Explain)[0].done == 10
        for said in (f"WHY NOT {about}", "cut here", "Cut by min_p", "wins with temperature"):
            assert said in desk.text
        await desk.type("", "escape")
        assert "TOKEN 10" in desk.text


async def test_what_if_is_live_while_tune_turns_knobs_and_enter_forks_where_it_parts() -> None:
    async with looking() as desk:
        await desk.type("", "v")
        assert "Every token would stay the same" in desk.text
        await desk.type("", "ctrl+t", "t", "1", ".", "4", "enter", "escape")
        assert desk.engine.asked(Score)[-1].samplers.temperature == 1.4
        assert "differs at 2" in desk.text
        assert "·a  → ·c7" in desk.text
        assert "would be cut 1 of 11" in desk.text
        await desk.type("", "enter")
        request = desk.engine.generated[-1]
        assert request.done == 2
        assert request.samplers.temperature == 1.4


async def test_how_it_ended() -> None:
    async with looking() as desk:
        await desk.type("", "o")
        assert "P(END)" in desk.text
        assert "The model ended the reply" in desk.text


async def test_how_a_reply_in_pieces_ended_is_said_of_the_whole_wherever_the_cursor_is() -> None:
    async with looking() as desk:
        await desk.type("", "h", "x")
        desk.engine.say(" wolf", " ran", " off", p_end=0.25)
        desk.engine.end("length")
        await desk.settle()
        await desk.type("", "o")
        for keys in ((), ("g",)):
            await desk.type("", *keys)
            assert "12 tokens, 0% to 100%" in desk.text
            assert "before ·ran" in desk.text
            assert "The model ended the reply" not in desk.text


async def test_what_if_says_which_knobs_are_not_as_they_were_for_every_piece_and_settings_of_the_reply() -> None:
    async with desktop() as desk:
        await desk.sent("tell me", "Once", " upon")
        await desk.type("", "ctrl+t", "t", "1", ".", "4", "enter", "escape")
        desk.engine.say(" a", settings=1)
        desk.engine.end("length")
        await desk.settle()
        await desk.type("", "ctrl+g", "v")
        assert "temperature 0.8 → 1.4" in desk.text
        await desk.type("", "ctrl+t", "t", "0", ".", "8", "enter", "escape")
        assert "temperature 1.4 → 0.8" in desk.text
        await desk.type("", "G", "x")  # what was drawn with other knobs is no part of this branch
        desk.engine.say("There")
        desk.engine.end("length")
        await desk.settle()
        await desk.type("", "v")
        assert "No knob has changed yet" in desk.text


# --- dialogs ---------------------------------------------------------------------------------------------------------


async def test_the_prompt_is_shown_with_control_tokens_marked() -> None:
    async with looking() as desk:
        await desk.type("", "p")
        assert "Prompt: 3 tokens (2 control)" in desk.text
        assert "<|im_start|>" in desk.text
        await desk.type("", "escape", "h")
        assert index(desk) == 9


async def test_the_tokens_of_the_reply_are_shown_in_line_with_their_ids_on_demand() -> None:
    async with looking() as desk:
        node = desk.chat.conversation.nodes[2]
        text, ids = node.text(), [str(i) for i in node.ids]
        await desk.type("", "T")
        assert f"Reply: {len(ids)} tokens" in desk.text
        assert f"{len(text)} characters ({sum(map(str.isalpha, text))} letters)" in desk.text
        assert text.split("\n")[0].replace(" ", "·") in desk.text
        assert ids[3] not in desk.text
        await desk.type("", "tab")
        assert all(number in desk.text for number in ids)
        await desk.type("", "tab")  # one per line, with its bytes
        assert "20 66 6f 78" in desk.text
        await desk.type("", "tab")
        assert text.split("\n")[0].replace(" ", "·") in desk.text
        assert ids[3] not in desk.text


async def test_any_text_is_tokenized_by_a_command_typed_or_pasted() -> None:
    async with looking() as desk:
        await desk.type("", "escape", *["backspace"] * 5)
        await desk.type("/tokens a fox\\nand", "enter")
        field = desk.app.screen.query_one(Input)
        assert field.value == "a fox\\nand"
        assert "a·fox⏎" in desk.text
        field.post_message(Paste(" one\ntwo\r\n\x1b[2J"))
        await desk.settle()
        assert field.value == "a fox\\nand one\\ntwo\\n\\u001b[2J"  # all of it, not its first line
        assert "two⏎" in desk.text
        await desk.type("", "escape")
        desk.composer.text = "x" * (MOST_TYPED + 1)
        await desk.type("", "ctrl+g", "P")
        assert not desk.app.screen.query(Input)  # too long for a field: it can be read
        assert f"{MOST_TYPED + 1:,} characters" in desk.text


async def test_the_tokenizer_begins_with_what_is_being_typed_and_follows() -> None:
    async with looking() as desk:
        await desk.type("", "P")
        assert "draft" in desk.text
        assert "1 token" in desk.text
        await desk.type(" it")
        assert "2 tokens" in desk.text
        await desk.type("", "escape", "escape")
        assert desk.composer.text == "draft"


async def test_breakpoints_are_added_toggled_and_deleted_and_a_mistake_is_told_in_place() -> None:
    async with looking() as desk:
        await desk.type("", "b")
        await desk.type("entropy 3", "enter")
        assert "for example: entropy > 3" in " ".join(desk.text.split())
        assert desk.chat.breakpoints == ()
        await desk.type("", *["backspace"] * 9)
        await desk.type("entropy ", "greater_than_sign", "space", "3", "enter")
        (rule,) = desk.chat.breakpoints
        assert (rule.condition, rule.enabled) == (Threshold("entropy", ">", 3.0), True)
        assert "[x] pauses at  entropy > 3" in desk.text
        await desk.type("", "enter")
        assert not desk.chat.breakpoints[0].enabled
        assert "[ ] pauses at  entropy > 3" in desk.text
        await desk.type("", "delete")
        assert desk.chat.breakpoints == ()
        await desk.type("", "escape", "h")
        assert index(desk) == 9


async def test_the_tree_is_walked_named_deleted_brought_back_compared_and_left_for_another_branch() -> None:
    async with looking() as desk:
        await desk.type("", "h", "x")
        desk.engine.say(" wolf", id=2001)
        desk.engine.say(" there", id=2002)
        desk.engine.end()
        await desk.settle()
        chat = desk.chat.conversation
        assert chat.leaf == 3
        await desk.type("", "y")
        assert "at 9 · 2 tok" in desk.text
        await desk.type("", "n")
        await desk.type("wolf", "enter")
        assert chat.nodes[3].name == "wolf"
        await desk.type("", "up", "c")
        assert "the first 9 tokens are identical; then 2 left, 2 right" in desk.text
        await desk.type("", "escape", "down", "d")
        assert chat.nodes[3].deleted
        await desk.type("", "z")
        assert not chat.nodes[3].deleted
        await desk.type("", "G", "h", "enter")
        assert chat.leaf == 2
        assert "bear" in desk.text


async def test_a_tree_with_nothing_to_bring_back_says_so_in_the_dialog() -> None:
    async with looking() as desk:
        await desk.type("", "y", "z")
        told = desk.app.screen.query_one(".problem", Label)
        assert str(told.content) == "nothing was deleted"
        await desk.type("", "escape")
        await desk.settle()
        assert "nothing was deleted" not in desk.text


async def test_all_keys_are_listed() -> None:
    async with looking((80, 24)) as desk:
        await desk.type("", "?")
        assert "Draw one token, then pause again" in desk.text
        await desk.type("quit")
        assert "Ctrl+Q" in desk.text
        assert "Draw one token, then pause again" not in desk.text


def keys_of(desk: Desktop) -> str:
    return desk.text.splitlines()[-1]


async def test_at_80_columns_the_key_line_always_has_the_way_out_and_all_keys_and_first_what_is_used_most() -> None:
    async with looking((80, 24), ended=False) as desk:
        essential = ("? keys", "Esc back")
        for keys, wanted in (((), ("Space pause",)), (("space",), ("Space resume", "n step", "1-9 force", "t text"))):
            await desk.type("", *keys)
            assert all(words in keys_of(desk) for words in ("hjkl move", *wanted, *essential))
        desk.engine.end()
        await desk.settle()
        assert all(words in keys_of(desk) for words in ("1-9 fork", "t text", "w why", "x redraw", *essential))


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (200, 60)])
async def test_token_mode_at_other_sizes(size: tuple[int, int]) -> None:
    async with looking(size) as desk:
        if size[0] >= 80:
            assert "TOKEN 10" in desk.text
        await desk.type("", "g", "escape", "escape")
        assert desk.composer.has_focus


async def test_ctrl_l_cycles_the_token_looks_in_token_mode_and_all_of_them_outside() -> None:
    async with looking() as desk:
        transcript = desk.app.query_one(TranscriptView)
        seen = []
        for _ in range(5):
            await desk.type("", "ctrl+l")
            seen.append(transcript.look)
        assert seen == ["after", "entropy", "rank", "time", "probability"]
        await desk.type("", "escape", "ctrl+l")
        assert transcript.look == "probability"


async def test_a_reply_that_waits_with_its_very_first_token_can_be_stepped() -> None:
    async with desktop((120, 40)) as desk:
        await desk.type("tell me", "enter")
        desk.engine.wait("entropy > 3")
        await desk.settle()
        await desk.type("", "ctrl+g")
        assert "PENDING 0" in desk.text
        await desk.type("", "n")
        assert "PENDING 1" in desk.text


@pytest.mark.parametrize(
    ("keys", "after"), [(["ctrl+g"], "TOKEN MODE"), (["ctrl+g", "t"], "TOKEN MODE"), (["ctrl+t"], "TUNE"), ([], "CHAT")]
)
async def test_what_has_the_keyboard_gets_it_back_after_a_moment_in_which_the_terminal_was_too_small(
    keys: list[str], after: str
) -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So ", "it ", "is.")
        await desk.type("", *keys)
        before = desk.app.focused
        for size in ((39, 11), (120, 40)):
            await desk.pilot.resize_terminal(*size)
            await desk.settle()
        assert desk.app.focused is before
        assert desk.app.screen.place == after  # type: ignore[attr-defined]


async def test_what_is_typed_goes_on_after_the_terminal_was_too_small() -> None:
    async with desktop() as desk:
        await desk.sent("Hello", "So ", "it ", "is.")
        desk.engine.end()
        await desk.type("", "ctrl+g", "t", "a", "b")
        for size in ((39, 11), (120, 40)):
            await desk.pilot.resize_terminal(*size)
            await desk.settle()
        await desk.type("c")
        assert "\n abc" in desk.text


# --- one page, one time ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [(), ("f6",), ("tab", "tab")], ids=["panel", "large view", "next"])
async def test_in_tune_an_older_token_is_shown_with_the_knobs_of_now_and_nothing_of_then(keys: tuple[str, ...]) -> None:
    async with looking() as desk:
        await desk.type("", "left", "left", *keys)
        assert "TOKEN 8 ·a  as recorded" in desk.text
        await desk.type("", "ctrl+t", "t")
        assert "RECOMPUTED 8 x  with the current knobs" in desk.text
        assert "as recorded" not in desk.text
        asked = desk.engine.asked(Inspect)
        assert (asked[-1].done, asked[-1].samplers) == (8, desk.chat.tuning.samplers())
        await desk.type("1.7", "enter")
        assert desk.engine.asked(Inspect)[len(asked) :][-1].samplers.temperature == 1.7
        await desk.type("", "escape")
        assert "TOKEN 8 ·a  as recorded" in desk.text
        assert "with the current knobs" not in desk.text
        count = len(desk.engine.asked(Inspect))
        desk.chat.adjust_setting("temperature", 0.3)
        await desk.settle()
        assert len(desk.engine.asked(Inspect)) == count + 1  # the preview alone


async def test_what_is_beside_the_knob_belongs_to_what_is_below_it() -> None:
    async with looking() as desk:
        await desk.type("", "left", "ctrl+t", "t")
        knob = next(line for line in desk.text.split("\n") if "│ t temp" in line)
        assert knob.rstrip().endswith(" 4")  # what the stage leaves of the token that was asked about
        desk.chat.loading.unload_model()
        await desk.settle()
        await desk.type("", "escape", "ctrl+t", "t")
        assert "TOKEN 9 ·bear  as recorded" in desk.text  # nobody can be asked
        knob = next(line for line in desk.text.split("\n") if "│ t temp" in line)
        assert knob.rstrip().endswith("─")


async def test_a_token_that_is_clicked_in_tune_is_asked_about_in_its_turn() -> None:
    async with looking() as desk:
        await desk.type("", "left", "ctrl+t")
        desk.app.query_one(TranscriptView).set_cursor(TokenRef(2, 3))
        await desk.settle()
        assert desk.engine.asked(Inspect)[-1].done == 3
        assert "RECOMPUTED 3 x  with the current knobs" in desk.text


async def test_why_not_follows_the_knobs_in_tune_and_says_so() -> None:
    async with looking() as desk:
        await desk.type("", "left", "w", "space", *"cat", "enter")
        assert "WHY NOT ·cat  with its original settings" in desk.text
        await desk.type("", "ctrl+t", "t")
        assert "WHY NOT ·cat  with the current knobs" in desk.text
        await desk.type("1.3", "enter")
        assert desk.engine.asked(Explain)[-1].samplers.temperature == 1.3


async def test_what_knobs_left_then_does_not_stand_beside_the_knobs_of_now() -> None:
    async with desktop() as desk:
        await desk.sent("go", "a", "b")
        desk.engine.end()
        await desk.settle()
        top_k = next(line for line in desk.text.split("\n") if "│ k top_k" in line)
        assert top_k.rstrip().endswith(" 40")
        desk.chat.loading.unload_model()
        await desk.settle()
        desk.chat.adjust_setting("top_k", 7)
        await desk.settle()
        top_k = next(line for line in desk.text.split("\n") if "│ k top_k" in line)
        assert "7 " in top_k
        assert top_k.rstrip().endswith("─")


async def test_an_answer_about_a_token_turns_to_the_page_that_shows_it() -> None:
    async with looking() as desk:
        for key in ("w", "o"):
            await desk.type("", "ctrl+right_square_bracket")
            assert desk.app._chat_screen.panels.page != "chain"
            await desk.type("", key, *(["x", "enter"] if key == "w" else []))
            assert desk.app._chat_screen.panels.page == "chain", key


async def test_the_tokens_of_an_empty_draft_are_none() -> None:
    async with looking() as desk:
        await desk.type("", "escape", "ctrl+u", "ctrl+g", "P")
        await desk.until(lambda: "0 tokens" in desk.text)
