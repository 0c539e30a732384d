"""Physical memory: blocks of frames, whose numbers are given the first time the engine shows them."""

from __future__ import annotations

PAGE = 4096


class Mismatch(AssertionError):
    """The engine did something else than this model."""


class OutOfMemory(Exception):
    """No page for a process, where the kernel has no other to give."""


class Block:
    """Frames that were allocated together: 1, 512 or 262144 of them."""

    def __init__(self, order: int, use: str) -> None:
        """`use`: `anon`, `cache`, `zero` or `table`."""
        self.order = order
        self.use = use
        self.pooled = False
        self.number: int | None = None
        # Leaves (and the page cache) that use all of it, while it is whole; then frame by frame.
        self.users = 1
        self.is_whole = True
        self.users_of: dict[int, int] = {}

    @property
    def frames(self) -> int:
        """How many frames it has."""
        return 1 << self.order

    def count(self, index: int) -> int:
        """Users of one frame."""
        return self.users if self.is_whole else self.users_of.get(index, self.users)

    def is_live(self, index: int) -> bool:
        """Whether a frame of it is in use."""
        return self.use in ("zero", "table") or self.count(index) > 0


class Memory:
    """Every block whose number is known."""

    def __init__(self, size: int) -> None:
        """`size` in bytes."""
        self.frames = size // PAGE
        self.known: list[Block] = []

    def give(self, block: Block, number: int) -> None:
        """The block begins at frame `number`."""
        if block.number is not None:
            if block.number != number:
                raise Mismatch(f"a block at frame {block.number} is said to be at {number}")
            return
        if number % block.frames or not 0 <= number <= self.frames - block.frames:
            raise Mismatch(f"{block.frames} frames cannot begin at {number}")
        self.known = [b for b in self.known if any(b.is_live(i) for i in range(b.frames))]
        for other in self.known:
            assert other.number is not None
            first = max(number, other.number)
            last = min(number + block.frames, other.number + other.frames)
            for frame in range(first, last):
                if other.is_live(frame - other.number) and block.is_live(frame - number):
                    raise Mismatch(f"frame {frame} is given out, but in use as {other.use}")
        block.number = number
        self.known.append(block)

    def address(self, block: Block, offset: int, given: int) -> int:
        """The address of byte `offset` of a block, which the engine says is `given`."""
        if block.number is None:
            if (given - offset) % PAGE:
                raise Mismatch(f"byte {offset} of a block cannot be at {given:#x}")
            self.give(block, (given - offset) // PAGE)
        assert block.number is not None
        return block.number * PAGE + offset
