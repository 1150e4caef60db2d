// SPDX-License-Identifier: Apache-2.0
#include "collectives/plan/step.hpp"

namespace lockstep::collectives {

std::optional<Message> message(const Step& step) {
  using Result = std::optional<Message>;
  return std::visit(Overloaded{
                        [](const Send& s) -> Result {
                          return Message{s.peer, Direction::send, s.from.count};
                        },
                        [](const Receive& s) -> Result {
                          return Message{s.peer, Direction::receive, s.to.count};
                        },
                        [](const ReceiveReduce& s) -> Result {
                          return Message{s.peer, Direction::receive, s.to.count};
                        },
                        [](const auto&) -> Result { return std::nullopt; },
                    },
                    step);
}

Accesses::Accesses(const Step& step) {
  const auto read = [this](const Range& range) { reads_.push_back({self, range}); };
  const auto write = [this](const Range& range) { writes_.push_back({self, range}); };
  std::visit(Overloaded{
                 [&](const Send& s) { read(s.from); },
                 [&](const Receive& s) { write(s.to); },
                 [&](const ReceiveReduce& s) {
                   read(s.own);
                   write(s.to);
                 },
                 [&](const Copy& s) {
                   read(s.from);
                   write(s.to);
                 },
                 [&](const Reduce& s) {
                   read(s.to);
                   read(s.from);
                   write(s.to);
                 },
                 [&](const Fill& s) { write(s.to); },
                 [this](const Combine& s) {
                   reads_ = s.from;
                   writes_ = s.to;
                 },
                 [](const Publish&) {},
                 [](const Await&) {},
             },
             step);
}

}  // namespace lockstep::collectives
