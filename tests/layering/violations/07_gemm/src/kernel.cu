// Breaks one rule on purpose: tests/layering/expect.cmake.
void bar() { asm volatile("bar.sync 0;"); }
