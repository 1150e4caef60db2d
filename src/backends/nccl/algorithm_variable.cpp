// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "backends/nccl.hpp"

namespace lockstep::backends {

std::string_view name(NcclAlgorithm algorithm) {
  switch (algorithm) {
    case NcclAlgorithm::automatic: return "auto";
    case NcclAlgorithm::ring: return "ring";
    case NcclAlgorithm::tree: return "tree";
    case NcclAlgorithm::tree_order: return "tree-order";
  }
  return "unknown";
}

AlgorithmVariable::Hold::Hold(AlgorithmVariable& variable, NcclAlgorithm algorithm)
    : variable_(algorithm == NcclAlgorithm::tree_order ? nullptr : &variable) {
  if (variable_ != nullptr) variable_->take(algorithm);
}

AlgorithmVariable::Hold::~Hold() {
  if (variable_ != nullptr) variable_->let_go();
}

void AlgorithmVariable::Hold::keep() {
  if (variable_ == nullptr) return;
  const std::scoped_lock lock(variable_->mutex_);
  variable_->is_kept_ = true;
}

void AlgorithmVariable::take(NcclAlgorithm algorithm) {
  const std::scoped_lock lock(mutex_);
  if (chosen_ && *chosen_ != algorithm) {
    throw Error(ErrorCode::unsupported,
                "NCCL by the algorithm " + std::string(backends::name(algorithm)) +
                    ": an earlier communicator of this process has " + std::string(backends::name(*chosen_)) +
                    ", and a process can use only one of auto, ring and tree; run the other one in its own process");
  }
  chosen_ = algorithm;
  if (holders_++ > 0 || algorithm == NcclAlgorithm::automatic) return;
  const char* before = std::getenv(name_.c_str());
  before_ = before != nullptr ? std::optional<std::string>(before) : std::nullopt;
  // The bare form, "Ring", would apply to the other collectives too, which have no tree, and make them fail.
  setenv(name_.c_str(), algorithm == NcclAlgorithm::ring ? "allreduce:ring" : "allreduce:tree", 1);
}

void AlgorithmVariable::let_go() {
  const std::scoped_lock lock(mutex_);
  if (--holders_ > 0) return;
  if (*chosen_ != NcclAlgorithm::automatic) {
    before_ ? setenv(name_.c_str(), before_->c_str(), 1) : unsetenv(name_.c_str());
  }
  if (!is_kept_) chosen_.reset();
}

}  // namespace lockstep::backends
