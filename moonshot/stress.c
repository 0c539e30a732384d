// SPDX-License-Identifier: GPL-2.0-only
//
// Memory that is changed at random in all the ways that concern the sixteen entries of a range, and must keep what was
// stored in it: stores, mprotect, MADV_DONTNEED, MADV_FREE, mremap, fork with stores on both sides, compaction, and
// pages that a child gives back while the parent needs some. Ends with status 1 if a page has lost its content.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 1024, SPARE = 16, STEPS = 6000 };

static char *memory;
// What the first word of each page must be; 0 where nothing was stored. A page of MADV_FREE may also have become 0.
static unsigned long expected[PAGES];
static char freed[PAGES];
static unsigned long state = 88172645463325252ul;

static unsigned long next(unsigned long below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static volatile unsigned long *word(int page) { return (unsigned long *)(memory + (long)page * PAGE); }

static void check(int page) {
    unsigned long found = *word(page);
    if (found == expected[page] || (freed[page] && found == 0)) return;
    printf("page %d has %lx, and should have %lx\n", page, found, expected[page]);
    _exit(1);
}

static void store(int page) {
    check(page);
    expected[page] = *word(page) = next(~0ul) | 1;
    freed[page] = 0;
}

static void must(int failed, const char *what) {
    if (failed) {
        perror(what);
        _exit(2);
    }
}

static void protect_and_back(int page, int count) {
    must(mprotect(memory + (long)page * PAGE, (long)count * PAGE, PROT_READ), "mprotect");
    check(page);
    must(mprotect(memory + (long)page * PAGE, (long)count * PAGE, PROT_READ | PROT_WRITE), "mprotect");
}

static void give_back(int page, int count, int advice) {
    must(madvise(memory + (long)page * PAGE, (long)count * PAGE, advice), "madvise");
    for (int i = page; i < page + count; i++) {
        if (advice == MADV_FREE) {
            freed[i] = 1;
        } else if (advice == MADV_DONTNEED) {
            expected[i] = 0;
            freed[i] = 0;
        }
    }
}

// There and back, through a place that is not as far from a multiple of 64 KiB.
static void move(int page, int count) {
    static char *elsewhere;
    if (!elsewhere) elsewhere = (char *)mmap(0, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) + 5 * PAGE;
    char *at = memory + (long)page * PAGE;
    long bytes = (long)count * PAGE;
    must(mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere) == MAP_FAILED, "mremap");
    must(mremap(elsewhere, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED, "mremap back");
}

static void copy(void) {
    pid_t child = fork();
    must(child < 0, "fork");
    for (int i = 0; i < 40; i++) store((int)next(PAGES));
    if (child == 0) {
        for (int page = 0; page < PAGES; page++) check(page);
        _exit(0);
    }
    int status;
    must(waitpid(child, &status, 0) != child, "waitpid");
    if (status) _exit(1);
}

static void compact(void) {
    int file = open("/proc/sys/vm/compact_memory", O_WRONLY);
    must(file < 0 || write(file, "1", 1) != 1, "compact_memory");
    close(file);
}

int main(void) {
    memory = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory == MAP_FAILED, "mmap");
    for (int step = 0; step < STEPS; step++) {
        int page = (int)next(PAGES - SPARE), count = 1 + (int)next(SPARE);
        switch (next(step % 100 ? 8 : 10)) {
        case 0: case 1: case 2: case 3: store(page); break;
        case 4: for (int i = page; i < page + count; i++) store(i); break;
        case 5: protect_and_back(page, count); break;
        case 6: give_back(page, count, next(2) ? MADV_DONTNEED : next(2) ? MADV_FREE : MADV_COLD); break;
        case 7: move(page, count); break;
        case 8: copy(); break;
        case 9: compact(); break;
        }
    }
    for (int page = 0; page < PAGES; page++) check(page);
    printf("all of %d pages have what was stored in them\n", PAGES);
    int file = open("/sys/kernel/mm/coala/counts", O_RDONLY);
    char text[512];
    ssize_t bytes = file < 0 ? 0 : read(file, text, sizeof text);
    return fwrite(text, 1, bytes > 0 ? bytes : 0, stdout) == (size_t)(bytes > 0 ? bytes : 0) ? 0 : 2;
}
