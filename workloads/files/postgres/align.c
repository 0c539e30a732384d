/* Preloaded by the recorded server: its signal handlers get a stack aligned to 16 bytes, as the x86-64 ABI promises them.
 * QEMU 7.2's user mode enters them 8 bytes off, and a handler that stores SSE registers there is ended by SIGSEGV. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

static void (*handlers[NSIG])(int, siginfo_t *, void *);

__attribute__((force_align_arg_pointer)) static void aligned(int number, siginfo_t *info, void *context) {
    handlers[number](number, info, context);
}

int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    static int (*real)(int, const struct sigaction *, struct sigaction *);
    if (!real) real = dlsym(RTLD_NEXT, "sigaction");
    if (number <= 0 || number >= NSIG) return real(number, new, old);
    void (*before)(int, siginfo_t *, void *) = handlers[number];
    struct sigaction changed;
    if (new) {
        changed = *new;
        if (new->sa_handler != SIG_DFL && new->sa_handler != SIG_IGN) {
            handlers[number] = new->sa_sigaction;
            changed.sa_sigaction = aligned;
        }
    }
    int result = real(number, new ? &changed : NULL, old);
    if (old && old->sa_sigaction == aligned) old->sa_sigaction = before;
    return result;
}
