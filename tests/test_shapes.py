"""The batches in which ids were decoded, against a cache that keeps count of them itself."""

from __future__ import annotations

from array import array

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.batch_shapes import shapes_of, shapes_of_prompt
from termchat.conversation.tree import Conversation, Node
from termchat.decoding.records import Prefill, Start
from tests.made_records import settings, start, token

BATCH = 4
"""The micro-batch of these tests: prompts soon have several."""


class Machine:
    """The engine's bookkeeping, one entry a cell: its id, and which decode made it."""

    def __init__(self, chat: Conversation) -> None:
        self.chat = chat
        self.cells: list[tuple[int, int]] = []
        self.decodes = 0
        self.sizes: dict[int, list[int]] = {}
        """The batches of the cells at the end of each run, by node."""

    def decode(self, ids: list[int]) -> None:
        self.decodes += 1
        self.cells += [(i, self.decodes) for i in ids]

    def run(self, node: Node, drawn: list[int], *, last_is_decoded: bool = False) -> None:
        ids = self.chat.ids_before(node.number)
        made = [i for i, _ in self.cells][: len(ids) - 1]
        kept = next((n for n, (a, b) in enumerate(zip(made, ids, strict=False)) if a != b), len(made))
        del self.cells[kept:]
        shapes: list[int] = []
        while len(self.cells) < len(ids):
            at = len(self.cells)
            size = min(BATCH, len(ids) - 1 - at) or 1
            shapes.append(size)
            self.decode(ids[at : at + size])
        node.add(msgspec.structs.replace(start(ids), ubatch=BATCH))
        node.add(settings())
        node.add(Prefill(len(ids), kept, shapes, 1.0))
        for step, i in enumerate(drawn):
            if step:
                self.decode([drawn[step - 1]])
            node.add(token(step, b"t", "t", token_id=i))
        self.sizes[node.number] = self.shapes()
        if drawn and last_is_decoded:
            self.decode(drawn[-1:])

    def shapes(self) -> list[int]:
        decodes = [decode for _, decode in self.cells]
        return [decodes.count(decode) for decode in sorted(set(decodes))]


def asked(chat: Conversation, ids: list[int]) -> Node:
    node = chat.grow("user", parent=chat.leaf, at=len(chat.nodes[chat.leaf].ids) if chat.leaf else 0, text="?")
    node.prompt_ids = array("i", ids)
    return node


def test_prompt_reply_next_turn_and_a_fork() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(10)))
    assert shapes_of(chat) == []
    machine.run(chat.grow("assistant", parent=first.number, at=10), [20, 21, 22])
    assert shapes_of(chat) == [4, 4, 1, 1, 1, 1]
    turn = asked(chat, [30, 31, 32, 33, 34, 35])
    assert shapes_of(chat) == [4, 4, 1, 1, 1, 1]
    machine.run(chat.grow("assistant", parent=turn.number, at=6), [40])
    assert shapes_of_prompt(chat, 4) == shapes_of(chat) == [4, 4, 1, 1, 1, 1, 4, 2, 1]
    fork = chat.grow("assistant", parent=2, at=1)
    assert shapes_of(chat) == [4, 4, 1, 1, 1]
    machine.run(fork, [50, 51])
    assert shapes_of(chat) == [4, 4, 1, 1, 1, 1]
    again = chat.grow("assistant", parent=first.number, at=10)
    machine.run(again, [60])
    assert shapes_of(chat) == [4, 4, 1, 1]
    assert shapes_of_prompt(chat, 2) == [4, 4, 1, 1]


def test_what_another_process_decoded_anew_is_what_counts() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(6)))
    machine.run(chat.grow("assistant", parent=first.number, at=6), [20, 21, 22, 23, 24])
    machine.cells.clear()
    machine.run(chat.grow("assistant", parent=2, at=5), [25, 26])
    assert shapes_of(chat) == [4, 4, 2, 1, 1]
    machine.run(chat.grow("assistant", parent=2, at=4), [27])
    assert shapes_of(chat) == [4, 4, 1, 1]  # the first nine cells are those of the second process, cut in a batch
    assert shapes_of(chat, 2) == [4, 1, 1, 1, 1, 1, 1]


def test_the_beginning_that_two_chats_share_is_part_of_one_batch() -> None:
    machine = Machine(Conversation())
    machine.decode([7, 8, 9, 10])
    machine.chat = chat = Conversation()
    first = asked(chat, [7, 8, 9, 1, 2, 3])
    machine.run(chat.grow("assistant", parent=first.number, at=6), [20, 21])
    assert shapes_of(chat) == [3, 2, 1, 1]


def test_it_is_not_known_where_records_are_missing_or_of_another_model() -> None:
    chat = Conversation()
    machine = Machine(chat)
    first = asked(chat, list(range(12)))
    machine.run(chat.grow("assistant", parent=first.number, at=12), [20])
    machine.run(chat.grow("assistant", parent=first.number, at=12), [21])
    assert shapes_of(chat) == [4, 4, 3, 1]
    whole = chat.nodes[2].start
    assert whole is not None
    chat.nodes[2].start = msgspec.structs.replace(whole, model=msgspec.structs.replace(whole.model, name="other"))
    assert shapes_of(chat) is None
    chat.nodes[2].start = Start(**{name: getattr(whole, name) for name in whole.__struct_fields__})
    assert shapes_of(chat) == [4, 4, 3, 1]
    chat.nodes[2].prefill = None
    assert shapes_of(chat) is None
    for sizes in ([4, 4], [8, 3, 1], [4, -4, 4, 4, 3, 1]):
        chat.nodes[3].prefill = Prefill(12, 0, sizes, 1.0)
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
        node = chat.grow("assistant", parent=parent.number, at=at)
        machine.run(node, data.draw(st.lists(small, max_size=6)), last_is_decoded=data.draw(st.booleans()))
        assert shapes_of(chat) == machine.sizes[node.number]
    for number, sizes in machine.sizes.items():
        assert shapes_of(chat, number) == sizes
        prompt = shapes_of_prompt(chat, number)
        assert prompt is not None
        assert sum(prompt) == len(chat.ids_before(number))
