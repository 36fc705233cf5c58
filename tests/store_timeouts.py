"""Who imports this waits for a disk that stalls.

The app gives up after some seconds, and goes on with what there is. A test that asks what was saved must not: on a machine
that runs tests other programs keep the disk busy.
"""

from __future__ import annotations

from termchat.conversation.store import store
from termchat.conversation.store.store import Store

_PATIENCE = (60.0,)
(store.READ_WAIT_S,) = _PATIENCE
for _waits in (Store.__init__, Store.open.__func__, Store.flush, Store.close):
    _waits.__defaults__ = _PATIENCE
