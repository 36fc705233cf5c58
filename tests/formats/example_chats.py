"""Chats for the tests of formats: one with all there is in it, a long one, and one that is out to do harm."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from termchat.conversation.session import Breakpoint, ModelRef, Session, View
from termchat.conversation.transcripts import FORMATS
from termchat.conversation.tree import Conversation, Node, Place
from termchat.decoding.conditions import Every, Text, Threshold
from termchat.decoding.records import Candidate, Failed, ModelIdentity, Ranked, Ranking, Record, Token
from termchat.decoding.samplers import Tuning
from tests.made_drafts import drafted_stream
from tests.made_records import MODEL, add_all, finished, settings, stream, user, with_margins
from tests.made_walks import beams, group, walked

INFO = Session(
    "20261103-154210-ab12cd34", 1.7e9, 1.7e9 + 60.25, ModelRef("smollm2", f"/home/me/models/{MODEL.path}", MODEL),
    Tuning(stop=("\n6.",), seed=7), (Breakpoint(Threshold("p_end", ">", 0.5), False), Breakpoint(Every(20))),
    View(Place(2, 1), "entropy"),
)  # fmt: skip

ATTACKS = (
    "<script>window.harmed = 'tag'</script>",
    "</script><script>window.harmed = 'closed'</script>",
    "</title></style></textarea><img src=x onerror=\"window.harmed = 'image'\">",
    "<svg onload=\"window.harmed = 'svg'\"></svg>",
    "\"><iframe srcdoc='<script>parent.harmed = 1</script>'></iframe>",
    "' onmouseover='window.harmed=1' x='",
    "<a href=\"javascript:window.harmed='link'\">click</a>",
    "<!--<script>", "]]>", "<![CDATA[", "{{7*7}}", "${window.harmed = 1}", "&lt;script&gt;",
    "\u2028window.harmed = 'separator'\u2029", "\u202eafter\u2066", "nul\0nul", "\x1b]52;c;aGk=\x07", "\x9b31m",
    "\ufeff", "half \ud800", "<meta http-equiv=refresh content='0;url={address}'>",
    "<link rel=stylesheet href={address}>", "<img src={address}>", "<base href={address}>",
)  # fmt: skip
"""`{address}` stands for a server that nobody may ask."""


class ExampleChat:
    """A chat, what is known of it, and the records of its replies."""

    def __init__(self, system: str = "", info: Session = INFO) -> None:
        self.chat, self.info = Conversation(system), info
        self.known: dict[int, list[Record]] = {}

    def records(self, number: int) -> list[Record]:
        return self.known[number]

    def say(self, text: str) -> Node:
        return user(self.chat, text, [1, 2, 3])

    def reply(self, records: list[Record], *, parent: int | None = None, at: int | None = None) -> Node:
        before = self.chat.nodes[parent if parent is not None else self.chat.leaf or 0]
        node = self.chat.grow_node("assistant", parent=before.number, at=before.count_kept() if at is None else at)
        self.known[node.number] = records
        add_all(node, records)
        return node

    def lines(self, form: str) -> list[str]:
        return list(FORMATS[form].writer(self.chat, self.info, self.records))

    def write(self, path: Path, form: str) -> Path:
        path.write_text("".join(line + "\n" for line in self.lines(form)), "utf-8")
        return path


def whole() -> ExampleChat:
    """Settings that change, a reply in two pieces, forks with a name and without, a deleted one, one that failed."""
    made = ExampleChat("Be brief.")
    made.chat.title = "fox and bear"
    made.say("Write a story")
    pieces = [b"Once", b" upon", b" a", b" time", b" \xf0\x9f", b"\xa6\x8a", b"\nmet", b" a <bear>"]
    turned = {3: settings(1, temperature=1.2, max_tokens=64, stops=("END",))}
    made.reply(with_margins(stream([1, 2, 3], pieces, turned=turned, reason="user", seed=42)))
    made.reply(stream([], [b" and", b" slept"], reason="length"))
    made.reply(
        [*stream([], [b" wild"], reason=None), Failed("engine", "it died", "restart")], parent=2, at=4
    ).name = "wild"
    made.reply(stream([1, 2, 3], [b"Another"]), parent=1)
    made.chat.delete_node(made.reply(stream([1, 2, 3], [b"gone"]), parent=1).number)
    made.chat.leaf = 3
    made.say("and then?")
    made.reply(stream([], [b"The", b" end"], seed=7))
    return made


def walks(foreign: str = "42", texts: Sequence[str] = ("wide and 42", "wide and deep")) -> ExampleChat:
    """A chat whose message was answered by walks, ranked and with the steps of a search; it goes on with the second one.
    `foreign` stands wherever a group has words."""
    made = ExampleChat()
    made.say("How is the sea?")
    of = group(len(texts), kind="vote", answer=foreign)
    for walk, text in enumerate(texts):
        made.reply(walked([1, 2, 3], walk, of, [f" {word}".encode() for word in text.split(" ")]), parent=1)
    steps = [beams(step) for step in range(3)]
    said = [msgspec.structs.replace(beam, text=foreign) for beam in steps[1].beams]
    steps[1] = msgspec.structs.replace(steps[1], beams=said)
    ranked = [Ranked(walk, -0.5 * walk, -0.5, 3, foreign, 1) for walk in reversed(range(len(texts)))]
    more: list[Record] = [*steps, Ranking(ranked)]
    made.known[2] += more
    add_all(made.chat.nodes[2], more)
    made.chat.leaf = 3
    return made


def drafted(by: str = "small", rejected: str = " ·x") -> ExampleChat:
    """A reply with two rounds of drafting, and one without; who drafted, and what, may be anything."""
    made = ExampleChat()
    made.say("How is the sea?")
    made.reply(drafted_stream([1, 2, 3], by, rejected))
    made.reply(stream([1, 2, 3], [b" wide"]), parent=1)
    made.chat.leaf = 2
    return made


def hostile_drafts() -> ExampleChat:
    """Every attack in the name of who drafted, and in what was drafted."""
    clean = " ".join(ATTACKS).encode("utf-8", "replace").decode()
    return drafted(clean, clean)


def conditions() -> ExampleChat:
    """A reply with every kind of condition, a number that was none, and a stop that swallowed tokens."""
    made = ExampleChat()
    made.say("hi\n\u202e")
    records = stream([1, 2, 3], [b"a", b"b", b"END"], stops=("END",))
    rules = (Threshold("entropy", ">", 3.5), Every(20), Text("fo+", regex=True, action="stop"))
    records[1] = msgspec.structs.replace(records[1], conditions=(*records[1].conditions, *rules))
    records[3] = msgspec.structs.replace(records[3], entropy=float("nan"), state={"mu": float("inf")})
    made.reply(records)
    return made


def long(tokens: int) -> ExampleChat:
    """One reply of so many tokens, with words and measures that go up and down."""
    dice, own = random.Random(5), random.Random(6)
    made = ExampleChat()
    made.say("Write a long story")
    words = [" fox", " bear", " the", " and", ".", "\n\n", " walked", " into", " forest", ","]
    records: list[Record] = stream([1, 2, 3], [dice.choice(words).encode() for _ in range(tokens)], reason=None)
    for at, record in enumerate(records):
        if isinstance(record, Token):
            share, logprob = dice.random() ** 0.5, math.log(1 - own.random()) / 2
            records[at] = msgspec.structs.replace(
                record, probability=share, logprob=logprob, entropy=dice.random() ** 3 * 8, rank=int(1 / share) - 1,
                decode_us=int(6000 + dice.expovariate(1 / 700)),
            )  # fmt: skip
    records.append(finished("length", f"max_tokens {tokens}", tokens=tokens))
    made.reply(records)
    made.chat.title = "a long story"
    return made


def hostile(address: str = "http://127.0.0.1:9/", *, well_formed: bool = False) -> ExampleChat:
    """Every attack in every place that holds foreign text. `well_formed` leaves out what no store and no encoding takes."""
    attacks = [attack.replace("{address}", address) for attack in ATTACKS]
    all_of_them = " ".join(attacks)
    clean = all_of_them.encode("utf-8", "replace").decode()
    if well_formed:
        all_of_them = clean
    file = clean.rsplit("/", 1)[-1]
    identity = ModelIdentity(clean, file, "0" * 64, clean, clean)
    info = Session("x", 1.7e9, 1.7e9, ModelRef(clean, "/" + file, identity), Tuning(stop=(clean,)))
    made = ExampleChat(all_of_them, info)
    made.chat.title = all_of_them
    made.say(all_of_them)
    made.reply(list(_harmful(attacks, clean, identity)))
    made.reply([*stream([1, 2, 3], [b"b"], reason=None), Failed("x", clean)], parent=1).name = all_of_them
    made.chat.leaf = 2
    return made


def hostile_walks() -> ExampleChat:
    """Every attack in the words of a group, and in its replies."""
    clean = " ".join(ATTACKS).encode("utf-8", "replace").decode()
    return walks(clean, [clean, *(attack.encode("utf-8", "replace").decode() for attack in ATTACKS[:8])])


def _harmful(attacks: list[str], clean: str, identity: ModelIdentity) -> Iterator[Record]:
    pieces = [attack.encode("utf-8", "replace") for attack in attacks]
    for record in stream([1, 2, 3], pieces, stops=("never" + clean,), turned={2: settings(1, stops=(clean,))}):
        if isinstance(record, Token):
            worst = [Candidate(i, text, 1.0, -1.0, 0.5, 0.0, text) for i, text in enumerate(pieces_of(record))]
            yield msgspec.structs.replace(record, candidates=worst)
        elif hasattr(record, "model"):
            yield msgspec.structs.replace(record, model=identity)
        else:
            yield record


def pieces_of(record: Token) -> list[str]:
    return [record.bytes.decode("utf-8", "replace"), *(attack for attack in ATTACKS if "\ud800" not in attack)]
