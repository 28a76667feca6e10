// A stack of its own for each CUDA thread that waits, and the switch between two of them.
//
// On x86-64 the switch saves the six callee-saved registers and swaps the stack pointer; call and return stay
// balanced, so the processor's return predictor keeps working. Elsewhere, or with HOST_UCONTEXT, it is ucontext.
#pragma once

#if defined(__x86_64__) && !defined(HOST_UCONTEXT)
#define HOST_REGISTER_SWITCH 1
#else
#define HOST_REGISTER_SWITCH 0
#include <ucontext.h>
#endif

#if HOST_SANITIZE
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace host {

struct Stack {
    char* base = nullptr;  // lowest usable address
    size_t size = 0;
};

// A stack that is used again: frames that never returned have left their red zones on it.
inline void clean(Stack stack) {
#if HOST_SANITIZE
    __asan_unpoison_memory_region(stack.base, stack.size);
#else
    (void)stack;
#endif
}

#if HOST_REGISTER_SWITCH

struct Context {
    void* sp = nullptr;
};

extern "C" void host_switch(void** from, void* to) __asm__("host_switch");
__asm__(
    ".text\n"
    ".p2align 4\n"
    "host_switch:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n");

// Makes `context` start in entry(), which never returns, below `top`.
inline void prepare(Context& context, Stack stack, size_t stagger, void (*entry)()) {
    clean(stack);
    const uintptr_t top = (reinterpret_cast<uintptr_t>(stack.base) + stack.size - stagger) & ~uintptr_t(15);
    void** sp = reinterpret_cast<void**>(top);
    *--sp = nullptr;  // where entry() would return to: the end for a debugger that walks the stack
    *--sp = reinterpret_cast<void*>(entry);
    for (int i = 0; i < 6; ++i) *--sp = nullptr;
    context.sp = sp;
}

inline void switch_context(Context& from, Context& to) { host_switch(&from.sp, to.sp); }

#else

struct Context {
    ucontext_t context;
};

inline void prepare(Context& context, Stack stack, size_t stagger, void (*entry)()) {
    clean(stack);
    getcontext(&context.context);
    context.context.uc_stack.ss_sp = stack.base;
    context.context.uc_stack.ss_size = stack.size - (stagger & ~size_t(15));
    context.context.uc_link = nullptr;
    makecontext(&context.context, entry, 0);
}

inline void switch_context(Context& from, Context& to) { swapcontext(&from.context, &to.context); }

#endif

// The address sanitizer must be told which stack is in use.
inline void leave_for(Stack target, void** fake) {
#if HOST_SANITIZE
    __sanitizer_start_switch_fiber(fake, target.base, target.size);
#else
    (void)target, (void)fake;
#endif
}

inline void arrived(void* fake, Stack* previous) {
#if HOST_SANITIZE
    const void* base = nullptr;
    size_t size = 0;
    __sanitizer_finish_switch_fiber(fake, &base, &size);
    if (previous) *previous = {const_cast<char*>(static_cast<const char*>(base)), size};
#else
    (void)fake, (void)previous;
#endif
}

}  // namespace host
