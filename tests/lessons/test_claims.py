"""What the lessons rely on is measured on the real model; where another model makes it false, that is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from termchat.chat.lesson_claims import ClaimMeasuring, MeasuredClaim
from termchat.chat.service import Chat
from termchat.decoding.samplers import Tuning
from termchat.engine.llama.spec import ModelSpec
from termchat.engine.local import LocalEngine
from termchat.lessons.lesson import Claim, Lesson
from termchat.lessons.lesson_file import read_lesson
from termchat.lessons.shelf import COURSE
from tests.fewer_blocks import without_blocks

pytestmark = pytest.mark.model
