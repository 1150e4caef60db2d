// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/work.hpp"

#include <cstdio>

namespace lockstep {

Work::~Work() {
  if (operation_ && operation_->state() == Operation::State::pending) {
    std::fputs("lockstep: a Work was destroyed before it was waited for; its buffers stay in use\n", stderr);
  }
}

void Work::wait() {
  progress_->wait([this] { return done(); });
  if (operation_->state() == Operation::State::failed) std::rethrow_exception(operation_->error());
}

bool Work::order_after(Queue queue) {
  const Progress::Exclusive exclusive(*progress_);
  return operation_->order_after(queue);
}

void Work::then(Queue queue) {
  if (queue.is_host() || !order_after(queue)) wait();
}

}  // namespace lockstep
