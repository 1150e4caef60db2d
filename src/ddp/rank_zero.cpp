// SPDX-License-Identifier: Apache-2.0
#include "ddp/rank_zero.hpp"

namespace lockstep {

std::string text_of_rank(ProcessGroup& group, const std::string& text, Rank root) {
  std::string all = text;
  auto length = static_cast<std::int64_t>(all.size());
  group.control().broadcast(std::span(&length, 1), root, Queue::host(), "text of a rank").wait();
  all.resize(static_cast<std::size_t>(length));
  group.control().broadcast({all.data(), {length}, DType::uint8}, root, Queue::host(), "text of a rank").wait();
  return all;
}

void throw_on_every_rank(Communicator& communicator, const Error& error) {
  try {
    communicator.barrier("error of all ranks").wait();
  } catch (const Error&) {  // another rank has ended for another reason; what was found here says more
  }
  throw error.on_every_rank();
}

void on_rank_zero(ProcessGroup& group, const std::function<void()>& work) {
  std::optional<Error> failure;
  try {
    if (group.rank() == Rank{0}) work();
  } catch (const Error& error) {
    failure = error;
  }
  auto code = static_cast<std::int64_t>(failure ? static_cast<int>(failure->code()) : -1);
  group.control().broadcast(std::span(&code, 1), {0}, Queue::host(), "result of rank 0").wait();
  if (code < 0) return;
  const std::string why = text_of_rank(group, failure ? failure->message() : "");
  throw_on_every_rank(group.control(),
                      Error(static_cast<ErrorCode>(code), why, {.rank = group.rank().value, .host = group.host()}));
}

}  // namespace lockstep
