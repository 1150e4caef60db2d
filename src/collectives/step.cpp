#include "collectives/step.hpp"

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
  std::visit(Overloaded{
                 [this](const Send& s) { add_read(s.from); },
                 [this](const Receive& s) { write_ = s.to; },
                 [this](const ReceiveReduce& s) {
                   add_read(s.own);
                   write_ = s.to;
                 },
                 [this](const Copy& s) {
                   add_read(s.from);
                   write_ = s.to;
                 },
                 [this](const Reduce& s) {
                   add_read(s.to);
                   add_read(s.from);
                   write_ = s.to;
                 },
                 [this](const Fill& s) { write_ = s.to; },
             },
             step);
}

}  // namespace lockstep::collectives
