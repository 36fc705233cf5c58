"""GBNF as Lark: the same language as llama.cpp's own grammar has, and faults at their place."""

from __future__ import annotations

import ctypes
import random
import warnings

import llama_cpp.llama_grammar as examples
import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from llguidance.llamacpp import lltokenizer_from_vocab

from termchat.decoding.constraint import TextError
from termchat.decoding.gbnf import to_lark
from termchat.engine.llama.model_session import ModelSession
from termchat.engine.llama.native import LIB

LINE = """
root ::= (expr "=" ws term "\\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \\t\\n]*
"""
"""Terminals that overlap: the newline that ends a line is white space, too."""

SMALL = {
    "overlapping terminals": LINE,
    "empty alternatives": 'root ::= "a" ( | "b" | ) "c"',
    "repetitions": 'root ::= "ab"* [0-9]{2} "c"{1,3} ("d" | "e"){0,2} "f"? "g"{0} "h"{2,}',
    "repeated repetition": 'root ::= ("a"+ "b"?)* ("c"){0,1} "d"*?',
    "classes": "root ::= [^a-y\\n] [a-cx\\x2d] [\\]\\[^] [-b] [b-] [\\u0041-\\u0043é]",
    "any": "root ::= . . .",
    "escapes": r'root ::= "\x41\u0042\U00000043\t\\\"" "é"',
    "comments and lines": '# a\nroot ::=  # b\n  "a" |\n  # c\n "b" ( "c"\n\n| "d" ) # e\nother ::= "f"',
    "names": 'root ::= a-b A-B aB1\na-b ::= "1"\nA-B ::= "2"\naB1 ::= "3"',
    "a rule twice": 'root ::= r\nr ::= "a"\nr ::= "b"',
    "carriage returns": 'root ::= "a" rest\r\nrest ::= "b"\r',
    "recursion": 'root ::= "(" root ")" | "x" tail\ntail ::= [a-c] tail | ',
}
TRIED = [chr(i) for i in (9, 10, *range(32, 127))] + ["é", "日"]


class Both:
    """One grammar in llama.cpp and in llguidance, fed the same characters."""

    def __init__(self, text: str, session: ModelSession, tokenizer: LLTokenizer) -> None:
        self.vocab, self.tokenizer = session.model.vocab, tokenizer
        self.ours = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(to_lark(text)), log_level=0)
        assert not self.ours.is_error(), self.ours.get_error()
        self.theirs = LIB.llama_sampler_init_grammar(self.vocab, text.encode(), b"root")
        assert self.theirs, text
        self.ids = {c: session.model.tokenize(c, special=False) for c in TRIED}
        self.ids = {c: ids for c, ids in self.ids.items() if len(ids) == 1}
        self.end = session.model.eos

    def allowed(self) -> tuple[set[str], set[str]]:
        """Characters that may follow, by llama.cpp and by us, and "" if it may end here."""
        mine = {c for c, ids in self.ids.items() if self.ours.validate_tokens(ids) == 1}
        data = (LIB.llama_token_data * (len(self.ids) + 1))()
        for place, token in enumerate([*(ids[0] for ids in self.ids.values()), self.end]):
            data[place].id = token
        array = LIB.llama_token_data_array(data, len(data), -1, False)
        LIB.llama_sampler_apply(self.theirs, array)
        left = {data[i].id for i in range(array.size) if np.isfinite(data[i].logit)}
        native = {c for c, ids in self.ids.items() if ids[0] in left}
        return native | ({""} if self.end in left else set()), mine | ({""} if self.ours.is_accepting() else set())

    def take(self, character: str) -> None:
        LIB.llama_sampler_accept(self.theirs, self.ids[character][0])
        assert self.ours.consume_token(self.ids[character][0])

    def close(self) -> None:
        LIB.llama_sampler_free(self.theirs)


@pytest.fixture(scope="module")
def tokenizer(session: ModelSession) -> LLTokenizer:
    vocab = ctypes.cast(session.model.vocab, ctypes.c_void_p).value
    assert vocab is not None
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        return lltokenizer_from_vocab(vocab, eos_token=session.model.end_ids)


def same_language(
    text: str, session: ModelSession, tokenizer: LLTokenizer, dice: random.Random, walks: int, steps: int
) -> int:
    """Walks through what both allow; how many places they were compared at."""
    compared = 0
    for _ in range(walks):
        both = Both(text, session, tokenizer)
        for _ in range(steps):
            native, mine = both.allowed()
            assert native == mine, f"{text}\n{to_lark(text)}"
            compared += 1
            if not mine - {""}:
                break
            both.take(dice.choice(sorted(mine - {""})))
        both.close()
    return compared


@pytest.mark.parametrize("name", SMALL)
def test_the_language_is_llama_cpps(session: ModelSession, tokenizer: LLTokenizer, name: str) -> None:
    assert same_language(SMALL[name], session, tokenizer, random.Random(1), 12, 12) > 12


@pytest.mark.parametrize(
    "name", ["ARITHMETIC_GBNF", "C_GBNF", "CHESS_GBNF", "JAPANESE_GBNF", "JSON_ARR_GBNF", "JSON_GBNF", "LIST_GBNF"]
)
def test_llama_cpps_own_examples_keep_their_language(session: ModelSession, tokenizer: LLTokenizer, name: str) -> None:
    assert same_language(getattr(examples, name), session, tokenizer, random.Random(2), 4, 25) > 20


def made(dice: random.Random) -> str:
    """A random grammar without left recursion: each rule begins with a character."""
    rules = ["root", "a", "b-c", "B"][: dice.randint(1, 4)]

    def item(depth: int) -> str:
        kind = dice.randrange(6 if depth < 2 else 3)
        if kind == 0:
            return (
                '"'
                + "".join(dice.choice(["a", "b", "c", "\\n", " ", "\\x41", "é"]) for _ in range(dice.randint(1, 3)))
                + '"'
            )
        if kind == 1:
            return dice.choice(["[a-c]", "[^a]", "[ab]", "[^b-z\\n]", ".", "[\\u00e9a]"])
        if kind == 2:
            return dice.choice(rules[1:] or ['"x"'])
        if kind == 3:
            return f"({alternatives(depth + 1)})"
        repeated = dice.choice(
            ['"xy"', "[a-c]", f"({alternatives(depth + 1)})"]
        )  # llama.cpp takes {0,3}{2,} for left recursion
        return repeated + dice.choice(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}"])

    def alternatives(depth: int) -> str:
        return " | ".join(
            " ".join(['"x"', *(item(depth) for _ in range(dice.randint(0, 3)))]) for _ in range(dice.randint(1, 3))
        )

    return "\n".join(f"{name} ::= {alternatives(0)}" for name in rules)


def test_random_grammars_keep_their_language(session: ModelSession, tokenizer: LLTokenizer) -> None:
    dice = random.Random(3)
    assert sum(same_language(made(dice), session, tokenizer, dice, 2, 10) for _ in range(100)) > 1000


def test_whole_masks_are_llama_cpps_where_nothing_is_forced(session: ModelSession, tokenizer: LLTokenizer) -> None:
    """But for control tokens, which llama.cpp takes for text, and tokens that are parts of a character."""
    model = session.model
    plain = np.array([_is_text(model.piece(i)) and not model.is_control(i) for i in range(model.n_vocab)])
    compared = 0
    for text in (LINE, examples.JSON_GBNF, 'root ::= "a" [^\\n]* "\\n" .*'):
        both = Both(text, session, tokenizer)
        dice = random.Random(4)
        for _ in range(8):
            data = (LIB.llama_token_data * model.n_vocab)()
            whole = np.frombuffer(data, [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
            whole["id"] = np.arange(model.n_vocab)
            LIB.llama_sampler_apply(both.theirs, LIB.llama_token_data_array(data, model.n_vocab, -1, False))
            if not both.ours.compute_ff_bytes():
                bits = np.frombuffer(both.ours.compute_bitmask(), np.uint8)
                mine = np.unpackbits(bits, bitorder="little")[: model.n_vocab].astype(bool)
                assert np.flatnonzero(mine[plain] != np.isfinite(whole["logit"])[plain]).tolist() == []
                compared += 1
            character = dice.choice(sorted(both.allowed()[1] - {""}))
            both.take(character)
        both.close()
    assert compared > 15


def _is_text(piece: bytes) -> bool:
    try:
        return bool(piece) and "\0" not in piece.decode()
    except UnicodeDecodeError:
        return False


def test_a_token_is_named_by_its_id_or_its_name(tokenizer: LLTokenizer) -> None:
    text = "root ::= <|im_start|> !<[1]> <[6]>"
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(to_lark(text)), log_level=0)
    assert matcher.validate_tokens([1, 1]) == 1
    assert matcher.validate_tokens([1, 5, 6]) == 3
    assert matcher.validate_tokens([5]) == 0


FAULTS: list[tuple[str, int, int, str]] = [
    ("", 0, 0, "a rule named root"),
    ('rood ::= "a"', 0, 0, "a rule named root"),
    ('root := "a"', 1, 6, "expected ::= after root, not :"),
    ('root ::= "a"\n  | "b"', 2, 3, "name of a rule"),
    ('root ::= "a" )', 1, 14, "unexpected )"),
    ('root ::= ("a"\n | "b"', 1, 10, "never closed"),
    ('root ::= "a" "b', 1, 14, "this text is never closed"),
    ("root ::= [a-", 1, 10, "this class is never closed"),
    ("root ::= []", 1, 10, "at least one character"),
    ('root ::= "a\\q"', 1, 12, "unknown escape \\q"),
    ('root ::= "\\u12"', 1, 11, "\\u needs 4 hexadecimal digits"),
    ('root ::= "\\ud800"', 1, 11, "U+D800 is not a character"),
    ("root ::= * a", 1, 10, "* needs something before it"),
    ('root ::= "a"{2,1}', 1, 13, "at most fewer"),
    ('root ::= "a"{x}', 1, 13, "write a repetition as"),
    ("root ::= a\nb ::= c\nc ::= a", 1, 10, "rule a is not defined"),
    ("root ::= <a b>", 1, 10, "write a token as"),
    ("root ::= !<|im_end|>", 1, 10, "by its id"),
    ("root ::= under_score", 1, 15, "unexpected _"),
    ("root ::= " + "(" * 101 + '"a"' + ")" * 101, 1, 110, "more than 100 deep"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), FAULTS)
def test_a_fault_is_told_with_its_place(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(TextError) as error:
        to_lark(text)
    assert (error.value.line, error.value.column) == (line, column)
    assert says in error.value.message


def test_what_is_refused_llama_cpp_refuses_too(session: ModelSession) -> None:
    lenient = ("[]", "((", "\\ud800", "<", "{2,1}")  # no fault there; the last takes all memory
    texts = [text for text, *_ in FAULTS if text and not any(part in text for part in lenient)]
    assert len(texts) > 12
    for text in texts:
        assert not LIB.llama_sampler_init_grammar(session.model.vocab, text.encode(), b"root"), text
