"""A word in its spellings, token by token, and what else begins with the first piece of those that are several tokens."""

from __future__ import annotations

from functools import cached_property

from termchat.engine.llama.vocabulary import Vocabulary
from termchat.engine.port import Spelling

MOST = 300
"""Words that are tokenised, at most, to find those which begin with a piece."""
_EXAMPLES = 4


class Speller:
    """Finds the spellings of words. The index is built for the first question, in about a second for 256,000 tokens."""

    def __init__(self, model: Vocabulary) -> None:
        self._model = model

    def spell_variants(self, text: str) -> list[Spelling]:
        """Spell a word with and without a leading space, as written, in lower case, capitalised and in upper case."""
        word = text.strip()
        if not word:
            return []
        forms = dict.fromkeys((word, word.lower(), word.capitalize(), word.upper()))
        return [self._spell_form(space + form) for form in forms for space in (" ", "")]

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        """The tokens by their bytes, of those with the same bytes the first."""
        model = self._model
        return {model.piece(token): token for token in reversed(range(model.n_vocab)) if not model.is_control(token)}

    @cached_property
    def _words(self) -> list[str]:
        begun = (piece.decode("utf-8", "ignore").strip() for piece in self._ids if piece.startswith(b" "))
        return sorted({text.lower() for text in begun if len(text) > 3 and text.isalpha()})

    def _spell_form(self, text: str) -> Spelling:
        single = self._ids.get(text.encode())
        ids = [single] if single is not None else self._tokenize_form(text)
        names = [self._model.name(token) for token in ids]
        others = self._find_others(ids[0], names[0], text) if len(ids) > 1 else []
        return Spelling(text, ids, names, len(others), others[:_EXAMPLES])

    def _tokenize_form(self, text: str) -> list[int]:
        """Tokenise a text, without a first piece that is only a space, which some tokenisers put before a text."""
        ids = self._model.tokenize(text, special=False)
        return ids[1:] if len(ids) > 1 and not self._model.piece(ids[0]).strip() else ids

    def _find_others(self, token: int, name: str, text: str) -> list[str]:
        """Find other words of the vocabulary that, written like `text`, have no token of their own, and begin with this one."""
        space = " " if name.startswith(" ") else ""
        begin = name.strip().lower()
        forms: list[str] = []
        tried = 0
        for word in self._words:
            if not word.startswith(begin):
                continue
            for form in (word, word.capitalize(), word.upper()):
                other = space + form
                if other == text or not other.startswith(name) or other.encode() in self._ids:
                    continue
                tried += 1
                if tried > MOST:
                    return forms
                if self._tokenize_form(other)[:1] == [token]:
                    forms.append(form)
        return forms
