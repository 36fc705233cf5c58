"""The numbers of a what-if."""

from __future__ import annotations

import pytest

from termchat.conversation.position import WhatIf, summarise_whatif


@pytest.mark.parametrize(
    ("ids", "drawn", "probabilities", "forced", "expected"),
    [
        ([1, 2, 3, 4], [1, 2, 3, 4], [0.5] * 4, (), WhatIf(None, (), (), 1.0)),
        ([1, 2, 3, 4], [1, 9, 3, 8], [0.5, 0.1, 0.5, 0.0], (), WhatIf(1, (1, 3), (3,), 0.5)),
        ([1, 2, 3, 4], [1, 9, 3, 8], [0.5, 0.0, 0.5, 0.0], {1}, WhatIf(3, (3,), (3,), 1 - 1 / 3)),
        ([5], [6], [0.2], {0}, WhatIf(None, (), (), 1.0)),
        ([5], [6], [0.0], {0}, WhatIf(None, (), (), 1.0)),
        ([], [], [], (), WhatIf(None, (), (), 1.0)),
    ],
)
def test_summary(
    ids: list[int], drawn: list[int], probabilities: list[float], forced: set[int], expected: WhatIf
) -> None:
    assert summarise_whatif(ids, drawn, probabilities, forced) == expected


def test_lists_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        summarise_whatif([1, 2], [1], [0.5])
