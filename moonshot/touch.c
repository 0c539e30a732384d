// SPDX-License-Identifier: GPL-2.0-only
//
// The program whose pages are compared: it touches private memory for the first time in the orders that CoalaPaging and
// the contiguous bit must cope with, each in a mapping of its own, at an address of its own, and says which is where:
// "part NAME START BYTES", in hexadecimal. Each mapping is a whole number of ranges of 64 KiB.
//
// Only the parts that are about fork() are shared with a child: fork() takes the right to store from all entries, and
// with it what tells them apart.
//
// At the end it prints what the kernel counted, where the kernel counts that.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, GROUP = 16, RANGE = GROUP * PAGE, RANGES = 32, PAGES = RANGES * GROUP, SPACING = 16 << 20 };

static char *shared(const char *name) {
    static char *next = (char *)0x10000000;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    char *at = mmap(next, PAGES * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at != next) exit(2);
    next += SPACING;
    printf("part %s %lx %x\n", name, (unsigned long)at, PAGES * PAGE);
    return at;
}

static char *mapping(const char *name) {
    char *at = shared(name);
    if (madvise(at, PAGES * PAGE, MADV_DONTFORK)) exit(3);
    return at;
}

static void touch(char *at, int page) { *(volatile char *)(at + (long)page * PAGE) = 1; }

static void touch_all(char *at) {
    for (int page = 0; page < PAGES; page++) touch(at, page);
}

// A page of each range, the same in all.
static void each(char *at, int page, void (*act)(char *)) {
    for (int range = 0; range < RANGES; range++) act(at + (long)range * RANGE + (long)page * PAGE);
}

static void store(char *at) { *(volatile char *)at = 2; }
static void drop(char *at) { if (madvise(at, PAGE, MADV_DONTNEED)) exit(4); }
static void forbid(char *at) { if (mprotect(at, PAGE, PROT_READ)) exit(5); }
static void allow(char *at) { if (mprotect(at, PAGE, PROT_READ | PROT_WRITE)) exit(6); }

// A fixed order that is no order: a permutation by a linear congruence.
static int shuffled(int i) { return (i * 205 + 77) % PAGES; }

static void orders(void) {
    touch_all(mapping("ascending"));
    char *at = mapping("shuffled");
    for (int i = 0; i < PAGES; i++) touch(at, shuffled(i));
    // Two mappings in turn: each finds its block again through the page table.
    char *down = mapping("downwards"), *steps = mapping("in-steps-of-7");
    for (int i = 0; i < PAGES; i++) {
        touch(down, PAGES - 1 - i);
        touch(steps, i * 7 % PAGES);
    }
}

static void incomplete(void) {
    char *at = mapping("fifteen-of-16");
    for (int page = 0; page < PAGES; page++)
        if (page % GROUP != 5) touch(at, page);
    // Loads find the shared page of zeros; stores replace it, one page after the other.
    at = mapping("read-first");
    volatile char sum = 0;
    for (int page = 0; page < PAGES; page++) sum += at[(long)page * PAGE];
    touch_all(at);
}

static void changes(void) {
    char *at = mapping("one-protected");
    touch_all(at);
    each(at, 5, forbid);
    at = mapping("protected-and-back");
    touch_all(at);
    each(at, 5, forbid);
    each(at, 5, allow);
    at = mapping("given-back-and-again");
    touch_all(at);
    each(at, 9, drop);
    each(at, 9, store);
    at = mapping("given-back");
    touch_all(at);
    each(at, 9, drop);
}

// The child ends, or stays until the parent has stored to its own copies.
static void copies(void) {
    char *kept = shared("forked"), *parted = shared("copied-on-write"), *returned = shared("forked-and-stored");
    char *mixed = shared("one-protected-and-forked");
    touch_all(mixed);
    each(mixed, 5, forbid);
    touch_all(kept);
    touch_all(parted);
    touch_all(returned);
    int told[2];
    char byte;
    if (pipe(told)) exit(7);
    pid_t child = fork();
    if (child == 0) {
        close(told[1]);
        _exit(read(told[0], &byte, 1) == 0 ? 0 : 1);
    }
    close(told[0]);
    each(parted, 5, store);
    close(told[1]);
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status) exit(8);
    touch_all(returned);
}

static void counts(void) {
    char text[512];
    int file = open("/sys/kernel/mm/coala/counts", O_RDONLY);
    ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof text - 1);
    text[bytes > 0 ? bytes : 0] = 0;
    for (char *line = text, *end; (end = strchrnul(line, '\n')) && *line; line = *end ? end + 1 : end)
        printf("count %.*s\n", (int)(end - line), line);
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    orders();
    incomplete();
    changes();
    copies();
    counts();
    return 0;
}
