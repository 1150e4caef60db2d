// SPDX-License-Identifier: Apache-2.0
// gloo_allreduce times Gloo's all-reduces between processes of one machine, over its TCP transport. MPI starts the
// processes and aligns them. Flags and exit codes: run_peer.
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/config.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "mpi-scripts/bench/peers/peer.hpp"

namespace lockstep::peers {
namespace {

using ContextPointer = std::shared_ptr<gloo::rendezvous::Context>;
using Algorithm = gloo::AllreduceOptions::Algorithm;

/// The folder through which the processes find each other. It is removed after all have.
class Rendezvous {
 public:
  Rendezvous() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    std::array<char, 64> folder{"/tmp/lockstep-gloo-XXXXXX"};
    if (rank_ == 0 && mkdtemp(folder.data()) == nullptr) throw std::runtime_error("cannot make a folder in /tmp");
    MPI_Bcast(folder.data(), static_cast<int>(folder.size()), MPI_CHAR, 0, MPI_COMM_WORLD);
    folder_ = folder.data();
  }
  /// Removes the folder. Collective.
  void close() const {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) std::filesystem::remove_all(folder_);
  }

  /// Connects all processes with each other. Collective.
  [[nodiscard]] ContextPointer connect(const std::string& name) const {
    gloo::transport::tcp::attr loopback;
    loopback.iface = "lo";
    auto device = gloo::transport::tcp::CreateDevice(loopback);
    const auto folder = folder_ / name;
    std::filesystem::create_directories(folder);
    gloo::rendezvous::FileStore store(folder.string());
    auto context = std::make_shared<gloo::rendezvous::Context>(rank_, size_);
    context->connectFullMesh(store, device);
    return context;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  std::filesystem::path folder_;
};

/// Uses the interface that PyTorch calls.
class Current : public comm_bench::Contender {
 public:
  Current(std::string name, ContextPointer context, Algorithm algorithm)
      : Contender(std::move(name)), context_(std::move(context)), algorithm_(algorithm) {}

  void run(const Collective& c) override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(algorithm_);
    options.setOutput(static_cast<float*>(c.out.data), static_cast<std::size_t>(c.out.count.value));
    options.setReduceFunction(
        [](void* to, const void* a, const void* b, std::size_t count) { gloo::sum<float>(to, a, b, count); });
    gloo::allreduce(options);
  }
  void close() override { context_.reset(); }

 private:
  ContextPointer context_;
  Algorithm algorithm_;
};

/// Uses the older interface: an object for each buffer and size, which keeps its resources between calls.
template <typename Algorithm>
class Prepared : public comm_bench::Contender {
 public:
  Prepared(std::string name, ContextPointer context) : Contender(std::move(name)), context_(std::move(context)) {}

  void run(const Collective& c) override {
    if (c.out.count != count_) {  // a new size; its first operation is a warm-up
      algorithm_.reset();
      const std::vector<float*> buffers = {static_cast<float*>(c.out.data)};
      algorithm_ = std::make_unique<Algorithm>(context_, buffers, static_cast<int>(c.out.count.value));
      count_ = c.out.count;
    }
    algorithm_->run();
  }
  void close() override {
    algorithm_.reset();
    context_.reset();
  }

 private:
  ContextPointer context_;
  Count count_{-1};
  std::unique_ptr<Algorithm> algorithm_;
};

class GlooPeer : public Peer {
 public:
  [[nodiscard]] std::string title() const override {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + '.' + std::to_string(GLOO_VERSION_MINOR) + '.' +
           std::to_string(GLOO_VERSION_PATCH);
  }
  comm_bench::Contenders contenders() override {
    using HalvingDoubling = gloo::AllreduceHalvingDoubling<float>;
    using RingChunked = gloo::AllreduceRingChunked<float>;
    const Rendezvous rendezvous;
    const auto connect = [&](const char* name) { return rendezvous.connect(name); };
    comm_bench::Contenders all;
    all.push_back(std::make_unique<Current>("ring", connect("ring"), Algorithm::RING));
    all.push_back(std::make_unique<Current>("bcube", connect("bcube"), Algorithm::BCUBE));
    all.push_back(std::make_unique<Prepared<RingChunked>>("ring-chunked", connect("ring-chunked")));
    all.push_back(std::make_unique<Prepared<HalvingDoubling>>("halving-doubling", connect("halving-doubling")));
    rendezvous.close();
    return all;
  }
};

}  // namespace
}  // namespace lockstep::peers

int main(int argc, char** argv) {
  return lockstep::peers::run_peer(argc, argv, [] { return std::make_unique<lockstep::peers::GlooPeer>(); });
}
