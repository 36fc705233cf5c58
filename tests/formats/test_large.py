"""A message that is too large to be sent is not imported either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from termchat.conversation.node import LARGEST_MESSAGE
from termchat.conversation.store.store import Store
from termchat.conversation.transcripts import importing
from termchat.conversation.transcripts.transcript import TranscriptError


def test_a_message_that_is_too_long_is_not_imported(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "sessions.db")
    for size, wanted in ((LARGEST_MESSAGE, 1), (LARGEST_MESSAGE + 1, 1)):
        file = tmp_path / "chat.json"
        file.write_text(json.dumps({"messages": [{"role": "user", "content": "x" * size}]}))
        (chat,) = importing.chats(file)
        if size > LARGEST_MESSAGE:
            with pytest.raises(TranscriptError, match="longer than 1,000,000 characters") as caught:
                importing.keep_transcript(store, chat)
            assert "Split or shorten it" in caught.value.hint
        else:
            importing.keep_transcript(store, chat)
        assert len(store.sessions()) == wanted
    store.close()
