"""A second model of the whole machine, as simple as it can be written, to hold the engine against.

It is written from docs/concepts: lists, dicts and loops, no speed and no tricks. Only one thing is not predicted: which
physical frame the allocator hands out. A frame is an object here. It gets its number from the engine's narration when
it first shows. From then on it must keep its number, and no other frame in use may have it.
"""
