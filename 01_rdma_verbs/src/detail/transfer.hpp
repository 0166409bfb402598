#pragma once
// What the rungs of both ladders share: checks of a call, and completions that must be successes.

#include <rungs/verbs/ladder.hpp>

#include <rungs/core/error.hpp>

#include <span>

namespace rungs::verbs::detail {

// A call that is wrong whatever the rung. Throws kInvalidArgument.
void check(const WriteArgs& args);
void check(const SendArgs& args);

// Throws kVerbs: "write 17 of 4096: remote access error".
inline void expect_success(const Completion& completion, const char* what, std::uint32_t messages) {
  if (completion.status == Status::kSuccess) return;
  RUNGS_THROW(kVerbs, what, " ", completion.id, " of ", messages, ": ",
              to_string(completion.status));
}

inline void expect_posted(const PostResult& result, std::size_t wanted, const char* what) {
  if (result.posted == wanted && result.error == PostError::kNone) return;
  RUNGS_THROW(kVerbs, what, ": ", result.posted, " of ", wanted,
              " were posted: ", to_string(result.error));
}

// A call bound to the function that does it.
template <class Args, void (*Run)(const Args&)>
class PreparedTransfer final : public ladder::Prepared {
 public:
  explicit PreparedTransfer(const Args& args) : args_(args) { check(args); }
  void operator()(gpu::StreamHandle) override { Run(args_); }

 private:
  Args args_;
};

}  // namespace rungs::verbs::detail
