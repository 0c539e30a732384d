/* A program for a bare AArch64 machine: many small functions, called in random order through a table, on a large array.
 * The machine's memory begins at 1 GiB (QEMU's virt board); this is loaded there, the array lies behind it. */
#define ARRAY ((volatile unsigned *)0x42000000)
#define WORDS (16u << 20) /* 64 MiB */

/* Each does something of its own, so that none is like another to a translator. */
#define ONE(n)                                                                                                                     \
    __attribute__((noinline)) static unsigned f##n(unsigned x) {                                                                   \
        volatile unsigned *at = ARRAY + (x * 2654435761u ^ n##u * 40503u) % WORDS;                                                 \
        unsigned value = *at + n##u;                                                                                               \
        for (unsigned i = 0; i < (x & 3); i++) value = (value << (n % 13 + 1)) ^ (value >> (n % 7 + 3)) ^ at[i];                    \
        if (value & (1u << n % 31)) *at = value ^ x;                                                                               \
        else at[n % 16] += x;                                                                                                      \
        return value * (n##u * 2 + 1) + x;                                                                                         \
    }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
#define NAME(n) f##n,
#define TEN_NAMES(n)                                                                                                               \
    NAME(n##0) NAME(n##1) NAME(n##2) NAME(n##3) NAME(n##4) NAME(n##5) NAME(n##6) NAME(n##7) NAME(n##8) NAME(n##9)
#define HUNDRED_NAMES(n)                                                                                                           \
    TEN_NAMES(n##0) TEN_NAMES(n##1) TEN_NAMES(n##2) TEN_NAMES(n##3) TEN_NAMES(n##4) TEN_NAMES(n##5) TEN_NAMES(n##6)                \
    TEN_NAMES(n##7) TEN_NAMES(n##8) TEN_NAMES(n##9)
#ifdef FUNCTIONS_few
#define ALL(X) X(1) X(2)
#else
#define ALL(X)                                                                                                                     \
    X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) \
    X(24) X(25) X(26) X(27) X(28) X(29) X(30)
#endif

ALL(HUNDRED)
static unsigned (*const functions[])(unsigned) = { ALL(HUNDRED_NAMES) };
#define COUNT (sizeof functions / sizeof *functions)

void run(void) {
    unsigned seed = 1, value = 0;
    for (;;) {
        seed = seed * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        value = functions[(seed >> 8) % COUNT](value ^ seed);
    }
}

__attribute__((naked, section(".text.first"))) void _start(void) {
    __asm__ volatile("mov x0, #0x41000000\n\tmov sp, x0\n\tbl run\n");
}
