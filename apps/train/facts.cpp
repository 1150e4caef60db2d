// SPDX-License-Identifier: Apache-2.0
#include "apps/train/facts.hpp"

#include <set>
#include <string>

#include "apps/common/facts.hpp"
#include "kernels/instruction_set.hpp"
#include "lockstep/base/error.hpp"
#include "ops/arithmetic.hpp"
#include "ops/onednn/library.hpp"
#include "platform/gpu/gpu.hpp"

namespace lockstep::train {
namespace {

/// Adds what CUDA says about the GPUs that this process may use. An error of CUDA takes the place of the facts: the
/// other ranks wait for this one, and later calls report it.
void add_gpus(std::vector<Term>& facts) {
  try {
    std::set<std::string> models;
    const int gpus = gpu_count();
    for (int gpu = 0; gpu < gpus; ++gpu) models.insert(gpu_properties(gpu).name);
    std::string list;
    for (const std::string& model : models) list += (list.empty() ? "" : ", ") + model;
    facts.push_back({"GPUs", list.empty() ? "none" : list, true});
    if (gpus == 0) return;
    const GpuVersions versions = gpu_versions();
    facts.push_back({"GPU driver for CUDA", versions.driver, true});
    facts.push_back({"CUDA runtime", versions.runtime, true});
  } catch (const Error& error) {
    facts.push_back({"GPUs", error.message(), true});
  }
}

}  // namespace

std::vector<Term> facts_to_compare(const Options& options) {
  const bool wants_gpus = options.device != "cpu" && options.cpu_reason.empty();
  const RunNature nature{.same_bits = options.trainer.step.shards > 0, .on_gpus = wants_gpus && gpu_count() > 0};
  std::vector<Term> facts = facts_of_process(nature);
  // These kernels give the same bits with every instruction set, but not the loops of operators and not oneDNN.
  facts.push_back({"kernels for", kernels::widest_instruction_set().name, true});
  facts.push_back({"operators with", ops::instruction_set_of_loops(), !nature.same_bits});
  if (options.ops == "onednn") {
    facts.push_back({"compute library", ops::onednn::library_version(), !nature.same_bits});
    facts.push_back({"oneDNN for", ops::onednn::library_instruction_set(), !nature.same_bits});
  }
  if (wants_gpus) add_gpus(facts);
  return facts;
}

}  // namespace lockstep::train
