"""The kinds of plans that make several replies to one prompt, and their fields.

The flags of `run`, the slash commands and the dialog that starts walks are made from `PLANS`: defaults, ranges and helps of all
three stand here. `walk_plan.make_plan` turns values of the fields into a plan.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from termchat.decoding.group import MOST_BEAMS, MOST_WALKS, GroupKind
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import Setting

VARIABLE = {
    name: knob.help for name, knob in KNOBS.items() if knob.kind in ("float", "int", "switch") and not knob.needs
}
"""The knobs that a grid may vary, with their helps."""


class PlanField(Setting, frozen=True, kw_only=True):
    """One field of a plan. Without a `label` it is no row of the dialog, without a `flag_help` no flag of `run`.

    Attributes:
        choices: of a switch: what the dialog says for off and on.
        none: what an empty text stands for.
        flag_help: the help of its flag, `--` and its name.
        word: its option behind the slash command, explained by `word_help`; "" if the value stands alone.
    """

    help: str = ""
    flag_help: str = ""
    word: str = ""
    word_help: str = ""

    @property
    def typed_default(self) -> str:
        """The default as a person types it; of a switch, what the dialog says for off."""
        if self.choices:
            return str(self.default or self.choices[0])
        return f"{self.default:g}" if isinstance(self.default, (int, float)) else str(self.default)


class PlanKind(NamedTuple):
    """A kind of plan: its name in the dialog and what it is for, its slash command, and its fields.

    The first field makes several replies; the others go with it. `examples` are offered behind the command.
    """

    name: str
    about: str
    command: str
    argument: str
    help: str
    fields: tuple[PlanField, ...]
    examples: tuple[tuple[str, str], ...]


_WALKS = PlanField(
    name="walks", kind="int", default=4, low=2, high=MOST_WALKS, label="replies",
    help="how many replies are decoded together", flag_help="print N replies, decoded together, each with the next seed",
)  # fmt: skip
_EXACT = PlanField(
    name="exact", kind="switch", default=0,
    flag_help="decode so that each reply equals the one that its seed gives alone, though that may be slower; --grid does",
)  # fmt: skip
_SAME_DICE = PlanField(
    name="same_dice", kind="switch", default=0, label="dice", choices=("different", "the same"),
    help="different dice for each reply, or the same for all until you turn a knob of one",
    word="same-dice", word_help="same dice for all replies", flag_help="use the same seed for all replies",
)  # fmt: skip
_GRID = PlanField(
    name="grid", kind="texts", default=(), metavar="KNOB=VALUES",
    flag_help="print a reply for each value, for example temperature=0,0.5,1; give it twice for each pair of values",
)  # fmt: skip
_RUNS = PlanField(
    name="runs", kind="int", default=1, low=1, high=MOST_WALKS, label="runs",
    help="replies per cell, with different dice; run 1 has the same dice in every cell, and so on",
    word="runs", word_help="N  replies per cell",
    flag_help="print N replies for each value, each with the next seed",
)  # fmt: skip
_BEST_OF = replace(
    _WALKS, name="best_of", also=("best",), default=8,
    flag_help="make N replies and print the one with the highest score"
    " (its mean logprob, unless --length-penalty changes it)",
)  # fmt: skip
_VOTERS = replace(_WALKS, default=8)
_VOTE = PlanField(
    name="vote", kind="text", default=r"\d+", label="answer", metavar="REGEX|$.PATH",
    help="where the answer is: a regular expression (its last match counts) or a JSON path such as $.answer",
    flag_help="print a reply with the most common answer: the last match of REGEX (its first group, if it has one), or"
    f" the value at a JSON path; --walks sets the number of replies  [default: {_VOTERS.default}]",
)  # fmt: skip
_BEAMS = PlanField(
    name="beams", kind="int", default=4, low=2, high=MOST_BEAMS, label="width", metavar="W",
    help="how many beams continue at each step",
    flag_help="search with W beams and print the reply with the highest score",
)  # fmt: skip
_LENGTH_PENALTY = PlanField(
    name="length_penalty", kind="float", default=1.0, low=-10, high=10, step=0.1, label="penalty", metavar="X",
    help="score = sum of logprobs / length^penalty; 0 favours short replies, 1 ranks by mean logprob",
    word="penalty", word_help="X  score = sum of logprobs / length^X",
    flag_help="score = sum of logprobs / tokens^X; a higher X favours longer replies",
)  # fmt: skip
_N_BEST = PlanField(
    name="n_best", kind="int", default=1, low=1, high=MOST_BEAMS, label="n-best", help="how many replies to keep at the end",
    word="n-best", word_help="N  replies to keep at the end", flag_help="print the N best replies",
)  # fmt: skip
_EARLY_STOPPING = PlanField(
    name="early_stopping", kind="switch", default=0, label="end", choices=("late", "early"),
    help="late: when no running beam can beat the finished ones; early: as soon as enough beams have ended",
    word="early", word_help="end as soon as enough beams have ended", flag_help="stop as soon as W beams have ended",
)  # fmt: skip
_AFTER_CHAIN = PlanField(
    name="after_chain", kind="switch", default=0, label="scores", choices=("model's own", "after the chain"),
    help="score tokens by the model's own probabilities, or by those after the chain",
    word="after-chain", word_help="score by probabilities after the chain",
    flag_help="score tokens by their probability after the chain, not by the model's own",
)  # fmt: skip

FLAGS = (
    _WALKS, _EXACT, _SAME_DICE, _GRID, _RUNS, _BEST_OF, _VOTE, _BEAMS, _LENGTH_PENALTY, _N_BEST, _EARLY_STOPPING, _AFTER_CHAIN,
)  # fmt: skip
"""The fields that are flags, in the order of the help."""

NO_KNOB = "none"
"""The choice of a second knob that leaves it out."""
_GRID_ROWS = (
    PlanField(
        name="knob", label="knob", kind="choice", default="temperature", choices=tuple(VARIABLE), help="the knob to vary",
    ),
    PlanField(
        name="values", label="values", kind="text", default="", help="its values, separated by spaces; off works too",
    ),
    PlanField(
        name="knob 2", label="knob 2", kind="choice", default=NO_KNOB, choices=(NO_KNOB, *VARIABLE),
        help="a second knob, for a table of rows and columns",
    ),
    PlanField(name="values 2", label="values 2", kind="text", default="", help="the values of the second knob"),
)  # fmt: skip
"""Rows of the dialog that stand for the field `grid`."""

PLANS: dict[GroupKind, PlanKind] = {
    "walks": PlanKind(
        "walks", "Several replies to the same prompt, side by side: see where they part.",
        "walks", "N MESSAGE", "N replies side by side, to MESSAGE or to the last message",
        (_WALKS, _SAME_DICE, _EXACT),
        (("4 ", "four replies; a message may follow"), ("4 same-dice ", "same dice for all replies")),
    ),
    "grid": PlanKind(
        "grid", "Replies for each value of one or two knobs, as a table.",
        "grid", "KNOB VALUES", "Replies for each value of one or two knobs: /grid temperature 0 0.5 1 runs 3 : MESSAGE",
        (_GRID, *_GRID_ROWS, _RUNS, replace(_SAME_DICE, label="")),
        (
            ("temperature", "the classic exercise: 0, 0.5, 1 and 1.5, three runs each"), ("top_k", "1, 10, 50 and off"),
            ("top_p", "0.5, 0.9, 0.95 and 1"), ("temperature 0 1 top_p 0.5 0.95 runs 2 ", "a table of two knobs"),
        ),
    ),
    "compare": PlanKind(
        "A/B", "Two settings with the same dice, token by token: see what a knob changes.",
        "ab", "KNOBS | KNOBS",
        "Two settings with the same dice: /ab temperature 0.7 | temperature 1.2 top_p 0.9 : MESSAGE",
        (
            PlanField(
                name="A", label="A", kind="text", default="", none="the current knobs",
                help="knobs and their values, such as temperature 0.7; leave it empty for the current knobs",
            ),
            PlanField(name="B", label="B", kind="text", default="temperature 1.2", help="the same for the other reply"),
        ),
        (
            ("temperature 1.2", "compared with the current knobs"),
            ("temperature 0.7 | temperature 1.2 top_p 0.9", "two settings"),
        ),
    ),
    "best": PlanKind(
        "best of", "Several replies, ranked by score: keep the best.",
        "best", "N MESSAGE", "N replies, ranked by mean logprob",
        (_BEST_OF, _LENGTH_PENALTY, _EXACT), (("8 ", "the best of eight; a message may follow"),),
    ),
    "vote": PlanKind(
        "vote", "Several replies: see which answer most of them give.",
        "vote", "PATTERN N MESSAGE", "The most common answer of N replies; PATTERN, in quotes, or $.PATH finds it in each",
        (_VOTE, _VOTERS, _EXACT),
        (
            (r'"\d+" 8 ', "the last number in each reply; a message may follow"),
            (r'"answer: (\w+)" 8 ', "the word after the last “answer: ”"),
            ("$.answer 8 ", "the value at a path of a JSON reply"),
        ),
    ),
    "beams": PlanKind(
        "beams", "Beam search: at each step, continue the beginnings with the best scores.",
        "beams", "N MESSAGE", "Beam search with N beams: /beams 4 penalty 1 n-best 2 early after-chain : MESSAGE",
        (_BEAMS, _LENGTH_PENALTY, _N_BEST, _EARLY_STOPPING, _AFTER_CHAIN),
        (("4 ", "four beams; a message may follow"), ("4 n-best 2 ", "four beams, keeping the two best replies")),
    ),
}  # fmt: skip
