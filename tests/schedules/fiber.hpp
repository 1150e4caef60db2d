// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::schedules {

/// A function that can be suspended and resumed, all in one thread.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Runs until the function leaves or returns. No exception may escape from it. @pre !done()
  void resume();
  /// Returns to the caller of resume(). @pre called from inside
  void leave();
  [[nodiscard]] bool done() const { return done_; }

 private:
  static void enter(unsigned high, unsigned low);
  void swap(ucontext_t& from, const ucontext_t& to);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t here_{};
  ucontext_t there_{};
  bool done_ = false;
  /// The C++ runtime counts exceptions by thread, so a fiber saves and restores its own.
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  } exceptions_;
  // These belong to the address sanitizer.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* outer_stack_ = nullptr;
  [[maybe_unused]] std::size_t outer_stack_bytes_ = 0;
};

}  // namespace lockstep::schedules
