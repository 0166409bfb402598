#include "context.hpp"

#if defined(__x86_64__) && !defined(RUNGS_EMULATOR_FCONTEXT)

// void switch_context(Context* save, Context to)
//
// Goes on at the return address that `to` has saved. If it is the one that the suspended flow came
// from, the processor's stack of return addresses predicts `ret`. Else it never does: in a loop
// with two barriers every thread leaves at one of them for a thread that waits at the other. Then a
// jump, which is predicted by what led to it.
asm(R"(
.text
.globl rungs_emulator_switch
.type rungs_emulator_switch, @function
rungs_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq 48(%rsi), %rax
  cmpq 48(%rsp), %rax
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  jne 1f
  ret
1:
  addq $8, %rsp
  jmp *%rax
.size rungs_emulator_switch, .-rungs_emulator_switch
)");

namespace rungs::emulator {

Context make_context(void* top, std::size_t, void (*entry)()) {
  // From the top: the return address of entry (none), entry itself, six registers.
  auto** frame = static_cast<void**>(top);
  *--frame = nullptr;
  *--frame = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; i++) *--frame = nullptr;
  return frame;
}

}  // namespace rungs::emulator

#else

#include <boost/context/detail/fcontext.hpp>

namespace rungs::emulator {
namespace {
namespace boost_context = boost::context::detail;

// fcontext hands the suspended flow to the resumed one; `data` says where the suspended one wants
// it saved.
void store(const boost_context::transfer_t& transfer) {
  *static_cast<Context*>(transfer.data) = transfer.fctx;
}

thread_local void (*starting)() = nullptr;

void start(boost_context::transfer_t transfer) {
  store(transfer);
  starting();
}
}  // namespace

Context make_context(void* top, std::size_t size, void (*entry)()) {
  starting = entry;  // one entry a thread: all stacks of a worker run the same loop
  return boost_context::make_fcontext(top, size, &start);
}

void switch_context(Context* save, Context to) { store(boost_context::jump_fcontext(to, save)); }

}  // namespace rungs::emulator

#endif
