"""Logit biases as they are written, and what they come to."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.decoding.biases import BANNED, Bias, parse, sum_biases
from termchat.decoding.samplers import KNOBS
from termchat.decoding.setting import SettingError

KNOB = KNOBS["logit_bias"]


@pytest.mark.parametrize(
    ("text", "what", "value"),
    [
        ("Paris=ban", "Paris", BANNED),
        (" Paris=-3.5", " Paris", -3.5),
        ('" Paris"=+2', " Paris", 2.0),
        ("5382=ban", 5382, BANNED),
        ('"5382"=-inf', "5382", BANNED),
        ("a=b=1", "a=b", 1.0),
        ("==4", "=", 4.0),
        ('"=-1', '"', -1.0),
        ('"\\n"=1', "\n", 1.0),
        ("\\n=1", "\\n", 1.0),
        ("東京 = BAN", "東京 ", BANNED),
    ],
)
def test_a_text_or_an_id_and_what_is_added(text: str, what: object, value: float) -> None:
    bias = parse(text)
    assert (bias.what, bias.value) == (what, value)
    assert parse(str(bias)) == bias


@pytest.mark.parametrize("text", ["", "x", "x=", "=3", '""=3', "x=b", "x=nan", "x=inf", "x=1001", "x=--3"])
def test_what_is_none_is_refused_in_words(text: str) -> None:
    with pytest.raises(SettingError, match="logit_bias must") as refused:
        KNOB.check([text])
    if text:
        assert "ID=X or TEXT=X, where X is a number from -1000 to 1000, or ban" in str(refused.value)
        assert repr(text) in str(refused.value)


def test_the_last_of_several_for_one_thing_holds_and_zero_is_none() -> None:
    assert KNOB.check(["a=1", "7=2", "a=ban", "b=3", "b=0"]) == ('"a"=ban', "7=+2")
    assert KNOB.check(["none"]) == KNOB.check([]) == KNOB.parse("off") == ()
    assert KNOB.parse(" the=-1") == ('" the"=-1',)
    assert KNOB.show(('"a"=ban', "7=+2")) == '"a"=ban 7=+2'


def test_a_token_of_several_biases_gets_their_sum_and_one_of_a_text_counts_once() -> None:
    assert sum_biases([([1, 2, 1], 2.0), ([2], -0.5), ([3], BANNED), ([3], 100.0)]) == {1: 2.0, 2: 1.5, 3: BANNED}


@given(st.one_of(st.integers(0, 10**9 - 1), st.text(min_size=1)), st.floats(-1000, 1000))
def test_what_is_written_is_read_again(what: int | str, value: float) -> None:
    try:
        bias = parse(str(Bias(what, value or 1.0)))
    except ValueError:
        pytest.fail("refused")
    if isinstance(what, int) or what.encode("utf-16", "replace").decode("utf-16") == what:
        assert bias.what == what
    assert math.isclose(bias.value, value or 1.0, rel_tol=1e-5, abs_tol=1e-300)
