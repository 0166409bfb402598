#include "worker.hpp"

#include "executor_impl.hpp"
#include "report.hpp"
#include "sanitizer.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>

namespace rungs::emulator {

__thread Worker* this_worker = nullptr;

Worker::Worker(Executor::Impl& executor, std::size_t index)
    : executor_(executor),
      index_(index),
      stacks_(&Worker::run_threads),
      lazy_(!sanitizer::thread_sanitizer()) {}

Worker::~Worker() {
  for (void* engine : engines_) __tsan_destroy_fiber(engine);
}

void* Worker::next_engine() {
  // Round robin: creating a fiber for every operation costs 0.4 ms in gcc's runtime.
  constexpr std::size_t kEngines = 32;
  if (engines_.size() < kEngines) {
    engines_.push_back(__tsan_create_fiber(0));
    __tsan_set_fiber_name(engines_.back(), "emulated async engine");
  }
  return engines_[next_engine_++ % engines_.size()];
}

// The context in which `next` goes on, and what the sanitizers must know of it. Null: the
// scheduler's.
Context Worker::activate(Thread* next, void** tsan_fiber, Stack** stack) {
  running = next;
  current_thread = next;
  if (next == nullptr) {
    *tsan_fiber = scheduler_fiber_;
    *stack = nullptr;
    return scheduler_;
  }
  Context context = next->context;
  if (next->stack == nullptr) {
    next->stack = stacks_.take();
    context = next->stack->idle;
  }
  *tsan_fiber = next->stack->tsan_fiber;
  *stack = next->stack;
  return context;
}

void Worker::switch_to(Context* save, void** fake_stack, Context to, void* tsan_fiber,
                       const Stack* stack) {
  if (sanitizer::thread_sanitizer()) __tsan_switch_to_fiber(tsan_fiber, 1);
  if (sanitizer::address_sanitizer()) {
    __sanitizer_start_switch_fiber(fake_stack, stack != nullptr ? stack->bottom : scheduler_bottom_,
                                   stack != nullptr ? stack->size_bytes : scheduler_size_);
  }
  switch_context(save, to);
}

void Worker::arrived(void* fake_stack) {
  if (sanitizer::address_sanitizer()) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void Worker::leave(Thread& self) {
  Stack& stack = *self.stack;
  if (stack_pointer() - stack.bottom < Stack::kReserveBytes) {
    std::fprintf(stderr,
                 "rungs emulator: kernel \"%s\" has used up a thread's stack of %zu KB: smaller "
                 "local arrays\n",
                 self.home().launch->name(), stack.size_bytes / 1024);
    std::abort();
  }
  counters.fiber_switches++;
  Block& block = self.home();
  const bool aborted = block.launch->aborted.load(std::memory_order_relaxed);
  Thread* next = block.direct && !aborted ? block.pick() : nullptr;
  if (next == &self) return;
  void* tsan_fiber;
  Stack* next_stack;
  const Context to = activate(next, &tsan_fiber, &next_stack);
  switch_to(&self.context, &stack.fake_stack, to, tsan_fiber, next_stack);
  arrived(stack.fake_stack);
}

void Worker::abandon(Thread& self) {
  leave(self);  // the launch is aborted: goes to the scheduler, which never picks this thread again
  std::abort();
}

void Worker::enter(Thread& thread) {
  counters.fiber_switches++;
  void* tsan_fiber;
  Stack* stack;
  const Context to = activate(&thread, &tsan_fiber, &stack);
  switch_to(&scheduler_, &scheduler_fake_stack_, to, tsan_fiber, stack);
  arrived(scheduler_fake_stack_);
}

void Worker::thread_ended(Thread& thread) {
  Block& block = thread.home();
  thread.stack = nullptr;
  block.ended.set(thread.index());
  block.live--;
  block.cluster->live--;
  block.cluster->thread_ended(block.rank, thread.index());
  progress++;
}

// The loop at the bottom of every stack.
void Worker::run_threads() {
  Worker& worker = *this_worker;
  worker.arrived(nullptr);
  if (sanitizer::thread_sanitizer()) sanitizer::ignore(true);
  for (;;) {
    Thread& thread = *worker.running;
    Stack* const stack = thread.stack;
    Block& block = thread.home();
    Launch& launch = *block.launch;
    const LaunchRequest& request = *launch.request;
    sanitizer::acquire(&launch.start_token);
    if (sanitizer::thread_sanitizer()) sanitizer::ignore(false);
    char thrown[256] = "";
    try {
      request.invoke(request.kernel, request.parameters.pointers());
    } catch (const std::exception& error) {
      std::snprintf(thrown, sizeof(thrown), "%s", error.what());
    } catch (...) {
      std::snprintf(thrown, sizeof(thrown), "something that is no std::exception");
    }
    if (sanitizer::thread_sanitizer()) sanitizer::ignore(true);
    if (thrown[0] != '\0') fail({}, "kernels must not throw", "the kernel threw: %s", thrown);
    sanitizer::release(&launch.end_token);
    worker.thread_ended(thread);

    const bool aborted = launch.aborted.load(std::memory_order_relaxed);
    Thread* next = block.direct && !aborted ? block.pick() : nullptr;
    if (next != nullptr && next->stack == nullptr && worker.lazy_) {
      next->stack = stack;
      worker.running = next;
      current_thread = next;
      continue;
    }
    // The canary lies in a cold cache line: a sample suffices, every stack is checked in the end.
    if (++worker.released_stacks_ % 32 == 0) StackPool::check_canary(*stack);
    void* tsan_fiber;
    Stack* next_stack;
    const Context to = worker.activate(next, &tsan_fiber, &next_stack);
    worker.stacks_.put(stack);  // nobody takes it before the switch
    if (sanitizer::thread_sanitizer()) sanitizer::ignore(false);  // an idle fiber may be destroyed
    worker.switch_to(&stack->idle, &stack->fake_stack, to, tsan_fiber, next_stack);
    worker.arrived(stack->fake_stack);
    if (sanitizer::thread_sanitizer()) sanitizer::ignore(true);
  }
}

}  // namespace rungs::emulator
