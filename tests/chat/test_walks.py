"""Several replies from one place: what is asked for them, how they are steered, and which the chat goes on from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from termchat.chat.changes import WalksChanged, WalksGrew
from termchat.chat.groups import list_groups
from termchat.chat.reply_group import ReplyGroup
from termchat.conversation.tree import Place
from termchat.conversation.unsent import Wish
from termchat.decoding import walk_plan
from termchat.decoding.conditions import Length
from termchat.decoding.group import BeamSettings, GridKnob
from termchat.decoding.samplers import Tuning
from termchat.decoding.walk_plan import WalkPlan
from termchat.engine.port import (
    ALL_FEATURES,
    Adjust,
    Cancel,
    Explain,
    Generate,
    Inspect,
    Join,
    Keep,
    Remark,
    Score,
    Scripted,
    Tokenize,
)
from tests.chat.driven_chat import Faked
from tests.made_walks import ids_of

TWO_BY_TWO = walk_plan.grid([GridKnob("temperature", (0.5, 1.0))], runs=2)


class Walked(Faked):
    """A chat whose replies are walked."""

    def walk(self, plan: WalkPlan | None = None, text: str = "hi", *, paused: bool = False) -> ReplyGroup:
        """A message, and the group of its replies."""
        if paused:
            self.chat.send(text, Wish(plan or walk_plan.walks(3), "wait"))
        else:
            self.chat.walks.start(plan or walk_plan.walks(3), text=text)
        self.pump()
        return self.group

    @property
    def group(self) -> ReplyGroup:
        assert self.chat.walks.shown is not None
        return self.chat.walks.shown

    @property
    def asked(self) -> Generate:
        return self.engine.groups[-1]

    def texts(self, group: ReplyGroup | None = None) -> list[str]:
        nodes = (group or self.group).nodes
        return [nodes[walk].text() for walk in sorted(nodes)]

    def temperatures(self, adjusted: Sequence[object]) -> dict[int, float]:
        """The temperature that each walk was told to have."""
        adjusts = [command for command in adjusted if isinstance(command, Adjust)]
        return {adjust.reply: adjust.samplers.temperature for adjust in adjusts if adjust.reply is not None}


def test_a_message_is_answered_several_times_and_the_prompt_is_asked_for_once() -> None:
    it = Walked(Tuning(seed=7, max_tokens=9))
    group = it.walk()
    assert it.chat.phase == "prefill"
    assert [walk.seed for walk in it.asked.replies] == [7, 8, 9]
    assert all(walk.conditions == (Length(9),) for walk in it.asked.replies)
    assert it.asked.replies[0].ids == [1, 2, 3]
    assert it.asked.group == group.group
    assert group.group.size == 3
    it.engine.say(" all")
    it.engine.say(" one", walk=0)
    it.engine.say(" two", walk=1)
    it.pump()
    assert it.texts() == [" all one", " all two", " all"]
    assert it.chat.phase == "decoding"
    assert it.chat.busy
    assert WalksGrew() in it.told
    turn = it.chat.conversation.nodes[group.origin.node]
    assert [(node.parent, node.at) for node in group.nodes.values()] == [(turn.number, 3)] * 3
    assert not it.engine.generated
    it.engine.end()
    it.pump()
    assert it.chat.phase == "idle"
    assert group.ended is not None
    assert group.ended.tokens == 5
    assert WalksChanged() in it.told
    assert it.chat.walks.shown is group  # until a person has chosen


def test_the_walk_that_is_looked_at_is_the_end_of_the_chat() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" one", walk=0)
    it.engine.say(" two", walk=1)
    it.pump()
    assert it.chat.conversation.leaf == group.nodes[0].number
    it.chat.walks.select_reply(1)
    assert it.reply is group.nodes[1]
    assert it.chat.live.token is not None
    it.engine.say(" more", walk=1, id=77)
    it.engine.say(" other", walk=2, id=78)
    it.pump()
    assert it.chat.live.token.id == 77


def test_from_a_token_of_a_reply() -> None:
    it = Walked()
    first = it.replied("hi", " one", " two", " three")
    it.chat.walks.start(walk_plan.walks(2), node=first, at=2)
    it.pump()
    assert it.asked.replies[0].ids == [1, 2, 3, 1000, 1001]
    assert it.asked.replies[0].done == 2
    assert [shape.rows for shape in it.asked.replies[0].shapes] == [3, 1, 1]
    assert it.asked.replies[0].rebuild_exactly
    assert it.group.origin == Place(first.number, 2)
    assert it.chat.conversation.nodes[it.group.origin.node].role == "assistant"
    assert [text for role, text in it.chat.conversation.list_turns() if role == "assistant"] == [" one two"]


def test_settings_are_compared_with_the_replys_own_dice_and_replies_that_only_differ_get_new_ones() -> None:
    it = Walked(Tuning())
    first = it.replied("hi", " one", " two")
    assert first.start is not None
    it.chat.walks.start(walk_plan.compare({"temperature": 0.1}, {"temperature": 1.2}), node=first, at=1)
    it.pump()
    assert {walk.seed for walk in it.asked.replies} == {first.start.seed}
    it.chat.walks.start(walk_plan.walks(2), node=first, at=1)
    it.pump()
    assert first.start.seed not in {walk.seed for walk in it.asked.replies}


def test_other_replies_to_the_last_message_begin_with_the_words_that_were_asked_for() -> None:
    it = Walked()
    it.chat.begin_with("Well")
    first = it.replied("hi", " one")
    it.chat.walks.start(walk_plan.walks(2))
    it.pump()
    assert it.asked.replies[0].prefill == "Well"
    assert all(walk.script == (Scripted(0, it.engine.words.ids("Well")[0]),) for walk in it.asked.replies)
    assert it.texts() == ["Well", "Well"]
    assert {node.parent for node in it.group.nodes.values()} == {first.parent}


def test_a_grid_has_its_knobs_and_says_where_they_came_from() -> None:
    it = Walked(Tuning(seed=7, top_k=11))
    group = it.walk(TWO_BY_TWO)
    assert [(walk.samplers.temperature, walk.seed) for walk in it.asked.replies] == [
        (0.5, 7),
        (0.5, 8),
        (1.0, 7),
        (1.0, 8),
    ]
    assert {walk.samplers.top_k for walk in it.asked.replies} == {11}
    assert it.asked.replies[0].origin["temperature"] == "grid"
    assert it.asked.replies[0].origin["top_k"] == "default"
    assert group.labels[2] == "temp 1 · run 1"


def test_a_knob_of_the_chat_is_turned_for_all_and_what_differs_by_plan_stays() -> None:
    it = Walked()
    group = it.walk(TWO_BY_TWO)
    it.chat.adjust_setting("top_k", 5)
    it.pump()
    assert [node.settings[-1].samplers.top_k for node in group.nodes.values()] == [5] * 4
    assert [node.settings[-1].samplers.temperature for node in group.nodes.values()] == [0.5, 0.5, 1.0, 1.0]
    it.chat.adjust_setting("temperature", 0.1)
    it.pump()
    assert [node.settings[-1].samplers.temperature for node in group.nodes.values()] == [0.1] * 4
    assert it.chat.replies.run is not None
    it.chat.replies.run.adjust_settings({"temperature": 1.7}, 2)
    it.chat.adjust_setting("top_p", 0.5)
    it.pump()
    assert [node.settings[-1].samplers.temperature for node in group.nodes.values()] == [0.1, 0.1, 1.7, 0.1]
    assert it.chat.tuning.temperature == 0.1
    assert group.nodes[2].settings[-1].origin["temperature"] == "panel"
    assert [settings.samplers.top_p for settings in group.nodes[2].settings] == [0.95, 0.95, 0.95, 0.95, 0.5]


def test_one_is_paused_stepped_and_stopped_while_the_others_go_on() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.chat.replies.pause(1)
    it.pump()
    assert set(group.paused) == {1}
    assert it.chat.phase == "decoding"
    it.chat.replies.step(number=1)
    it.pump()
    assert it.texts() == [" a", " a step", " a"]
    it.chat.replies.pause()
    it.pump()
    assert it.chat.phase == "paused"
    assert it.chat.paused is group.paused[0]
    it.chat.replies.step("token")  # whatever steers a reply steers all
    it.pump()
    assert it.texts() == [" a step", " a step step", " a step"]
    assert it.chat.phase == "paused"
    it.chat.replies.resume(0)
    assert it.chat.phase == "decoding"
    it.chat.replies.stop(2)
    it.pump()
    assert group.running == [0, 1]
    it.chat.stop()
    it.pump()
    assert it.chat.phase == "idle"
    assert [node.finished and node.finished.reason for node in group.nodes.values()] == ["user"] * 3


def test_tokens_are_forced_on_one_walk() -> None:
    it = Walked()
    it.walk(paused=True)
    assert it.chat.phase == "paused"
    it.chat.walks.select_reply(1)
    it.chat.replies.force_tokens([17])
    it.pump()
    assert it.texts() == ["", " c17", ""]
    assert it.chat.phase == "paused"


def test_one_is_kept_and_the_next_message_follows_it() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.pump()
    it.chat.send("later")
    it.chat.walks.keep_reply(1)
    it.pump()
    assert it.chat.walks.shown is None
    assert group.running == [1]  # it runs on alone
    assert list(it.chat.turns.queue) == ["later"]
    it.engine.say(" b")
    it.pump()
    assert it.reply.text() == " a b"
    it.engine.end()
    it.pump()
    order = [type(command).__name__ for command in it.engine.commands]
    assert order.index("Keep") < order.index("Generate", order.index("Generate") + 1)
    assert it.engine.asked(Keep) == [Keep(1)]
    assert it.chat.conversation.find_path()[-3].node is group.nodes[1]
    assert len(it.chat.conversation.list_children(group.origin.node)) == 3  # nothing is deleted


def test_what_is_written_waits_until_one_is_kept() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.chat.send("later")
    it.engine.end()
    it.pump()
    assert list(it.chat.turns.queue) == ["later"]
    assert it.chat.phase == "idle"
    it.chat.walks.keep_reply(2)
    it.pump()
    assert not it.chat.turns.queue
    assert it.chat.conversation.find_path()[-3].node is group.nodes[2]


def test_a_message_to_a_group_that_is_over_follows_the_walk_that_is_looked_at() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.engine.end()
    it.pump()
    it.chat.walks.select_reply(1)
    it.chat.send("next")
    it.pump()
    assert it.chat.walks.shown is None
    assert it.chat.conversation.find_path()[-3].node is group.nodes[1]
    assert it.engine.asked(Keep) == [Keep(1)]


def test_keeping_all_ends_none() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.pump()
    it.chat.walks.select_reply(2)
    it.chat.walks.keep_all()
    it.pump()
    assert it.chat.walks.shown is None
    assert group.running == [0, 1, 2]
    it.engine.end()
    it.pump()
    assert it.engine.asked(Keep) == [Keep(2)]


def test_leaving_a_group_from_a_token_goes_back_to_the_reply() -> None:
    it = Walked()
    first = it.replied("hi", " one", " two")
    it.chat.walks.start(walk_plan.walks(2), node=first, at=1)
    it.pump()
    it.engine.say(" x")
    it.pump()
    it.chat.walks.leave_group()
    it.pump()
    assert it.chat.phase == "idle"
    assert it.chat.walks.shown is None
    assert it.reply is first
    assert [node.text() for node in it.chat.conversation.list_children(first.number)] == [" x", " x"]


def test_leaving_a_group_from_a_message_goes_on_from_the_walk_that_is_looked_at() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" x")
    it.chat.send("later")
    it.chat.walks.select_reply(1)
    it.chat.walks.leave_group()
    it.pump()
    assert it.chat.phase == "idle"
    assert it.reply is group.nodes[1]
    assert list(it.chat.turns.queue) == ["later"]  # whoever has stopped it wants to look first


def test_a_fork_joins_while_they_run_and_is_one_as_any_other_afterwards() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a", " b", " c")
    it.pump()
    it.chat.walks.fork_reply(1, 2, [17])
    it.pump()
    joined = it.engine.asked(Join)[0].reply
    assert joined.ids == [*it.asked.replies[0].ids, *group.nodes[1].ids[:2]]
    assert joined.seed == 8
    assert joined.script == (Scripted(2, 17),)
    assert (group.nodes[3].parent, group.nodes[3].at) == (group.nodes[1].number, 2)
    assert group.nodes[3].text() == " c17"
    assert ids_of(group, 3) == [1000, 1001, 17]
    assert group.labels[3] == "from 2, token 3"
    it.chat.walks.fork_reply(3, 1, [18])
    it.pump()
    assert it.engine.asked(Join)[1].reply.ids == [*joined.ids, 17]
    assert it.engine.asked(Join)[1].reply.script == (Scripted(3, 18),)
    it.engine.end()
    it.pump()
    it.chat.walks.fork_reply(0, 1, [19])
    it.pump()
    assert it.engine.generated[-1].script == (Scripted(1, 19),)
    assert it.engine.asked(Keep) == [Keep(0)]
    assert it.chat.walks.shown is None


def test_a_walk_for_which_there_is_no_room_leaves_nothing_behind() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.pump()
    it.engine.full = True
    before = len(it.chat.conversation.nodes)
    it.chat.walks.fork_reply(0, 1)
    it.pump()
    assert it.notices[-1] == "there is no room for another walk"
    assert len(it.chat.conversation.nodes) == before
    assert group.running == [0, 1, 2]


def test_what_an_engine_cannot_do_is_told_and_the_text_is_given_back() -> None:
    it = Walked()
    it.engine.offers = ALL_FEATURES - {"walks", "beams"}
    it.chat.walks.start(walk_plan.walks(2), text="hi")
    it.chat.walks.start(walk_plan.beams(BeamSettings(2)))
    it.pump()
    assert it.notices == ["this engine cannot make several replies at once", "this engine cannot search with beams"]
    assert it.chat.conversation.unsent.returned == "hi"
    assert not it.engine.asked(Tokenize)


def test_a_message_that_is_to_be_walked_waits_as_any_other() -> None:
    it = Walked()
    it.engine.loads = False
    it.chat.loading.unload_model()
    it.chat.send("first", Wish(walk_plan.walks(2), "wait"))
    it.chat.send("second")
    it.chat.walks.start(walk_plan.walks(3), text="third")
    assert list(it.chat.turns.queue) == ["first", "second", "third"]
    assert it.chat.phase == "loading"
    it.chat.turns.move_queued(2, 1)
    it.engine.load_up_to(1.0)
    it.pump()
    assert len(it.asked.replies) == 2
    assert it.chat.phase == "paused"
    assert list(it.chat.turns.queue) == ["third", "second"]
    it.engine.end()
    it.pump()
    it.chat.walks.keep_reply(0)
    it.pump()
    assert len(it.asked.replies) == 3
    assert it.chat.turns.take_back(0) == "second"


def test_a_message_that_was_taken_back_is_answered_once() -> None:
    it = Walked()
    it.writing("hi", " one")
    it.chat.walks.start(walk_plan.walks(2), text="more")
    it.pump()
    assert it.chat.turns.take_back(0) == "more"
    it.chat.send("more")
    it.engine.end()
    it.pump()
    assert not it.engine.groups
    assert len(it.engine.generated) == 2


def test_an_engine_that_dies_leaves_what_was_said() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.engine.say(" b", walk=1)
    it.engine.end(walk=2)
    it.engine.die()
    it.pump()
    assert it.chat.phase == "failed"
    assert it.texts(group) == [" a", " a b", " a"]
    assert [node.failed is not None for node in group.nodes.values()] == [True, True, False]
    it.chat.walks.select_reply(1)
    it.chat.loading.restart_engine()
    it.pump()
    again = it.engine.generated[-1]
    assert again.ids == [1, 2, 3, 1000, 1001]
    assert again.seed == 8
    assert again.done == 2
    assert it.chat.walks.shown is None


def test_another_chat_ends_the_group_and_its_end_is_kept_with_its_own() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.pump()
    it.chat.new()
    it.pump()
    assert it.chat.walks.shown is None
    assert not it.chat.walks.running
    assert [node.finished and node.finished.reason for node in group.nodes.values()] == ["user"] * 3
    assert it.engine.asked(Cancel)


def test_another_branch_ends_the_group() -> None:
    it = Walked()
    first = it.replied("hi", " one")
    it.chat.walks.start(walk_plan.walks(2))
    it.pump()
    it.chat.branches.select_leaf(first.number)
    it.pump()
    assert it.chat.walks.shown is None
    assert it.reply is first


def test_a_walk_that_is_deleted_is_shown_no_longer() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.engine.end()
    it.pump()
    it.chat.branches.delete_branch(group.nodes[0].number)
    it.pump()
    assert list(group.nodes) == [1, 2]
    assert it.reply is group.nodes[group.cursor]
    it.chat.branches.delete_branch(group.nodes[1].number)
    it.chat.branches.delete_branch(group.nodes[2].number)
    it.pump()
    assert it.chat.walks.shown is None


def test_another_walk_that_is_selected_as_a_branch_goes_on() -> None:
    it = Walked()
    group = it.walk()
    it.engine.say(" a")
    it.pump()
    it.chat.branches.select_leaf(group.nodes[2].number)
    it.pump()
    assert it.chat.walks.shown is group
    assert group.cursor == 2
    assert group.running == [0, 1, 2]


def test_questions_about_a_walk_are_asked_with_its_own_dice() -> None:
    it = Walked()
    first = it.replied("hi", " one", " two", " three")
    it.chat.session.tuning = Tuning()
    it.chat.walks.start(walk_plan.walks(2), node=first, at=2)
    it.pump()
    it.engine.say(" a", " b")
    it.pump()
    walk = it.group.nodes[1]
    seed = it.asked.replies[1].seed
    it.chat.questions.inspect_token(walk, 1)
    it.chat.questions.score_reply(walk)
    it.chat.questions.explain_token(walk, 0, 17)
    it.pump()
    inspected, scored, explained = (it.engine.asked(kind)[-1] for kind in (Inspect, Score, Explain))
    assert (inspected.ids, inspected.seed, inspected.done) == ([1, 2, 3, 1000, 1001, 1002], seed, 3)
    assert (explained.ids, explained.seed, explained.done) == ([1, 2, 3, 1000, 1001], seed, 2)
    assert (scored.ids, scored.count, scored.seed, scored.done) == ([1, 2, 3, 1000, 1001, 1002, 1003], 2, seed, 2)
    it.chat.questions.score_reply(first)
    it.pump()
    assert it.engine.asked(Score)[-1].seed == 7


def test_beams_are_seen_and_any_of_them_becomes_a_branch() -> None:
    it = Walked()
    group = it.walk(walk_plan.beams(BeamSettings(2, n_best=2)))
    assert it.asked.group.beams == BeamSettings(2, n_best=2)
    it.engine.look(" the", " a", dropped=[" an"])
    it.engine.look(" cat", " dog", parents=(1, 0), dropped=[" cow"])
    it.pump()
    assert it.chat.phase == "decoding"
    assert list(group.nodes) == [0]
    assert [beams.step for beams in group.beams] == [0, 1]
    it.engine.end("length")
    it.pump()
    assert it.texts() == [" a cat", " the dog"]
    it.chat.walks.branch_of_beam(1, 2, dropped=True)
    it.pump()
    assert it.reply.text() == " the cow"
    assert it.reply.finished is not None
    assert it.chat.walks.shown is None
    it.chat.forks.continue_reply()
    it.pump()
    assert it.engine.generated[-1].done == 2


def test_a_search_chooses_its_first_words_itself() -> None:
    it = Walked(Tuning(seed=7, max_tokens=9))
    it.chat.begin_with("Well")
    it.walk(walk_plan.beams(BeamSettings(2)))
    asked = it.asked.replies[0]
    assert (asked.prefill, asked.conditions) == ("", (Length(9),))
    assert it.notices == ["a beam search ignores the text that the reply should start with"]


def test_a_group_is_shown_again() -> None:
    it = Walked()
    group = it.walk(TWO_BY_TWO)
    it.engine.say(" a")
    it.engine.end()
    it.pump()
    it.chat.walks.keep_reply(2)
    it.replied("next", " b")
    [found] = list_groups(it.chat.conversation)
    assert found.labels == group.labels
    assert found.origin == group.origin
    assert found.group == group.group
    it.chat.walks.open(found.group.number)
    it.pump()
    assert it.group.cursor == 0
    assert it.reply is group.nodes[0]
    it.chat.walks.select_reply(3)
    assert it.reply is group.nodes[3]
    it.chat.walks.leave_group()
    it.pump()
    assert it.reply is group.nodes[3]


@pytest.mark.parametrize("reason", ["length", "user"])
def test_a_walk_goes_on_alone(reason: str) -> None:
    it = Walked(Tuning(seed=7, max_tokens=2))
    group = it.walk()
    it.engine.say(" a", " b")
    it.engine.end(reason)
    it.pump()
    it.chat.walks.select_reply(2)
    it.chat.forks.continue_reply()
    it.pump()
    made = it.engine.generated[-1]
    assert (made.seed, made.done, made.ids[-2:]) == (9, 2, [1000, 1001])
    assert it.reply.parent == group.nodes[2].number
    assert it.engine.asked(Keep) == [Keep(2)]
    assert it.chat.walks.shown is None


def test_the_winner_of_a_vote_is_looked_at_and_the_ranking_is_kept() -> None:
    it = Walked()
    group = it.walk(walk_plan.vote(3, r"\d"))
    for walk, answer in enumerate((" 4", " 7", " 7")):
        it.engine.say(answer, walk=walk)
    it.engine.end()
    it.pump()
    ranking = group.nodes[0].ranking
    assert ranking is not None
    assert [(ranked.walk, ranked.answer, ranked.votes) for ranked in ranking.walks] == [
        (1, "7", 2),
        (2, "7", 2),
        (0, "4", 1),
    ]
    assert it.reply is group.nodes[1]
    assert group.rank_replies() == ranking


def test_whoever_has_chosen_keeps_looking_at_that_one() -> None:
    it = Walked()
    group = it.walk(walk_plan.best(3))
    it.chat.walks.select_reply(2)
    it.engine.say(" a", logprob=-3.0, walk=2)
    it.engine.say(" a", logprob=-0.5, walk=1)
    it.engine.say(" a", logprob=-1.0, walk=0)
    it.engine.end()
    it.pump()
    assert [ranked.walk for ranked in group.rank_replies().walks] == [1, 0, 2]
    assert it.reply is group.nodes[2]


def test_a_change_that_each_walk_refuses_is_told_once() -> None:
    it = Walked()
    it.walk()
    remark = Remark("the reply keeps its settings: not a regular expression", "change it")
    for _ in range(3):
        it.engine.note(remark)
    it.pump()
    assert it.notices.count(remark.message) == 1
    assert it.chat.walks.running
