"""`termchat tokens`: what a script and a reader get, against llama.cpp's own tokenizer."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path

import llama_cpp
import pytest

TEXT = "How many r are in strawberry?  Größe <|im_end|> 漢字\n\tend👩\u200d💻"


@pytest.fixture(scope="module")
def llama_ids(model_path: Path) -> list[int]:
    """What llama.cpp makes of the text, without a begin token and without control tokens."""
    bare = llama_cpp.Llama(str(model_path), vocab_only=True, verbose=False)
    return list(bare.tokenize(TEXT.encode(), add_bos=False, special=False))


def tokens(tmp_path: Path, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    homes = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TERMCHAT_")}
    command = [sys.executable, "-m", "termchat", "tokens", *args]
    return subprocess.run(command, input=stdin, env=kept | homes, capture_output=True, text=True, check=False)


def test_the_ids_are_those_of_llama_cpp(tmp_path: Path, llama_ids: list[int]) -> None:
    done = tokens(tmp_path, "--json", TEXT)
    found = json.loads(done.stdout)["tokens"]
    assert [token["id"] for token in found] == llama_ids
    assert b"".join(base64.b64decode(token["bytes"]) for token in found) == TEXT.encode()
    done = tokens(tmp_path, "--ids", stdin=TEXT)
    assert done.stdout == "".join(f"{one}\n" for one in llama_ids)


def test_the_pieces_stand_in_line_with_counts_below(tmp_path: Path) -> None:
    done = tokens(tmp_path, "How many r are in strawberry?\nOne ß漢\x1b[2J")
    assert done.stdout.splitlines()[:2] == [
        "How│·many│·r│·are│·in│·strawberry│?│⏎",
        "One│<20><C3>│<9F>│<E6>│<BC>│<A2>│␛│[│2│J",
    ]
    assert done.stdout.splitlines()[2] == "18 tokens, 40 characters (29 letters), 43 bytes"
    assert done.returncode == 0


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    done = tokens(tmp_path, "--model", "nope", "x")
    assert done.returncode == 1
    assert "no model named 'nope'" in done.stderr
    assert tokens(tmp_path, "--ids", "--json", "x").returncode == 2
