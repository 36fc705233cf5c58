"""A pipe that is not read keeps nobody waiting, and what was written arrives whole and in order."""

from __future__ import annotations

import os
import signal
import threading
from time import monotonic, sleep

from termchat.engine.local import LocalEngine
from termchat.engine.port import Probe, Probed, Tokenize
from termchat.engine.worker_line import Outbox


def test_more_than_the_pipe_takes_arrives_in_order() -> None:
    reading, writing = os.pipe()
    outbox = Outbox(writing)
    sent = [bytes([number]) * 100_000 for number in range(30)]
    for data in sent:
        outbox.write(data)
    came = b""
    while len(came) < 3_000_000:
        came += os.read(reading, 1 << 16)
    assert came == b"".join(sent)
    outbox.write(b"after")
    assert os.read(reading, 10) == b"after"
    os.close(reading)
    outbox.write(b"to nobody")
    outbox.close()
    os.close(writing)


def test_what_is_closed_keeps_the_pipe_open_for_no_thread() -> None:
    others = set(threading.enumerate())
    reading, writing = os.pipe()
    outbox = Outbox(writing)
    outbox.write(b"x" * 1_000_000)
    outbox.close()
    os.close(writing)
    while os.read(reading, 1 << 20):
        pass
    os.close(reading)
    end = monotonic() + 60
    while any(thread.name == "outbox" for thread in set(threading.enumerate()) - others):
        assert monotonic() < end
        sleep(0.01)


def test_a_worker_that_stands_still_keeps_nobody_waiting() -> None:
    engine = LocalEngine()
    engine.send(Probe())
    while not any(isinstance(event, Probed) for _, event in engine.receive(1.0)):
        pass
    assert engine.pid is not None
    os.kill(engine.pid, signal.SIGSTOP)
    for _ in range(3):
        engine.send(Tokenize("a long text " * 100_000))
    os.kill(engine.pid, signal.SIGCONT)
    number, answers = engine.send(Probe()), 0
    end = monotonic() + 60
    while answers < 4:
        assert monotonic() < end
        answers += len([event for of, event in engine.receive(1.0) if of <= number])
    engine.send(Tokenize("a long text " * 100_000))
    os.kill(engine.pid, signal.SIGSTOP)
    engine.send(Tokenize("a long text " * 100_000))
    engine.close()
    assert not engine.alive
