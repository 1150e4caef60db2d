// SPDX-License-Identifier: Apache-2.0
#include "kernels/instruction_set.hpp"
#include "lockstep/ops/reference.hpp"
#include "ops/host/host_ops.hpp"
#include "ops/reference/operators.hpp"

namespace lockstep::ops {
namespace {

class ReferenceOps final : public HostOps {
 public:
  ReferenceOps() : HostOps([](const auto& body) { body(0, 1); }) {}

  [[nodiscard]] std::string_view name() const override { return "reference"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::float32 || dtype == DType::float64; }

  [[nodiscard]] std::unique_ptr<Ops> another() const override { return make_reference_ops(); }
  [[nodiscard]] std::string arithmetic() const override {
    return std::string("reference, ") + kernels::instruction_set_of_loops();
  }

  KernelPtr reorder(const Format& /*from*/, const Format& /*to*/) override {
    throw Error(ErrorCode::unsupported, "the reference operators support plain formats only");
  }

  /// There are no alternatives, because each operator has one loop.
  [[nodiscard]] std::vector<KernelAlgorithms> candidates(const Operator& /*op*/, Formats /*inputs*/) override {
    return {};
  }
  void use(const KernelChoices& choices) override {
    choices.require(name(), {}, "the reference operators have one algorithm each");
  }
  [[nodiscard]] const KernelChoices& choices() const override { return choices_; }

 private:
  /// The kernel takes plain formats, and its traits say so to callers with other formats.
  KernelPtr make_kernel(const Operator& op, Formats inputs, const Signature& /*signature*/, DType reals) override {
    std::vector<Format> plain;
    for (const Format& format : inputs) plain.push_back(Format::plain(format.shape, format.dtype));
    const auto of_kind = [&](const auto& kind) {
      if constexpr (requires { reference::make(kind, plain, reals); }) {
        return reference::make(kind, plain, reals);
      } else {
        return reference::make(kind, plain);
      }
    };
    return std::visit(of_kind, op);
  }

  KernelChoices choices_;
};

}  // namespace

std::unique_ptr<Ops> make_reference_ops() { return std::make_unique<ReferenceOps>(); }

}  // namespace lockstep::ops
