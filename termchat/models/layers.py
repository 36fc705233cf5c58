"""What each layer of a model keeps of a context: the shape of the KV cache and of recurrent states."""

from __future__ import annotations

from typing import NamedTuple

from termchat.models.metadata import Metadata

_EVERY_FOURTH = ("qwen3next", "qwen35", "qwen35moe")
"""Architectures of which every fourth layer attends and the others are recurrent, where the file says nothing else."""


class Layer(NamedTuple):
    """How many numbers a layer keeps: of each token as keys and as values, and once for each sequence."""

    keys: int
    values: int
    state: int


def layers(metadata: Metadata) -> tuple[Layer, ...]:
    """The layers that have a cache of their own; () where the file does not say how many there are.

    A layer with a sliding window counts like any other: its cache is kept whole, so that a chat can be cut anywhere.
    """
    count = metadata.own("block_count") or 0
    heads = _kv_heads(metadata, count)
    keys, values = (_widths(metadata, name, count) for name in ("key_length", "value_length"))
    state = _state(metadata)
    mixed = any(heads) and not all(heads)
    owned = max(count - (metadata.own("attention.shared_kv_layers") or 0), 0)
    return tuple(
        Layer(heads[number] * keys[number], heads[number] * values[number], 0 if mixed and heads[number] else state)
        for number in range(owned)
    )


def head_count(metadata: Metadata) -> int:
    """Query heads of a layer, of those that have most; 0 where the file does not say."""
    several = metadata.each("attention.head_count", metadata.own("block_count") or 0)
    return metadata.own("attention.head_count") or max(several, default=0)


def _kv_heads(metadata: Metadata, count: int) -> list[int]:
    """Key heads of each layer; none in a recurrent one."""
    heads = metadata.each("attention.head_count_kv", count)
    if not heads:
        same = metadata.own("attention.head_count_kv")
        heads = [head_count(metadata) if same is None else same] * count
    every = metadata.own("full_attention_interval") or (4 if metadata.architecture in _EVERY_FOURTH else 1)
    return [one if (number + 1) % every == 0 else 0 for number, one in enumerate(heads)]


def _widths(metadata: Metadata, name: str, count: int) -> list[int]:
    """Numbers in one head of each layer."""
    heads = head_count(metadata)
    usual = metadata.own(f"attention.{name}") or ((metadata.own("embedding_length") or 0) // heads if heads else 0)
    sliding = metadata.each("attention.sliding_window_pattern", count) or [0] * count
    narrow = metadata.own(f"attention.{name}_swa") or usual
    return [narrow if one else usual for one in sliding]


def _state(metadata: Metadata) -> int:
    """Numbers in the state of a recurrent layer: of its convolution, and its memory."""
    short = metadata.own("shortconv.l_cache")
    if short is not None:
        return (metadata.own("embedding_length") or 0) * max(short - 1, 0)
    inner, memory = metadata.own("ssm.inner_size") or 0, metadata.own("ssm.state_size") or 0
    groups, kernel = metadata.own("ssm.group_count") or 0, metadata.own("ssm.conv_kernel") or 1
    return (kernel - 1) * (inner + 2 * groups * memory) + memory * inner
