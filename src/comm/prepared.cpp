// SPDX-License-Identifier: Apache-2.0
#include "lockstep/comm/prepared.hpp"

#include <utility>

#include "comm/back_end.hpp"
#include "comm/operation.hpp"
#include "lockstep/base/error.hpp"

namespace lockstep {

Prepared::Prepared(std::unique_ptr<Preparation> preparation) : preparation_(std::move(preparation)) {}
Prepared::Prepared(Prepared&&) noexcept = default;
Prepared& Prepared::operator=(Prepared&&) noexcept = default;
Prepared::~Prepared() = default;

std::unique_ptr<Preparation> preparation_of(Prepared prepared) { return std::move(prepared.preparation_); }

void Prepared::start(Queue queue) {
  if (started_ != nullptr && state_of(*started_) == Operation::State::pending) {
    throw Error(ErrorCode::invalid_argument,
                "a prepared operation was started while it was still under way: wait for it first, or prepare another");
  }
  started_ = nullptr;
  started_ = &preparation_->start(queue);
}

}  // namespace lockstep
