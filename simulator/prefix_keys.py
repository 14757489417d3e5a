"""`PrefixKeys`: which KV blocks of which requests have the same content.

A block's key stands for all tokens up to and including the block (the chained hash of vLLM's
`hash_block_tokens`, SGLang's radix path): two blocks with one key are interchangeable. Keys come
from what a trace knows: the earlier turns of a session, shared prefixes, or hash ids at their own
granularity. All other tokens, generated ones too, are unique to their request.

Keys are consecutive where one content follows the other, and only there (`keys.py`).
"""

from __future__ import annotations

from collections import Counter

from .keys import FIRST_KEY, NO_KEYS, Keys, keys_of_hashes
from .trace import Trace
from .turns import earlier_turns


class PrefixKeys:
    """Keys of the full blocks of every request, made when they are first asked for.

    Nobody else asks for what a request without later turns adds of its own, so that has keys only
    after a preemption. They are given out anew after the last request that has them.
    used: all keys given out so far are below this. has_children: rows with a later turn.

    Raises:
        ConfigError: the trace's hash granularity and the block size do not divide each other.
        WorkloadError: a turn that would have to come before itself.
    """

    def __init__(self, trace: Trace, block_size: int) -> None:
        self._size = block_size
        self._prompt: list[int] = trace.prompt_tokens.tolist()
        self._output: list[int] = trace.output_tokens.tolist()
        self._hashes = trace.block_hashes
        self._hashed: list[Keys] = []
        self._parent = earlier_turns(trace)
        self._group = trace.prefix_group
        self._group_tokens = None if trace.prefix_tokens is None else trace.prefix_tokens.tolist()
        self._group_keys: dict[str, Keys] = {}
        self._streams: dict[int, Keys] = {}
        self._own: dict[int, range] = {}
        self._spare: dict[int, list[int]] = {}
        self.used = FIRST_KEY
        self._users = Counter(self._parent.values())
        if self._hashes is not None:
            hash_tokens = trace.hash_block_tokens or block_size
            self._hashed, self.used = keys_of_hashes(self._hashes, hash_tokens, block_size)
        if self._group is not None and self._group_tokens is not None:
            self._number_groups()
        self.has_children = set(self._parent.values())

    def parent_of(self, row: int) -> int | None:
        """The row whose prompt and output this row's prompt starts with."""
        return self._parent.get(row)

    @property
    def all_start_alone(self) -> bool:
        """Whether no two requests of the trace begin alike, as far as it says."""
        hashes = self._hashes is not None and any(self._hashes)
        groups = self._group is not None and any(name is not None for name in self._group)
        return not (self._parent or hashes or groups)

    def starts_alone(self, row: int) -> bool:
        """Whether no other request of the trace begins as this one does."""
        return not (
            row in self._parent
            or row in self.has_children
            or (self._hashes is not None and self._hashes[row])
            or (self._group is not None and self._group[row] is not None)
        )

    def of(self, row: int) -> Keys:
        """Keys of the leading full blocks that others may have too, or that were `completed`."""
        keys = self._streams.get(row)
        if keys is not None:
            return keys
        turns = [row]  # it and the earlier ones that were not asked for yet
        parent = self._parent.get(row)
        while parent is not None and parent not in self._streams:
            turns.append(parent)
            parent = self._parent.get(parent)
        for turn in reversed(turns):
            whole = turn in self.has_children
            keys = self._whole(turn) if whole else self._shared_head(turn)
            self._streams[turn] = keys
        assert keys is not None
        return keys

    def complete(self, row: int) -> None:
        """From now on `of` has all full blocks of prompt and output: they may be resumed."""
        if row not in self._own:
            self._streams[row] = self._whole(row)

    def forget(self, row: int) -> list[range]:
        """The request ended; returns keys that nobody can ask for any more."""
        freed: list[range] = []
        last: int | None = row
        while last is not None:
            if self._users[last] > 0:
                self._users[last] -= 1
                break
            self._streams.pop(last, None)
            own = self._own.pop(last, None)
            if own:
                self._spare.setdefault(_room(len(own)), []).append(own.start)
                freed.append(own)
            last = self._parent.get(last)
        return freed

    def _whole(self, row: int) -> Keys:
        head = self._shared_head(row)
        total = (self._prompt[row] + self._output[row]) // self._size
        own = self._own[row] = self._range(total - len(head))
        return head.then(own)

    def _range(self, keys: int) -> range:
        """Keys that nobody uses, consecutive; lengths are rounded up so that they fit again.

        One more is left out, so that what others have does not go on with them.
        """
        if not keys:
            return range(0)
        spare = self._spare.get(_room(keys))
        if spare:
            start = spare.pop()
        else:
            start = self.used
            self.used += _room(keys) + 1
        return range(start, start + keys)

    def _shared_head(self, row: int) -> Keys:
        prompt_blocks = self._prompt[row] // self._size
        parent = self._parent.get(row)
        if parent is not None:
            return self.of(parent).head(prompt_blocks)
        if self._hashes is not None:
            return self._hashed[row].head(prompt_blocks)
        group = self._group[row] if self._group is not None else None
        if group is None or self._group_tokens is None:
            return NO_KEYS
        shared = min(self._group_tokens[row], self._prompt[row])
        return self._group_keys[group].head(shared // self._size)

    def _number_groups(self) -> None:
        longest: dict[str, int] = {}
        for group, tokens in zip(self._group or (), self._group_tokens or (), strict=True):
            if group is not None:
                longest[group] = max(longest.get(group, 0), tokens)
        for group, tokens in longest.items():
            keys = range(self.used, self.used + tokens // self._size)
            self._group_keys[group] = NO_KEYS.then(keys)
            self.used = keys.stop + 1


def _room(keys: int) -> int:
    """Keys set aside for a request with so many of its own."""
    return 1 << (keys - 1).bit_length()
