// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace lockstep::schedules {

/// A function that can be left in the middle and gone on with later, all in one thread.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  ~Fiber();

  /// Goes on until the function leaves or returns. What it throws must not leave it. @pre !done()
  void resume();
  /// Goes back to whoever resumed it. @pre called from inside
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
  /// The C++ runtime counts exceptions by thread; a fiber takes its own with it.
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  } exceptions_;
  // The address sanitizer's.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] const void* outer_stack_ = nullptr;
  [[maybe_unused]] std::size_t outer_stack_bytes_ = 0;
};

}  // namespace lockstep::schedules
