/* A synthetic benchmark of integers, records, strings and calls: what compilers were measured by for decades. It stands for
 * such a file in kind, and is our own. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { RED, GREEN, BLUE, WHITE, BLACK } Colour;
typedef char Text[31];

typedef struct Record {
    struct Record *next;
    Colour colour;
    union {
        struct { int number; Text name; } plain;
        struct { char first, last; Text names[2]; } double_name;
    } part;
} Record;

static Record *head, *spare;
static int counts[50], squares[50][50];
static char letter;
static long total;

static Colour darker(Colour c) {
    switch (c) {
    case WHITE: return RED;
    case RED: return GREEN;
    case GREEN: return BLUE;
    case BLUE: return BLACK;
    default: return WHITE;
    }
}

static int same_letter(char a, char b) {
    char kept = a;
    if (kept != b) return 0;
    letter = kept;
    return 1;
}

static int follows(const char *a, const char *b) {
    int at = 2;
    char found = 'A';
    while (at <= 2)
        if (same_letter(a[at], b[at + 1])) {
            found = 'A';
            at++;
        } else {
            at += 3;
        }
    if (found >= 'W' && found < 'Z') at = 7;
    if (found == 'R') return 1;
    if (strcmp(a, b) > 0) {
        at += 7;
        total += at;
        return 1;
    }
    return 0;
}

static void change(int given, int *out) {
    int local = given + 10;
    for (;;) {
        if (letter == 'A') {
            local--;
            *out = local - (int)total % 7;
            break;
        }
        if (local > 100) {
            *out = local;
            break;
        }
        local += 11;
        letter = 'A';
    }
}

static void fill(int line[50], int square[50][50], int a, int b) {
    int at = a + 5;
    line[at] = b;
    line[at + 1] = line[at];
    line[at + 30 - 25] = at;
    for (int i = at; i <= at + 1; i++) square[at][i] = at;
    square[at][at - 1]++;
    square[at + 20][at] = line[at];
    total += 5;
}

static void copy(Record *from) {
    Record *to = from->next;
    *from->next = *head;
    from->part.plain.number = 5;
    to->part.plain.number = from->part.plain.number;
    to->next = from->next;
    if (to->colour == RED) {
        to->part.plain.number = 6;
        to->colour = darker(from->colour);
        to->next = head->next;
        change(to->part.plain.number, &to->part.plain.number);
    } else {
        *from = *from->next;
    }
}

#define SORT(NAME, TYPE, LESS)                                                                                                     \
    static void sort_##NAME(TYPE *v, int n) {                                                                                      \
        if (n < 2) return;                                                                                                         \
        TYPE middle = v[n / 2];                                                                                                    \
        int i = 0, j = n - 1;                                                                                                      \
        for (;; i++, j--) {                                                                                                        \
            while (LESS(v[i], middle)) i++;                                                                                        \
            while (LESS(middle, v[j])) j--;                                                                                        \
            if (i >= j) break;                                                                                                     \
            TYPE kept = v[i];                                                                                                      \
            v[i] = v[j];                                                                                                           \
            v[j] = kept;                                                                                                           \
        }                                                                                                                          \
        sort_##NAME(v, i);                                                                                                         \
        sort_##NAME(v + i, n - i);                                                                                                 \
    }
#define SMALLER(a, b) ((a) < (b))
#define EARLIER(a, b) (strcmp((a).name, (b).name) < 0)
#define LIGHTER(a, b) ((a)->colour < (b)->colour)
struct Named { Text name; };
SORT(int, int, SMALLER)
SORT(long, long, SMALLER)
SORT(double, double, SMALLER)
SORT(named, struct Named, EARLIER)
typedef Record *Pointer;
SORT(record, Pointer, LIGHTER)

static unsigned long hash(const char *text) {
    unsigned long h = 5381;
    for (; *text; text++) h = h * 33 ^ (unsigned char)*text;
    return h;
}

static double polynomial(const double *c, int n, double x) {
    double sum = 0;
    for (int i = n - 1; i >= 0; i--) sum = sum * x + c[i];
    return sum;
}

static void multiply(double a[8][8], double b[8][8], double c[8][8]) {
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            double sum = 0;
            for (int k = 0; k < 8; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
}

static int parse(const char **at) {
    int value = 0, sign = 1;
    while (**at == ' ') ++*at;
    if (**at == '-') {
        sign = -1;
        ++*at;
    }
    if (**at == '(') {
        ++*at;
        value = parse(at);
        if (**at == ')') ++*at;
    } else {
        while (**at >= '0' && **at <= '9') value = value * 10 + *(*at)++ - '0';
    }
    while (**at == ' ') ++*at;
    switch (**at) {
    case '+': ++*at; return sign * value + parse(at);
    case '*': ++*at; return sign * value * parse(at);
    default: return sign * value;
    }
}

int main(int count, char **args) {
    int runs = count > 1 ? atoi(args[1]) : 1000;
    Text first, second;
    double a[8][8], b[8][8], c[8][8], coefficients[12];
    struct Named names[64];
    int numbers[256];
    long longs[256];
    double doubles[256];
    Pointer pointers[16];
    spare = malloc(sizeof *spare);
    head = malloc(sizeof *head);
    if (!spare || !head) return 1;
    head->next = spare;
    head->colour = RED;
    head->part.plain.number = 40;
    strcpy(head->part.plain.name, "a benchmark, some string");
    strcpy(first, "a benchmark, 1'st string");
    counts[8] = 10;
    for (int i = 0; i < 64; i++) a[i / 8][i % 8] = i, b[i / 8][i % 8] = 64 - i;
    for (int run = 1; run <= runs; run++) {
        int one = 2, two, three = 3;
        strcpy(second, "a benchmark, 2'nd string");
        letter = 'A';
        if (!follows(first, second)) total++;
        while (one < three) {
            two = 5 * one - three;
            change(one, &two);
            one++;
        }
        fill(counts, squares, one, two);
        copy(head);
        for (char at = 'A'; at <= letter; at++)
            if (same_letter(at, 'C')) strcpy(second, "a benchmark, 3'rd string");
        three = two * one;
        one = three / (two ? two : 1);
        for (int i = 0; i < 256; i++) {
            numbers[i] = (i * 7919 + run) % 1009;
            longs[i] = numbers[i] * 31L % 769;
            doubles[i] = numbers[i] / 3.0;
        }
        sort_int(numbers, 256);
        sort_long(longs, 256);
        sort_double(doubles, 256);
        for (int i = 0; i < 64; i++) snprintf(names[i].name, sizeof names[i].name, "name %d", numbers[i * 4]);
        sort_named(names, 64);
        for (int i = 0; i < 16; i++) pointers[i] = i % 2 ? head : spare;
        sort_record(pointers, 16);
        for (int i = 0; i < 12; i++) coefficients[i] = doubles[i * 20];
        multiply(a, b, c);
        const char *text = "3 * (4 + 5 * 6) + -7 * (8 + 9)";
        total += parse(&text) + (long)hash(names[run % 64].name) % 13 + (long)polynomial(coefficients, 12, 0.5) + (long)c[3][4] % 5;
    }
    printf("%ld %d %d %s\n", total, counts[8], squares[8][7], second);
    return 0;
}
