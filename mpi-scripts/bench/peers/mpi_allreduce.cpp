// SPDX-License-Identifier: Apache-2.0
// mpi_allreduce times an MPI library's blocking MPI_Allreduce. Flags and exit codes: run_peer.
#include <mpi.h>

#include <array>

#include "mpi-scripts/bench/peers/peer.hpp"

namespace lockstep::peers {
namespace {

class Blocking : public comm_bench::Contender {
 public:
  using Contender::Contender;
  void run(const Collective& c) override {
    MPI_Allreduce(MPI_IN_PLACE, c.out.data, static_cast<int>(c.out.count.value), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void close() override {}
};

class MpiPeer : public Peer {
 public:
  [[nodiscard]] std::string title() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
    int length = 0;
    MPI_Get_library_version(text.data(), &length);
    const std::string version(text.data());
    return version.substr(0, version.find_first_of(",\n"));
  }
  comm_bench::Contenders contenders() override {
    comm_bench::Contenders all;
    all.push_back(std::make_unique<Blocking>("mpi"));
    return all;
  }
};

}  // namespace
}  // namespace lockstep::peers

int main(int argc, char** argv) {
  return lockstep::peers::run_peer(argc, argv, [] { return std::make_unique<lockstep::peers::MpiPeer>(); });
}
