"""What paper 2 states in numbers. Its bars have no numbers, so that only what its text says of them stands here."""

from collections.abc import Mapping
from dataclasses import dataclass

# Section V-A: cycles of an ITLB miss with 9 superpages of code, and of an STLB hit as Intel states it. The last is how
# many times as long the chain of 9 functions takes as that of 8.
MISS_CYCLES, HIT_CYCLES, SLOWER = 28.7, 7, 5.0
# Its share of the time is "more than" this.
MISS_SHARE = 0.70
# Section V: ITLB stall over walk cycles of Clang, without superpages of code and with all.
CLANG_RATIOS = (5.8, 29.3)
# Section V-A: "in most cases" the walk's share of ITLB stall is below this.
WALK_SHARE = 0.30
# Section VI-C, what is saved of execution cycles: all three techniques; padding at most; sharing at most (section I).
ALL_THREE, PADDING, SHARING = 0.18, 0.04, 0.069
# Of them, in the kernel: instructions and cycles that sharing saves.
KERNEL_INSTRUCTIONS, KERNEL_CYCLES = 0.105, 0.048
# Section I: what a threshold of 448 pages saves PostgreSQL.
AT_448_PAGES = 0.085
# Section V: at threshold 18, the least of walk cycles that is left, by side.
WALKS_LEFT = {"instruction": 0.02, "data": 0.50}


@dataclass(frozen=True)
class Stated:
    """A program in Tables III and IV, and in sections I, IV and V."""

    # Of cycles, in the kernel.
    kernel: float
    main_mb: float
    libraries: int
    small_libraries: int
    # Superpages of code under FreeBSD as it is, and with a threshold of 16: of how many regions.
    stock: int
    # Regions that a threshold of 16 leaves unpromoted, where the text says it.
    left_at_16: int
    # ITLB stall as a share of cycles on FreeBSD as it is, where the text says it.
    overhead: str = ""


STATED: Mapping[str, Stated] = {
    "Clang": Stated(0.07, 55.895, 0, 0, 1, 6, "4.6 % to 5.8 %"),
    "PostgreSQL, reconnecting": Stated(0.65, 5.953, 15, 10, 0, 0, "7.7 % to 8.8 %"),
    "PostgreSQL, persistent": Stated(0.17, 5.953, 15, 10, 0, 0, "14.6 % to 15.4 %"),
    "Javac": Stated(0.01, 20.0, 13, 11, 0, 0),
    "Derby": Stated(0.007, 12.0, 15, 13, 0, 0),
    "Node.js": Stated(0.004, 23.836, 20, 16, 1, 0),
    "MySQL": Stated(0.20, 40.094, 15, 13, 5, -1),
}
