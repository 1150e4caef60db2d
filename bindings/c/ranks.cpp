// SPDX-License-Identifier: Apache-2.0
#include "bindings/c/ranks.hpp"

#include <mutex>
#include <optional>

#include "lockstep/platform/ranks/key_value_store.hpp"

namespace lockstep::bindings {
namespace {

class OfVariables final : public Environment {
 public:
  explicit OfVariables(const GroupOptions& options) : ranks_(from_environment(options.deadline)) {}
  [[nodiscard]] const RankSet& ranks() const override { return ranks_; }
  ProcessGroup make_group(const GroupOptions& options) override { return ProcessGroup(ranks_.dup(), options); }
  void close() override { ranks_.close(); }

 private:
  RankSet ranks_;
};

}  // namespace

std::shared_ptr<Environment> environment_of_variables(const GroupOptions& options) {
  return std::make_shared<OfVariables>(options);
}

std::shared_ptr<Environment> environment_of_this_process(const GroupOptions& options,
                                                         const std::function<void(const RankSet&)>& prepare) {
  static std::mutex mutex;
  static std::weak_ptr<Environment> known;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Environment> environment = known.lock();
  if (environment != nullptr) return environment;
  environment = environment_of_mpi(options);
  if (environment == nullptr) environment = environment_of_variables(options);
  prepare(environment->ranks());
  known = environment;
  return environment;
}

}  // namespace lockstep::bindings
