#include "lockstep/collectives/halving_doubling.hpp"

#include "collectives/fold.hpp"
#include "collectives/plan_builder.hpp"

namespace lockstep::collectives {
Plan halving_doubling_all_reduce(Rank me, int ranks, Count count) {
  const Fold fold(ranks);
  const Range whole{Memory::output, 0, count.value};
  PlanBuilder plan;
  if (fold.hands_over(me.value)) {
    plan.send(me.value + 1, whole);
    plan.receive(me.value + 1, whole);
    return plan.take();
  }
  if (fold.takes_over(me.value)) plan.receive_reduce(me.value - 1, whole);

  const int own = fold.participant(me.value);
  const auto partner = [&](int distance) { return fold.rank(own ^ distance); };
  std::vector<Halves> halves;
  for (int distance = 1; distance < fold.participants(); distance *= 2) {
    halves.emplace_back(halves.empty() ? whole : halves.back().kept, (own & distance) != 0);
    plan.send(partner(distance), halves.back().given);
    plan.receive_reduce(partner(distance), halves.back().kept);
  }
  for (int distance = fold.participants() / 2; distance > 0; distance /= 2) {
    plan.send(partner(distance), halves.back().kept);
    plan.receive(partner(distance), halves.back().given);
    halves.pop_back();
  }

  if (fold.takes_over(me.value)) plan.send(me.value - 1, whole);
  return plan.take();
}

Expression halving_doubling_all_reduce_order(Expressions& expressions, std::span<const Expression> contributions,
                                             Count /*count*/, std::int64_t /*element*/) {
  return balanced_order(expressions, contributions);
}

}  // namespace lockstep::collectives
