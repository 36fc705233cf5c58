"""Searches in scripts with and without spaces, for words, stretches of them, and emoji."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from termchat.conversation.store import derived
from termchat.conversation.store.store import Store
from tests.conversation.stored import found, saved

FAMILY = "👨\u200d👩\u200d👧"
ENGLAND = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"


def snippet(store: Store, search: str) -> str:
    (one,) = store.sessions(search=search)
    return one.snippet.replace("\x02", "[").replace("\x03", "]")


@pytest.mark.parametrize(
    ("text", "search", "shown"),
    [
        ("well done 👍", "👍", "well done [👍]"),
        ("well done 👍", "don 👍", "well [don]e [👍]"),
        ("well done 👍🏽!", "👍", "well done [👍🏽]!"),
        ("well done 👍", "👍🏿", "well done [👍]"),
        ("done🤔so", "🤔", "done[🤔]so"),
        ("done🤔so", "so", "done🤔[so]"),
        ("I ❤\ufe0f you", "❤", "I [❤] you"),
        ("I ❤ you", "❤\ufe0f", "I [❤] you"),
        (f"we {FAMILY}!", FAMILY, f"we [{FAMILY}]!"),
        ("from 🇫🇷🇩🇪", "🇩🇪", "from 🇫🇷[🇩🇪]"),
        (f"from {ENGLAND}", ENGLAND, f"from [{ENGLAND}]"),
        ("press 1\ufe0f\u20e3 now", "1\u20e3", "press [1\u20e3] now"),
        ("press #\u20e3 now", "#\ufe0f\u20e3", "press [#\u20e3] now"),
        ("great👍🎉", "👍🎉", "great[👍🎉]"),
        ("ที่นี่สวยมาก", "สวย", "ที่นี่[สวย]มาก"),
        ("ที่นี่สวยมาก", "นี", "ที่[นี่]สวยมาก"),
        ("ที่นี่\u200bสวยมาก", "นี่สวย", "ที่[นี่สวย]มาก"),
        ("ພາສາລາວງ່າຍ", "ລາວ", "ພາສາ[ລາວ]ງ່າຍ"),
        ("ភាសាខ្មែរស្អាត", "ខ្មែរ", "ភាសា[ខ្មែរ]ស្អាត"),
        ("မြန်မာစာပေ", "စာ", "မြန်မာ[စာ]ပေ"),
        ("བཀྲཤིས", "ཤི", "བཀྲ[ཤི]ས"),
        ("한국어를 배우다", "국어", "한[국어]를 배우다"),
        ("한국어를 배우다", "배", "한국어를 [배]우다"),
        ("東\n京都に行く", "京都", "東 [京都]に行く"),
        ("東京都に行く", "京", "東[京]都に行く"),
        ("हिन्दी में लिखा", "हिन्दी", "[हिन्दी] में लिखा"),
        ("हिन्दी में लिखा", "लि", "हिन्दी में [लि]खा"),
        ("தமிழ் மொழி", "தமிழ்", "[தமிழ்] மொழி"),
        ("বাংলা ভাষা", "ভা বাংলা", "[বাংলা] [ভা]ষা"),
        ("narwal 漢wal", "wal", "nar[wal] 漢[wal]"),
        ("ＧＰＴ and ｶﾞｽ", "gpt ガス", "[GPT] and [ガス]"),
        ("ใช้ GPTสร้าง 🚀", "gpt 🚀 ส", "ใช้ [GPT][ส]ร้าง [🚀]"),
        ("the old fox and the fox", '"the fox"', "the old fox and [the fox]"),
        ("the\nfox", '"the fox"', "[the fox]"),
        ("is it a fox?", "fox!", "is it a [fox]?"),
    ],
)
def test_a_search_finds_and_marks(store: Store, text: str, search: str, shown: str) -> None:
    saved(store, "other", ("nothing at all", "ท ส ว 가 1 # 🇪 😀"))
    chat, _ = saved(store, "this", (text, "yes"))
    assert snippet(store, search) == shown
    assert store.preview(chat)[0] == ("user", text)


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("👍", "👎"),
        ("👍 🎉", "🎉👍"),
        ("🇩🇪", "🇫🇷"),
        ("room 12", "1\u20e3"),
        ("ที่นี่", "ทน"),
        ("ที่นี่", "ที้"),
        ("สวยมาก", "สม"),
        ("東京都", "東都"),
        ("काम", "की"),
        ("हिन्दी", "हन्द"),
        ("東京。都", "京都"),
        ("東京と京都", "東京都"),
        ("한국어", "하"),
        ("한국어", "어국"),
        ("がく", "かく"),
        ("hi", "\ufe0f"),
        ("the old fox", '"the fox"'),
    ],
)
def test_a_search_does_not_find(store: Store, text: str, search: str) -> None:
    saved(store, "this", (text, "yes"))
    assert found(store, search) == []


def test_a_variant_of_a_character_is_found_as_the_character(store: Store) -> None:
    saved(store, "this", ("葛\U000e0100城市へ", "か\u3099く"))
    for search in ("葛城", "葛\U000e0100城", "城市", "がく"):
        assert found(store, search) == ["this"], search


def test_emoji_and_stretches_are_found_in_titles_and_replies(store: Store) -> None:
    saved(store, "สวัสดีครับ 🐘", ("hi", "so 🦭 ก็ดี"))
    for search in ("สดี", "🐘", "🦭", "ก็"):
        assert found(store, search) == ["สวัสดีครับ 🐘"], search
    assert snippet(store, "🦭") == "so [🦭] ก็ดี"


def test_a_whole_sentence_is_found_and_so_are_many_words(store: Store) -> None:
    sentence = "吾輩は猫である名前はまだ無いどこで生れたか頓と見当がつかぬ"
    saved(store, "cat", (f"「{sentence}」", "はい"))
    saved(store, "no cat", ("吾輩は犬である名前はもうある", "見当がつかぬ"))
    assert found(store, sentence) == ["cat"]
    assert found(store, " ".join(sentence[at : at + 3] for at in range(0, 27, 3))) == ["cat"]
    assert found(store, "吾輩は 見当がつかぬ") == ["cat", "no cat"]


@pytest.mark.parametrize(
    ("between", "word"), [(" so it goes ", "walrus"), ("👍🏽1\u20e3", "🦭"), ("ที่นี่", "สวย"), ("漢字", "狐")]
)
def test_a_snippet_of_a_long_text_is_whole_at_its_ends(store: Store, between: str, word: str) -> None:
    text = between * 500 + word + between * 500
    saved(store, "this", (text, "yes"))
    shown = snippet(store, word)
    assert shown[0] == shown[-1] == "…"
    assert f"[{word}]" in shown
    around = shown.strip("…").replace("[", "").replace("]", "")
    assert around in text
    assert len(around) > 100


def test_the_denser_text_stands_first_also_within_a_script_without_spaces(store: Store) -> None:
    saved(store, "dense", ("สวยมากสวยสวย 👍👍", "yes"))
    saved(store, "thin", ("สวยมาก" + "ที่นี่" * 50 + "👍", "yes"))
    assert found(store, "สวย") == ["dense", "thin"]
    assert found(store, "👍 สวย") == ["dense", "thin"]


def test_case_width_and_accents_do_not_matter_and_words_are_found_within_others(store: Store) -> None:
    saved(store, "one", ("Walrus in the Kitchen", "ÜBERALL"))
    for search in ("walr", "WALRUS", "alru", "kitchen walru", "uberall", "über", "uber walrus", "ｗａｌｒｕｓ", "W"):
        assert found(store, search) == ["one"], search
    saved(store, "two", ("walruses", "kitchenette"))
    assert sorted(found(store, "walrus")) == ["one", "two"]
    assert found(store, "walruses") == found(store, "kitchene") == ["two"]
    assert found(store, "walrusesque") == found(store, "zzzz") == found(store, "zz") == found(store, "z") == []
    saved(store, "hedgehog", ("Ёжик в тумане, ΑΘΗΝΑ", "हिन्दी में पढ़ना"))
    for search in ("тумане", "тума", "ТУМАН", "ёжик", "ежик", "αθηνα", "Αθην", "हिन्दी", "पढ़ना", "हिन्द туман"):
        assert found(store, search) == ["hedgehog"], search
    assert found(store, "тумана") == found(store, "हिन्दा") == []


@given(st.text())
def test_what_is_shown_is_as_long_as_what_is_searched(text: str) -> None:
    assert len(derived.normalise_shown(text)) == len(derived.fold_text(text))
    assert derived.fold_text(text).translate({0: " "}) == derived.fold_text(text)
