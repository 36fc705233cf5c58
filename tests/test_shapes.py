"""The batches in which ids were decoded, against a cache that keeps count of them itself."""

from __future__ import annotations

from array import array
from itertools import groupby

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.batch_shapes import shapes_of, shapes_of_prompt
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.group import Group
from termchat.decoding.records import IN_ROUND, Draft, DraftToken, Prefill, Shape, Start
from tests.made_records import settings, start, token

BATCH = 4
"""The micro-batch of these tests: prompts soon have several."""


ROUNDS = st.sampled_from([(0, 0), (0, 0), (1, 0), (1, 1), (3, 2), (3, 3)])


class Machine:
    """The engine's bookkeeping, one entry a cell: its id, and which decode made it. A new number of threads for each."""

    def __init__(self, chat: Conversation) -> None:
        self.chat = chat
        self.cells: list[tuple[int, int]] = []
        self.made: list[Shape] = []
        self.found: dict[int, list[Shape]] = {}
        """The shapes of the cells at the end of each run, by node."""

    def decode(self, ids: list[int], threads: int = 0) -> Shape:
        self.cells += [(i, len(self.made)) for i in ids]
        self.made.append(Shape(len(ids), threads or len(self.made) + 2))
        return self.made[-1]

    def run(self, node: Node, drawn: list[int], *, last_is_decoded: bool = False) -> None:
        ids = self.chat.ids_before(node.number)
        made = [i for i, _ in self.cells][: len(ids) - 1]
        kept = next((n for n, (a, b) in enumerate(zip(made, ids, strict=False)) if a != b), len(made))
        del self.cells[kept:]
        shapes: list[Shape] = []
        while len(self.cells) < len(ids):
            at = len(self.cells)
            size = min(BATCH, len(ids) - 1 - at) or 1
            shapes.append(self.decode(ids[at : at + size]))
        node.add(msgspec.structs.replace(start(ids), ubatch=BATCH))
        rows, threads = ([shape[i] for shape in shapes] for i in (0, 1))
        node.add(Prefill(len(ids), kept, rows, 1.0, threads))
        for step, i in enumerate(drawn):
            node.add(settings(step, threads=len(self.made) + 2))
            node.add(msgspec.structs.replace(token(step, b"t", "t", token_id=i), settings=step))
            if step + 1 < len(drawn):
                self.decode([i])
        self.found[node.number] = self.shapes()
        if drawn and last_is_decoded:
            self.decode(drawn[-1:])

    def draft(self, node: Node, rounds: list[tuple[int, int]]) -> None:
        """A reply that is not exact, of tokens decoded alone (0, 0), and rounds: drafted tokens, and how many were accepted."""
        self.run(node, [])
        assert node.start is not None
        node.start = msgspec.structs.replace(node.start, exact=False)
        node.settings, node.settings_at = [], []
        drawn = 0
        last: tuple[int, int] | None = None
        for drafted, accepted in [(0, 0), *rounds]:
            guesses = [DraftToken(i % 3, "d") for i in range(drafted)]
            if last is not None:  # the newest token is decoded now, in the round or alone
                self.decode([last[0]], threads=IN_ROUND if drafted else last[1])
            for at in range(accepted + 1):
                taken = guesses[at].id if at < accepted else 2
                draft = Draft("ngram", at < accepted, guesses[at : at + 1] if at else guesses) if at < drafted else None
                threads = len(self.made) + 2
                node.add(settings(drawn, threads=threads))
                made = token(drawn, b"t", "t", token_id=taken)
                node.add(msgspec.structs.replace(made, settings=drawn, draft=draft, decode_us=0 if at else 9))
                if at < accepted:
                    self.decode([taken], threads=IN_ROUND)
                last, drawn = (taken, threads), drawn + 1
        self.found[node.number] = self.shapes()

    def walk(self, nodes: list[Node], drawn: list[list[int]], kept: int | None) -> None:
        """Several replies from one prompt, a row of one thread each; with `kept` the cells of one stay, else the prompt's."""
        self.run(nodes[0], [])
        begun, prefill = nodes[0].start, nodes[0].prefill
        assert begun is not None
        assert prefill is not None
        prompt, made = list(self.cells), len(self.made)
        left = prompt
        for walk, (node, ids) in enumerate(zip(nodes, drawn, strict=True)):
            self.cells = list(prompt)
            node.add(msgspec.structs.replace(begun, walk=walk, group=Group(made, "walks", len(nodes))))
            node.add(prefill)
            node.add(settings(threads=1))
            for step, i in enumerate(ids):
                node.add(token(step, b"t", "t", token_id=i))
                if step + 1 < len(ids):
                    self.decode([i], threads=1)
            self.found[node.number] = self.shapes()
            left = self.cells if walk == kept else left
        self.cells = left

    def shapes(self) -> list[Shape]:
        """What is left of each decode; of one row of several the bits are those of one thread."""
        found = []
        for decode, cells in groupby(decode for _, decode in self.cells):
            rows, made = len(list(cells)), self.made[decode]
            found.append(Shape(rows, 1 if rows == 1 < made.rows else made.threads))
        return found


def sizes(shapes: list[Shape] | None) -> list[int] | None:
    return None if shapes is None else [shape.rows for shape in shapes]


def asked(chat: Conversation, ids: list[int]) -> Node:
    node = chat.grow_node("user", parent=chat.leaf, at=len(chat.nodes[chat.leaf].ids) if chat.leaf else 0, text="?")
    node.prompt_ids = array("i", ids)
    return node


def test_prompt_reply_next_turn_and_a_fork() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(10)))
    assert sizes(shapes_of(chat)) == []
    machine.run(chat.grow_node("assistant", parent=first.number, at=10), [20, 21, 22])
    assert sizes(shapes_of(chat)) == [4, 4, 1, 1, 1, 1]
    turn = asked(chat, [30, 31, 32, 33, 34, 35])
    assert sizes(shapes_of(chat)) == [4, 4, 1, 1, 1, 1]
    machine.run(chat.grow_node("assistant", parent=turn.number, at=6), [40])
    assert shapes_of_prompt(chat, 4) == shapes_of(chat)
    assert sizes(shapes_of(chat)) == [4, 4, 1, 1, 1, 1, 4, 2, 1]
    fork = chat.grow_node("assistant", parent=2, at=1)
    assert sizes(shapes_of(chat)) == [4, 4, 1, 1, 1]
    machine.run(fork, [50, 51])
    assert sizes(shapes_of(chat)) == [4, 4, 1, 1, 1, 1]
    again = chat.grow_node("assistant", parent=first.number, at=10)
    machine.run(again, [60])
    assert sizes(shapes_of(chat)) == [4, 4, 1, 1]
    assert sizes(shapes_of_prompt(chat, 2)) == [4, 4, 1, 1]


def test_cells_of_another_kv_type_cannot_be_made_again() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(10)))
    assert sizes(shapes_of(chat, kv_type="bf16/f16")) == []
    machine.run(chat.grow_node("assistant", parent=first.number, at=10), [20, 21, 22])
    assert sizes(shapes_of(chat, kv_type="f16")) == sizes(shapes_of(chat)) == [4, 4, 1, 1, 1, 1]
    assert shapes_of(chat, kv_type="bf16/f16") is None


def test_what_another_process_decoded_anew_is_what_counts() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(6)))
    machine.run(chat.grow_node("assistant", parent=first.number, at=6), [20, 21, 22, 23, 24])
    machine.cells.clear()
    machine.run(chat.grow_node("assistant", parent=2, at=5), [25, 26])
    assert sizes(shapes_of(chat)) == [4, 4, 2, 1, 1]
    machine.run(chat.grow_node("assistant", parent=2, at=4), [27])
    assert sizes(shapes_of(chat)) == [
        4,
        4,
        1,
        1,
    ]  # the first nine cells are those of the second process, cut in a batch
    assert sizes(shapes_of(chat, 2)) == [4, 1, 1, 1, 1, 1, 1]


def test_the_beginning_that_two_chats_share_is_part_of_one_batch() -> None:
    machine = Machine(Conversation())
    machine.decode([7, 8, 9, 10])
    machine.chat = chat = Conversation()
    first = asked(chat, [7, 8, 9, 1, 2, 3])
    machine.run(chat.grow_node("assistant", parent=first.number, at=6), [20, 21])
    assert sizes(shapes_of(chat)) == [3, 2, 1, 1]


def test_it_is_not_known_where_records_are_missing_or_of_another_model() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(12)))
    machine.run(chat.grow_node("assistant", parent=first.number, at=12), [20])
    machine.run(chat.grow_node("assistant", parent=first.number, at=12), [21])
    assert sizes(shapes_of(chat)) == [4, 4, 3, 1]
    whole = chat.nodes[2].start
    assert whole is not None
    chat.nodes[2].start = msgspec.structs.replace(whole, model=msgspec.structs.replace(whole.model, name="other"))
    assert shapes_of(chat) is None
    chat.nodes[2].start = Start(**{name: getattr(whole, name) for name in whole.__struct_fields__})
    assert sizes(shapes_of(chat)) == [4, 4, 3, 1]
    chat.nodes[2].prefill = None
    assert shapes_of(chat) is None
    for rows in ([4, 4], [8, 3, 1], [4, -4, 4, 4, 3, 1]):
        chat.nodes[3].prefill = Prefill(12, 0, rows, 1.0)
        assert shapes_of(chat) is None


@given(st.data())
def test_any_chat_in_any_order_of_branches_and_processes(data: st.DataObject) -> None:
    chat = Conversation()
    machine = Machine(chat)
    small = st.integers(0, 2)
    asked(chat, data.draw(st.lists(small, min_size=1, max_size=9)))
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.integers(0, 4)) == 0:
            machine.cells.clear()
        parent = chat.nodes[data.draw(st.sampled_from(sorted(chat.nodes)))]
        at = len(parent.ids) if parent.role == "user" else data.draw(st.integers(0, len(parent.ids)))
        chat.leaf = parent.number
        if parent.role == "assistant" and at == len(parent.ids) and data.draw(st.booleans()):
            parent = asked(chat, data.draw(st.lists(small, min_size=1, max_size=6)))
            at = len(parent.ids)
        count = data.draw(st.sampled_from([1, 1, 1, 2, 3]))
        nodes = [chat.grow_node("assistant", parent=parent.number, at=at) for _ in range(count)]
        drawn = [data.draw(st.lists(small, max_size=6)) for _ in nodes]
        if count == 1 and data.draw(st.booleans()):
            machine.draft(nodes[0], data.draw(st.lists(ROUNDS, max_size=4)))
        elif count == 1:
            machine.run(nodes[0], drawn[0], last_is_decoded=data.draw(st.booleans()))
        else:
            machine.walk(nodes, drawn, data.draw(st.none() | st.integers(0, count - 1)))
        assert shapes_of(chat) == machine.found[nodes[-1].number]
    for number, shapes in machine.found.items():
        assert shapes_of(chat, number) == shapes
        prompt = shapes_of_prompt(chat, number)
        assert prompt is not None
        assert sum(shape.rows for shape in prompt) == len(chat.ids_before(number))
